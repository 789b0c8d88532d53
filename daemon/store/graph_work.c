#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/store/graph_inside.h"

/* A workspace is made for some more nodes than the graph has, so that a growing graph does not
 * outgrow it at once; pages that no run touches take no memory. */
enum { KEPT_MAX = 64, NODES_MIN = 1024, HEAP_SHARE = 8 };
/* One workspace is always kept. Untouched pages count too, towards the heap and the quotas. */
#define KEPT_BYTES_MIN (UINT64_C(256) << 20)

static uint32_t nodes_for(uint32_t numbers)
{
    uint64_t nodes = (uint64_t)numbers + numbers / 8;
    return nodes < NODES_MIN ? NODES_MIN : (uint32_t)nodes;
}

/* The bytes of workspaces that this graph may keep: a share of the space's quota, less what its
 * other graphs keep. With several kept, each worker finds one whose pages are already there. */
static uint64_t kept_bytes_max(const struct graph *g)
{
    const struct space *space = g->resident.space;
    uint64_t share = heap_owner_bytes_max(g->heap, space->number) / HEAP_SHARE;
    uint64_t own = atomic_load_explicit(&g->work_bytes, memory_order_relaxed);
    uint64_t all = __atomic_load_n(&space->work_bytes, __ATOMIC_RELAXED);
    uint64_t others = all > own ? all - own : 0;
    return share > others + KEPT_BYTES_MIN ? share - others : KEPT_BYTES_MIN;
}

static bool may_keep(const struct graph *g, uint64_t bytes)
{
    return bytes <= KEPT_BYTES_MIN || bytes <= kept_bytes_max(g);
}

uint32_t graph_workspaces_kept(const struct graph_edition *e)
{
    const struct graph *g = e->of;
    uint64_t each = spread_workspace_bytes(nodes_for(e->numbers));
    if (each * KEPT_MAX <= KEPT_BYTES_MIN) return KEPT_MAX;
    uint64_t fit = kept_bytes_max(g) / each;
    return fit < 1 ? 1 : fit < KEPT_MAX ? (uint32_t)fit : KEPT_MAX;
}

void graph_count_work(struct graph *g)
{
    uint64_t bytes = 0;
    for (const struct graph_work *w = g->work; w; w = w->next)
        bytes += w->block.bytes;
    uint64_t before = atomic_exchange_explicit(&g->work_bytes, bytes, memory_order_relaxed);
    __atomic_fetch_add(&g->resident.space->work_bytes, bytes - before, __ATOMIC_RELAXED);
}

/* Returns a kept workspace that is large enough, or NULL. */
static struct graph_work *find_kept(struct graph *g, uint32_t numbers)
{
    for (struct graph_work *w = g->work; w; w = w->next)
        if (!w->out && w->nodes >= numbers) return w;
    return NULL;
}

static enum status make(struct graph *g, uint32_t numbers, struct graph_work **out)
{
    struct graph_work *w = fault_here("store: workspace") ? NULL : calloc(1, sizeof *w);
    if (!w) return STATUS_RESOURCE_EXHAUSTED;
    w->nodes = nodes_for(numbers);
    enum status st = heap_take_fresh(g->heap, spread_workspace_bytes(w->nodes),
                                     g->resident.space->number, &w->block);
    if (st) {
        free(w);
        return st;
    }
    *out = w;
    return STATUS_OK;
}

enum status graph_take_workspace(const struct graph_edition *e, struct spread_workspace *out)
{
    struct graph *g = e->of;
    pthread_mutex_lock(&g->work_lock);
    struct graph_work *w = find_kept(g, e->numbers);
    if (w) w->out = true;
    pthread_mutex_unlock(&g->work_lock);
    if (!w) {
        enum status st = make(g, e->numbers, &w);
        if (st) return st;
        w->out = true;
        pthread_mutex_lock(&g->work_lock);
        w->next = g->work;
        g->work = w;
        graph_count_work(g);
        pthread_mutex_unlock(&g->work_lock);
    }
    *out = (struct spread_workspace){.memory = w->block.data, .nodes = w->nodes};
    return STATUS_OK;
}

/* Removes workspaces from the list that are not worth keeping: those that the graph has outgrown,
 * and those beyond the bound. */
static struct graph_work *sort_out(struct graph *g)
{
    struct graph_work *dropped = NULL;
    uint64_t kept = 0, bytes = 0;
    uint32_t numbers = atomic_load_explicit(&g->numbers_now, memory_order_relaxed);
    for (struct graph_work **at = &g->work; *at;) {
        struct graph_work *w = *at;
        bool fits = !kept || (kept < KEPT_MAX && may_keep(g, bytes + w->block.bytes));
        if (w->out || (w->nodes >= numbers && fits)) {
            kept += !w->out;
            bytes += w->out ? 0 : w->block.bytes;
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = dropped;
        dropped = w;
    }
    return dropped;
}

void graph_give_workspace(const struct graph_edition *e, struct spread_workspace *given)
{
    struct graph *g = e->of;
    pthread_mutex_lock(&g->work_lock);
    for (struct graph_work *w = g->work; w; w = w->next)
        if (w->block.data == given->memory) w->out = false;
    struct graph_work *dropped = sort_out(g);
    graph_count_work(g);
    pthread_mutex_unlock(&g->work_lock);
    while (dropped) {
        struct graph_work *w = dropped;
        dropped = w->next;
        heap_release(g->heap, &w->block);
        free(w);
    }
    *given = (struct spread_workspace){0};
}
