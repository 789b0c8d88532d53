/* spread_inside: what the files of the CPU's spread engine share: its state and its arrays, all of
 * them in the workspace.
 * Owner:  a run; between runs every byte is zero.
 * Thread: as spread_run. In a part, a thread writes the state of the part's nodes, and reserves
 *         places in shared arrays by atomic counts.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SPREAD_INSIDE_H
#define ENGRAM_KERNELS_CPU_SPREAD_INSIDE_H

#include "kernels/spread.h"

#include <stdatomic.h>

enum {
    SPREAD_CHUNK = 256,      /* nodes that a thread collects before it reserves places for them */
    SPREAD_PARTS_MAX = 4096, /* parts of a step */
    SPREAD_PART_EDGES = 32 << 10,   /* edges of a part, about */
    SPREAD_ALONE_EDGES = 128 << 10, /* the same, if one thread runs all parts */
    SPREAD_WAY = 512,               /* after so many edges, or nodes, a thread gives way */
    SPREAD_PULL_WAY = 4096,         /* after so many that it sums up, since they take less */
    SPREAD_SOILED_MAX = 24,         /* areas of a workspace */
    SPREAD_GAINS = 3,     /* a node expands at most this often in a run, and so in a level */
    SPREAD_SCRATCH = 8192 /* contributions that fit into the workspace */
};

enum spread_step {
    SPREAD_STEP_NONE,
    SPREAD_STEP_SEEDS, /* hop 0 of mode linear */
    SPREAD_STEP_PUSH,
    SPREAD_STEP_PULL,
    SPREAD_STEP_COUNT,   /* count the contributions of each target */
    SPREAD_STEP_SCATTER, /* write contributions to their targets' places */
    SPREAD_STEP_FOLD,    /* visit the targets */
    SPREAD_STEP_LEVEL,   /* these three as one part */
    SPREAD_STEP_RECORDS, /* make the records of a dense run */
    SPREAD_STEP_ENDED,
    SPREAD_STEP_CLOSED,
    SPREAD_STEP_CLEAR_PLACES, /* clear the places of the nodes that were touched */
    SPREAD_STEP_CLEAR         /* clear all else */
};

/* How the next hops of mode linear run; the result is the same. */
enum spread_hop { SPREAD_HOP_CHOSEN, SPREAD_HOP_PUSH, SPREAD_HOP_PULL };

/* The state of a node. */
struct spread_place {
    union {
        struct {
            struct spread_sum sum;
            double best; /* the best of the products pushed to it; with paths only */
        };
        struct {
            uint64_t first; /* where its contributions begin */
            _Atomic(uint32_t) count, filled;
        };
    };
    /* 1 + the source of the best product; 0: nothing was pushed to it in this hop */
    uint32_t source;
    uint32_t slot; /* 1 + the number of its record; 0: not touched */
};

/* The nodes that send in the next hop; linear: only those that send something. */
struct spread_front {
    uint32_t *nodes;
    float *gains
        /* linear: the first is what it sends; engram: one to three gains, NaN: none */
        [SPREAD_GAINS];
    float *sent; /* linear, for pulling: by node number; uses the memory of the second */
    _Atomic(uint32_t) count;
    uint32_t count_max; /* of the nodes listed since the run began */
    bool
        /* a pull wrote it: sent holds everything that is sent, and the nodes are not listed */
        sent_full;
    bool sent_soiled; /* sent is not all zero */
};

/* An area of the workspace that is no longer zero. */
struct spread_soiled {
    char *at;
    uint64_t bytes;
};

struct spread_state {
    enum spread_step step;
    enum spread_hop hop;
    uint32_t depth; /* the hop or level that the step belongs to */
    uint32_t parts;
    struct spread_front
        /* [depth % 2]: nodes that the hop makes active; the other one: nodes that send */
        fronts[2];
    struct spread_place *places;
    struct spread_record *records;
    _Atomic(uint32_t) record_count;
    uint32_t records_before; /* when this hop began */
    uint32_t records_max;
    uint32_t *targets; /* nodes that were pushed to, or have contributions, in this hop */
    _Atomic(uint32_t) target_count;
    uint32_t targets_max;
    _Atomic(uint64_t) cycles;
    _Atomic(bool) active; /* the hop touched a node */
    uint64_t *scratch;    /* of SPREAD_SCRATCH contributions */
    uint64_t *contributions;
    uint64_t contributions_room;
    uint64_t work; /* of the level: about how many contributions */
    bool scratch_soiled;
    /* Mode linear, from the first hop that pulls to the end: the state of nodes is kept in arrays
     * by node number, not in records, which are made from it at the end. */
    bool dense;
    float *activations;       /* as in spread_settling, like the next two */
    uint8_t *visits, *depths; /* they use memory that mode engram needs for other arrays */
    uint32_t *parents;        /* with paths only */
    _Atomic(uint32_t) touched;
    uint32_t touched_before; /* when this hop began */
    uint32_t *starts; /* where the parts of a pull begin in graph->order; parts + 1 of them */
    /* how many nodes of a window are done in this hop, if parts share the window */
    _Atomic(uint32_t) *pulled;
    uint32_t pull_parts;
    /* Mode engram, in the level where similarity may take the place of weights: whether it does
     * for sender i; it uses the memory of depths. The parts of the scatter are ranges of edges
     * then: where they begin, by sender (starts) and by edge of it; parts + 1 of them. */
    uint8_t *similar;
    uint32_t similar_max; /* senders that have been looked at */
    uint32_t *start_edges;
    uint32_t scatter_parts;
    struct spread_soiled soiled[SPREAD_SOILED_MAX]; /* once the run is closed */
    uint32_t soiled_count;
};

