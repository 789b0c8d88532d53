/* Spreads as jobs, against the slow reference: both modes, many sets, bad input. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "tests/support/run_job.h"
#include "tests/support/spread_job.h"
#include "tests/support/sweep.h"

static void expect_right(struct spread_scene *b, const struct spread_case *c)
{
    struct job j = spread_job_of(b, c);
    j.ticket.work = operation_work(&j);
    for (uint32_t workers = 1; workers <= 7; workers += 3) {
        run_job_reset(&j);
        j.worker_count = workers;
        cr_assert_eq(run_job(&j, workers), STATUS_OK, "%s", j.failure.text);
        struct spread_reply r = spread_job_reply(&j);
        const char *wrong = spread_reply_wrong(b->graph, c, &r);
        cr_assert_null(wrong, "%s (%u workers)", wrong, workers);
        cr_assert_eq(j.result.rows, graph_edges(graph_now(b->graph)));
        cr_assert_eq(j.result.version, resident_version(graph_resident(b->graph)));
    }
    run_job_reset(&j);
}

/* ---------------------------------------------------------------- right answers */

Test(op_spread, random_questions_of_small_graphs, .timeout = 900)
{
    for (uint64_t seed = 1; seed <= 6; seed += sweep_stride(3)) {
        struct spread_scene b =
            spread_job_open(40 + 100 * (uint32_t)seed, 500 * seed, seed % 2, seed);
        struct spread_asked a;
        for (int i = 0; i < 30; i++) {
            spread_job_ask_randomly(&b, &a, i % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM);
            expect_right(&b, &a.c);
        }
        spread_job_close(&b);
    }
}

Test(op_spread, one_set_by_several_workers, .timeout = 900)
{
    struct spread_scene b = spread_job_open(3000, 60000, false, 5);
    struct spread_asked a;
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        spread_job_ask(&a, (enum spread_mode)mode, 3);
        a.c.offsets = NULL;
        a.c.seed_count = 20;
        for (int i = 0; i < 20; i++)
            a.seeds[i] = b.ids[spread_job_draw(&b, b.nodes)];
        expect_right(&b, &a.c);
        a.c.k = 10;
        a.c.how.thresholds[0] = a.c.how.thresholds[1] = a.c.how.thresholds[2] = 0;
        expect_right(&b, &a.c);
    }
    spread_job_close(&b);
}

/* Nodes with embeddings: similarity takes the place of weights. */
Test(op_spread, embeddings_take_the_place_of_weights, .timeout = 900)
{
    int changed = 0;
    for (uint64_t seed = 1; seed <= 4; seed += sweep_stride(2)) {
        struct spread_scene b = spread_job_open(60 + 30 * (uint32_t)seed, 3000, false, seed);
        struct spread_asked a;
        spread_job_embed(&b, 24 + 10 * (uint32_t)seed, seed % 4 == 0 ? 20 : 0);
        for (int i = 0; i < 12; i++) {
            spread_job_ask_randomly(&b, &a, SPREAD_ENGRAM);
            a.c.embeddings = collection_now(b.embeddings);
            expect_right(&b, &a.c);
            struct job j = spread_job_of(&b, &a.c);
            j.ticket.work = operation_work(&j);
            cr_assert(j.ticket.work.gpu_able);
            cr_assert_eq(run_job(&j, 1), STATUS_OK);
            struct spread_reply r = spread_job_reply(&j);
            cr_assert_eq(j.result.versions[1], collection_info(b.embeddings).version);
            a.c.embeddings = NULL;
            changed += spread_reply_wrong(b.graph, &a.c, &r) != NULL;
            run_job_reset(&j);
        }
        spread_job_close(&b);
    }
    cr_assert(changed > 8, "%d changed", changed);
}

/* One set by all workers, of a level that is cut into parts. */
Test(op_spread, embeddings_of_many_nodes, .timeout = 900)
{
    struct spread_scene b = spread_job_open(3000, 80000, false, 5);
    struct spread_asked a;
    spread_job_embed(&b, 768, 0);
    spread_job_ask(&a, SPREAD_ENGRAM, 3);
    a.c.offsets = NULL;
    a.c.seed_count = 20;
    a.c.embeddings = collection_now(b.embeddings);
    for (int i = 0; i < 20; i++)
        a.seeds[i] = b.ids[spread_job_draw(&b, b.nodes)];
    expect_right(&b, &a.c);
    struct job j = spread_job_of(&b, &a.c), without = j;
    without.objects[1] = (struct job_object){0};
    cr_assert_gt(operation_work(&j).pairs, 2 * operation_work(&without).pairs);
    spread_job_close(&b);
}

