#include "daemon/sched/fair.h"

#include <assert.h>

enum { TOOK_TIMES_MAX = 16 };

static struct flow *flow_of(struct turn *t)
{
    return (struct flow *)t;
}

static struct stake *stake_of(struct turn *t)
{
    return (struct stake *)t;
}

static uint32_t weight_of(const struct flow *f)
{
    uint32_t weight = f->tenancy->tenant->quotas.weight;
    return weight ? weight : 1;
}

/* The configuration may have changed the weight while f was in no round. */
static void refresh(struct flow *f)
{
    if (!f->turn.next) f->turn.weight = weight_of(f);
}

/* ---------------------------------------------------------------- the round-robin */

/* Grants rounds for the time in which nobody used a round: it would have served anyone. */
static void grant_idle(struct round *r, uint32_t in_flight, uint64_t finished_ns, uint64_t now_ns)
{
    if (!in_flight && !r->count && now_ns > finished_ns) r->granted_ns += now_ns - finished_ns;
}

void fair_join(struct server *sv, struct flow *f, uint64_t now_ns)
{
    struct stake *s = f->stake;
    grant_idle(&sv->principals, sv->in_flight, sv->finished_ns, now_ns);
    grant_idle(&s->flows, s->in_flight, s->finished_ns, now_ns);
    refresh(f);
    f->ready = NULL;
    if (!s->turn.next) {
        s->turn.weight = f->turn.weight;
        round_join(&sv->principals, &s->turn, now_ns);
    } else if (s->turn.weight < f->turn.weight) {
        round_reweigh(&sv->principals, &s->turn, f->turn.weight);
    }
    round_join(&s->flows, &f->turn, now_ns);
    sv->flow_count++;
}

void fair_leave(struct server *sv, struct flow *f)
{
    round_leave(&f->stake->flows, &f->turn);
    sv->flow_count--;
    if (!f->stake->flows.count) round_leave(&sv->principals, &f->stake->turn);
}

struct flow *fair_first(const struct server *sv)
{
    return sv->principals.first ? flow_of(stake_of(sv->principals.first)->flows.first) : NULL;
}

struct flow *fair_next(const struct server *sv, const struct flow *f)
{
    if (f->turn.next != f->stake->flows.first) return flow_of(f->turn.next);
    struct turn *behind = f->stake->turn.next;
    return behind == sv->principals.first ? NULL : flow_of(stake_of(behind)->flows.first);
}

/* ---------------------------------------------------------------- whose turn */

/* Updates every flow of s and its weight; the configuration may have changed theirs. */
static void settle_stake(struct server *sv, struct stake *s, int64_t most_ns)
{
    uint32_t heaviest = 1;
    struct turn *t = s->flows.first;
    s->turn.ready = false;
    for (uint32_t i = 0; i < s->flows.count; i++, t = t->next) {
        uint32_t weight = weight_of(flow_of(t));
        round_settle(&s->flows, t, most_ns);
        if (t->weight != weight) round_reweigh(&s->flows, t, weight);
        if (weight > heaviest) heaviest = weight;
        t->ready = flow_of(t)->ready != NULL;
        s->turn.ready |= t->ready;
    }
    round_settle(&sv->principals, &s->turn, most_ns);
    if (s->turn.weight != heaviest) round_reweigh(&sv->principals, &s->turn, heaviest);
}

static void settle_all(struct server *sv, const struct scheduler_settings *settings)
{
    struct turn *t = sv->principals.first;
    for (uint32_t i = 0; i < sv->principals.count; i++, t = t->next)
        settle_stake(sv, stake_of(t), (int64_t)settings->quantum_ns);
}

struct flow *fair_choose(struct server *sv, const struct scheduler_settings *settings,
                         uint64_t now_ns, bool *aged)
{
    bool aged_flow = false;
    int64_t most_ns = (int64_t)settings->quantum_ns;
    settle_all(sv, settings);
    struct turn *t = round_choose(&sv->principals, now_ns, settings->age_ns, most_ns, aged);
    if (!t) return NULL;
    t = round_choose(&stake_of(t)->flows, now_ns, settings->age_ns, most_ns, &aged_flow);
    *aged |= aged_flow;
    return flow_of(t);
}

