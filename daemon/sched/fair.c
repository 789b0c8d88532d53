#include "daemon/sched/fair.h"

#include <assert.h>

enum { TOOK_TIMES_MAX = 16 };

static uint32_t weight_of(const struct flow *f)
{
    return f->tenant->quotas.weight ? f->tenant->quotas.weight : 1;
}

/* Returns f's deficit after the rounds since it was last updated, at most most_ns. */
static int64_t deficit_after(const struct server *sv, const struct flow *f, int64_t most_ns)
{
    if (f->deficit_ns >= most_ns) return most_ns;
    uint64_t lacks = (uint64_t)most_ns - (uint64_t)f->deficit_ns;
    uint64_t rounds = sv->granted_ns - f->granted_ns;
    if (rounds > lacks / weight_of(f)) return most_ns;
    return f->deficit_ns + (int64_t)(rounds * weight_of(f));
}

static void settle(const struct server *sv, struct flow *f, int64_t most_ns)
{
    f->deficit_ns = deficit_after(sv, f, most_ns);
    f->granted_ns = sv->granted_ns;
}

int64_t fair_deficit_ns(const struct server *sv, const struct flow *f)
{
    return f->next ? deficit_after(sv, f, INT64_MAX) : deficit_after(sv, f, 0);
}

/* Grants rounds for the time in which the server was idle: it would have served anyone. */
static void grant_idle(struct server *sv, uint64_t now_ns)
{
    if (!sv->in_flight && !sv->flow_count && now_ns > sv->finished_ns)
        sv->granted_ns += now_ns - sv->finished_ns;
}

void fair_join(struct server *sv, struct flow *f, uint64_t now_ns)
{
    assert(!f->next);
    grant_idle(sv, now_ns);
    settle(sv, f, 0);
    f->served_ns = now_ns;
    f->weight = weight_of(f);
    f->ready = NULL;
    sv->weights += f->weight;
    sv->flow_count++;
    if (!sv->turn) {
        f->next = f->previous = f;
        sv->turn = f;
        return;
    }
    f->next = sv->turn;
    f->previous = sv->turn->previous;
    f->previous->next = f;
    f->next->previous = f;
}

void fair_leave(struct server *sv, struct flow *f)
{
    assert(f->next);
    settle(sv, f, 0);
    sv->weights -= f->weight;
    sv->flow_count--;
    if (sv->turn == f) sv->turn = f->next == f ? NULL : f->next;
    f->next->previous = f->previous;
    f->previous->next = f->next;
    f->next = f->previous = NULL;
}

/* Returns the first flow, from `from` on, that is ready and not in debt. */
static struct flow *first_allowed(const struct server *sv, struct flow *from)
{
    struct flow *f = from;
    for (uint32_t i = 0; i < sv->flow_count; i++, f = f->next) {
        if (f->ready && f->deficit_ns >= 0) return f;
    }
    return NULL;
}

/* Updates every flow. Returns the one that was not served for the longest time, if that is age_ns
 * or more. */
static struct flow *settle_all(struct server *sv, const struct scheduler_settings *settings,
                               uint64_t now_ns)
{
    struct flow *f = sv->turn, *oldest = NULL;
    for (uint32_t i = 0; i < sv->flow_count; i++, f = f->next) {
        settle(sv, f, (int64_t)settings->quantum_ns);
        if (f->weight != weight_of(f)) { /* the weight was changed by the configuration */
            sv->weights += weight_of(f);
            sv->weights -= f->weight;
            f->weight = weight_of(f);
        }
        if (!f->ready || now_ns < f->served_ns || now_ns - f->served_ns < settings->age_ns)
            continue;
        if (!oldest || f->served_ns < oldest->served_ns) oldest = f;
    }
    return oldest;
}

/* Grants as many rounds as the first of the ready flows needs. False: no flow is ready. */
static bool grant_rounds(struct server *sv)
{
    uint64_t least = UINT64_MAX;
    struct flow *f = sv->turn;
    for (uint32_t i = 0; i < sv->flow_count; i++, f = f->next) {
        if (!f->ready) continue;
        uint64_t lacks = ((uint64_t)-f->deficit_ns + f->weight - 1) / f->weight;
        if (lacks < least) least = lacks;
    }
    if (least == UINT64_MAX) return false;
    sv->granted_ns += least;
    return true;
}

