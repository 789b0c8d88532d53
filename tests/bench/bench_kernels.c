/* bench_kernels: the vector kernels beside what bounds them, as ratios of medians of interleaved
 * runs: scans beside this machine's read bandwidth, tiles beside OpenBLAS sgemm (loaded at run
 * time; the daemon never links it), k = 1,000 beside k = 10.
 *
 *   bench_kernels [--rows N] [--dim D] [--queries Q] [--runs R] [--threads T] [--variant NAME] */
#include "kernels/topk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS_MAX = 101, THREADS_MAX = 64, CASES_MAX = 8, CHUNK_ROWS = 2048, K_LARGE = 1000 };

typedef void sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct bench {
    size_t rows, queries, threads, runs;
    uint32_t dimension;
    const struct vector_kernels *kernels;
    float *row_data, *query_data, *scores, *row_norms, *query_norms;
    const float **scattered;
    uint64_t *ids;
    void *packed;
    sgemm *blas;
    void (*blas_threads)(int);
};

/* One thread's share of the rows. */
struct share {
    const struct bench *bench;
    void (*work)(const struct share *s);
    size_t first, count;
    uint32_t k;
    double result;
};

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "bench_kernels: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    return p;
}

static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)*state >> 40) * 0x1p-23f;
}

static void fill(float *to, size_t count, uint32_t dimension, uint64_t seed)
{
    size_t stride = vector_stride(dimension);
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < stride; c++)
            to[i * stride + c] = c < dimension ? uniform(&seed) : 0.0f;
    }
}

/* ---- what is measured: each function works on one thread's share */

typedef float eight __attribute__((vector_size(32), may_alias));

enum { READ_STEP = 64, READ_AHEAD = 2048 }; /* floats */

/* Reading only: a sum with enough adders and prefetches in flight that memory is the limit. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static void
read_plain(const struct share *s)
{
    const struct bench *b = s->bench;
    size_t stride = vector_stride(b->dimension);
    const float *from = b->row_data + s->first * stride;
    eight sums[8] = {0};
    for (size_t i = 0; i < s->count * stride / READ_STEP * READ_STEP; i += READ_STEP) {
        for (size_t line = 0; line < READ_STEP; line += 16)
            __builtin_prefetch(from + i + line + READ_AHEAD);
        for (size_t j = 0; j < 8; j++)
            sums[j] += *(const eight *)(from + i + j * 8);
    }
    eight all = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    ((struct share *)s)->result = (double)all[0];
}

static struct row_block block_of(const struct bench *b, size_t first, size_t count)
{
    return (struct row_block){b->row_data + first * vector_stride(b->dimension),
                              b->row_norms + first, count};
}

static void scan_rows(const struct share *s)
{
    const struct bench *b = s->bench;
    for (size_t done = 0; done < s->count; done += CHUNK_ROWS) {
        size_t count = s->count - done < CHUNK_ROWS ? s->count - done : CHUNK_ROWS;
        b->kernels->scan(METRIC_COSINE, b->dimension, b->query_data, b->query_norms[0],
                         block_of(b, s->first + done, count), b->scores + s->first + done);
    }
}

static void gather_rows(const struct share *s)
{
    const struct bench *b = s->bench;
    b->kernels->gather(METRIC_COSINE, b->dimension, b->query_data, b->query_norms[0],
                       b->scattered + s->first, b->row_norms + s->first, s->count,
                       b->scores + s->first);
}

static void tile_rows(const struct share *s)
{
    const struct bench *b = s->bench;
    struct query_pack pack = {b->packed, b->query_norms, b->queries};
    b->kernels->tile(METRIC_DOT, b->dimension, &pack, block_of(b, s->first, s->count),
                     b->scores + s->first, b->rows);
}

/* As the daemon does it: score a chunk for every query, then offer it. */
static void nearest_rows(const struct share *s)
{
    const struct bench *b = s->bench;
    struct query_pack pack = {b->packed, b->query_norms, b->queries};
    struct topk *tops = allocate(b->queries * sizeof *tops);
    char *entries = allocate(b->queries * topk_bytes(s->k));
    float *chunk = allocate(b->queries * CHUNK_ROWS * sizeof *chunk);
    uint32_t *positions = allocate((CHUNK_ROWS + 16) * sizeof *positions);
    uint64_t *ids = allocate(s->k * sizeof *ids);
    float *scores = allocate(s->k * sizeof *scores);
    for (size_t q = 0; q < b->queries; q++)
        topk_init(&tops[q], entries + q * topk_bytes(s->k), s->k, false, NULL);
    for (size_t done = 0; done < s->count; done += CHUNK_ROWS) {
        size_t count = s->count - done < CHUNK_ROWS ? s->count - done : CHUNK_ROWS;
        size_t first = s->first + done;
        b->kernels->tile(METRIC_COSINE, b->dimension, &pack, block_of(b, first, count), chunk,
                         CHUNK_ROWS);
        for (size_t q = 0; q < b->queries; q++)
            topk_offer(&tops[q], b->kernels, chunk + q * CHUNK_ROWS, b->ids + first, count, NULL, 0,
                       positions);
    }
    for (size_t q = 0; q < b->queries; q++)
        ((struct share *)s)->result += topk_finish(&tops[q], ids, scores);
    free(tops), free(entries), free(chunk), free(positions), free(ids), free(scores);
}

