/* Encodes the replies to Memory and MemoryHistory. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_MemoryReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_MemoryHistoryReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds a page");
_Static_assert(COUNT(((engram_accel_v1_MemoryReply *)0)->contents) == ENCODE_CONTENTS_MAX &&
                   COUNT(((engram_accel_v1_MemoryHistoryReply *)0)->pools) == ENCODE_POOLS_MAX,
               "the schema has a place for each of a page");

size_t encode_memory(uint64_t request_id, const struct wire_memory *page, void *buffer)
{
    engram_accel_v1_MemoryReply m = {
        .next = page->next,
        .host_bytes = page->host_bytes,
        .host_bytes_max = page->host_bytes_max,
        .vram_bytes = page->vram_bytes,
        .vram_bytes_max = page->vram_bytes_max,
    };
    m.contents_count = (pb_size_t)page->count;
    for (size_t i = 0; i < page->count; i++) {
        const struct wire_content *c = &page->contents[i];
        m.contents[i] = (engram_accel_v1_MemoryContent){
            .number = c->number,
            .what = (engram_accel_v1_MemoryContent_What)c->kind,
            .needed_bytes = c->needed_bytes,
            .taken_bytes = c->taken_bytes,
            .shared_bytes = c->shared_bytes,
            .vram_needed_bytes = c->vram_needed_bytes,
            .vram_taken_bytes = c->vram_taken_bytes,
            .card = c->card,
        };
        COPY_TEXT(m.contents[i].name, c->name);
    }
    struct frame_header h = {.kind = OPERATION_MEMORY, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_MemoryReply_fields, &m, buffer);
}

size_t encode_memory_history(uint64_t request_id, const struct wire_pools *page, void *buffer)
{
    engram_accel_v1_MemoryHistoryReply m = {.next = page->next};
    m.pools_count = (pb_size_t)page->count;
    for (size_t i = 0; i < page->count; i++) {
        const struct wire_pool *p = &page->pools[i];
        m.pools[i] = (engram_accel_v1_MemoryPool){
            .number = p->number,
            .ago_ns = page->now_ns > p->seen_ns ? page->now_ns - p->seen_ns : 0,
            .of = (engram_accel_v1_MemoryPool_Of)p->kind,
            .card = p->card,
            .asked_bytes = p->asked_bytes,
            .used_bytes = p->used_bytes,
            .kept_bytes = p->kept_bytes,
            .free_bytes = p->free_bytes,
            .largest_bytes = p->largest_bytes,
        };
    }
    struct frame_header h = {.kind = OPERATION_MEMORY_HISTORY, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_MemoryHistoryReply_fields, &m, buffer);
}
