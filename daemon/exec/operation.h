/* operation: the contract between an operation (one file in ops/) and the code that runs it, and
 * what all operations do with a job: taking memory and results, reporting failures.
 * Owner:  exec; ops/ defines an operation_ops for each operation, to which its jobs point.
 * Thread: check, work, batches, splits, plan and gpu_plan run on the loop; parts and finish on
 *         workers. A layout belongs to one plan.
 * Errors: in job->failure. plan: INVALID_ARGUMENT for what contradicts the collection's shape,
 *         RESOURCE_EXHAUSTED for scratch or a reply beyond its limit.
 *
 * A plan must not do work that grows with rows: it takes memory and sets numbers. If it fails,
 * scratch and result block have been freed.
 *
 * The same holds for gpu_plan, which fills in job->gpu; see base/job.h. The CPU may plan the same
 * job again afterwards, so gpu_plan does not change the request. */
#ifndef ENGRAM_EXEC_OPERATION_H
#define ENGRAM_EXEC_OPERATION_H

#include "daemon/base/job.h"

struct operation_ops {
    /* Checks a decoded request: refuses what the request alone proves wrong, and sets defaults.
     * May be NULL. Operations that the loop answers have only this function. */
    enum status (*check)(struct job *j);
    /* Adds to *w what j asks for, by its shapes alone, and what its reply will hold; operation,
     * stride, filter and bytes_in are set before. May be NULL. */
    void (*work)(const struct job *j, struct work *w);
    /* Whether several such jobs may run as one, and whether j may be cut into ranges of its
     * queries (JOINED in the table); j is not itself a part. NULL: never. */
    bool (*batches)(const struct job *j);
    /* What such jobs run as, and which of them may: those with the same key; NULL: those on the
     * same collection. A key may be a hash, if the carrier leaves out what differs. */
    enum operation carrier;
    const void *(*batch_key)(const struct job *j);
    bool batches_on_cards; /* never on the CPU */
    bool (*splits)(const struct job *j);
    /* Whether j, whose numbers cannot tell, may turn out short enough for the loop: it is run there
     * with j->on_trial. NULL: never. */
    bool (*may_be_brief)(const struct job *j);
    enum status (*plan)(struct job *j);
    /* For the GPU process; both NULL: it cannot run this operation. */
    enum status (*gpu_plan)(struct job *j);
    /* How many pairs of rows j asks for; 0: in this form, only the CPU can run it. j holds the
     * turnstiles of what it names. */
    uint64_t (*gpu_pairs)(const struct job *j);
};

/* Returns 0 if the GPU process cannot run it. */
static inline uint64_t operation_gpu_pairs(const struct job *j)
{
    return j->ops && j->ops->gpu_pairs ? j->ops->gpu_pairs(j) : 0;
}

/* Returns the VRAM for the rows that come with j: padded, and a norm for each; 0: none do. */
uint64_t operation_rows_bytes(const struct job *j);

/* Adds an array to a scratch block that is taken once the sizes of all arrays are known. */
static inline uint64_t layout_add(uint64_t *bytes, uint64_t wanted)
{
    uint64_t at = *bytes;
    *bytes = at + (wanted + 63) / 64 * 64;
    return at;
}

static inline bool is_cancelled(const struct job *j)
{
    return atomic_load_explicit(&j->cancelled, memory_order_relaxed);
}

/* Takes a result block for count tensors whose dtype, rows and columns are set; sets data and
 * body_bytes, and zeroes the gaps between the tensors. Unless the CPU alone runs j, a GPU process
 * may write there at any time. A part (exec/parts.h) gets its lines of the
 * whole's block instead. RESOURCE_EXHAUSTED: REPLY_TOO_LARGE, MEMORY. */
enum status operation_take_result(struct job *j, uint32_t count);

/* Take scratch (64-byte aligned, uninitialised). RESOURCE_EXHAUSTED/MEMORY. A plan for a GPU takes
 * what it keeps for itself with operation_take_own, in plan.scratch, and what its order names with
 * operation_take_exchange, in plan.exchange, where the GPU process may write at any time: nothing
 * that lies there is followed. operation_take_scratch: in plan.scratch, for a GPU of the
 * exchange. */
enum status operation_take_scratch(struct job *j, uint64_t bytes);
enum status operation_take_own(struct job *j, uint64_t bytes);
enum status operation_take_exchange(struct job *j, uint64_t bytes);
/* Takes it out of the plan, for j->kept, which is given back. */
struct heap_block operation_keep_exchange(struct job *j);
/* Gives back what a plan has, and what the one before it had. */
void operation_give_scratch(struct job *j);

/* Notes the collection's version and row count for the reply. */
void operation_note_collection(struct job *j);

/* Returns the owner of the memory that j takes, as the heap counts it. */
uint32_t operation_owner(const struct job *j);
/* Refuses j because the heap could not give (st) memory beside scratch and result; a retry may
 * succeed. Returns j->failure.code. */
enum status operation_refuse_memory(struct job *j, enum status st, const char *what);

/* Frees the result block, which a failed job does not have. Returns j->failure.code. */
enum status operation_drop_result(struct job *j);
/* For plans: frees scratch, too. */
enum status operation_drop_all(struct job *j);

/* INVALID_ARGUMENT for a row of dimension floats whose norm is not finite: NOT_FINITE naming the
 * column, or NORM_OVERFLOW. */
enum status operation_refuse_row(struct job *j, const char *what, uint64_t index, const float *row,
                                 uint32_t dimension);
/* The same for a row of which only some numbers count: known is operation_mask's. */
enum status operation_refuse_known(struct job *j, const char *what, uint64_t index,
                                   const float *row, const uint8_t *known, uint32_t dimension);
/* Returns a byte for each number of cue `line`, not 0 where it is known; NULL: there is no mask. */
const uint8_t *operation_mask(const struct job *j, uint64_t line);

#endif
