/* Recalls through the socket: what three requests answer, bit for bit; many at once; beside writers
 * of what they read; refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/recall.h"
#include "tests/support/client_expect.h"
#include "tests/support/graph_twin.h"
#include "tests/support/sets.h"

enum { NODES = 400, ROWS = 300, D = 24, CUES = 5 };

static struct scene scene;
static ea_client *c;
static struct twin twin;
static uint64_t ids[ROWS];
static float rows[ROWS * D], cues[CUES * D];

static float near(float number, uint32_t at)
{
    return number + (float)twin_draw(&twin, 2000) / 4000.0F + (at % 7 == 0);
}

static void begin(void)
{
    scene_open(&scene, NULL);
    c = scene_client(&scene, "memory");
    twin_make(&twin, c, "links", NODES, 3);
    twin_add_edges(&twin, c, 4000, 3, false);
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = i % 6 == 5 ? 5 + i : twin.ids[i]; /* some are no nodes */
    for (uint32_t i = 0; i < ROWS * D; i++)
        rows[i] = near(0, i / D);
    for (uint32_t i = 0; i < CUES * D; i++)
        cues[i] = near(0.2F, i);
    OK(ea_collection_create(c, "rows", D, EA_COSINE, NULL));
    OK(ea_upsert(
        c,
        &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
        NULL));
}

static void end(void)
{
    OK(ea_collection_drop(c, "rows"));
    twin_drop(&twin, c);
    ea_close(c);
    scene_close(&scene);
}

TestSuite(recall, .init = begin, .fini = end, .timeout = 300);

static ea_recall_question question(const ea_spread_options *how)
{
    return (ea_recall_question){.collection = "rows",
                                .graph = "links",
                                .cues = cues,
                                .cue_count = CUES,
                                .dimension = D,
                                .results = 60,
                                .k = 20,
                                .spread = how,
                                .ignore_embeddings = how->mode != EA_LINEAR && !how->embeddings};
}

/* ---- the same as three requests ---- */

struct best {
    uint64_t id;
    float activation, strength;
    uint8_t marks;
};

