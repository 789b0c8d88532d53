#include "daemon/gpu/server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/gpu/evict.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/sweep.h"
#include "daemon/gpu/tasks.h"
#include "daemon/gpu/transfer.h"
#include "daemon/gpu/watch.h"

enum {
    ORDERS_A_TURN = 32,  /* taken before tasks are advanced */
    LOOK_NS = 10000000,  /* between checks of the lifeline when busy */
    ASK_NS = 1000000000, /* between two questions to the driver, each of which it takes long for, */
    ASK_IDLE_PART = 5,   /* and so many times as long when nothing has moved for a while */
    SLAB_SHARE = 8,      /* this part of the budget is for requests */
};
#define SWEEP_AFTER_NS UINT64_C(2000000000)
#define SLAB_BYTES_MAX (UINT64_C(2) << 30)
#define SLAB_BYTES_MIN (UINT64_C(1) << 20)

/* ---- the turn ---- */

static bool take_orders(struct gpu *g, bool *stop)
{
    for (int n = 0; n < ORDERS_A_TURN; n++) {
        const struct order *o = ring_peek(&g->orders);
        if (!o) return n > 0;
        if (o->kind == ORDER_STOP) {
            *stop = true;
            return true;
        }
        if (!task_begin(g, o, share_query(g->share, &g->orders))) return n > 0;
        ring_release(&g->orders);
    }
    return true;
}

void gpu_beat(struct gpu *g)
{
    atomic_store_explicit(&g->share->heartbeat_ns, clock_read_ns(g->clock), memory_order_relaxed);
}

/* Asks the driver how much of the card is free: when our replicas have grown or shrunk, and now and
 * then, since others may take memory, too. */
static void show_free(struct gpu *g)
{
    uint64_t free_bytes = 0, total = 0;
    bool changed = g->replicas.bytes != g->asked_bytes, idle = watch_rests(g);
    uint64_t every_ns = idle ? (uint64_t)ASK_NS * ASK_IDLE_PART : ASK_NS;
    if (!changed && g->asked_ns && g->turned_ns - g->asked_ns < every_ns) return;
    g->asked_ns = g->turned_ns;
    g->asked_bytes = g->replicas.bytes;
    if (gpu_ok(g, g->ops->memory(g->device, &free_bytes, &total)))
        atomic_store_explicit(&g->share->usage.free_bytes, free_bytes, memory_order_relaxed);
}

static void show_usage(struct gpu *g)
{
    task_count_busy(g);
    struct share_usage *u = &g->share->usage;
    struct vram_pool_usage pool = vram_pool_usage(g->pool);
    atomic_store_explicit(&u->request_bytes, pool.used_bytes, memory_order_relaxed);
    atomic_store_explicit(&u->asked_bytes, pool.asked_bytes, memory_order_relaxed);
    atomic_store_explicit(&u->largest_bytes, vram_pool_largest(g->pool), memory_order_relaxed);
    atomic_store_explicit(&u->spare_bytes, g->spare_bytes, memory_order_relaxed);
    atomic_store_explicit(&u->replicas, g->replicas.count, memory_order_relaxed);
    show_free(g);
}

static bool front_is_gone(const struct gpu *g)
{
    struct pollfd fd = {.fd = g->lifeline_fd, .events = POLLIN};
    return g->lifeline_fd >= 0 && poll(&fd, 1, 0) > 0;
}

static bool move_all(struct gpu *g, bool *stop)
{
    bool moved = take_orders(g, stop);
    if (*stop) return true;
    moved |= copiers_help(g->copiers);
    moved |= transfers_poll(g);
    /* Each turn begins with another lane, so that all lanes get freed pieces and memory in turn. */
    g->first_lane = (g->first_lane + 1) % g->lane_count;
    for (uint32_t i = 0; i < g->lane_count && !g->broken; i++) {
        struct lane *lane = &g->lanes[(g->first_lane + i) % g->lane_count];
        if (!lane->head || !lane_step(g, lane)) continue;
        moved = true;
        gpu_beat(g);
    }
    moved |= evict_tell(g);
    sweep_turn(g);
    if (ring_broken(&g->orders) || ring_broken(&g->completions)) *stop = true;
    return moved;
}

enum server_turn server_turn(struct gpu *g)
{
    bool stop = false, moved = move_all(g, &stop);
    uint64_t now_ns = clock_read_ns(g->clock);
    g->turned_ns = now_ns;
    atomic_store_explicit(&g->share->heartbeat_ns, now_ns, memory_order_relaxed);
    if (g->broken) {
        snprintf(g->share->why, sizeof g->share->why, "%s", g->ops->last_error(g->device));
        atomic_store(&g->share->state, SHARE_BROKEN);
        return SERVER_BROKEN;
    }
    if (stop) return SERVER_STOPPED;
    if (now_ns - g->looked_ns > LOOK_NS) {
        g->looked_ns = now_ns;
        if (front_is_gone(g)) return SERVER_STOPPED;
        show_usage(g);
    }
    return moved ? SERVER_MOVED : g->busy ? SERVER_WAITS : SERVER_IDLE;
}

