/* Requests that run as one, on the CPU and on a simulated GPU: each gets what it gets alone, to the
 * bit, whatever the others ask, and nobody's rows are another's. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/asks.h"
#include "tests/support/gpu_scene.h"

enum { CLIENTS = 16, ASKS = 192, ROWS = 1500, D = 40 };

/* The device answers late, so that a line forms. */
#define LATE "latency_us=2000"

static void open_scene(struct gpu_scene *s, bool gpu)
{
    gpu_scene_open(s, LATE, (const char *[]){gpu ? "gpu.force=gpu" : "gpu.force=cpu", NULL});
    if (gpu) gpu_scene_await(s, EA_GPU_READY);
}

static void make_ready(ea_client *c, const struct set *t, bool gpu)
{
    set_send(t, c);
    if (gpu) gpu_scene_await_answer(c, t->name, t->all.dimension);
}

/* ---------------------------------------------------------------- everybody is right */

static void ask_together(struct gpu_scene *s, const struct set *t, bool gpu, bool spoiled)
{
    ea_client *clients[CLIENTS];
    struct asks *a = asks_make(t, ASKS, 7 + gpu);
    for (size_t i = 5; spoiled && i < ASKS; i += 40)
        asks_spoil(a, i, i % a->list[i].query_count);
    asks_alone(a, s->a, 16);
    asks_connect(&s->daemon, "alpha", clients, CLIENTS);
    for (int round = 0; round < 2; round++) {
        asks_again(a);
        asks_send_at_once(a, &s->daemon, clients, CLIENTS);
        asks_collect(clients, CLIENTS);
        asks_expect(a, gpu ? "gpu" : "cpu");
        cr_assert_gt(asks_batched(a), ASKS / 2, "%zu ran together", asks_batched(a));
        if (!gpu) cr_assert_eq(asks_on(a, EA_BACKEND_GPU), 0);
        if (gpu) cr_assert_gt(asks_on(a, EA_BACKEND_GPU), ASKS / 2);
    }
    asks_disconnect(clients, CLIENTS);
    asks_free(a);
}

static void up_to_metric(int last, bool gpu, bool spoiled)
{
    struct gpu_scene s;
    open_scene(&s, gpu);
    for (int metric = REFERENCE_COSINE; metric <= last; metric++) {
        struct set t;
        asks_set(&t, D, metric, ROWS);
        make_ready(s.a, &t, gpu);
        ask_together(&s, &t, gpu, spoiled);
        cr_assert_eq(ea_collection_drop(s.a, t.name), EA_OK);
        set_free(&t);
    }
    gpu_scene_close(&s);
}

Test(sched_batches, on_the_cpu, .timeout = 900)
{
    up_to_metric(REFERENCE_EUCLIDEAN, false, false);
}

Test(sched_batches, on_the_gpu, .timeout = 900)
{
    up_to_metric(REFERENCE_EUCLIDEAN, true, false);
}

/* ---------------------------------------------------------------- one of them is wrong */

Test(sched_batches, a_wrong_member_fails_alone_on_the_cpu, .timeout = 900)
{
    up_to_metric(REFERENCE_COSINE, false, true);
}

Test(sched_batches, a_wrong_member_fails_alone_on_the_gpu, .timeout = 900)
{
    up_to_metric(REFERENCE_COSINE, true, true);
}

