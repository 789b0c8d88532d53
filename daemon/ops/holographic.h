/* holographic: what the holographic operations share: their operands, which are rows that came with
 * the request or rows of collections, and their results, which go into a collection or the reply.
 * Owner:  the operation's scratch.
 * Thread: check, work and plan on the loop; the rest on workers.
 * Errors: in job->failure: INVALID_ARGUMENT naming the operand, row and column; NOT_FOUND for an
 *         unknown id; as an upsert. Nothing is stored then. */
#ifndef ENGRAM_OPS_HOLOGRAPHIC_H
#define ENGRAM_OPS_HOLOGRAPHIC_H

#include "daemon/ops/operation_inside.h"
#include "kernels/hrr.h"
#include "kernels/superpose.h"

enum { HOLOGRAPHIC_OPERANDS_MAX = 2, HOLOGRAPHIC_INTO = 2 /* the place of `into` in the table */ };

/* Operand i is the i-th thing that the operation names, or rows. */
struct operand {
    const char *name; /* "a" */
    const struct tensor *rows, *ids;
    const struct edition *collection; /* of the ids; NULL: rows */
    uint64_t count;
    const float **pointers; /* to its rows, in scratch */
    uint32_t *positions;    /* on a GPU: of its rows in the collection, in scratch */
};

struct holographic;

/* What an operation does with its operands. */
struct holographic_kind {
    uint32_t operands;
    uint32_t first_named; /* its first operand's place in the table */
    bool lists; /* a result is made of a list of a's rows; otherwise of one of each operand */
    bool may_overflow; /* a result without a norm is refused */
    bool checks;       /* make looks for wrong rows itself, with holographic_find_wrong */
    bool transforms;   /* rows are transformed (hrr.h), which sets what they cost */
    uint32_t products; /* otherwise: what a row costs, in products of rows; at least 1 */
    uint32_t beside;   /* and what any row costs besides, in products of numbers */
    /* What a GPU makes of pairs of operands; NULL: it has no kernel of this operation. */
    enum hrr_form (*form)(const struct job_request *r);
    /* Takes what all workers need; may be NULL. Fails as a step of a plan does. */
    enum status (*begin)(struct job *j, struct holographic *w);
    void (*end)(struct holographic *w); /* may be NULL */
    /* Not NULL: results are neither stored nor replied. Makes a plan of what is done with them;
     * they lie in j->plan.before. */
    enum status (*follow)(struct job *j, const float *results, uint64_t count, uint32_t dimension);
    uint64_t (*scratch_bytes)(const struct holographic *w); /* of a worker; a multiple of 64 */
    /* Makes results [first, first + count) at out. Returns how many; fewer: the next one has no
     * result, and called for it alone, with why, says so in the job's failure. */
    uint64_t (*make)(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                     float *out, struct failure *why);
};

struct holographic {
    const struct holographic_kind *kind;
    struct operand operands[HOLOGRAPHIC_OPERANDS_MAX];
    struct job *job;
    const struct job_request *request;
    const struct vector_kernels *kernels;
    const struct superpose_kernels *sums;
    uint32_t dimension;
    uint64_t count;        /* of results */
    uint64_t offsets[2];   /* of the one list, if none are given */
    const uint64_t *lists; /* count + 1 */
    float *out;            /* the results, unpadded */
    uint64_t part_results; /* of a part */
    uint64_t workers, worker_bytes;
    const void *tables; /* private to the kind */
    _Atomic uint64_t bad;
};

/* For result i the rows [*first, *end) of an operand are read. */
void holographic_rows(const struct holographic *w, const struct operand *o, uint64_t i,
                      uint64_t *first, uint64_t *end);

/* Returns the first of an operand's rows [first, end) that is not finite or has no norm, or end.
 * Rows of collections were checked when they came. padded: room for a row. */
uint64_t holographic_find_wrong(const struct holographic *w, const struct operand *o,
                                uint64_t first, uint64_t end, float *padded);

/* Returns row i of an operand; one row stands beside all. */
static inline const float *operand_row(const struct operand *o, uint64_t i)
{
    return o->pointers[o->count == 1 ? 0 : i];
}

/* For the operation's own check, work and plan. */
enum status holographic_check(struct job *j, const struct holographic_kind *kind);
void holographic_work(const struct job *j, const struct holographic_kind *kind, struct work *w);
enum status holographic_plan(struct job *j, const struct holographic_kind *kind);

