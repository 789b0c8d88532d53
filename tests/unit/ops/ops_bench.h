/* ops_bench: a collection of small numbers, and jobs on it that run for several worker counts.
 * Owner:  the test.
 * Thread: one.
 * Errors: none; what fails, fails the test. */
#ifndef ENGRAM_TESTS_OPS_BENCH_H
#define ENGRAM_TESTS_OPS_BENCH_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "tests/support/run_job.h"

struct bench {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    uint32_t dimension;
    uint64_t rows;
    uint64_t *ids;
    float *data;
};

static inline float *make_floats(uint64_t count, unsigned seed)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 64) / 64 * 64);
    for (uint64_t i = 0; i < count; i++)
        p[i] = (float)(rand_r(&seed) % 61 - 30) / 16.0f;
    return p;
}

static inline struct bench open_bench(uint32_t dimension, uint64_t rows)
{
    struct bench b = {.dimension = dimension, .rows = rows};
    cr_assert_eq(heap_create(UINT64_C(1) << 28, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    cr_assert_eq(store_collection_create(b.store, b.space, "c", dimension, METRIC_COSINE, NULL,
                                         &b.collection),
                 STATUS_OK);
    b.ids = malloc((rows + 1) * sizeof *b.ids);
    b.data = make_floats(rows * dimension, 11);
    for (uint64_t i = 0; i < rows; i++)
        b.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(b.collection, b.ids, b.data, rows, &counts, NULL), STATUS_OK);
    return b;
}

static inline void close_bench(struct bench *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
    free(b->ids);
    free(b->data);
}

static inline struct job make_job(struct bench *b, enum operation operation, bool in_line)
{
    return (struct job){.operation = operation,
                        .space = b->space,
                        .resident = in_line ? NULL : collection_resident(b->collection),
                        .collection = in_line ? NULL : collection_now(b->collection),
                        .heap = b->heap,
                        .kernels = vectors_choose("auto"),
                        .worker_count = 3,
                        .reply_bytes_max = UINT64_C(1) << 27};
}

static inline struct tensor floats(const float *data, uint64_t rows, uint64_t columns)
{
    return (struct tensor){DTYPE_FLOAT32, rows, columns, (void *)data};
}

static inline struct tensor numbers(const uint64_t *data, uint64_t rows)
{
    return (struct tensor){DTYPE_UINT64, rows, 1, (void *)data};
}

/* Runs for several worker counts; the bytes must not differ. The last result stays. */
static inline void run_all_ways(struct job *j)
{
    char *first = NULL;
    uint64_t first_bytes = 0;
    for (uint32_t workers = 1; workers <= 9; workers += 4) {
        run_job_reset(j);
        j->worker_count = workers;
        cr_assert_eq(run_job(j, workers), STATUS_OK, "%s", j->failure.text);
        if (!first) {
            first_bytes = j->result.body_bytes;
            first = malloc(first_bytes + 1);
            memcpy(first, first_bytes ? j->result.block.data : first, first_bytes);
        }
        cr_assert_eq(j->result.body_bytes, first_bytes);
        cr_assert(!first_bytes || !memcmp(first, j->result.block.data, first_bytes));
    }
    free(first);
}

static inline void expect(struct job *j, enum status code, enum detail detail, const char *text)
{
    for (uint32_t workers = 1; workers <= 5; workers += 2) {
        j->worker_count = workers;
        uint64_t blocks = heap_usage(j->heap).blocks;
        cr_assert_eq(run_job(j, workers), code, "%s: %s", text, j->failure.text);
        cr_assert_eq(j->failure.detail, detail, "%s: %s", text, j->failure.text);
        cr_assert_not_null(strstr(j->failure.text, text), "%s: %s", text, j->failure.text);
        cr_assert_eq(heap_usage(j->heap).blocks, blocks);
        run_job_reset(j);
    }
}

#endif
