/* spread_cases: random graphs and questions for the tests of spreads.
 * Owner:  included by them; everything is static inline. case_free.
 * Thread: any.
 * Errors: a failed allocation ends the test process. */
#ifndef ENGRAM_TESTS_KERNELS_SPREAD_CASES_H
#define ENGRAM_TESTS_KERNELS_SPREAD_CASES_H

#include "tests/kernels/samples.h"
#include "tests/support/spread_graphs.h"

enum case_shape {
    CASE_SPARSE,
    CASE_DENSE,
    CASE_POWER,
    CASE_RING,  /* a cycle and chords */
    CASE_INTO,  /* most edges end at node 0 */
    CASE_OUTOF, /* most begin there */
    CASE_LOOPS, /* self-loops and duplicates of a few edges */
    CASE_LAYERS,
    CASE_SHAPES
};

struct spread_case {
    struct spread_sample sample;
    struct spread_question question;
    float decay[SPREAD_HOPS_MAX + 1];
    struct spread_seed *seeds;
    uint64_t *allowed;
};

static inline uint32_t case_below(uint64_t *seed, uint32_t bound)
{
    return (uint32_t)(sample_random(seed) % bound);
}

static inline bool case_chance(uint64_t *seed, uint32_t percent)
{
    return case_below(seed, 100) < percent;
}

/* One of a few values, so that contributions tie, or any. */
static inline float case_weight(uint64_t *seed, uint32_t law)
{
    float u = fabsf(sample_uniform(seed));
    switch (law) {
    case 0: return u;
    case 1: return (float)(1 + case_below(seed, 4)) * 0.25f;
    case 2: return sample_uniform(seed);
    case 3: return ldexpf(sample_uniform(seed), (int)case_below(seed, 60) - 40);
    case 4: return case_chance(seed, 20) ? 0.0f : case_chance(seed, 10) ? -0.0f : u;
    default: return case_chance(seed, 5) ? 3e38f : u;
    }
}

static inline struct spread_sample_edge case_edge(enum case_shape shape, uint32_t nodes, uint64_t i,
                                                  uint64_t *seed)
{
    uint32_t a = case_below(seed, nodes), b = case_below(seed, nodes);
    switch (shape) {
    case CASE_RING:
        if (i < nodes) a = (uint32_t)i, b = (a + 1) % nodes;
        break;
    case CASE_INTO:
        if (case_chance(seed, 80)) b = 0;
        break;
    case CASE_OUTOF:
        if (case_chance(seed, 80)) a = 0;
        break;
    case CASE_POWER:
        a = (uint32_t)((uint64_t)a * a / nodes), b = (uint32_t)((uint64_t)b * b / nodes);
        break;
    case CASE_LOOPS:
        a %= 1 + nodes / 4;
        b = case_chance(seed, 30) ? a : b % (1 + nodes / 4);
        break;
    case CASE_LAYERS: b = (a / 8 + 1) * 8 % nodes + b % 8, b %= nodes; break;
    case CASE_SPARSE:
    case CASE_DENSE:
    case CASE_SHAPES: break;
    }
    return (struct spread_sample_edge){a, b, 0};
}

static inline struct spread_sample case_sample(uint64_t *seed, uint32_t nodes_max)
{
    enum case_shape shape = (enum case_shape)case_below(seed, CASE_SHAPES);
    uint32_t nodes = 1 + case_below(seed, case_chance(seed, 20) ? 8 : nodes_max);
    uint64_t count = (uint64_t)nodes * (shape == CASE_DENSE    ? 1 + case_below(seed, 40)
                                        : shape == CASE_SPARSE ? 1
                                                               : 1 + case_below(seed, 8));
    struct spread_sample_edge *edges = calloc(count, sizeof *edges);
    uint8_t *kinds = calloc(nodes, 1);
    float *factors = calloc(nodes, sizeof *factors);
    uint32_t law = case_below(seed, 6);
    for (uint64_t i = 0; i < count; i++) {
        edges[i] = case_edge(shape, nodes, i, seed);
        edges[i].weight = case_weight(seed, law);
    }
    for (uint32_t n = 0; n < nodes; n++) {
        kinds[n] = (uint8_t)case_below(seed, 3);
        factors[n] = case_chance(seed, 10)  ? 0.0f
                     : case_chance(seed, 5) ? 65536.0f
                                            : fabsf(sample_uniform(seed)) * 2;
    }
    struct spread_sample s =
        spread_sample_of(nodes, edges, count, case_chance(seed, 70) ? kinds : NULL,
                         case_chance(seed, 40) ? factors : NULL, case_chance(seed, 30));
    free(edges), free(kinds), free(factors);
    return s;
}

