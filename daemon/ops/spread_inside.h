/* spread_inside: what a spread keeps in its scratch, and the steps that are the same for every
 * backend: before the run its parameters (spread_ask.h), after it the reply from the sets'
 * records.
 * Owner:  the operation.
 * Thread: spread_begin: the loop; steps: on a worker, alone.
 * Errors: in job->failure.
 *
 * A backend calls spread_begin in its plan, then spread_prepare, fills sets[i] from records with
 * spread_answer_set, which needs the arenas, and then calls spread_reply, or spread_end at once. */
#ifndef ENGRAM_OPS_SPREAD_INSIDE_H
#define ENGRAM_OPS_SPREAD_INSIDE_H

#include <pthread.h>

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/spread_answer.h"

/* What is done with a set's records, and with all sets at the end, where that is not a reply to a
 * spread. */
struct spread_answerer {
    /* As spread_answer_set; NULL: that. */
    bool (*set)(void *owner, const struct spread_ask *a, uint64_t set,
                const struct spread_record *records, uint64_t count, struct arena *keep,
                struct arena *work, struct spread_set *out);
    /* A step that makes the reply and goes on with spread_end. Sets that found no memory are
     * undone. NULL: spread_reply, and such sets are an error. */
    void (*reply)(struct job *j);
    void *owner;
};

struct spread_job {
    struct spread_ask ask;
    struct spread_set *sets;
    struct arena *keep, *work; /* one for each worker */
    void *more;                /* private to the backend */
    struct spread_answerer answerer;
    void (*after)(struct job *j); /* the step that follows the reply */
    uint64_t edges_expected;      /* that it will follow, of all sets */
    bool prepared;                /* the members below are set */
    bool again;                   /* sets that found no memory are run once more */
    _Atomic int refused;          /* enum status: why there was no memory */
    _Atomic uint64_t entries;     /* entries of the reply so far */

    /* For one set, run by several workers: */
    bool rounds;
    struct spread_run run;
    uint32_t round_parts;
    _Atomic uint32_t cleared; /* parts of the present step of clearing that are done */
    pthread_mutex_t lock;     /* guards its work arena */

    /* For several sets: */
    uint64_t part_sets; /* how many a part takes at a time */
    bool lanes;         /* a part takes more of them when it is done */
    bool undone_alone;  /* only undone sets are run */
    uint64_t edges;     /* on trial: that it followed */
    _Atomic uint64_t next_set;
};

static inline struct spread_job *spread_of(const struct job *j)
{
    return j->plan.scratch.data;
}

/* Takes scratch and lays out everything in it, with `more` bytes for the backend. */
enum status spread_begin(struct job *j, uint64_t more);
/* In the place of spread_begin and spread_prepare, where there was no memory for them: all sets are
 * undone, and there is what spread_answer_set needs. The answerer's reply may follow. On a
 * worker. */
enum status spread_begin_undone(struct job *j, uint64_t sets);
/* Prepares the parameters. */
enum status spread_prepare(struct job *j);

/* Makes the reply from the sets' records, on all workers; j then goes on with w->after, which is
 * the step that was in j->step when the backend's first step began. */
void spread_reply(struct job *j);
/* Runs undone sets on the CPU, on all workers; then j->step. Sets that find no memory, or make the
 * reply too large, remain undone. */
void spread_run_undone(struct job *j);
bool spread_any_undone(const struct spread_job *w);
/* Frees the memory and, if the job failed or was cancelled, the result. Goes on with w->after. */
void spread_end(struct job *j);

/* ---- spread_gpu.c ---- */

uint64_t spread_gpu_pairs(const struct job *j);
enum status spread_gpu_plan(struct job *j);
/* What an order says of a spread by a prepared ask, without seeds, sets and results. */
struct order_spread spread_gpu_rule(struct job *j, const struct spread_ask *a);

/* Checks a decoded request (spread_check.c); spread_check_rule: only the parameters and the node
 * set. */
enum status spread_check(struct job *j);
enum status spread_check_rule(struct job *j);

/* What j asks for (spread_work.c). */
void spread_work(const struct job *j, struct work *w);
/* Sets what w says of a spread by j's parameters, of that many seeds in that many sets: the
 * operation, queries, rows, pairs, stride and whether it is unbounded. */
void spread_estimate(const struct job *j, uint64_t sets, uint64_t seeds, struct work *w);
/* Edges that a spread may follow on the loop: some 20 us, seldom 40. */
uint64_t spread_brief_edges(const struct job *j);

#endif
