/* gpu_bench [FILE [PART]]: times the GPU kernels over 1,000,000 x 768 against the card's own copy
 * rate. Device time by events, median of many; each line also goes to FILE as "name milliseconds"
 * for torch_peer.py, which sets the same questions to torch. PART: only what this is part of. */
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { ROWS = 1000000, DIMENSION = 768, QUERIES = 1024, RUNS_MAX = 101, LISTED = 1000 };

struct bench {
    struct cuda_rows rows;
    struct cuda_queries queries;
    float *scores, *spare;
    void *scratch;
    uint64_t scratch_bytes;
    uint64_t *out_ids;
    float *out_scores;
    uint32_t *out_counts;
    uint32_t *positions; /* QUERIES x LISTED, anywhere */
    uint64_t *offsets;   /* LISTED for each query */
    float *weights;
    struct cuda_topk_work *work;
    struct cuda_filter filter; /* FILTERED */
    cudaStream_t stream;
    cudaEvent_t start, stop;
    FILE *file;
    const char *part;
};

struct question {
    uint64_t rows, queries;
    uint32_t k; /* 0: all scores */
    enum metric metric;
    /* LISTS: LISTED rows of each query; FILTERED: every other query may have half of the rows */
    enum { WHOLE, LISTS, AVERAGE, FILTERED } what;
};

static void ask(struct bench *b, const struct question *q)
{
    struct cuda_rows rows = b->rows;
    struct cuda_queries queries = b->queries;
    rows.count = q->rows;
    queries.count = q->queries;
    struct cuda_topk topk = {.k = q->k,
                             .scratch = b->scratch,
                             .scratch_bytes = b->scratch_bytes,
                             .out_ids = b->out_ids,
                             .out_scores = b->out_scores,
                             .out_counts = b->out_counts,
                             .work = b->work};
    if (q->what == FILTERED) topk.filter = b->filter;
    if (q->what == LISTS)
        DEVICE(cuda_gather_lists(q->metric, &queries, &b->rows, b->positions, b->offsets,
                                 q->queries * LISTED, b->scores, b->stream));
    else if (q->what == AVERAGE)
        DEVICE(cuda_weighted_average(&b->rows, b->positions, b->weights, q->rows, 3.0f, b->scores,
                                     b->stream));
    else if (q->rows == 0)
        DEVICE(cudaMemcpyAsync(b->spare, b->rows.rows, (size_t)ROWS * DIMENSION * sizeof(float),
                               cudaMemcpyDeviceToDevice, b->stream));
    else if (q->k)
        DEVICE(cuda_topk(q->metric, &queries, &rows, &topk, b->stream));
    else if (q->queries == 1)
        DEVICE(cuda_scan(q->metric, &queries, &rows, b->scores, b->stream));
    else
        DEVICE(cuda_tile(q->metric, &queries, &rows, b->scores, rows.count, b->stream));
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median milliseconds; prints p99 too. */
static float measure(struct bench *b, const char *name, struct question q, int runs)
{
    float times[RUNS_MAX];
    if (b->part && !strstr(name, b->part)) return 0.0f;
    struct cuda_topk_work work;
    for (int n = 0; n < 3; n++) {
        DEVICE(cudaMemsetAsync(b->work, 0, sizeof work, b->stream));
        ask(b, &q);
    }
    DEVICE(cudaMemcpy(&work, b->work, sizeof work, cudaMemcpyDeviceToHost));
    for (int n = 0; n < runs; n++) {
        DEVICE(cudaEventRecord(b->start, b->stream));
        ask(b, &q);
        DEVICE(cudaEventRecord(b->stop, b->stream));
        DEVICE(cudaEventSynchronize(b->stop));
        DEVICE(cudaEventElapsedTime(&times[n], b->start, b->stop));
    }
    qsort(times, (size_t)runs, sizeof *times, by_value);
    float median = times[runs / 2];
    double product = 2.0 * (double)q.rows * (double)q.queries * b->rows.dimension;
    printf("%-34s p50 %9.4f ms  p99 %9.4f ms  %6.2f TFLOP/s", name, median,
           times[(runs - 1) * 99 / 100], product / median / 1e9);
    if (work.passed || work.redone)
        printf("  passed %.0f a query, redone %llu", (double)work.passed / (double)q.queries,
               work.redone);
    printf("\n");
    fflush(stdout);
    if (b->file) fprintf(b->file, "%s %.6f\n", name, median);
    return median;
}

static float *random_rows(size_t count, uint64_t seed)
{
    size_t bytes = count * DIMENSION * sizeof(float), part = (size_t)64 << 20;
    float *host = malloc(part);
    if (!host) abort();
    char *device = device_allocate(bytes);
    for (size_t at = 0; at < bytes; at += part) {
        size_t now = bytes - at < part ? bytes - at : part;
        for (size_t i = 0; i < now / sizeof(float); i++)
            host[i] = sample_uniform(&seed);
        DEVICE(cudaMemcpy(device + at, host, now, cudaMemcpyHostToDevice));
    }
    free(host);
    return (float *)device;
}

/* Rows around `clusters` centers; noise is a share of them. */
static void clustered_rows(float *device, size_t count, size_t clusters, float noise, uint64_t seed)
{
    enum { PART = 16384 };
    float *centers = malloc(clusters * DIMENSION * sizeof(float));
    float *host = malloc((size_t)PART * DIMENSION * sizeof(float));
    if (!centers || !host) abort();
    uint64_t same = 3;
    for (size_t i = 0; i < clusters * DIMENSION; i++)
        centers[i] = sample_uniform(&same);
    for (size_t at = 0; at < count; at += PART) {
        size_t rows = count - at < PART ? count - at : PART;
        for (size_t i = 0; i < rows * DIMENSION; i++)
            host[i] = centers[(at * 7 + i / DIMENSION) % clusters * DIMENSION + i % DIMENSION] +
                      noise * sample_uniform(&seed);
        DEVICE(cudaMemcpy(device + at * DIMENSION, host, rows * DIMENSION * sizeof(float),
                          cudaMemcpyHostToDevice));
    }
    free(centers), free(host);
}

/* After all else: it puts other rows and queries in place of the first ones. */
static void clustered(struct bench *b, const char *how, size_t clusters, float noise)
{
    struct cuda_rows as_rows = {DIMENSION, b->queries.rows, NULL, QUERIES};
    if (b->part && !strstr(how, b->part)) return;
    clustered_rows((float *)b->rows.rows, ROWS, clusters, noise, 1);
    clustered_rows((float *)b->queries.rows, QUERIES, clusters, noise, 2);
    DEVICE(cuda_norms(&b->rows, (float *)b->rows.norms, b->stream));
    DEVICE(cuda_norms(&as_rows, (float *)b->queries.norms, b->stream));
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        static const char *const names[] = {"", "cosine", "dot", "euclidean"};
        char name[64];
        for (uint64_t queries = 128; queries <= QUERIES; queries *= 8) {
            snprintf(name, sizeof name, "knn_%u_%s_%s", (unsigned)queries, how, names[metric]);
            measure(b, name, (struct question){ROWS, queries, 10, (enum metric)metric, WHOLE}, 5);
        }
    }
}

