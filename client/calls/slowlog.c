/* slowlog: the call that asks which requests took long. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

static void take(const engram_accel_v1_SlowRequest *m, uint64_t instance, ea_slow_request *out)
{
    *out = (ea_slow_request){
        .number = m->number,
        .ago_ns = m->ago_ns,
        .operation = ea_operation_name((uint32_t)m->kind),
        .request_id = m->request_id,
        .status = (ea_status)m->code,
        .detail = m->detail,
        .meta = ea_reply_meta(&m->meta, instance),
        .queries = m->queries,
        .rows = m->rows,
        .dimension = m->dimension,
        .k = m->k,
        .request_bytes = m->request_bytes,
        .reply_bytes = m->reply_bytes,
    };
    memcpy(out->space, m->space, sizeof out->space);
    memcpy(out->name, m->name, sizeof out->name);
    memcpy(out->peer, m->peer, sizeof out->peer);
    ea_text_plain(out->space);
    ea_text_plain(out->name);
    ea_text_plain(out->peer);
}

static ea_status ask_page(ea_client *c, uint64_t before, engram_accel_v1_SlowlogReply *page)
{
    engram_accel_v1_SlowlogRequest m = {.before = before};
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_SLOWLOG);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    r->answer = page;
    ea_status st = ea_build_end(c, r, EA_OK, engram_accel_v1_SlowlogRequest_fields, &m, &r);
    if (!st) st = ea_call(c, r, NULL);
    /* Otherwise a faulty daemon could make the library ask for ever. */
    if (!st && page->next && ((before && page->next >= before) || !page->requests_count))
        st = ea_fail(c, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE,
                     "the daemon's reply: a list out of order");
    return st;
}

ea_status ea_get_slowlog(ea_client *c, ea_slow_request **out, size_t *count, uint64_t *total)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_SlowlogReply page = {0};
    size_t used = 0, each = c->sizes.slow_request;
    char *list = NULL;
    ea_status st;
    do {
        st = ask_page(c, page.next, &page);
        if (st) break;
        char *larger = realloc(list, (used + page.requests_count + 1) * each);
        if (!larger) {
            st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for the list");
            break;
        }
        list = larger;
        for (size_t i = 0; i < page.requests_count; i++) {
            ea_slow_request one;
            take(&page.requests[i], ea_instance(c), &one);
            ea_copy_struct(list + used++ * each, each, &one, sizeof one);
        }
    } while (page.next);
    if (st) {
        free(list);
        return st;
    }
    *out = (ea_slow_request *)list;
    *count = used;
    if (total) *total = page.total;
    return EA_OK;
}

void ea_slowlog_free(ea_slow_request *list)
{
    free(list);
}
