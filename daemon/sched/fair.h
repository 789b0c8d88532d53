/* fair: weighted deficit round-robin between the flows of one server, in predicted nanoseconds.
 * A flow whose deficit is not negative may be served; what is served is taken from it, though that
 * leaves less than nothing; when nobody may, all are granted as many rounds as the next one lacks,
 * in one step of arithmetic. A round is a nanosecond for each unit of weight: larger ones would be
 * lost on who has less in line than his turn is worth, and won by who always has something. What
 * waits for company saves what it is granted, up to the quantum.
 * Owner:  the server.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_FAIR_H
#define ENGRAM_SCHED_FAIR_H

#include "daemon/sched/scheduler.h"

/* f, which has something in line now, joins the round at its end. A flow that left in debt still
 * has it, less what it would have been granted since. */
void fair_join(struct server *sv, struct flow *f, uint64_t now_ns);
/* f has nothing in line any more. Debts stay, savings do not. */
void fair_leave(struct server *sv, struct flow *f);

/* Which flow is served next, of those in the round with something ready; *aged: because it was not
 * served for age_ns. NULL: none is ready. */
struct flow *fair_choose(struct server *sv, const struct scheduler_settings *settings,
                         uint64_t now_ns, bool *aged);
/* The same for who would pass others: only who owes no more than anyone else that uses the server,
 * in line or in flight. */
struct flow *fair_choose_now(struct server *sv, const struct scheduler_settings *settings);

/* f, in the round or not, got work of that length. Debts older than age_ns are forgiven: aging
 * would serve it all the same. */
void fair_charge(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t age_ns,
                 uint64_t now_ns);
/* It took less or more than it was charged for; what it took counts within bounds. */
void fair_correct(struct server *sv, struct flow *f, uint64_t charge_ns, uint64_t took_ns,
                  uint64_t quantum_ns);

/* f's deficit on the server, in the round or not, as of now. */
int64_t fair_deficit_ns(const struct server *sv, const struct flow *f);
/* Grants rounds until f is out of debt. */
void fair_grant(struct server *sv, const struct flow *f);

/* Of the work in line, what is predicted to run before a ticket of that charge which stands behind
 * own_ns of its own flow: by shares, at most all there is. */
uint64_t fair_ahead_ns(const struct server *sv, const struct flow *f, uint64_t own_ns,
                       uint64_t charge_ns);

#endif
