/* covariance_reference: mean and covariance written out from kernels/covariance.h, one element
 * after the other, without tiles.
 * Owner:  included by tests; everything is static inline.
 * Thread: any.
 * Errors: a failed allocation ends the test process. */
#ifndef ENGRAM_TESTS_KERNELS_COVARIANCE_REFERENCE_H
#define ENGRAM_TESTS_KERNELS_COVARIANCE_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/covariance.h"

/* Rows in their order, `stride` floats apart; weights: NULL, or one a row. */
struct covariance_input {
    const float *rows, *weights;
    size_t stride, count;
    uint32_t dimension;
};

struct covariance_expected {
    double total, divisor;
    double *mean, *covariance;
};

/* Neighbours are added, one that is left over is carried, until one is left. */
static inline double covariance_expected_fold(double *sums, size_t count)
{
    while (count > 1) {
        size_t kept = 0;
        for (size_t i = 0; i + 1 < count; i += 2)
            sums[kept++] = sums[i] + sums[i + 1];
        if (count % 2) sums[kept++] = sums[count - 1];
        count = kept;
    }
    return sums[0];
}

static inline double covariance_expected_weight(const struct covariance_input *r, size_t row)
{
    return r->weights ? (double)r->weights[row] : 1.0;
}

/* The sum over all rows of a * b, in blocks and then by the tree. factor: writes both. */
struct covariance_factors {
    const struct covariance_input *rows;
    const double *mean; /* NULL: not centred */
    size_t i, j;        /* columns; j SIZE_MAX: the second factor is the weight alone, */
    bool squares;       /* or both are */
};

static inline double covariance_expected_sum(const struct covariance_factors *f)
{
    const struct covariance_input *r = f->rows;
    size_t blocks = (r->count + 4095) / 4096;
    double *sums = calloc(blocks + 1, sizeof *sums);
    if (!sums) abort();
    for (size_t row = 0; row < r->count; row++) {
        double w = covariance_expected_weight(r, row), *sum = &sums[row / 4096];
        const float *x = r->rows + row * r->stride;
        if (f->squares)
            *sum = fma(w, w, *sum);
        else if (!f->mean)
            *sum = f->i == SIZE_MAX ? *sum + w : fma(w, (double)x[f->i], *sum);
        else
            *sum =
                fma(w * ((double)x[f->i] - f->mean[f->i]), (double)x[f->j] - f->mean[f->j], *sum);
    }
    double folded = covariance_expected_fold(sums, blocks);
    free(sums);
    return folded;
}

static inline struct covariance_expected covariance_expect(const struct covariance_input *r)
{
    size_t d = r->dimension;
    struct covariance_expected out = {.mean = malloc(d * sizeof(double)),
                                      .covariance = malloc(d * d * sizeof(double))};
    if (!out.mean || !out.covariance) abort();
    out.total = covariance_expected_sum(&(struct covariance_factors){.rows = r, .i = SIZE_MAX});
    double squares =
        covariance_expected_sum(&(struct covariance_factors){.rows = r, .squares = true});
    out.divisor = out.total - squares / out.total;
    for (size_t c = 0; c < d; c++)
        out.mean[c] =
            covariance_expected_sum(&(struct covariance_factors){.rows = r, .i = c}) / out.total;
    for (size_t i = 0; i < d; i++)
        for (size_t j = i; j < d; j++) {
            const struct covariance_factors f = {.rows = r, .mean = out.mean, .i = i, .j = j};
            out.covariance[i * d + j] = out.covariance[j * d + i] =
                covariance_expected_sum(&f) / out.divisor;
        }
    return out;
}

static inline void covariance_expected_destroy(struct covariance_expected *r)
{
    free(r->mean), free(r->covariance);
}

#endif
