/* complete_inside: the state of a pattern completion by the modern rule, and what is known of it
 * before it runs: checks, work in numbers, memory.
 * Owner:  a job's scratch.
 * Thread: check, work, layout: the loop; the rest: workers, as a plan says.
 * Errors: INVALID_ARGUMENT: BAD_SHAPE, BAD_DIMENSION, BAD_BETA, BAD_ROUNDS;
 *         FAILED_PRECONDITION/NO_ROWS. */
#ifndef ENGRAM_OPS_COMPLETE_INSIDE_H
#define ENGRAM_OPS_COMPLETE_INSIDE_H

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/queries.h"
#include "kernels/complete.h"

/* Cues that are checked before others may run. */
enum { COMPLETE_CHECKED = 64 };

enum complete_stage { COMPLETE_SCORES, COMPLETE_SUMS, COMPLETE_STATES };

/* The row with the largest score, of several the one with the smallest id. */
struct complete_best {
    uint64_t id;
    float score;
    uint32_t row;
    bool found;
};

struct complete_job {
    const struct vector_kernels *vectors;
    const struct complete_kernels *kernels;
    const struct edition *collection;
    uint32_t dimension;
    size_t stride;
    uint64_t states, rows, blocks;
    float beta;
    bool unit;
    uint64_t part_rows; /* a multiple of COMPLETE_BLOCK */

    enum complete_stage stage;
    bool first_round; /* of the job */
    float largest_norm;
    uint64_t group_first;
    uint32_t group_states, group_count; /* at most, and of this group */
    uint32_t active_count;              /* of this group's states, those that go on */
    struct query_pack pack;

    /* places in scratch, by state if nothing else is said */
    uint32_t *active;            /* which states of the group those are */
    bool *done;                  /* by active state, like all that follow */
    float *lined;                /* states, padded */
    void *packed;                /* the same, for `tile` */
    struct complete_best *best;  /* in this round */
    struct complete_best *bests; /* worker x group_states */
    float *norms;                /* worker: the largest that it saw */
    float *moved;                /* worker x stride */
    void *checked;               /* of COMPLETE_CHECKED cues: memory for their norms */
    float *masked; /* and those cues themselves, unknown numbers as 0; if there is a mask */
    float *scores; /* scores_stride apart */
    size_t scores_stride;
    double *totals; /* x blocks */
    float *sums;    /* x blocks x stride */
};

static inline struct complete_job *complete_of(struct job *j)
{
    return j->plan.scratch.data;
}

/* ---- complete_gpu.c ---- */

enum status complete_gpu_plan(struct job *j);
uint64_t complete_gpu_pairs(const struct job *j);

/* ---- complete_shapes.c ---- */

enum status complete_check_request(struct job *j);
void complete_work(const struct job *j, struct work *w);

/* What the request and its collection say; sets what does not change. */
enum status complete_check(struct job *j, struct complete_job *w);
void complete_shape(struct job *j, const struct complete_job *w);
/* Cuts states into groups and rows into parts. Returns the bytes of scratch; complete_place then
 * sets the places in it. */
uint64_t complete_layout(const struct job *j, struct complete_job *w);
void complete_place(struct job *j);

#endif
