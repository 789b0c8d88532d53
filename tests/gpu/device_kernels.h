/* device_kernels: the operations of a device table against the CPU's kernels, bit for bit, on a
 * little data; gpu_bits.c has the hard cases.
 * Owner, thread, errors: as device_scene.h. */
#ifndef ENGRAM_TESTS_GPU_DEVICE_KERNELS_H
#define ENGRAM_TESTS_GPU_DEVICE_KERNELS_H

#include "kernels/topk.h"
#include "tests/gpu/device_scene.h"

enum { ROWS = 700, QUERIES = 5, BEST = 10 };

struct sums {
    uint32_t dimension;
    float *rows, *queries;
    float row_norms[ROWS], query_norms[QUERIES];
    float scores[QUERIES * ROWS]; /* expected */
    struct cuda_rows device_rows;
    struct cuda_queries device_queries;
};

static void compute_scores(struct sums *c, enum metric metric)
{
    const struct vector_kernels *cpu = vectors_choose("auto");
    void *packed = NULL;
    if (posix_memalign(&packed, 64, cpu->pack_bytes(c->dimension, QUERIES)) != 0) abort();
    cpu->pack(c->dimension, c->queries, QUERIES, packed);
    struct query_pack pack = {packed, c->query_norms, QUERIES};
    struct row_block block = {c->rows, c->row_norms, ROWS};
    cpu->tile(metric, c->dimension, &pack, block, c->scores, ROWS);
    free(packed);
}

static void check_norms(struct sums *c)
{
    float got[ROWS];
    float *norms = (float *)c->device_rows.norms, *query_norms = (float *)c->device_queries.norms;
    struct cuda_rows as_rows = {c->dimension, c->device_queries.rows, NULL, QUERIES};
    MUST(ops->launch(d, CALL(.kernel = KERNEL_NORMS, .rows = c->device_rows, .norms.out = norms),
                     stream));
    MUST(ops->launch(d, CALL(.kernel = KERNEL_NORMS, .rows = as_rows, .norms.out = query_norms),
                     stream));
    wait();
    read_device(got, norms, sizeof got);
    EXPECT(same_bits(got, c->row_norms, ROWS));
    read_device(got, query_norms, sizeof c->query_norms);
    EXPECT(same_bits(got, c->query_norms, QUERIES));
}

static void check_scores(struct sums *c, enum metric metric)
{
    static float got[QUERIES * ROWS];
    float *scores = device_memory(sizeof got);
    MUST(ops->launch(d,
                     CALL(.kernel = KERNEL_TILE, .metric = metric, .queries = c->device_queries,
                          .rows = c->device_rows, .scores = {scores, ROWS}),
                     stream));
    wait();
    read_device(got, scores, sizeof got);
    EXPECT(same_bits(got, c->scores, QUERIES * ROWS));
    MUST(ops->clear(d, scores, sizeof got, stream));
    MUST(ops->launch(d,
                     CALL(.kernel = KERNEL_SCAN, .metric = metric, .queries = c->device_queries,
                          .rows = c->device_rows, .scores.out = scores),
                     stream));
    wait();
    read_device(got, scores, sizeof got);
    EXPECT(same_bits(got, c->scores, ROWS) && got[ROWS] == 0.0f);
    ops->release(d, scores);
}

