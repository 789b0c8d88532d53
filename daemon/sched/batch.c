#include "daemon/sched/batch.h"

#include "daemon/sched/forecast.h"
#include "daemon/sched/flows.h"
#include "daemon/sched/work.h"

enum {
    LEAD_NS = 150000,       /* assumed until it was measured, */
    LEAD_DOUBT = 16,        /* and this part of the prediction */
    LEAD_LEAST_NS = 20000,  /* however early the last ones were enqueued */
    LEAD_MOST_NS = 1000000, /* however late: one of a process that was not run says little */
    LEAD_WEIGHT = 8,        /* the part that the last one has in the mean */
    RUNNING_LOOK = 8,       /* dispatches with a key that are counted */
    REST_GAIN_PART = 8,     /* who waits for the next batch spares the others this part at least */
    HAND_MOST_NS = 4000000, /* longer work goes in passes there, between which others may go */
};

uint64_t batch_result_bytes(const struct work *w)
{
    return w->queries * w->k * 12 + w->queries * 4;
}

uint64_t batch_room_bytes(const struct work *w)
{
    return w->queries * (w->stride * 4ull + w->k * 16ull);
}

/* True if work w may run as one job; *shrunk: it may not, only because of the server's memory. */
static bool fits(const struct scheduler *s, uint32_t server, const struct work *w, bool *shrunk)
{
    if (batch_result_bytes(w) > s->settings.batch_bytes_max) return false;
    uint64_t room = s->servers[server].room_bytes;
    if (server == SERVER_CPU || !room || batch_room_bytes(w) <= room / 5 * 4) return true;
    *shrunk = true;
    return false;
}

/* How many queries a batch that begins with `first` may have. While other tenants use the server,
 * a batch takes no longer than the window, or than twice `first` alone: a larger one would delay
 * them. */
static uint64_t queries_max(const struct scheduler *s, const struct ticket *first, uint32_t server)
{
    const struct server *sv = &s->servers[server];
    uint64_t most = s->settings.batch_queries_max, alone = first->work.queries;
    const struct flow *own = &first->tenancy->flows[server];
    bool others = sv->flow_count > (own->turn.next != NULL) || sv->in_flight > own->in_flight;
    if (!others || alone >= most || !alone) return most;
    struct work full = first->work;
    full.queries = most;
    full.pairs = full.pairs / alone * most;
    full.bytes_in = full.bytes_in / alone * most;
    full.bytes_out = full.bytes_out / alone * most;
    uint64_t one_ns = forecast_work(s, server, &first->work).busy_ns;
    uint64_t full_ns = forecast_work(s, server, &full).busy_ns, limit_ns = 2 * one_ns;
    if (limit_ns < s->settings.window_ns) limit_ns = s->settings.window_ns;
    if (full_ns <= limit_ns) return most;
    double part = (double)(limit_ns - one_ns) / (double)(full_ns - one_ns);
    return alone + (uint64_t)(part * (double)(most - alone));
}

static uint64_t busy_ns(const struct scheduler *s, uint32_t server, const struct work *like,
                        uint64_t queries)
{
    if (!queries) return 0;
    struct work w = work_part(like, queries);
    return forecast_work(s, server, &w).busy_ns;
}

/* How many queries with first's key run on a server. */
static uint64_t queries_running(const struct scheduler *s, const struct ticket *first,
                                uint32_t server)
{
    uint64_t queries = 0;
    const struct ticket *r = batch_groups_first(&s->running, first);
    for (uint32_t look = 0; r && look < RUNNING_LOOK; r = r->mate_next, look++)
        if (r->server == server) queries += r->whole.queries;
    return queries;
}

/* How many queries of those in line, at most `most`, a batch that begins with `first` should have.
 * A card may take much longer for one query more than it takes at once. If others run there, whose
 * clients will ask again, a next batch comes anyway: whoever goes with that costs less there, if
 * it then takes no more than at once. */
static uint64_t queries_best(const struct scheduler *s, const struct ticket *first, uint32_t server,
                             uint64_t most)
{
    uint64_t queries = first->work.queries + batch_groups_queries(&s->waiting, first);
    uint64_t again = queries_running(s, first, server);
    if (server == SERVER_CPU || !again || !first->work.queries) return most;
    if (queries > most) queries = most;
    uint64_t fewer = cost_width_below(queries);
    if (fewer < first->work.queries) return most;
    const struct work *w = &first->work;
    uint64_t all_ns = busy_ns(s, server, w, queries), fewer_ns = busy_ns(s, server, w, fewer);
    uint64_t next_ns = busy_ns(s, server, w, again);
    uint64_t with_rest_ns = busy_ns(s, server, w, again + queries - fewer);
    uint64_t adds_here_ns = all_ns > fewer_ns ? all_ns - fewer_ns : 0;
    uint64_t adds_there_ns = with_rest_ns > next_ns ? with_rest_ns - next_ns : 0;
    return adds_here_ns > adds_there_ns + fewer_ns / REST_GAIN_PART ? fewer : most;
}

