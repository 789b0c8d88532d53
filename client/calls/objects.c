/* objects: what is asked of collections, graphs and attractors alike. */
#include <stdlib.h>
#include <string.h>

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

/* ---- changes ---- */

static void take_object(const engram_accel_v1_ObjectVersion *m, void *to, size_t bytes)
{
    ea_object_version one = {.object = (ea_object)m->object, .version = m->version};
    memcpy(one.name, m->name, sizeof one.name);
    ea_copy_struct(to, bytes, &one, sizeof one);
}

/* Whether each stands behind the one before it, else a faulty daemon could go on for ever. */
static bool goes_on(const engram_accel_v1_ChangesReply *page, engram_accel_v1_ObjectKind object,
                    const char *name)
{
    for (pb_size_t i = 0; i < page->objects_count; i++) {
        const engram_accel_v1_ObjectVersion *o = &page->objects[i];
        if (o->object < object || (o->object == object && strcmp(o->name, name) <= 0)) return false;
        object = o->object;
        name = o->name;
    }
    return page->objects_count || !page->more;
}

static ea_status ask_page(ea_client *c, const engram_accel_v1_ChangesRequest *m,
                          engram_accel_v1_ChangesReply *page)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CHANGES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->answer = page;
    ea_status st = ea_build_end(c, r, EA_OK, engram_accel_v1_ChangesRequest_fields, m, &r);
    if (!st) st = ea_call(c, r, NULL);
    if (!st && !goes_on(page, m->after_object, m->after))
        st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                     "the daemon's reply: changes out of order");
    return st;
}

ea_status ea_changes(ea_client *c, uint64_t since, ea_object_version **out, size_t *count,
                     uint64_t *now, uint64_t *total)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_ChangesRequest m = {.since = since};
    engram_accel_v1_ChangesReply page;
    size_t used = 0, each = c->sizes.object_version;
    char *list = NULL;
    uint64_t first = 0;
    ea_status st;
    do {
        st = ask_page(c, &m, &page);
        if (st) break;
        if (!used) first = page.meta.version;
        char *larger = realloc(list, (used + page.objects_count + 1) * each);
        if (!larger) {
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
            break;
        }
        list = larger;
        for (pb_size_t i = 0; i < page.objects_count; i++) {
            take_object(&page.objects[i], list + used++ * each, each);
            m.after_object = page.objects[i].object;
            memcpy(m.after, page.objects[i].name, sizeof page.objects[i].name);
        }
    } while (page.more);
    if (st) {
        free(list);
        return st;
    }
    *out = (ea_object_version *)(void *)list;
    *count = used;
    if (now) *now = first;
    if (total) *total = page.total;
    return EA_OK;
}

void ea_changes_free(ea_object_version *list)
{
    free(list);
}

/* ---- scans ---- */

/* The page after it: where it begins, and with which cursor. */
static void move_on(ea_cursor *at, uint64_t read, uint64_t cursor, uint64_t positions,
                    uint64_t version)
{
    at->position += read;
    at->positions = positions;
    at->version = version;
    at->number = cursor;
    at->at_end = !cursor || !read;
}

ea_status ea_scan_rows(ea_client *c, const char *collection, ea_cursor *at, uint64_t limit,
                       ea_result *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!at || !out) return ea_fail_null(c, "at or out");
    ea_result_free(out);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_FETCH);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false; /* a cursor goes with its connection */
    r->expect = (struct expectation){.rows = limit, .by_position = true};
    engram_accel_v1_FetchRequest m = {
        .offset = at->position, .limit = limit, .cursor = at->number, .keep = !at->number};
    ea_status st = ea_check_name(c, "collection", collection, m.collection);
    st = ea_build_end(c, r, st, engram_accel_v1_FetchRequest_fields, &m, &r);
    if (!st) st = ea_call(c, r, out);
    if (!st) move_on(at, out->rows, out->cursor, out->positions, out->meta->version);
    return st;
}

ea_status ea_scan_nodes(ea_client *c, const char *graph, ea_cursor *at, uint64_t limit, bool edges,
                        ea_nodes *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!at || !out) return ea_fail_null(c, "at or out");
    ea_nodes_free(out);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_GRAPH_FETCH_NODES);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->repeatable = false;
    r->expect = (struct expectation){.rows = limit, .by_position = true, .edges = edges};
    engram_accel_v1_GraphFetchNodesRequest m = {.offset = at->position,
                                                .limit = limit,
                                                .edges = edges,
                                                .cursor = at->number,
                                                .keep = !at->number};
    ea_status st = ea_check_name(c, "graph", graph, m.graph);
    st = ea_build_end(c, r, st, engram_accel_v1_GraphFetchNodesRequest_fields, &m, &r);
    if (!st) st = ea_call(c, r, out);
    if (!st) move_on(at, out->count, out->cursor, out->positions, out->meta->version);
    return st;
}
