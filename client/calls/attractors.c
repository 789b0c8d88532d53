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

static ea_status list_page(ea_client *c, const char *after,
                           engram_accel_v1_AttractorListReply *page)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_ATTRACTOR_LIST);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_AttractorListRequest m = {0};
    memcpy(m.after, after, strlen(after));
    r->answer = page;
    ea_status st = ea_build_end(c, r, EA_OK, engram_accel_v1_AttractorListRequest_fields, &m, &r);
    return st ? st : ea_call(c, r, NULL);
}

/* Names must rise; otherwise a faulty daemon could make the library ask for ever. */
static bool page_rises(const char *after, const engram_accel_v1_AttractorListReply *page)
{
    for (size_t i = 0; i < page->attractors_count; i++) {
        if (strcmp(after, page->attractors[i].name) >= 0) return false;
        after = page->attractors[i].name;
    }
    return page->attractors_count || !page->more;
}

/* Appends a page to *list, whose elements have the size of the caller's struct. */
static bool add_page(ea_client *c, const engram_accel_v1_AttractorListReply *page, char **list,
                     size_t *used)
{
    size_t bytes = c->sizes.attractor_info;
    char *larger = realloc(*list, (*used + page->attractors_count + 1) * bytes);
    if (!larger) return false;
    *list = larger;
    for (size_t i = 0; i < page->attractors_count; i++) {
        ea_attractor_info info;
        ea_reply_attractor(&page->attractors[i], &info);
        ea_copy_struct(larger + (*used)++ * bytes, bytes, &info, sizeof info);
    }
    return true;
}

ea_status ea_attractor_list(ea_client *c, ea_attractor_info **out, size_t *count)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    char *list = NULL, after[EA_NAME_MAX + 1] = "";
    size_t used = 0;
    engram_accel_v1_AttractorListReply page;
    ea_status st;
    do {
        st = list_page(c, after, &page);
        if (!st && !page_rises(after, &page))
            st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                         "the daemon's reply: a list out of order");
        if (!st && !add_page(c, &page, &list, &used))
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
        if (st) break;
        if (page.attractors_count)
            memcpy(after, page.attractors[page.attractors_count - 1].name, sizeof after);
    } while (page.more);
    if (st) {
        free(list);
        return st;
    }
    *out = (ea_attractor_info *)(void *)list;
    *count = used;
    return EA_OK;
}

void ea_attractor_list_free(ea_attractor_info *list)
{
    free(list);
}
