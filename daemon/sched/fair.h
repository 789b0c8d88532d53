/* fair: who is served next by a server: deficit round-robin (round.h) between principals first,
 * then between the flows of the chosen one, so that nobody gains by inventing spaces. A principal
 * weighs as much as the heaviest of its spaces that have work. A flow that waits so that others can
 * join its batch saves what it is granted, up to the quantum.
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

/* Return the first flow in the round-robin, and the one behind f; NULL: none. */
struct flow *fair_first(const struct server *sv);
struct flow *fair_next(const struct server *sv, const struct flow *f);

/* Chooses the flow to serve next among those with a ready ticket; *aged: it was chosen because it,
 * or its principal, was not served for age_ns. NULL: none is ready. */
struct flow *fair_choose(struct server *sv, const struct scheduler_settings *settings,
                         uint64_t now_ns, bool *aged);
/* As fair_choose, for a ticket that passes others: only a flow whose principal has no more debt
 * than any other that uses the server, queued or in flight, and which itself has no more than the
 * principal's others. */
struct flow *fair_choose_now(struct server *sv, const struct scheduler_settings *settings);

/* Charges f, in the round-robin or not, for work of this length. Debts older than age_ns are
 * forgiven, because aging would serve the flow anyway. */
void fair_charge(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t age_ns,
                 uint64_t now_ns);
/* Corrects a charge by the time that the work really took, within limits. */
void fair_correct(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t took_ns,
                  uint64_t quantum_ns);

/* Returns the present deficit of f's principal on the server. */
int64_t fair_deficit_ns(const struct server *sv, const struct flow *f);
/* True if a was served less than b: its principal, or between flows of one principal the flow. */
bool fair_owes_less(const struct server *sv, const struct flow *a, const struct flow *b);
/* Grants rounds until f and its principal are out of debt. */
void fair_grant(struct server *sv, const struct flow *f);

/* Predicts how much of the queued work runs before a ticket of this charge with own_ns of its own
 * flow before it: by shares, and at most all of it. */
uint64_t fair_ahead_ns(const struct server *sv, const struct flow *f, uint64_t own_ns,
                       uint64_t charge_ns);

#endif
