/* Spreads through the socket, against the slow reference: both modes, many sets, between changes
 * and beside them, cancelled, late, refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <pb_encode.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/graph_twin.h"
#include "tests/support/sets.h"

Test(spread, answers_are_the_reference, .timeout = 900)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    static struct twin_question q;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct twin t;
        twin_make(&t, c, "g", 30 + 150 * (uint32_t)seed, seed);
        twin_add_edges(&t, c, 900 * seed, seed, false);
        for (int i = 0; i < 30; i++) {
            twin_ask_randomly(&t, &q, i % 2 ? EA_LINEAR : EA_ENGRAM);
            twin_expect(&t, c, &q);
        }
        twin_drop(&t, c);
    }
    ea_close(c);
    scene_close(&s);
}

/* ---- many in the pipe ---- */

static void keep(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    ea_spread_result *r = answer->spread;
    cr_assert_eq(st, EA_OK, "%s", ea_error_text(c));
    *(ea_spread_result *)user = *r;
    *r = (ea_spread_result){0};
}

#define SAME(column, n) \
    cr_assert_eq(memcmp(a->column, b->column, (n) * sizeof *a->column), 0, #column)

static void expect_same(const ea_spread_result *a, const ea_spread_result *b)
{
    cr_assert(a->sets == b->sets && a->count == b->count);
    SAME(offsets, a->sets + 1);
    SAME(tier_sums, a->sets * 3);
    SAME(touched, a->sets);
    SAME(cycles, a->sets);
    SAME(truncated, a->sets);
    if (!a->count) return;
    SAME(ids, a->count);
    SAME(activations, a->count);
    SAME(confidences, a->count);
    SAME(visits, a->count);
    SAME(depths, a->count);
    cr_assert_eq(!a->path_ids, !b->path_ids);
    if (a->path_ids) SAME(path_ids, a->path_offsets[a->count]);
}

Test(spread, many_at_once_are_those_one_by_one, .timeout = 900)
{
    enum { QUESTIONS = 60 };
    struct scene s;
    struct twin t;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    static struct twin_question asked[QUESTIONS];
    static ea_spread_result results[QUESTIONS];
    twin_make(&t, c, "g", 500, 11);
    twin_add_edges(&t, c, 3000, 1, false);
    for (int i = 0; i < QUESTIONS; i++) {
        struct twin_question *q = &asked[i];
        twin_ask_randomly(&t, q, i % 2 ? EA_LINEAR : EA_ENGRAM);
        cr_assert_eq(
            ea_spread_send(c, "g", &q->options,
                           &(ea_seeds){.offsets = q->offsets,
                                       .sets = q->sets,
                                       .ids = q->seeds,
                                       .activations = q->has_activations ? q->activations : NULL,
                                       .count = q->seed_count},
                           &(ea_send_options){.callback = keep, .user = &results[i]}, NULL),
            EA_OK);
    }
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    for (int i = 0; i < QUESTIONS; i++) {
        ea_spread_result again = {0};
        cr_assert_eq(twin_spread(&t, c, &asked[i], &again), EA_OK);
        expect_same(&results[i], &again);
        ea_spread_result_free(&again);
        ea_spread_result_free(&results[i]);
    }
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

Test(spread, between_changes, .timeout = 900)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    static struct twin_question q;
    struct twin t;
    twin_make(&t, c, "g", 400, 7);
    for (uint64_t i = 0; i < 40; i++) {
        switch (i % 5) {
        case 3: twin_remove_edges(&t, c, 60, i - 2); break;
        case 4: twin_remove_nodes(&t, c, 3); break;
        default: twin_add_edges(&t, c, i ? 40 : 2000, i, i % 5 == 2); break;
        }
        twin_ask_randomly(&t, &q, i % 2 ? EA_LINEAR : EA_ENGRAM);
        twin_expect(&t, c, &q);
    }
    twin_expect_nodes(&t, c);
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "g", &info), EA_OK);
    cr_assert_eq(info.nodes, graph_nodes(graph_now(t.graph)));
    cr_assert_eq(info.edges, graph_edges(graph_now(t.graph)));
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- beside changes */

enum { READERS = 3, STATES = 2 };

struct party {
    struct scene *scene;
    struct twin twin;
    struct twin_question questions[4];
    uint64_t digests[4][STATES]; /* of each answer: without and with the edges that come and go */
    uint64_t base_version;
    atomic_bool stop;
    atomic_uint answers, seen[STATES];
};

