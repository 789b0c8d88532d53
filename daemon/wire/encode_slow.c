/* Encodes the reply to Slowlog. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_SlowlogReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds a page of slow requests");
_Static_assert(COUNT(((engram_accel_v1_SlowlogReply *)0)->requests) == ENCODE_SLOW_MAX,
               "the schema has a place for each of a page");

static engram_accel_v1_Meta meta_of(const struct wire_slow *s)
{
    return (engram_accel_v1_Meta){
        .backend = (engram_accel_v1_Backend)s->backend,
        .reason = (engram_accel_v1_Reason)s->reason,
        .queue_ns = s->queue_ns,
        .run_ns = s->run_ns,
        .copy_ns = s->copy_ns,
        .version = s->version,
        .predicted_ns = s->predicted_ns,
        .other_ns = s->other_ns,
        .wait_ns = s->wait_ns,
        .batch = s->batch,
        .total_ns = s->total_ns,
        .screened = s->screen.screened,
        .survived = s->screen.survived,
        .read_bytes = s->screen.read_bytes,
    };
}

static void fill(engram_accel_v1_SlowRequest *m, const struct wire_slow *s, bool tells_peer,
                 uint64_t now_ns)
{
    *m = (engram_accel_v1_SlowRequest){
        .number = s->number,
        .ago_ns = now_ns > s->answered_ns ? now_ns - s->answered_ns : 0,
        .kind = (engram_accel_v1_Kind)s->operation,
        .request_id = s->request_id,
        .code = s->code,
        .detail = s->detail,
        .has_meta = true,
        .meta = meta_of(s),
        .queries = s->queries,
        .rows = s->rows,
        .dimension = s->dimension,
        .k = s->k,
        .request_bytes = s->request_bytes,
        .reply_bytes = s->reply_bytes,
    };
    COPY_TEXT(m->space, s->space);
    COPY_TEXT(m->name, s->name);
    COPY_TEXT(m->peer, tells_peer ? s->peer : "");
}

size_t encode_slowlog(uint64_t request_id, const struct wire_slowlog *page, void *buffer)
{
    engram_accel_v1_SlowlogReply m = {
        .next = page->next, .total = page->total, .slow_ms = page->slow_ms};
    m.requests_count = (pb_size_t)page->count;
    for (size_t i = 0; i < page->count; i++)
        fill(&m.requests[i], page->requests[i], page->tells_peer[i], page->now_ns);
    struct frame_header h = {.kind = OPERATION_SLOWLOG, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_SlowlogReply_fields, &m, buffer);
}
