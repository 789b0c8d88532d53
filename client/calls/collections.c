/* collections: creates, drops, describes and lists collections, deletes and fetches rows. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

/* ---- create, drop, describe ---- */

static ea_status build_create(ea_client *c, const char *name, uint32_t dimension, ea_metric metric,
                              struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COLLECTION_CREATE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_CollectionCreateRequest m = {.dimension = dimension,
                                                 .metric = (engram_accel_v1_Metric)metric};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st && (metric < EA_COSINE || metric > EA_SQUARED_EUCLIDEAN))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_METRIC, "metric: %d, 1 to 3 wanted",
                     (int)metric);
    return ea_build_change(c, r, st, engram_accel_v1_CollectionCreateRequest_fields, &m, out);
}

ea_status ea_collection_create(ea_client *c, const char *name, uint32_t dimension, ea_metric metric,
                               ea_collection_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, dimension, metric, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_collection_create_send(ea_client *c, const char *name, uint32_t dimension,
                                    ea_metric metric, const ea_send_options *how,
                                    uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_create(c, name, dimension, metric, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_drop(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COLLECTION_DROP);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    engram_accel_v1_CollectionDropRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_change(c, r, st, engram_accel_v1_CollectionDropRequest_fields, &m, out);
}

ea_status ea_collection_drop(ea_client *c, const char *name)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_call(c, r, NULL);
}

ea_status ea_collection_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                                  uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_drop(c, name, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_describe(ea_client *c, const char *name, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COLLECTION_DESCRIBE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CollectionDescribeRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    return ea_build_end(c, r, st, engram_accel_v1_CollectionDescribeRequest_fields, &m, out);
}

ea_status ea_collection_describe(ea_client *c, const char *name, ea_collection_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_describe(c, name, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_collection_describe_send(ea_client *c, const char *name, const ea_send_options *how,
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
    return ((const engram_accel_v1_CollectionListReply *)page)->collections[i].name;
}

static void copy_at(const void *page, size_t i, void *to, size_t bytes)
{
    ea_collection_info info;
    ea_reply_collection(&((const engram_accel_v1_CollectionListReply *)page)->collections[i],
                        &info);
    ea_copy_struct(to, bytes, &info, sizeof info);
}

ea_status ea_collection_list(ea_client *c, ea_collection_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_CollectionListRequest m = {0};
    engram_accel_v1_CollectionListReply page;
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_COLLECTION_LIST,
        .fields = engram_accel_v1_CollectionListRequest_fields,
        .request = &m,
        .after = m.after,
        .page = &page,
        .count = &page.collections_count,
        .more = &page.more,
        .name = name_at,
        .copy = copy_at,
        .info_bytes = c->sizes.collection_info,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (!st) *out = list;
    return st;
}

void ea_collection_list_free(ea_collection_info *list)
{
    free(list);
}

/* ---- rows ---- */

static ea_status build_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                              struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_DELETE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_DeleteRequest m = {0};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = TENSOR(m, ids, U64, ids, n, 1);
    return ea_build_change(c, r, st, engram_accel_v1_DeleteRequest_fields, &m, out);
}

ea_status ea_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                    ea_delete_counts *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_delete(c, collection, ids, n, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_delete_send(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                         const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_delete(c, collection, ids, n, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

static ea_status build_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                             struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_FETCH);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->expect = (struct expectation){.rows = n};
    engram_accel_v1_FetchRequest m = {0};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st) st = TENSOR(m, ids, U64, ids, n, 1);
    return ea_build_end(c, r, st, engram_accel_v1_FetchRequest_fields, &m, out);
}

static ea_status build_fetch_range(ea_client *c, const char *collection, uint64_t offset,
                                   uint64_t limit, struct client_request **out)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_FETCH);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->expect = (struct expectation){.rows = limit, .by_position = true};
    engram_accel_v1_FetchRequest m = {.offset = offset, .limit = limit};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    return ea_build_end(c, r, st, engram_accel_v1_FetchRequest_fields, &m, out);
}

ea_status ea_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                   ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = build_fetch(c, collection, ids, n, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_fetch_send(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                        const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_fetch(c, collection, ids, n, &r);
    return st ? st : ea_send(c, r, how, request_id);
}

ea_status ea_fetch_range(ea_client *c, const char *collection, uint64_t offset, uint64_t limit,
                         ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_result_free(out);
    struct client_request *r;
    ea_status st = build_fetch_range(c, collection, offset, limit, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_fetch_range_send(ea_client *c, const char *collection, uint64_t offset, uint64_t limit,
                              const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build_fetch_range(c, collection, offset, limit, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
