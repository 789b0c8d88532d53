#include "daemon/report/memory_history.h"

#include <string.h>

#include "daemon/report/cards_report.h"

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct wire_pool of_host(struct heap *heap)
{
    struct heap_usage u = heap_usage(heap);
    return (struct wire_pool){
        .kind = WIRE_POOL_HOST,
        .asked_bytes = u.bytes_asked,
        .used_bytes = u.bytes_used,
        .kept_bytes = u.bytes_cached + u.bytes_releasing,
        .free_bytes = u.bytes_free,
        .largest_bytes = u.bytes_largest,
    };
}

/* The process may write anything. */
static struct wire_pool of_requests(const struct wire_gpu_stats *g)
{
    uint64_t used = less(g->request_bytes, g->slab_bytes), free_bytes = g->slab_bytes - used;
    return (struct wire_pool){
        .kind = WIRE_POOL_REQUESTS,
        .card = g->number,
        .asked_bytes = less(g->asked_bytes, used),
        .used_bytes = used,
        .free_bytes = free_bytes,
        .largest_bytes = less(g->largest_bytes, free_bytes),
    };
}

/* Replicas are mapped in pieces, wherever there are some: any free byte can be had. */
static struct wire_pool of_replicas(const struct wire_gpu_stats *g, uint64_t needed)
{
    uint64_t taken = g->replica_bytes,
             most = g->budget_bytes - less(g->slab_bytes, g->budget_bytes);
    uint64_t free_bytes = less(most - less(taken, most), g->free_bytes);
    return (struct wire_pool){
        .kind = WIRE_POOL_REPLICAS,
        .card = g->number,
        .asked_bytes = less(needed, taken),
        .used_bytes = taken,
        .free_bytes = free_bytes,
        .largest_bytes = free_bytes,
    };
}

static void add_needed(void *to, const struct space *s, uint32_t card, uint64_t bytes,
                       uint64_t needed)
{
    uint64_t *by_card = to;
    if (card < WIRE_GPUS_MAX) by_card[card] += needed;
}

size_t memory_pools(const struct report_sources *from, struct wire_pool out[POOLS_A_LOOK_MAX])
{
    struct cards_seen seen;
    struct wire_stats said = {0};
    uint64_t needed[WIRE_GPUS_MAX] = {0};
    cards_look(from->gpu, &seen);
    cards_report_stats(&seen, NULL, from->now_ns, &said);
    replicas_count(from->gpu, add_needed, needed);
    size_t count = 0;
    out[count++] = of_host(from->heap);
    for (uint32_t i = 0; i < said.gpu_count; i++) {
        if (said.gpus[i].state != WIRE_GPU_READY) continue;
        out[count++] = of_requests(&said.gpus[i]);
        out[count++] = of_replicas(&said.gpus[i], needed[i]);
    }
    for (size_t i = 0; i < count; i++)
        out[i].seen_ns = from->now_ns;
    return count;
}

void memory_history_keep(struct memory_history *h, const struct report_sources *from,
                         uint64_t gap_ns)
{
    struct wire_pool now[POOLS_A_LOOK_MAX];
    h->next_ns = from->now_ns + gap_ns;
    size_t count = memory_pools(from, now);
    h->looks++;
    for (size_t i = 0; i < count; i++) {
        now[i].number = h->looks;
        h->kept[h->count++ % POOLS_KEPT] = now[i];
    }
}

/* Of pool number i, from 0 on. */
static const struct wire_pool *at(const struct memory_history *h, uint64_t i)
{
    return &h->kept[i % POOLS_KEPT];
}

/* The look that ends before `end` begins there; it is whole, or there is none: gives `end`. */
static uint64_t begin_of(const struct memory_history *h, uint64_t end)
{
    uint64_t oldest = h->count > POOLS_KEPT ? h->count - POOLS_KEPT : 0, begin = end;
    while (begin > oldest && at(h, begin - 1)->number == at(h, end - 1)->number)
        begin--;
    return begin < end && at(h, begin)->kind == WIRE_POOL_HOST ? begin : end;
}

static bool add(struct wire_pools *out, const struct wire_pool *pools, size_t count)
{
    if (out->count + count > ENCODE_POOLS_MAX) return false;
    memcpy(&out->pools[out->count], pools, count * sizeof *pools);
    out->count += count;
    return true;
}

void memory_history_page(const struct memory_history *h, const struct report_sources *from,
                         uint64_t before, struct wire_pools *out)
{
    struct wire_pool look[POOLS_A_LOOK_MAX];
    uint64_t end = h->count, begin;
    *out = (struct wire_pools){.now_ns = from->now_ns};
    if (!before) {
        size_t count = memory_pools(from, look);
        for (size_t i = 0; i < count; i++)
            look[i].number = h->looks + 1;
        add(out, look, count);
    }
    for (; (begin = end ? begin_of(h, end) : end) < end; end = begin) {
        if (before && at(h, begin)->number >= before) continue;
        for (uint64_t i = begin; i < end; i++)
            look[i - begin] = *at(h, i);
        if (!add(out, look, (size_t)(end - begin))) {
            out->next = at(h, begin)->number + 1;
            return;
        }
    }
}