static void *run_share(void *share)
{
    ((struct share *)share)->work(share);
    return NULL;
}

/* Seconds that work takes over all rows, shared out among threads. */
static double time_shares(const struct bench *b, void (*work)(const struct share *s), uint32_t k,
                          size_t threads)
{
    struct share shares[THREADS_MAX];
    pthread_t handles[THREADS_MAX];
    double start = now_seconds();
    for (size_t t = 0; t < threads; t++) {
        size_t first = b->rows * t / threads, end = b->rows * (t + 1) / threads;
        shares[t] = (struct share){b, work, first, end - first, k, 0.0};
        if (t > 0 && pthread_create(&handles[t], NULL, run_share, &shares[t]) != 0) exit(1);
    }
    run_share(&shares[0]);
    for (size_t t = 1; t < threads; t++)
        pthread_join(handles[t], NULL);
    return now_seconds() - start;
}

static double time_blas(const struct bench *b, size_t threads)
{
    int stride = (int)vector_stride(b->dimension);
    b->blas_threads((int)threads);
    double start = now_seconds();
    b->blas(101, 111, 112, (int)b->queries, (int)b->rows, (int)b->dimension, 1.0f, b->query_data,
            stride, b->row_data, stride, 0.0f, b->scores, (int)b->rows);
    return now_seconds() - start;
}

/* ---- reports */

struct measure {
    const char *name;
    void (*work)(const struct share *s); /* NULL: OpenBLAS */
    uint32_t k;
    double seconds[RUNS_MAX];
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs the measures in turn, runs times, after one unmeasured turn; sorts each one's times. */
static void interleave(const struct bench *b, size_t threads, struct measure *m, size_t count)
{
    for (size_t run = 0; run <= b->runs; run++) {
        for (size_t i = 0; i < count; i++) {
            double s =
                m[i].work ? time_shares(b, m[i].work, m[i].k, threads) : time_blas(b, threads);
            if (run > 0) m[i].seconds[run - 1] = s;
        }
    }
    for (size_t i = 0; i < count; i++)
        qsort(m[i].seconds, b->runs, sizeof(double), compare_doubles);
}

static void report(const struct bench *b, size_t threads, const struct measure *m, size_t count,
                   double amount, const char *unit)
{
    for (size_t i = 0; i < count; i++) {
        double median = m[i].seconds[b->runs / 2];
        double p99 = m[i].seconds[(b->runs * 99 + 99) / 100 - 1];
        printf("%-8s %zu thread%s %8.2f %-8s p50 %8.3f ms  p99 %8.3f ms  ratio %.3f\n", m[i].name,
               threads, threads > 1 ? "s" : " ", amount / median * 1e-9, unit, median * 1e3,
               p99 * 1e3, m[0].seconds[b->runs / 2] / median);
    }
}

static void bench_bandwidth(const struct bench *b, size_t threads)
{
    struct measure m[] = {
        {.name = "read", .work = read_plain},
        {.name = "scan", .work = scan_rows},
        {.name = "gather", .work = gather_rows},
    };
    interleave(b, threads, m, 3);
    double bytes = (double)(b->rows * vector_stride(b->dimension) * sizeof(float));
    report(b, threads, m, 3, bytes, "GB/s");
}

static void bench_tile(const struct bench *b, size_t threads)
{
    struct measure m[] = {{.name = "openblas"}, {.name = "tile", .work = tile_rows}};
    double work = 2.0 * (double)b->queries * (double)b->rows * (double)b->dimension;
    if (!b->blas) printf("SKIP openblas: libopenblas.so.0 is not on this machine\n");
    size_t skipped = b->blas ? 0 : 1;
    interleave(b, threads, m + skipped, 2 - skipped);
    report(b, threads, m + skipped, 2 - skipped, work, "GFLOP/s");
}

static void bench_nearest(const struct bench *b, size_t threads)
{
    struct measure m[] = {
        {.name = "k=10", .work = nearest_rows, .k = 10},
        {.name = "k=1000", .work = nearest_rows, .k = K_LARGE},
    };
    interleave(b, threads, m, 2);
    double work = 2.0 * (double)b->queries * (double)b->rows * (double)b->dimension;
    report(b, threads, m, 2, work, "GFLOP/s");
}

static void load_blas(struct bench *b)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return;
    *(void **)&b->blas = dlsym(library, "cblas_sgemm");
    *(void **)&b->blas_threads = dlsym(library, "openblas_set_num_threads");
    if (!b->blas_threads) b->blas = NULL;
}

