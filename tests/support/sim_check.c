/* What must hold in every simulated world, at every step. */
#include "tests/support/sim_world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "daemon/sched/batch.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/work.h"
#include "daemon/sched/forecast.h"

void sim_fail(const struct sim_world *w, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "\nseed %llu, at %llu ns: not so: %s: ", (unsigned long long)w->settings.seed,
            (unsigned long long)w->now_ns, what);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nENGRAM_SEED=%llu replays it with its trace\n",
            (unsigned long long)w->settings.seed);
    va_end(arguments);
    if (w->settings.trace) fflush(w->settings.trace);
    abort();
}

/* ---------------------------------------------------------------- bounded waiting */

void sim_check_joined(struct sim_world *w, struct sim_job *j, bool was_empty)
{
    uint32_t tenant = j->ticket.tenancy->tenant->space - 1, server = j->ticket.server;
    SIM_CHECK(w, server < w->scheduler.server_count && w->scheduler.servers[server].usable,
              "in line for server %u, which is away", server);
    j->line = server;
    if (!was_empty) return;
    w->since_ns[tenant][server] = w->now_ns;
    w->disturbed[tenant][server] = false;
}

/* A flow with something in line is served at least every age_ns, and then as long as it takes to
 * serve the others that aged as well: what is in flight, two short dispatches that pass for each
 * tenant, one dispatch for each. Longest: of all runs so far. A principal waits no longer than
 * that, and of its flows those that aged are served in turn. */
static void check_wait(struct sim_world *w, const struct sim_job *first)
{
    uint32_t tenant = first->ticket.tenancy->tenant->space - 1, server = first->line;
    const struct scheduler_settings *settings = &w->scheduler.settings;
    uint64_t waited_ns = w->now_ns - w->since_ns[tenant][server];
    uint64_t runs = w->scheduler.servers[server].slots_max + 3ull * w->settings.tenants;
    uint64_t bound_ns = settings->age_ns + settings->batch_wait_ns +
                        runs * (w->longest_ns + (uint64_t)w->settings.scramble);
    uint32_t siblings = 0; /* itself among them */
    for (uint32_t i = 0; i < w->settings.tenants; i++)
        siblings += w->tenancies[i]->principal == first->ticket.tenancy->principal;
    if (siblings > 1) bound_ns = settings->age_ns + siblings * bound_ns;
    if (!w->disturbed[tenant][server]) {
        SIM_CHECK(w, waited_ns <= bound_ns, "tenant %u waited %llu ns on server %u, not %llu",
                  tenant, (unsigned long long)waited_ns, server, (unsigned long long)bound_ns);
        if (waited_ns > w->waited_most_ns) w->waited_most_ns = waited_ns;
    }
    w->since_ns[tenant][server] = w->now_ns;
    w->disturbed[tenant][server] = false;
}

/* ---------------------------------------------------------------- one dispatch */

static void check_batch(struct sim_world *w, const struct dispatch *d)
{
    const struct scheduler_settings *settings = &w->scheduler.settings;
    const struct ticket *first = d->first;
    struct work whole = first->work;
    uint32_t count = 1;
    for (const struct ticket *t = first->next; t; t = t->next, count++) {
        SIM_CHECK(w,
                  t->tenancy == first->tenancy && t->batch_key == first->batch_key &&
                      first->batch_key && t->server == first->server,
                  "strangers in one batch");
        work_merge(&whole, &t->work);
    }
    SIM_CHECK(w, count == d->count, "%u linked, %u said", count, d->count);
    if (count == 1) return;
    uint64_t room = w->scheduler.servers[d->server].room_bytes;
    SIM_CHECK(w,
              whole.queries == first->whole.queries && whole.k == first->whole.k &&
                  whole.pairs == first->whole.pairs && whole.filtered == first->whole.filtered,
              "the whole is not its members");
    SIM_CHECK(w,
              count <= settings->batch_requests_max &&
                  whole.queries <= settings->batch_queries_max &&
                  batch_result_bytes(&whole) <= settings->batch_bytes_max,
              "%u requests, %llu queries", count, (unsigned long long)whole.queries);
    SIM_CHECK(w, d->server == SERVER_CPU || !room || batch_room_bytes(&whole) <= room / 5 * 4,
              "more than the card's memory holds");
}

void sim_check_dispatch(struct sim_world *w, const struct dispatch *d)
{
    struct sim_job *first = (struct sim_job *)d->first;
    const struct server *sv = &w->scheduler.servers[d->server];
    SIM_CHECK(w, sv->usable && (d->split_queries || sv->in_flight <= sv->slots_max),
              "server %u takes no more", d->server);
    SIM_CHECK(w, first->state == SIM_LINE, "what starts was not in line");
    if (!d->split_queries) check_batch(w, d);
    SIM_CHECK(w, d->split_queries < first->ticket.work.queries, "nothing left for the CPU");
    if (first->line == first->ticket.server)
        check_wait(w, first);
    else
        first->line = first->ticket.server; /* taken from another's line */
}

void sim_check_put_back(struct sim_world *w, struct sim_job *first)
{
    for (uint32_t t = 0; t < w->settings.tenants; t++) {
        for (uint32_t i = 0; i < SIM_SERVERS; i++)
            w->disturbed[t][i] = true;
    }
    for (struct ticket *t = &first->ticket; t; t = t->next)
        SIM_CHECK(w, !t->members, "in flight, though put back");
}

/* ---------------------------------------------------------------- work conserving */

/* Nobody idles beside work of its own; nor beside a tail that it would end before the one in whose
 * line that stands ends what it has in flight. */
