/* The GPU process's server over the simulated device: graphs in parts, and spreads over them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "tests/support/gpu_ask.h"
#include "tests/support/gpu_graph.h"

static uint32_t give(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o)).result;
}

/* Small parts may be there before large ones that were sent first. */
static void upload(struct gpu_peer *p, const struct gpu_graph *g)
{
    struct order orders[ORDER_PARTS_MAX];
    uint64_t bytes = 0, sum = 0;
    uint32_t count = graph_upload_all(p, g, orders);
    for (uint32_t i = 0; i < count; i++)
        peer_order(p, orders[i]);
    for (uint32_t i = 0; i < count;) {
        struct completion c = peer_completion(p);
        if (c.kind == COMPLETION_EVICTED) continue;
        cr_assert_eq(c.result, RESULT_OK, "part %u: %u", i, c.result);
        if (c.number > bytes) bytes = c.number;
        i++;
    }
    for (int part = 0; part < ORDER_PARTS_MAX; part++)
        sum += g->bytes[part];
    cr_assert(bytes >= sum && bytes - sum < 4 << 20, "VRAM that it holds");
}

static void expect_right(struct gpu_peer *p, const struct gpu_graph *g, struct spread_asked asked)
{
    struct order o = graph_ask(p, g, asked);
    cr_assert_eq(give(p, o), RESULT_OK);
    cr_assert(graph_right(p, &o, g), "mode %u, %u hops, %u sets, flags %u", o.spread.mode,
              o.spread.hops, o.spread.set_count, o.spread.flags);
}

static const struct spread_asked asked[] = {
    {.seed = 1},
    {.seeds = 9, .sets = 3, .hops = 1, .seed = 2},
    {.seeds = 4, .sets = 2, .flags = ORDER_SPREAD_PATHS, .seed = 3},
    {.seeds = 3, .flags = ORDER_SPREAD_LAST_HOP, .hops = 7, .seed = 4},
    {.seeds = 5, .filtered = true, .threshold = 0.02f, .seed = 5},
    {.seeds = 5, .touched_max = 40, .seed = 6},
    {.mode = SPREAD_ENGRAM, .seeds = 2, .seed = 7},
    {.mode = SPREAD_ENGRAM, .seeds = 6, .sets = 5, .flags = ORDER_SPREAD_PATHS, .seed = 8},
    {.mode = SPREAD_ENGRAM, .seeds = 3, .fan = SPREAD_FAN_SQRT, .hops = 3, .seed = 9},
    {.mode = SPREAD_ENGRAM,
     .seeds = 3,
     .fan = SPREAD_FAN_DIVIDE,
     .flags = ORDER_SPREAD_IGNORE_KINDS,
     .filtered = true,
     .touched_max = 100,
     .seed = 10},
};
enum { ASKED = sizeof asked / sizeof *asked };

Test(server_spread, equals_the_engine_in_every_shape)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    static const uint32_t nodes[] = {1, 2, 70, 1000, 5000};
    for (uint32_t i = 0; i < 2 * sizeof nodes / sizeof *nodes; i++) {
        struct gpu_graph g = graph_make(1 + i % 3, 1 + i, 5, nodes[i / 2], 6, i % 2, i);
        upload(&p, &g);
        for (uint32_t k = 0; k < ASKED; k++)
            expect_right(&p, &g, asked[k]);
        cr_assert_eq(give(&p, graph_forget(&g)), RESULT_OK);
        graph_free(&g);
        p.used = 4096;
    }
    cr_assert_eq(atomic_load(&p.share->usage.replica_bytes), 0);
    cr_assert_eq(atomic_load(&p.share->usage.runs), ASKED * 10);
    peer_close(&p);
    cr_assert_eq(p.result, 0);
}

/* Up to 1.4 MiB a set: records come in pieces, and only those that there are. */
Test(server_spread, moves_large_results_in_pieces)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    struct gpu_graph g = graph_make(1, 1, 1, 60000, 3, true, 3);
    upload(&p, &g);
    expect_right(&p, &g, (struct spread_asked){.sets = 12, .seeds = 1, .hops = 3, .seed = 1});
    expect_right(&p, &g, (struct spread_asked){.sets = 5, .seeds = 400, .hops = 6, .seed = 2});
    expect_right(&p, &g, (struct spread_asked){.sets = 3, .seeds = 12000, .hops = 2, .seed = 3});
    expect_right(&p, &g,
                 (struct spread_asked){.mode = SPREAD_ENGRAM, .sets = 4, .seeds = 9, .seed = 4});
    graph_free(&g);
    peer_close(&p);
}

