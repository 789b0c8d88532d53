/* recall_scene: questions for gpu_recall, and what they are asked of.
 * Owner:  included by it; everything is static inline. free_scene.
 * Thread: one.
 * Errors: a failed allocation ends the program. */
#ifndef ENGRAM_TESTS_GPU_RECALL_SCENE_H
#define ENGRAM_TESTS_GPU_RECALL_SCENE_H

#include "kernels/cuda/recall_cuda.h"
#include "tests/kernels/spread_cases.h"
#include "tests/support/spread_rows.h"

enum { LISTS_MAX = 5, CUES_MAX = 12, STRANGERS = 9 };
enum {
    BENCH_NODES = 100000,
    BENCH_EDGES = 1000000,
    BENCH_D = 768,
    BENCH_CLUSTER = 40,
    BENCH_HOPS = 4
};

static const struct vector_kernels *vectors; /* set by main */

/* A question, and what it is asked of; on the host. */
struct scene {
    struct spread_case c;
    struct spread_rows rows; /* of nodes, and of ids that are none */
    bool similar;
    float *cues, *norms;
    uint64_t offsets[LISTS_MAX + 1];
    struct cuda_recall r;
};

static inline void *memory_of(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, bytes + 256)) abort();
    memset(p, 0, bytes + 256);
    return p;
}

static inline void make_rows(struct scene *s, uint32_t dimension, uint32_t missing, uint64_t seed)
{
    const struct spread_graph *g = &s->c.sample.graph;
    struct spread_graph more = *g;
    uint64_t *ids = memory_of((g->nodes + STRANGERS) * sizeof *ids);
    memcpy(ids, g->ids, g->nodes * sizeof *ids);
    for (uint32_t i = 0; i < STRANGERS; i++)
        ids[g->nodes + i] = sample_random(&seed) | (uint64_t)1 << 63;
    more.ids = ids;
    more.nodes = g->nodes + STRANGERS;
    spread_rows_make(&s->rows, &more, dimension, missing, seed);
    free(ids);
}

/* Cues near rows, so that some are found. */
static inline void make_cues(struct scene *s, uint64_t *seed)
{
    const uint32_t d = s->rows.embeddings.dimension;
    const size_t stride = vector_stride(d);
    s->cues = memory_of(CUES_MAX * stride * sizeof *s->cues);
    s->norms = memory_of(CUES_MAX * sizeof *s->norms);
    for (uint64_t i = 0; i < s->r.cues; i++) {
        const float *row = s->rows.rows + case_below(seed, s->rows.count) * stride;
        for (uint32_t k = 0; k < d; k++)
            s->cues[i * stride + k] = row[k] + 0.5f * sample_uniform(seed);
    }
    vectors->norms(d, s->cues, s->r.cues, s->norms);
}

static inline void make_scene(struct scene *s, uint64_t seed, uint32_t nodes_max)
{
    static const uint32_t dimensions[] = {1, 3, 8, 33, 64, 768, 1024, 1025};
    uint64_t random = seed ^ 0x2eca11;
    const enum spread_mode mode = case_chance(&random, 50) ? SPREAD_ENGRAM : SPREAD_LINEAR;
    memset(s, 0, sizeof *s);
    case_make(&s->c, mode, nodes_max, seed);
    make_rows(s, dimensions[case_below(&random, 8)], case_below(&random, 300), seed);
    s->similar = mode == SPREAD_ENGRAM && case_chance(&random, 50);
    s->r.lists = 1 + case_below(&random, LISTS_MAX);
    for (uint32_t i = 0; i < s->r.lists; i++) {
        const uint64_t most = case_chance(&random, 60) ? 1 : (CUES_MAX - LISTS_MAX) / 2;
        s->offsets[i + 1] = s->offsets[i] + (case_chance(&random, 10) ? 0 : most);
        if (s->offsets[i + 1] > CUES_MAX) s->offsets[i + 1] = CUES_MAX;
    }
    if (s->offsets[s->r.lists] == 0) s->offsets[s->r.lists] = 1;
    s->r.cues = s->offsets[s->r.lists];
    s->r.k = 1 + case_below(&random, case_chance(&random, 50) ? 4 : 200);
    s->r.results = 1 + case_below(&random, case_chance(&random, 50) ? 5 : 300);
    s->r.threshold = case_chance(&random, 30) ? -1.0f : 0.9f * sample_uniform(&random);
    s->r.width = 0.05f + fabsf(sample_uniform(&random));
    s->r.activation_min = case_chance(&random, 30) ? 0.8f : RECALL_ACTIVATION_MIN;
    s->r.boost = case_chance(&random, 30) ? 0.0f : 1.1f;
    s->r.paths = s->c.question.paths;
    make_cues(s, &random);
}

/* A recall as a memory engine asks it. */
static inline void make_bench(struct scene *s, enum spread_mode mode, bool similar)
{
    uint64_t seed = 1;
    const size_t stride = vector_stride(BENCH_D);
    float center[BENCH_D];
    memset(s, 0, sizeof *s);
    struct spread_sample_edge *edges = spread_uniform_edges(BENCH_NODES, BENCH_EDGES, &seed);
    s->c.sample = spread_sample_of(BENCH_NODES, edges, BENCH_EDGES, NULL, NULL, false);
    free(edges);
    for (int d = 1; d <= BENCH_HOPS; d++)
        s->c.decay[d] = (float)exp(-0.7 * d);
    s->c.question = (struct spread_question){.mode = mode,
                                             .fan = SPREAD_FAN_NONE,
                                             .hops = BENCH_HOPS,
                                             .thresholds = {0.01f, 0.05f, 0.1f},
                                             .touched_max = UINT64_MAX,
                                             .decay = s->c.decay};
    s->similar = similar;
    make_rows(s, BENCH_D, 0, seed);
    for (uint32_t i = 0; i < s->rows.count; i++)
        for (uint32_t k = 0; k < BENCH_D; k++) {
            if (i % BENCH_CLUSTER == 0) center[k] = sample_uniform(&seed);
            s->rows.rows[i * stride + k] = center[k] + sample_uniform(&seed);
        }
    vectors->norms(BENCH_D, s->rows.rows, s->rows.count, s->rows.norms);
    s->r.lists = 1;
    s->offsets[1] = s->r.cues = 1;
    s->r.k = s->r.results = 100;
    s->r.threshold = RECALL_THRESHOLD;
    s->r.width = RECALL_WIDTH;
    s->r.activation_min = RECALL_ACTIVATION_MIN;
    s->r.boost = RECALL_BOOST;
    make_cues(s, &seed);
}

/* Of the same graph and rows, another spread. */
static inline void ask_mode(struct scene *s, enum spread_mode mode, bool similar)
{
    s->c.question.mode = mode;
    s->c.question.hops = mode == SPREAD_LINEAR ? 3 : BENCH_HOPS;
    s->similar = similar;
}

static inline void free_scene(struct scene *s)
{
    spread_rows_free(&s->rows);
    case_free(&s->c);
    free(s->cues), free(s->norms);
}

#endif
