/* spread_inside: what the files of the CPU's spread engine share: its state and its arrays, all of
 * them in the workspace.
 * Owner:  a run; between runs every byte is zero.
 * Thread: as spread_run. In a part, a thread writes what belongs to the nodes of its part, and takes
 *         room for more in the shared arrays by atomic counts.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SPREAD_INSIDE_H
#define ENGRAM_KERNELS_CPU_SPREAD_INSIDE_H

#include "kernels/spread.h"

#include <stdatomic.h>

enum {
    SPREAD_CHUNK = 256,           /* nodes that a thread gathers before it takes room for them */
    SPREAD_PARTS_MAX = 1024,      /* of a step */
    SPREAD_PART_EDGES = 32 << 10, /* of a part, about */
    SPREAD_ALONE_EDGES = 1 << 20, /* the same when one thread runs them all */
    SPREAD_GAINS = 3,             /* a node expands at most so often in a run, thus in a level */
    SPREAD_SCRATCH = 8192         /* contributions that need no memory of their own */
};

enum spread_step {
    SPREAD_STEP_NONE,
    SPREAD_STEP_SEEDS, /* hop 0 of mode linear */
    SPREAD_STEP_PUSH,
    SPREAD_STEP_PULL,
    SPREAD_STEP_COUNT,   /* contributions of each target */
    SPREAD_STEP_SCATTER, /* contributions to their targets' places */
    SPREAD_STEP_FOLD,    /* visits */
    SPREAD_STEP_LEVEL,   /* all three in one part */
    SPREAD_STEP_RECORDS, /* of a dense run */
    SPREAD_STEP_ENDED
};

/* How the next hops of mode linear go; the answer is the same. */
enum spread_hop { SPREAD_HOP_CHOSEN, SPREAD_HOP_PUSH, SPREAD_HOP_PULL };

/* A node. */
struct spread_place {
    union {
        struct {
            struct spread_sum sum;
            double best; /* of the products pushed to it, with paths */
        };
        struct {
            uint64_t first; /* of its contributions */
            _Atomic(uint32_t) count, filled;
        };
    };
    uint32_t source; /* 0: nothing was pushed to it in this hop; else the best product's, + 1 */
    uint32_t slot;   /* 0: not touched; else its record's, + 1 */
};

/* The nodes that send in the next hop; linear: those that send anything. */
struct spread_front {
    uint32_t *nodes;
    float *gains
        [SPREAD_GAINS]; /* linear: the first is what is sent; engram: one to three, NaN: none */
    float *sent;        /* linear, for pulling: by node number, in the place of the second */
    _Atomic(uint32_t) count;
    uint32_t count_max; /* of nodes listed since the run began */
    bool
        sent_full; /* it was pulled: sent holds all that is sent, and zeros; nodes are not listed */
    bool sent_soiled; /* it is not all zero */
};

struct spread_state {
    enum spread_step step;
    enum spread_hop hop;
    uint32_t depth; /* of the hop or level that the step belongs to */
    uint32_t parts;
    struct spread_front
        fronts[2]; /* depth % 2: what that hop makes active; the other: what sends */
    struct spread_place *places;
    struct spread_record *records;
    _Atomic(uint32_t) record_count;
    uint32_t records_before; /* this hop */
    uint32_t records_max;
    uint32_t *targets; /* nodes that were pushed to, or have contributions, in this hop */
    _Atomic(uint32_t) target_count;
    uint32_t targets_max;
    _Atomic(uint64_t) cycles;
    _Atomic(bool) active; /* the hop touched something */
    uint64_t *scratch;    /* SPREAD_SCRATCH */
    uint64_t *contributions;
    uint64_t contributions_room;
    uint64_t work; /* of the level: its contributions, about */
    bool scratch_soiled;
    /* Mode linear, from the first hop that pulls to the end: what is known of nodes stands by their
     * numbers, not in records, which are made of it at the end. */
    bool dense;
    float *activations;       /* as in spread_settling, and the next two */
    uint8_t *visits, *depths; /* the arrays lie where mode engram has others */
    uint32_t *parents;        /* with paths */
    _Atomic(uint32_t) touched;
    uint32_t touched_before;   /* this hop */
    uint32_t *starts;          /* of the parts of a pull, in graph->order; parts + 1 */
    _Atomic(uint32_t) *pulled; /* of a window's nodes in this hop, where parts share it */
    uint32_t pull_parts;
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

/* Adds to a shared count; alone, without the price of an atomic. */
static inline uint32_t spread_reserve(_Atomic(uint32_t) *count, uint32_t more, bool alone)
{
    if (!alone) return atomic_fetch_add_explicit(count, more, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + more, memory_order_relaxed);
    return before;
}

/* What a thread gathers of up to SPREAD_CHUNK nodes. */
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

/* Into the shared arrays; the batch is empty again. gains: how many are written. */
void spread_batch_flush(struct spread_run *r, struct spread_batch *b, uint32_t gains);

/* The part's share of count things. */
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
/* One node; what every variant equals. */
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

/* For tests, after spread_run_begin. */
void spread_run_force(struct spread_run *r, enum spread_hop hop);

/* Mode linear: the next hop's step, its parts counted; and a part of each. */
uint32_t spread_linear_start(struct spread_run *r);
void spread_linear_seeds(struct spread_run *r);
void spread_linear_push(struct spread_run *r);

/* Mode linear where every node pulls. open: from here on the run is dense. start: parts of the hop;
 * pull: one. touch: a node that was pushed to and is active. records: the parts in which they are made;
 * record: one; finish: what gives way to touched_max goes. */
void spread_dense_open(struct spread_run *r);
uint32_t spread_dense_start(struct spread_run *r);
void spread_dense_pull(struct spread_run *r, uint32_t part);
void spread_dense_touch(struct spread_run *r, uint32_t node, float activation, uint32_t parent);
uint32_t spread_dense_records(struct spread_run *r);
void spread_dense_record(struct spread_run *r, uint32_t part);
void spread_dense_finish(struct spread_run *r);
/* Of the workspace. */
void spread_dense_clear(const struct spread_run *r);

/* Mode engram: the next level's first step, or the one after the last; parts, 0: no memory. */
uint32_t spread_engram_start(struct spread_run *r);
uint32_t spread_engram_onward(struct spread_run *r);
void spread_engram_part(struct spread_run *r, uint32_t part);

/* A contribution: the key that sorts the largest first, and whence. */
static inline uint32_t spread_contribution_source(uint64_t contribution)
{
    return (uint32_t)contribution;
}

/* Sorts in place by the upper halves; n log n or less whatever they are. */
void spread_sort(uint64_t *contributions, uint64_t count);
/* Brings the `keep` records of lowest ids (all different) to the front. */
void spread_keep_lowest(struct spread_record *records, uint32_t count, uint32_t keep,
                        const uint64_t *ids);

#endif
