/* op_spread_inside: what a spread keeps in its scratch, and the steps that are the same for every
 * backend: what is asked (spread_ask.h) before, and the reply of the sets' records after.
 * Owner:  exec.
 * Thread: spread_begin the loop; steps on a worker, alone.
 * Errors: in job->failure.
 *
 * A backend's steps: spread_begin in its plan, spread_prepare, records into sets[i] by
 * spread_answer_set, which the arenas are for, then spread_reply; or spread_end at once. */
#ifndef ENGRAM_OPS_SPREAD_INSIDE_H
#define ENGRAM_OPS_SPREAD_INSIDE_H

#include <pthread.h>

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/spread_answer.h"

struct spread_job {
    struct spread_ask ask;
    struct spread_set *sets;
    struct arena *keep, *work;    /* one each a worker */
    void *more;                   /* the backend's own */
    void (*after)(struct job *j); /* the step that follows when the reply stands */
    bool prepared;                /* what follows is there */
    bool again;                   /* sets that found no memory are run once more */
    _Atomic int refused;          /* enum status, why there was none */
    _Atomic uint64_t entries;     /* of the reply, so far */

    /* Of one set, several workers at it: */
    bool rounds;
    struct spread_run run;
    uint32_t round_parts;
    pthread_mutex_t lock; /* of its work arena */

    /* Of several: */
    uint64_t part_sets; /* that a part takes at a time */
    bool lanes;         /* and then some more */
    bool undone_alone;  /* of these, those that are undone */
    _Atomic uint64_t next_set;
};

static inline struct spread_job *spread_of(const struct job *j)
{
    return j->plan.scratch.data;
}

/* Scratch, with everything laid out, and `more` bytes for the backend. */
enum status spread_begin(struct job *j, uint64_t more);
/* What is asked. */
enum status spread_prepare(struct job *j);

/* All sets have their records: the reply is made, by all workers, and j goes on with the step that
 * stood in j->step when the backend's first step took over (w->after). */
void spread_reply(struct job *j);
/* Sets that are undone are run on the CPU, by all workers; then j->step. Those that find no memory, or
 * make the reply too large, are undone still. */
void spread_run_undone(struct job *j);
bool spread_any_undone(const struct spread_job *w);
/* Memory goes; of what failed or was cancelled, the result too. On with w->after. */
void spread_end(struct job *j);

/* ---- op_spread_gpu.c ---- */

uint64_t spread_gpu_pairs(const struct job *j);
enum status spread_gpu_plan(struct job *j);

/* After decoding (spread_check.c). */
enum status spread_check(struct job *j);

/* What j asks for (spread_work.c). */
void spread_work(const struct job *j, struct work *w);

#endif
