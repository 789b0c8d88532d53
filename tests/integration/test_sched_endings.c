/* Batches some of whose members are not wanted any more: cancelled, too late, their client gone;
 * before they run and while they do. Those get their errors, the others their answers. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/asks.h"
#include "tests/support/endless.h"
#include "tests/support/gpu_scene.h"

enum { TOGETHER = 4, K = 5 };

/* A backend that has two batches of four at a time, and takes a while for them: the GPU because its
 * device answers late, the CPU because there is much to do for its one worker. */
struct place {
    struct gpu_scene scene;
    struct set set;
    bool gpu;
    uint64_t queries, memory_used;
    size_t descriptors;
    ea_client *one; /* of space alpha */
};

static ea_stats stats_of(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK, "%s", ea_error_text(c));
    return stats;
}

static void place_open(struct place *p, bool gpu)
{
    p->gpu = gpu;
    p->queries = gpu ? 2 : 48 / (uint64_t)scaled_ms(1);
    char late[32];
    snprintf(late, sizeof late, "latency_us=%d", scaled_ms(15000));
    gpu_scene_open(&p->scene, late,
                   (const char *[]){gpu ? "gpu.force=gpu" : "gpu.force=cpu", "workers.count=1",
                                    "sched.window_us=1", "batch.requests=4", "screen.memory=off",
                                    ENDLESS_BODIES, NULL});
    if (gpu) gpu_scene_await(&p->scene, EA_GPU_READY);
    /* Bodies are small beside what they ask for, so that a socket holds several of them whole. */
    asks_set(&p->set, gpu ? 40 : 64, REFERENCE_DOT, gpu ? 1500 : 80000);
    set_send(&p->set, p->scene.a);
    if (gpu) gpu_scene_await_answer(p->scene.a, p->set.name, p->set.all.dimension);
    asks_connect(&p->scene.daemon, "alpha", &p->one, 1);
    p->memory_used = stats_of(p->scene.b).memory_bytes_used;
    p->descriptors = process_descriptors(p->scene.daemon.pid);
}

/* Nothing stays behind of what was not wanted. */
static void place_close(struct place *p)
{
    int64_t until = give_up_ms();
    for (;;) {
        ea_stats now = stats_of(p->scene.b);
        size_t descriptors = process_descriptors(p->scene.daemon.pid);
        if (now.jobs_in_flight == 1 && now.memory_bytes_used <= p->memory_used + DAEMON_OWN_BYTES &&
            descriptors <= p->descriptors)
            break;
        cr_assert(now_ms() < until, "%llu jobs; %llu bytes, before %llu; %zu descriptors",
                  (unsigned long long)now.jobs_in_flight, (unsigned long long)now.memory_bytes_used,
                  (unsigned long long)p->memory_used, descriptors);
        wait_ms(10);
    }
    ea_close(p->one);
    cr_assert_eq(ea_collection_drop(p->scene.a, p->set.name), EA_OK);
    if (p->gpu) gpu_scene_await_empty(&p->scene);
    gpu_scene_close(&p->scene);
    set_free(&p->set);
}

static struct asks *make(struct place *p, size_t count)
{
    struct asks *a = asks_make_plain(&p->set, count, p->queries, K);
    asks_alone(a, p->scene.a, p->gpu ? 8 : 0);
    return a;
}

static uint64_t ran(struct place *p)
{
    ea_stats stats = stats_of(p->scene.b);
    return stats.backend_requests[EA_BACKEND_CPU] + stats.backend_requests[EA_BACKEND_GPU];
}

/* ---------------------------------------------------------------- in a batch that runs */

/* True if ask was told that while all ran as one. It may as well have been too soon or too late for
 * that, by the machine's speed, and is then to be asked again; all are right in any case. */
static bool left_the_batch(struct place *p, const struct asks *a, size_t ask, ea_status status,
                           uint64_t ran_before)
{
    bool together = a->list[ask].status == status && ran(p) == ran_before + TOGETHER;
    for (size_t i = 0; i < a->count; i++) {
        const struct ask *q = &a->list[i];
        cr_assert_eq(q->times, 1, "%zu: %u times", i, q->times);
        cr_assert(q->right || (i == ask && q->status == status), "%zu: %s", i, q->text);
        together = together && (i == ask || q->meta.batch == TOGETHER);
    }
    return together;
}

/* Sends them, and returns once the server has them, as one. */
static void send_batch(struct place *p, struct asks *a)
{
    uint64_t before = stats_of(p->scene.b).scheduler.batches;
    asks_again(a);
    asks_send_at_once(a, &p->scene.daemon, &p->one, 1);
    while (stats_of(p->scene.b).scheduler.batches == before && ea_pending(p->one))
        cr_assert_eq(ea_pump(p->one, 0), EA_OK, "%s", ea_error_text(p->one));
}

