/* How recalls as jobs end when they do not end well: what bad input gets, no memory, any call that
 * fails, out of time, cancelled at any of its clock's readings. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "tests/support/recall_job.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

static struct recall_scene b;

static void begin(void)
{
    b = recall_job_open(300, 3000, 8, 200, 5);
}

static void end(void)
{
    recall_job_close(&b);
}

TestSuite(op_recall_ends, .init = begin, .fini = end);

/* ---------------------------------------------------------------- bad input */

static struct recall_asked asked;
static struct job j;

static void again(void)
{
    recall_job_free(&asked);
    recall_job_ask(&b, &asked);
    j = recall_job_of(&b, &asked);
    j.request.recall.ignore_embeddings = true;
}

static void refused(enum detail detail, const char *text)
{
    cr_assert_eq(operation_check(&j), STATUS_INVALID_ARGUMENT, "%s", text);
    cr_assert_eq(j.failure.detail, detail, "%s: %s", text, j.failure.text);
    cr_assert(strstr(j.failure.text, text), "%s: %s", text, j.failure.text);
    again();
}

static void accepted(void)
{
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    again();
}

Test(op_recall_ends, what_the_request_alone_proves_wrong)
{
    static const uint64_t offsets[] = {0, 2, 1}, ids[] = {1, 2};
    struct job_request *r = &j.request;
    again();
    accepted();
    r->ids = spread_job_numbers(ids, 2);
    refused(DETAIL_BAD_SHAPE, "cues and cue_ids exclude each other");
    r->queries = (struct tensor){0};
    refused(DETAIL_BAD_SHAPE, "neither cues nor cue_ids");
    r->queries.rows = 0;
    refused(DETAIL_BAD_SHAPE, "cues: there is none");
    r->queries.rows = 65537;
    refused(DETAIL_BAD_SHAPE, "cues: 65537 lists");
    r->offsets = spread_job_numbers(offsets, 1);
    refused(DETAIL_BAD_OFFSETS, "cue_offsets: no list");
    r->offsets = spread_job_numbers(offsets, 3);
    refused(DETAIL_BAD_OFFSETS, "cue_offsets: number 2 goes back");
    r->offsets = spread_job_numbers(offsets, 2);
    refused(DETAIL_BAD_OFFSETS, "cue_offsets: the last is 2, 1 cues given");
    r->recall.results = 16385;
    refused(DETAIL_BAD_K, "results: 16385");
    r->k = 16385;
    refused(DETAIL_BAD_K, "k: 16385");
    r->threshold = 1.5F;
    refused(DETAIL_BAD_THRESHOLD, "threshold: 1.5");
    r->threshold = NAN;
    refused(DETAIL_BAD_THRESHOLD, "threshold: nan");
    r->recall.width = 0;
    refused(DETAIL_BAD_SEEDING, "width: 0");
    r->recall.width = INFINITY;
    refused(DETAIL_BAD_SEEDING, "width: inf");
    r->recall.activation_min = -0.5F;
    refused(DETAIL_BAD_SEEDING, "activation_min: -0.5");
    r->recall.activation_min = NAN;
    refused(DETAIL_BAD_SEEDING, "activation_min: nan");
    r->recall.boost = -1;
    refused(DETAIL_BAD_SEEDING, "boost: -1");
    r->recall.boost = 65537;
    refused(DETAIL_BAD_SEEDING, "boost: 65537");
    r->recall.has_time_max = true;
    refused(DETAIL_BAD_BUDGET, "time_max_us: 0");
    r->spread.mode = 3;
    refused(DETAIL_BAD_MODE, "mode: 3");
    r->spread.hops = 101;
    refused(DETAIL_BAD_HOPS, "hops: 101");
    r->spread.thresholds[1] = -1;
    refused(DETAIL_BAD_THRESHOLD, "threshold_warm: -1");
    strcpy(r->names[1], "e");
    refused(DETAIL_BAD_MODE, "ignore_embeddings: a collection of them is named");
    r->spread.mode = SPREAD_LINEAR;
    refused(DETAIL_BAD_MODE, "ignore_embeddings: only in mode engram");
    recall_job_free(&asked);
}

