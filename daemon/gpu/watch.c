#include "daemon/gpu/watch.h"

#include <poll.h>
#include <time.h>

#include "daemon/base/clock.h"

enum {
    BUSY_SPINS =
        8, /* a nap is longer than most requests, so they begin later when the device works */
    NAP_PART =
        16, /* a nap is this part of how long nothing has moved: nothing ends later by more */
};
#define NAP_NS     UINT64_C(20000)
#define NAP_MAX_NS UINT64_C(1000000)
#define SLEEP_NS   UINT64_C(50000000)  /* at most, because the heartbeat is written in between */
#define REST_NS    UINT64_C(100000000) /* the same, when nothing has moved for RESTS_NS */
#define RESTS_NS   UINT64_C(2000000000)

/* ---- what is expected ---- */

/* The part of t's prediction that is about this pass. */
static uint64_t foreseen_ns(const struct task *t)
{
    return (uint64_t)(run_part(t) * (double)t->order.foreseen_ns);
}

static uint64_t began_ns(const struct gpu *g, const struct task *t)
{
    return t->launched_ns > g->watch.ended_ns ? t->launched_ns : g->watch.ended_ns;
}

void watch_launched(struct gpu *g, struct task *t)
{
    t->launched_ns = clock_read_ns(g->clock);
    if (!t->enqueued_ns) t->enqueued_ns = t->launched_ns;
    t->foreseen_ns = foreseen_ns(t);
    t->overdue = false;
}

void watch_ended(struct gpu *g, struct task *t)
{
    uint64_t now_ns = clock_read_ns(g->clock), took_ns = now_ns - began_ns(g, t);
    g->watch.ended_ns = now_ns;
    if (!t->foreseen_ns) return;
    foresight_learn(foresight_of(&g->watch.ends, t->foreseen_ns), t->foreseen_ns, took_ns,
                    t->overdue || foresight_watched(took_ns, now_ns - g->turned_ns));
}

/* True if nothing can be done for t before the device has ended its kernels. */
static bool only_runs(const struct task *t)
{
    return t->state == TASK_RUN && t->kind && t->in.move == t->in.move_count;
}

/* Plans the wait for the run that should end first. False: something else is under way, or when it
 * ends is not known. */
static bool plan_run(struct gpu *g, struct foresight_plan *out)
{
    struct task *first = NULL;
    for (uint32_t i = 0; i < g->lane_count; i++)
        for (struct task *t = g->lanes[i].head; t && t->state != TASK_WAIT; t = t->next) {
            if (!only_runs(t) || !t->foreseen_ns) return false;
            if (!first || t->launched_ns < first->launched_ns) first = t;
        }
    if (!first) return false;
    const struct foresight *f = foresight_of(&g->watch.ends, first->foreseen_ns);
    uint64_t takes_ns = foresight_ns(f, first->foreseen_ns);
    if (!takes_ns) return false;
    *out = foresight_plan(began_ns(g, first), takes_ns, foresight_doubt_ns(f, first->foreseen_ns),
                          &g->watch.sleep, g->turned_ns);
    first->overdue |= g->turned_ns >= out->until_ns;
    return true;
}

/* ---- sleeping ---- */

bool watch_rests(const struct gpu *g)
{
    return !g->busy && g->turned_ns - g->watch.moved_ns > RESTS_NS;
}

/* Sleeps until an order, the end of the front, or wake_ns. learns: how late it wakes is to be
 * known. */
static void sleep_until(struct gpu *g, uint64_t wake_ns, bool learns)
{
    uint64_t now_ns = clock_read_ns(g->clock), ns = wake_ns > now_ns ? wake_ns - now_ns : 0;
    struct pollfd fds[2] = {{.fd = g->orders.wake_fd, .events = POLLIN},
                            {.fd = g->lifeline_fd, .events = POLLIN}};
    uint64_t most_ns = watch_rests(g) ? REST_NS : SLEEP_NS;
    bool whole = ns <= most_ns;
    if (!whole) ns = most_ns;
    struct timespec time = {.tv_nsec = (long)ns};
    if (!ring_sleep(&g->orders)) return;
    int woken = ppoll(fds, g->lifeline_fd >= 0 ? 2 : 1, &time, NULL);
    ring_wake(&g->orders);
    if (!woken && whole && learns)
        foresight_slept(&g->watch.sleep, wake_ns, clock_read_ns(g->clock));
}

static void nap(struct gpu *g)
{
    uint64_t ns = (g->turned_ns - g->watch.moved_ns) / NAP_PART;
    ns = ns < NAP_NS ? NAP_NS : ns > NAP_MAX_NS ? NAP_MAX_NS : ns;
    if (ns == NAP_NS) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    } else {
        sleep_until(g, g->turned_ns + ns, false);
    }
}

/* ---- watching ---- */

/* True if watching is within its share of a core; what was watched since the last turn counts. */
static bool may_watch(struct gpu *g)
{
    struct gpu_watch *w = &g->watch;
    uint64_t left_ns = foresight_budget_left(&w->budget, g->turned_ns);
    if (w->watching) foresight_budget_spend(&w->budget, g->turned_ns - w->watched_ns);
    w->watching = left_ns > 0;
    w->watched_ns = g->turned_ns;
    return w->watching;
}

void watch_moved(struct gpu *g)
{
    g->watch.moved_ns = g->turned_ns;
    g->watch.watching = false;
}

void watch_wait(struct gpu *g, bool busy)
{
    struct gpu_watch *w = &g->watch;
    uint64_t until_ns = w->moved_ns + (g->running ? BUSY_SPINS * g->spin_ns : g->spin_ns);
    struct foresight_plan plan;
    bool planned = busy && plan_run(g, &plan);
    if (planned && plan.wake_ns) {
        w->watching = false;
        sleep_until(g, plan.wake_ns, !plan.early);
        return;
    }
    if (planned) until_ns = plan.until_ns;
    if (g->spin_ns && g->turned_ns < until_ns && may_watch(g)) return;
    w->watching = false;
    if (busy)
        nap(g);
    else
        sleep_until(g, UINT64_MAX, false);
}
