/* spread: activation that spreads along the edges of a graph: the rule, the forms of its data, and the
 * CPU's engine. Source: shared memory of engram-core's rules, written out in docs/spreading.md.
 * Owner:  the caller; nothing here allocates but through spread_memory.
 * Thread: any, one run on one thread at a time, but for spread_run_part.
 * Errors: none; inputs are validated before they come here.
 *
 * Included by C and by CUDA: what is marked CANONICAL_INLINE is the arithmetic that every path equals
 * bit for bit.
 *
 * Sums have no order. In mode linear a node receives S = sum of x(s) w(s, t) over its edges. Each
 * product is exact in binary64 (24 + 24 bits). It is cut in two on a grid that is one for the whole
 * graph, coarse and fine:
 *     q = (c + high) - high      a multiple of the coarse step
 *     r = c - q                  exact
 *     p = (r + low) - low        a multiple of the fine step
 * and q and p are added up apart. As many edges as there are cannot carry either sum past 53 bits of
 * its step, so that every addition is exact, in whatever order, on however many threads, with or
 * without the zeros of nodes that are not active, gathered by targets or scattered by sources, and
 * with atomics. (Demmel, Nguyen, "Fast reproducible floating-point summation", 2013, with bounds known
 * beforehand.) What is lost is what lies below the fine step: with edges of weight up to W and up to
 * 2^20 edges at a node, 2^-64 W of each product. Then S = q + p, one rounding, times f(d), another,
 * to binary32, the last.
 *
 * Mode engram has no sums: the contributions to a node are taken one by one, the largest first
 * (spread_visit). */
#ifndef ENGRAM_KERNELS_SPREAD_H
#define ENGRAM_KERNELS_SPREAD_H

#include "kernels/canonical.h"

enum spread_mode { SPREAD_LINEAR = 1, SPREAD_ENGRAM = 2 }; /* the wire's numbers */
enum spread_kind { SPREAD_PLAIN = 0, SPREAD_EPISODE = 1, SPREAD_CONCEPT = 2 }; /* the wire's */
enum spread_fan {
    SPREAD_FAN_NONE = 0,
    SPREAD_FAN_SQRT = 1,
    SPREAD_FAN_DIVIDE = 2
}; /* the wire's */
enum spread_tier { SPREAD_HOT = 0, SPREAD_WARM = 1, SPREAD_COLD = 2, SPREAD_TIERS = 3 };

enum { SPREAD_HOPS_MAX = 100 };
#define SPREAD_NO_NODE UINT32_MAX

/* ---------------------------------------------------------------- the graph */

/* Edges [first, first + count) of an array of edges belong to a node, in no order; the places up to
 * first + room are kept for more. first is a multiple of 2 (16 bytes). */
struct spread_list {
    uint64_t first;
    uint32_t count, room;
};

/* In a list of out-edges, node is the target; of in-edges, the source. Weights are finite. */
struct spread_edge {
    uint32_t node;
    float weight;
};

/* The constants of the two cuts; of a graph, from its largest weight, factor and in-degree. */
struct spread_grid {
    double high, low;
};

/* Of spread_graph's order: in each window the numbers are a permutation of the window's own. */
enum { SPREAD_WINDOW = 1024 };

/* A graph as its readers see it. Nodes have numbers 0 .. nodes - 1; some may be nobody's (no edges,
 * and nobody asks for them). Every edge is in both orientations. Low numbers are those of nodes with
 * many out-edges, as far as known when the graph was laid out: what they send, which is read most
 * often, lies together. */
struct spread_graph {
    uint32_t nodes;
    uint64_t edges;
    const struct spread_list *out, *in; /* nodes */
    const struct spread_edge *out_edges, *in_edges;
    const uint64_t *ids;  /* nodes: of each, all different but for nobody's */
    const uint8_t *kinds; /* nodes: enum spread_kind; NULL: all SPREAD_PLAIN */
    const float *factors; /* nodes: what a node sends is multiplied by; NULL: all 1 */
    const uint32_t
        *order; /* nodes: every window of SPREAD_WINDOW numbers (the last may be shorter),
                               roughly by falling in-degree within it: who works along it finds
                               neighbours of like length, and stays among neighbouring numbers */
    struct spread_grid grid;
};

