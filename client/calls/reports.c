/* reports: calls about the daemon itself. */
#include "client/calls/calls.h"

static ea_status build(ea_client *c, uint8_t kind, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, kind);
    return r ? ea_build_end(c, r, EA_OK, NULL, NULL, out) : EA_RESOURCE_EXHAUSTED;
}

static ea_status ask(ea_client *c, uint8_t kind, void *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    struct client_request *r;
    ea_status st = build(c, kind, &r);
    return st ? st : ea_call(c, r, out);
}

static ea_status ask_send(ea_client *c, uint8_t kind, const ea_send_options *how,
                          uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build(c, kind, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

ea_status ea_ping(ea_client *c)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build(c, engram_accel_v1_Kind_KIND_PING, &r);
    return st ? st : ea_call(c, r, NULL);
}

ea_status ea_ping_send(ea_client *c, const ea_send_options *how, uint64_t *request_id)
{
    return ask_send(c, engram_accel_v1_Kind_KIND_PING, how, request_id);
}

ea_status ea_get_info(ea_client *c, ea_info *out)
{
    return ask(c, engram_accel_v1_Kind_KIND_INFO, out);
}

ea_status ea_get_info_send(ea_client *c, const ea_send_options *how, uint64_t *request_id)
{
    return ask_send(c, engram_accel_v1_Kind_KIND_INFO, how, request_id);
}

ea_status ea_get_stats(ea_client *c, ea_stats *out)
{
    return ask(c, engram_accel_v1_Kind_KIND_STATS, out);
}

ea_status ea_get_stats_send(ea_client *c, const ea_send_options *how, uint64_t *request_id)
{
    return ask_send(c, engram_accel_v1_Kind_KIND_STATS, how, request_id);
}

static ea_status build_explain(ea_client *c, uint32_t last, struct client_request **out)
{
    if (last > EA_DECISIONS_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, 0, "last: %u, 0 to %d wanted", last,
                       EA_DECISIONS_MAX);
    engram_accel_v1_ExplainRequest m = {.last = last};
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_EXPLAIN);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    return ea_build_end(c, r, EA_OK, engram_accel_v1_ExplainRequest_fields, &m, out);
}

ea_status ea_explain(ea_client *c, uint32_t last, ea_explanation *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    struct client_request *r;
    ea_status st = build_explain(c, last, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_explain_send(ea_client *c, uint32_t last, const ea_send_options *how,
                          uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_explain(c, last, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
