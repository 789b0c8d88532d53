/* objects: what is asked of collections, graphs and attractors alike. */
#include "client/calls/calls.h"

static ea_status build_swap(ea_client *c, ea_object object, const char *name, const char *with,
                            struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SWAP);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_SwapRequest m = {.object = (engram_accel_v1_ObjectKind)object};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (!st) st = ea_check_name(c, "with", with, m.with);
    return ea_build_change(c, r, st, engram_accel_v1_SwapRequest_fields, &m, out);
}

ea_status ea_swap(ea_client *c, ea_object object, const char *name, const char *with,
                  ea_swapped *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_swap(c, object, name, with, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_swap_send(ea_client *c, ea_object object, const char *name, const char *with,
                       const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_swap(c, object, name, with, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
