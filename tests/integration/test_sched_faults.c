/* The GPU process failing, hanging and being killed while it runs batches: everyone has the right
 * answer, nobody an error, and the GPU comes back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/asks.h"
#include "tests/support/gpu_scene.h"

enum { CLIENTS = 8, ASKS = 96, ROWS = 1500, D = 40 };

struct trial {
    struct gpu_scene scene;
    struct set set;
    ea_client *clients[CLIENTS];
    struct asks *asks;
};

/* heartbeat: a setting of it, for trials in which a process stops; NULL: the scene's patient
 * one. */
static void trial_open(struct trial *t, const char *sim, const char *heartbeat)
{
    const char *settings[] = {"batch.requests=16", "batch.wait_us=0", heartbeat, NULL};
    memset(t, 0, sizeof *t);
    gpu_scene_open_counting(&t->scene, sim, settings);
    asks_set(&t->set, D, REFERENCE_COSINE, ROWS);
    set_send(&t->set, t->scene.a);
    t->asks = asks_make(&t->set, ASKS, 5);
    asks_spoil(t->asks, 50, 0);
    asks_connect(&t->scene.daemon, "alpha", t->clients, CLIENTS);
}

static void trial_ask(struct trial *t)
{
    asks_again(t->asks);
    asks_send_at_once(t->asks, &t->scene.daemon, t->clients, CLIENTS);
}

static void trial_close(struct trial *t)
{
    asks_disconnect(t->clients, CLIENTS);
    asks_free(t->asks);
    cr_assert_eq(ea_collection_drop(t->scene.a, t->set.name), EA_OK);
    gpu_scene_await_empty(&t->scene);
    set_free(&t->set);
    gpu_scene_close(&t->scene);
}

/* ---------------------------------------------------------------- killed */

static void await_gpu(struct trial *t)
{
    gpu_scene_await_answer(t->scene.a, t->set.name, D);
}

static void kill_in_the_middle(int number, int times)
{
    struct trial t;
    trial_open(&t, "latency_us=3000", number == SIGSTOP ? "gpu.heartbeat_ms=2000" : NULL);
    await_gpu(&t);
    asks_alone(t.asks, t.scene.a, 8);
    size_t on_gpu = 0, batched = 0;
    for (int i = 0; i < times; i++) {
        await_gpu(&t);
        pid_t pid = gpu_process_of(t.scene.daemon.pid);
        trial_ask(&t);
        asks_pump(t.clients, CLIENTS, i * 2 % 15);
        cr_assert(pid);
        kill(pid, number);
        asks_collect(t.clients, CLIENTS);
        asks_expect(t.asks, "killed");
        on_gpu += asks_on(t.asks, EA_BACKEND_GPU);
        batched += asks_batched(t.asks);
    }
    cr_assert_gt(batched, 0);
    cr_assert_lt(on_gpu, (size_t)times * ASKS, "none was in the middle of anything");
    await_gpu(&t);
    trial_close(&t);
}

Test(sched_faults, killed_in_the_middle_of_batches, .timeout = 900)
{
    kill_in_the_middle(SIGKILL, 12);
}

Test(sched_faults, hanging_in_the_middle_of_batches, .timeout = 900)
{
    kill_in_the_middle(SIGSTOP, 3);
}

/* ---------------------------------------------------------------- each call in turn */

/* That a batch may make. */
static const char *const calls[] = {
    "allocate", "host_allocate", "stream_create", "event_create", "event_record", "event_query",
    "copy_in",  "copy_out",      "clear",         "norms",        "tile",         "topk",
};
static const char *const kinds[] = {"memory", "error", "sticky", "crash", "hang"};

enum { CALLS = sizeof calls / sizeof *calls, KINDS = sizeof kinds / sizeof *kinds, AT_ONCE = 4 };

/* What all get alone: in a scene where nothing fails. */
static void learn_alone(struct trial *t, struct asks *from)
{
    for (size_t i = 0; i < ASKS; i++) {
        struct ask *to = &t->asks->list[i];
        const struct ask *known = &from->list[i];
        to->want_status = known->want_status;
        to->want = known->want;
        to->want.memory = NULL; /* it is not ours */
        memcpy(to->want_text, known->want_text, sizeof to->want_text);
    }
}

static bool trial_end(struct trial *t, const char *sim, uint64_t nth)
{
    asks_collect(t->clients, CLIENTS);
    asks_expect(t->asks, sim);
    bool fired = gpu_scene_calls(&t->scene) >= nth;
    await_gpu(t);
    trial_ask(t);
    asks_collect(t->clients, CLIENTS);
    asks_expect(t->asks, sim);
    trial_close(t);
    return fired;
}

/* The nth call of that name, in one way or another. */
static void each_call_fails(uint64_t nth)
{
    struct trial alone, trials[AT_ONCE];
    char sims[AT_ONCE][64];
    size_t fired = 0;
    trial_open(&alone, NULL, NULL);
    asks_alone(alone.asks, alone.scene.a, 8);
    for (size_t first = 0; first < CALLS; first += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            const char *kind = kinds[(first + i + nth) % KINDS];
            snprintf(sims[i], sizeof sims[i], "latency_us=500 fail=%llu:%s@%s",
                     (unsigned long long)nth, kind, calls[first + i]);
            trial_open(&trials[i], sims[i], NULL);
            gpu_scene_await(&trials[i].scene, EA_GPU_READY);
            learn_alone(&trials[i], alone.asks);
            trial_ask(&trials[i]);
        }
        for (size_t i = 0; i < AT_ONCE; i++)
            fired += trial_end(&trials[i], sims[i], nth);
    }
    cr_assert_geq(fired, CALLS / 2, "%zu of %d failed", fired, CALLS);
    trial_close(&alone);
}

Test(sched_faults, each_first_call_fails, .timeout = 900)
{
    each_call_fails(1);
}

Test(sched_faults, each_third_call_fails, .timeout = 900)
{
    each_call_fails(3);
}

Test(sched_faults, each_tenth_call_fails, .timeout = 900)
{
    each_call_fails(10);
}
