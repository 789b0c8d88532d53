/* gpu_shadow_bench [plain|many|few|once|equal]: times the k best through a shadow of
 * 1,000,000 x 768 by device events, median of many, beside the same without one. plain: without the
 * products of warpgroups; many: several queries alone; few: up to eight, in one launch and in
 * several; once: each number of queries twice, for a profiler; equal: rows that are all equal,
 * alone. */
#include "tests/gpu/shadow_scene.h"

enum { BENCH_RUNS = 31, BATCH_RUNS = 11 };

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

enum { BENCH_DIMENSION = 768, BENCH_ROWS = 1000000, BENCH_QUERIES = 1024 };

struct bench {
    struct scene scene;
    struct cuda_topk topk;
    float *above;
    cudaEvent_t start, stop;
};

struct asked {
    uint64_t rows;
    size_t queries;
    uint32_t k; /* 0: the bounds alone */
    enum metric metric;
};

/* The median, in milliseconds. */
static float time_of(struct bench *b, struct asked asked, bool with)
{
    float times[BENCH_RUNS];
    const int runs = asked.queries > 1 ? BATCH_RUNS : BENCH_RUNS;
    struct cuda_rows rows = b->scene.rows;
    rows.count = asked.rows;
    for (int n = -3; n < runs; n++) {
        struct cuda_queries queries = b->scene.queries;
        size_t first = asked.queries == 1 ? (size_t)(n + 3) : 0;
        queries.rows += first * vector_stride(BENCH_DIMENSION);
        queries.norms += first;
        queries.count = asked.queries;
        b->topk.k = asked.k;
        DEVICE(cudaMemsetAsync(b->topk.work, 0, sizeof *b->topk.work, NULL));
        DEVICE(cudaEventRecord(b->start, NULL));
        if (asked.k == 0)
            DEVICE(cuda_shadow_bounds(&queries, &rows, &b->scene.shadow, b->topk.scratch, b->above,
                                      NULL));
        else if (with)
            DEVICE(
                cuda_shadow_topk(asked.metric, &queries, &rows, &b->scene.shadow, &b->topk, NULL));
        else
            DEVICE(cuda_topk(asked.metric, &queries, &rows, &b->topk, NULL));
        DEVICE(cudaEventRecord(b->stop, NULL));
        DEVICE(cudaEventSynchronize(b->stop));
        if (n >= 0) DEVICE(cudaEventElapsedTime(&times[n], b->start, b->stop));
    }
    qsort(times, (size_t)runs, sizeof *times, by_value);
    return times[runs / 2];
}

/* target: what it should take at most, in milliseconds; 0: none. */
static void bench_line(struct bench *b, struct asked asked, float target)
{
    struct cuda_topk_work work;
    if (!cuda_shadow_suits(asked.queries, asked.k, asked.rows)) return;
    float exact = time_of(b, asked, false), with = time_of(b, asked, true);
    device_read(&work, b->topk.work, sizeof work);
    printf("%-9s %4zu queries k %5u of %7llu rows %8.4f ms, without a shadow %8.4f, passed %.1f, "
           "redone %llu",
           metric_names[asked.metric], asked.queries, asked.k, (unsigned long long)asked.rows, with,
           exact, (double)work.passed / (double)asked.queries, work.redone);
    if (target > 0.0f) /* what is to be asked again is no answer yet */
        printf("; at most %.2f: %s", target, with <= target && !work.redone ? "ok" : "MISSED");
    printf("\n");
    fflush(stdout);
}

/* Rows around `clusters` centres; queries likewise, or elsewhere. */
static void bench_clusters(struct bench *b, size_t clusters, float noise, bool elsewhere)
{
    enum { PART = 16384 };
    float *centres = malloc(clusters * BENCH_DIMENSION * sizeof(float)), *row;
    float *part = malloc((size_t)PART * BENCH_DIMENSION * sizeof(float));
    uint64_t same = 3, seed = 1;
    if (!centres || !part) abort();
    for (size_t i = 0; i < clusters * BENCH_DIMENSION; i++)
        centres[i] = sample_uniform(&same);
    for (size_t at = 0; at < BENCH_ROWS + BENCH_QUERIES; at += PART) {
        size_t end = at < BENCH_ROWS ? BENCH_ROWS : BENCH_ROWS + BENCH_QUERIES;
        size_t rows = end - at < PART ? end - at : PART;
        for (size_t i = 0; i < rows * BENCH_DIMENSION; i++) {
            row = centres + (at * 7 + i / BENCH_DIMENSION) % clusters * BENCH_DIMENSION;
            float at_centre = elsewhere && at >= BENCH_ROWS ? 0.0f : row[i % BENCH_DIMENSION];
            float apart = elsewhere && at >= BENCH_ROWS ? 1.0f : noise;
            part[i] = at_centre + apart * sample_uniform(&seed);
        }
        float *to = at < BENCH_ROWS ? (float *)b->scene.rows.rows + at * BENCH_DIMENSION
                                    : (float *)b->scene.queries.rows;
        DEVICE(
            cudaMemcpy(to, part, rows * BENCH_DIMENSION * sizeof(float), cudaMemcpyHostToDevice));
        if (at < BENCH_ROWS && at + PART > BENCH_ROWS) at = BENCH_ROWS - PART;
    }
    free(centres), free(part);
    const struct cuda_rows queries = {BENCH_DIMENSION, b->scene.queries.rows, NULL, BENCH_QUERIES};
    DEVICE(cuda_norms(&b->scene.rows, (float *)b->scene.rows.norms, NULL));
    DEVICE(cuda_norms(&queries, (float *)b->scene.queries.norms, NULL));
    DEVICE(cuda_shadow_centre(&b->scene.rows, (float *)b->scene.shadow.centre,
                              (float *)b->scene.shadow.centre_norm, NULL));
    DEVICE(cuda_shadow_code(&b->scene.rows, 0, BENCH_ROWS, &b->scene.shadow, NULL));
}