/* On trial a spread gives its answer, or none at all if it would follow too many edges; then the
 * next one finds nothing of it. */
Test(op_spread, on_trial_it_is_whole_or_not_at_all, .timeout = 900)
{
    struct spread_scene b = spread_job_open(2000, 12000, false, 9);
    struct spread_asked a;
    int whole = 0, outgrown = 0;
    for (int i = 0; i < 200; i++) {
        spread_job_ask_randomly(&b, &a, i % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM);
        struct job j = spread_job_of(&b, &a.c);
        j.ticket.work = operation_work(&j);
        j.on_trial = true;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        if (j.outgrew) {
            outgrown++;
            cr_assert_null(j.result.block.data);
        } else {
            whole++;
            struct spread_reply r = spread_job_reply(&j);
            const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
            cr_assert_null(wrong, "%s", wrong);
            cr_assert_not(j.ticket.work.unbounded);
        }
        run_job_reset(&j);
        if (i % 10 == 0) expect_right(&b, &a.c);
    }
    cr_assert(whole > 20 && outgrown > 20, "%d whole, %d outgrown", whole, outgrown);
    spread_job_close(&b);
}

Test(op_spread, trials_that_fail_become_rare)
{
    struct spread_scene b = spread_job_open(20, 0, false, 1);
    int tried = 0;
    for (int i = 0; i < 10000; i++) {
        if (!graph_wants_trial(graph_now(b.graph), 3)) continue;
        tried++;
        graph_note_trial(graph_now(b.graph), 3, true);
    }
    cr_assert(tried >= 39 && tried <= 50, "%d", tried);
    cr_assert(graph_wants_trial(graph_now(b.graph), 4), "another kind");
    while (!graph_wants_trial(graph_now(b.graph), 3))
        ;
    graph_note_trial(graph_now(b.graph), 3, false);
    cr_assert(graph_wants_trial(graph_now(b.graph), 3));
    graph_note_trial(graph_now(b.graph), 3, true);
    cr_assert_not(graph_wants_trial(graph_now(b.graph), 3));
    cr_assert(graph_wants_trial(graph_now(b.graph), 3), "one success makes up for all failures");
    spread_job_close(&b);
}

Test(op_spread, nothing_is_an_answer_too)
{
    struct spread_scene b = spread_job_open(20, 0, false, 1);
    struct spread_asked a;
    spread_job_ask(&a, SPREAD_LINEAR, 4);
    expect_right(&b, &a.c); /* one set without seeds */
    a.c.sets = 3;
    expect_right(&b, &a.c);
    a.c.how.paths = true;
    expect_right(&b, &a.c);
    a.c.how.mode = SPREAD_ENGRAM;
    expect_right(&b, &a.c);
    a.c.offsets = NULL;
    a.c.seed_count = 2;
    a.seeds[0] = b.ids[3];
    a.seeds[1] = b.ids[4];
    expect_right(&b, &a.c); /* seeds without edges */
    spread_job_close(&b);
}

Test(op_spread, a_bitmap_is_a_node_set_as_ids_are)
{
    struct spread_scene b = spread_job_open(300, 3000, false, 9);
    struct spread_asked a;
    uint8_t bits[64];
    spread_job_ask(&a, SPREAD_LINEAR, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    /* Nodes of small ids, among the others. */
    struct graph_counts counts;
    struct failure f;
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t from = 1000 + i, to = 1000 + (i * 7 + 1) % 400;
        float weight = 0.9f;
        cr_assert_eq(graph_add_edges(b.graph, &from, &to, &weight, 1, false, &counts, &f),
                     STATUS_OK);
    }
    a.seeds[0] = 1008;
    for (int scarce = 0; scarce < 2; scarce++) {
        memset(bits, 0, sizeof bits);
        a.c.within = a.within;
        a.c.within_count = 0;
        for (uint64_t i = 0; i < 400; i += scarce ? 40 : 2) {
            bits[i / 8] |= (uint8_t)(1u << i % 8);
            a.within[a.c.within_count++] = 1000 + i;
        }
        bits[1] |= 1;
        a.within[a.c.within_count++] = 1008;
        struct job j = spread_job_of(&b, &a.c);
        j.request.filter_ids = (struct tensor){0};
        j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 50, 1, bits};
        j.request.filter_bitmap_first = 1000;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        struct spread_reply r = spread_job_reply(&j);
        const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
        cr_assert_null(wrong, "%s", wrong);
        run_job_reset(&j);
    }
    spread_job_close(&b);
}

