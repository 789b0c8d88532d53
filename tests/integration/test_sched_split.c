/* One kNN on both backends at once: the answer is that of either, errors name the query as the
 * client counts, and whatever befalls a part befalls no client. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/asks.h"
#include "tests/support/gpu_scene.h"

enum { D = 40, ROWS = 128, QUERIES = 512, K = 3 };

/* So late is the GPU's part of each request: meanwhile something befalls it. */
#define LATE "latency_us=200000"

struct split {
    struct gpu_scene scene;
    struct set set;
    struct asks *asks; /* one ask of all queries */
    ea_client *one;
};

static uint64_t splits(struct split *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->scene.b, &stats), EA_OK);
    return stats.scheduler.splits;
}

/* Once; whether it ran on both. */
static bool ask(struct split *s, const char *context)
{
    asks_again(s->asks);
    asks_send(s->asks, &s->one, 1);
    asks_collect(&s->one, 1);
    asks_expect(s->asks, context);
    return s->asks->list[0].meta.backend == EA_BACKEND_BOTH;
}

static void split_open(struct split *s, const char *sim, const char *setting)
{
    memset(s, 0, sizeof *s);
    gpu_scene_open_counting(&s->scene, sim,
                            (const char *[]){"gpu.force=both", "workers.count=1", setting, NULL});
    set_make(&s->set, D, REFERENCE_COSINE, ROWS, QUERIES);
    set_send(&s->set, s->scene.a);
    s->asks = asks_make_plain(&s->set, 1, QUERIES, K);
    asks_alone(s->asks, s->scene.a, 1);
    asks_connect(&s->scene.daemon, "alpha", &s->one, 1);
    gpu_scene_await(&s->scene, EA_GPU_READY);
}

static void split_close(struct split *s)
{
    ea_close(s->one);
    asks_free(s->asks);
    cr_assert_eq(ea_collection_drop(s->scene.a, s->set.name), EA_OK);
    gpu_scene_await_empty(&s->scene);
    set_free(&s->set);
    gpu_scene_close(&s->scene);
}

/* Sends it, and returns once it is on both. */
static void send_split(struct split *s)
{
    uint64_t before = splits(s);
    int64_t until = give_up_ms();
    asks_again(s->asks);
    asks_send(s->asks, &s->one, 1);
    while (splits(s) == before)
        cr_assert(now_ms() < until, "it is not split");
}

/* ---------------------------------------------------------------- the answer */

/* On one it names the first that is wrong; on both it says the same. */
static void wrong_queries(struct split *s, uint64_t first, uint64_t second)
{
    struct asks *good = s->asks, *bad = asks_make_plain(&s->set, 1, QUERIES, K);
    struct ask *q = &bad->list[0];
    asks_spoil(bad, 0, first);
    q->queries[second * D] = NAN;
    q->want_status = EA_INVALID_ARGUMENT;
    snprintf(q->want_text, sizeof q->want_text, "query %d: column 0 is not a finite number",
             (int)first);
    uint64_t before = splits(s);
    s->asks = bad;
    ask(s, "wrong");
    s->asks = good;
    asks_free(bad);
    cr_assert_gt(splits(s), before);
}

Test(sched_split, the_same_answer_and_the_same_error, .timeout = 900)
{
    struct split s;
    split_open(&s, NULL, NULL);
    for (int i = 0; i < 6; i++)
        cr_assert(ask(&s, "both"), "it ran on one");
    wrong_queries(&s, 300, 300);
    wrong_queries(&s, 5, 5);
    wrong_queries(&s, 100, 500);
    split_close(&s);
}

/* ---------------------------------------------------------------- not wanted any more */

static void cancelled(struct split *s)
{
    struct ask *q = &s->asks->list[0];
    send_split(s);
    if (!q->times) cr_assert_eq(ea_cancel(s->one, q->id), EA_OK);
    asks_collect(&s->one, 1);
    cr_assert(q->times == 1 && (q->right || q->status == EA_CANCELLED), "%s", q->text);
}

static void left(struct split *s)
{
    send_split(s);
    ea_close(s->one);
    cr_assert_eq(s->asks->list[0].times, 1);
    asks_connect(&s->scene.daemon, "alpha", &s->one, 1);
}

Test(sched_split, who_leaves_it_leaves_nothing, .timeout = 900)
{
    for (int late = 0; late < 2; late++) {
        struct split s;
        split_open(&s, late ? LATE : NULL, NULL);
        for (int i = 0; i < 5; i++)
            cancelled(&s);
        for (int i = 0; i < 3; i++)
            left(&s);
        split_close(&s);
    }
}

/* ---------------------------------------------------------------- one part fails */

static void befallen(struct split *s, int number, uint32_t timeout_ms)
{
    struct ask *q = &s->asks->list[0];
    q->timeout_ms = timeout_ms;
    send_split(s);
    kill(gpu_process_of(s->scene.daemon.pid), number);
    asks_collect(&s->one, 1);
    q->timeout_ms = 0;
    if (!timeout_ms || q->status != EA_DEADLINE_EXCEEDED) asks_expect(s->asks, "befallen");
    gpu_scene_await_answer(s->scene.a, s->set.name, D);
}

Test(sched_split, killed_in_the_middle, .timeout = 900)
{
    struct split s;
    split_open(&s, LATE, NULL);
    for (int i = 0; i < 4; i++)
        befallen(&s, SIGKILL, 0);
    split_close(&s);
    split_open(&s, LATE, "gpu.heartbeat_ms=500");
    befallen(&s, SIGSTOP, 0);
    befallen(&s, SIGSTOP, 100);
    split_close(&s);
}

/* The CPU ran both parts in the end, and the reply says so. */
static bool fell_back(const struct split *s)
{
    const ea_meta *meta = &s->asks->list[0].meta;
    if (meta->reason != EA_REASON_FALLBACK_AFTER_ERROR && meta->reason != EA_REASON_VRAM_PRESSURE)
        return false;
    cr_assert_eq(meta->backend, EA_BACKEND_CPU, "%s", ea_reason_name(meta->reason));
    return true;
}

Test(sched_split, a_part_fails, .timeout = 900)
{
    static const char *const faults[] = {
        "2:error@topk",  "2:error@copy_out",      "2:memory@topk", "2:memory@copy_out",
        "2:sticky@topk", "2:sticky@copy_out",     "2:crash@topk",  "2:crash@copy_out",
        "2:hang@topk",   "6:sticky@event_record",
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char sim[48];
        struct split s;
        snprintf(sim, sizeof sim, "fail=%s", faults[i]);
        split_open(&s, sim, NULL);
        unsigned fallen = 0;
        for (int n = 0; n < 5; n++) {
            ask(&s, sim);
            fallen += fell_back(&s);
        }
        /* events are recorded for other calls as well */
        cr_assert(fallen || strstr(sim, "event_record"), "%s: no part failed", sim);
        cr_assert_gt(splits(&s), 0, "%s", sim);
        cr_assert_geq(gpu_scene_calls(&s.scene), strtoull(faults[i], NULL, 10), "%s", sim);
        split_close(&s);
    }
}
