/* The GPU process's server with two versions of a graph: spreads of many sets go in passes, uploads
 * and the spreads behind them pass such a one, which goes on with the version that it began with;
 * only pages that changed have memory of their own. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/gpu_graph.h"

enum { NODES = 6000, DEGREE = 4, SETS = 64, PAGE = 65536, ORDERS_MAX = 24 };

/* A call runs one set, and takes 5 ms. thought: what the device is thought to do; with 1
 * any spread of several sets is thought to last long. */
static void open_slow(struct gpu_peer *p, const char *thought, const char *settings)
{
    static char sim[200];
    snprintf(sim, sizeof sim, "%s pass_sets=1 latency_us=5000 strict=1 %s", thought, settings);
    *p = (struct gpu_peer){0};
    peer_open(p, sim, 2);
}

#define LONG  "multiply_adds=1"
#define SHORT "multiply_adds=100000000"

static uint32_t result_of(struct gpu_peer *p, struct order o)
{
    return peer_done(p, peer_order(p, o)).result;
}

static void upload_all(struct gpu_peer *p, const struct gpu_graph *g)
{
    struct order orders[ORDER_PARTS_MAX];
    uint32_t count = graph_upload_all(p, g, orders);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(result_of(p, orders[i]), RESULT_OK);
}

static struct gpu_graph graph_of(uint64_t replica, uint64_t seed)
{
    return graph_make(1, replica, 5, NODES, DEGREE, seed % 2, seed);
}

/* The next version: one list's edges are others, so a page of each side at most. */
static struct gpu_graph next_of(const struct gpu_graph *g)
{
    struct gpu_graph next = graph_copy(g);
    const struct spread_list *out = next.parts[PART_OUT], *in = next.parts[PART_IN];
    struct spread_edge *edges = next.parts[PART_OUT_EDGES], *back = next.parts[PART_IN_EDGES];
    uint32_t source = 0;
    next.version = g->version + 1;
    while (!out[source].count)
        source++;
    uint32_t target = edges[out[source].first].node;
    for (uint32_t i = 0; i < out[source].count; i++)
        if (edges[out[source].first + i].node == target)
            edges[out[source].first + i].weight = (float)next.version / 64;
    for (uint32_t i = 0; i < in[target].count; i++)
        if (back[in[target].first + i].node == source)
            back[in[target].first + i].weight = (float)next.version / 64;
    return next;
}

/* The pages of edges that differ, as orders; the last has the version. */
static uint32_t changes(struct gpu_peer *p, const struct gpu_graph *was, const struct gpu_graph *g,
                        uint32_t round, struct order *orders)
{
    uint32_t count = 0;
    for (uint32_t part = PART_OUT_EDGES; part <= PART_IN_EDGES; part++)
        for (uint64_t at = 0; at < g->bytes[part]; at += PAGE) {
            uint64_t bytes = g->bytes[part] - at < PAGE ? g->bytes[part] - at : PAGE;
            if (!memcmp((char *)g->parts[part] + at, (char *)was->parts[part] + at, bytes))
                continue;
            cr_assert(count < ORDERS_MAX);
            orders[count] = graph_upload(p, g, false, part, at, bytes, 0);
            orders[count++].part.round = round;
        }
    cr_assert_gt(count, 0);
    orders[count - 1].version = g->version;
    return count;
}

static struct order spread_on(struct gpu_peer *p, const struct gpu_graph *g, uint32_t sets)
{
    return graph_ask(p, g,
                     (struct spread_asked){.mode = sets % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR,
                                           .sets = sets,
                                           .seeds = 5,
                                           .hops = 3,
                                           .flags = ORDER_SPREAD_PATHS,
                                           .seed = sets});
}

/* All sets have an answer, and it is right. */
static bool whole(struct gpu_peer *p, const struct order *o, const struct gpu_graph *g)
{
    const struct order_spread_set *sets = peer_at(p, o->spread.out_sets);
    for (uint32_t i = 0; i < o->spread.set_count; i++)
        if (sets[i].no_room) return false;
    return graph_right(p, o, g);
}

static uint32_t undone(struct gpu_peer *p, const struct order *o)
{
    const struct order_spread_set *sets = peer_at(p, o->spread.out_sets);
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->spread.set_count; i++)
        count += sets[i].no_room == NO_ROOM_WORK;
    return count;
}

