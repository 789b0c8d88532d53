/* recall_inside: what the stages of a recall share: the cues and their nearest rows
 * (recall_seeds.c), the seeds, from which ops/spread.c spreads, and what is recalled
 * (recall_rank.c, recall_reply.c).
 * Owner:  the operation; it lies in the scratch of the first plan, which stays until the end.
 * Thread: as each function says.
 * Errors: in job->failure. */
#ifndef ENGRAM_OPS_RECALL_INSIDE_H
#define ENGRAM_OPS_RECALL_INSIDE_H

#include "daemon/ops/knn_inside.h"
#include "daemon/ops/radix.h"
#include "daemon/ops/spread_inside.h"
#include "kernels/recall.h"

enum { RECALL_ROWS = 2 /* the collection's place in the table */ };

/* What is recalled for a list of cues, beside what its spread_set says; as many as are kept, in
 * their order, in the spread's arenas. */
struct recall_list {
    const uint64_t *ids;
    const uint8_t *marks;
    uint32_t spread; /* seeds that are nodes */
};

struct recall {
    const struct job_request *request;
    const struct edition *rows;
    const struct vector_kernels *kernels;
    struct knn_search search;
    struct knn_owner owner;

    uint64_t cue_count, list_count;
    const float *cues;            /* unpadded */
    const uint64_t *cue_ids;      /* NULL: the cues came with the request */
    float *fetched;               /* the rows of cue_ids */
    const uint64_t *list_offsets; /* list_count + 1; NULL: each cue is a list */

    /* The nearest rows: owner.k places for each cue. */
    uint64_t *hit_ids;
    float *hit_scores;
    uint32_t *hit_counts;

    /* The seeds, list by list. */
    uint64_t *seed_offsets; /* list_count + 1 */
    uint64_t *seed_ids;
    float *seed_activations;
    uint32_t *seed_nodes; /* SPREAD_NO_NODE: it has none, or lies outside of the node set */
    struct radix_item *items, *room; /* to sum up by memory; of the longest list */

    struct recall_list *lists;
    char *scorers; /* memory to score rows with, scorer_bytes for each worker */
    uint64_t scorer_bytes;
    uint64_t seeds_known_ns, spread_known_ns;
};

/* In the plan that finds the seeds, and in the one that spreads from them. */
static inline struct recall *recall_seeking(const struct job *j)
{
    return j->plan.scratch.data;
}
static inline struct recall *recall_spreading(const struct job *j)
{
    return j->plan.before.data;
}

/* The cues of a list. */
static inline uint64_t recall_cue(const struct recall *w, uint64_t list)
{
    return w->list_offsets ? w->list_offsets[list] : list;
}

/* Plans the search for seeds; follow is called on a worker when they are known. */
enum status recall_seeds_plan(struct job *j, void (*follow)(struct job *j));

/* Chooses the best of a list from its seeds and the records of its spread: `set` of struct
 * spread_answerer. owner: the recall. */
bool recall_rank(void *owner, const struct spread_ask *a, uint64_t list,
                 const struct spread_record *records, uint64_t count, struct arena *keep,
                 struct arena *work, struct spread_set *out);

/* INVALID_ARGUMENT for what contradicts the collection's shape. */
enum status recall_check_shapes(struct job *j);
/* Copies the rows of cue_ids next to each other. NOT_FOUND/UNKNOWN_ID. */
enum status recall_fetch_cues(struct job *j, const struct edition *rows, float *to);

/* Scores what is recalled and makes the reply, on all workers: `reply` of struct
 * spread_answerer. */
void recall_reply(struct job *j);
/* Takes memory for the reply; sets its offsets' first. */
enum status recall_take_result(struct job *j, uint64_t lists, uint64_t entries,
                               uint64_t path_nodes);
/* Returns the bytes that a worker needs to score rows of a dimension. */
uint64_t recall_scorer_bytes(const struct vector_kernels *kernels, uint32_t dimension);

/* ---- recall_gpu.c ---- */

uint64_t recall_gpu_pairs(const struct job *j);
/* Also of a carrier, whose request is its members' but for cues and lists: the shapes of all of
 * them, without data. */
enum status recall_gpu_plan(struct job *j);
/* How many lists of cues j has. */
uint64_t recall_lists_of(const struct job *j);
uint64_t recall_cues_of(const struct job *j);
/* Makes j's reply of lists [first, first + recall_lists_of(j)) of what came back to `ran`, which is
 * j or its carrier. False: what came back is invalid. */
bool recall_gpu_answer(struct job *j, const struct job *ran, uint64_t first);

/* ---- recall_batch.c ---- */

bool recall_batches(const struct job *j);
const void *recall_batch_key(const struct job *j);
/* Copies the cues of a carrier's members behind each other, and where their lists begin. */
void recall_batch_gather(const struct job *c, float *cues, uint64_t *offsets);

#endif
