/* cluster_inside: the state of a clustering (kernels/cluster.h), which runs in stages: each is a
 * plan of parts, and its end makes the next.
 * Owner:  the job's scratch.
 * Thread: check, work, plan: the loop; prepare, the end of a stage: one worker; parts: any.
 * Errors: in job->failure: INVALID_ARGUMENT: BAD_RULE, BAD_THRESHOLD, BAD_SIZE, BAD_TIMES,
 *         BAD_SHAPE, BAD_NAME, BAD_DIMENSION, NOT_FINITE, NORM_OVERFLOW; NOT_FOUND/UNKNOWN_ID;
 *         FAILED_PRECONDITION/NO_ROWS; RESOURCE_EXHAUSTED/TOO_MANY_ROWS; as an upsert. */
#ifndef ENGRAM_OPS_CLUSTER_INSIDE_H
#define ENGRAM_OPS_CLUSTER_INSIDE_H

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/radix.h"
#include "kernels/cluster.h"
#include "kernels/cluster_near.h"

enum cluster_rule { CLUSTER_CENTROID = 1, CLUSTER_AVERAGE = 2 };
enum {
    CLUSTER_INTO = 1,      /* the place of `into` in the table */
    CLUSTER_BLOCK = 256,   /* rows that are scored at once, at most */
    CLUSTER_GROUP = 32,    /* rows that are scored against a block together */
    CLUSTER_TOGETHER = 16, /* members that are scored against their centroid at once */
    CLUSTER_MEMBERS = 64,  /* members of a part of the last stages */
    CLUSTER_COLUMNS = 64,  /* columns of a part of a mean */
};
#define CLUSTER_NO_ROW UINT32_MAX

/* How many rows of a dimension are scored against a group in one piece, so that it is short. */
static inline uint32_t cluster_block_rows(uint32_t dimension)
{
    const uint32_t products = 1 << 23;
    uint32_t rows = products / (CLUSTER_GROUP * (uint32_t)vector_stride(dimension));
    return rows > CLUSTER_BLOCK ? CLUSTER_BLOCK : rows < 16 ? 16 : rows;
}

struct cluster_job;

/* Rule average: of id i, among ids below it. */
struct cluster_nearest {
    uint32_t id;
    bool stale; /* it is gone, the value is a bound, and the id 0 */
};

/* The end of a stage: leaves the next in j->plan, or the results. False: there is none. */
typedef bool cluster_stage(struct job *j, struct cluster_job *w);

/* Arrays by slot, which live clusters fill without gaps; the last one moves into a gap. */
struct cluster_slots {
    uint32_t count;
    uint32_t *ids, *at; /* at: by id, the slot */
    float *norms;
    struct cluster_best *best;
};

struct cluster_scan {
    uint32_t slot;      /* whose nearest are looked for; its list is cleared before */
    bool merged;        /* it is new: it is offered to all others */
    uint32_t low, high; /* the ids that it was made of */
    uint64_t part_slots;
};

/* Merges that a card has found. */
struct cluster_known {
    const struct order_merge *merges; /* where a GPU process can write; NULL: none are known */
    uint32_t count, first, scans;     /* first: as order_cluster.first_merges */
    bool ended;                       /* there are no more */
};

struct cluster_job {
    const struct vector_kernels *vectors;
    const struct cluster_kernels *kernels;
    const struct edition *collection; /* NULL: rows came with the request */
    enum cluster_rule rule;
    uint32_t dimension, rows;
    size_t stride;
    float threshold, threshold_second, score_min;
    uint32_t size_min;
    uint64_t best;
    const float *times; /* NULL: none */
    cluster_stage *stage;
    _Atomic uint64_t bad;

    uint32_t merges, scans;
    bool second; /* the second pass */
    bool on_card;
    struct cluster_known known;
    struct cluster_slots slots;
    struct cluster_scan scan;
    uint32_t placed; /* members of clusters that are large enough */
    uint32_t kept;   /* clusters in the reply */

