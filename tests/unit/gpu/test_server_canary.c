/* No space finds another's bytes in memory that the GPU process gives it: every space's rows, ids
 * and queries are a word of its own, and before each copy is done all the memory that belongs to
 * it, in VRAM and pinned, is searched for the words of others; a shadow's before each kernel that
 * uses it, since it may have been mapped behind copies that are still to be done. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "daemon/gpu/sim_probe.h"
#include "tests/support/gpu_ask.h"
#include "tests/support/gpu_graph.h"
#include "tests/support/sweep.h"

#if defined(__SANITIZE_THREAD__)
enum { SPACES = 2, CALLERS = 2 };
#else
enum { SPACES = 6, CALLERS = 40 };
#endif
#define WORD_OF(space) (UINT32_C(0x5a5a5a00) + (space))

static struct device_ops watched;
static struct gpu_peer *peer;
static struct {
    uint64_t words, vram, ranges, pinned, pieces; /* looked at; found in */
    uint64_t shadows;                             /* kernels that use one */
} seen;

/* ---- the probe, on the device thread ---- */

__attribute__((no_sanitize("thread", "address"))) static uint64_t foreign(const void *at,
                                                                          uint64_t bytes,
                                                                          uint32_t space)
{
    const uint32_t *word = at;
    uint64_t found = 0;
    for (uint64_t i = 0; i < bytes / sizeof *word; i++)
        found += word[i] >> 8 == WORD_OF(0) >> 8 && word[i] != WORD_OF(space);
    seen.words += bytes / sizeof *word;
    return found;
}

static bool inside(const void *at, const char *base, uint64_t bytes)
{
    return base && (const char *)at >= base && (const char *)at < base + bytes;
}

static void look_at_tasks(struct gpu *g, const void *device, const void *pinned)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct task *t = &g->tasks[i];
        const char *block = g->slab + t->block.offset, *small = g->pinned + t->pinned.offset;
        if (inside(device, block, t->block.bytes))
            seen.vram += foreign(block, t->block.bytes, t->order.space);
        if (inside(pinned, small, t->pinned.bytes))
            seen.pinned += foreign(small, t->pinned.bytes, t->order.space);
    }
}

/* The ranges of the replica that has `device`: those of its shadow, or the others. A centre is a
 * mean of rows, and may round to the word of the next space. */
static void look_at_ranges(struct gpu *g, const void *device, bool shadow)
{
    for (const struct replica *r = g->replicas.oldest; r; r = r->newer) {
        int own = replica_own_ranges(r), end = shadow ? RANGE_CENTRE : own;
        bool its = false;
        for (int i = 0; i < RANGES_MAX; i++)
            its |= inside(device, r->ranges[i].base, r->ranges[i].bytes);
        for (int i = shadow ? own : 0; i < end && its; i++)
            seen.ranges += foreign(r->ranges[i].base, r->ranges[i].bytes, r->space);
    }
}

/* What this copy will write over does not count. */
static void look_at_pieces(struct gpu *g, const void *pinned, uint64_t written)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        const struct piece *p = &g->transfers.pieces[i];
        if (p->state == PIECE_FREE || !inside(pinned, p->pinned, p->block.bytes)) continue;
        uint64_t from = (uint64_t)((const char *)pinned - p->pinned) + written;
        seen.pieces += foreign(p->pinned + from, p->block.bytes - from, p->transfer->owner);
    }
}

static void watch(void *owner, const struct sim_work *w)
{
    struct gpu *g = peer->gpu;
    bool is_direct = w->kind == WORK_KERNEL && device_kernel_is_direct(w->call.kernel);
    if (g && is_direct) look_at_tasks(g, w->call.direct.scratch, w->call.direct.cells);
    bool codes = w->kind == WORK_KERNEL &&
                 (w->call.kernel == KERNEL_SHADOW_CODE || w->call.kernel == KERNEL_SHADOW_TOPK);
    if (g && codes) look_at_ranges(g, w->call.shadow.codes, true);
    if (codes) seen.shadows++;
    if (!g || (w->kind != WORK_COPY_IN && w->kind != WORK_COPY_OUT)) return;
    bool in = w->kind == WORK_COPY_IN;
    look_at_tasks(g, in ? w->to : NULL, in ? w->from : w->to);
    if (in) look_at_ranges(g, w->to, false);
    look_at_pieces(g, in ? w->from : w->to, in ? 0 : w->bytes);
}