static bool cancel_one(struct place *p, struct asks *a, size_t i)
{
    uint64_t before = ran(p);
    send_batch(p, a);
    ea_cancel(p->one, a->list[i].id); /* NOT_FOUND: it has its answer */
    asks_collect(&p->one, 1);
    return left_the_batch(p, a, i, EA_CANCELLED, before);
}

static bool be_late(struct place *p, struct asks *a, size_t i)
{
    uint64_t before = ran(p);
    a->list[i].timeout_ms = 8;
    send_batch(p, a);
    asks_collect(&p->one, 1);
    a->list[i].timeout_ms = 0;
    return left_the_batch(p, a, i, EA_DEADLINE_EXCEEDED, before);
}

static bool cancel_all(struct place *p, struct asks *a)
{
    send_batch(p, a);
    for (size_t i = 0; i < TOGETHER; i++)
        ea_cancel(p->one, a->list[i].id);
    asks_collect(&p->one, 1);
    for (size_t i = 0; i < TOGETHER; i++)
        cr_assert(a->list[i].right || a->list[i].status == EA_CANCELLED, "%s", a->list[i].text);
    return asks_with(a, EA_CANCELLED) == TOGETHER;
}

static void one_leaves(bool gpu)
{
    struct place p;
    place_open(&p, gpu);
    struct asks *a = make(&p, TOGETHER);
    int64_t until = give_up_ms();
    for (size_t i = 0; i < TOGETHER; i++)
        while (!cancel_one(&p, a, i))
            cr_assert(now_ms() < until, "%zu cannot be cancelled in a batch that runs", i);
    for (size_t i = 0; i < TOGETHER; i++)
        while (!be_late(&p, a, i))
            cr_assert(now_ms() < until, "%zu cannot be late in a batch that runs", i);
    while (!cancel_all(&p, a))
        cr_assert(now_ms() < until, "they cannot all be cancelled");
    asks_free(a);
    place_close(&p);
}

Test(sched_endings, one_leaves_a_batch_on_the_cpu, .timeout = 900)
{
    one_leaves(false);
}

Test(sched_endings, one_leaves_a_batch_on_the_gpu, .timeout = 900)
{
    one_leaves(true);
}

/* ---------------------------------------------------------------- in line */

enum { LINE = 48 };

/* The requests and what cancels half of them come together. Returns how many were cancelled: fewer
 * if this process was stopped while the daemon went on. */
static size_t cancelled_in_line(struct place *p, struct asks *a)
{
    asks_again(a);
    uint64_t before = ran(p);
    kill(p->scene.daemon.pid, SIGSTOP);
    asks_send(a, &p->one, 1);
    for (size_t i = 1; i < LINE; i += 2)
        cr_assert_eq(ea_cancel(p->one, a->list[i].id), EA_OK);
    ea_pump(p->one, 0);
    kill(p->scene.daemon.pid, SIGCONT);
    asks_collect(&p->one, 1);
    for (size_t i = 0; i < LINE; i++) {
        const struct ask *q = &a->list[i];
        cr_assert(q->right || (i % 2 && q->status == EA_CANCELLED), "%zu: %s", i, q->text);
    }
    size_t cancelled = asks_with(a, EA_CANCELLED);
    cr_assert_leq(ran(p), before + LINE - cancelled + 2 * TOGETHER);
    return cancelled;
}

static void ignore(ea_client *c, const ea_answer *answer, void *user) {}

/* Nothing of what waits in line gets its turn: the card's process stands still, or the CPU has all
 * that it takes at once in two requests that do not end. */
static ea_client *hold_the_line(struct place *p, struct endless *e)
{
    if (p->gpu) {
        process_pause(gpu_process_of(p->scene.daemon.pid));
        return NULL;
    }
    ea_client *holder = NULL;
    asks_connect(&p->scene.daemon, "alpha", &holder, 1);
    endless_make(e, p->scene.a);
    for (int i = 0; i < 2; i++)
        endless_ask(e, holder, ignore, NULL, 0);
    cr_assert_eq(endless_arrive(holder), 2);
    return holder;
}

static void let_the_line_go(struct place *p, struct endless *e, ea_client *holder)
{
    if (p->gpu) {
        kill(gpu_process_of(p->scene.daemon.pid), SIGCONT);
        return;
    }
    ea_close(holder); /* cancels them */
    endless_free(e, p->scene.a);
}

