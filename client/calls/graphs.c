/* graphs: creates, drops, describes and lists graphs. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

/* ---- create, drop, describe ---- */

static ea_status build_create(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_CREATE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_GraphCreateRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_change(c, r, st, engram_accel_v1_GraphCreateRequest_fields, &m, out);
}

ea_status ea_graph_create(ea_client *c, const char *name, ea_graph_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_create_send(ea_client *c, const char *name, const ea_send_options *how,
                               uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_drop(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_DROP);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_GraphDropRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_change(c, r, st, engram_accel_v1_GraphDropRequest_fields, &m, out);
}

ea_status ea_graph_drop(ea_client *c, const char *name)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_call(c, r, NULL);
}

ea_status ea_graph_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                             uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_describe(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_DESCRIBE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_GraphDescribeRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_end(c, r, st, engram_accel_v1_GraphDescribeRequest_fields, &m, out);
}

ea_status ea_graph_describe(ea_client *c, const char *name, ea_graph_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_describe(c, name, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_graph_describe_send(ea_client *c, const char *name, const ea_send_options *how,
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
    return ((const engram_accel_v1_GraphListReply *)page)->graphs[i].name;
}

static void copy_at(const void *page, size_t i, void *to, size_t bytes)
{
    ea_graph_info info;
    ea_reply_graph(&((const engram_accel_v1_GraphListReply *)page)->graphs[i], &info);
    ea_copy_struct(to, bytes, &info, sizeof info);
}

ea_status ea_graph_list(ea_client *c, ea_graph_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_GraphListRequest m = {0};
    engram_accel_v1_GraphListReply page;
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_GRAPH_LIST,
        .fields = engram_accel_v1_GraphListRequest_fields,
        .request = &m,
        .after = m.after,
        .page = &page,
        .count = &page.graphs_count,
        .more = &page.more,
        .name = name_at,
        .copy = copy_at,
        .info_bytes = c->sizes.graph_info,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (!st) *out = list;
    return st;
}

void ea_graph_list_free(ea_graph_info *list)
{
    free(list);
}
