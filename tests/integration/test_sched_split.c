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

/* Wider than 1,024, so that arithmetic is nearly all there is to do, and few rows, so that the CPU
 * does not screen them: the device's kernels are as fast as the worker's then. */
enum { D = 1040, ROWS = 128, QUERIES = 512, K = 3 };

enum { SENT_MS = 3 }; /* a request is with the daemon then, mostly */

struct split {
    struct gpu_scene scene;
    struct set set;
    struct asks *asks; /* one ask of all queries */
    ea_client *one;
};

/* What the daemon has learnt of both. On a busy machine it may learn that one is slow, and use both
 * no more: then it is told again. */
static char model_path[64], model[1 << 17];
static size_t model_bytes;

static void name_model(void)
{
    snprintf(model_path, sizeof model_path, "/tmp/engram-split.%d.json", getpid());
}

static void drop_model(void)
{
    unlink(model_path);
}

TestSuite(sched_split, .init = name_model, .fini = drop_model);

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

static void split_open(struct split *s, const char *sim)
{
    char file[96];
    memset(s, 0, sizeof *s);
    snprintf(file, sizeof file, "sched.model_file=%s", model_path);
    gpu_scene_open_counting(&s->scene, sim,
                            (const char *[]){"gpu.force=none", "sched.predict=true", file,
                                             model_bytes ? file : "sched.calibrate=true",
                                             "sched.success_percent=1", "workers.count=1", NULL});
    set_make(&s->set, D, REFERENCE_COSINE, ROWS, QUERIES);
    set_send(&s->set, s->scene.a);
    s->asks = asks_make_plain(&s->set, 1, QUERIES, K);
    asks_alone(s->asks, s->scene.a, model_bytes ? 0 : 1);
    asks_connect(&s->scene.daemon, "alpha", &s->one, 1);
    gpu_scene_await(&s->scene, EA_GPU_READY, 5000);
}

static void split_close(struct split *s)
{
    ea_close(s->one);
    asks_free(s->asks);
    cr_assert_eq(ea_collection_drop(s->scene.a, s->set.name), EA_OK);
    gpu_scene_await_empty(&s->scene, 5000);
    set_free(&s->set);
    gpu_scene_close(&s->scene);
}

static bool calibrated(struct split *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->scene.b, &stats), EA_OK);
    return stats.scheduler.calibrated;
}

/* What calibration says: that the GPU is much faster, for it knows of no arithmetic as wide as this.
 * Two requests later both are about equally fast. */
static void learn(void)
{
    struct split s;
    split_open(&s, NULL);
    for (int64_t until = now_ms() + scaled_ms(30000); !calibrated(&s); wait_ms(10))
        cr_assert(now_ms() < until, "never calibrated");
    split_close(&s);
    FILE *f = fopen(model_path, "r");
    cr_assert_not_null(f);
    model_bytes = fread(model, 1, sizeof model, f);
    cr_assert(model_bytes && model_bytes < sizeof model);
    fclose(f);
}

static void split_open_taught(struct split *s, const char *sim)
{
    FILE *f = fopen(model_path, "w");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(model, 1, model_bytes, f), model_bytes);
    fclose(f);
    split_open(s, sim);
}

/* Does something, times over, each to a request that is on both backends: `befall` begins with the
 * request, and returns whether it was. */
static void on_both(const char *sim, int times, bool (*befall)(struct split *s, int i))
{
    int64_t until = now_ms() + scaled_ms(30000);
    for (int done = 0; done < times;) {
        struct split s;
        split_open_taught(&s, sim);
        for (int i = 0; i < 4 && done < times && !gpu_scene_stats(s.scene.b).restarts; i++) {
            ask(&s, "before");
            done += befall(&s, done);
        }
        split_close(&s);
        cr_assert(now_ms() < until, "%d times of %d", done, times);
    }
}

/* ---------------------------------------------------------------- the answer */

static bool nothing(struct split *s, int i)
{
    return ask(s, "both");
}