/* Room for fewer records than there are: sets find some or none, and say so; at any time the rest
 * of the heap is as it was. */
Test(server_spread, shares_what_room_there_is)
{
    enum { NODES = 2000, SETS = 40 };
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct gpu_graph g = graph_make(1, 1, 1, NODES, 5, false, 3);
    upload(&p, &g);
    uint32_t none = 0, some = 0;
    for (uint32_t i = 0; i < 8; i++) {
        struct spread_asked a = {.mode = i % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR,
                                 .hops = 2 + i % 3,
                                 .sets = SETS,
                                 .seeds = 1 + i,
                                 .room = NODES + i * 500,
                                 .flags = i == 5 ? ORDER_SPREAD_PATHS : 0,
                                 .touched_max = i == 6 ? 150 : 0,
                                 .seed = i};
        struct order o = graph_ask(&p, &g, a);
        cr_assert_eq(give(&p, o), RESULT_OK);
        cr_assert(graph_right(&p, &o, &g), "%u", i);
        const struct order_spread_set *sets = peer_at(&p, o.spread.out_sets);
        for (uint32_t set = 0; set < SETS; set++) {
            none += sets[set].no_room != 0;
            some += sets[set].record_count > 0;
        }
    }
    cr_assert(none > SETS && some > SETS, "%u without, %u with", none, some);
    graph_free(&g);
    peer_close(&p);
}

/* Pages of parts on top of what was there; a change of one part alone is told alone. */
Test(server_spread, takes_changes_page_by_page)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=256", 4);
    struct gpu_graph g = graph_make(1, 1, 1, 20000, 4, false, 1);
    upload(&p, &g);
    expect_right(&p, &g, asked[2]);
    graph_reweigh(&g, 99);
    g.version = 2;
    uint64_t before = atomic_load(&p.share->usage.upload_bytes), told = 0;
    enum { PAGE = 65536 };
    for (uint32_t part = PART_OUT_EDGES; part <= PART_IN_EDGES; part++)
        for (uint64_t at = 0; at < g.bytes[part]; at += PAGE) {
            uint64_t count = g.bytes[part] - at < PAGE ? g.bytes[part] - at : PAGE;
            bool last = part == PART_IN_EDGES && at + count == g.bytes[part];
            cr_assert_eq(give(&p, graph_upload(&p, &g, false, part, at, count, last ? 2 : 0)),
                         RESULT_OK);
            told += count;
            struct order early = graph_ask(&p, &g, asked[0]);
            if (!last) cr_assert_eq(give(&p, early), RESULT_NO_REPLICA, "it is not complete");
        }
    cr_assert_eq(atomic_load(&p.share->usage.upload_bytes) - before, told);
    for (uint32_t k = 0; k < ASKED; k++)
        expect_right(&p, &g, asked[k]);
    graph_free(&g);
    peer_close(&p);
}

/* It grows and shrinks, gets kinds and loses them. */
Test(server_spread, follows_a_graph_that_grows_and_shrinks)
{
    struct gpu_peer p = {0};
    static const uint32_t nodes[] = {500, 40000, 90000, 300, 2000};
    for (int vmm = 0; vmm < 2; vmm++) {
        peer_open(&p, vmm ? "vram_mib=400 granularity_kib=16" : "vram_mib=400 vmm=0", 2);
        for (uint32_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
            struct gpu_graph g = graph_make(1, 1, i + 1, nodes[i], 3, i % 2, i);
            for (uint32_t part = 0; part < ORDER_PARTS_MAX; part++)
                cr_assert_eq(
                    give(&p, graph_upload(&p, &g, i == 0 && part == 0, part, 0, g.bytes[part],
                                          part + 1 == ORDER_PARTS_MAX ? i + 1 : 0)),
                    RESULT_OK);
            expect_right(&p, &g, asked[1]);
            expect_right(&p, &g, asked[7]);
            graph_free(&g);
            p.used = 4096;
        }
        peer_close(&p);
    }
}