/* Orders that are given at once, and what became of them. */
struct given {
    uint64_t first; /* token */
    uint32_t results[ORDERS_MAX];
    uint32_t ended[ORDERS_MAX]; /* as which of them: 1 is the first */
};

static struct given give(struct gpu_peer *p, const struct order *orders, uint32_t count)
{
    struct given g = {.first = 0};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t token = peer_order(p, orders[i]);
        if (!i) g.first = token;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct completion c = peer_completion(p);
        g.results[c.token - g.first] = c.result;
        g.ended[c.token - g.first] = i + 1;
    }
    return g;
}

static uint64_t replica_bytes(const struct gpu_peer *p)
{
    return atomic_load(&p->share->usage.replica_bytes);
}

/* The third launch fails: so there was one. A single set is one launch. */
Test(server_graph_versions, many_sets_go_in_passes, .timeout = 900)
{
    static const uint32_t sets[] = {1, 2, 3, 10};
    for (int thought = 0; thought < 2; thought++)
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
            for (int fails = 0; fails < 2; fails++) {
                struct gpu_peer p;
                open_slow(&p, thought ? LONG : SHORT, fails ? "fail=3:error@spread" : "");
                struct gpu_graph a = graph_of(1, 4);
                upload_all(&p, &a);
                struct order o = spread_on(&p, &a, sets[i]);
                uint32_t want = fails && sets[i] > 2 ? RESULT_ERROR : RESULT_OK;
                cr_assert_eq(result_of(&p, o), want, "%u sets", sets[i]);
                cr_assert(want || whole(&p, &o, &a), "%u sets", sets[i]);
                graph_free(&a);
                peer_close(&p);
            }
}

/* Rooms that hold a part of the records: who finds none is told so, whatever the pass. */
Test(server_graph_versions, passes_share_the_room, .timeout = 900)
{
    struct gpu_peer p;
    open_slow(&p, LONG, "");
    struct gpu_graph a = graph_of(1, 4);
    upload_all(&p, &a);
    struct order o = graph_ask(
        &p, &a,
        (struct spread_asked){.sets = 12, .seeds = 9, .hops = 2, .room = NODES + 100, .seed = 3});
    cr_assert_eq(result_of(&p, o), RESULT_OK);
    cr_assert(graph_right(&p, &o, &a));
    graph_free(&a);
    peer_close(&p);
}

Test(server_graph_versions, an_upload_passes_a_long_spread, .timeout = 900)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, LONG, vmm ? "granularity_kib=64" : "vmm=0");
        struct gpu_graph a = graph_of(1, 2), b = next_of(&a), c = next_of(&b);
        upload_all(&p, &a);
        uint64_t alone = replica_bytes(&p);
        struct order orders[ORDERS_MAX] = {spread_on(&p, &a, SETS)};
        uint32_t count = 1, first, second, old;
        count += changes(&p, &a, &b, 1, orders + count);
        orders[first = count++] = spread_on(&p, &b, 1);
        orders[old = count++] = spread_on(&p, &a, 1);
        count += changes(&p, &b, &c, 1, orders + count);
        orders[second = count++] = spread_on(&p, &c, 2);
        struct given g = give(&p, orders, count);
        for (uint32_t i = 0; i < count; i++)
            cr_assert_eq(g.results[i], RESULT_OK, "%u: %u", i, g.results[i]);
        cr_assert(whole(&p, &orders[0], &a), "the long one");
        cr_assert(whole(&p, &orders[first], &b) && whole(&p, &orders[second], &c));
        cr_assert(whole(&p, &orders[old], &a), "a short one on the older version");
        cr_assert_eq(g.ended[0], count, "the others passed it");
        cr_assert_eq(replica_bytes(&p), alone);
        struct order later = spread_on(&p, &c, 3);
        cr_assert_eq(result_of(&p, later), RESULT_OK);
        cr_assert(whole(&p, &later, &c));
        graph_free(&a), graph_free(&b), graph_free(&c);
        peer_close(&p);
    }
}

/* Beside the graph, memory for the pages of the edges that changed is enough. Without mapping, a
 * version is a whole copy, for which there is no room: it comes in another round. */