static inline struct spread_state *spread_state_of(const struct spread_run *r)
{
    return r->workspace.memory;
}

static inline struct spread_front *spread_senders(struct spread_state *s)
{
    return &s->fronts[(s->depth + 1) % 2];
}

static inline struct spread_front *spread_receivers(struct spread_state *s)
{
    return &s->fronts[s->depth % 2];
}

static inline bool spread_is_allowed(const struct spread_question *q, uint32_t node)
{
    return !q->allowed || (q->allowed[node / 64] >> node % 64 & 1);
}

static inline float spread_factor(const struct spread_graph *g, uint32_t node)
{
    return g->factors ? g->factors[node] : 1.0f;
}

static inline void spread_give_way(const struct spread_run *r)
{
    if (r->give_way) r->give_way(r->way_owner);
}

/* In a loop over i. */
static inline void spread_give_way_at(const struct spread_run *r, uint64_t i)
{
    if (i % SPREAD_WAY == 0) spread_give_way(r);
}

/* Counts more edges, or nodes, in *since. */
static inline void spread_pace(const struct spread_run *r, uint64_t *since, uint64_t more)
{
    *since += more;
    if (*since < SPREAD_WAY) return;
    *since = 0;
    spread_give_way(r);
}

/* The same for edges of long lists that are summed up, of which no piece has more than
 * SPREAD_PULL_WAY. Sums are exact, so that it does not matter where they are cut. */
static inline void spread_pull_pace(const struct spread_run *r, uint64_t *since, uint64_t more)
{
    *since += more;
    if (*since < SPREAD_PULL_WAY) return;
    *since = 0;
    spread_give_way(r);
}

/* Returns where the piece of a list that begins at edge e ends. */
static inline uint32_t spread_pull_end(uint32_t e, uint32_t count)
{
    return count - e < SPREAD_PULL_WAY ? count : e + SPREAD_PULL_WAY;
}

/* Sets bytes of the workspace to zero. */
void spread_clear(const struct spread_run *r, void *data, uint64_t bytes);

/* Adds to a shared count; alone: without the cost of an atomic. */
static inline uint32_t spread_reserve(_Atomic(uint32_t) *count, uint32_t more, bool alone)
{
    if (!alone) return atomic_fetch_add_explicit(count, more, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + more, memory_order_relaxed);
    return before;
}

/* The up to SPREAD_CHUNK nodes that a thread collects. */
struct spread_batch {
    struct spread_record fresh[SPREAD_CHUNK];
    uint32_t nodes[SPREAD_CHUNK];
    float gains[SPREAD_GAINS][SPREAD_CHUNK];
    uint32_t fresh_count, active;
    uint64_t cycles;
    bool touched;
};

static inline void spread_batch_open(struct spread_batch *b)
{
    b->fresh_count = b->active = 0;
    b->cycles = 0;
    b->touched = false;
}

/* Appends the batch to the shared arrays and empties it. gains: how many of each node to write. */
void spread_batch_flush(struct spread_run *r, struct spread_batch *b, uint32_t gains);

/* Returns a part's share of count items. */
struct spread_range {
    uint32_t first, last;
};
static inline struct spread_range spread_share(uint32_t count, uint32_t part, uint32_t parts)
{
    return (struct spread_range){(uint32_t)((uint64_t)count * part / parts),
                                 (uint32_t)((uint64_t)count * (part + 1) / parts)};
}

#if defined(__x86_64__)
struct spread_settled spread_settle_avx2(const struct spread_settling *s, uint32_t first,
                                         uint32_t last);
struct spread_settled spread_settle_avx512(const struct spread_settling *s, uint32_t first,
                                           uint32_t last);
