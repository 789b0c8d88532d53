/* bench_pieces_long: how long a worker works on clusters and covariances in one piece, before it
 * looks at what others wait for, as bench_pieces does for shorter requests: the thread's own time,
 * so that a busy machine does not matter. */
#include <argp.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "kernels/vectors.h"
#include "tests/bench/bench.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/pieces.h"

enum { DIMENSION = 768, HEAP_GIB = 6, AVERAGE = 2 };
#define PIECE_MS 2.0

static uint32_t rows_count = 5000;

static struct job job_of(struct heap *heap, enum operation operation, const float *rows,
                         uint32_t count)
{
    struct job j = {.operation = operation,
                    .ops = operation_find(operation),
                    .heap = heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = 2,
                    .cluster_rows_max = {UINT32_MAX, UINT32_MAX},
                    .reply_bytes_max = UINT64_C(1) << 30};
    j.request.rows = (struct tensor){DTYPE_FLOAT32, count, DIMENSION, (void *)rows};
    return j;
}

static void measure(const char *what, struct job j)
{
    struct pieces p = {.timed = true};
    if (operation_check(&j)) bench_fail(what, j.failure.text);
    if (pieces_run(&p, &j)) bench_fail(what, j.failure.text);
    heap_give(j.heap, &j.result.block);
    double all = 0, longest = 0;
    for (uint64_t i = 0; i < p.count; i++) {
        all += p.ms[i];
        if (p.ms[i] > longest) longest = p.ms[i];
    }
    double p99 = bench_percentile(p.ms, p.count, 99);
    printf("  %-40s %9.1f ms %8llu %9.3f %9.3f ms%s\n", what, all, (unsigned long long)p.count, p99,
           longest, p99 <= PIECE_MS ? "" : "  MISSED: p99 <= 2 ms");
    fflush(stdout);
    pieces_finish(&p);
}

/* As a request's rows are: aligned. */
static float *rows_of(enum cluster_shape shape, uint32_t count, uint32_t planted)
{
    size_t bytes = (size_t)count * DIMENSION * sizeof(float);
    float *made = cluster_make(shape, count, DIMENSION, planted, 7);
    float *rows = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!rows) bench_fail("rows", "no memory");
    memcpy(rows, made, bytes);
    free(made);
    return rows;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)state;
    if (key == 'q') {
        rows_count = 1000;
        return 0;
    }
    if (key != 'r') return ARGP_ERR_UNKNOWN;
    rows_count = (uint32_t)strtoul(value, NULL, 10);
    return rows_count >= 2 ? 0 : EINVAL;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"quick", 'q', NULL, 0, "1,000 rows, for a first look", 0},
        {"rows", 'r', "N", 0,
         "Rows that are clustered; a covariance is of ten times as many (5000)", 0},
        {0}};
    static const struct argp parser = {known, parse, NULL, NULL, NULL, NULL, NULL};
    static const struct {
        const char *name;
        enum cluster_shape shape;
        uint32_t planted;
    } shapes[] = {{"planted by 20", CLUSTER_PLANTED, 20},
                  {"a chain", CLUSTER_CHAIN, 20},
                  {"a star", CLUSTER_STAR, 20}};
    struct heap *heap;
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    if (heap_create((uint64_t)HEAP_GIB << 30, &heap) || heap_start_releaser(heap))
        bench_fail("heap", "no memory");
    printf("%u x %d\n  %-40s %12s %8s %9s %12s\n", rows_count, DIMENSION, "", "in all", "pieces",
           "p99", "longest");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        float *rows = rows_of(shapes[i].shape, rows_count, shapes[i].planted);
        for (uint32_t rule = 1; rule <= AVERAGE; rule++) {
            char what[64];
            struct job j = job_of(heap, OPERATION_CLUSTER, rows, rows_count);
            j.request.cluster.rule = rule;
            snprintf(what, sizeof what, "%s, %s", rule == AVERAGE ? "average" : "centroid",
                     shapes[i].name);
            measure(what, j);
        }
        free(rows);
    }
    float *rows = rows_of(CLUSTER_GAUSSIAN, 10 * rows_count, 20);
    measure("covariance of ten times as many",
            job_of(heap, OPERATION_COVARIANCE, rows, 10 * rows_count));
    free(rows);
    heap_destroy(heap);
    return 0;
}
