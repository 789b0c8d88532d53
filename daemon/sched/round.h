/* round: weighted deficit round-robin, in predicted nanoseconds. Who has a turn in the round and no
 * negative deficit may be served, and the work is subtracted, even below zero. When nobody may be
 * served, all are granted as many rounds as the next one needs, in one step of arithmetic. A round
 * grants one nanosecond for each unit of weight: with larger rounds, one with little work would
 * lose part of its grant to those that always have work.
 * Owner:  sched/fair.c: one round of principals in each server, and one of flows in each stake.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_ROUND_H
#define ENGRAM_SCHED_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct turn {
    int64_t deficit_ns;           /* negative: it was served more than its share */
    uint64_t granted_ns;          /* the round's granted_ns up to which the deficit is computed */
    uint64_t served_ns;           /* when it was last served, or joined */
    uint32_t weight;              /* at least 1 */
    bool ready;                   /* it could be served now */
    struct turn *next, *previous; /* in the round; NULL: it is not in it */
};

struct round {
    struct turn *first; /* the next to be served; NULL: none */
    uint32_t count;
    uint64_t weights;    /* sum over the turns in the round */
    uint64_t granted_ns; /* to each unit of weight since the start: the rounds */
};

/* Adds t at the end. Who left in debt still has that debt, less what it would have been granted
 * since. */
void round_join(struct round *r, struct turn *t, uint64_t now_ns);
/* A debt stays, savings are lost. */
void round_leave(struct round *r, struct turn *t);
void round_reweigh(struct round *r, struct turn *t, uint32_t weight);

/* Computes t's deficit, at most most_ns, as of now. */
void round_settle(const struct round *r, struct turn *t, int64_t most_ns);
/* Returns t's present deficit, whether it is in the round or not. */
int64_t round_deficit_ns(const struct round *r, const struct turn *t);
/* Returns how many rounds t, in the round or not, needs to be out of debt. */
uint64_t round_lacks(const struct round *r, const struct turn *t);

/* Chooses who is served next among those that are ready; all are settled. Who was not served for
 * age_ns is first: *aged. most_ns bounds savings. NULL: nobody is ready. */
struct turn *round_choose(struct round *r, uint64_t now_ns, uint64_t age_ns, int64_t most_ns,
                          bool *aged);
/* Returns the first that is ready and not in debt, or else the ready one that needs the fewest
 * rounds, and how many. NULL: nobody is ready. */
struct turn *round_least(struct round *r, uint64_t *rounds);

/* Charges t, in the round or not. Debts older than age_ns are forgiven, because aging would serve t
 * anyway. */
void round_charge(struct round *r, struct turn *t, uint64_t charge_ns, uint64_t age_ns,
                  uint64_t now_ns);
/* Corrects a charge by the time that the work really took. */
void round_correct(struct round *r, struct turn *t, uint64_t charge_ns, uint64_t took_ns);

/* Predicts how much of others' queued work is served before own_ns of t's: by shares, and at most
 * all of it. */
uint64_t round_ahead_ns(const struct round *r, const struct turn *t, uint64_t own_ns,
                        uint64_t others_ns);

#endif
