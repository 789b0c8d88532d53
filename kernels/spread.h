/* spread: activation that spreads along the edges of a graph: the rule, the structs of its data,
 * and the CPU's engine. Source: the rules of engram-core's shared memory, written out in
 * docs/spreading.md.
 * Owner:  the caller; all memory taken here comes from spread_memory.
 * Thread: any; a run is used by one thread at a time, except spread_run_part.
 * Errors: none; inputs are validated before they come here.
 *
 * Included by C and by CUDA: functions marked CANONICAL_INLINE are the arithmetic that every
 * implementation equals bit for bit.
 *
 * Sums do not depend on their order. In mode linear a node receives S = sum of x(s) w(s, t) over
 * its edges. Each product is exact in binary64 (24 + 24 bits). It is cut in two on a coarse and a
 * fine grid, which are the same for the whole graph:
 *     q = (c + high) - high      a multiple of the coarse step
 *     r = c - q                  exact
 *     p = (r + low) - low        a multiple of the fine step
 * and all q and all p are added up separately. The grid is chosen so that even the largest number
 * of edges cannot carry either sum past 53 bits of its step. So every addition is exact: in any
 * order, on any number of threads, with or without the zeros of nodes that are not active,
 * gathered by targets or scattered by sources, and with atomics. (Demmel, Nguyen, "Fast
 * reproducible floating-point summation", 2013, with bounds known beforehand.) What lies below the
 * fine step is lost: with edges of weight up to W and up to 2^20 edges at a node, 2^-64 W of each
 * product. Then S = q + p, rounded once, is multiplied by f(d), rounded again, and converted to
 * binary32, the last rounding.
 *
 * Mode engram has no sums: the contributions to a node are taken one by one, the largest first
 * (spread_visit). */
#ifndef ENGRAM_KERNELS_SPREAD_H
#define ENGRAM_KERNELS_SPREAD_H

#include "kernels/functions.h"

enum spread_mode { SPREAD_LINEAR = 1, SPREAD_ENGRAM = 2 }; /* as numbered on the wire */
enum spread_kind { SPREAD_PLAIN = 0, SPREAD_EPISODE = 1, SPREAD_CONCEPT = 2 }; /* as on the wire */
enum spread_fan {
    SPREAD_FAN_NONE = 0,
    SPREAD_FAN_SQRT = 1,
    SPREAD_FAN_DIVIDE = 2
}; /* as on the wire */
enum spread_tier { SPREAD_HOT = 0, SPREAD_WARM = 1, SPREAD_COLD = 2, SPREAD_TIERS = 3 };

enum { SPREAD_HOPS_MAX = 100 };
#define SPREAD_NO_NODE UINT32_MAX

/* ---------------------------------------------------------------- the graph */

/* The edges of a node are [first, first + count) of an edge array, in any order; the places up to
 * first + room are reserved for more. first is a multiple of 2 (16 bytes). */
struct spread_list {
    uint64_t first;
    uint32_t count, room;
};

/* In a list of out-edges, node is the target; of in-edges, the source. Weights are finite. */
struct spread_edge {
    uint32_t node;
    float weight;
};

/* The constants that cut a product; a graph's depend on its largest weight, factor and
 * in-degree. */
struct spread_grid {
    double high, low;
};

/* Window of spread_graph.order: in each window the numbers are a permutation of the window's
 * own. */
enum { SPREAD_WINDOW = 1024 };
/* Lists in a page, 64 KiB: a power of two, some windows. */
enum { SPREAD_PAGE_SHIFT = 12, SPREAD_PAGE_LISTS = 1 << SPREAD_PAGE_SHIFT };

/* A graph as its readers see it. Nodes have numbers 0 .. nodes - 1; some numbers may be free (they
 * have no edges, and no request reaches them). Every edge is stored in both orientations. When the
 * graph was laid out, nodes with many out-edges got low numbers, so that the values they send,
 * which are read most often, lie together. */