static uint64_t digest_of(const ea_spread_result *r)
{
    uint64_t sum = r->count * 31 + r->sets;
    for (uint64_t i = 0; i < r->count; i++) {
        uint32_t bits;
        memcpy(&bits, &r->activations[i], sizeof bits);
        sum = (sum ^ r->ids[i]) * UINT64_C(0x9e3779b97f4a7c15) + bits + r->visits[i];
    }
    return sum;
}

static uint64_t ask_digest(struct party *p, ea_client *c, int question, uint64_t *version)
{
    ea_spread_result r = {0};
    cr_assert_eq(twin_spread(&p->twin, c, &p->questions[question], &r), EA_OK, "%s",
                 ea_error_text(c));
    uint64_t digest = digest_of(&r);
    *version = r.meta->version;
    ea_spread_result_free(&r);
    return digest;
}

static void *read_on(void *argument)
{
    struct party *p = argument;
    ea_client *c = scene_client(p->scene, "asker");
    for (int i = 0; !atomic_load(&p->stop); i = (i + 1) % 4) {
        uint64_t version, digest = ask_digest(p, c, i, &version);
        unsigned state = (unsigned)(version - p->base_version) % STATES;
        cr_assert_eq(digest, p->digests[i][state], "question %d at version %llu", i,
                     (unsigned long long)version);
        atomic_fetch_add(&p->seen[state], 1);
        atomic_fetch_add(&p->answers, 1);
    }
    ea_close(c);
    return NULL;
}

