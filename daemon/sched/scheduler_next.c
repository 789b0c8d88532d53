#include "daemon/sched/scheduler_inside.h"

#include "daemon/sched/batch.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/forecast.h"
#include "daemon/sched/flows.h"

enum {
    SHORT_PART = 4,  /* a job is short if it alone takes at most this part of the window */
    PASSING_MAX = 2, /* short jobs of a flow beyond a full window at once */
    /* how many tickets of a queue are searched for one that fits and need not wait for others */
    HELD_LOOK = 16,
    STEAL_LOOK = 8, /* the same, for one that another server may take */
    STEAL_PERCENT = 110,
    SPLIT_NS_MIN = 4000000, /* work that takes less is not worth the wait for two backends */
};

enum room { ROOM_NONE, ROOM_SHORT, ROOM_ANY };

static enum room room_of(const struct scheduler *s, const struct server *sv, uint64_t now_ns)
{
    if (!sv->usable || sv->in_flight >= sv->slots_max) return ROOM_NONE;
    if (sv->in_flight < IN_FLIGHT_MIN || !s->settings.window_ns) return ROOM_ANY;
    return forecast_window_ns(sv, now_ns) < s->settings.window_ns ? ROOM_ANY : ROOM_SHORT;
}

/* True if nothing of t's principal runs on the CPU. Workers turn to whoever has had the least work
 * within a millisecond, so such a ticket need not wait for others' to end, however long it is. */
static bool is_first_of_peer(const struct ticket *t)
{
    return t->server == SERVER_CPU && !flows_of(t)->stake->in_flight;
}

/* True if t may start in this kind of space in the window, judged by what it takes alone: its
 * charge may be only what it adds to others with its key. Those will run together, so only the
 * first of them passes. */
static bool fits_room(const struct scheduler *s, const struct ticket *t, enum room room)
{
    uint64_t alone_ns = t->server == SERVER_CPU ? t->cpu_ns : t->gpu_ns;
    if (room == ROOM_ANY) return true;
    if (ticket_joins(t, t->server) && batch_company(s, t)) return false;
    return alone_ns <= s->settings.window_ns / SHORT_PART || is_first_of_peer(t);
}

static bool is_put_off(const struct scheduler *s, const struct ticket *t)
{
    return t->put_off == s->put_off_round;
}

/* The first ticket of a flow that fits the room and need not wait for others to join. */
static struct ticket *ready_of(struct scheduler *s, const struct flow *f, enum room room,
                               uint64_t now_ns)
{
    if (room == ROOM_SHORT && f->passing >= PASSING_MAX) return NULL;
    struct ticket *t = f->head;
    const void *held = NULL; /* others with this key came later and wait longer */
    for (uint32_t look = 0; t && look < HELD_LOOK; look++, t = t->next) {
        uint64_t until_ns;
        if (is_put_off(s, t) || !fits_room(s, t, room) || (held && t->batch_key == held)) continue;
        if (!batch_held(s, t, now_ns, &until_ns)) return t;
        held = t->batch_key;
        if (until_ns < s->wake_ns) s->wake_ns = until_ns;
    }
    return NULL;
}

/* The next ticket that a server takes from its own queues; NULL: none. */
static struct ticket *choose(struct scheduler *s, struct server *sv, uint64_t now_ns)
{
    enum room room = room_of(s, sv, now_ns);
    if (room == ROOM_NONE || !sv->flow_count) return NULL;
    struct flow *f = fair_first(sv);
    for (; f; f = fair_next(sv, f))
        f->ready = ready_of(s, f, room, now_ns);
    bool aged = false;
    f = room == ROOM_ANY ? fair_choose(sv, &s->settings, now_ns, &aged)
                         : fair_choose_now(sv, &s->settings);
    if (!f) return NULL;
    s->counters.aged += aged;
    s->counters.passes += room == ROOM_SHORT;
    struct ticket *t = f->ready;
    t->passes = room == ROOM_SHORT;
    f->passing += t->passes;
    flows_remove(s, t);
    return t;
}

/* ---------------------------------------------------------------- from others' lines */

