/* Memory and MemoryHistory. */
#include "tests/unit/wire/reply.h"

Test(encode_memory, a_page_of_contents)
{
    static struct wire_memory page;
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    page = (struct wire_memory){.count = ENCODE_CONTENTS_MAX,
                                .next = UINT64_MAX,
                                .host_bytes = 1,
                                .host_bytes_max = 2,
                                .vram_bytes = 3,
                                .vram_bytes_max = 4};
    for (size_t i = 0; i < page.count; i++)
        page.contents[i] = (struct wire_content){
            name, UINT64_MAX - i, WIRE_GRAPH, UINT64_MAX, 9, UINT64_MAX, 8, UINT64_MAX, UINT32_MAX};
    check_frame(encode_memory(3, &page, fresh()), OPERATION_MEMORY, 1, 3);
    static engram_accel_v1_MemoryReply m;
    read_message(engram_accel_v1_MemoryReply_fields, &m);
    cr_assert(m.next == UINT64_MAX && m.contents_count == ENCODE_CONTENTS_MAX);
    cr_assert(m.host_bytes == 1 && m.host_bytes_max == 2 && m.vram_bytes == 3);
    cr_assert_eq(m.vram_bytes_max, 4);
    const engram_accel_v1_MemoryContent *last = &m.contents[ENCODE_CONTENTS_MAX - 1];
    cr_assert_eq(last->number, UINT64_MAX - ENCODE_CONTENTS_MAX + 1);
    cr_assert_eq(last->what, engram_accel_v1_MemoryContent_What_GRAPH);
    cr_assert_str_eq(last->name, name);
    cr_assert(last->needed_bytes == UINT64_MAX && last->taken_bytes == 9);
    cr_assert(last->shared_bytes == UINT64_MAX && last->vram_needed_bytes == 8);
    cr_assert(last->vram_taken_bytes == UINT64_MAX && last->card == UINT32_MAX);
}

Test(encode_memory, a_page_of_pools)
{
    static struct wire_pools page;
    page = (struct wire_pools){.count = ENCODE_POOLS_MAX, .next = 7, .now_ns = 500};
    for (size_t i = 0; i < page.count; i++)
        page.pools[i] = (struct wire_pool){.number = UINT64_MAX,
                                           .seen_ns = i ? 400 : 600,
                                           .kind = WIRE_POOL_REPLICAS,
                                           .card = UINT32_MAX,
                                           .asked_bytes = 1,
                                           .used_bytes = 2,
                                           .kept_bytes = 3,
                                           .free_bytes = UINT64_MAX,
                                           .largest_bytes = UINT64_MAX};
    check_frame(encode_memory_history(4, &page, fresh()), OPERATION_MEMORY_HISTORY, 1, 4);
    static engram_accel_v1_MemoryHistoryReply m;
    read_message(engram_accel_v1_MemoryHistoryReply_fields, &m);
    cr_assert(m.next == 7 && m.pools_count == ENCODE_POOLS_MAX);
    cr_assert(m.pools[0].ago_ns == 0 && m.pools[1].ago_ns == 100);
    const engram_accel_v1_MemoryPool *p = &m.pools[ENCODE_POOLS_MAX - 1];
    cr_assert(p->number == UINT64_MAX && p->card == UINT32_MAX);
    cr_assert_eq(p->of, engram_accel_v1_MemoryPool_Of_REPLICAS);
    cr_assert(p->asked_bytes == 1 && p->used_bytes == 2 && p->kept_bytes == 3);
    cr_assert(p->free_bytes == UINT64_MAX && p->largest_bytes == UINT64_MAX);
}
