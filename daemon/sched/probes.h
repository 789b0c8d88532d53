/* probes: now and then a job takes the road that was not chosen, so that the model learns what it
 * would find there: a bounded share of the jobs and of the time, and sooner after a surprise.
 * Owner:  the scheduler.
 * Thread: the loop. Time is what jobs took: nothing here knows the clock.
 * Errors: none. */
#ifndef ENGRAM_SCHED_PROBES_H
#define ENGRAM_SCHED_PROBES_H

#include "daemon/sched/cost.h"

struct probes {
    double share; /* of the time that may go to probes: 0.02; 0: none, ever */
    struct probe_line {
        uint64_t decided;            /* open decisions so far */
        uint64_t last_at, next_at;   /* decided at the last probe; not before decided is this */
        uint64_t interval;           /* then so many later; doubles while nothing surprises */
        uint64_t tried;              /* octaves of chosen_ns, a bit each: others' turn first */
        double saved_ns;             /* what may be spent */
        double staked_ns;            /* what the last probe was to cost */
        uint32_t surprises;          /* in a row, all one way */
        bool slower;                 /* that way */
        bool answered;               /* the last probe was seen again */
        bool lost;                   /* it became slower, and may become again what it was: */
        uint32_t hurried;            /* so many probes more are paid for sooner */
        double slid;                 /* ln: how much slower than predicted, run after run */
        uint64_t probes, surprising; /* counted */
    } lines[2][COST_OPERATIONS];     /* by the road that is probed: [0] CPU, [1] GPU */
};

void probes_init(struct probes *p, double share);

/* An open decision for one backend, predicted to take chosen_ns where the other takes other_ns.
 * True: send it there instead. One in sixteen at most, ever fewer while nothing surprises; what it
 * is to cost must have been saved: out of the share, or, the first few times after the road became
 * slower, out of ten times as much. What should gain time (a backend barred for its failures, or not
 * yet trusted) is tried one time in eight while probes come back. */
bool probes_due(struct probes *p, enum backend_id other, uint32_t operation, uint64_t chosen_ns,
                uint64_t other_ns);

/* What a run took against its prediction: of probes, and of runs on the road that was chosen, so
 * that one that has become slow is looked at again soon. Not of runs that failed. */
void probes_saw(struct probes *p, enum backend_id b, uint32_t operation, uint64_t predicted_ns,
                uint64_t seen_ns, bool probe);

#endif