/* Each answer is of one version, whole, whatever is written meanwhile. */
Test(spread, beside_a_writer, .timeout = 900)
{
    struct scene s;
    static struct party p;
    pthread_t readers[READERS];
    scene_open(&s, NULL);
    p.scene = &s;
    ea_client *c = scene_client(&s, "asker");
    twin_make(&p.twin, c, "g", 3000, 3);
    twin_add_edges(&p.twin, c, 30000, 1, false);
    twin_remove_edges(&p.twin, c, 500, 2); /* so that taking them away takes these alone */
    for (int i = 0; i < 4; i++)
        twin_ask_randomly(&p.twin, &p.questions[i], i % 2 ? EA_LINEAR : EA_ENGRAM);
    for (int state = 0; state < STATES; state++) {
        for (int i = 0; i < 4; i++) {
            uint64_t version;
            p.digests[i][state] = ask_digest(&p, c, i, &version);
            if (!state) p.base_version = version;
            cr_assert_eq(version, p.base_version + (uint64_t)state);
        }
        if (!state) twin_add_edges(&p.twin, c, 500, 2, false);
    }
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_on, &p);
    int64_t until = now_ms() + 3000;
    bool there = true;
    while (now_ms() < until || atomic_load(&p.answers) < 40) {
        if (there)
            twin_remove_edges(&p.twin, c, 500, 2);
        else
            twin_add_edges(&p.twin, c, 500, 2, false);
        there = !there;
    }
    atomic_store(&p.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    cr_assert_gt(atomic_load(&p.seen[0]), 0);
    cr_assert_gt(atomic_load(&p.seen[1]), 0);
    twin_drop(&p.twin, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- long ones */

enum { LONG_NODES = 20000, LONG_EDGES = 400000, LONG_SETS = 20000 };

/* All of a graph that never calms down, a hundred times, for each of many sets: longer than any
 * test lasts, so that who waits for the whole waits until the test is ended. */
static void ask_long(const struct twin *t, ea_spread_options *o, uint64_t *seeds, uint64_t *offsets)
{
    static const float nothing = 0;
    *o = (ea_spread_options){
        .mode = EA_LINEAR, .hops = 100, .decay = EA_DECAY_CONSTANT, .threshold = &nothing, .k = 1};
    for (uint64_t i = 0; i <= LONG_SETS; i++) {
        offsets[i] = i;
        if (i < LONG_SETS) seeds[i] = t->ids[i];
    }
}

static void expect_soon(ea_client *c, const struct twin *t)
{
    ea_spread_options o = {.mode = EA_ENGRAM, .k = 5};
    ea_spread_result r = {0};
    cr_assert_eq(ea_spread(c, t->name, &o, &(ea_seeds){.sets = 1, .ids = t->ids, .count = 3}, &r),
                 EA_OK, "%s", ea_error_text(c));
    ea_spread_result_free(&r);
}

Test(spread, late_or_cancelled_it_ends, .timeout = 900)
{
    struct scene s;
    struct twin t;
    ea_spread_options o;
    ea_spread_result r = {0};
    static uint64_t seeds[LONG_SETS], offsets[LONG_SETS + 1];
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", LONG_NODES, 3);
    twin_add_edges(&t, c, LONG_EDGES, 1, false);
    ask_long(&t, &o, seeds, offsets);

    ea_set_timeout(c, 200000);
    cr_assert_eq(
        ea_spread(
            c, "g", &o,
            &(ea_seeds){.offsets = offsets, .sets = LONG_SETS, .ids = seeds, .count = LONG_SETS},
            &r),
        EA_DEADLINE_EXCEEDED);
    ea_set_timeout(c, 0);
    expect_soon(c, &t);

    /* Bounded in time it is an answer, truncated. */
    o.time_max_us = 50000;
    cr_assert_eq(
        ea_spread(
            c, "g", &o,
            &(ea_seeds){.offsets = offsets, .sets = LONG_SETS, .ids = seeds, .count = LONG_SETS},
            &r),
        EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.sets, LONG_SETS);
    cr_assert_eq(r.truncated[LONG_SETS - 1], 1);
    cr_assert_eq(r.ids[r.offsets[LONG_SETS - 1]], seeds[LONG_SETS - 1], "its seed at least");
    ea_spread_result_free(&r);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* Nobody asked for a bound, but there is one: changes to the graph do not wait for ever. */
Test(spread, the_daemon_bounds_it, .timeout = 900)
{
    struct scene s;
    struct twin t;
    ea_spread_options o;
    ea_spread_result r = {0};
    static uint64_t seeds[LONG_SETS], offsets[LONG_SETS + 1];
    scene_open(&s, (const char *[]){"limits.spread_ms=100", NULL});
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", LONG_NODES, 3);
    twin_add_edges(&t, c, LONG_EDGES, 1, false);
    ask_long(&t, &o, seeds, offsets);
    cr_assert_eq(
        ea_spread(
            c, "g", &o,
            &(ea_seeds){.offsets = offsets, .sets = LONG_SETS, .ids = seeds, .count = LONG_SETS},
            &r),
        EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(r.truncated[LONG_SETS - 1], 1);
    ea_spread_result_free(&r);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* The raw request, so that it can be cancelled and deserted. */
static void send_long(int fd, const struct twin *t, uint64_t request_id)
{
    static uint8_t message[1024], body[2 * (LONG_SETS + 64) * 8];
    ea_spread_options o;
    uint64_t *offsets = (uint64_t *)body;
    uint64_t seeds_at = frame_align((LONG_SETS + 1) * 8);
    ask_long(t, &o, (uint64_t *)(body + seeds_at), offsets);
    engram_accel_v1_SpreadRequest m = {
        .mode = engram_accel_v1_SpreadMode_SPREAD_MODE_LINEAR,
        .hops = 100,
        .decay = engram_accel_v1_DecayLaw_DECAY_CONSTANT,
        .has_threshold = true,
        .k = 1,
        .has_seed_offsets = true,
        .seed_offsets = sample_tensor(DTYPE_UINT64, LONG_SETS + 1, 1),
        .has_seeds = true,
        .seeds = sample_tensor(DTYPE_UINT64, LONG_SETS, 1),
    };
    strcpy(m.graph, t->name);
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&out, engram_accel_v1_SpreadRequest_fields, &m));
    cr_assert(raw_send_frame(fd, OPERATION_SPREAD, request_id, message, (uint32_t)out.bytes_written,
                             body, seeds_at + frame_align(LONG_SETS * 8)));
}

Test(spread, cancelled_and_deserted, .timeout = 900)
{
    const char *gpu = getenv("ENGRAM_TEST_GPU");
    if (gpu && strcmp(gpu, "sim") != 0)
        cr_skip_test("SKIP: a real GPU ends what it has begun, and nobody passes it");
    struct scene s;
    struct twin t;
    struct sample cancel;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "hostile");
    twin_make(&t, c, "g", LONG_NODES, 3);
    twin_add_edges(&t, c, LONG_EDGES, 1, false);
    int fd = scene_connect(&s);
    send_long(fd, &t, 7);
    wait_ms(100); /* it runs */
    sample_find("cancel", &cancel);
    cancel.message.cancel.request_id = 7;
    send_sample(fd, &cancel, 8);
    expect_reply(fd, 8);
    expect_error(fd, 7, STATUS_CANCELLED, DETAIL_CANCELLED_BY_CLIENT, "cancel");
    send_long(fd, &t, 9);
    wait_ms(100);
    close(fd);
    expect_soon(c, &t);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- ends and refusals */

Test(spread, a_ring_without_decay_ends)
{
    enum { N = 50 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    uint64_t sources[N], targets[N];
    float weights[N];
    for (uint64_t i = 0; i < N; i++) {
        sources[i] = i;
        targets[i] = (i + 1) % N;
        weights[i] = 1;
    }
    cr_assert_eq(ea_graph_create(c, "ring", NULL), EA_OK);
    cr_assert_eq(ea_graph_add_edges(
                     c, "ring",
                     &(ea_graph_edges){
                         .sources = sources, .targets = targets, .weights = weights, .count = N},
                     NULL),
                 EA_OK);
    for (int mode = EA_LINEAR; mode <= EA_ENGRAM; mode++) {
        ea_spread_options o = {
            .mode = (ea_spread_mode)mode, .hops = 100, .decay = EA_DECAY_CONSTANT, .paths = true};
        ea_spread_result r = {0};
        uint64_t seed = 5;
        cr_assert_eq(ea_spread(c, "ring", &o, &(ea_seeds){.sets = 1, .ids = &seed, .count = 1}, &r),
                     EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(r.count, N);
        cr_assert_eq(r.truncated[0], 0);
        for (uint64_t i = 0; i < N; i++)
            cr_assert_eq(r.path_offsets[i + 1] - r.path_offsets[i], r.depths[i] + 1);
        ea_spread_result_free(&r);
    }
    cr_assert_eq(ea_graph_drop(c, "ring"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

static void expect_refusal(ea_client *c, const ea_spread_options *o, const uint64_t *seeds,
                           const float *activations, uint64_t n, ea_status code, uint32_t detail,
                           const char *words)
{
    ea_spread_result r = {0};
    cr_assert_eq(
        ea_spread(c, "g", o,
                  &(ea_seeds){.sets = 1, .ids = seeds, .activations = activations, .count = n}, &r),
        code, "%s: %s", words, ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), detail, "%s: %s", words, ea_error_text(c));
    cr_assert_not_null(strstr(ea_error_text(c), words), "%s: %s", words, ea_error_text(c));
}

Test(spread, bad_input_is_named)
{
    struct scene s;
    struct twin t;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", 100, 3);
    twin_add_edges(&t, c, 1000, 1, false);
    uint64_t seeds[] = {t.ids[0], t.ids[1], 4242}, within[] = {t.ids[0], 99999};
    float activations[] = {0.5f, NAN, 1}, table[] = {1, -0.5f};
    const float below = -0.5f;
    ea_filter filter = {.ids = within, .id_count = 2};
    ea_spread_options o = {.mode = EA_LINEAR};

    expect_refusal(c, &o, seeds, NULL, 3, EA_NOT_FOUND, DETAIL_UNKNOWN_NODE,
                   "no node 4242 (seed 2)");
    expect_refusal(c, &o, seeds, activations, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_SEED, "1");
    activations[1] = 0;
    expect_refusal(c, &o, seeds, activations, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_SEED, "1");
    o.within = &filter;
    expect_refusal(c, &o, seeds, NULL, 2, EA_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 99999");
    filter.id_count = 1;
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_SEED, "seed 1");
    o.within = NULL;
    o.decay = EA_DECAY_EXPONENTIAL;
    o.decay_parameter = -1;
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_DECAY, "-1");
    o.decay = (ea_decay)9;
    o.decay_parameter = 0;
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_DECAY, "9");
    o.decay = EA_DECAY_TABLE;
    o.decay_table = table;
    o.hops = 2;
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_DECAY, "1");
    o = (ea_spread_options){.mode = (ea_spread_mode)7};
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_MODE, "7");
    o = (ea_spread_options){.mode = EA_ENGRAM, .threshold = &below};
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD, "-0.5");
    o = (ea_spread_options){.mode = EA_LINEAR, .paths = true, .last_hop = true};
    expect_refusal(c, &o, seeds, NULL, 2, EA_INVALID_ARGUMENT, DETAIL_BAD_MODE, "last_hop");
    ea_spread_result r = {0};
    o = (ea_spread_options){.mode = EA_LINEAR};
    cr_assert_eq(ea_spread(c, "nowhere", &o, &(ea_seeds){.sets = 1, .ids = seeds, .count = 1}, &r),
                 EA_NOT_FOUND);
    cr_assert_eq(ea_error_detail(c), DETAIL_UNKNOWN_GRAPH);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}