static void verdict(const char *what, double got, double target)
{
    printf("%-44s %6.3f  target %5.2f  %s\n", what, got, target, got >= target ? "ok" : "MISSED");
}

static void lists_create(struct bench *b)
{
    const size_t count = (size_t)QUERIES * LISTED;
    uint32_t *positions = malloc(count * sizeof *positions);
    uint64_t offsets[QUERIES + 1], seed = 5;
    if (!positions) abort();
    for (size_t i = 0; i < count; i++)
        positions[i] = (uint32_t)(sample_random(&seed) % ROWS);
    for (size_t q = 0; q <= QUERIES; q++)
        offsets[q] = q * LISTED;
    b->positions = device_copy_of(positions, count * sizeof *positions);
    b->offsets = device_copy_of(offsets, sizeof offsets);
    b->weights = random_rows(count / DIMENSION + 1, 7);
    free(positions);
}

static void filter_create(struct bench *b)
{
    const size_t words = (ROWS + 63) / 64;
    uint64_t *allowed = malloc(words * sizeof *allowed), seed = 6;
    uint32_t of[QUERIES];
    if (!allowed) abort();
    for (size_t w = 0; w < words; w++)
        allowed[w] = sample_random(&seed);
    for (size_t q = 0; q < QUERIES; q++)
        of[q] = q % 2 ? CUDA_FILTER_NONE : 0;
    b->filter = (struct cuda_filter){device_copy_of(allowed, words * sizeof *allowed),
                                     device_copy_of(of, sizeof of), words};
    free(allowed);
}