/* In one cluster. Of queries that lie in it, too, all cosines are the same but for the last bit. */
static void bench_tight(struct bench *b, bool elsewhere)
{
    printf("one cluster, noise 0.1 %%, asked from %s:\n", elsewhere ? "elsewhere" : "inside");
    bench_clusters(b, 1, 0.001f, elsewhere);
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        bench_line(b, (struct asked){BENCH_ROWS, 1, 10, (enum metric)metric}, 0.0f);
        bench_line(b, (struct asked){BENCH_ROWS, 128, 10, (enum metric)metric}, 1.0f);
    }
}

/* Makes all rows the first one, and the queries likewise. */
static void bench_equal(struct bench *b)
{
    const size_t row = BENCH_DIMENSION * sizeof(float);
    float *rows = (float *)b->scene.rows.rows, *queries = (float *)b->scene.queries.rows;
    for (size_t have = 1; have < BENCH_ROWS; have *= 2) {
        size_t more = have < BENCH_ROWS - have ? have : BENCH_ROWS - have;
        DEVICE(
            cudaMemcpy(rows + have * BENCH_DIMENSION, rows, more * row, cudaMemcpyDeviceToDevice));
    }
    DEVICE(cudaMemcpy(queries, rows, BENCH_QUERIES * row, cudaMemcpyDeviceToDevice));
    const struct cuda_rows asked = {BENCH_DIMENSION, queries, NULL, BENCH_QUERIES};
    DEVICE(cuda_norms(&b->scene.rows, (float *)b->scene.rows.norms, NULL));
    DEVICE(cuda_norms(&asked, (float *)b->scene.queries.norms, NULL));
    DEVICE(cuda_shadow_centre(&b->scene.rows, (float *)b->scene.shadow.centre,
                              (float *)b->scene.shadow.centre_norm, NULL));
    DEVICE(cuda_shadow_code(&b->scene.rows, 0, BENCH_ROWS, &b->scene.shadow, NULL));
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        bench_line(b, (struct asked){BENCH_ROWS, 1, 10, (enum metric)metric}, 0.0f);
        bench_line(b, (struct asked){BENCH_ROWS, 128, 10, (enum metric)metric}, 0.0f);
    }
}

static struct bench bench_create(void)
{
    struct bench b = {.scene = scene_random(BENCH_DIMENSION, BENCH_ROWS, BENCH_QUERIES)};
    const size_t places = (size_t)BENCH_QUERIES * 128;
    const uint64_t bytes[] = {cuda_shadow_scratch(BENCH_QUERIES, 100, BENCH_ROWS, BENCH_DIMENSION),
                              cuda_topk_scratch_best(BENCH_QUERIES, 100, BENCH_ROWS),
                              cuda_topk_scratch_best(1, TOPK_K_MAX, BENCH_ROWS)};
    for (size_t n = 0; n < sizeof bytes / sizeof *bytes; n++)
        if (bytes[n] > b.topk.scratch_bytes) b.topk.scratch_bytes = bytes[n];
    b.topk.scratch = device_allocate(b.topk.scratch_bytes);
    b.topk.out_ids = device_allocate(places * sizeof *b.topk.out_ids);
    b.topk.out_scores = device_allocate(places * sizeof *b.topk.out_scores);
    b.topk.out_counts = device_allocate(BENCH_QUERIES * sizeof *b.topk.out_counts);
    b.topk.work = device_allocate(sizeof *b.topk.work);
    b.above = device_allocate(BENCH_ROWS * sizeof *b.above);
    DEVICE(cudaEventCreate(&b.start));
    DEVICE(cudaEventCreate(&b.stop));
    return b;
}