struct spread_graph {
    uint32_t nodes;
    uint64_t edges;
    const struct spread_list *out, *in; /* one a node; NULL: they lie in pages, below */
    const struct spread_edge *out_edges, *in_edges;
    const uint64_t *ids;  /* one a node, all different except for free numbers */
    const uint8_t *kinds; /* one a node: enum spread_kind; NULL: all SPREAD_PLAIN */
    const float *factors; /* one a node: multiplies what the node sends; NULL: all 1 */
    const uint32_t
        /* one a node: each window of SPREAD_WINDOW numbers (the last may be shorter), roughly by
         * falling in-degree within it, so that consecutive lists have similar lengths and node
         * numbers that are close */
        *order;
    struct spread_grid grid;
    /* For the CPU: page p holds the lists of the nodes p * SPREAD_PAGE_LISTS and up. A graph that
     * changes while it is read shares its other pages with its other versions. */
    const struct spread_list *const *out_pages, *const *in_pages;
};

/* Computes the grid for weights of at most 2^weight_exponent and factors of at most
 * 2^factor_exponent in magnitude, with at most in_count_max edges at a node. Exponents from -149
 * to 128; activations are at most 1. */
CANONICAL_INLINE struct spread_grid spread_grid_of(int weight_exponent, int factor_exponent,
                                                   uint64_t in_count_max)
{
    int carry = in_count_max <= UINT64_C(1) << 20 ? 20 : 32;
    int most = weight_exponent + (factor_exponent > 0 ? factor_exponent : 0) + carry;
    struct spread_grid g = {ldexp(1.5, most + 1), ldexp(1.5, most - 51 + carry)};
    return g;
}

/* Both parts of a sum. */
struct spread_sum {
    double high, low;
};

/* Adds one exact product to a sum. */
CANONICAL_INLINE void spread_add(struct spread_sum *s, struct spread_grid g, float sent,
                                 float weight)
{
#if defined(__CUDA_ARCH__)
    double c = __dmul_rn((double)sent, (double)weight);
    double q = __dsub_rn(__dadd_rn(c, g.high), g.high);
    double r = __dsub_rn(c, q);
    s->high = __dadd_rn(s->high, q);
    s->low = __dadd_rn(s->low, __dsub_rn(__dadd_rn(r, g.low), g.low));
#else
    double c = (double)sent * (double)weight;
    double q = (c + g.high) - g.high;
    double r = c - q;
    s->high += q;
    s->low += (r + g.low) - g.low;
#endif
}

/* Returns a node's activation after a hop, before the threshold; at most 1. */
CANONICAL_INLINE float spread_received(struct spread_sum s, float decay)
{
#if defined(__CUDA_ARCH__)
    float a = __double2float_rn(__dmul_rn(__dadd_rn(s.high, s.low), (double)decay));
#else
    float a = (float)((s.high + s.low) * (double)decay);
#endif
    return a < 1.0f ? a : 1.0f;
}

/* True if a node is active: its activation is not 0 and reaches the threshold. */
CANONICAL_INLINE bool spread_kept(float activation, float threshold)
{
    return activation > 0.0f && activation >= threshold;
}

/* Returns what a node with this activation sends along each of its edges. */
CANONICAL_INLINE float spread_sent(float activation, float factor)
{
    return canonical_multiply(activation, factor);
}

/* Adds the activation of a hop to the accumulated one; hops in their order. */
CANONICAL_INLINE float spread_accumulated(float before, float activation)
{
    float sum = canonical_add(before, activation);
    return sum < 1.0f ? sum : 1.0f;
}

/* ---------------------------------------------------------------- mode engram */

CANONICAL_INLINE enum spread_tier spread_tier_of(uint32_t depth)
{
    return depth == 0 ? SPREAD_HOT : depth <= 2 ? SPREAD_WARM : SPREAD_COLD;
}

CANONICAL_INLINE uint32_t spread_visits_max(enum spread_tier tier)
{
    return 2u + (uint32_t)tier;
}

