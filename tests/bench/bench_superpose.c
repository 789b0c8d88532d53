/* bench_superpose: sums of rows, normalized, beside a plain read of the same rows in the same
 * order, as ratios of medians of interleaved runs. Lists of 10 also write a tenth of what they
 * read, which the ratio does not count.
 *
 *   bench_superpose [--rows N] [--dim D] [--runs R] [--threads T] [--variant NAME] [--quick] */
#include "kernels/random.h"
#include "kernels/superpose.h"
#include "tests/bench/bench.h"

#include <pthread.h>
#include <string.h>

enum { RUNS_MAX = 101, THREADS_MAX = 64, PIECE_BLOCKS = 4 };

struct scene {
    size_t rows, threads, runs;
    uint32_t dimension;
    const struct vector_kernels *vectors;
    const struct superpose_kernels *kernels;
    float *data, *results, *weights, *norms, *pieces;
    const float **in_order, **shuffled;
};

struct ask {
    const char *name;
    size_t length; /* of a list; 0: rows are read, and no more */
    bool shuffled, weighted;
};

struct share {
    const struct scene *scene;
    const struct ask *ask;
    size_t number, of;
    double result;
};

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) bench_fail("superpose", "out of memory");
    return p;
}

typedef float eight __attribute__((vector_size(32), may_alias));

/* Reads floats in their order, or four rows side by side, with as many adders and prefetches in
 * flight that memory is the limit. ahead: rows that are needed soon. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static double
read_in_order(const float *from, size_t floats)
{
    eight sums[8] = {0};
    for (size_t i = 0; i + 64 <= floats; i += 64) {
        for (size_t line = 0; line < 64; line += 16)
            __builtin_prefetch(from + i + line + 2048);
        for (size_t j = 0; j < 8; j++)
            sums[j] += *(const eight *)(from + i + j * 8);
    }
    for (size_t j = 1; j < 8; j++)
        sums[0] += sums[j];
    return (double)sums[0][0];
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static double
read_rows(const float *const *rows, const float *const *ahead, size_t floats)
{
    eight sums[8] = {0};
    for (size_t i = 0; i < floats; i += 16) {
        for (size_t r = 0; r < 4; r++) {
            __builtin_prefetch(ahead[r] + i);
            sums[2 * r] += *(const eight *)(rows[r] + i);
            sums[2 * r + 1] += *(const eight *)(rows[r] + i + 8);
        }
    }
    for (size_t j = 1; j < 8; j++)
        sums[0] += sums[j];
    return (double)sums[0][0];
}

/* Lists are shared out; one long list is, too, by pieces. */
static void sum_share(const struct scene *s, const struct ask *ask, size_t number, size_t of)
{
    enum { LISTS = 32, PIECE = PIECE_BLOCKS * SUPERPOSE_BLOCK };
    size_t stride = vector_stride(s->dimension), length = ask->length;
    bool whole = length == s->rows;
    size_t step = whole ? PIECE : length, lists = (s->rows + step - 1) / step;
    float *scratch = allocate(superpose_scratch(s->dimension, step) * sizeof *scratch + 64);
    float *results = whole ? s->pieces : s->results;
    uint64_t offsets[LISTS + 1];
    for (size_t first = lists * number / of; first < lists * (number + 1) / of; first += LISTS) {
        size_t end = lists * (number + 1) / of, some = end - first < LISTS ? end - first : LISTS;
        for (size_t i = 0; i <= some; i++)
            offsets[i] = (first + i) * step < s->rows ? (first + i) * step : s->rows;
        struct superpose_lists asked = {
            .rows = ask->shuffled ? s->shuffled : s->in_order,
            .weights = ask->weighted ? s->weights : NULL,
            .offsets = offsets,
            .count = some,
        };
        float *to = results + first * stride;
        s->kernels->sums(s->dimension, &asked, scratch, to);
        if (whole) continue;
        s->vectors->norms(s->dimension, to, some, s->norms + first);
        s->vectors->normalize(s->dimension, to, s->norms + first, some);
    }
    free(scratch);
}

static void *run_share(void *argument)
{
    struct share *share = argument;
    const struct scene *s = share->scene;
    size_t first = s->rows * share->number / share->of;
    size_t end = s->rows * (share->number + 1) / share->of, stride = vector_stride(s->dimension);
    if (share->ask->length)
        sum_share(s, share->ask, share->number, share->of);
    else if (!share->ask->shuffled)
        share->result = read_in_order(s->in_order[first], (end - first) * stride);
    else
        for (size_t i = first; i + 4 <= end; i += 4)
            share->result +=
                read_rows(s->shuffled + i, s->shuffled + (i + 8 <= end ? i + 4 : i), stride);
    return NULL;
}