static void prepare(struct bench *b)
{
    size_t stride = vector_stride(b->dimension);
    b->row_data = allocate(b->rows * stride * sizeof(float));
    b->query_data = allocate(b->queries * stride * sizeof(float));
    b->scores = allocate(b->queries * b->rows * sizeof(float));
    b->row_norms = allocate(b->rows * sizeof(float));
    b->query_norms = allocate(b->queries * sizeof(float));
    b->scattered = allocate(b->rows * sizeof(float *));
    b->ids = allocate(b->rows * sizeof(uint64_t));
    b->packed = allocate(b->kernels->pack_bytes(b->dimension, b->queries));
    fill(b->row_data, b->rows, b->dimension, 1);
    fill(b->query_data, b->queries, b->dimension, 2);
    memset(b->scores, 0, b->queries * b->rows * sizeof(float));
    b->kernels->norms(b->dimension, b->row_data, b->rows, b->row_norms);
    b->kernels->norms(b->dimension, b->query_data, b->queries, b->query_norms);
    b->kernels->pack(b->dimension, b->query_data, b->queries, b->packed);
    for (size_t i = 0; i < b->rows; i++) {
        b->ids[i] = i;
        b->scattered[i] = b->row_data + i * stride;
    }
    uint64_t seed = 3;
    for (size_t i = b->rows; i > 1; i--) {
        uniform(&seed);
        size_t with = (size_t)((seed >> 20) % i);
        const float *kept = b->scattered[i - 1];
        b->scattered[i - 1] = b->scattered[with];
        b->scattered[with] = kept;
    }
    load_blas(b);
}

static size_t option(int argc, char **argv, const char *name, size_t value, size_t max)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) value = strtoull(argv[i + 1], NULL, 10);
    }
    if (value < 1 || value > max) {
        fprintf(stderr, "bench_kernels: %s must be 1 to %zu\n", name, max);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .rows = option(argc, argv, "--rows", 100000, 100000000),
        .dimension = (uint32_t)option(argc, argv, "--dim", 768, VECTOR_DIMENSION_MAX),
        .queries = option(argc, argv, "--queries", 128, 4096),
        .runs = option(argc, argv, "--runs", 9, RUNS_MAX),
        .threads = option(argc, argv, "--threads", 2, THREADS_MAX),
    };
    const char *variant = "auto";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--variant") == 0) variant = argv[i + 1];
    }
    b.kernels = vectors_choose(variant);
    if (!b.kernels) {
        printf("SKIP %s: this machine cannot run it\n", variant);
        return 77;
    }
    char cpu[256];
    vectors_describe_cpu(cpu, sizeof cpu);
    printf("%s; variant %s; %zu rows x %u, %zu queries, median of %zu interleaved runs\n", cpu,
           b.kernels->name, b.rows, b.dimension, b.queries, b.runs);
    prepare(&b);
    for (size_t threads = 1; threads <= b.threads; threads++) {
        bench_bandwidth(&b, threads);
        bench_tile(&b, threads);
        bench_nearest(&b, threads);
    }
    return 0;
}