/* Returns the factor for the direction between kinds; 1 if either is plain. */
CANONICAL_INLINE float spread_direction(uint32_t from, uint32_t to)
{
    if (from == SPREAD_EPISODE)
        return to == SPREAD_CONCEPT ? 0.8f : to == SPREAD_EPISODE ? 0.3f : 1.0f;
    if (from == SPREAD_CONCEPT)
        return to == SPREAD_EPISODE ? 0.6f : to == SPREAD_CONCEPT ? 0.4f : 1.0f;
    return 1.0f;
}

/* Returns the effective weight: ((w x direction) x fan) x factor. fan: a concept's weight is
 * divided by its out-degree or the square root of it, an episode's is multiplied by 1.2. */
CANONICAL_INLINE float spread_weight(float weight, float direction, enum spread_fan fan,
                                     uint32_t source_kind, uint32_t out_count, float factor)
{
    float w = canonical_multiply(weight, direction), degree = (float)(out_count ? out_count : 1);
#if defined(__CUDA_ARCH__)
    float root = __fsqrt_rn(degree);
#else
    float root = sqrtf(degree);
#endif
    if (fan != SPREAD_FAN_NONE && source_kind == SPREAD_CONCEPT)
        w = canonical_divide(w, fan == SPREAD_FAN_DIVIDE ? degree : root);
    if (fan != SPREAD_FAN_NONE && source_kind == SPREAD_EPISODE) w = canonical_multiply(w, 1.2f);
    return canonical_multiply(w, factor);
}

/* Where nodes have embeddings, similarity can take the place of weights: for what a visit at depth
 * SPREAD_SIMILAR_DEPTH sends along its node's edges, if these are SPREAD_SIMILAR_EDGES or more,
 * duplicates and loops included, and the node and all that they lead to have embeddings. */
enum { SPREAD_SIMILAR_DEPTH = 1, SPREAD_SIMILAR_EDGES = 16 };

/* Returns the effective weight then, without direction and fan: the logistic function of (cosine -
 * threshold) / 0.5, times the source's factor. cosine: canonical, of the embeddings of source and
 * target; threshold: that of the tier hot. */
CANONICAL_INLINE float spread_similar_weight(float cosine, float threshold, float factor)
{
    float distance = canonical_divide(canonical_subtract(cosine, threshold), 0.5f);
    return canonical_multiply(canonical_logistic(distance), factor);
}

/* Returns the contribution of a visit that gained `gain` along an edge of this effective weight,
 * which may have overflowed to infinity: 0 times infinity counts as 0. */
CANONICAL_INLINE float spread_contribution(float gain, float effective_weight, float decay)
{
    float c = canonical_multiply(canonical_multiply(gain, effective_weight), decay);
    return c == c ? c : 0.0f;
}

/* The result for a node that a spread touched. Mode linear: confidence is the activation, visits
 * the number of hops after which the node was active (hop 0: the seeds). */
struct spread_record {
    uint32_t node;
    /* the node that first touched it; SPREAD_NO_NODE: it is a seed, or paths are not wanted */
    uint32_t parent;
    float activation, confidence;
    uint32_t visits;
    uint8_t depth, tier; /* at first touch */
    uint8_t reserved[2]; /* always 0 */
};

/* Adds one contribution to a node at depth d; a level's contributions to a node come from the
 * largest to the smallest. r: the node's record, with 0 visits before the first. True: it counts,
 * *gain is what it added, and if *expands the children receive that. thresholds: by tier. cycles
 * counts penalties. */
