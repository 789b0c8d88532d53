#include "daemon/sched/scheduler_inside.h"

#include <assert.h>

#include "daemon/heap/order.h"
#include "daemon/sched/batch.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/forecast.h"
#include "daemon/sched/flows.h"
#include "daemon/sched/work.h"

/* A long job on the CPU counts as half of the window: its parts end one by one, and the parts of
 * the next job start on the workers that become free. */
static uint64_t window_part_ns(const struct scheduler *s, uint32_t server, uint64_t charge_ns)
{
    uint64_t half = s->settings.window_ns / 2;
    return server == SERVER_CPU && charge_ns > half ? half : charge_ns;
}

/* Of a kNN, or of a spread of several sets, on a card only a pass. */
static uint64_t ahead_part_ns(const struct ticket *t)
{
    const struct work *w = &t->whole;
    bool several = w->operation == OPERATION_SPREAD && w->queries > 1;
    bool in_passes = t->server != SERVER_CPU && (w->operation == OPERATION_KNN || several);
    return in_passes && t->charge_ns > ORDER_PASS_NS ? ORDER_PASS_NS : t->charge_ns;
}

static void flight_add(struct server *sv, struct ticket *t)
{
    t->flight_next = NULL;
    t->flight_previous = sv->newest;
    if (sv->newest)
        sv->newest->flight_next = t;
    else
        sv->oldest = t;
    sv->newest = t;
}

static void flight_remove(struct server *sv, struct ticket *t)
{
    if (t->flight_previous)
        t->flight_previous->flight_next = t->flight_next;
    else
        sv->oldest = t->flight_next;
    if (t->flight_next)
        t->flight_next->flight_previous = t->flight_previous;
    else
        sv->newest = t->flight_previous;
    t->flight_next = t->flight_previous = NULL;
}

void scheduler_start(struct scheduler *s, struct ticket *first, uint32_t members,
                     const struct work *whole, uint64_t now_ns)
{
    struct server *sv = &s->servers[first->server];
    first->members = members;
    first->whole = *whole;
    first->dispatched_ns = now_ns;
    struct prediction run = forecast_work(s, first->server, whole);
    first->run_ns = run.ns;
    first->charge_ns = run.busy_ns;
    if (first->server != SERVER_CPU) first->charge_ns += first->upload_ns;
    first->window_ns = window_part_ns(s, first->server, first->charge_ns);
    first->ahead_ns = ahead_part_ns(first);
    if (!sv->in_flight) sv->started_ns = now_ns;
    sv->alone = sv->in_flight ? NULL : first;
    sv->in_flight++;
    sv->charged_ns += first->charge_ns;
    sv->window_ns += first->window_ns;
    sv->ahead_ns += first->ahead_ns;
    flight_add(sv, first);
    batch_groups_add(&s->running, first);
    flows_of(first)->in_flight++;
    flows_of(first)->stake->in_flight++;
    fair_charge(sv, flows_of(first), first->charge_ns, s->settings.age_ns, now_ns);
    if (members > 1) {
        s->counters.batches++;
        s->counters.batched_requests += members;
    }
}

void scheduler_place(struct scheduler *s, struct ticket *t, uint32_t server, enum reason reason,
                     uint64_t now_ns)
{
    assert(server < s->server_count);
    t->server = server;
    t->other = SERVERS_MAX;
    t->reason = reason;
    t->next = t->previous = NULL;
    t->wait_ns = forecast_backlog_ns(&s->servers[server], now_ns);
    t->cpu_ns = forecast_work(s, SERVER_CPU, &t->work).ns;
    t->gpu_ns = t->work.gpu_able ? forecast_work(s, SERVER_GPU, &t->work).ns + t->upload_ns : 0;
    scheduler_start(s, t, 1, &t->work, now_ns);
}

/* Removes first from what is in flight. */
static void land(struct scheduler *s, struct ticket *first)
{
    struct server *sv = &s->servers[first->server];
    assert(first->members && sv->in_flight && flows_of(first)->in_flight);
    if (sv->alone == first) sv->alone = NULL;
    flows_of(first)->passing -= first->passes;
    first->passes = false;
    sv->in_flight--;
    sv->charged_ns -= first->charge_ns;
    sv->window_ns -= first->window_ns;
    sv->ahead_ns -= first->ahead_ns;
    flight_remove(sv, first);
    batch_groups_remove(&s->running, first);
    flows_of(first)->in_flight--;
    flows_of(first)->stake->in_flight--;
}

void scheduler_put_back(struct scheduler *s, struct ticket *first)
{
    struct flow *f = flows_of(first);
    uint64_t now_ns = first->dispatched_ns, arrived_ns = first->arrived_ns;
    if (first->members) { /* not so a ticket that was to be split */
        land(s, first);
        fair_correct(&s->servers[first->server], f, first->charge_ns, 0, s->settings.quantum_ns);
        if (first->members > 1) {
            s->counters.batches--;
            s->counters.batched_requests -= first->members;
        }
    }
    first->charge_ns = forecast_work(s, first->server, &first->work).busy_ns;
    if (first->server != SERVER_CPU) first->charge_ns += first->upload_ns;
    first->members = 0;
    first->lead_ns = 0;
    struct ticket *t = first;
    while (t->next)
        t = t->next;
    for (struct ticket *before; t; t = before) {
        before = t->previous;
        flows_push_front(s, t, now_ns);
    }
    /* It was not served after all. */
    if (arrived_ns < f->turn.served_ns) f->turn.served_ns = arrived_ns;
    if (arrived_ns < f->stake->turn.served_ns) f->stake->turn.served_ns = arrived_ns;
}