/* Requests of a query each that run as one: what they take of the time that one takes, and that as
 * many would take one after the other. one: knn_1. */
static void batches(struct bench *b, float one)
{
    filter_create(b);
    for (uint64_t queries = 2; queries <= 64; queries *= 2) {
        char name[64];
        snprintf(name, sizeof name, "knn_%u", (unsigned)queries);
        float all = measure(b, name, (struct question){ROWS, queries, 10, METRIC_DOT, WHOLE}, 51);
        strcat(name, "_filtered");
        measure(b, name, (struct question){ROWS, queries, 10, METRIC_DOT, FILTERED}, 51);
        if (b->part) continue;
        printf("  %2u queries: %.3f x one, %.3f x one by one\n", (unsigned)queries, all / one,
               all / one / (float)queries);
    }
}

static void few_rows(struct bench *b)
{
    const enum metric dot = METRIC_DOT;
    measure(b, "scan_1000_rows", (struct question){1000, 1, 0, dot, WHOLE}, 101);
    measure(b, "scan_10000_rows", (struct question){10000, 1, 0, dot, WHOLE}, 101);
    measure(b, "scan_100000_rows", (struct question){100000, 1, 0, dot, WHOLE}, 101);
    measure(b, "knn_1_1000_rows", (struct question){1000, 1, 10, dot, WHOLE}, 101);
    measure(b, "knn_1_10000_rows", (struct question){10000, 1, 10, dot, WHOLE}, 101);
    measure(b, "knn_1_100000_rows", (struct question){100000, 1, 10, dot, WHOLE}, 101);
    measure(b, "knn_1_100000_rows_k100", (struct question){100000, 1, 100, dot, WHOLE}, 101);
    measure(b, "lists_16x1000", (struct question){LISTED, 16, 0, dot, LISTS}, 51);
    measure(b, "lists_1024x1000", (struct question){LISTED, 1024, 0, dot, LISTS}, 31);
    measure(b, "average_100", (struct question){100, 1, 0, dot, AVERAGE}, 51);
    measure(b, "average_10000", (struct question){10000, 1, 0, dot, AVERAGE}, 51);
    measure(b, "average_100000", (struct question){100000, 1, 0, dot, AVERAGE}, 51);
}

/* Late: the norms are then those of the same bytes, read as 500,000 x 1,536. */
static void compensated(struct bench *b)
{
    struct cuda_rows rows = b->rows;
    struct cuda_queries queries = b->queries;
    struct cuda_rows as_rows = {2 * DIMENSION, queries.rows, NULL, QUERIES / 2};
    b->rows.dimension = 2 * DIMENSION;
    b->rows.count = ROWS / 2;
    DEVICE(cuda_norms(&b->rows, (float *)rows.norms, b->stream));
    DEVICE(cuda_norms(&as_rows, (float *)queries.norms, b->stream));
    measure(b, "scan_500000x1536", (struct question){ROWS / 2, 1, 0, METRIC_DOT, WHOLE}, 51);
    measure(b, "knn_2_500000x1536", (struct question){ROWS / 2, 2, 10, METRIC_DOT, WHOLE}, 11);
    measure(b, "knn_4_500000x1536", (struct question){ROWS / 2, 4, 10, METRIC_DOT, WHOLE}, 11);
    measure(b, "knn_16_500000x1536", (struct question){ROWS / 2, 16, 10, METRIC_DOT, WHOLE}, 11);
    measure(b, "knn_128_500000x1536", (struct question){ROWS / 2, 128, 10, METRIC_DOT, WHOLE}, 5);
    b->rows = rows;
    b->queries = queries;
}