Test(server_graph_versions, pages_that_stay_are_shared, .timeout = 900)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, LONG, vmm ? "granularity_kib=64" : "granularity_kib=64 vmm=0");
        struct gpu_graph a = graph_of(1, 2), b = next_of(&a);
        upload_all(&p, &a);
        uint64_t alone = replica_bytes(&p);
        struct order orders[ORDERS_MAX] = {spread_on(&p, &a, SETS)};
        uint32_t count = 1 + changes(&p, &a, &b, 1, orders + 1), ups = count;
        for (uint32_t i = 1; i < ups; i++)
            orders[i].part.space_bytes_max = alone + (count - 1) * PAGE;
        orders[count++] = spread_on(&p, &b, 2);
        struct given g = give(&p, orders, count);
        cr_assert_eq(g.results[0], RESULT_OK);
        cr_assert(whole(&p, &orders[0], &a));
        for (uint32_t i = 1; i < count; i++)
            cr_assert_eq(g.results[i], vmm ? RESULT_OK : RESULT_NO_VERSION, "%u: %u", i,
                         g.results[i]);
        for (uint32_t i = 1; i < ups && !vmm; i++) {
            orders[i].part.round = 2;
            cr_assert_eq(result_of(&p, orders[i]), RESULT_OK);
        }
        cr_assert_eq(result_of(&p, orders[ups]), RESULT_OK);
        cr_assert(whole(&p, &orders[ups], &b));
        cr_assert_eq(replica_bytes(&p), alone);
        cr_assert_eq(atomic_load(&p.share->usage.evictions), 0);
        graph_free(&a), graph_free(&b);
        peer_close(&p);
    }
}

/* A byte too few in the space's quota, or a third version: the newer is not made, in this round. */
Test(server_graph_versions, no_room_for_another_version, .timeout = 900)
{
    struct gpu_peer p;
    open_slow(&p, LONG, "granularity_kib=64");
    struct gpu_graph a = graph_of(1, 2), b = next_of(&a), c = next_of(&b), d = next_of(&c);
    upload_all(&p, &a);
    uint64_t alone = replica_bytes(&p);
    struct order orders[ORDERS_MAX];
    struct order many = spread_on(&p, &a, SETS);
    uint64_t token = peer_order(&p, many);
    uint32_t count = changes(&p, &a, &b, 1, orders);
    for (uint32_t i = 0; i < count; i++) {
        orders[i].part.space_bytes_max = alone + PAGE - 1;
        cr_assert_eq(result_of(&p, orders[i]), RESULT_NO_VERSION);
    }
    cr_assert_eq(peer_done(&p, token).result, RESULT_OK);
    cr_assert(whole(&p, &many, &a));

    /* What was refused has no version until it comes again. */
    for (uint32_t i = 0; i < count; i++) {
        orders[i].part.space_bytes_max = 0;
        orders[i].part.round = 2;
        cr_assert_eq(result_of(&p, orders[i]), RESULT_OK);
    }
    many = spread_on(&p, &b, SETS);
    token = peer_order(&p, many);
    count = changes(&p, &b, &c, 2, orders);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(result_of(&p, orders[i]), RESULT_OK);
    struct order more = spread_on(&p, &c, SETS);
    uint64_t second = peer_order(&p, more);
    count = changes(&p, &c, &d, 3, orders);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(result_of(&p, orders[i]), RESULT_NO_VERSION);
    for (int i = 0; i < 2; i++) {
        struct completion done = peer_completion(&p);
        cr_assert(done.token == token || done.token == second);
        cr_assert_eq(done.result, RESULT_OK);
    }
    cr_assert(whole(&p, &many, &b) && whole(&p, &more, &c));
    graph_free(&d);
    graph_free(&a), graph_free(&b), graph_free(&c);
    peer_close(&p);
}

/* Sets that were thought to be done in one pass, and were not: the graph stays as it is from then
 * on, or what is left is the CPU's if it has changed before. */
Test(server_graph_versions, passes_that_nobody_expected, .timeout = 900)
{
    for (int changed = 0; changed < 2; changed++) {
        struct gpu_peer p;
        open_slow(&p, SHORT, "granularity_kib=64");
        struct gpu_graph a = graph_of(1, 2), b = next_of(&a);
        upload_all(&p, &a);
        struct order orders[ORDERS_MAX] = {spread_on(&p, &a, 3)};
        uint32_t count = 1;
        if (changed) count += changes(&p, &a, &b, 1, orders + count);
        struct given g = give(&p, orders, count);
        for (uint32_t i = 0; i < count; i++)
            cr_assert_eq(g.results[i], RESULT_OK, "%u: %u", i, g.results[i]);
        cr_assert(graph_right(&p, &orders[0], &a));
        cr_assert_eq(undone(&p, &orders[0]), changed ? 2 : 0);
        struct order later = spread_on(&p, changed ? &b : &a, 3);
        cr_assert_eq(result_of(&p, later), RESULT_OK);
        cr_assert(whole(&p, &later, changed ? &b : &a));
        graph_free(&a), graph_free(&b);
        peer_close(&p);
    }
}