static void expect_refused(struct gpu_peer *p, struct order o)
{
    cr_assert_eq(give(p, o), RESULT_REFUSED);
}

Test(server_spread, refuses_spreads_that_make_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct gpu_graph g = graph_make(1, 1, 7, 100, 4, false, 1);
    upload(&p, &g);
    struct order sound = graph_ask(&p, &g, (struct spread_asked){.sets = 2, .seeds = 3}), o;
    cr_assert_eq(give(&p, sound), RESULT_OK);
#define WRONG(field, value) (o = sound, o.spread.field = (value), expect_refused(&p, o))
    WRONG(mode, 0), WRONG(mode, 3), WRONG(fan, 3), WRONG(flags, 8), WRONG(hops, 0);
    WRONG(hops, 101), WRONG(nodes, 0), WRONG(nodes, 99), WRONG(nodes, UINT32_MAX);
    WRONG(set_count, 0), WRONG(set_count, ORDER_SPREAD_SETS_MAX + 1), WRONG(edges, UINT64_MAX);
    WRONG(edges, UINT64_C(1) << 20), WRONG(seed_count, UINT64_MAX), WRONG(seed_count, 1);
    WRONG(seeds, PEER_HEAP_BYTES - 8), WRONG(set_offsets, PEER_HEAP_BYTES),
        WRONG(decay, PLACE_NONE);
    WRONG(allowed, PEER_HEAP_BYTES - 8), WRONG(touched_max, 0), WRONG(record_room, 99);
    WRONG(record_room, UINT64_MAX), WRONG(record_room, UINT64_C(1) << 40),
        WRONG(out_records, PEER_HEAP_BYTES - 64);
    WRONG(out_records, 65), WRONG(out_sets, PEER_HEAP_BYTES - 8), WRONG(out_sets, 4097);
#undef WRONG
    o = sound;
    o.space = 2; /* another tenant's */
    expect_refused(&p, o);
    o = sound;
    o.version = 8;
    cr_assert_eq(give(&p, o), RESULT_NO_REPLICA);

    struct spread_seed *seed = peer_at(&p, sound.spread.seeds), was = *seed;
    static const struct spread_seed wrong[] = {{100, 1}, {SPREAD_NO_NODE, 1}, {5, 0}, {5, 1.5f}};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *seed = wrong[i];
        expect_refused(&p, sound);
    }
    *seed = was;
    uint64_t *offsets = peer_at(&p, sound.spread.set_offsets), middle = offsets[1];
    offsets[1] = sound.spread.seed_count + 1;
    expect_refused(&p, sound);
    offsets[1] = middle;
    cr_assert_eq(give(&p, sound), RESULT_OK);
    cr_assert(graph_right(&p, &sound, &g));
    graph_free(&g);
    peer_close(&p);
}

Test(server_spread, refuses_parts_that_make_no_sense)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64 strict=1", 4);
    struct gpu_graph g = graph_make(1, 1, 7, 100, 4, false, 1);
    struct order sound = graph_upload(&p, &g, true, PART_OUT, 0, g.bytes[PART_OUT], 0), o;
    cr_assert_eq(give(&p, sound), RESULT_OK);
#define WRONG(field, value) (o = sound, o.part.field = (value), expect_refused(&p, o))
    WRONG(part, ORDER_PARTS_MAX), WRONG(first, 16), WRONG(first, UINT64_MAX - 15), WRONG(first, 8);
    WRONG(count, 8), WRONG(count, g.bytes[PART_OUT] + 16), WRONG(count, UINT64_MAX - 15);
    WRONG(bytes, PEER_HEAP_BYTES - 64), WRONG(bytes, sound.part.bytes + 4);
    WRONG(part_bytes[PART_IN], g.bytes[PART_IN] + 16), WRONG(part_bytes[PART_IDS], 0);
    WRONG(part_bytes[PART_ORDER], 99 * 4), WRONG(part_bytes[PART_KINDS], 99);
    WRONG(part_bytes[PART_FACTORS], 4), WRONG(part_bytes[PART_OUT_EDGES], 12);
    WRONG(part_bytes[PART_OUT_EDGES], UINT64_MAX - 7);
    WRONG(part_bytes[PART_OUT], UINT64_MAX - 15);