/* The last ticket of a flow that `server`, which is idle, may take and would end sooner: this is
 * the one that would wait longest where it is. */
static struct ticket *worth_taking(const struct scheduler *s, const struct flow *f, uint32_t server,
                                   uint64_t now_ns)
{
    uint64_t own_ns = f->queued_ns;
    struct ticket *t = f->tail;
    for (uint32_t look = 0; t && look < STEAL_LOOK; look++, t = t->previous) {
        own_ns -= t->charge_ns;
        if (t->other != server || is_put_off(s, t)) continue;
        uint64_t there = t->server == SERVER_CPU ? t->cpu_ns : t->gpu_ns;
        uint64_t here = server == SERVER_CPU ? t->cpu_ns : t->gpu_ns;
        there += forecast_wait_ns(s, t, t->server, own_ns, t->charge_ns, now_ns);
        return (double)here * STEAL_PERCENT < (double)there * 100 ? t : NULL;
    }
    return NULL;
}

/* For a server without any work: a queued ticket of another server that it would end sooner, of
 * the principal and tenant that were served least here. */
static struct ticket *steal(struct scheduler *s, uint32_t server, uint64_t now_ns)
{
    struct server *sv = &s->servers[server];
    if (sv->in_flight || sv->flow_count || room_of(s, sv, now_ns) == ROOM_NONE) return NULL;
    struct ticket *best = NULL;
    struct flow *most = NULL; /* the best's on this server */
    for (uint32_t i = 0; i < s->server_count; i++) {
        const struct server *other = &s->servers[i];
        for (struct flow *f = fair_first(other); f; f = fair_next(other, f)) {
            struct ticket *t = worth_taking(s, f, server, now_ns);
            if (!t || (best && !fair_owes_less(sv, &t->tenancy->flows[server], most))) continue;
            best = t;
            most = &t->tenancy->flows[server];
        }
    }
    if (!best) return NULL;
    flows_remove(s, best);
    fair_grant(sv, most);
    s->counters.steals++;
    return best;
}

/* ---------------------------------------------------------------- one dispatch */

static bool idle(const struct server *sv)
{
    return sv->usable && sv->slots_max && !sv->in_flight && !sv->flow_count;
}

/* How many of t's queries the GPU should run if both backends are idle; 0: t is not split. */
static uint64_t split_of(const struct scheduler *s, const struct ticket *t)
{
    if (!t->splits || !t->work.gpu_able) return 0;
    if (s->settings.force_split) return t->server == SERVER_CPU ? 0 : t->work.queries / 2;
    if (!s->settings.split || s->settings.force || t->other >= SERVERS_MAX ||
        t->cpu_ns < SPLIT_NS_MIN || t->gpu_ns < SPLIT_NS_MIN)
        return 0;
    if (s->servers[t->server].in_flight || !idle(&s->servers[t->other])) return 0;
    return forecast_split(s, t);
}

static void dispatch(struct scheduler *s, struct ticket *first, uint32_t server, uint64_t now_ns,
                     struct dispatch *out)
{
    struct work whole;
    uint32_t count = batch_form(s, first, server, &whole);
    *out = (struct dispatch){
        .first = first, .count = count, .server = server, .reason = (enum reason)first->reason};
    out->split_queries = count == 1 ? split_of(s, first) : 0;
    if (!out->split_queries) {
        scheduler_start(s, first, count, &whole, now_ns);
        return;
    }
    if (server == SERVER_CPU) out->server = first->other;
    first->dispatched_ns = now_ns;
    s->counters.splits++;
}

bool scheduler_next(struct scheduler *s, uint64_t now_ns, struct dispatch *out)
{
    s->wake_ns = UINT64_MAX;
    struct ticket *t = NULL;
    uint32_t server = 0;
    for (uint32_t i = 0; i < s->server_count && !t; i++)
        t = choose(s, &s->servers[server = i], now_ns);
    for (uint32_t i = 0; i < s->server_count && !t; i++)
        t = steal(s, server = i, now_ns);
    if (!t) return false;
    dispatch(s, t, server, now_ns, out);
    return true;
}

uint64_t scheduler_wake_ns(const struct scheduler *s)
{
    return s->wake_ns;
}