/* On one it names the first that is wrong; on both it says the same. */
static bool wrong_queries(struct split *s, int i)
{
    static const uint64_t wrong[][2] = {{300, 300}, {5, 5}, {100, 500}};
    uint64_t first = wrong[i % 3][0], second = wrong[i % 3][1];
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
    return splits(s) > before;
}

Test(sched_split, the_same_answer_and_the_same_error, .timeout = 120)
{
    learn();
    on_both(NULL, 6, nothing);
    on_both(NULL, 3, wrong_queries);
}

/* ---------------------------------------------------------------- not wanted any more */

static bool cancelled(struct split *s, int i)
{
    struct ask *q = &s->asks->list[0];
    uint64_t before = splits(s);
    asks_again(s->asks);
    asks_send(s->asks, &s->one, 1);
    asks_pump(&s->one, 1, scaled_ms(SENT_MS + i));
    if (!q->times) cr_assert_eq(ea_cancel(s->one, q->id), EA_OK);
    asks_collect(&s->one, 1);
    cr_assert(q->times == 1 && (q->right || q->status == EA_CANCELLED), "%s", q->text);
    return splits(s) > before;
}

static bool left(struct split *s, int i)
{
    uint64_t before = splits(s);
    asks_again(s->asks);
    asks_send(s->asks, &s->one, 1);
    asks_pump(&s->one, 1, scaled_ms(SENT_MS + i));
    ea_close(s->one);
    cr_assert_eq(s->asks->list[0].times, 1);
    asks_connect(&s->scene.daemon, "alpha", &s->one, 1);
    return splits(s) > before;
}

Test(sched_split, who_leaves_it_leaves_nothing, .timeout = 120)
{
    learn();
    on_both(NULL, 6, cancelled);
    on_both(NULL, 4, left);
}

/* ---------------------------------------------------------------- one part fails */

static bool befallen(struct split *s, int number, bool impatient)
{
    struct ask *q = &s->asks->list[0];
    uint64_t before = splits(s);
    asks_again(s->asks);
    q->timeout_ms = impatient ? (uint32_t)scaled_ms(100) : 0;
    asks_send(s->asks, &s->one, 1);
    asks_pump(&s->one, 1, scaled_ms(SENT_MS));
    bool both = splits(s) > before;
    if (both) kill(gpu_process_of(s->scene.daemon.pid), number);
    asks_collect(&s->one, 1);
    q->timeout_ms = 0;
    if (!impatient || q->status != EA_DEADLINE_EXCEEDED) asks_expect(s->asks, "befallen");
    if (both) gpu_scene_await(&s->scene, EA_GPU_READY, 10000);
    return both;
}

static bool killed(struct split *s, int i)
{
    return befallen(s, SIGKILL, false);
}

static bool stopped(struct split *s, int i)
{
    return befallen(s, SIGSTOP, i % 2);
}

Test(sched_split, killed_in_the_middle, .timeout = 120)
{
    learn();
    on_both(NULL, 4, killed);
    on_both(NULL, 2, stopped);
}

/* Of the first requests one is on the GPU alone, the others on both. */
Test(sched_split, a_part_fails, .timeout = 120)
{
    static const char *const faults[] = {
        "2:error@topk",  "2:error@copy_out",      "2:memory@topk", "2:memory@copy_out",
        "2:sticky@topk", "2:sticky@copy_out",     "2:crash@topk",  "2:crash@copy_out",
        "2:hang@topk",   "6:sticky@event_record",
    };
    learn();
    uint64_t both = 0, failed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char sim[48];
        struct split s;
        snprintf(sim, sizeof sim, "fail=%s", faults[i]);
        split_open_taught(&s, sim);
        for (int n = 0; n < 5; n++)
            ask(&s, sim);
        both += splits(&s);
        failed += gpu_scene_calls(&s.scene) >= strtoull(faults[i], NULL, 10);
        split_close(&s);
    }
    cr_assert_gt(both, 0); /* how many, the stopwatch decides */
    cr_assert_gt(failed, 5, "%llu", (unsigned long long)failed);
}