enum status server_run(struct gpu *g)
{
    g->watch.moved_ns = clock_read_ns(g->clock);
    for (;;) {
        enum server_turn turn = server_turn(g);
        if (turn == SERVER_STOPPED) return STATUS_OK;
        if (turn == SERVER_BROKEN) return STATUS_UNAVAILABLE;
        if (turn == SERVER_MOVED)
            watch_moved(g);
        else
            watch_wait(g, turn == SERVER_WAITS);
    }
}

/* ---- opening ---- */

static enum status refuse(struct gpu *g, struct failure *f, enum share_state state,
                          const char *what, const char *why)
{
    failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM, "%s%s%s", what, why[0] ? ": " : "", why);
    snprintf(g->share->why, sizeof g->share->why, "%s", f->text);
    atomic_store(&g->share->state, state);
    return f->code;
}

static enum status open_device(struct gpu *g, const struct server_options *o, struct failure *f)
{
    char why[SHARE_WHY] = "";
    struct device_options device = o->device;
    device.clock = o->clock;
    enum device_result result = o->ops->open(&device, &g->device, &g->share->device, why);
    if (result == DEVICE_OK) return STATUS_OK;
    return refuse(g, f, result == DEVICE_ABSENT ? SHARE_ABSENT : SHARE_BROKEN, why, "");
}

static uint64_t budget_of(const struct server_options *o, uint64_t free_bytes)
{
    uint64_t bytes = free_bytes / 100 * o->memory_percent;
    if (o->memory_bytes_max && o->memory_bytes_max < bytes) bytes = o->memory_bytes_max;
    return bytes;
}

/* Takes VRAM and pinned memory for requests; the rest is for replicas. */
static enum status take_memory(struct gpu *g, const struct server_options *o, struct failure *f)
{
    struct share_device *d = &g->share->device;
    uint64_t free_bytes = 0, total = 0;
    if (g->ops->memory(g->device, &free_bytes, &total))
        return refuse(g, f, SHARE_BROKEN, "memory", g->ops->last_error(g->device));
    uint64_t budget = budget_of(o, free_bytes), slab = budget / SLAB_SHARE;
    if (slab > SLAB_BYTES_MAX) slab = SLAB_BYTES_MAX;
    if (slab < SLAB_BYTES_MIN) slab = SLAB_BYTES_MIN;
    slab = slab >> 20 << 20;
    /* Others may free VRAM, but a setting does not change. */
    bool for_good = o->memory_bytes_max && o->memory_bytes_max < 2 * slab;
    if (budget < 2 * slab)
        return refuse(g, f, for_good ? SHARE_ABSENT : SHARE_BROKEN,
                      "less than 2 MiB of VRAM may be used", for_good ? "gpu.memory_mib" : "");
    void *memory = NULL, *pinned = NULL;
    if (g->ops->allocate(g->device, slab, &memory))
        return refuse(g, f, SHARE_BROKEN, "VRAM for requests", g->ops->last_error(g->device));
    g->slab = memory;
    if (g->ops->host_allocate(g->device, PINNED_BYTES + PINNED_PIECES_BYTES, &pinned))
        return refuse(g, f, SHARE_BROKEN, "pinned memory", g->ops->last_error(g->device));
    g->pinned = pinned;
    g->pinned_pieces = g->pinned + PINNED_BYTES;
    if (vram_pool_create(slab, &g->pool) || vram_pool_create(PINNED_BYTES, &g->pinned_pool) ||
        vram_pool_create(PINNED_PIECES_BYTES, &g->piece_pool))
        return refuse(g, f, SHARE_BROKEN, "no memory for the pools", "");
    g->replicas.bytes_max = budget - slab;
    g->replicas.range_bytes_max = d->memory_bytes;
    d->budget_bytes = budget;
    d->piece_bytes = g->ops->range_piece(g->device);
    d->memory_free_bytes = free_bytes;
    atomic_store(&g->share->usage.slab_bytes, slab);
    atomic_store(&g->share->usage.largest_bytes, slab);
    atomic_store(&g->share->usage.free_bytes, free_bytes > slab ? free_bytes - slab : 0);
    atomic_store(&g->share->usage.pinned_bytes, (uint64_t)PINNED_BYTES + PINNED_PIECES_BYTES);
    return STATUS_OK;
}

/* The exchange lies behind what is only read, and cannot be larger than all. */
static bool map_files(struct gpu *g, const struct server_options *o)
{
    struct stat own = {.st_size = 0};
    const int flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED, both = PROT_READ | PROT_WRITE;
    if (!o->exchange_fd)
        return mmap(g->heap, g->heap_bytes, both, flags, o->heap_fd, 0) != MAP_FAILED;
    if (fstat(o->heap_fd, &own)) return false;
    uint64_t bytes = (uint64_t)own.st_size;
    errno = EINVAL;
    return bytes < g->heap_bytes &&
           mmap(g->heap, bytes, PROT_READ, flags, o->heap_fd, 0) != MAP_FAILED &&
           mmap(g->heap + bytes, g->heap_bytes - bytes, both, flags, o->exchange_fd, 0) !=
               MAP_FAILED;
}