static void check_topk(struct sums *c, enum metric metric)
{
    uint64_t ids[QUERIES * BEST];
    float scores[QUERIES * BEST];
    uint32_t counts[QUERIES];
    uint64_t least = ops->topk_scratch_min(QUERIES, BEST, ROWS);
    uint64_t best = ops->topk_scratch_best(QUERIES, BEST, ROWS);
    EXPECT(least > 0 && least <= best);
    struct cuda_topk topk = {.k = BEST,
                             .first_id = 1000,
                             .scratch = device_memory(best),
                             .scratch_bytes = best,
                             .out_ids = device_memory(sizeof ids),
                             .out_scores = device_memory(sizeof scores),
                             .out_counts = device_memory(sizeof counts)};
    MUST(ops->launch(d,
                     CALL(.kernel = KERNEL_TOPK, .metric = metric, .queries = c->device_queries,
                          .rows = c->device_rows, .topk = topk),
                     stream));
    wait();
    read_device(ids, topk.out_ids, sizeof ids);
    read_device(scores, topk.out_scores, sizeof scores);
    read_device(counts, topk.out_counts, sizeof counts);
    for (size_t q = 0; q < QUERIES; q++) {
        static struct topk_entry sorted[ROWS];
        bool same = counts[q] == BEST;
        for (size_t r = 0; r < ROWS; r++) {
            float score = c->scores[q * ROWS + r];
            uint32_t key = topk_key(score, metric_lower_is_better(metric));
            sorted[r] = (struct topk_entry){1000 + r, key, score};
        }
        topk_sort(sorted, ROWS);
        for (size_t i = 0; i < BEST; i++)
            same = same && ids[q * BEST + i] == sorted[i].id &&
                   same_bits(&scores[q * BEST + i], &sorted[i].score, 1);
        EXPECT(same);
    }
    ops->release(d, topk.scratch), ops->release(d, topk.out_ids);
    ops->release(d, topk.out_scores), ops->release(d, topk.out_counts);
}

/* Whether this table has the operation already. */
static bool is_there(enum device_result result)
{
    if (result == DEVICE_ERROR && strstr(ops->last_error(d), "not built in")) return false;
    MUST(result);
    return true;
}

static void check_lists(struct sums *c, enum metric metric)
{
    const uint64_t offsets[QUERIES + 1] = {0, 100, 100, 101, 250, 300};
    enum { LISTED = 300 };
    uint32_t positions[LISTED];
    float expected[LISTED], got[LISTED];
    for (uint32_t i = 0, q = 0; i < LISTED; i++) {
        while (i >= offsets[q + 1])
            q++;
        positions[i] = i * 7919 % ROWS;
        expected[i] = c->scores[q * ROWS + positions[i]];
    }
    uint32_t *device_positions = device_copy(positions, sizeof positions);
    uint64_t *device_offsets = device_copy(offsets, sizeof offsets);
    float *scores = device_memory(sizeof got);
    if (is_there(ops->launch(d,
                             CALL(.kernel = KERNEL_GATHER_LISTS, .metric = metric,
                                  .queries = c->device_queries, .rows = c->device_rows,
                                  .lists = {device_positions, device_offsets, LISTED, scores}),
                             stream))) {
        wait();
        read_device(got, scores, sizeof got);
        EXPECT(same_bits(got, expected, LISTED));
    }
    ops->release(d, device_positions), ops->release(d, device_offsets), ops->release(d, scores);
}

/* Every row in order, shared out between the queries: no positions. */
static void check_lists_in_order(struct sums *c, enum metric metric)
{
    const uint64_t offsets[QUERIES + 1] = {0, 0, 1, 400, 400, ROWS};
    float expected[ROWS], got[ROWS];
    for (uint32_t i = 0, q = 0; i < ROWS; i++) {
        while (i >= offsets[q + 1])
            q++;
        expected[i] = c->scores[q * ROWS + i];
    }
    uint64_t *device_offsets = device_copy(offsets, sizeof offsets);
    float *scores = device_memory(sizeof got);
    MUST(ops->launch(d,
                     CALL(.kernel = KERNEL_GATHER_LISTS, .metric = metric,
                          .queries = c->device_queries, .rows = c->device_rows,
                          .lists = {NULL, device_offsets, ROWS, scores}),
                     stream));
    wait();
    read_device(got, scores, sizeof got);
    EXPECT(same_bits(got, expected, ROWS));
    ops->release(d, device_offsets), ops->release(d, scores);
}

