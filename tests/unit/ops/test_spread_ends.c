/* How spreads as jobs end when they do not end well: no memory, any call that fails, out of time,
 * cancelled. The workspaces that they leave to the next are clean. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/fault.h"
#include "tests/support/run_job.h"
#include "tests/support/spread_job.h"
#include "tests/support/sweep.h"

/* With less and less of it: an answer, which is right, or a refusal that says so. */
Test(op_spread_ends, memory_that_is_short, .timeout = 900)
{
    struct spread_scene b = spread_job_open(20000, 200000, false, 4);
    struct spread_asked a;
    unsigned answered = 0, refused = 0;
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        spread_job_ask(&a, (enum spread_mode)mode, 3);
        a.c.sets = 6;
        a.c.k = 100;
        for (uint64_t s = 0; s < a.c.sets; s++) {
            a.offsets[s + 1] = a.offsets[s] + 2;
            a.seeds[2 * s] = b.ids[spread_job_draw(&b, b.nodes)];
            a.seeds[2 * s + 1] = b.ids[spread_job_draw(&b, b.nodes)];
        }
        a.c.seed_count = 12;
        struct job j = spread_job_of(&b, &a.c);
        uint64_t has = heap_owner_bytes(b.heap, b.space->number);
        for (uint64_t more = UINT64_C(64) << 20; more >= 1 << 16; more -= more / 3) {
            cr_assert_eq(heap_quota(b.heap, b.space->number, has + more), STATUS_OK);
            j.worker_count = 5;
            if (run_job(&j, 1) == STATUS_OK) {
                struct spread_reply r = spread_job_reply(&j);
                const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
                cr_assert_null(wrong, "%s", wrong);
                answered++;
            } else {
                cr_assert_eq(j.failure.code, STATUS_RESOURCE_EXHAUSTED);
                cr_assert_eq(j.failure.detail, DETAIL_QUOTA, "%s", j.failure.text);
                refused++;
            }
            run_job_reset(&j);
        }
        heap_quota(b.heap, b.space->number, 0);
    }
    cr_assert_gt(answered, 2);
    cr_assert_gt(refused, 2);
    spread_job_close(&b);
}

/* Each of them fails once: a refusal, or another way to the right answer, and nothing stays
 * behind. */
Test(op_spread_ends, every_failure_in_turn, .timeout = 900)
{
    struct spread_scene b = spread_job_open(500, 8000, false, 6);
    struct spread_asked a;
    unsigned refused = 0, answered = 0;
    spread_job_embed(&b, 40, 0);
    for (int which = 0; which < 6; which++) {
        spread_job_ask(&a, which % 2 && which < 4 ? SPREAD_LINEAR : SPREAD_ENGRAM, 3);
        a.c.how.paths = true;
        a.c.seed_count = 6;
        if (which / 2 % 2 || which == 5) a.c.offsets = NULL;
        if (which >= 4) a.c.embeddings = collection_now(b.embeddings);
        a.c.sets = 3;
        for (uint64_t s = 0; s < 3; s++)
            a.offsets[s + 1] = 2 * s + 2;
        for (int i = 0; i < 6; i++)
            a.seeds[i] = b.ids[i * 9];
        struct job j = spread_job_of(&b, &a.c);
        for (uint32_t nth = 1;; nth++) {
            j.worker_count = 1 + nth % 3;
            fault_arm(nth);
            enum status st = run_job(&j, nth);
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            if (st) {
                cr_assert(fired && st == STATUS_RESOURCE_EXHAUSTED, "%s", j.failure.text);
                cr_assert_eq(j.failure.detail, DETAIL_MEMORY);
                refused++;
            } else {
                struct spread_reply r = spread_job_reply(&j);
                const char *wrong = spread_reply_wrong(b.graph, &a.c, &r);
                cr_assert_null(wrong, "%s", wrong);
                answered++;
            }
            run_job_reset(&j);
            if (!fired) break;
            cr_assert_lt(nth, 200);
        }
    }
    cr_assert(refused >= 4 && answered > 4, "%u refused, %u answered", refused, answered);
    spread_job_close(&b);
}

/* What cannot be told is not gathered to the end first. */
Test(op_spread_ends, a_reply_that_is_too_large, .timeout = 900)
{
    struct spread_scene b = spread_job_open(20000, 400000, false, 4);
    struct spread_asked a;
    spread_job_ask(&a, SPREAD_LINEAR, 6);
    a.c.how.decay = DECAY_CONSTANT;
    a.c.how.thresholds[0] = 0;
    a.c.sets = a.c.seed_count = SPREAD_JOB_SETS;
    for (uint64_t s = 0; s < a.c.sets; s++) {
        a.offsets[s + 1] = s + 1;
        a.seeds[s] = b.ids[s];
    }
    struct job j = spread_job_of(&b, &a.c);
    for (uint32_t paths = 0; paths < 2; paths++) {
        j.request.spread.paths = paths;
        j.reply_bytes_max = 1 << 20;
        j.worker_count = 2;
        uint64_t before = heap_usage(b.heap).bytes_used;
        cr_assert_eq(run_job(&j, 1), STATUS_RESOURCE_EXHAUSTED);
        cr_assert_eq(j.failure.detail, DETAIL_REPLY_TOO_LARGE, "%s", j.failure.text);
        cr_assert_lt(heap_usage(b.heap).bytes_peak, before + (UINT64_C(16) << 20));
        run_job_reset(&j);
    }
    spread_job_close(&b);
}