Test(op_recall_ends, defaults_are_the_engines)
{
    again();
    struct job_request *r = &j.request;
    r->k = 0;
    r->has_threshold = false;
    memset(&r->recall, 0, sizeof r->recall);
    memset(&r->spread, 0, sizeof r->spread);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert(r->k == 100 && r->recall.results == 100 && r->has_threshold);
    cr_assert(r->threshold == 0.4F && r->recall.width == 0.5F && r->recall.boost == 1.1F);
    cr_assert(r->recall.activation_min == 0.01F && r->spread.mode == SPREAD_ENGRAM);
    cr_assert(r->spread.hops == 4 && r->spread.thresholds[2] == 0.1F);
    cr_assert_eq(r->spread.embeddings_at, 2, "those of the rows themselves");
    r->recall.results = 7;
    r->k = 0;
    cr_assert_eq(operation_check(&j), STATUS_OK);
    cr_assert_eq(r->k, 7);
    recall_job_free(&asked);
}

static void fails(enum status code, enum detail detail, const char *text)
{
    for (j.worker_count = 1; j.worker_count <= 5; j.worker_count += 2) {
        uint64_t blocks = heap_usage(b.spread.heap).blocks;
        cr_assert_eq(run_job(&j, 1), code, "%s: %s", text, j.failure.text);
        cr_assert_eq(j.failure.detail, detail, "%s: %s", text, j.failure.text);
        cr_assert(strstr(j.failure.text, text), "%s: %s", text, j.failure.text);
        cr_assert_eq(heap_usage(b.spread.heap).blocks, blocks);
        run_job_reset(&j);
    }
    again();
}

Test(op_recall_ends, what_the_collection_and_graph_prove_wrong)
{
    static uint64_t ids[] = {0, 4711};
    struct collection *other;
    again();
    ids[0] = b.ids[3];
    j.request.queries.columns = 7;
    fails(STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "cues have 7 columns");
    j.request.queries = (struct tensor){0};
    j.request.ids = spread_job_numbers(ids, 2);
    fails(STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "cue_ids: there is no id 4711 (row 1)");
    asked.cues[3] = NAN;
    fails(STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "cue 0: column 3");
    asked.cues[0] = asked.cues[1] = 3e38F;
    fails(STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW, "cue 0: its squared norm");
    j.request.filter_ids = spread_job_numbers(ids, 2);
    fails(STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE, "there is no node 4711 (id of the node set 1)");
    static const char *const names[] = {"dot", "squared euclidean"};
    for (int metric = METRIC_DOT; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        const char *name = names[metric - METRIC_DOT];
        cr_assert_eq(store_collection_create(b.spread.store, b.spread.space,
                                             metric == METRIC_DOT ? "dots" : "distances", 8,
                                             (enum metric)metric, NULL, &other),
                     STATUS_OK);
        j.objects[2].resident = collection_resident(other);
        j.objects[2].collection = collection_now(other);
        fails(STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, name);
    }
    recall_job_free(&asked);
}

Test(op_recall_ends, nothing_is_an_answer_too)
{
    struct upsert_counts counts;
    struct collection *empty;
    cr_assert_eq(store_collection_create(b.spread.store, b.spread.space, "empty", 8, METRIC_COSINE,
                                         NULL, &empty),
                 STATUS_OK);
    cr_assert_eq(collection_upsert(empty, b.ids, b.data, 0, &counts, NULL), STATUS_OK);
    for (uint32_t paths = 0; paths < 2; paths++) {
        again();
        asked.c.rows.count = 0;
        j.objects[2].resident = collection_resident(empty);
        j.objects[2].collection = collection_now(empty);
        j.request.spread.paths = asked.c.spread.how.paths = paths;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        struct recall_reply r = recall_job_reply(&j);
        const char *wrong = recall_reply_wrong(&asked.c, &r);
        cr_assert_null(wrong, "%s", wrong);
        cr_assert_eq(r.count, 0);
        run_job_reset(&j);
    }
    recall_job_free(&asked);
}

/* ---------------------------------------------------------------- no memory */

