/* spread_ask: the parameters of a spread in terms of its graph: seeds by node number, f(d), the
 * set of nodes. They are the same for every backend.
 * Owner:  the operation's scratch.
 * Thread: layout and place: the loop; prepare: one worker, alone.
 * Errors: spread_ask_prepare: NOT_FOUND/UNKNOWN_NODE for unknown ids of seeds or of the node set,
 *         INVALID_ARGUMENT/BAD_SEED for a seed outside the node set, or whose activation is not
 *         finite and above 0. With seed_nodes, seeds that are unknown or outside are none. */
#ifndef ENGRAM_OPS_SPREAD_ASK_H
#define ENGRAM_OPS_SPREAD_ASK_H

#include "daemon/base/job.h"
#include "kernels/spread.h"

struct radix_item;

/* What a spread names beside its graph: the collection of its nodes' embeddings. */
enum { SPREAD_EMBEDDINGS = 1 };

struct spread_ask {
    struct spread_graph graph;
    struct spread_embeddings embeddings; /* the question's, if it has some; of one edition */
    struct spread_question question;     /* the same for every set, except for its seeds */
    uint64_t set_count;
    uint64_t k; /* how many of each set to return; UINT64_MAX: all */

    /* All of these are in scratch. */
    uint64_t *set_offsets; /* set_count + 1: where each set's seeds begin */
    struct spread_seed *seeds;
    float *decay;      /* hops + 1 */
    uint64_t *allowed; /* a bitmap over nodes */
    /* Not NULL: of each of the request's seeds its node goes here, or SPREAD_NO_NODE if it has none
     * or lies outside the node set, and these are left out. NULL: they are errors. The caller's. */
    uint32_t *seed_nodes;
    struct radix_item *items, *room;
    uint64_t places[6];
};

/* Adds the bytes of scratch that j needs for it. */
void spread_ask_layout(const struct job *j, struct spread_ask *a, uint64_t *bytes);
/* Sets the pointers, once scratch was taken. */
void spread_ask_place(const struct job *j, struct spread_ask *a);
enum status spread_ask_prepare(struct job *j, struct spread_ask *a);
/* The same without seeds, which are found later: f(d), the set of nodes, and until when. */
void spread_ask_layout_rule(const struct job *j, struct spread_ask *a, uint64_t *bytes);
void spread_ask_place_rule(const struct job *j, struct spread_ask *a);
enum status spread_ask_prepare_rule(struct job *j, struct spread_ask *a);

/* Returns the collection of the nodes' embeddings; NULL: the request names none. */
struct edition *spread_ask_collection(const struct job *j);

/* Returns f(d) before it is rounded. table: for DECAY_TABLE. */
double spread_ask_decay(const struct job_spread *s, const float *table, uint32_t d);

/* Returns the question of one set. */
static inline struct spread_question spread_ask_set(const struct spread_ask *a, uint64_t set)
{
    struct spread_question q = a->question;
    q.seeds = a->seeds + a->set_offsets[set];
    q.seed_count = a->set_offsets[set + 1] - a->set_offsets[set];
    return q;
}

#endif