void scheduler_put_off(struct scheduler *s, struct ticket *first)
{
    for (struct ticket *t = first; t; t = t->next)
        t->put_off = s->put_off_round;
    scheduler_put_back(s, first);
}

void scheduler_resume(struct scheduler *s)
{
    if (++s->put_off_round == 0) s->put_off_round = 1;
}

/* ---------------------------------------------------------------- what came of it */

/* How long a run took, between two bounds (cost.h), and how long it kept the server from others. */
struct seen {
    uint64_t low_ns, high_ns;
    uint64_t held_ns;
};

/* The CPU's workers report how long they worked. A GPU is held by its oldest run until that ends;
 * a run that overtook others ran beside them, so that its time does not show what it takes
 * alone. */
static struct seen seen_of(const struct server *sv, const struct ticket *first,
                           const struct scheduler_run *run)
{
    uint64_t from = run->started_ns > sv->finished_ns ? run->started_ns : sv->finished_ns;
    uint64_t behind_ns = run->ended_ns > from ? run->ended_ns - from : 0;
    uint64_t back_ns = run->back_ns ? run->back_ns : run->ended_ns;
    struct seen seen = {
        .high_ns = back_ns > first->dispatched_ns ? back_ns - first->dispatched_ns : 0,
        .held_ns = run->busy_ns ? run->busy_ns : behind_ns,
    };
    seen.low_ns = run->busy_ns || sv->oldest == first ? seen.held_ns : 0;
    if (sv->alone == first || seen.low_ns > seen.high_ns) seen.low_ns = seen.high_ns;
    return seen;
}

/* The model learns from what was read, which need not be what was expected. */
static void learn(struct scheduler *s, const struct ticket *first, const struct scheduler_run *run,
                  struct seen seen)
{
    enum backend_id b = forecast_backend(first->server);
    struct work ran = first->whole;
    const struct work *w = &ran;
    if (run) work_note_screen(&ran, b, &run->screen);
    cost_outcome(&s->model, b, w->operation, true);
    if (first->server != SERVER_CPU && first->upload_ns) {
        /* The time of the upload is not that of the work. If it is most of the time, little can be
         * learnt. */
        if (first->upload_ns > seen.low_ns / 2) return;
        seen.low_ns -= first->upload_ns;
        seen.high_ns -= first->upload_ns;
    }
    uint64_t predicted = cost_time(&s->model, b, w).ns, took = predicted;
    cost_observe(&s->model, b, w, seen.low_ns, seen.high_ns);
    if (took < seen.low_ns) took = seen.low_ns;
    if (took > seen.high_ns) took = seen.high_ns;
    /* Between the bounds, a run that was not alone teaches nothing; but a probe needs its
     * answer. */
    bool probe = first->reason == REASON_PROBE;
    bool says = took != predicted || seen.low_ns == seen.high_ns || probe;
    if (w->gpu_able && says) probes_saw(&s->probes, b, w->operation, predicted, took, probe);
}

static void note(struct scheduler *s, const struct ticket *first, bool well, uint64_t ended_ns)
{
    if (s->settings.forgets) return;
    struct decision d = {
        .space = first->tenancy->tenant->space,
        .server = first->server,
        .reason = (enum reason)first->reason,
        .members = first->members,
        .work = first->whole,
        .cpu_ns = first->cpu_ns,
        .gpu_ns = first->gpu_ns,
        .wait_ns = first->wait_ns,
        .took_ns = ended_ns > first->dispatched_ns ? ended_ns - first->dispatched_ns : 0,
        .ended_ns = ended_ns,
        .well = well,
    };
    if (first->members > 1) { /* the ticket's own numbers are of its request alone */
        d.cpu_ns = cost_time(&s->model, BACKEND_CPU, &first->whole).ns;
        if (d.gpu_ns) d.gpu_ns = cost_time(&s->model, BACKEND_GPU, &first->whole).ns;
    }
    decisions_add(&s->decisions, &d);
}

static void count_use(const struct ticket *first, uint64_t busy_ns)
{
    struct tenant *t = first->tenancy->tenant;
    uint32_t b = first->server != SERVER_CPU;
    t->busy_ns[b] += busy_ns;
    t->requests[b] += first->members;
    if (first->members == 1) return;
    t->batches[b]++;
    t->batched_requests[b] += first->members;
}

void scheduler_finish(struct scheduler *s, struct ticket *first, enum scheduler_end how,
                      const struct scheduler_run *run)
{
    struct server *sv = &s->servers[first->server];
    struct seen seen = {0};
    if (run) seen = seen_of(sv, first, run);
    land(s, first);
    fair_correct(sv, flows_of(first), first->charge_ns, seen.held_ns, s->settings.quantum_ns);
    if (run && how == END_WELL) batch_learn_lead(sv, first, run->enqueued_ns);
    if (run && run->ended_ns > sv->finished_ns) sv->finished_ns = run->ended_ns;
    if (run) flows_of(first)->stake->finished_ns = sv->finished_ns;
    if (how != END_REFUSED) /* as predicted */
        note(s, first, how == END_WELL, run ? run->ended_ns : 0);
    if (how == END_WELL) {
        learn(s, first, run, seen);
        count_use(first, seen.held_ns);
    } else if (how == END_LET_DOWN) {
        cost_outcome(&s->model, forecast_backend(first->server), first->whole.operation, false);
        first->tenancy->tenant->busy_ns[first->server != SERVER_CPU] += seen.held_ns;
    }
}