static void check_idle(struct sim_world *w, uint32_t server)
{
    struct scheduler *s = &w->scheduler;
    for (uint32_t i = 0; i < s->server_count; i++) {
        const struct server *sv = &s->servers[i];
        for (const struct flow *f = fair_first(sv); f; f = fair_next(sv, f)) {
            const struct ticket *t = f->tail;
            if (t->other != server) continue;
            uint64_t here = server == SERVER_CPU ? t->cpu_ns : t->gpu_ns;
            uint64_t there = server == SERVER_CPU ? t->gpu_ns : t->cpu_ns;
            there += forecast_ahead_ns(s, &s->servers[i], w->now_ns);
            SIM_CHECK(w, here * 110 >= there * 100, "server %u idles, %llu against %llu ns", server,
                      (unsigned long long)here, (unsigned long long)there);
        }
    }
}

void sim_check_resting(struct sim_world *w)
{
    if (!w->settings.check) return;
    for (uint32_t i = 0; i < w->scheduler.server_count; i++) {
        const struct server *sv = &w->scheduler.servers[i];
        if (!sv->usable) {
            SIM_CHECK(w, !sv->flow_count, "in line for server %u, which is away", i);
            continue;
        }
        /* On a card, tickets with company in flight wait until that is nearly done, no longer. */
        uint64_t until_ns = scheduler_wake_ns(&w->scheduler);
        bool held = i != SERVER_CPU && sv->in_flight && until_ns < w->now_ns + sv->charged_ns;
        SIM_CHECK(w, sv->in_flight >= 2 || !sv->flow_count || held,
                  "server %u has %u in flight, and %u flows wait", i, sv->in_flight,
                  sv->flow_count);
        if (!sv->in_flight) check_idle(w, i);
    }
}

/* ---------------------------------------------------------------- sums */

struct sums {
    uint64_t charged_ns, window_ns, queued_ns;
    uint32_t in_flight, depth;
};

static void sum_flow(struct sim_world *w, const struct flow *f, struct sums *sums)
{
    uint64_t queued_ns = 0;
    uint32_t depth = 0;
    for (const struct ticket *t = f->head; t; t = t->next, depth++)
        queued_ns += t->charge_ns;
    SIM_CHECK(w, depth == f->depth && queued_ns == f->queued_ns, "a line counts wrong");
    SIM_CHECK(w, !f->head == !f->turn.next, "a flow in the round with nothing, or the reverse");
    sums->queued_ns += queued_ns;
    sums->depth += depth;
}

void sim_check_sums(struct sim_world *w)
{
    struct sums sums[SIM_SERVERS] = {0};
    uint32_t line = 0, queued = 0, used = 0;
    for (uint32_t i = 0; i < w->job_count; i++) {
        const struct sim_job *j = &w->jobs[i];
        used += j->state != SIM_FREE;
        line += j->state == SIM_LINE;
        if (j->state != SIM_FLIGHT || !j->ticket.members) continue;
        struct sums *sum = &sums[j->ticket.server];
        sum->in_flight++;
        sum->charged_ns += j->ticket.charge_ns;
        sum->window_ns += j->ticket.window_ns;
    }
    for (uint32_t t = 0; t < w->settings.tenants; t++) {
        uint32_t before = queued;
        for (uint32_t i = 0; i < SIM_SERVERS; i++) {
            sum_flow(w, &w->tenancies[t]->flows[i], &sums[i]);
            queued += w->tenancies[t]->flows[i].depth;
        }
        SIM_CHECK(w, queued - before == w->tenants[t]->queued, "tenant %u counts wrong", t);
        uint32_t most = w->settings.queue_max; /* what comes back is not refused */
        SIM_CHECK(w, !most || w->tenants[t]->queued <= most + w->gave_up, "a quota is passed");
    }
    SIM_CHECK(w, used == w->jobs_used && line == queued, "%u jobs in line, %u known", line, queued);
    for (uint32_t i = 0; i < w->scheduler.server_count; i++) {
        const struct server *sv = &w->scheduler.servers[i];
        SIM_CHECK(w,
                  sums[i].in_flight == sv->in_flight && sums[i].charged_ns == sv->charged_ns &&
                      sums[i].window_ns == sv->window_ns && sums[i].queued_ns == sv->queued_ns,
                  "server %u counts wrong", i);
    }
}

void sim_check_end(struct sim_world *w)
{
    sim_check_sums(w);
    SIM_CHECK(w, !w->jobs_used, "%u jobs are lost", w->jobs_used);
    for (uint32_t i = 0; i < w->settings.clients; i++) {
        const struct sim_client *c = &w->clients[i];
        SIM_CHECK(w, c->sent == c->requests && c->ended == c->sent, "client %u: %llu of %llu", i,
                  (unsigned long long)c->ended, (unsigned long long)c->sent);
    }
    SIM_CHECK(w, w->done + w->cancelled + w->refused == w->sent, "requests were lost or doubled");
    for (uint32_t i = 0; i < w->scheduler.server_count; i++) {
        const struct server *sv = &w->scheduler.servers[i];
        SIM_CHECK(w,
                  !sv->in_flight && !sv->charged_ns && !sv->window_ns && !sv->queued_ns &&
                      !sv->flow_count && !sv->principals.first && !sv->principals.weights &&
                      !sv->oldest && !sv->newest && !sv->alone,
                  "server %u is not empty", i);
    }
    for (uint32_t i = 0; i < BATCH_GROUPS_CHAINS; i++)
        SIM_CHECK(w, !w->scheduler.waiting.chains[i] && !w->scheduler.running.chains[i],
                  "somebody is still looked for");
}