/* Half of them have less time than the line takes: those are told when it is up, and do not run.
 * Each connection carries two, which its socket holds whole: a client gives up a connection whose
 * request is late while half of it is sent. */
static void too_late_in_line(struct place *p, struct asks *a)
{
    enum { CONNECTIONS = LINE / 2 };
    ea_client *clients[CONNECTIONS];
    struct endless e;
    asks_connect(&p->scene.daemon, "alpha", clients, CONNECTIONS);
    asks_again(a);
    for (size_t i = 1; i < LINE; i += 2)
        a->list[i].timeout_ms = (uint32_t)scaled_ms(20);
    ea_client *holder = hold_the_line(p, &e);
    uint64_t before = ran(p), held = stats_of(p->scene.b).jobs_in_flight;
    asks_send_at_once(a, &p->scene.daemon, clients, CONNECTIONS);
    int64_t until = give_up_ms();
    /* The library may tell them before the daemon does. The card has some that it cannot end. */
    while (asks_with(a, EA_DEADLINE_EXCEEDED) < LINE / 2 ||
           stats_of(p->scene.b).jobs_in_flight > held + LINE / 2 + (p->gpu ? 2 * TOGETHER : 0)) {
        cr_assert(now_ms() < until, "%zu were told", asks_with(a, EA_DEADLINE_EXCEEDED));
        asks_pump(clients, CONNECTIONS, 5);
    }
    let_the_line_go(p, &e, holder);
    asks_collect(clients, CONNECTIONS);
    for (size_t i = 0; i < LINE; i++) {
        const struct ask *q = &a->list[i];
        cr_assert_eq(q->times, 1);
        cr_assert(i % 2 ? q->status == EA_DEADLINE_EXCEEDED : q->right, "%zu: %s", i, q->text);
        a->list[i].timeout_ms = 0;
    }
    uint64_t more = ran(p) - before;
    cr_assert_leq(more, LINE / 2 + 2 * TOGETHER, "%llu ran", (unsigned long long)more);
    asks_disconnect(clients, CONNECTIONS);
}

static void half_leave_the_line(bool gpu)
{
    struct place p;
    place_open(&p, gpu);
    struct asks *a = make(&p, LINE);
    int64_t until = give_up_ms();
    while (cancelled_in_line(&p, a) <= LINE / 4)
        cr_assert(now_ms() < until, "what waits in line cannot be cancelled");
    too_late_in_line(&p, a);
    asks_free(a);
    place_close(&p);
}

Test(sched_endings, half_leave_the_line_on_the_cpu, .timeout = 900)
{
    half_leave_the_line(false);
}

Test(sched_endings, half_leave_the_line_on_the_gpu, .timeout = 900)
{
    half_leave_the_line(true);
}

/* ---------------------------------------------------------------- at any moment */

/* One client goes away, another cancels what it asked, at moments that move through the run. */
static void at_any_moment(bool gpu)
{
    enum { CLIENTS = 6, ROUNDS = 12 };
    struct place p;
    ea_client *clients[CLIENTS];
    place_open(&p, gpu);
    struct asks *a = make(&p, CLIENTS * TOGETHER);
    asks_connect(&p.scene.daemon, "alpha", clients, CLIENTS);
    for (int round = 0; round < ROUNDS; round++) {
        size_t gone = (size_t)round % CLIENTS, sorry = (gone + 3) % CLIENTS;
        asks_again(a);
        asks_send_at_once(a, &p.scene.daemon, clients, CLIENTS);
        asks_pump(clients, CLIENTS, 4 * round);
        for (size_t i = sorry; i < a->count; i += CLIENTS)
            if (!a->list[i].times) cr_assert_eq(ea_cancel(clients[sorry], a->list[i].id), EA_OK);
        ea_close(clients[gone]);
        clients[gone] = NULL;
        asks_collect(clients, CLIENTS);
        for (size_t i = 0; i < a->count; i++) {
            const struct ask *q = &a->list[i];
            bool may_go = i % CLIENTS == gone || i % CLIENTS == sorry;
            cr_assert_eq(q->times, 1);
            cr_assert(q->right || (may_go && q->status == EA_CANCELLED), "%d, %zu: %s", round, i,
                      q->text);
        }
        asks_connect(&p.scene.daemon, "alpha", &clients[gone], 1);
    }
    asks_disconnect(clients, CLIENTS);
    asks_free(a);
    place_close(&p);
}

Test(sched_endings, some_leave_at_any_moment_on_the_cpu, .timeout = 900)
{
    at_any_moment(false);
}

Test(sched_endings, some_leave_at_any_moment_on_the_gpu, .timeout = 900)
{
    at_any_moment(true);
}