static int by_strength(const void *a, const void *b)
{
    const struct best *x = a, *y = b;
    if (x->strength != y->strength) return x->strength < y->strength ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The second request: a spread from the hits that are nodes. */
static void spread_from(const ea_result *hits, uint64_t cue, const ea_spread_options *how,
                        ea_spread_result *out, struct best *seeds, uint64_t *seed_count)
{
    uint64_t known[ROWS], count = 0;
    float activations[ROWS];
    *seed_count = hits->counts[cue];
    for (uint64_t i = 0; i < hits->counts[cue]; i++) {
        uint64_t id = hits->ids[cue * hits->columns + i];
        float a = recall_activation(hits->scores[cue * hits->columns + i], 0.4F, 0.5F);
        seeds[i] = (struct best){id, a, a * 1.1F, EA_RECALL_SEED};
        if (graph_find(graph_now(twin.graph), id) == SPREAD_NO_NODE) continue;
        known[count] = id;
        activations[count++] = a;
    }
    OK(ea_spread(c, "links", how,
                 &(ea_seeds){.ids = known, .activations = activations, .count = count}, out));
}

/* The third: their rows, and what their cosines are. */
static void expect_scores(const ea_recall_result *r, uint64_t cue)
{
    ea_result fetched = {0};
    uint64_t first = r->offsets[cue], n = r->offsets[cue + 1] - first;
    OK(ea_fetch(c, "rows", r->ids + first, n, &fetched));
    for (uint64_t i = 0; i < n; i++) {
        float want = fetched.found[i] ? reference_score(REFERENCE_COSINE, D, cues + cue * D,
                                                        fetched.vectors + i * D)
                                      : NAN;
        cr_assert(reference_same(r->scores[first + i], want), "entry %d", (int)i);
    }
    ea_result_free(&fetched);
}

static void expect_three(const ea_recall_result *r, const ea_spread_options *how)
{
    const float threshold = 0.4F;
    ea_result hits = {0};
    OK(ea_knn(c,
              &(ea_knn_question){.collection = "rows",
                                 .queries = cues,
                                 .query_count = CUES,
                                 .dimension = D,
                                 .k = 20,
                                 .threshold = &threshold},
              &hits));
    for (uint64_t cue = 0; cue < CUES; cue++) {
        static struct best all[NODES + ROWS], seeds[ROWS];
        ea_spread_result s = {0};
        uint64_t seed_count, n = 0, first = r->offsets[cue];
        spread_from(&hits, cue, how, &s, seeds, &seed_count);
        for (uint64_t i = 0; i < s.count; i++)
            all[n++] =
                (struct best){s.ids[i], s.activations[i], s.activations[i], EA_RECALL_TOUCHED};
        for (uint64_t i = 0; i < seed_count; i++) {
            uint64_t at = 0;
            while (at < s.count && all[at].id != seeds[i].id)
                at++;
            if (at == s.count) {
                all[n++] = seeds[i];
                continue;
            }
            all[at].strength = all[at].activation * 1.1F;
            all[at].marks |= EA_RECALL_SEED;
        }
        qsort(all, n, sizeof *all, by_strength);
        cr_assert_eq(r->offsets[cue + 1] - first, n < 60 ? n : 60);
        cr_assert(r->touched[cue] == s.touched[0] && r->truncated[cue] == s.truncated[0]);
        cr_assert_eq(r->seeds[2 * cue], seed_count);
        for (uint64_t i = 0; i < r->offsets[cue + 1] - first; i++) {
            cr_assert(r->ids[first + i] == all[i].id && r->marks[first + i] == all[i].marks);
            cr_assert(reference_same(r->activations[first + i], all[i].activation));
        }
        expect_scores(r, cue);
        ea_spread_result_free(&s);
    }
    ea_result_free(&hits);
}

Test(recall, is_what_three_requests_are)
{
    const ea_spread_options ways[] = {
        {.mode = EA_ENGRAM, .paths = true},
        {.mode = EA_LINEAR, .hops = 3, .decay = EA_DECAY_POWER, .decay_parameter = 0.5F},
        {.mode = EA_ENGRAM, .embeddings = "rows", .touched_max = 50},
        {.mode = EA_LINEAR, .hops = 2, .last_hop = true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ea_recall_result r = {0};
        ea_recall_question q = question(&ways[i]);
        OK(ea_recall(c, &q, &r));
        cr_assert(r.lists == CUES && r.count > CUES && r.seeds[0] > 3);
        cr_assert(r.seek_ns && r.spread_ns && r.rank_ns && r.meta->run_ns);
        cr_assert(r.graph_version && r.collection_version);
        cr_assert_eq(r.embeddings_version, ways[i].embeddings ? r.collection_version : 0);
        expect_three(&r, &ways[i]);
        ea_recall_result_free(&r);
    }
}

/* ---- many at once ---- */

struct kept {
    ea_status status;
    ea_recall_result result;
};

static void keep(ea_client *client, const ea_answer *answer, void *user)
{
    struct kept *k = user;
    (void)client;
    k->status = answer->status;
    if (answer->status) return;
    k->result = *answer->recalled;
    *answer->recalled = (ea_recall_result){0};
}

static void expect_same(const ea_recall_result *a, const ea_recall_result *b)
{
    cr_assert(a->lists == b->lists && a->count == b->count);
    cr_assert_eq(memcmp(a->offsets, b->offsets, (a->lists + 1) * 8), 0);
    cr_assert_eq(memcmp(a->ids, b->ids, a->count * 8), 0);
    cr_assert_eq(memcmp(a->activations, b->activations, a->count * 4), 0);
    cr_assert_eq(memcmp(a->scores, b->scores, a->count * 4), 0);
    cr_assert_eq(memcmp(a->marks, b->marks, a->count), 0);
}

Test(recall, of_many_cues_and_many_requests_is_that_of_each)
{
    enum { TIMES = 6 };
    const ea_spread_options how = {.mode = EA_ENGRAM};
    struct kept kept[TIMES] = {0};
    ea_recall_result whole = {0};
    ea_recall_question q = question(&how);
    OK(ea_recall(c, &q, &whole));
    for (int i = 0; i < TIMES; i++)
        OK(ea_recall_send(c, &q, &(ea_send_options){.callback = keep, .user = &kept[i]}, NULL));
    while (ea_pending(c))
        OK(ea_pump(c, -1));
    for (int i = 0; i < TIMES; i++) {
        cr_assert_eq(kept[i].status, EA_OK);
        expect_same(&kept[i].result, &whole);
        ea_recall_result_free(&kept[i].result);
    }
    q.cue_count = 1;
    for (uint64_t cue = 0; cue < CUES; cue++) {
        ea_recall_result one = {0};
        q.cues = cues + cue * D;
        OK(ea_recall(c, &q, &one));
        uint64_t first = whole.offsets[cue];
        cr_assert_eq(one.count, whole.offsets[cue + 1] - first);
        cr_assert_eq(memcmp(one.ids, whole.ids + first, one.count * 8), 0);
        cr_assert_eq(memcmp(one.activations, whole.activations + first, one.count * 4), 0);
        ea_recall_result_free(&one);
    }
    ea_recall_result_free(&whole);
}

/* ---- beside writers ---- */

struct writer {
    atomic_bool stop;
    uint64_t node;
};

/* Moves an id back and forth: row and edge are written by one connection, one after the other. */
static void *write_both(void *user)
{
    struct writer *w = user;
    ea_client *mine = scene_client(&scene, "memory");
    const float weight = 1;
    for (uint64_t i = 0; !atomic_load(&w->stop); i++) {
        uint64_t id = 1000000 + i;
        float row[D];
        memcpy(row, cues, sizeof row);
        if (ea_upsert(
                mine,
                &(ea_rows){
                    .collection = "rows", .ids = &id, .rows = row, .count = 1, .dimension = D},
                NULL) ||
            ea_graph_add_edges(
                mine, "links",
                &(ea_graph_edges){
                    .sources = &id, .targets = &w->node, .weights = &weight, .count = 1},
                NULL) ||
            ea_delete(mine, "rows", &id, 1, NULL) ||
            ea_graph_remove_nodes(mine, "links", &id, 1, NULL))
            break;
    }
    ea_close(mine);
    return NULL;
}

/* A recall sees row and edge as of one instant: what it finds and does not find as a node was
 * written a moment ago, and everything else is there. */
Test(recall, beside_writers_of_both)
{
    struct writer w = {.node = twin.ids[0]};
    const ea_spread_options how = {.mode = EA_ENGRAM};
    const uint32_t times = 60;
    ea_recall_result before = {0};
    ea_recall_question q = question(&how);
    q.cue_count = 1;
    q.k = 30;
    OK(ea_recall(c, &q, &before));
    pthread_t thread;
    pthread_create(&thread, NULL, write_both, &w);
    uint64_t version = 0;
    for (uint32_t i = 0; i < times; i++) {
        ea_recall_result r = {0};
        OK(ea_recall(c, &q, &r));
        cr_assert(r.graph_version >= version && r.seeds[0] >= before.seeds[0]);
        version = r.graph_version;
        uint64_t fresh = 0;
        for (uint64_t at = 0; at < r.count; at++)
            fresh += r.ids[at] >= 1000000 && r.ids[at] < UINT64_C(1) << 32 && r.marks[at] & 1;
        cr_assert_leq(fresh, 1, "the writer has one at a time");
        ea_recall_result_free(&r);
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    ea_recall_result after = {0};
    OK(ea_recall(c, &q, &after));
    expect_same(&before, &after);
    ea_recall_result_free(&before);
    ea_recall_result_free(&after);
}

/* A client's own writes are seen by its next recall, without waiting for their answers. */
Test(recall, sees_its_own_writes)
{
    const ea_spread_options how = {.mode = EA_LINEAR};
    struct kept kept = {0};
    const uint64_t id = 77;
    const float weight = 0.5F;
    ea_recall_question q = question(&how);
    const ea_rows fresh = {
        .collection = "rows", .ids = &id, .rows = cues, .count = 1, .dimension = D};
    const ea_graph_edges edges = {
        .sources = &id, .targets = twin.ids, .weights = &weight, .count = 1};
    q.cue_count = 1;
    OK(ea_upsert_send(c, &fresh, NULL, NULL));
    OK(ea_graph_add_edges_send(c, "links", &edges, NULL, NULL));
    OK(ea_recall_send(c, &q, &(ea_send_options){.callback = keep, .user = &kept}, NULL));
    while (ea_pending(c))
        OK(ea_pump(c, -1));
    bool there = false;
    for (uint64_t i = 0; i < kept.result.count; i++)
        there |=
            kept.result.ids[i] == id && kept.result.marks[i] == 3 && kept.result.scores[i] > 0.999F;
    cr_assert(there);
    ea_recall_result_free(&kept.result);
    OK(ea_graph_remove_nodes(c, "links", &id, 1, NULL));
}

/* ---- refused ---- */

Test(recall, refuses_what_cannot_be)
{
    const ea_spread_options how = {.mode = EA_ENGRAM}, counted = {.mode = EA_ENGRAM, .k = 3};
    const float low = -2, zero = 0;
    const uint64_t nothing = 0, unknown = 999, one = 1;
    ea_recall_result r = {0};
    ea_recall_question q = question(&how), ask = q;
    OK(ea_collection_create(c, "dots", D, EA_DOT, NULL));
    ask.collection = "dots";
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_METRIC, "cosine wanted");
    OK(ea_collection_drop(c, "dots"));
    FAILS(ea_recall(c, &ask, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION, "dots");
    ask = q;
    ask.graph = "none";
    FAILS(ea_recall(c, &ask, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_GRAPH, "none");
    ask = q;
    ask.dimension = D - 1;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_DIMENSION, "23 columns");
    ask = q;
    ask.threshold = &low;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_THRESHOLD, "threshold: -2");
    ask = q;
    ask.width = &zero;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SEEDING, "width: 0");
    ask = q;
    ask.time_max_us = &nothing;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_BUDGET, "time_max_us: 0");
    ask = q;
    ask.cues = NULL;
    ask.cue_ids = &unknown;
    ask.cue_count = 1;
    FAILS(ea_recall(c, &ask, &r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ID, "no id 999");
    ask = q;
    ask.cue_ids = ids;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "exclude each other");
    ask = q;
    ask.spread = &counted;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_NONE, "k is said by");
    ask = q;
    ask.lists = 2;
    FAILS(ea_recall(c, &ask, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS, "NULL for 2 lists");
    ask = q;
    ask.time_max_us = &one; /* over before it begins: the ranked seeds */
    OK(ea_recall(c, &ask, &r));
    for (uint64_t i = 0; i < r.count; i++)
        cr_assert(r.marks[i] & EA_RECALL_SEED && r.depths[i] == 0);
    cr_assert(r.truncated[0] == 1 && r.count);
    ea_recall_result_free(&r);
    OK(ea_recall(c, &q, &r)); /* and the next one is answered */
    ea_recall_result_free(&r);
}