static enum device_result watched_open(const struct device_options *options, struct device **out,
                                       struct share_device *info, char *why)
{
    enum device_result result = device_sim.open(options, out, info, why);
    if (!result) sim_probe_watch(*out, watch, NULL);
    return result;
}

static enum device_result no_clear(struct device *d, void *address, uint64_t bytes, device_stream s)
{
    return DEVICE_OK;
}

/* ---- the orders ---- */

static void mark(void *at, uint64_t bytes, uint32_t space)
{
    for (uint64_t i = 0; i < bytes / sizeof(uint32_t); i++)
        ((uint32_t *)at)[i] = WORD_OF(space);
}

static struct ask_rows marked_rows(uint32_t space, uint64_t replica, uint64_t count)
{
    struct ask_rows r = ask_make(space, replica, 1, 32, count, 1);
    mark(r.plain, count * r.dimension * sizeof *r.plain, space);
    for (uint64_t i = 0; i < count; i++)
        r.ids[i] = (uint64_t)WORD_OF(space) << 32 | i;
    return r;
}

static void send(struct order o)
{
    if (o.kind == ORDER_RUN && o.run.query_count)
        mark(peer_at(peer, o.run.queries), o.run.query_count * o.run.dimension * 4, o.space);
    uint64_t token = peer_order(peer, o);
    struct completion c = peer_done(peer, token);
    cr_assert(c.result == RESULT_OK || c.result == RESULT_NO_REPLICA ||
                  c.result == RESULT_NO_MEMORY,
              "result %u", c.result);
}

/* Everything that one space can have, in sizes of each class; then it is gone. */
static void visit(uint32_t space, uint64_t round)
{
    static const uint64_t sizes[] = {100, 3000, 9000, 700};
    uint64_t first = space * 100 + round * 10;
    for (uint64_t i = 0; i < 4; i++) {
        struct ask_rows r = marked_rows(space, first + i, sizes[(i + round) % 4]);
        uint64_t count = r.count, half = count / 2;
        r.count = half;
        send(ask_upload(peer, &r, true, 0, half));
        r.count = count; /* it grows, shrinks and grows again */
        send(ask_upload(peer, &r, false, half, count - half));
        r.count = half / 4;
        send(ask_upload(peer, &r, false, 0, 1));
        r.count = count;
        send(ask_upload(peer, &r, false, 1, count - 1));
        send(ask_knn(peer, &r, METRIC_DOT, 1, 3, 1));
        send(ask_knn(peer, &r, METRIC_COSINE, 300, 100, 1));
        send(ask_knn(peer, &r, METRIC_COSINE, 3000, 2, 1));
        send(ask_scores(peer, &r, METRIC_DOT, 40, true, 1));
        send(ask_listed(peer, &r, METRIC_DOT, 20, 9000, true, 1));
        struct order average = ask_average(peer, &r, 1, 1); /* of one row: no rounding */
        *(float *)peer_at(peer, average.run.weights) = average.run.total = 1.0f;
        send(average);
        peer->used = 4096;
        ask_free(&r);
    }
    for (uint64_t i = 0; i < 4; i++)
        send(ask_forget(&(struct ask_rows){.space = space, .replica = first + i}));
}

/* A graph whose ids and factors are the space's word, and whose edges weigh as much; it has fewer
 * nodes then, and more. Its numbers are no words. */
static struct gpu_graph marked_graph(uint32_t space, uint64_t replica, uint32_t nodes)
{
    struct gpu_graph g = graph_make(space, replica, 1, nodes, 2, false, 1);
    for (int side = 0; side < 2; side++) {
        struct spread_edge *edges = g.parts[PART_OUT_EDGES + side];
        for (uint64_t i = 0; i < g.bytes[PART_OUT_EDGES + side] / sizeof *edges; i++)
            mark(&edges[i].weight, sizeof edges[i].weight, space);
    }
    mark(g.parts[PART_IDS], g.bytes[PART_IDS], space);
    mark(g.parts[PART_FACTORS], g.bytes[PART_FACTORS], space);
    return g;
}