/* Each fails once: a refusal, the right answer, or the ranked seeds of a list, marked. */
Test(op_recall_ends, every_failure_in_turn, .timeout = 900)
{
    unsigned refused_count = 0, answered = 0, seeds = 0;
    for (int which = 0; which < 4; which++) {
        struct recall_asked a;
        recall_job_ask(&b, &a);
        a.c.cue_count = which / 2 ? 6 : 1;
        a.c.spread.how.mode = which % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM;
        a.c.spread.how.paths = true;
        a.c.results = 300;
        a.c.threshold = 0.6F;
        for (uint32_t nth = 1;; nth++) {
            struct job f = recall_job_of(&b, &a);
            f.worker_count = 1 + nth % 3;
            fault_arm(nth);
            enum status st = run_job(&f, nth);
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            struct recall_reply r = recall_job_reply(&f);
            if (st) {
                cr_assert(fired && st == STATUS_RESOURCE_EXHAUSTED, "%s", f.failure.text);
                cr_assert_eq(f.failure.detail, DETAIL_MEMORY);
                refused_count++;
            } else if (recall_reply_wrong(&a.c, &r)) {
                uint64_t alone = 0;
                for (uint64_t list = 0; list < r.lists; list++)
                    alone += recall_only_seeds(&r, list);
                cr_assert(fired && alone, "%s", recall_reply_wrong(&a.c, &r));
                seeds++;
            } else {
                answered++;
            }
            run_job_reset(&f);
            if (!fired) break;
            cr_assert_lt(nth, 200);
        }
        recall_job_free(&a);
    }
    cr_assert(refused_count >= 4 && answered >= 4, "%u refused, %u answered, %u seeds",
              refused_count, answered, seeds);
}

/* The second block that a recall takes is its spread's. */
Test(op_recall_ends, a_spread_without_scratch_leaves_the_seeds)
{
    for (uint64_t cues = 1; cues <= 5; cues += 4) {
        struct recall_asked a;
        recall_job_ask(&b, &a);
        a.c.cue_count = cues;
        a.c.spread.how.paths = cues > 1;
        uint32_t takes = 0;
        for (uint32_t nth = 1; takes < 2; nth++) {
            struct job f = recall_job_of(&b, &a);
            f.worker_count = 2;
            fault_arm(nth);
            enum status st = run_job(&f, nth);
            const char *site = fault_fired();
            fault_arm(0);
            cr_assert_not_null(site);
            if (strcmp(site, "heap: take") == 0 && ++takes == 2) {
                cr_assert_eq(st, STATUS_OK, "%s", f.failure.text);
                struct recall_reply r = recall_job_reply(&f);
                cr_assert_eq(r.lists, cues);
                for (uint64_t list = 0; list < r.lists; list++)
                    cr_assert(recall_only_seeds(&r, list) && r.seeds[2 * list + 1] == 0);
            }
            run_job_reset(&f);
        }
        recall_job_free(&a);
    }
}

Test(op_recall_ends, a_reply_that_is_too_large)
{
    again();
    j.request.recall.results = 16384;
    j.request.threshold = -1;
    memset(j.request.spread.thresholds, 0, sizeof j.request.spread.thresholds);
    j.reply_bytes_max = 2000;
    for (j.worker_count = 1; j.worker_count <= 3; j.worker_count++) {
        cr_assert_eq(run_job(&j, 1), STATUS_RESOURCE_EXHAUSTED);
        cr_assert_eq(j.failure.detail, DETAIL_REPLY_TOO_LARGE, "%s", j.failure.text);
        uint32_t workers = j.worker_count;
        run_job_reset(&j);
        again();
        j.request.recall.results = 16384;
        j.request.threshold = -1;
        j.reply_bytes_max = 2000;
        j.worker_count = workers;
    }
    recall_job_free(&asked);
}

/* ---------------------------------------------------------------- out of time */

struct hands {
    uint64_t now_ns, readings, cancel_at, quota_at, quota_pages;
    struct job *job;
};

static uint64_t read_hands(void *owner)
{
    struct hands *h = owner;
    uint64_t nth = __atomic_add_fetch(&h->readings, 1, __ATOMIC_RELAXED);
    if (nth == h->cancel_at) atomic_store(&h->job->cancelled, true);
    if (nth == h->quota_at) {
        uint32_t space = b.spread.space->number;
        uint64_t held = heap_owner_bytes(b.spread.heap, space);
        cr_assert_eq(heap_quota(b.spread.heap, space, held + 4096 * h->quota_pages), STATUS_OK);
    }
    return h->now_ns;
}

