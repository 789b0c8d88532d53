#include "daemon/http/access.h"

enum status access_read(const struct config *c, struct guard *out, struct failure *f)
{
    const struct secret_source from = {"metrics.token_file", c->metrics_token_file, true};
    struct guard read = {.open = c->metrics_open};
    if (!from.path[0] && !c->metrics_open)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "metrics.token_file: empty while metrics.open is false: nobody could "
                           "read /metrics");
    if (from.path[0]) {
        enum status st = secret_read(&from, &read.token, f);
        if (st) return st;
    }
    *out = read;
    return STATUS_OK;
}
