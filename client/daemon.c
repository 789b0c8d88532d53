/* daemon: calls about the daemon itself. */
#include "client/client.h"

ea_status ea_ping(ea_client *c)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_PING);
    return r ? ea_call(c, r, NULL) : EA_RESOURCE_EXHAUSTED;
}

static ea_status ask(ea_client *c, uint8_t kind, void *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    struct client_request *r = ea_request_take(c, kind);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->out = out;
    return ea_call(c, r, NULL);
}

ea_status ea_get_info(ea_client *c, ea_info *out)
{
    return ask(c, engram_accel_v1_Kind_KIND_INFO, out);
}

ea_status ea_get_stats(ea_client *c, ea_stats *out)
{
    return ask(c, engram_accel_v1_Kind_KIND_STATS, out);
}

ea_status ea_explain(ea_client *c, uint32_t last, ea_explanation *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    if (last > EA_DECISIONS_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, 0, "last: %u, 0 to %d wanted", last,
                       EA_DECISIONS_MAX);
    engram_accel_v1_ExplainRequest m = {.last = last};
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_EXPLAIN);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->out = out;
    ea_status st = ea_request_message(c, r, engram_accel_v1_ExplainRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    return ea_call(c, r, NULL);
}