/* The time counts from the arrival, so that what is late when it begins has its seeds alone. */
Test(op_recall_ends, a_budget_leaves_the_ranked_seeds)
{
    struct hands h = {.now_ns = 1000 * 1000};
    struct clock clock = {read_hands, &h};
    for (uint32_t budget = 9; budget <= 11; budget++)
        for (uint32_t workers = 1; workers <= 3; workers += 2) {
            again();
            j.worker_count = workers;
            j.clock = &clock;
            j.received_ns = h.now_ns - 10 * 1000;
            j.request.recall.has_time_max = true;
            j.request.spread.time_max_us = budget;
            cr_assert_eq(operation_check(&j), STATUS_OK);
            cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
            struct recall_reply r = recall_job_reply(&j);
            const char *wrong = recall_reply_wrong(&asked.c, &r);
            cr_assert_gt(r.seeds[0], 0);
            cr_assert_eq(r.truncated[0], budget <= 10);
            if (budget == 11) cr_assert_null(wrong, "%s", wrong);
            if (budget == 11) cr_assert_gt(r.count, r.seeds[0], "more than seeds");
            for (uint64_t i = 0; budget <= 10 && i < r.count; i++)
                cr_assert(r.marks[i] & 1 && r.depths[i] == 0 && r.activations[i] >= 0.5F);
            if (budget <= 10) cr_assert_eq(r.count, r.seeds[0]);
            run_job_reset(&j);
        }
    recall_job_free(&asked);
}

/* Whenever a space's quota falls to a few pages more than it holds, the seeds are the answer, or
 * what is refused is told to be the quota's doing and not the daemon's bound. */
static bool quota_falls(uint64_t cues, uint64_t at, uint64_t pages)
{
    struct hands h = {.now_ns = 1000, .quota_at = at, .quota_pages = pages};
    struct clock clock = {read_hands, &h};
    again();
    asked.c.cue_count = cues;
    j = recall_job_of(&b, &asked); /* with embeddings */
    j.clock = &clock;
    cr_assert_eq(operation_check(&j), STATUS_OK);
    bool refused = run_job(&j, 1) != STATUS_OK;
    if (refused)
        cr_assert_eq(j.failure.detail, DETAIL_QUOTA, "%lu, %lu: %s", at, pages, j.failure.text);
    run_job_reset(&j);
    cr_assert_eq(heap_quota(b.spread.heap, b.spread.space->number, 0), STATUS_OK);
    return h.readings < at;
}

Test(op_recall_ends, quota_is_told_as_such)
{
    for (uint64_t cues = 1; cues <= 5; cues++)
        for (uint64_t pages = 0; pages < 12; pages++) {
            bool over = false;
            for (uint64_t at = 1; !over; at++)
                over = quota_falls(cues, at, pages);
        }
    recall_job_free(&asked);
}

/* ---------------------------------------------------------------- cancelled */

/* Wherever it stopped, nothing is left, and the next one is right. */
Test(op_recall_ends, cancelled_at_any_reading_of_its_clock, .timeout = 900)
{
    unsigned cut = 0;
    uint64_t blocks = heap_usage(b.spread.heap).blocks;
    for (uint64_t cues = 1; cues <= 5; cues += 4)
        for (uint64_t nth = 0;; nth++) {
            struct hands h = {.now_ns = 1000, .cancel_at = nth, .job = &j};
            struct clock clock = {read_hands, &h};
            again();
            asked.c.cue_count = cues;
            j = recall_job_of(&b, &asked);
            j.clock = &clock;
            atomic_store(&j.cancelled, nth == 0);
            run_job(&j, (unsigned)nth);
            bool whole = j.result.block.data != NULL; /* the last reading follows it */
            cr_assert(whole || atomic_load(&j.cancelled));
            run_job_reset(&j);
            /* a workspace of each worker is kept for the next */
            cr_assert_leq(heap_usage(b.spread.heap).blocks, blocks + j.worker_count);
            if (whole) break;
            cut++;
            cr_assert_lt(nth, 1000);
        }
    cr_assert_gt(cut, 4);
    again();
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    struct recall_reply r = recall_job_reply(&j);
    const char *wrong = recall_reply_wrong(&asked.c, &r);
    cr_assert_null(wrong, "%s", wrong);
    run_job_reset(&j);
    recall_job_free(&asked);
}