static enum status map_heap(struct gpu *g, const struct server_options *o, struct failure *f)
{
    g->heap_bytes = g->share->heap_bytes;
    void *heap = fault_here("server: heap")
                     ? MAP_FAILED
                     : mmap(NULL, g->heap_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap != MAP_FAILED) g->heap = heap;
    if (!g->heap || !map_files(g, o)) return refuse(g, f, SHARE_BROKEN, "heap", strerror(errno));
    return STATUS_OK;
}

static enum status make_tasks(struct gpu *g, const struct server_options *o, struct failure *f)
{
    const uint64_t query_bytes = ORDER_DIRECT_DIMENSION_MAX * sizeof(float);
    g->tasks = fault_here("server: tasks") ? NULL : calloc(TASKS, sizeof *g->tasks);
    g->queries = aligned_alloc(64, TASKS * query_bytes);
    if (!g->tasks || !g->queries || copiers_create(o->copiers, &g->copiers))
        return refuse(g, f, SHARE_BROKEN, "no memory for tasks, or no thread", "");
    for (uint32_t i = TASKS; i-- > 0;) {
        g->tasks[i].query = g->queries + i * ORDER_DIRECT_DIMENSION_MAX;
        g->tasks[i].next = g->free_tasks;
        g->free_tasks = &g->tasks[i];
    }
    return STATUS_OK;
}

enum status server_open(const struct server_options *o, struct gpu **out, struct failure *f)
{
    struct gpu *g = fault_here("server: allocate") ? NULL : calloc(1, sizeof *g);
    if (!g) {
        snprintf(o->share->why, sizeof o->share->why, "no memory");
        atomic_store(&o->share->state, SHARE_BROKEN);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory");
    }
    g->ops = o->ops;
    g->clock = o->clock;
    g->share = o->share;
    g->kernels = vectors_choose("auto");
    g->lane_count = o->streams < 1 ? 1 : o->streams > LANES_MAX ? LANES_MAX : o->streams;
    g->spin_ns = o->spin_us * UINT64_C(1000);
    g->sweep.after_ns = o->sweep_after_ns ? o->sweep_after_ns : SWEEP_AFTER_NS;
    foresight_budget_init(&g->watch.budget, o->spin_percent, clock_read_ns(g->clock));
    g->lifeline_fd = o->lifeline_fd;
    share_orders(g->share, o->orders_fd, &g->orders);
    share_completions(g->share, o->completions_fd, &g->completions);
    enum status st = map_heap(g, o, f);
    if (!st) st = open_device(g, o, f);
    if (!st) st = take_memory(g, o, f);
    if (!st) st = make_tasks(g, o, f);
    if (st) {
        server_close(g);
        return st;
    }
    atomic_store(&g->share->heartbeat_ns, clock_read_ns(g->clock));
    atomic_store(&g->share->state, SHARE_READY);
    *out = g;
    return STATUS_OK;
}

/* Ends unfinished orders, so that nothing uses memory any more when it is freed. */
static void stop_work(struct gpu *g)
{
    if (g->copiers) transfers_finish(g);
    copiers_destroy(g->copiers);
    if (!g->device) return;
    for (uint32_t i = 0; i < g->lane_count; i++)
        if (g->lanes[i].stream) g->ops->stream_destroy(g->device, g->lanes[i].stream);
    sweep_finish(g);
    for (uint32_t i = 0; g->tasks && i < TASKS; i++)
        if (g->tasks[i].event) g->ops->event_destroy(g->device, g->tasks[i].event);
    while (g->event_count)
        g->ops->event_destroy(g->device, g->events[--g->event_count]);
}

void server_close(struct gpu *g)
{
    if (!g) return;
    stop_work(g);
    for (uint32_t i = 0; g->tasks && i < TASKS; i++)
        replica_discard(g, g->tasks[i].unborn);
    if (g->device) {
        replicas_finish(g);
        if (g->pinned) g->ops->host_release(g->device, g->pinned);
        if (g->slab) g->ops->release(g->device, g->slab);
        g->ops->close(g->device);
    }
    for (uint32_t i = 0; g->tasks && i < TASKS; i++) {
        free(g->tasks[i].batch);
        free(g->tasks[i].survivors);
    }
    bind_tables_finish(&g->bind_tables);
    vram_pool_destroy(g->pool);
    vram_pool_destroy(g->pinned_pool);
    vram_pool_destroy(g->piece_pool);
    if (g->heap) munmap(g->heap, g->heap_bytes);
    free(g->tasks);
    free(g->queries);
    free(g);
}