Test(op_spread_ends, time_that_is_up_truncates)
{
    struct spread_scene b = spread_job_open(1000, 10000, false, 4);
    struct spread_asked a;
    spread_job_ask(&a, SPREAD_LINEAR, 100);
    a.c.how.decay = DECAY_CONSTANT;
    a.c.how.thresholds[0] = 0;
    a.c.offsets = NULL;
    a.c.seed_count = 1;
    a.seeds[0] = b.ids[0];
    struct job j = spread_job_of(&b, &a.c);
    j.deadline_ns = 1; /* long ago */
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        j.worker_count = workers;
        cr_assert_eq(run_job(&j, 1), STATUS_OK);
        cr_assert_eq(((uint8_t *)j.result.tensors[8].data)[0], 1);
        cr_assert_lt(j.result.tensors[1].rows, 1000);
        run_job_reset(&j);
    }
    j.deadline_ns = 0;
    j.request.spread.time_max_us = UINT64_MAX;
    cr_assert_eq(run_job(&j, 1), STATUS_OK);
    cr_assert_eq(((uint8_t *)j.result.tensors[8].data)[0], 0);
    run_job_reset(&j);
    spread_job_close(&b);
}

Test(op_spread_ends, cancelled_it_leaves_nothing)
{
    struct spread_scene b = spread_job_open(1000, 10000, false, 4);
    struct spread_asked a;
    spread_job_ask(&a, SPREAD_ENGRAM, 4);
    a.c.seed_count = 4;
    a.c.sets = 2;
    a.offsets[1] = 2;
    a.offsets[2] = 4;
    for (int i = 0; i < 4; i++)
        a.seeds[i] = b.ids[i];
    struct job j = spread_job_of(&b, &a.c);
    for (int one = 0; one < 2; one++) {
        atomic_store(&j.cancelled, true);
        run_job(&j, 1);
        cr_assert_null(j.result.block.data);
        run_job_reset(&j);
        atomic_store(&j.cancelled, false);
        cr_assert_eq(run_job(&j, 1), STATUS_OK);
        run_job_reset(&j);
        j.request.offsets = (struct tensor){0};
    }
    spread_job_close(&b);
}

struct canceller {
    struct job *job;
    long wait_us;
};

/* Those that are kept come first. */
static void expect_clean_workspaces(struct spread_scene *b)
{
    enum { KEPT_MAX = 6 };
    struct spread_workspace spaces[KEPT_MAX];
    uint64_t bytes = spread_workspace_bytes(graph_view(graph_now(b->graph)).nodes);
    for (int i = 0; i < KEPT_MAX; i++) {
        cr_assert_eq(graph_take_workspace(graph_now(b->graph), &spaces[i]), STATUS_OK);
        const char *memory = spaces[i].memory;
        cr_assert(memory[0] == 0 && !memcmp(memory, memory + 1, bytes - 1));
    }
    for (int i = 0; i < KEPT_MAX; i++)
        graph_give_workspace(graph_now(b->graph), &spaces[i]);
}

static void *cancel_soon(void *argument)
{
    const struct canceller *c = argument;
    struct timespec t = {0, c->wait_us * 1000};
    nanosleep(&t, NULL);
    atomic_store(&c->job->cancelled, true);
    return NULL;
}

/* Wherever it stopped, the workspace that it leaves to the next is clean. */
Test(op_spread_ends, cancelled_at_any_time, .timeout = 900)
{
    struct spread_scene b = spread_job_open(20000, 200000, false, 8);
    struct spread_asked a;
    for (int which = 0; which < 4; which++) {
        spread_job_ask(&a, which % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM, 4);
        a.c.k = 50;
        a.c.seed_count = 4;
        if (which / 2) a.c.offsets = NULL;
        a.c.sets = 2;
        a.offsets[1] = 2;
        a.offsets[2] = 4;
        for (int i = 0; i < 4; i++)
            a.seeds[i] = b.ids[i * 99];
        memset(a.c.how.thresholds, 0, sizeof a.c.how.thresholds);
        struct job first = spread_job_of(&b, &a.c);
        cr_assert_eq(run_job(&first, 1), STATUS_OK);
        /* Again from the first moment if a busy machine let all of them end before. */
        unsigned cut = 0;
        for (uint32_t i = 0; i < 25 || !cut; i += sweep_stride(4)) {
            struct job j = spread_job_of(&b, &a.c);
            struct canceller c = {&j, i % 25 * 150};
            pthread_t thread;
            pthread_create(&thread, NULL, cancel_soon, &c);
            run_job(&j, i);
            pthread_join(thread, NULL);
            cut += !j.result.block.data;
            run_job_reset(&j);
            expect_clean_workspaces(&b);
            atomic_store(&j.cancelled, false);
            cr_assert_eq(run_job(&j, i), STATUS_OK);
            cr_assert_eq(j.result.body_bytes, first.result.body_bytes);
            cr_assert(!memcmp(j.result.block.data, first.result.block.data, j.result.body_bytes));
            run_job_reset(&j);
        }
        run_job_reset(&first);
    }
    spread_job_close(&b);
}