static inline void case_decay(struct spread_case *c, uint64_t *seed)
{
    uint32_t law = case_below(seed, 5);
    for (uint32_t d = 1; d <= c->question.hops; d++)
        c->decay[d] = law == 0   ? 1.0f
                      : law == 1 ? (float)exp(-0.7 * d)
                      : law == 2 ? (float)pow(d + 1.0, -0.5)
                      : law == 3 ? fmaxf(0, 1 - 0.2f * (float)d)
                                 : fabsf(sample_uniform(seed)) * 2;
    c->decay[0] = NAN;
    c->question.decay = c->decay;
}

/* Seeds; linear: each node once, in rising order. */
static inline void case_seeds(struct spread_case *c, uint64_t *seed)
{
    uint32_t nodes = c->sample.graph.nodes, wanted = 1 + case_below(seed, nodes < 6 ? nodes : 6);
    if (case_chance(seed, 10)) wanted = nodes;
    c->seeds = calloc(wanted, sizeof *c->seeds);
    for (uint32_t i = 0, from = 0; i < wanted; i++) {
        uint32_t node = case_below(seed, nodes);
        if (c->question.mode == SPREAD_LINEAR) {
            if (from == nodes) break;
            node = from + case_below(seed, nodes - from < wanted ? 1 : (nodes - from) / wanted);
            from = node + 1;
        }
        float activation = case_chance(seed, 50) ? 1.0f : 0x1p-23f + fabsf(sample_uniform(seed));
        if (activation > 1.0f) activation = 1.0f;
        c->seeds[c->question.seed_count++] = (struct spread_seed){node, activation};
    }
    c->question.seeds = c->seeds;
}

static inline void case_allowed(struct spread_case *c, uint64_t *seed)
{
    c->allowed = calloc(c->sample.graph.nodes / 64 + 1, sizeof *c->allowed);
    for (uint32_t n = 0; n < c->sample.graph.nodes; n++)
        if (case_chance(seed, 70)) c->allowed[n / 64] |= 1ull << n % 64;
    for (uint64_t i = 0; i < c->question.seed_count; i++)
        c->allowed[c->seeds[i].node / 64] |= 1ull << c->seeds[i].node % 64;
    c->question.allowed = c->allowed;
}

/* The same seed makes the same case. decay and seeds are the case's own: it stays where it is. */
static inline void case_make(struct spread_case *c, enum spread_mode mode, uint32_t nodes_max,
                             uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->sample = case_sample(&seed, nodes_max);
    struct spread_question *q = &c->question;
    q->mode = mode;
    q->fan = (enum spread_fan)case_below(&seed, 3);
    q->ignore_kinds = case_chance(&seed, 30);
    q->last_hop = mode == SPREAD_LINEAR && case_chance(&seed, 30);
    q->paths = case_chance(&seed, 60);
    q->hops = case_chance(&seed, 5) ? SPREAD_HOPS_MAX : 1 + case_below(&seed, 20);
    case_decay(c, &seed);
    static const float levels[][SPREAD_TIERS] = {
        {0.01f, 0.05f, 0.1f}, {0, 0, 0}, {0.3f, 0.2f, 0.1f}, {1e-4f, 1e-6f, 0}, {0.5f, 0.9f, 1.0f}};
    memcpy(q->thresholds, levels[case_chance(&seed, 50) ? 0 : case_below(&seed, 5)],
           sizeof q->thresholds);
    case_seeds(c, &seed);
    if (case_chance(&seed, 25)) case_allowed(c, &seed);
    q->touched_max =
        case_chance(&seed, 30) ? 1 + case_below(&seed, c->sample.graph.nodes) : UINT64_MAX;
}

static inline void case_free(struct spread_case *c)
{
    spread_sample_free(&c->sample);
    free(c->seeds), free(c->allowed);
}

/* The kernels that this machine runs, the scalar ones first. */
static inline const struct spread_kernels *case_kernels(size_t i)
{
    const struct vector_kernels *variant = vectors_variant(i);
    return variant ? spread_kernels_for(variant->name) : NULL;
}

static inline size_t case_variants(void)
{
    size_t count = 0;
    while (case_kernels(count))
        count++;
    return count;
}

#endif
