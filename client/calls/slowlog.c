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

struct slow_page {
    engram_accel_v1_SlowlogReply reply; /* first: the answer to a request is read into it */
    const ea_client *client;
};

static void copy_at(const void *page, size_t i, void *to, size_t bytes)
{
    const struct slow_page *p = page;
    ea_slow_request one;
    take(&p->reply.requests[i], ea_instance(p->client), &one);
    ea_copy_struct(to, bytes, &one, sizeof one);
}

ea_status ea_get_slowlog(ea_client *c, ea_slow_request **out, size_t *count, uint64_t *total)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_SlowlogRequest m = {0};
    struct slow_page page = {.client = c};
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_SLOWLOG,
        .fields = engram_accel_v1_SlowlogRequest_fields,
        .request = &m,
        .page = &page,
        .count = &page.reply.requests_count,
        .first = &m.before,
        .next = &page.reply.next,
        .falls = true,
        .copy = copy_at,
        .info_bytes = c->sizes.slow_request,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (st) return st;
    *out = list;
    if (total) *total = page.reply.total;
    return EA_OK;
}

void ea_slowlog_free(ea_slow_request *list)
{
    free(list);
}