static double time_ask(const struct scene *s, const struct ask *ask, size_t threads)
{
    struct share shares[THREADS_MAX];
    pthread_t handles[THREADS_MAX];
    double start = bench_now_s();
    for (size_t t = 0; t < threads; t++) {
        shares[t] = (struct share){s, ask, t, threads, 0.0};
        if (t > 0 && pthread_create(&handles[t], NULL, run_share, &shares[t]) != 0)
            bench_fail("superpose", "no thread");
    }
    run_share(&shares[0]);
    for (size_t t = 1; t < threads; t++)
        pthread_join(handles[t], NULL);
    size_t pieces =
        (s->rows + PIECE_BLOCKS * SUPERPOSE_BLOCK - 1) / (PIECE_BLOCKS * SUPERPOSE_BLOCK);
    if (ask->length == s->rows) {
        s->kernels->fold(s->dimension, s->pieces, pieces);
        s->vectors->norms(s->dimension, s->pieces, 1, s->norms);
        s->vectors->normalize(s->dimension, s->pieces, s->norms, 1);
    }
    return bench_now_s() - start;
}

static void bench_threads(const struct scene *s, size_t threads)
{
    const struct ask asks[] = {
        {"read", 0, false, false},
        {"read, rows anywhere", 0, true, false},
        {"lists of 10", 10, false, false},
        {"lists of 10, weighted", 10, false, true},
        {"lists of 10, rows anywhere", 10, true, false},
        {"lists of 1,000", 1000, false, false},
        {"one list", s->rows, false, false},
        {"one list, weighted, rows anywhere", s->rows, true, true},
    };
    enum { ASKS = sizeof asks / sizeof *asks, READS = 2 };
    static double seconds[ASKS][RUNS_MAX];
    for (size_t run = 0; run <= s->runs; run++) {
        for (size_t i = 0; i < ASKS; i++) {
            double took = time_ask(s, &asks[i], threads);
            if (run > 0) seconds[i][run - 1] = took;
        }
    }
    char title[128];
    snprintf(title, sizeof title, "%zu rows x %u, %s, %zu thread%s: GB/s of rows read", s->rows,
             s->dimension, s->kernels->name, threads, threads > 1 ? "s" : "");
    bench_header(title);
    double bytes = (double)(s->rows * vector_stride(s->dimension) * sizeof(float));
    double reads[READS];
    for (size_t i = 0; i < READS; i++)
        reads[i] = bench_percentile(seconds[i], s->runs, 50);
    for (size_t i = READS; i < ASKS; i++) {
        double took = bench_percentile(seconds[i], s->runs, 50), read = reads[asks[i].shuffled];
        char ours[32], peer[32];
        snprintf(ours, sizeof ours, "%.1f", bytes / took * 1e-9);
        snprintf(peer, sizeof peer, "%.1f", bytes / read * 1e-9);
        bench_row(asks[i].name, ours, peer, read / took, true, 0.85);
    }
}

static void prepare(struct scene *s)
{
    size_t stride = vector_stride(s->dimension), row = stride * sizeof(float);
    s->data = allocate(s->rows * row);
    s->results = allocate((s->rows / 10 + 1) * row);
    s->pieces = allocate((s->rows / (PIECE_BLOCKS * SUPERPOSE_BLOCK) + 1) * row);
    s->weights = allocate(s->rows * sizeof(float));
    s->norms = allocate(s->rows * sizeof(float));
    s->in_order = allocate(s->rows * sizeof *s->in_order);
    s->shuffled = allocate(s->rows * sizeof *s->shuffled);
    double start = bench_now_s();
    random_choose(s->kernels->name)->normal(1, s->dimension, 0, s->rows, s->data);
    printf("random rows: %.2f ns a number, first touch of their memory included\n",
           (bench_now_s() - start) * 1e9 / (double)(s->rows * s->dimension));
    memset(s->results, 0, (s->rows / 10 + 1) * row);
    uint64_t seed = 3;
    for (size_t i = 0; i < s->rows; i++) {
        s->in_order[i] = s->shuffled[i] = s->data + i * stride;
        s->weights[i] = bench_random_float(&seed);
    }
    for (size_t i = s->rows; i > 1; i--) {
        size_t with = (size_t)(bench_random(&seed) % i);
        const float *kept = s->shuffled[i - 1];
        s->shuffled[i - 1] = s->shuffled[with];
        s->shuffled[with] = kept;
    }
}

static size_t option(int argc, char **argv, const char *name, size_t value, size_t max)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) value = strtoull(argv[i + 1], NULL, 10);
    }
    if (value < 1 || value > max) bench_fail(name, "out of range");
    return value;
}

int main(int argc, char **argv)
{
    const char *variant = "auto";
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--variant") == 0 && i + 1 < argc) variant = argv[i + 1];
        quick = quick || strcmp(argv[i], "--quick") == 0;
    }
    struct scene s = {
        .rows = option(argc, argv, "--rows", quick ? 50000 : 200000, 100000000),
        .dimension = (uint32_t)option(argc, argv, "--dim", 1024, VECTOR_DIMENSION_MAX),
        .runs = option(argc, argv, "--runs", quick ? 3 : 9, RUNS_MAX),
        .threads = option(argc, argv, "--threads", 2, THREADS_MAX),
        .vectors = vectors_choose(variant),
        .kernels = superpose_choose(variant),
    };
    if (!s.kernels) {
        printf("SKIP %s: this machine cannot run it\n", variant);
        return 77;
    }
    prepare(&s);
    for (size_t threads = 1; threads <= s.threads; threads++)
        bench_threads(&s, threads);
    return 0;
}