CANONICAL_INLINE bool spread_visit(struct spread_record *r, float contribution, uint32_t depth,
                                   uint32_t hops, const float thresholds[SPREAD_TIERS],
                                   uint64_t *cycles, float *gain, bool *expands)
{
    enum spread_tier tier = r->visits ? (enum spread_tier)r->tier : spread_tier_of(depth);
    float sum = canonical_add(r->activation, contribution);
    float after = sum < 1.0f ? sum : 1.0f;
    *expands = false;
    if (after < thresholds[tier]) return false;
    if (r->visits == 0) {
        r->depth = (uint8_t)depth;
        r->tier = (uint8_t)tier;
    }
    *gain = canonical_subtract(after, r->activation);
    r->activation = r->confidence = after;
    r->visits++;
    if (r->visits >= spread_visits_max(tier)) {
        r->activation = canonical_multiply(after, 0.93f);
        r->confidence = canonical_multiply(after, 0.93f);
        (*cycles)++;
        return true;
    }
    *expands = depth < hops && contribution > thresholds[tier];
    return true;
}

/* ---------------------------------------------------------------- a question */

struct spread_seed {
    uint32_t node;
    float activation; /* (0, 1] */
};

struct spread_embeddings;

struct spread_question {
    enum spread_mode mode;
    enum spread_fan fan;
    bool ignore_kinds; /* every direction has factor 1; fan still depends on kinds */
    bool last_hop; /* linear: return the activation after the last hop, not the accumulated one */
    bool paths;    /* fill in the parents */
    uint32_t hops; /* 1 .. SPREAD_HOPS_MAX */
    const float *decay;             /* f(d) is decay[d], d = 1 .. hops; decay[0] is not read */
    float thresholds[SPREAD_TIERS]; /* >= 0; mode linear uses the first for all nodes */
    const uint64_t *allowed; /* a bitmap over nodes; NULL: all nodes. Seeds are always in it */
    uint64_t touched_max;    /* >= 1: see docs/spreading.md */
    uint64_t deadline_ns;    /* as clock_now_ns counts; 0: none */
    const struct spread_embeddings *embeddings; /* of nodes, mode engram on a CPU; NULL: none */
    const struct spread_seed *seeds; /* of one set; linear: each node once, by rising node number */
    uint64_t seed_count;
};

/* ---------------------------------------------------------------- the CPU's engine */

#if !defined(__cplusplus)

/* The list of a node: lists is one array for all nodes, or NULL, and then pages counts. */
static inline const struct spread_list *spread_list_of(const struct spread_list *lists,
                                                       const struct spread_list *const *pages,
                                                       uint32_t node)
{
    return lists ? &lists[node] : &pages[node >> SPREAD_PAGE_SHIFT][node & (SPREAD_PAGE_LISTS - 1)];
}

static inline const struct spread_list *spread_out_list(const struct spread_graph *g, uint32_t node)
{
    return spread_list_of(g->out, g->out_pages, node);
}

static inline const struct spread_list *spread_in_list(const struct spread_graph *g, uint32_t node)
{
    return spread_list_of(g->in, g->in_pages, node);
}

/* The embeddings of nodes: rows of one collection as they are at one instant, which have the ids of
 * nodes. Read by any threads at once. */
struct spread_embeddings {
    uint32_t dimension;
    const struct vector_kernels *kernels; /* of the variant that the run has */
    /* Finds the rows and norms of ids, as vector_kernels.gather wants them. False: one of them has
     * none. */
    bool (*find)(void *owner, const uint64_t *ids, size_t count, const float **rows, float *norms);
    void *owner;
};

/* How many edges take as long as an edge whose weight is a similarity, about. */
static inline uint32_t spread_similar_cost(const struct spread_embeddings *e)
{
    return 2 + e->dimension / VECTOR_LANES;
}

/* Arrays by node number in the middle of a hop of mode linear. */
struct spread_settling {
    float *sends;             /* in: what a node received; out: what it sends next, 0: nothing */
    float *activations;       /* accumulated, or with last_hop: after this hop, 0: not active */
    uint8_t *visits, *depths; /* 0 visits: the node is not touched */
    const float *factors;     /* as in spread_graph */
    float threshold;
    uint32_t depth; /* of the hop */
    bool last_hop;
};

/* Counts among some nodes: those active after the hop, those active for the first time, and those
 * that send something. */
struct spread_settled {
    uint32_t active, fresh, sending;
};

struct spread_run;