    /* places in scratch; by row or id if nothing else is said */
    const float **sources;  /* the raw rows, of any alignment */
    uint32_t *positions;    /* of those in the collection; NULL: no card needs them */
    _Atomic uint32_t *stop; /* a card's */
    float *padded;          /* x stride: rows; rule centroid: centroids, by slot */
    float *row_norms;
    uint32_t *births;
    uint32_t *next, *sizes; /* members in input order: the id, then next of each; NO_ROW ends */
    uint32_t *order;        /* members, cluster after cluster */
    uint32_t *owners;       /* the id of each of those */
    uint32_t *places;       /* where a cluster's members begin in order */
    float *cosines;         /* by place in order */
    float *scores;          /* average, while it merges: of the nearest; then of the cluster */
    const float **members;  /* of the cluster that is being made */
    float *sums;            /* x dimension, of its centroid */
    double *corrections;
    uint64_t *ids;                   /* of a whole collection */
    struct radix_item *items, *room; /* to sort by; items: known merges, low << 32 | high */
    struct radix_item *ranks;        /* of those, clusters in the reply's order */

    /* rule centroid */
    struct cluster_near *near;
    struct cluster_near *nears; /* by part of a scan */
    struct cluster_best *bests;
    uint64_t parts_max;

    /* rule average: by pair i > j, i (i - 1) / 2 + j */
    float *means;
    uint64_t *lows;
    uint16_t *highs;
    uint64_t *units; /* coherence: by place in order, of pairs with those before it */
    struct cluster_nearest *nearest;

    char *workers; /* of each worker, worker_bytes */
    uint64_t worker_bytes;
};

static inline struct cluster_job *cluster_of(const struct job *j)
{
    return j->plan.scratch.data;
}

static inline float *cluster_row(const struct cluster_job *w, uint64_t slot)
{
    return w->padded + slot * w->stride;
}

static inline uint64_t cluster_pair_at(uint32_t i, uint32_t j)
{
    return (uint64_t)i * (i - 1) / 2 + j;
}

/* Makes the next stage of parts. */
static inline bool cluster_go(struct job *j, struct cluster_job *w,
                              void (*run)(struct job *, uint32_t, uint32_t), uint64_t parts,
                              cluster_stage *then)
{
    j->plan.run_part = run;
    j->plan.parts = (uint32_t)parts;
    w->stage = then;
    return true;
}

/* Of a worker: rows of a group, packed; their scores against a block; positions. */
struct cluster_room {
    void *packed;
    float *scores;
    uint32_t *positions;
    float *padded; /* CLUSTER_TOGETHER rows */
    float *sums;   /* x dimension */
    double *corrections;
};
struct cluster_room cluster_room(const struct cluster_job *w, uint32_t worker);

/* Puts the members of `high` among those of `low`. */
void cluster_link(struct cluster_job *w, uint32_t low, uint32_t high);

/* ---- cluster_shapes.c ---- */

enum status cluster_check(struct job *j);
void cluster_work(const struct job *j, struct work *w);
/* What request and collection say. */
enum status cluster_begin(struct job *j, struct cluster_job *w);
/* Returns the bytes of scratch; cluster_place then sets the places in it. */
uint64_t cluster_layout(const struct job *j, struct cluster_job *w);
void cluster_place(struct job *j);

/* ---- cluster_rows.c ---- */

/* Finds the rows, in input order. */
enum status cluster_find(struct job *j, struct cluster_job *w);
/* Each row is a cluster of its own. */
void cluster_reset(struct cluster_job *w);
/* Copies and checks them. */
void cluster_copy_part(struct job *j, uint32_t part, uint32_t worker);
uint64_t cluster_copy_parts(const struct cluster_job *w);
enum status cluster_refuse(struct job *j, const struct cluster_job *w);

/* ---- the rules: their first stages after the copies; then cluster_score ---- */

/* All against all, then merges: of clusters in slots. */
cluster_stage cluster_begin_pass;
cluster_stage cluster_centroid;
cluster_stage cluster_average;

/* ---- cluster_resume.c ---- */

/* Notes what merges a card left in a block. False: that contradicts itself. */
bool cluster_know(struct cluster_job *w, const struct heap_block *block);
/* The first stage after the copies if merges are known. On a card's way back, what makes no sense
 * makes the job unfit. */
cluster_stage cluster_resume;

/* ---- cluster_gpu.c ---- */

enum status cluster_gpu_plan(struct job *j);
uint64_t cluster_gpu_pairs(const struct job *j);

/* ---- cluster.c ---- */

/* The end of a stage of parts. */
void cluster_end_stage(struct job *j);
/* The end of the copies. */
cluster_stage cluster_copied;

/* ---- cluster_reply.c ---- */

cluster_stage cluster_score;

#endif