/* The grid for weights of at most 2^weight_exponent and factors of at most 2^factor_exponent in
 * magnitude, with at most in_count_max edges at a node. Exponents from -149 to 128; activations are
 * at most 1. */
CANONICAL_INLINE struct spread_grid spread_grid_of(int weight_exponent, int factor_exponent,
                                                   uint64_t in_count_max)
{
    int carry = in_count_max <= UINT64_C(1) << 20 ? 20 : 32;
    int most = weight_exponent + (factor_exponent > 0 ? factor_exponent : 0) + carry;
    struct spread_grid g = {ldexp(1.5, most + 1), ldexp(1.5, most - 51 + carry)};
    return g;
}

/* Both halves of a sum. */
struct spread_sum {
    double high, low;
};

/* One exact product. */
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

/* What a node has after a hop, before the threshold: capped at 1. */
CANONICAL_INLINE float spread_received(struct spread_sum s, float decay)
{
#if defined(__CUDA_ARCH__)
    float a = __double2float_rn(__dmul_rn(__dadd_rn(s.high, s.low), (double)decay));
#else
    float a = (float)((s.high + s.low) * (double)decay);
#endif
    return a < 1.0f ? a : 1.0f;
}

/* Nothing, and what is less than the threshold, is dropped. */
CANONICAL_INLINE bool spread_kept(float activation, float threshold)
{
    return activation > 0.0f && activation >= threshold;
}

/* What a node with that activation sends along each of its edges. */
CANONICAL_INLINE float spread_sent(float activation, float factor)
{
    return canonical_multiply(activation, factor);
}

/* Activation accumulated over hops, in their order. */
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

/* Between kinds; 1 where one of them is plain. */
CANONICAL_INLINE float spread_direction(uint32_t from, uint32_t to)
{
    if (from == SPREAD_EPISODE)
        return to == SPREAD_CONCEPT ? 0.8f : to == SPREAD_EPISODE ? 0.3f : 1.0f;
    if (from == SPREAD_CONCEPT)
        return to == SPREAD_EPISODE ? 0.6f : to == SPREAD_CONCEPT ? 0.4f : 1.0f;
    return 1.0f;
}

/* The weight that counts: ((w x direction) x fan) x factor. fan: a concept's is divided by its
 * out-degree or by the root of that, an episode's multiplied by 1.2. */
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

/* What a visit that gained `gain` contributes along an edge of that effective weight, which may have
 * overflowed: 0 times infinity is 0. */
CANONICAL_INLINE float spread_contribution(float gain, float effective_weight, float decay)
{
    float c = canonical_multiply(canonical_multiply(gain, effective_weight), decay);
    return c == c ? c : 0.0f;
}

/* What a spread says of a node that it touched. Mode linear: confidence is the activation, visits
 * the hops after which the node was active (hop 0: the seeds). */
struct spread_record {
    uint32_t node;
    uint32_t parent; /* whence it was first touched; SPREAD_NO_NODE: a seed, or not asked for */
    float activation, confidence;
    uint32_t visits;
    uint8_t depth, tier; /* at first touch */
    uint8_t reserved[2]; /* 0 */
};

/* One contribution to a node, of depth d; the contributions of a level to a node come from the
 * largest down. r: its record, visits 0 before the first. True: it counts, and *gain is what it
 * added; *expands: the children receive that. thresholds: by tier. cycles counts penalties. */
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

struct spread_question {
    enum spread_mode mode;
    enum spread_fan fan;
    bool ignore_kinds;  /* every direction counts 1; the fan effect goes by kinds all the same */
    bool last_hop;      /* linear: the activation after the last hop alone, not accumulated */
    bool paths;         /* parents are wanted */
    uint32_t hops;      /* 1 .. SPREAD_HOPS_MAX */
    const float *decay; /* f(d) at decay[d], d = 1 .. hops; decay[0] is not read */
    float thresholds[SPREAD_TIERS];  /* >= 0; linear: the first for all */
    const uint64_t *allowed;         /* bitmap over nodes; NULL: all. Seeds are allowed */
    uint64_t touched_max;            /* >= 1: see docs/spreading.md */
    uint64_t deadline_ns;            /* of clock_now_ns; 0: none */
    const struct spread_seed *seeds; /* of one set. linear: each node once, in rising node number */
    uint64_t seed_count;
};

