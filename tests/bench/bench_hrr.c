/* bench_hrr: the kernels of kernels/hrr.h: microseconds a pair for each variant of this machine,
 * one thread's own seconds, in batches of 20 that caches hold; and one against many.
 *
 *   bench_hrr [--runs N]
 *   bench_hrr --serve [VARIANT]     for bench_hrr_peers.py: reads lines of DIMENSION COUNT THREADS
 *                                   REPEATS, and prints the clock's and the processor's seconds of
 *                                   one of the repeats
 *   bench_hrr --apply FORM DIMENSION COUNT
 *                                   reads COUNT rows, then COUNT others, binary32, and writes
 *                                   bind's (0) or unbind's (1) results */
#include "kernels/hrr.h"
#include "kernels/vectors.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64, BATCH = 20, REPEATS = 10 };

struct batch {
    uint32_t dimension;
    size_t count;
    float *a, *b, *out;
    const float **left, **right;
    void *tables;
    const struct hrr_plan *plan;
};

struct share {
    const struct batch *batch;
    const struct hrr_kernels *kernels;
    size_t first, count, repeats;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "bench_hrr: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    return p;
}

/* `one`: all pairs have the same row on the left. */
static struct batch batch_create(uint32_t dimension, size_t count, int one)
{
    size_t numbers = dimension * count;
    struct batch b = {
        .dimension = dimension,
        .count = count,
        .a = allocate(numbers * sizeof(float)),
        .b = allocate(numbers * sizeof(float)),
        .out = allocate(numbers * sizeof(float)),
        .left = allocate(count * sizeof(float *)),
        .right = allocate(count * sizeof(float *)),
        .tables = allocate(hrr_plan_bytes(dimension)),
    };
    uint64_t state = dimension;
    for (size_t i = 0; i < numbers; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        b.a[i] = (float)((int64_t)state >> 40) * 0x1p-23f;
        b.b[i] = (float)((int64_t)(state << 20) >> 40) * 0x1p-23f;
        b.out[i] = 0.0f;
    }
    for (size_t i = 0; i < count; i++) {
        b.left[i] = b.a + (one ? 0 : i * dimension);
        b.right[i] = b.b + i * dimension;
    }
    b.plan = hrr_plan_make(dimension, b.tables);
    return b;
}

static void batch_destroy(struct batch *b)
{
    free(b->a), free(b->b), free(b->out), free(b->left), free(b->right), free(b->tables);
    memset(b, 0, sizeof *b);
}

static void *work(void *context)
{
    const struct share *s = context;
    const struct batch *b = s->batch;
    void *scratch = allocate(hrr_scratch_bytes(b->dimension));
    struct hrr_pairs pairs = {.plan = b->plan,
                              .scratch = scratch,
                              .form = HRR_BIND,
                              .a = b->left + s->first,
                              .b = b->right + s->first,
                              .count = s->count,
                              .out = b->out + s->first * b->dimension,
                              .out_step = b->dimension};
    for (size_t i = 0; i < s->repeats; i++) {
        if (s->kernels->pairs(&pairs).status != HRR_OK) exit(1);
    }
    free(scratch);
    return NULL;
}

static void run(const struct batch *b, const struct hrr_kernels *kernels, size_t threads,
                size_t repeats)
{
    struct share shares[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    for (size_t t = 0; t < threads; t++) {
        size_t first = b->count * t / threads, end = b->count * (t + 1) / threads;
        shares[t] = (struct share){b, kernels, first, end - first, repeats};
        if (t > 0 && pthread_create(&ids[t], NULL, work, &shares[t]) != 0) exit(1);
    }
    work(&shares[0]);
    for (size_t t = 1; t < threads; t++)
        pthread_join(ids[t], NULL);
}

static int serve(const char *variant)
{
    const struct hrr_kernels *kernels = hrr_choose(variant);
    struct batch b = {.dimension = 0};
    unsigned dimension;
    size_t count, threads, repeats;
    if (!kernels) return 2;
    puts(kernels->name);
    fflush(stdout);
    while (scanf("%u %zu %zu %zu", &dimension, &count, &threads, &repeats) == 4) {
        if (dimension < 1 || dimension > HRR_DIMENSION_MAX || threads < 1 ||
            threads > THREADS_MAX || count < 1 || repeats < 1)
            return 2;
        if (b.dimension != dimension || b.count != count) {
            batch_destroy(&b);
            b = batch_create(dimension, count, 0);
        }
        double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        run(&b, kernels, threads, repeats);
        printf("%.9f %.9f\n", (seconds(CLOCK_MONOTONIC) - wall) / (double)repeats,
               (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)repeats);
        fflush(stdout);
    }
    batch_destroy(&b);
    return 0;
}

static int apply(int form, uint32_t dimension, size_t count)
{
    struct batch b = batch_create(dimension, count, 0);
    void *scratch = allocate(hrr_scratch_bytes(dimension));
    struct hrr_pairs pairs = {.plan = b.plan,
                              .scratch = scratch,
                              .form = (enum hrr_form)form,
                              .a = b.left,
                              .b = b.right,
                              .count = count,
                              .out = b.out,
                              .out_step = dimension};
    size_t bytes = dimension * sizeof(float);
    bool done = fread(b.a, bytes, count, stdin) == count &&
                fread(b.b, bytes, count, stdin) == count &&
                hrr_choose("auto")->pairs(&pairs).status == HRR_OK &&
                fwrite(b.out, bytes, count, stdout) == count;
    free(scratch);
    batch_destroy(&b);
    return done ? 0 : 1;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_us(const struct batch *b, const struct hrr_kernels *kernels, size_t runs)
{
    double *times = allocate(runs * sizeof *times);
    for (size_t r = 0; r < runs; r++) {
        double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        run(b, kernels, 1, REPEATS);
        times[r] = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    }
    qsort(times, runs, sizeof *times, by_time);
    double median = times[runs / 2] / REPEATS / BATCH * 1e6;
    free(times);
    return median;
}

int main(int argc, char **argv)
{
    static const uint32_t dimensions[] = {64,   384,  486,  512,  768,  769,   972,   1000, 1021,
                                          1024, 1536, 2048, 4096, 8192, 10000, 13122, 16384};
    size_t runs = 21;
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "--serve") == 0)
        return serve(argc == 3 ? argv[2] : "auto");
    if (argc == 5 && strcmp(argv[1], "--apply") == 0)
        return apply(atoi(argv[2]), (uint32_t)strtoul(argv[3], NULL, 10),
                     strtoul(argv[4], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "--runs") == 0) runs = strtoul(argv[2], NULL, 10);
    if (runs < 1 || runs > 10000) return 2;
    printf("binding, microseconds a pair, medians of %zu (in brackets: one against many)\n", runs);
    for (size_t v = 0; vectors_variant(v); v++)
        printf("%18s", vectors_variant(v)->name);
    puts("");
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct batch pairs = batch_create(dimensions[d], BATCH, 0);
        struct batch one = batch_create(dimensions[d], BATCH, 1);
        printf("%6u", dimensions[d]);
        for (size_t v = 0; vectors_variant(v); v++) {
            const struct hrr_kernels *kernels = hrr_choose(vectors_variant(v)->name);
            printf("%9.2f (%6.2f)", median_us(&pairs, kernels, runs),
                   median_us(&one, kernels, runs));
        }
        puts("");
        batch_destroy(&pairs);
        batch_destroy(&one);
    }
    return 0;
}