/* What a batch is run by is no request: a client never has more in flight than it asks. */
Test(sched_batches, a_batch_counts_its_members_alone, .timeout = 900)
{
    struct gpu_scene s;
    struct set t;
    ea_client *one;
    ea_stats stats;
    gpu_scene_open(&s, "latency_us=100000", (const char *[]){"gpu.force=gpu", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    asks_set(&t, D, REFERENCE_DOT, ROWS);
    make_ready(s.a, &t, true);
    struct asks *a = asks_make_plain(&t, 20, 3, 5);
    asks_alone(a, s.a, 1);
    asks_connect(&s.daemon, "alpha", &one, 1);
    asks_send_at_once(a, &s.daemon, &one, 1);
    while (ea_pending(one)) {
        size_t most = ea_pending(one) + 1; /* the question for stats is one, too */
        cr_assert_eq(ea_get_stats(one, &stats), EA_OK);
        cr_assert_leq(stats.jobs_in_flight, most);
        asks_pump(&one, 1, 1);
    }
    cr_assert_gt(asks_batched(a), 2);
    asks_expect(a, "gpu");
    ea_close(one);
    asks_free(a);
    set_free(&t);
    gpu_scene_close(&s);
}

/* Of two, one is wrong, so that the other runs by itself in the end: and says so. */
Test(sched_batches, who_is_left_alone_says_so, .timeout = 900)
{
    struct gpu_scene s;
    struct set t;
    ea_client *one;
    open_scene(&s, true);
    asks_set(&t, D, REFERENCE_DOT, ROWS);
    make_ready(s.a, &t, true);
    struct asks *a = asks_make_plain(&t, 2, 3, 5);
    asks_spoil(a, 1, 2);
    asks_alone(a, s.a, 1);
    asks_connect(&s.daemon, "alpha", &one, 1);
    asks_send_at_once(a, &s.daemon, &one, 1);
    asks_collect(&one, 1);
    asks_expect(a, "two");
    cr_assert_eq(a->list[0].meta.backend, EA_BACKEND_GPU);
    cr_assert_leq(a->list[0].meta.batch, 1, "%u", a->list[0].meta.batch);
    ea_close(one);
    asks_free(a);
    set_free(&t);
    gpu_scene_close(&s);
}

/* ---------------------------------------------------------------- nobody's rows are another's */

/* Two spaces with two collections each, of the same two names: what is asked is the same, and each
 * of the four has its own answers. */
static void apart(bool gpu)
{
    enum { SETS = 4, EACH = 4, COUNT = 60 };
    static const char *const spaces[] = {"alpha", "beta"};
    struct gpu_scene s;
    struct set sets[SETS];
    struct asks *asks[SETS];
    ea_client *clients[SETS * EACH];
    open_scene(&s, gpu);
    for (int i = 0; i < SETS; i++) {
        asks_set(&sets[i], D, REFERENCE_COSINE, ROWS);
        snprintf(sets[i].name, sizeof sets[i].name, "%s", i % 2 ? "one" : "two");
        reference_fill(1000 + (uint64_t)i, sets[i].rows, (size_t)ROWS * D);
        make_ready(i < 2 ? s.a : s.b, &sets[i], gpu);
        asks[i] = asks_make(&sets[i], COUNT, 3);
        asks_alone(asks[i], i < 2 ? s.a : s.b, 10);
        asks_connect(&s.daemon, spaces[i / 2], clients + i * EACH, EACH);
    }
    for (int round = 0; round < 3; round++) {
        if (round < 2) kill(s.daemon.pid, SIGSTOP); /* it finds them all at once */
        for (int i = 0; i < SETS; i++) {
            asks_again(asks[i]);
            asks_send(asks[i], clients + i * EACH, EACH);
        }
        kill(s.daemon.pid, SIGCONT);
        asks_collect(clients, SETS * EACH);
        for (int i = 0; i < SETS; i++) {
            asks_expect(asks[i], sets[i].name);
            if (round < 2) cr_assert_gt(asks_batched(asks[i]), 0);
            for (size_t n = 0; n < COUNT; n++)
                cr_assert_leq(asks[i]->list[n].meta.batch, COUNT, "more than there are");
        }
    }
    for (int i = 0; i < SETS; i++) {
        asks_disconnect(clients + i * EACH, EACH);
        asks_free(asks[i]);
        set_free(&sets[i]);
    }
    gpu_scene_close(&s);
}

Test(sched_batches, spaces_stay_apart_on_the_cpu, .timeout = 900)
{
    apart(false);
}

Test(sched_batches, spaces_stay_apart_on_the_gpu, .timeout = 900)
{
    apart(true);
}
