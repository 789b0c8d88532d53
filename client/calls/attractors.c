/* attractors: creates, drops, describes and lists attractors. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

/* ---- create, drop, describe ---- */

static ea_status build_create(ea_client *c, const char *name, const ea_attractor_shape *shape,
                              struct client_request **out)
{
    if (!shape) return ea_fail_null(c, "shape");
    EA_TAKE(c, attractor_shape, s, shape);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_CREATE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_AttractorCreateRequest m = {
        .dimension = s.dimension, .has_sparsity = s.sparsity != NULL, .has_rate = s.rate != NULL};
    if (s.sparsity) m.sparsity = *s.sparsity;
    if (s.rate) m.rate = *s.rate;
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_change(c, r, st, engram_accel_v1_AttractorCreateRequest_fields, &m, out);
}

ea_status ea_attractor_create(ea_client *c, const char *name, const ea_attractor_shape *shape,
                              ea_attractor_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, shape, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_attractor_create_send(ea_client *c, const char *name, const ea_attractor_shape *shape,
                                   const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, shape, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_drop(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_DROP);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_AttractorDropRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_change(c, r, st, engram_accel_v1_AttractorDropRequest_fields, &m, out);
}

ea_status ea_attractor_drop(ea_client *c, const char *name)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_call(c, r, NULL);
}

ea_status ea_attractor_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                                 uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_describe(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_DESCRIBE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_AttractorDescribeRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_end(c, r, st, engram_accel_v1_AttractorDescribeRequest_fields, &m, out);
}

ea_status ea_attractor_describe(ea_client *c, const char *name, ea_attractor_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_describe(c, name, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_attractor_describe_send(ea_client *c, const char *name, const ea_send_options *how,
                                     uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_describe(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

/* ---- list ---- */

static const char *name_at(const void *page, size_t i)
{
    return ((const engram_accel_v1_AttractorListReply *)page)->attractors[i].name;
}

static void copy_at(const void *page, size_t i, void *to, size_t bytes)
{
    ea_attractor_info info;
    ea_reply_attractor(&((const engram_accel_v1_AttractorListReply *)page)->attractors[i], &info);
    ea_copy_struct(to, bytes, &info, sizeof info);
}

ea_status ea_attractor_list(ea_client *c, ea_attractor_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_AttractorListRequest m = {0};
    engram_accel_v1_AttractorListReply page;
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_ATTRACTOR_LIST,
        .fields = engram_accel_v1_AttractorListRequest_fields,
        .request = &m,
        .after = m.after,
        .page = &page,
        .count = &page.attractors_count,
        .more = &page.more,
        .name = name_at,
        .copy = copy_at,
        .info_bytes = c->sizes.attractor_info,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (!st) *out = list;
    return st;
}

void ea_attractor_list_free(ea_attractor_info *list)
{
    free(list);
}
