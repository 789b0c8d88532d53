/* memory: calls about what memory holds. */
#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"
#include "client/replies/replies.h"

static void copy_content_at(const void *page, size_t i, void *to, size_t bytes)
{
    const engram_accel_v1_MemoryContent *m =
        &((const engram_accel_v1_MemoryReply *)page)->contents[i];
    ea_memory_content content = {
        .number = m->number,
        .what = (ea_memory_what)m->what,
        .needed_bytes = m->needed_bytes,
        .taken_bytes = m->taken_bytes,
        .shared_bytes = m->shared_bytes,
        .vram_needed_bytes = m->vram_needed_bytes,
        .vram_taken_bytes = m->vram_taken_bytes,
        .card = m->card,
    };
    memcpy(content.name, m->name, sizeof content.name);
    ea_text_plain(content.name);
    ea_copy_struct(to, bytes, &content, sizeof content);
}

ea_status ea_get_memory(ea_client *c, const char *space, ea_memory_content **out, size_t *count,
                        ea_memory_space *all)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_MemoryRequest m = {0};
    engram_accel_v1_MemoryReply page;
    if (space && strlen(space) >= sizeof m.space)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SPACE,
                       "the name of the space is too long");
    if (space) memcpy(m.space, space, strlen(space));
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_MEMORY,
        .fields = engram_accel_v1_MemoryRequest_fields,
        .request = &m,
        .page = &page,
        .count = &page.contents_count,
        .first = &m.after,
        .next = &page.next,
        .copy = copy_content_at,
        .info_bytes = c->sizes.memory_content,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (st) return st;
    *out = list;
    const ea_memory_space told = {page.host_bytes, page.host_bytes_max, page.vram_bytes,
                                  page.vram_bytes_max};
    if (all) ea_copy_struct(all, c->sizes.memory_space, &told, sizeof told);
    return EA_OK;
}

static void copy_pool_at(const void *page, size_t i, void *to, size_t bytes)
{
    const engram_accel_v1_MemoryPool *m =
        &((const engram_accel_v1_MemoryHistoryReply *)page)->pools[i];
    const ea_memory_pool pool = {
        .number = m->number,
        .ago_ns = m->ago_ns,
        .of = (ea_memory_of)m->of,
        .card = m->card,
        .asked_bytes = m->asked_bytes,
        .used_bytes = m->used_bytes,
        .kept_bytes = m->kept_bytes,
        .free_bytes = m->free_bytes,
        .largest_bytes = m->largest_bytes,
    };
    ea_copy_struct(to, bytes, &pool, sizeof pool);
}

/* How many of a page are of its first look, the newest. */
static size_t count_newest(const engram_accel_v1_MemoryHistoryReply *page)
{
    size_t n = 0;
    while (n < page->pools_count && page->pools[n].number == page->pools[0].number)
        n++;
    return n;
}

ea_status ea_get_memory_pools(ea_client *c, bool history, ea_memory_pool **out, size_t *count)
{
    static const uint64_t no_next = 0;
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out || !count) return ea_fail_null(c, "out or count");
    engram_accel_v1_MemoryHistoryRequest m = {0};
    engram_accel_v1_MemoryHistoryReply page;
    const struct listing listing = {
        .kind = engram_accel_v1_Kind_KIND_MEMORY_HISTORY,
        .fields = engram_accel_v1_MemoryHistoryRequest_fields,
        .request = &m,
        .page = &page,
        .count = &page.pools_count,
        .first = &m.before,
        .next = history ? &page.next : &no_next,
        .falls = true,
        .copy = copy_pool_at,
        .info_bytes = c->sizes.memory_pool,
    };
    void *list;
    ea_status st = ea_list_all(c, &listing, &list, count);
    if (st) return st;
    *out = list;
    if (!history) *count = count_newest(&page);
    return EA_OK;
}

void ea_memory_free(void *list)
{
    free(list);
}
