/* hrr_cases: rows that are hard to bind, and what is right.
 * Owner:  included by the tests of hrr; everything is static inline.
 * Thread: any.
 * Errors: a failed allocation ends the test process. */
#ifndef ENGRAM_TESTS_KERNELS_HRR_CASES_H
#define ENGRAM_TESTS_KERNELS_HRR_CASES_H

#include "kernels/hrr.h"
#include "tests/kernels/samples.h"

#include <stdio.h>

enum hrr_case {
    HRR_CASE_UNIFORM,
    HRR_CASE_MIXED,    /* exponents 40 powers of two apart */
    HRR_CASE_DELTA,    /* one number, anywhere */
    HRR_CASE_CONSTANT, /* 1.99 */
    HRR_CASE_ALTERNATING,
    HRR_CASE_TONE,  /* one frequency */
    HRR_CASE_SPIKE, /* one huge element over small ones */
    HRR_CASE_LARGE, /* 10^15 */
    HRR_CASE_SMALL, /* 10^-15 */
    HRR_CASE_ZERO,
    HRR_CASES,
};

static inline float hrr_case_element(enum hrr_case kind, uint32_t i, uint32_t at, uint32_t d,
                                     uint64_t *state)
{
    float u = sample_uniform(state);
    switch (kind) {
    case HRR_CASE_UNIFORM: return u;
    case HRR_CASE_MIXED: return ldexpf(u, (int)(sample_random(state) % 40) - 20);
    case HRR_CASE_DELTA: return i == at ? 1.0f : 0.0f;
    case HRR_CASE_CONSTANT: return 1.99f;
    case HRR_CASE_ALTERNATING: return i % 2 ? -1.99f : 1.99f;
    case HRR_CASE_TONE:
        return (float)(1.99 * cos(6.283185307179586 * (double)((uint64_t)i * at % d) / d));
    case HRR_CASE_SPIKE: return i == at ? 1e6f : u;
    case HRR_CASE_LARGE: return u * 1e15f;
    case HRR_CASE_SMALL: return u * 1e-15f;
    case HRR_CASE_ZERO:
    case HRR_CASES: break;
    }
    return i % 3 ? 0.0f : -0.0f;
}

static inline void hrr_case_fill(enum hrr_case kind, uint32_t d, uint64_t seed, float *to)
{
    uint32_t at = (uint32_t)(sample_random(&seed) % d);
    for (uint32_t i = 0; i < d; i++)
        to[i] = hrr_case_element(kind, i, at, d, &seed);
}

/* A plan and scratch of one dimension. */
struct hrr_bench {
    uint32_t d;
    void *tables, *scratch;
    const struct hrr_plan *plan;
};

/* Exactly as many bytes as are asked for, so that a sanitizer sees one more. */
static inline void *hrr_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0) abort();
    memset(memory, 0xff, bytes); /* NaN */
    return memory;
}

static inline struct hrr_bench hrr_bench_create(uint32_t d)
{
    struct hrr_bench b = {.d = d};
    b.tables = hrr_memory(hrr_plan_bytes(d));
    b.scratch = hrr_memory(hrr_scratch_bytes(d));
    b.plan = hrr_plan_make(d, b.tables);
    return b;
}

static inline void hrr_bench_destroy(struct hrr_bench *b)
{
    free(b->tables), free(b->scratch);
}

static inline struct hrr_fault hrr_bench_pair(const struct hrr_bench *bench,
                                              const struct hrr_kernels *k, enum hrr_form form,
                                              const float *a, const float *b, float *out)
{
    struct hrr_pairs work = {.plan = bench->plan,
                             .scratch = bench->scratch,
                             .form = form,
                             .a = &a,
                             .b = &b,
                             .count = 1,
                             .out = out,
                             .out_step = bench->d};
    return k->pairs(&work);
}

/* The numbers of a dimension, for `count` rows. Free with free. */
static inline float *hrr_rows(uint32_t d, size_t count)
{
    float *rows = malloc((size_t)d * count * sizeof *rows);
    if (!rows) abort();
    return rows;
}

static inline double hrr_norm(const float *x, uint32_t d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* Binary64 sums of c[j], for `count` j from `first` on, `step` apart. */
static inline void hrr_direct(const float *a, const float *b, uint32_t d, double *c)
{
    for (uint32_t j = 0; j < d; j++) {
        double sum = 0;
        for (uint32_t i = 0; i <= j; i++)
            sum += (double)a[i] * b[j - i];
        for (uint32_t i = j + 1; i < d; i++)
            sum += (double)a[i] * b[j + d - i];
        c[j] = sum;
    }
}

#endif