int main(int argc, char **argv)
{
    device_open();
    struct bench b = {.file = argc > 1 ? fopen(argv[1], "w") : NULL,
                      .part = argc > 2 ? argv[2] : NULL};
    DEVICE(cudaStreamCreate(&b.stream));
    DEVICE(cudaEventCreate(&b.start));
    DEVICE(cudaEventCreate(&b.stop));
    float *norms = device_allocate(ROWS * sizeof(float));
    float *query_norms = device_allocate(QUERIES * sizeof(float));
    b.rows = (struct cuda_rows){DIMENSION, random_rows(ROWS, 1), norms, ROWS};
    b.queries = (struct cuda_queries){random_rows(QUERIES, 2), query_norms, QUERIES};
    struct cuda_rows as_rows = {DIMENSION, b.queries.rows, NULL, QUERIES};
    DEVICE(cuda_norms(&b.rows, norms, b.stream));
    DEVICE(cuda_norms(&as_rows, query_norms, b.stream));
    b.scores = device_allocate((size_t)ROWS * 128 * sizeof(float));
    b.spare = device_allocate((size_t)ROWS * DIMENSION * sizeof(float));
    for (uint64_t queries = 1; queries <= QUERIES; queries *= 2) {
        uint64_t bytes = cuda_topk_scratch_best(queries, TOPK_K_MAX, ROWS);
        if (bytes > b.scratch_bytes) b.scratch_bytes = bytes;
    }
    b.scratch = device_allocate(b.scratch_bytes);
    b.out_ids = device_allocate((size_t)QUERIES * TOPK_K_MAX * sizeof *b.out_ids);
    b.out_scores = device_allocate((size_t)QUERIES * TOPK_K_MAX * sizeof *b.out_scores);
    b.out_counts = device_allocate(QUERIES * sizeof *b.out_counts);
    b.work = device_allocate(sizeof *b.work);

    const enum metric dot = METRIC_DOT;
    float copy = measure(&b, "copy", (struct question){0, 1, 0, dot, WHOLE}, 51);
    float scan = measure(&b, "scan", (struct question){ROWS, 1, 0, dot, WHOLE}, 101);
    measure(&b, "scan_cosine", (struct question){ROWS, 1, 0, METRIC_COSINE, WHOLE}, 51);
    measure(&b, "scan_euclidean", (struct question){ROWS, 1, 0, METRIC_SQUARED_EUCLIDEAN, WHOLE},
            51);
    float knn = measure(&b, "knn_1", (struct question){ROWS, 1, 10, dot, WHOLE}, 101);
    batches(&b, knn);
    measure(&b, "knn_128", (struct question){ROWS, 128, 10, dot, WHOLE}, 31);
    measure(&b, "knn_1024", (struct question){ROWS, 1024, 10, dot, WHOLE}, 11);
    measure(&b, "knn_1024_cosine", (struct question){ROWS, 1024, 10, METRIC_COSINE, WHOLE}, 5);
    measure(&b, "knn_1024_euclidean",
            (struct question){ROWS, 1024, 10, METRIC_SQUARED_EUCLIDEAN, WHOLE}, 5);
    measure(&b, "knn_1_k1000", (struct question){ROWS, 1, 1000, dot, WHOLE}, 31);
    measure(&b, "knn_1_k16384", (struct question){ROWS, 1, 16384, dot, WHOLE}, 31);
    measure(&b, "knn_128_k1000", (struct question){ROWS, 128, 1000, dot, WHOLE}, 11);
    measure(&b, "knn_128_k16384", (struct question){ROWS, 128, 16384, dot, WHOLE}, 5);
    measure(&b, "tile_128", (struct question){ROWS, 128, 0, dot, WHOLE}, 11);
    measure(&b, "knn_1_k100", (struct question){ROWS, 1, 100, dot, WHOLE}, 51);
    lists_create(&b);
    few_rows(&b);
    measure(&b, "knn_16_20000_rows", (struct question){20000, 16, 10, dot, WHOLE}, 101);
    measure(&b, "knn_16_100000_rows", (struct question){100000, 16, 10, dot, WHOLE}, 101);
    measure(&b, "knn_128_20000_rows", (struct question){20000, 128, 10, dot, WHOLE}, 101);
    measure(&b, "knn_1024_20000_rows", (struct question){20000, 1024, 10, dot, WHOLE}, 51);
    compensated(&b);
    clustered(&b, "clustered", 1000, 0.1f);
    clustered(&b, "alike", 1, 0.001f); /* the screen cannot tell such rows apart */

    if (b.file) fclose(b.file);
    if (b.part) return 0;
    double bytes = (double)ROWS * DIMENSION * sizeof(float) / 1e9;
    printf("copy %.3f TB/s (read and written), scan %.3f TB/s\n", 2 * bytes / copy, bytes / scan);
    verdict("scan against the copy rate", copy / 2 / scan, 0.95);
    verdict("scan against knn k=10, 1 query", scan / knn, 1 / 1.1);
    return 0;
}