#undef WRONG
    /* Each time it is torn: only a fresh one helps. */
    o = sound;
    o.part.fresh = 0;
    cr_assert_eq(give(&p, o), RESULT_NO_REPLICA);

    struct spread_list *lists = peer_at(&p, sound.part.bytes), was = lists[50];
    uint64_t places = g.bytes[PART_OUT_EDGES] / sizeof(struct spread_edge);
    const struct spread_list wrong[] = {{.first = places + 2},
                                        {.first = 2, .count = (uint32_t)places},
                                        {.first = UINT64_MAX - 1, .count = 2},
                                        {.first = 1, .count = 1}};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lists[50] = wrong[i];
        expect_refused(&p, sound);
    }
    lists[50] = was;
    cr_assert_eq(give(&p, sound), RESULT_OK);
    struct order order = graph_upload(&p, &g, false, PART_ORDER, 0, g.bytes[PART_ORDER], 0);
    ((uint32_t *)peer_at(&p, order.part.bytes))[99] = 100;
    expect_refused(&p, order);
    upload(&p, &g);
    expect_right(&p, &g, asked[2]);
    graph_free(&g);
    peer_close(&p);
}

/* Wherever it is, in a list or between them: of pieces that several copiers share, of many and
 * few. */
Test(server_spread, refuses_edges_that_lead_nowhere)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=128 strict=1", 4);
    struct gpu_graph g = graph_make(1, 1, 7, 20000, 40, false, 1);
    upload(&p, &g);
    for (uint32_t part = PART_OUT_EDGES; part <= PART_IN_EDGES; part++) {
        uint64_t places = g.bytes[part] / sizeof(struct spread_edge);
        const uint64_t at[] = {0, 1, 2047, 2048, 65535, places / 2, places - 2, places - 1};
        const uint32_t nowhere[] = {20000, 20001, INT32_MAX, UINT32_MAX};
        cr_assert_gt(g.bytes[part], 4 << 20, "one piece only");
        for (uint32_t i = 0; i < sizeof at / sizeof *at; i++) {
            struct order o = graph_upload(&p, &g, true, part, 0, g.bytes[part], 0);
            struct spread_edge *edges = peer_at(&p, o.part.bytes);
            edges[at[i]].node = nowhere[i % 4];
            expect_refused(&p, o);
            edges[at[i]].node = 19999;
            cr_assert_eq(give(&p, o), RESULT_OK);
        }
    }
    g.version = 8;
    upload(&p, &g);
    expect_right(&p, &g, asked[2]);
    graph_free(&g);
    peer_close(&p);
}

/* Rows are no graph, and a graph has no rows. */
Test(server_spread, keeps_kinds_of_replicas_apart)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct gpu_graph g = graph_make(1, 1, 1, 100, 4, false, 1);
    struct ask_rows rows = ask_make(1, 2, 1, 32, 100, 1);
    upload(&p, &g);
    cr_assert_eq(give(&p, ask_upload(&p, &rows, true, 0, 100)), RESULT_OK);
    struct order knn = ask_knn(&p, &rows, METRIC_DOT, 1, 3, 1),
                 spread = graph_ask(&p, &g, asked[0]);
    struct order o = knn;
    o.replica = 1;
    expect_refused(&p, o);
    o = spread;
    o.replica = 2;
    expect_refused(&p, o);
    struct ask_rows as_graph = rows;
    as_graph.replica = 1;
    expect_refused(&p, ask_upload(&p, &as_graph, false, 0, 100));
    cr_assert_eq(give(&p, graph_ask(&p, &g, asked[0])), RESULT_NO_REPLICA, "it is in doubt");
    upload(&p, &g);
    expect_right(&p, &g, asked[0]);
    cr_assert_eq(give(&p, knn), RESULT_OK);
    cr_assert(ask_right(&p, &knn, &rows));
    ask_free(&rows);
    graph_free(&g);
    peer_close(&p);
}