static void bench_few(struct bench *b)
{
    const uint64_t counts[] = {10000, 100000, BENCH_ROWS};
    for (size_t n = 0; n < 3; n++) {
        const uint64_t rows = counts[n];
        const bool all = rows == BENCH_ROWS;
        printf("bounds of %7llu rows %8.4f ms\n", (unsigned long long)rows,
               time_of(b, (struct asked){rows, 1, 0, METRIC_COSINE}, true));
        bench_line(b, (struct asked){rows, 1, 10, METRIC_COSINE}, all ? 0.23f : 0.0f);
        bench_line(b, (struct asked){rows, 1, 100, METRIC_COSINE}, 0.0f);
        bench_line(b, (struct asked){rows, 1, 1000, METRIC_COSINE}, all ? 0.35f : 0.0f);
        bench_line(b, (struct asked){rows, 1, 16384, METRIC_COSINE}, all ? 0.8f : 0.0f);
    }
    bench_line(b, (struct asked){BENCH_ROWS, 1, 10, METRIC_DOT}, 0.0f);
    bench_line(b, (struct asked){BENCH_ROWS, 1, 10, METRIC_SQUARED_EUCLIDEAN}, 0.0f);
}

static void bench_many(struct bench *b)
{
    const uint64_t all = BENCH_ROWS;
    bench_line(b, (struct asked){all, 2, 10, METRIC_COSINE}, 0.0f);
    bench_line(b, (struct asked){all, 16, 10, METRIC_COSINE}, 0.3f);
    bench_line(b, (struct asked){all, 64, 10, METRIC_COSINE}, 0.0f);
    bench_line(b, (struct asked){all, 128, 10, METRIC_COSINE}, 0.45f);
    bench_line(b, (struct asked){all, 1024, 10, METRIC_COSINE}, 3.0f);
    bench_line(b, (struct asked){all, 128, 100, METRIC_COSINE}, 0.0f);
    bench_line(b, (struct asked){all, 1024, 100, METRIC_COSINE}, 0.0f);
    bench_line(b, (struct asked){all, 128, 10, METRIC_SQUARED_EUCLIDEAN}, 0.0f);
    bench_line(b, (struct asked){100000, 16, 10, METRIC_COSINE}, 0.0f);
    bench_line(b, (struct asked){100000, 128, 10, METRIC_COSINE}, 0.0f);
}

static void bench_eight(struct bench *b)
{
    const uint64_t rows[] = {50000, 100000, 300000, 500000};
    const size_t queries[] = {1, 2, 4, 8};
    for (size_t n = 0; n < 4; n++)
        for (size_t q = 0; q < 4; q++)
            for (int without = 0; without < 2; without++) {
                cuda_shadow_without_few(without);
                printf(without ? "several launches: " : "one launch:       ");
                bench_line(b, (struct asked){rows[n], queries[q], 10, METRIC_COSINE}, 0.0f);
            }
}

static void bench_once(struct bench *b)
{
    const size_t counts[] = {1, 1, 2, 2, 16, 16, 128, 128, 1024, 1024};
    b->topk.k = 10;
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        struct cuda_queries queries = b->scene.queries;
        queries.count = counts[n];
        DEVICE(cuda_shadow_topk(METRIC_COSINE, &queries, &b->scene.rows, &b->scene.shadow, &b->topk,
                                NULL));
        DEVICE(cudaDeviceSynchronize());
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    device_open();
    cuda_shadow_without_wgmma(strcmp(how, "plain") == 0);
    struct bench b = bench_create();
    float coding;
    if (strcmp(how, "once") == 0) {
        bench_once(&b);
        return 0;
    }
    if (strcmp(how, "few") == 0) {
        bench_eight(&b);
        return 0;
    }
    if (strcmp(how, "equal") == 0) {
        bench_equal(&b);
        return 0;
    }
    if (strcmp(how, "many") != 0) bench_few(&b);
    bench_many(&b);
    if (strcmp(how, "many") == 0) return 0;
    DEVICE(cudaEventRecord(b.start, NULL));
    DEVICE(cuda_shadow_code(&b.scene.rows, 0, BENCH_ROWS, &b.scene.shadow, NULL));
    DEVICE(cudaEventRecord(b.stop, NULL));
    DEVICE(cudaEventSynchronize(b.stop));
    DEVICE(cudaEventElapsedTime(&coding, b.start, b.stop));
    printf("coding of %d rows %8.4f ms\n1,000 clusters, noise 10 %%:\n", BENCH_ROWS, coding);
    bench_clusters(&b, 1000, 0.1f, false);
    bench_line(&b, (struct asked){BENCH_ROWS, 1, 10, METRIC_COSINE}, 0.0f);
    bench_line(&b, (struct asked){BENCH_ROWS, 128, 10, METRIC_COSINE}, 0.6f);
    bench_tight(&b, true);
    bench_tight(&b, false);
    return 0;
}
