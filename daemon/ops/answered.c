/* answered: checks of requests that the loop answers; request/ has their behaviour. */
#include <inttypes.h>
#include <string.h>

#include "daemon/ops/check.h"
#include "daemon/ops/operation.h"
#include "daemon/store/space.h"

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

static enum status swap_check(struct job *j)
{
    const struct job_request *q = &j->request;
    if (q->object < OBJECT_COLLECTION || q->object > OBJECT_ATTRACTOR)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "object: %" PRIu32 "; 1 collection, 2 graph, 3 attractor", q->object);
    if (collection_name_check(q->names[0], &j->failure)) return j->failure.code;
    if (name_is_hidden(q->names[0]) || strcmp(q->names[0], q->names[1]) == 0)
        return check_refuse(j, DETAIL_BAD_NAME, "name: it is hidden, or the same as `with`");
    return STATUS_OK;
}

const struct operation_ops operation_swap = {.check = swap_check};
const struct operation_ops operation_explain = {.check = explain_check};
const struct operation_ops operation_collection_create = {.check = create_check};
