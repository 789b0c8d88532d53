#include "daemon/sched/round.h"

#include <assert.h>

/* Returns t's deficit after the rounds since it was last updated, at most most_ns. */
static int64_t deficit_after(const struct round *r, const struct turn *t, int64_t most_ns)
{
    if (t->deficit_ns >= most_ns) return most_ns;
    uint64_t lacks = (uint64_t)most_ns - (uint64_t)t->deficit_ns;
    uint64_t rounds = r->granted_ns - t->granted_ns;
    if (rounds > lacks / t->weight) return most_ns;
    return t->deficit_ns + (int64_t)(rounds * t->weight);
}

void round_settle(const struct round *r, struct turn *t, int64_t most_ns)
{
    t->deficit_ns = deficit_after(r, t, most_ns);
    t->granted_ns = r->granted_ns;
}

int64_t round_deficit_ns(const struct round *r, const struct turn *t)
{
    return t->next ? deficit_after(r, t, INT64_MAX) : deficit_after(r, t, 0);
}

void round_join(struct round *r, struct turn *t, uint64_t now_ns)
{
    assert(!t->next && t->weight);
    round_settle(r, t, 0);
    t->served_ns = now_ns;
    t->ready = false;
    r->weights += t->weight;
    r->count++;
    if (!r->first) {
        t->next = t->previous = t;
        r->first = t;
        return;
    }
    t->next = r->first;
    t->previous = r->first->previous;
    t->previous->next = t;
    t->next->previous = t;
}

void round_leave(struct round *r, struct turn *t)
{
    assert(t->next);
    round_settle(r, t, 0);
    r->weights -= t->weight;
    r->count--;
    if (r->first == t) r->first = t->next == t ? NULL : t->next;
    t->next->previous = t->previous;
    t->previous->next = t->next;
    t->next = t->previous = NULL;
}

void round_reweigh(struct round *r, struct turn *t, uint32_t weight)
{
    if (t->next) r->weights += (uint64_t)weight - t->weight;
    t->weight = weight;
}

/* Returns the first, from `from` on, that is ready and not in debt. */
static struct turn *first_allowed(const struct round *r, struct turn *from)
{
    struct turn *t = from;
    for (uint32_t i = 0; i < r->count; i++, t = t->next) {
        if (t->ready && t->deficit_ns >= 0) return t;
    }
    return NULL;
}

/* Returns the one that was not served for the longest time, if that is age_ns or more. */
static struct turn *oldest(const struct round *r, uint64_t now_ns, uint64_t age_ns)
{
    struct turn *t = r->first, *found = NULL;
    for (uint32_t i = 0; i < r->count; i++, t = t->next) {
        if (!t->ready || now_ns < t->served_ns || now_ns - t->served_ns < age_ns) continue;
        if (!found || t->served_ns < found->served_ns) found = t;
    }
    return found;
}

uint64_t round_lacks(const struct round *r, const struct turn *t)
{
    int64_t deficit = round_deficit_ns(r, t);
    return deficit >= 0 ? 0 : ((uint64_t)-deficit + t->weight - 1) / t->weight;
}

struct turn *round_least(struct round *r, uint64_t *rounds)
{
    struct turn *chosen = r->first ? first_allowed(r, r->first) : NULL;
    *rounds = chosen ? 0 : UINT64_MAX;
    struct turn *t = r->first;
    for (uint32_t i = 0; !chosen && i < r->count; i++, t = t->next)
        if (t->ready && round_lacks(r, t) < *rounds) *rounds = round_lacks(r, t);
    for (uint32_t i = 0; !chosen && i < r->count; i++, t = t->next)
        if (t->ready && round_lacks(r, t) == *rounds) chosen = t;
    return chosen;
}

struct turn *round_choose(struct round *r, uint64_t now_ns, uint64_t age_ns, int64_t most_ns,
                          bool *aged)
{
    struct turn *chosen = r->first ? oldest(r, now_ns, age_ns) : NULL;
    *aged = chosen != NULL;
    if (chosen || !r->first) return chosen;
    chosen = first_allowed(r, r->first);
    uint64_t rounds;
    if (!chosen && round_least(r, &rounds)) {
        r->granted_ns += rounds;
        struct turn *t = r->first;
        for (uint32_t i = 0; i < r->count; i++, t = t->next)
            round_settle(r, t, most_ns);
        chosen = first_allowed(r, r->first->next);
        assert(chosen);
    }
    if (chosen) r->first = chosen;
    return chosen;
}

void round_charge(struct round *r, struct turn *t, uint64_t charge_ns, uint64_t age_ns,
                  uint64_t now_ns)
{
    t->served_ns = now_ns;
    if (!t->next) round_settle(r, t, 0);
    uint64_t most = charge_ns > age_ns ? charge_ns : age_ns;
    t->deficit_ns -= (int64_t)charge_ns;
    if (t->deficit_ns < -(int64_t)most) t->deficit_ns = -(int64_t)most;
}

void round_correct(struct round *r, struct turn *t, uint64_t charge_ns, uint64_t took_ns)
{
    if (!t->next) round_settle(r, t, 0);
    t->deficit_ns += (int64_t)charge_ns - (int64_t)took_ns;
    if (!t->next && t->deficit_ns > 0) t->deficit_ns = 0;
}

uint64_t round_ahead_ns(const struct round *r, const struct turn *t, uint64_t own_ns,
                        uint64_t others_ns)
{
    uint64_t weights = r->weights - (t->next ? t->weight : 0);
    double share = (double)own_ns * (double)weights / t->weight;
    return share < (double)others_ns ? (uint64_t)share : others_ns;
}