/* ---------------------------------------------------------------- bad input */

static void expect_refused(struct job *j, enum status code, enum detail detail, const char *words)
{
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        uint64_t blocks = heap_usage(j->heap).blocks;
        j->worker_count = workers;
        cr_assert_eq(run_job(j, 1), code, "%s: %s", words, j->failure.text);
        cr_assert_eq(j->failure.detail, detail, "%s: %s", words, j->failure.text);
        cr_assert_not_null(strstr(j->failure.text, words), "%s: %s", words, j->failure.text);
        cr_assert_leq(heap_usage(j->heap).blocks, blocks + 1, "but for a workspace kept");
        run_job_reset(j);
    }
}

Test(op_spread, activations_that_are_none)
{
    const float bad[] = {0, -0.0F, -1, NAN, INFINITY, -INFINITY};
    struct spread_scene b = spread_job_open(100, 1000, false, 3);
    struct spread_asked a;
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        spread_job_ask(&a, (enum spread_mode)mode, 4);
        a.c.offsets = NULL;
        a.c.seed_count = 5;
        a.c.activations = a.activations;
        const float fine[5] = {1e-45F, 3e38F, 2, 1, 0.5F}; /* capped */
        for (int i = 0; i < 5; i++)
            a.seeds[i] = b.ids[i];
        memcpy(a.activations, fine, sizeof fine);
        expect_right(&b, &a.c);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            for (int at = 0; at < 5; at++) {
                memcpy(a.activations, fine, sizeof fine);
                a.activations[at] = bad[i];
                struct job j = spread_job_of(&b, &a.c);
                char text[64];
                snprintf(text, sizeof text, "activations: number %d is ", at);
                expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEED, text);
            }
    }
    spread_job_close(&b);
}

Test(op_spread, names_what_is_wrong)
{
    struct spread_scene b = spread_job_open(100, 1000, false, 3);
    struct spread_asked a;
    uint8_t bits[16] = {0};
    spread_job_ask(&a, SPREAD_ENGRAM, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 3;
    for (int i = 0; i < 3; i++)
        a.seeds[i] = b.ids[i];
    a.seeds[2] = 12345;
    struct job j = spread_job_of(&b, &a.c);
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 12345 (seed 2)");

    a.seeds[2] = b.ids[2];
    a.c.within = a.within;
    a.c.within_count = 3;
    memcpy(a.within, a.seeds, sizeof a.within);
    a.within[1] = 777;
    j = spread_job_of(&b, &a.c);
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 777 (id of the node set 1)");
    a.within[1] = b.ids[50];
    j = spread_job_of(&b, &a.c);
    expect_refused(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEED, "seed 1: node");

    j.request.filter_ids = (struct tensor){0};
    j.request.filter_bitmap = (struct tensor){DTYPE_UINT8, 16, 1, bits};
    j.request.filter_bitmap_first = UINT64_MAX - 5;
    bits[0] = 0x20; /* nobody's */
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "bit of the node set 5");
    memset(bits, 0, sizeof bits);
    bits[1] = 2; /* past the last id there can be */
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "bit of the node set 9");
    memset(bits, 0xff, sizeof bits);
    j.request.filter_bitmap_first = 3;
    expect_refused(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "no node 3 (bit of the node set 0)");
    spread_job_close(&b);
}

Test(op_spread, a_reply_too_large_is_refused)
{
    struct spread_scene b = spread_job_open(2000, 20000, false, 3);
    struct spread_asked a;
    spread_job_ask(&a, SPREAD_LINEAR, 4);
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    a.seeds[0] = b.ids[0];
    a.c.how.thresholds[0] = 0;
    struct job j = spread_job_of(&b, &a.c);
    j.reply_bytes_max = 1024;
    expect_refused(&j, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE, "1024");
    j.request.k = 10;
    j.worker_count = 3;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    run_job_reset(&j);
    spread_job_close(&b);
}