/* The first norm that is not finite, of few and of more than a block has threads. */
static void check_find_bad(void)
{
    enum { NORMS = 5000 };
    static float norms[NORMS];
    const uint64_t bad[] = {0, 1, 31, 1023, 1024, 4999, UINT64_MAX};
    uint64_t *first = device_memory(sizeof *first), got = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (uint64_t n = 0; n < NORMS; n++)
            norms[n] = n < bad[i] ? (float)n : n % 3 ? 1.0f : n % 2 ? NAN : INFINITY;
        if (bad[i] < NORMS) norms[bad[i]] = INFINITY;
        struct cuda_rows rows = {.norms = device_copy(norms, sizeof norms), .count = NORMS};
        MUST(ops->launch(d, CALL(.kernel = KERNEL_FIND_BAD, .rows = rows, .find_bad.out = first),
                         stream));
        wait();
        read_device(&got, first, sizeof got);
        EXPECT(got == bad[i]);
        rows.count = bad[i] < NORMS ? bad[i] : 0; /* those before it are all good */
        MUST(ops->launch(d, CALL(.kernel = KERNEL_FIND_BAD, .rows = rows, .find_bad.out = first),
                         stream));
        wait();
        read_device(&got, first, sizeof got);
        EXPECT(got == UINT64_MAX);
        ops->release(d, (void *)rows.norms);
    }
    ops->release(d, first);
}

/* positions: whether rows are listed, or the first ones in order. */
static void check_average(struct sums *c, uint64_t count, bool listed)
{
    enum { AVERAGED = 60 };
    static float got[VECTOR_DIMENSION_MAX], expected[VECTOR_DIMENSION_MAX];
    size_t stride = vector_stride(c->dimension);
    uint32_t positions[AVERAGED];
    float weights[AVERAGED], total = 0.0f;
    memset(expected, 0, sizeof expected);
    for (uint32_t i = 0; i < AVERAGED; i++) {
        positions[i] = listed ? i * 31 % ROWS : i;
        weights[i] = 0.25f + (float)(i % 7);
        if (i >= count) continue;
        total += weights[i];
        for (size_t k = 0; k < c->dimension; k++)
            expected[k] = fmaf(weights[i], c->rows[positions[i] * stride + k], expected[k]);
    }
    for (size_t k = 0; k < c->dimension && total != 0.0f; k++)
        expected[k] /= total;
    uint32_t *device_positions = device_copy(positions, sizeof positions);
    float *device_weights = device_copy(weights, sizeof weights);
    float *average = device_memory(stride * sizeof(float));
    if (is_there(ops->launch(d,
                             CALL(.kernel = KERNEL_AVERAGE, .rows = c->device_rows,
                                  .average = {listed ? device_positions : NULL, device_weights,
                                              count, total, average}),
                             stream))) {
        wait();
        read_device(got, average, c->dimension * sizeof(float));
        EXPECT(same_bits(got, expected, c->dimension));
    }
    ops->release(d, device_positions), ops->release(d, device_weights), ops->release(d, average);
}

static void check_kernels(void)
{
    const uint32_t dimensions[] = {33, 384, 1100};
    static struct sums c;
    check_find_bad();
    for (size_t n = 0; n < sizeof dimensions / sizeof *dimensions; n++) {
        const struct vector_kernels *cpu = vectors_choose("auto");
        size_t row = vector_stride(dimensions[n]) * sizeof(float);
        c.dimension = dimensions[n];
        c.rows = samples_create(c.dimension, ROWS, n, 1 + n);
        c.queries = samples_create(c.dimension, QUERIES, n + 4, 100 + n);
        cpu->norms(c.dimension, c.rows, ROWS, c.row_norms);
        cpu->norms(c.dimension, c.queries, QUERIES, c.query_norms);
        float *rows = device_copy(c.rows, ROWS * row), *norms = device_memory(sizeof c.row_norms);
        float *queries = device_copy(c.queries, QUERIES * row);
        float *query_norms = device_memory(sizeof c.query_norms);
        c.device_rows = (struct cuda_rows){c.dimension, rows, norms, ROWS};
        c.device_queries = (struct cuda_queries){queries, query_norms, QUERIES};
        check_norms(&c);
        for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
            compute_scores(&c, (enum metric)metric);
            check_scores(&c, (enum metric)metric);
            check_topk(&c, (enum metric)metric);
            check_lists(&c, (enum metric)metric);
            check_lists_in_order(&c, (enum metric)metric);
        }
        check_average(&c, 60, true);
        check_average(&c, 60, false);
        check_average(&c, 0, true);
        ops->release(d, rows), ops->release(d, norms);
        ops->release(d, queries), ops->release(d, query_norms);
        samples_free(c.rows), samples_free(c.queries);
    }
}

#endif