struct flow *fair_choose(struct server *sv, const struct scheduler_settings *settings,
                         uint64_t now_ns, bool *aged)
{
    *aged = false;
    if (!sv->turn) return NULL;
    struct flow *oldest = settle_all(sv, settings, now_ns);
    if (oldest) {
        *aged = true;
        return oldest;
    }
    struct flow *chosen = first_allowed(sv, sv->turn);
    if (!chosen && grant_rounds(sv)) {
        settle_all(sv, settings, now_ns);
        chosen = first_allowed(sv, sv->turn->next);
        assert(chosen);
    }
    if (chosen) sv->turn = chosen;
    return chosen;
}

/* How many rounds f, in the round-robin or not, needs to be out of debt. */
static uint64_t lacks_rounds(const struct server *sv, const struct flow *f)
{
    int64_t deficit = fair_deficit_ns(sv, f);
    return deficit >= 0 ? 0 : ((uint64_t)-deficit + weight_of(f) - 1) / weight_of(f);
}

/* True if another flow that uses the server, queued or in flight, needs fewer rounds than that. */
static bool others_lack_less(const struct server *sv, const struct flow *chosen, uint64_t rounds)
{
    const struct flow *f = sv->turn;
    for (uint32_t i = 0; i < sv->flow_count; i++, f = f->next) {
        if (f != chosen && lacks_rounds(sv, f) < rounds) return true;
    }
    for (const struct ticket *t = sv->oldest; t; t = t->flight_next) {
        f = &t->tenant->flows[t->server];
        if (f != chosen && !f->next && lacks_rounds(sv, f) < rounds) return true;
    }
    return false;
}

struct flow *fair_choose_now(struct server *sv, const struct scheduler_settings *settings)
{
    if (!sv->turn) return NULL;
    settle_all(sv, settings, 0);
    struct flow *chosen = first_allowed(sv, sv->turn);
    if (chosen) return chosen;
    uint64_t least = UINT64_MAX;
    struct flow *f = sv->turn;
    for (uint32_t i = 0; i < sv->flow_count; i++, f = f->next) {
        if (!f->ready || lacks_rounds(sv, f) >= least) continue;
        least = lacks_rounds(sv, f);
        chosen = f;
    }
    if (!chosen || others_lack_less(sv, chosen, least)) return NULL;
    sv->granted_ns += least;
    return chosen;
}

void fair_charge(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t age_ns,
                 uint64_t now_ns)
{
    f->served_ns = now_ns;
    if (!f->next) settle(sv, f, 0);
    uint64_t most = charge_ns > age_ns ? charge_ns : age_ns;
    f->deficit_ns -= (int64_t)charge_ns;
    if (f->deficit_ns < -(int64_t)most) f->deficit_ns = -(int64_t)most;
}

void fair_correct(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t took_ns,
                  uint64_t quantum_ns)
{
    uint64_t most = charge_ns * TOOK_TIMES_MAX + quantum_ns;
    if (took_ns > most) took_ns = most;
    if (!f->next) settle(sv, f, 0);
    f->deficit_ns += (int64_t)charge_ns - (int64_t)took_ns;
    if (!f->next && f->deficit_ns > 0) f->deficit_ns = 0;
}

void fair_grant(struct server *sv, const struct flow *f)
{
    int64_t deficit = fair_deficit_ns(sv, f);
    if (deficit < 0) sv->granted_ns += ((uint64_t)-deficit + weight_of(f) - 1) / weight_of(f);
}

uint64_t fair_ahead_ns(const struct server *sv, const struct flow *f, uint64_t own_ns,
                       uint64_t charge_ns)
{
    uint64_t others = sv->queued_ns - f->queued_ns;
    uint64_t weights = sv->weights - (f->next ? f->weight : 0);
    double share = (double)(own_ns + charge_ns) * (double)weights / weight_of(f);
    return own_ns + (share < (double)others ? (uint64_t)share : others);
}