/* f(d) is the word too, so that what comes of it is none of another's. */
static struct order marked_spread(const struct gpu_graph *g, struct spread_asked asked)
{
    struct order o = graph_ask(peer, g, asked);
    mark(peer_at(peer, o.spread.decay), (asked.hops + UINT64_C(1)) * sizeof(float), g->space);
    return o;
}

static void visit_graphs(uint32_t space, uint64_t round)
{
    static const uint32_t sizes[] = {3000, 900, 20000};
    for (uint64_t i = 0; i < 3; i++) {
        struct gpu_graph g = marked_graph(space, space * 100 + 50, sizes[(i + round) % 3]);
        for (uint32_t part = 0; part < ORDER_PARTS_MAX; part++)
            send(graph_upload(peer, &g, i == 0 && part == 0, part, 0, g.bytes[part],
                              part + 1 == ORDER_PARTS_MAX));
        send(marked_spread(&g, (struct spread_asked){.sets = 2, .seeds = 3, .hops = 2}));
        send(marked_spread(&g, (struct spread_asked){.sets = 4, .seeds = 99, .hops = 30}));
        send(
            marked_spread(&g, (struct spread_asked){.mode = SPREAD_ENGRAM, .seeds = 9, .hops = 3}));
        peer->used = 4096;
        graph_free(&g);
    }
    send(graph_forget(&(struct gpu_graph){.space = space, .replica = space * 100 + 50}));
}

/* So many that none finds pinned memory that nobody has had. */
static void call(uint32_t space)
{
    struct ask_rows r = marked_rows(space, space * 100, 100);
    send(ask_upload(peer, &r, true, 0, 100));
    send(ask_knn(peer, &r, METRIC_DOT, 1500, 1, 1));
    send(ask_knn(peer, &r, METRIC_DOT, 900 + space, 1, 1));
    send(ask_forget(&r));
    peer->used = 4096;
    ask_free(&r);
}

static void visits(const char *sim, uint64_t rounds, bool clears)
{
    static struct gpu_peer p;
    memset(&seen, 0, sizeof seen);
    memset(&p, 0, sizeof p);
    watched = device_sim;
    watched.open = watched_open;
    if (!clears) watched.clear = no_clear;
    peer = &p;
    p.ops = &watched;
    peer_open(&p, sim, 3);
    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t space = 1; space <= SPACES; space += sweep_stride(3)) {
            visit(space, round);
            visit_graphs(space, round);
        }
    for (uint32_t space = SPACES + 1; space <= SPACES + CALLERS; space += sweep_stride(10))
        call(space);
    peer_close(&p);
    fprintf(stderr, "%s: %llu words, others' in blocks %llu, ranges %llu, pinned %llu + %llu\n",
            sim, (unsigned long long)seen.words, (unsigned long long)seen.vram,
            (unsigned long long)seen.ranges, (unsigned long long)seen.pinned,
            (unsigned long long)seen.pieces);
}

Test(server_canary, no_space_sees_what_another_left, .timeout = 900)
{
    static const char *const sims[] = {"vram_mib=44 granularity_kib=16 latency_us=0",
                                       "vram_mib=44 granularity_kib=16 latency_us=0 vmm=0"};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    int count = 1;
#else
    int count = 2;
#endif
    for (int i = 0; i < count; i += (int)sweep_stride(2)) {
        visits(sims[i], 1, true);
        cr_assert(seen.words > 1000000);
        cr_assert(seen.shadows > 10);
        cr_assert_eq(seen.vram + seen.ranges + seen.pinned + seen.pieces, 0);
    }
}

/* The probe finds what is there to be found. */
Test(server_canary, a_device_that_does_not_clear_is_found_out, .timeout = 900)
{
    visits("vram_mib=44 granularity_kib=16 latency_us=0", 1, false);
    cr_assert(seen.vram > 0);
    cr_assert(seen.ranges > 0);
}