/* One call of the device fails. Whoever is told that all is well has the right answer, and the
 * server goes on. True if anybody was told else. */
static bool fails_at(const char *call, const char *kind, uint32_t n)
{
    enum { FEW_SETS = 5 };
    struct gpu_peer p;
    char settings[80];
    snprintf(settings, sizeof settings, "granularity_kib=64 fail=%u:%s@%s", n, kind, call);
    open_slow(&p, LONG, settings);
    struct gpu_graph a = graph_of(1, 2), b = next_of(&a);
    upload_all(&p, &a);
    struct order orders[ORDERS_MAX] = {spread_on(&p, &a, FEW_SETS)};
    uint32_t count = 1 + changes(&p, &a, &b, 1, orders + 1);
    orders[count++] = spread_on(&p, &b, 2);
    struct given g = give(&p, orders, count);
    bool failed = false;
    for (uint32_t i = 0; i < count; i++)
        failed |= g.results[i] != RESULT_OK;
    cr_assert(g.results[0] || whole(&p, &orders[0], &a), "%u: %s@%s", n, kind, call);
    cr_assert(g.results[count - 1] || whole(&p, &orders[count - 1], &b), "%u: %s@%s", n, kind,
              call);
    upload_all(&p, &b);
    struct order later = spread_on(&p, &b, 2);
    cr_assert(result_of(&p, later) || whole(&p, &later, &b), "%u: %s@%s", n, kind, call);
    graph_free(&a), graph_free(&b);
    peer_close(&p);
    cr_assert_eq(p.result, 0);
    return failed;
}

Test(server_graph_versions, any_call_may_fail, .timeout = 900)
{
    static const char *const calls[] = {"range_fork", "range_own", "spread"};
    static const char *const kinds[] = {"memory", "error"};
    for (int i = 0; i < 6; i++) {
        uint32_t n = 1;
        while (fails_at(calls[i / 2], kinds[i % 2], n))
            n++;
        /* eight arrays, the edges' pages of both sides, five passes and two */
        static const uint32_t least[] = {8, 2, 7};
        cr_assert_gt(n, least[i / 2], "%s of %s came %u times", kinds[i % 2], calls[i / 2], n - 1);
    }
}

/* Forgotten while there are two, and built anew behind; the device would notice what is not given
 * back. */
Test(server_graph_versions, forgotten_while_there_are_two, .timeout = 900)
{
    struct gpu_peer p;
    open_slow(&p, LONG, "granularity_kib=64");
    struct gpu_graph a = graph_of(1, 2), b = next_of(&a);
    upload_all(&p, &a);
    struct order orders[ORDERS_MAX] = {spread_on(&p, &a, SETS)};
    uint32_t count = 1;
    count += changes(&p, &a, &b, 1, orders + count);
    orders[count++] = graph_forget(&a);
    uint32_t fresh = count;
    count += graph_upload_all(&p, &b, orders + count);
    struct given g = give(&p, orders, count);
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(g.results[i], RESULT_OK, "%u: %u", i, g.results[i]);
    cr_assert(g.ended[fresh] > g.ended[0]);
    cr_assert(whole(&p, &orders[0], &a));
    struct order later = spread_on(&p, &b, 2);
    cr_assert_eq(result_of(&p, later), RESULT_OK);
    cr_assert(whole(&p, &later, &b));
    graph_free(&a), graph_free(&b);
    peer_close(&p);
}

Test(server_graph_versions, the_end_comes_while_there_are_two, .timeout = 900)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct gpu_peer p;
        open_slow(&p, LONG, vmm ? "granularity_kib=64" : "vmm=0");
        struct gpu_graph a = graph_of(1, 2), b = next_of(&a);
        struct order orders[ORDERS_MAX];
        upload_all(&p, &a);
        peer_order(&p, spread_on(&p, &a, SETS));
        uint32_t count = changes(&p, &a, &b, 1, orders);
        for (uint32_t i = 0; i < count; i++)
            cr_assert_eq(result_of(&p, orders[i]), RESULT_OK);
        graph_free(&a), graph_free(&b);
        peer_close(&p);
        cr_assert_eq(p.result, 0);
    }
}