/* The functions that a CPU variant may implement faster. */
struct spread_kernels {
    const char *name;
    /* Sets received[n] = spread_received of the sum over n's whole in-list, for n = order[0 ..
     * count). sent and received are two different arrays by node number. Order
     * is of one window, or of whole windows one after the other. Of r it needs the graph, and
     * gives way between pieces of long lists. */
    void (*pull)(const struct spread_run *r, const uint32_t *order, size_t count, const float *sent,
                 float decay, float *received);
    /* Turns what the nodes first .. last - 1 received into their new state. */
    struct spread_settled (*settle)(const struct spread_settling *s, uint32_t first, uint32_t last);
};
extern const struct spread_kernels spread_scalar;
#if defined(__x86_64__)
extern const struct spread_kernels spread_avx2, spread_avx512;
#endif
/* Returns the functions that belong to a variant of vectors.h (by its name), or the scalar ones. */
const struct spread_kernels *spread_kernels_for(const char *variant);

/* Memory for a run over graphs of up to `nodes` nodes: spread_workspace_bytes, 64-byte aligned,
 * all zero between runs. A run clears only what it touched, so that a sparse run uses few pages. */
struct spread_workspace {
    void *memory;
    uint32_t nodes;
};
uint64_t spread_workspace_bytes(uint32_t nodes);

/* Memory whose size is not known beforehand (mode engram's contributions). take returns 64-byte
 * aligned, uninitialised memory, or NULL. Its owner frees all of it after the run. */
struct spread_memory {
    void *(*take)(void *owner, uint64_t bytes);
    void *owner;
};

/* A spread from one seed set, in steps. The caller asks for the next step, runs its parts on any
 * threads, in any order, and asks again. */
struct spread_run {
    const struct spread_graph *graph;
    const struct spread_question *question;
    const struct spread_kernels *kernels;
    struct spread_workspace workspace;
    struct spread_memory memory;
    uint64_t (*now_ns)(void *owner); /* NULL: deadline_ns is ignored */
    void *now_owner;
    const _Atomic(bool) *cancelled; /* NULL: never; read between steps */
    /* Called by steps and parts every some ten microseconds of work, when they hold nothing that
     * others might wait for, so that the thread can do something else in between; NULL: never. */
    void (*give_way)(void *owner);
    void *way_owner;
    bool alone; /* one thread runs all parts, so a step should have few of them */
    /* 0: no bound. Otherwise the run ends before a hop that would follow more edges than this in
     * all: outgrown is set, and there is no result. */
    uint64_t edges_max;
    /* results, once spread_run_next has returned 0; undefined if cancelled */
    struct spread_record *records; /* in the workspace until spread_run_end; in any order */
    uint64_t record_count;
    uint64_t cycles;
    uint32_t hops_done; /* the last hop that touched a node */
    bool truncated;     /* the deadline or touched_max ended it */
    bool no_memory;     /* memory.take returned NULL: there is no result */
    bool outgrown;
    uint64_t edges_followed; /* with edges_max: about */
    uint64_t inside[64];     /* private to the engine */
};

/* Begins a run; the caller has set all members down to `alone`. */
void spread_run_begin(struct spread_run *r);
/* Prepares the next step and returns the number of its parts; 0: the run has ended. */
uint32_t spread_run_next(struct spread_run *r);
void spread_run_part(struct spread_run *r, uint32_t part);
/* Ends the run, before its last step, too. spread_run_next then returns steps in which the
 * workspace is cleared, until that is done. A part of these steps may run more than once. */
void spread_run_close(struct spread_run *r);
/* Closes the run and runs all of these steps, those that were begun from their start. Does nothing
 * if they are through. */
void spread_run_end(struct spread_run *r);

/* Runs all steps and parts one after the other, to the end. */
static inline void spread_run_through(struct spread_run *r)
{
    for (uint32_t parts; (parts = spread_run_next(r));)
        for (uint32_t part = 0; part < parts; part++)
            spread_run_part(r, part);
}

#endif
#endif