/* What the CPU and a GPU share. */
uint32_t holographic_dimension(const struct job *j, const struct holographic_kind *kind);
/* What results are stored in; NULL: nothing. */
const struct job_object *holographic_into(const struct job *j, const struct holographic_kind *kind);
/* Fills in all but memory and refuses what contradicts the shapes of collections. */
enum status holographic_begin(struct job *j, const struct holographic_kind *kind,
                              struct holographic *w);
/* Takes the results' memory, if they are replied. *scratch_at: where in scratch they lie
 * otherwise. */
enum status holographic_take_results(struct job *j, const struct holographic *w,
                                     uint64_t *scratch_bytes, uint64_t *scratch_at);
/* Stores the results, if they are to be, and notes what the reply says. */
void holographic_end(struct job *j, const struct holographic *w);

/* ---- holographic_gpu.c: for a GPU process, whose plan keeps a struct holographic first ---- */

/* Ids whose rows are looked up on the loop, at most. */
enum { HOLOGRAPHIC_GPU_SHORT = 512 };

/* Finds an operand's positions, if it is rows of a collection. False: an id is unknown, and the CPU
 * finds out which, or j was cancelled. */
bool holographic_find_positions(const struct job *j, const struct operand *o);
struct order_operand holographic_place(struct job *j, const struct operand *o);
/* Takes memory for results where a GPU process may write. */
enum status holographic_gpu_take_results(struct job *j, struct holographic *w);
/* Begins j's order about a first operand. */
struct order_run *holographic_order(struct job *j, enum run_operation operation);
/* Sets what ends j on a GPU, and says whether it is prepared by a worker. */
void holographic_gpu_ends(struct job *j, const struct holographic *w, bool is_long);

/* Pairs. */

uint64_t holographic_gpu_pairs(const struct job *j, const struct holographic_kind *kind);
enum status holographic_gpu_plan(struct job *j, const struct holographic_kind *kind);

/* Cleanups, whose codebook is what j names first (cleanup_gpu.c). */
uint64_t cleanup_gpu_pairs(const struct job *j, const struct holographic_kind *kind);
enum status cleanup_gpu_plan(struct job *j, const struct holographic_kind *kind);

/* Products of lists (product_gpu.c). */
uint64_t product_gpu_pairs(const struct job *j, const struct holographic_kind *kind);
enum status product_gpu_plan(struct job *j, const struct holographic_kind *kind);

/* Of the operation whose kind is NAME_kind, what both backends share. */
#define HOLOGRAPHIC_CPU(NAME)                                    \
    static enum status NAME##_check(struct job *j)               \
    {                                                            \
        return holographic_check(j, &NAME##_kind);               \
    }                                                            \
    static void NAME##_work(const struct job *j, struct work *w) \
    {                                                            \
        holographic_work(j, &NAME##_kind, w);                    \
    }                                                            \
    static enum status NAME##_plan(struct job *j)                \
    {                                                            \
        return holographic_plan(j, &NAME##_kind);                \
    }

/* The operation, on the CPU alone. */
#define HOLOGRAPHIC_OPERATION(NAME)                 \
    HOLOGRAPHIC_CPU(NAME)                           \
    const struct operation_ops operation_##NAME = { \
        .check = NAME##_check, .work = NAME##_work, .plan = NAME##_plan};

/* The operation on pairs, on both. */
#define HOLOGRAPHIC_PAIRS(NAME)                           \
    HOLOGRAPHIC_CPU(NAME)                                 \
    static uint64_t NAME##_gpu_pairs(const struct job *j) \
    {                                                     \
        return holographic_gpu_pairs(j, &NAME##_kind);    \
    }                                                     \
    static enum status NAME##_gpu_plan(struct job *j)     \
    {                                                     \
        return holographic_gpu_plan(j, &NAME##_kind);     \
    }                                                     \
    const struct operation_ops operation_##NAME = {       \
        .check = NAME##_check,                            \
        .work = NAME##_work,                              \
        .plan = NAME##_plan,                              \
        .gpu_plan = NAME##_gpu_plan,                      \
        .gpu_pairs = NAME##_gpu_pairs,                    \
    };

#endif
