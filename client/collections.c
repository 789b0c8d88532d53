/* collections: create, drop, describe, list, delete and fetch rows. */
#include "client/client.h"

#include <stdlib.h>
#include <string.h>

static void convert(const engram_accel_v1_CollectionInfo *m, ea_collection_info *out)
{
    memcpy(out->name, m->name, sizeof out->name);
    out->dimension = m->dimension;
    out->metric = (ea_metric)m->metric;
    out->rows = m->rows;
    out->version = m->version;
    out->row_bytes = m->row_bytes;
    out->index_bytes = m->index_bytes;
    out->vram_bytes = m->vram_bytes;
    out->vram_version = m->vram_version;
}

/* Sends a filled message whose reply is one collection, or nothing of interest. */
static ea_status ask(ea_client *c, uint8_t kind, const pb_msgdesc_t *fields, const void *message,
                     bool repeatable, ea_collection_info *out)
{
    struct client_request *r = ea_request_take(c, kind);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CollectionInfo info;
    r->repeatable = repeatable;
    r->out = out ? &info : NULL;
    ea_status st = ea_request_message(c, r, fields, message);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    st = ea_call(c, r, NULL);
    if (!st && out) convert(&info, out);
    return st;
}

ea_status ea_collection_create(ea_client *c, const char *name, uint32_t dimension, ea_metric metric,
                               ea_collection_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_CollectionCreateRequest m = {.dimension = dimension,
                                                 .metric = (engram_accel_v1_Metric)metric};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (!st) st = ea_check_dimension(c, dimension);
    if (!st && (metric < EA_COSINE || metric > EA_SQUARED_EUCLIDEAN))
        st = ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_METRIC, "metric: %d, 1 to 3 wanted",
                     (int)metric);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_COLLECTION_CREATE,
               engram_accel_v1_CollectionCreateRequest_fields, &m, false, out);
}

ea_status ea_collection_drop(ea_client *c, const char *name)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_CollectionDropRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_COLLECTION_DROP,
               engram_accel_v1_CollectionDropRequest_fields, &m, false, NULL);
}

ea_status ea_collection_describe(ea_client *c, const char *name, ea_collection_info *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    engram_accel_v1_CollectionDescribeRequest m = {0};
    ea_status st = ea_check_name(c, "name", name, m.name);
    if (st) return st;
    return ask(c, engram_accel_v1_Kind_KIND_COLLECTION_DESCRIBE,
               engram_accel_v1_CollectionDescribeRequest_fields, &m, true, out);
}

static ea_status list_page(ea_client *c, const char *after,
                           engram_accel_v1_CollectionListReply *page)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_COLLECTION_LIST);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_CollectionListRequest m = {0};
    memcpy(m.after, after, strlen(after));
    r->out = page;
    ea_status st = ea_request_message(c, r, engram_accel_v1_CollectionListRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    return ea_call(c, r, NULL);
}

/* Names must rise, or a broken daemon could keep us asking for ever. */
static bool page_rises(const char *after, const engram_accel_v1_CollectionListReply *page)
{
    for (size_t i = 0; i < page->collections_count; i++) {
        if (strcmp(after, page->collections[i].name) >= 0) return false;
        after = page->collections[i].name;
    }
    return page->collections_count || !page->more;
}

ea_status ea_collection_list(ea_client *c, ea_collection_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out or count: NULL");
    ea_collection_info *list = NULL;
    size_t used = 0;
    engram_accel_v1_CollectionListReply page;
    ea_status st;
    do {
        const char *after = used ? list[used - 1].name : "";
        st = list_page(c, after, &page);
        if (!st && !page_rises(after, &page))
            st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                         "the daemon's reply: a list out of order");
        if (st) break;
        ea_collection_info *larger =
            realloc(list, (used + page.collections_count + 1) * sizeof *list);
        if (!larger) {
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
            break;
        }
        list = larger;
        for (size_t i = 0; i < page.collections_count; i++)
            convert(&page.collections[i], &list[used++]);
    } while (page.more);
    if (st) {
        free(list);
        return st;
    }
    *out = list;
    *count = used;
    return EA_OK;
}

void ea_collection_list_free(ea_collection_info *list)
{
    free(list);
}

ea_status ea_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                    uint64_t *deleted, uint64_t *missing)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_DELETE);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_DeleteRequest m = {0};
    uint64_t counts[2];
    r->out = counts;
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st)
        st = ea_request_tensor(c, r, "ids", &m.has_ids, &m.ids, engram_accel_v1_Dtype_DTYPE_UINT64,
                               ids, n, 1);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_DeleteRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    st = ea_call(c, r, NULL);
    if (st) return st;
    if (deleted) *deleted = counts[0];
    if (missing) *missing = counts[1];
    return EA_OK;
}

static ea_status fetch(ea_client *c, const char *collection, bool by_position, const uint64_t *ids,
                       uint64_t offset, uint64_t n, ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail(c, EA_INVALID_ARGUMENT, 0, "out: NULL");
    ea_result_free(out);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_FETCH);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->expect = (struct expectation){.rows = n, .by_position = by_position};
    engram_accel_v1_FetchRequest m = {.offset = offset, .limit = by_position ? n : 0};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    if (!st && !by_position)
        st = ea_request_tensor(c, r, "ids", &m.has_ids, &m.ids, engram_accel_v1_Dtype_DTYPE_UINT64,
                               ids, n, 1);
    if (!st) st = ea_request_message(c, r, engram_accel_v1_FetchRequest_fields, &m);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    return ea_call(c, r, out);
}

ea_status ea_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                   ea_result *out)
{
    return fetch(c, collection, false, ids, 0, n, out);
}

ea_status ea_fetch_range(ea_client *c, const char *collection, uint64_t offset, uint64_t limit,
                         ea_result *out)
{
    return fetch(c, collection, true, NULL, offset, limit, out);
}