/* Moves t, which is in no queue, to `server`, which may have taken it from another server's
 * queue. */
static void hand_over(struct ticket *t, uint32_t server)
{
    if (t->server == server) return;
    t->other = t->server;
    t->server = server;
    t->reason = REASON_CHOSEN_FASTER;
}

uint32_t batch_form(struct scheduler *s, struct ticket *first, uint32_t server, struct work *whole)
{
    uint32_t count = 1, from = first->server;
    bool shrunk = false;
    *whole = first->work;
    first->next = first->previous = NULL;
    struct ticket *last = first, *after;
    struct ticket *t = ticket_joins(first, server) ? batch_groups_first(&s->waiting, first) : NULL;
    uint64_t most = t ? queries_best(s, first, server, queries_max(s, first, server)) : 0;
    for (uint32_t look = 0; t && look < BATCH_LOOK; look++, t = after) {
        if (count >= s->settings.batch_requests_max || whole->queries >= most) break;
        after = t->mate_next;
        if (server != from && t->other != server) continue;
        struct work with = *whole;
        work_merge(&with, &t->work);
        if (with.queries > most || !fits(s, server, &with, &shrunk)) continue;
        flows_remove(s, t);
        *whole = with;
        last->next = t;
        t->previous = last;
        last = t;
        count++;
    }
    for (t = first; t; t = t->next)
        hand_over(t, server);
    s->counters.shrunk_batches += shrunk;
    return count;
}

uint32_t batch_company(const struct scheduler *s, const struct ticket *t)
{
    uint32_t count = 0;
    const struct ticket *r = batch_groups_first(&s->running, t);
    for (; r && count < BATCH_COMPANY; r = r->mate_next)
        count++;
    return count;
}

/* At most half of what the card has to do: on a machine whose processors are taken away for longer,
 * batches of one would follow each other. */
static uint64_t lead_ns(const struct server *sv)
{
    const struct lead *l = &sv->lead;
    uint64_t most_ns = sv->charged_ns / 2, ns = LEAD_NS + sv->charged_ns / LEAD_DOUBT;
    if (l->mean_ns > 0) ns = (uint64_t)(l->mean_ns + 2 * l->spread_ns);
    return ns < most_ns ? ns : most_ns;
}

void batch_learn_lead(struct server *sv, const struct ticket *first, uint64_t enqueued_ns)
{
    if (!first->lead_ns || !enqueued_ns || !sv->finished_ns) return;
    struct lead *l = &sv->lead;
    /* Handed over so much earlier, its kernels would have been enqueued when those before ended. */
    double needed = (double)first->lead_ns + (double)enqueued_ns - (double)sv->finished_ns;
    needed = needed < LEAD_LEAST_NS ? LEAD_LEAST_NS : needed > LEAD_MOST_NS ? LEAD_MOST_NS : needed;
    if (l->mean_ns <= 0) {
        *l = (struct lead){needed, needed / LEAD_WEIGHT};
        return;
    }
    double off = needed - l->mean_ns;
    l->mean_ns += off / LEAD_WEIGHT;
    l->spread_ns += ((off < 0 ? -off : off) - l->spread_ns) / LEAD_WEIGHT;
}

/* When a card that has one of t's company should be handed the next: shortly before it is done with
 * what it has, which costs t nothing, and all that come until then run with it. At once if it is
 * later with that than was predicted. */
static uint64_t handed_ns(const struct server *sv, uint64_t now_ns)
{
    uint64_t since_ns = sv->started_ns > sv->finished_ns ? sv->started_ns : sv->finished_ns;
    if (now_ns > since_ns + sv->oldest->charge_ns) return now_ns;
    uint64_t backlog_ns = forecast_backlog_ns(sv, now_ns), before_ns = lead_ns(sv);
    return backlog_ns > before_ns ? now_ns + backlog_ns - before_ns : now_ns;
}

bool batch_held(const struct scheduler *s, struct ticket *t, uint64_t now_ns, uint64_t *until_ns)
{
    const struct server *sv = &s->servers[t->server];
    if (!ticket_joins(t, t->server) || !s->settings.batch_wait_ns || !sv->in_flight) return false;
    uint32_t company = batch_company(s, t);
    uint64_t until = company >= BATCH_COMPANY ? t->arrived_ns + s->settings.batch_wait_ns : 0;
    if (company && t->server != SERVER_CPU && sv->charged_ns <= HAND_MOST_NS) {
        uint64_t handed = handed_ns(sv, now_ns);
        if (handed > now_ns && handed >= until) t->lead_ns = lead_ns(sv);
        if (handed > until) until = handed;
    }
    if (until <= now_ns) return false;
    *until_ns = until;
    return true;
}