/* True if another principal that uses the server, queued or in flight, needs fewer rounds. */
static bool principals_lack_less(const struct server *sv, const struct stake *chosen,
                                 uint64_t rounds)
{
    const struct round *r = &sv->principals;
    const struct turn *t = r->first;
    for (uint32_t i = 0; i < r->count; i++, t = t->next)
        if (t != &chosen->turn && round_lacks(r, t) < rounds) return true;
    for (const struct ticket *k = sv->oldest; k; k = k->flight_next) {
        t = &k->tenancy->principal->stakes[k->server].turn;
        if (t != &chosen->turn && !t->next && round_lacks(r, t) < rounds) return true;
    }
    return false;
}

/* The same between the flows of one principal. */
static bool flows_lack_less(const struct server *sv, const struct flow *chosen, uint64_t rounds)
{
    const struct round *r = &chosen->stake->flows;
    const struct turn *t = r->first;
    for (uint32_t i = 0; i < r->count; i++, t = t->next)
        if (t != &chosen->turn && round_lacks(r, t) < rounds) return true;
    for (const struct ticket *k = sv->oldest; k; k = k->flight_next) {
        struct flow *f = &k->tenancy->flows[k->server];
        if (f == chosen || f->stake != chosen->stake || f->turn.next) continue;
        refresh(f);
        if (round_lacks(r, &f->turn) < rounds) return true;
    }
    return false;
}

struct flow *fair_choose_now(struct server *sv, const struct scheduler_settings *settings)
{
    uint64_t outer, inner;
    settle_all(sv, settings);
    struct turn *t = round_least(&sv->principals, &outer);
    if (!t) return NULL;
    struct stake *s = stake_of(t);
    if (principals_lack_less(sv, s, outer)) return NULL;
    struct flow *chosen = flow_of(round_least(&s->flows, &inner));
    if (flows_lack_less(sv, chosen, inner)) return NULL;
    sv->principals.granted_ns += outer;
    s->flows.granted_ns += inner;
    return chosen;
}

/* ---------------------------------------------------------------- what it costs */

void fair_charge(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t age_ns,
                 uint64_t now_ns)
{
    refresh(f);
    round_charge(&sv->principals, &f->stake->turn, charge_ns, age_ns, now_ns);
    round_charge(&f->stake->flows, &f->turn, charge_ns, age_ns, now_ns);
}

void fair_correct(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t took_ns,
                  uint64_t quantum_ns)
{
    uint64_t most = charge_ns * TOOK_TIMES_MAX + quantum_ns;
    if (took_ns > most) took_ns = most;
    refresh(f);
    round_correct(&sv->principals, &f->stake->turn, charge_ns, took_ns);
    round_correct(&f->stake->flows, &f->turn, charge_ns, took_ns);
}

int64_t fair_deficit_ns(const struct server *sv, const struct flow *f)
{
    return round_deficit_ns(&sv->principals, &f->stake->turn);
}

bool fair_owes_less(const struct server *sv, const struct flow *a, const struct flow *b)
{
    if (a->stake != b->stake) return fair_deficit_ns(sv, a) > fair_deficit_ns(sv, b);
    const struct round *r = &a->stake->flows;
    return round_deficit_ns(r, &a->turn) > round_deficit_ns(r, &b->turn);
}

void fair_grant(struct server *sv, const struct flow *f)
{
    sv->principals.granted_ns += round_lacks(&sv->principals, &f->stake->turn);
    f->stake->flows.granted_ns += round_lacks(&f->stake->flows, &f->turn);
}

uint64_t fair_ahead_ns(const struct server *sv, const struct flow *f, uint64_t own_ns,
                       uint64_t charge_ns)
{
    const struct stake *s = f->stake;
    struct turn turn = f->turn;
    if (!turn.next) turn.weight = weight_of(f);
    own_ns += round_ahead_ns(&s->flows, &turn, own_ns + charge_ns, s->queued_ns - f->queued_ns);
    turn = s->turn;
    if (!turn.next) turn.weight = weight_of(f);
    return own_ns +
           round_ahead_ns(&sv->principals, &turn, own_ns + charge_ns, sv->queued_ns - s->queued_ns);
}