#endif
/* Updates the state of one node; every variant equals this. */
static inline void spread_settle_one(const struct spread_settling *s, uint32_t n,
                                     struct spread_settled *all)
{
    float received = s->sends[n], before = s->activations[n];
    bool kept = spread_kept(received, s->threshold), fresh = kept && s->visits[n] == 0;
    float sent = s->factors ? spread_sent(received, s->factors[n]) : received;
    float after = s->last_hop ? 0.0f : before;
    if (kept) after = s->last_hop ? received : spread_accumulated(before, received);
    s->activations[n] = after;
    s->sends[n] = kept ? sent : 0.0f;
    s->visits[n] = (uint8_t)(s->visits[n] + kept);
    s->depths[n] = fresh ? (uint8_t)s->depth : s->depths[n];
    all->active += kept;
    all->fresh += fresh;
    all->sending += kept && sent > 0.0f;
}

/* The in-lists of the window that a node is in, by place in the window. */
static inline const struct spread_list *spread_in_window(const struct spread_graph *g,
                                                         uint32_t node)
{
    return spread_in_list(g, node & ~(uint32_t)(SPREAD_WINDOW - 1));
}

static inline uint32_t spread_window_place(uint32_t node)
{
    return node & (SPREAD_WINDOW - 1);
}

/* For tests, called after spread_run_begin. */
void spread_run_force(struct spread_run *r, enum spread_hop hop);

/* Mode linear: start prepares the next hop's step and returns how many parts it has; each of the
 * others runs one part of a step. */
uint32_t spread_linear_start(struct spread_run *r);
void spread_linear_seeds(struct spread_run *r);
void spread_linear_push(struct spread_run *r);

/* Mode linear where every node pulls. open: the run is dense from here on. start: returns the
 * parts of the hop; pull: runs one. touch: notes a node that was pushed to and is active. records:
 * returns the parts in which records are made; record: runs one; finish: removes the nodes beyond
 * touched_max. */
void spread_dense_open(struct spread_run *r);
uint32_t spread_dense_start(struct spread_run *r);
void spread_dense_pull(struct spread_run *r, uint32_t part);
void spread_dense_touch(struct spread_run *r, uint32_t node, float activation, uint32_t parent);
uint32_t spread_dense_records(struct spread_run *r);
void spread_dense_record(struct spread_run *r, uint32_t part);
void spread_dense_finish(struct spread_run *r);
/* Adds an area to those to be cleared. */
static inline void spread_soil(struct spread_state *s, void *at, uint64_t bytes)
{
    if (bytes) s->soiled[s->soiled_count++] = (struct spread_soiled){at, bytes};
}

/* Notes which of the dense run's arrays are to be cleared. */
void spread_dense_soil(const struct spread_run *r);

/* Clearing the workspace: next prepares its next step and returns the parts, 0 once all of it is
 * zero; part runs one. */
uint32_t spread_clear_next(struct spread_run *r);
void spread_clear_part(struct spread_run *r, uint32_t part);

/* Mode engram: prepares the first step of the next level, or the following step of this one;
 * returns its parts, 0: no memory. */
uint32_t spread_engram_start(struct spread_run *r);
uint32_t spread_engram_onward(struct spread_run *r);
void spread_engram_part(struct spread_run *r, uint32_t part);

/* True if similarity may take the place of weights in this level. */
static inline bool spread_similar_level(const struct spread_run *r)
{
    return r->question->embeddings && spread_state_of(r)->depth == SPREAD_SIMILAR_DEPTH + 1;
}

/* spread_similar.c: true if it does for what this node sends: all embeddings are there. */
bool spread_similar_node(const struct spread_run *r, uint32_t node);
/* Computes the effective weights of edges that lead to `count` of its targets, SPREAD_SIMILAR_CHUNK
 * at most. */
enum { SPREAD_SIMILAR_CHUNK = 64 };
void spread_similar_weights(const struct spread_run *r, uint32_t node, const uint32_t *targets,
                            uint32_t count, float *weights);
/* Begins the level. True: it has few contributions, so it is one part. */
bool spread_similar_whole(const struct spread_run *r, uint64_t contributions);
/* Cuts the senders' edges into parts of a scatter that take about as long; returns how many. */
uint32_t spread_similar_cut(struct spread_run *r);

/* A contribution: in the upper half a key that sorts the largest first, in the lower half the
 * source. */
static inline uint32_t spread_contribution_source(uint64_t contribution)
{
    return (uint32_t)contribution;
}

/* Sorts in place by the upper halves; at most n log n steps for any input. */
void spread_sort(const struct spread_run *r, uint64_t *contributions, uint64_t count);
/* Moves the `keep` records with the lowest ids (all different) to the front. */
void spread_keep_lowest(const struct spread_run *r, struct spread_record *records, uint32_t count,
                        uint32_t keep);

#endif
