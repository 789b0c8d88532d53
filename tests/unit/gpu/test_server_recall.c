/* The GPU process's server over the simulated device: recalls, in one pass and in several; orders
 * that make no sense are refused, and the process goes on. */
#include <criterion/criterion.h>
#include <string.h>

#include "kernels/recall.h"
#include "tests/support/gpu_ask.h"
#include "tests/support/gpu_graph.h"

enum { NODES = 200, ROWS = 90, D = 24, RESULTS = 20 };

static struct gpu_peer peer;
static struct gpu_graph graph;
static struct ask_rows rows;

static uint32_t give(struct order o)
{
    return peer_done(&peer, peer_order(&peer, o)).result;
}

static void begin(void)
{
    struct order orders[ORDER_PARTS_MAX];
    peer_open(&peer, "shadow_rows=24", 4);
    graph = graph_make(1, 1, 5, NODES, 6, false, 3);
    rows = ask_make(1, 2, 9, D, ROWS, 4);
    for (uint32_t i = 0; i < ROWS; i += 2) /* every other row is a node's */
        rows.ids[i] = graph_seen(&graph).ids[i];
    uint32_t count = graph_upload_all(&peer, &graph, orders);
    for (uint32_t i = 0; i < count; i++)
        peer_order(&peer, orders[i]);
    for (uint32_t i = 0; i < count;)
        i += peer_completion(&peer).kind == COMPLETION_DONE;
    cr_assert_eq(give(ask_upload(&peer, &rows, true, 0, ROWS)), RESULT_OK);
}

static void end(void)
{
    graph_free(&graph);
    ask_free(&rows);
    peer_close(&peer);
}

TestSuite(server_recall, .init = begin, .fini = end, .timeout = 120);

static struct order_recall *asked_of(const struct order *o)
{
    return peer_at(&peer, o->run.segments);
}

/* So many lists of one cue, the same one. */
static struct order ask(uint32_t lists)
{
    struct order spread =
        graph_ask(&peer, &graph, (struct spread_asked){.mode = SPREAD_ENGRAM, .hops = 3});
    struct order o = {.kind = ORDER_RUN,
                      .space = 1,
                      .replica = graph.replica,
                      .version = graph.version,
                      .third_replica = rows.replica,
                      .third_version = rows.version,
                      .run = order_run_of(RUN_RECALL)};
    struct order_run *r = &o.run;
    r->metric = METRIC_COSINE;
    r->dimension = D;
    r->row_count = ROWS;
    r->k = 12;
    r->threshold = -1;
    r->has_threshold = 1;
    r->query_count = r->list_count = lists;
    r->queries = peer_take(&peer, lists * D * sizeof(float));
    r->offsets = peer_take(&peer, (lists + 1) * sizeof(uint64_t));
    r->segments = peer_take(&peer, sizeof(struct order_recall));
    r->out_ids = peer_take(&peer, lists * sizeof(struct recall_outcome));
    r->out_scores = peer_take(&peer, lists * RESULTS * sizeof(struct recall_entry));
    for (uint32_t i = 0; i < lists; i++)
        memcpy((float *)peer_at(&peer, r->queries) + i * D, rows.plain + 7 * D, D * sizeof(float));
    for (uint32_t i = 0; i <= lists; i++)
        ((uint64_t *)peer_at(&peer, r->offsets))[i] = i;
    *asked_of(&o) = (struct order_recall){
        .spread = spread.spread,
        .results = RESULTS,
        .width = RECALL_WIDTH,
        .activation_min = RECALL_ACTIVATION_MIN,
        .boost = RECALL_BOOST,
        .out_times = peer_take(&peer, sizeof(struct recall_times)),
    };
    return o;
}

/* All lists have the outcome and the entries of the first one. */
static void expect_alike(const struct order *o)
{
    const struct recall_outcome *outcomes = peer_at(&peer, o->run.out_ids);
    const struct recall_entry *entries = peer_at(&peer, o->run.out_scores);
    cr_assert(outcomes[0].seeds == 12 && outcomes[0].spread > 2 && outcomes[0].kept == RESULTS);
    cr_assert_eq(entries[0].marks & RECALL_SEED, RECALL_SEED);
    for (uint64_t i = 1; i < o->run.list_count; i++) {
        cr_assert_eq(memcmp(&outcomes[i], outcomes, sizeof *outcomes), 0, "list %d", (int)i);
        for (uint32_t e = 0; e < RESULTS; e++) {
            const struct recall_entry *x = &entries[i * RESULTS + e], *y = &entries[e];
            cr_assert(x->id == y->id && x->marks == y->marks && x->depth == y->depth);
            cr_assert_eq(memcmp(&x->activation, &y->activation, 2 * sizeof(float)), 0);
        }
    }
}

Test(server_recall, one_pass_and_several)
{
    static const uint32_t lists[] = {2, 100, 257, 1000};
    for (int i = 0; i < 4; i++) {
        struct order o = ask(lists[i]);
        cr_assert_eq(give(o), RESULT_OK, "%u lists", lists[i]);
        expect_alike(&o);
    }
}

Test(server_recall, refuses_what_makes_no_sense)
{
    for (int wrong = 0; wrong <= 18; wrong++) {
        struct order o = ask(3);
        struct order_recall *a = asked_of(&o);
        uint64_t *offsets = peer_at(&peer, o.run.offsets);
        switch (wrong) {
        case 0: o.run.list_count = 0; break;
        case 1: o.run.list_count = 2; break; /* the last one does not end with the cues */
        case 2: o.run.list_count = ORDER_RECALL_LISTS_MAX + 1; break;
        case 3: o.run.offsets = PLACE_NONE; break;
        case 4: offsets[1] = 3, offsets[2] = 2; break;
        case 5: o.run.segments = PLACE_NONE; break;
        case 6: o.run.out_scores = UINT64_C(1) << 60; break;
        case 7: o.run.dimension = D + 1; break;
        case 8: o.run.row_count = ROWS + 1; break;
        case 9: o.run.k = 0; break;
        case 10: o.run.metric = METRIC_DOT; break;
        case 11: a->results = 0; break;
        case 12: a->results = ORDER_RECALL_RESULTS_MAX + 1; break;
        case 13: a->width = 0; break;
        case 14: a->boost = RECALL_BOOST_MAX * 2; break;
        case 15: a->spread.nodes = NODES + 1; break;
        case 16: a->spread.hops = 0; break;
        case 17: a->spread.dimension = D, a->spread.row_count = ROWS - 1; break;
        case 18: a->out_times = PLACE_NONE; break;
        default: break;
        }
        cr_assert_eq(give(o), RESULT_REFUSED, "wrong %d", wrong);
    }
    struct order o = ask(3);
    cr_assert_eq(give(o), RESULT_OK);
    expect_alike(&o);
}

/* Which replica is not there, or has another version, is told by number. */
Test(server_recall, names_the_replica_that_is_missing)
{
    struct order o = ask(1);
    o.third_version++;
    struct completion c = peer_done(&peer, peer_order(&peer, o));
    cr_assert(c.result == RESULT_NO_REPLICA && c.number == 2);
    o = ask(1);
    o.other_replica = 77, o.other_version = 1;
    c = peer_done(&peer, peer_order(&peer, o));
    cr_assert(c.result == RESULT_NO_REPLICA && c.number == 1);
    o = ask(1);
    o.version++;
    c = peer_done(&peer, peer_order(&peer, o));
    cr_assert(c.result == RESULT_NO_REPLICA && c.number == 0);
}