/* A level with more contributions than scratch has room for; the next question is not the worse. */
Test(server_spread, says_when_a_level_finds_no_memory)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct gpu_graph g = graph_make(1, 1, 1, 100, 2, true, 1);
    upload(&p, &g);
    struct spread_asked many = {.mode = SPREAD_ENGRAM, .seeds = 100000, .seed = 1};
    struct order o = graph_ask(&p, &g, many);
    struct spread_seed *seeds = peer_at(&p, o.spread.seeds);
    for (uint32_t i = 0; i < 100000; i++)
        seeds[i] = (struct spread_seed){i % 100, 0.5f};
    o.spread.seed_count = ((uint64_t *)peer_at(&p, o.spread.set_offsets))[1] = 100000;
    cr_assert_eq(give(&p, o), RESULT_NO_MEMORY);
    cr_assert_eq(atomic_load(&p.share->usage.no_memory), 1);

    /* Of several sets, that one alone has none. */
    many.sets = 3;
    o = graph_ask(&p, &g, many);
    seeds = peer_at(&p, o.spread.seeds);
    for (uint32_t i = 0; i < 100002; i++)
        seeds[i] = (struct spread_seed){i % 100, 0.5f};
    const uint64_t offsets[] = {0, 1, 100001, 100002};
    memcpy(peer_at(&p, o.spread.set_offsets), offsets, sizeof offsets);
    o.spread.seed_count = 100002;
    cr_assert_eq(give(&p, o), RESULT_OK);
    cr_assert(graph_right(&p, &o, &g));
    const struct order_spread_set *sets = peer_at(&p, o.spread.out_sets);
    cr_assert(!sets[0].no_room && sets[1].no_room == NO_ROOM_WORK && !sets[2].no_room);
    expect_right(&p, &g, asked[7]);
    /* And what never fits the memory for requests is told at once. */
    struct spread_asked vast = {.room = 700000, .seed = 1};
    o = graph_ask(&p, &g, vast);
    cr_assert_eq(give(&p, o), RESULT_NO_MEMORY);
    graph_free(&g);
    peer_close(&p);
}

/* A deadline that is past ends it where it is: the seeds are touched. */
Test(server_spread, keeps_deadlines)
{
    struct gpu_peer p = {0};
    peer_open(&p, "vram_mib=64", 4);
    struct gpu_graph g = graph_make(1, 1, 1, 2000, 4, true, 1);
    upload(&p, &g);
    struct order o = graph_ask(&p, &g, (struct spread_asked){.seeds = 5, .hops = 50});
    o.spread.deadline_ns = clock_now_ns() - 1;
    cr_assert_eq(give(&p, o), RESULT_OK);
    struct order_spread_set *set = peer_at(&p, o.spread.out_sets);
    cr_assert(set->truncated && set->record_count >= 5 && set->hops_done < 50);
    o.spread.deadline_ns = clock_now_ns() + UINT64_C(20000000000);
    memset(peer_at(&p, o.spread.out_records), 0xee,
           o.spread.record_room * sizeof(struct spread_record));
    cr_assert_eq(give(&p, o), RESULT_OK);
    cr_assert(graph_right(&p, &o, &g));
    graph_free(&g);
    peer_close(&p);
}

/* More graphs than VRAM holds: those that were not used for longest make room, and are told. */
Test(server_spread, evicts_graphs)
{
    enum { GRAPHS = 6 };
    struct gpu_peer p = {0};
    struct gpu_graph graphs[GRAPHS];
    peer_open(&p, "vram_mib=8 granularity_kib=16", 4);
    for (uint32_t i = 0; i < GRAPHS; i++) {
        graphs[i] = graph_make(1 + i, 1 + i, 1, 10000, 6, false, i);
        upload(&p, &graphs[i]);
        expect_right(&p, &graphs[i], asked[1]);
    }
    cr_assert(atomic_load(&p.share->usage.evictions) >= GRAPHS - 4);
    cr_assert_eq(give(&p, graph_ask(&p, &graphs[0], asked[0])), RESULT_NO_REPLICA);
    for (uint32_t i = 0; i < GRAPHS; i++)
        graph_free(&graphs[i]);
    peer_close(&p);
}