/* ---------------------------------------------------------------- the CPU's engine */

#if !defined(__cplusplus)

/* Nodes by their numbers, in the middle of a hop of mode linear. */
struct spread_settling {
    float *sends;             /* in: what was received; out: what is sent next, 0: nothing */
    float *activations;       /* accumulated; last_hop: after this hop alone, 0: not active */
    uint8_t *visits, *depths; /* 0 visits: not touched */
    const float *factors;     /* as in spread_graph */
    float threshold;
    uint32_t depth; /* of the hop */
    bool last_hop;
};

/* Of some nodes, how many were active after the hop, for the first time, and send something. */
struct spread_settled {
    uint32_t active, fresh, sending;
};

/* What a set of CPU variants may do faster. */
struct spread_kernels {
    const char *name;
    /* received[n] = spread_received of the sum over n's whole in-list, for n = order[0 .. count);
     * sent and received: by node number, two arrays. */
    void (*pull)(const struct spread_graph *g, const uint32_t *order, size_t count,
                 const float *sent, float decay, float *received);
    /* What nodes first .. last - 1 received becomes their state. */
    struct spread_settled (*settle)(const struct spread_settling *s, uint32_t first, uint32_t last);
};
extern const struct spread_kernels spread_scalar;
#if defined(__x86_64__)
extern const struct spread_kernels spread_avx2, spread_avx512;
#endif
/* The one that goes with a variant of vectors.h (by its name); scalar where there is none. */
const struct spread_kernels *spread_kernels_for(const char *variant);

/* Room to work in, for graphs of up to `nodes` nodes: spread_workspace_bytes of memory, 64-byte
 * aligned, all zero between runs (a run cleans up what it touched, not more), so that a sparse run
 * touches few of its pages. */
struct spread_workspace {
    void *memory;
    uint32_t nodes;
};
uint64_t spread_workspace_bytes(uint32_t nodes);

/* Memory for what nobody knows the size of beforehand (mode engram's contributions). take: 64-byte
 * aligned, contents undefined, or NULL. All of it is given back by its owner after the run. */
struct spread_memory {
    void *(*take)(void *owner, uint64_t bytes);
    void *owner;
};

/* A spread from one seed set, in steps: the caller asks for the next, runs its parts, on any threads,
 * in any order, all at once or one after the other, and asks again. */
struct spread_run {
    const struct spread_graph *graph;
    const struct spread_question *question;
    const struct spread_kernels *kernels;
    struct spread_workspace workspace;
    struct spread_memory memory;
    uint64_t (*now_ns)(void *owner); /* or NULL: no deadline is kept */
    void *now_owner;
    const _Atomic(bool) *cancelled; /* or NULL; looked at between steps */
    bool alone;                     /* one thread runs all parts: then there is no point in many */
    /* out, when spread_run_next has given 0; cancelled: of no account */
    struct spread_record *records; /* in the workspace, until spread_run_end; in no order */
    uint64_t record_count;
    uint64_t cycles;
    uint32_t hops_done;  /* the deepest that touched anything */
    bool truncated;      /* the time or touched_max ended it */
    bool no_memory;      /* memory.take gave NULL: there is no answer */
    uint64_t inside[64]; /* the engine's own */
};

/* The caller has set everything down to `alone`. */
void spread_run_begin(struct spread_run *r);
/* Parts of the next step; 0: it has ended. */
uint32_t spread_run_next(struct spread_run *r);
void spread_run_part(struct spread_run *r, uint32_t part);
/* The workspace is clean again. Also before the end. */
void spread_run_end(struct spread_run *r);

/* Steps and parts one after the other, to the end. */
static inline void spread_run_through(struct spread_run *r)
{
    for (uint32_t parts; (parts = spread_run_next(r));)
        for (uint32_t part = 0; part < parts; part++)
            spread_run_part(r, part);
}

#endif
#endif
