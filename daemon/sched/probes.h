/* probes: now and then a job runs on the backend that was not chosen, so that the model learns how
 * long it takes there. Probes get a bounded share of the jobs and of the time, and come sooner
 * after a surprise.
 * Owner:  the scheduler.
 * Thread: the loop. Time is what jobs took: nothing here reads a clock.
 * Errors: none. */
#ifndef ENGRAM_SCHED_PROBES_H
#define ENGRAM_SCHED_PROBES_H

#include "daemon/sched/cost.h"

struct probes {
    double share; /* of the time that probes may take: 0.02; 0: no probes */
    struct probe_line {
        uint64_t decided;          /* open decisions so far (struct pick) */
        uint64_t last_at, next_at; /* `decided` at the last probe, and the least for the next */
        uint64_t interval;   /* between probes, in decisions; doubles while nothing surprises */
        uint64_t tried;      /* a bit for each octave of chosen_ns: these sizes were probed */
        double saved_ns[64]; /* time that may be spent on probes, by octave of chosen_ns */
        double staked_ns;    /* time that the last probe was expected to cost, */
        uint32_t staked;     /* and the octave that paid for it */
        uint32_t surprises;  /* in a row, all in the same direction */
        bool slower;         /* the direction of these surprises */
        bool answered;       /* the last probe has ended */
        bool lost;           /* it became slower, and may recover: */
        uint32_t hurried;    /* how many probes are still paid for sooner */
        double slid;         /* logarithm of how much slower than predicted, over runs in a row */
        uint64_t probes, surprising; /* counters */
    } lines[2][COST_OPERATIONS];     /* by the backend that is probed: [0] CPU, [1] GPU */
};

void probes_init(struct probes *p, double share);

/* Called for an open decision for one backend, predicted to take chosen_ns where `other` would
 * take other_ns. True: send the job to `other` as a probe. At most one job in sixteen is probed,
 * fewer while nothing surprises. The expected cost must have been saved before: from the share, or
 * from ten times as much for the first few probes after a backend became slower; and by work of the
 * same size: what long requests save does not pay for short ones that take 20 times as long. Where
 * `other` should take more than 8 times as long and nothing surprises, the share is smaller by as
 * much as it is slower than that. A backend that should be faster (but has failed, or is not
 * trusted yet) is tried one time in eight while probes succeed. */
bool probes_due(struct probes *p, enum backend_id other, uint32_t operation, uint64_t chosen_ns,
                uint64_t other_ns);

/* Reports what a run took against its prediction: of probes, and of other runs, so that a backend
 * that has become slow is probed again soon. Runs that failed are not reported. */
void probes_saw(struct probes *p, enum backend_id b, uint32_t operation, uint64_t predicted_ns,
                uint64_t seen_ns, bool probe);

#endif
