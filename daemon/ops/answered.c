/* answered: checks of requests that the loop answers; request/ has their behaviour. */
#include <inttypes.h>

#include "daemon/ops/check.h"
#include "daemon/ops/operation.h"

enum { EXPLAIN_LAST_MAX = 64 };

static enum status explain_check(struct job *j)
{
    if (j->request.last <= EXPLAIN_LAST_MAX) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                       "last: %" PRIu32 ", 0 to %d wanted", j->request.last, EXPLAIN_LAST_MAX);
}

static enum status create_check(struct job *j)
{
    return check_metric(j, true);
}

const struct operation_ops operation_explain = {.check = explain_check};
const struct operation_ops operation_collection_create = {.check = create_check};
