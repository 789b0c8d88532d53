/* fair: weighted deficit round-robin between the flows of one server, in predicted nanoseconds. A
 * flow whose deficit is not negative may be served, and its work is subtracted, even below zero.
 * When no flow may be served, all are granted as many rounds as the next one needs, in one step of
 * arithmetic. A round grants one nanosecond for each unit of weight: with larger rounds, a flow
 * with little work would lose part of its grant to flows that always have work. A flow that waits
 * so that others can join its batch saves what it is granted, up to the quantum.
 * Owner:  the server.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_FAIR_H
#define ENGRAM_SCHED_FAIR_H

#include "daemon/sched/scheduler_state.h"

/* Adds f, which now has tickets, at the end of the round-robin. A flow that left in debt still has
 * that debt, less what it would have been granted since. */
void fair_join(struct server *sv, struct flow *f, uint64_t now_ns);
/* Removes f, which has no tickets any more. A debt stays, savings are lost. */
void fair_leave(struct server *sv, struct flow *f);

/* Chooses the flow to serve next among those with a ready ticket; *aged: it was chosen because it
 * was not served for age_ns. NULL: none is ready. */
struct flow *fair_choose(struct server *sv, const struct scheduler_settings *settings,
                         uint64_t now_ns, bool *aged);
/* As fair_choose, for a ticket that passes others: only a flow with no more debt than any other
 * that uses the server, queued or in flight. */
struct flow *fair_choose_now(struct server *sv, const struct scheduler_settings *settings);

/* Charges f, in the round-robin or not, for work of this length. Debts older than age_ns are
 * forgiven, because aging would serve the flow anyway. */
void fair_charge(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t age_ns,
                 uint64_t now_ns);
/* Corrects a charge by the time that the work really took, within limits. */
void fair_correct(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t took_ns,
                  uint64_t quantum_ns);

/* Returns f's present deficit on the server, whether it is in the round-robin or not. */
int64_t fair_deficit_ns(const struct server *sv, const struct flow *f);
/* Grants rounds until f is out of debt. */
void fair_grant(struct server *sv, const struct flow *f);

/* Predicts how much of the queued work runs before a ticket of this charge with own_ns of its own
 * flow before it: by shares, and at most all of it. */
uint64_t fair_ahead_ns(const struct server *sv, const struct flow *f, uint64_t own_ns,
                       uint64_t charge_ns);

#endif
