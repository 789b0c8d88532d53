/* attractor_loops: the tables of attractor.h, as loops that the compiler vectorises with the
 * instructions of the file that includes them.
 * Owner:  included once by each attractor_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_ATTRACTOR_LOOPS_H
#define ENGRAM_KERNELS_CPU_ATTRACTOR_LOOPS_H

#include "kernels/attractor.h"
#include "kernels/functions.h"
#include "kernels/rounded_sine.h"

/* ---------------------------------------------------------------- tables */

static void pad(uint32_t dimension, float *row)
{
    for (size_t i = dimension; i < vector_stride(dimension); i++)
        row[i] = 0.0f;
}

static void dentate(uint32_t dimension, uint64_t first, size_t count, float *rows)
{
    size_t stride = vector_stride(dimension);
    for (size_t r = 0; r < count; r++) {
        float *row = rows + r * stride;
        int32_t base = (int32_t)((first + r) * dimension);
        for (uint32_t from = 0; from < dimension; from += ROUNDED_SINE_MANY) {
            float x[ROUNDED_SINE_MANY];
            uint32_t left = dimension - from;
            uint32_t many = left < ROUNDED_SINE_MANY ? left : ROUNDED_SINE_MANY;
            for (uint32_t j = 0; j < many; j++)
                x[j] = (float)(base + (int32_t)(from + j));
            rounded_sines(x, many, 0.1f, row + from);
        }
        pad(dimension, row);
    }
}

static void weights(uint32_t dimension, uint32_t first, size_t count, float *columns)
{
    size_t stride = vector_stride(dimension);
    for (size_t c = 0; c < count; c++) {
        float *column = columns + c * stride;
        int32_t base = (int32_t)(first + c);
        for (uint32_t from = 0; from < dimension; from += ROUNDED_SINE_MANY) {
            float x[ROUNDED_SINE_MANY];
            uint32_t left = dimension - from;
            uint32_t many = left < ROUNDED_SINE_MANY ? left : ROUNDED_SINE_MANY;
            for (uint32_t i = 0; i < many; i++)
                x[i] = 0.1f * (float)((int32_t)dimension * (int32_t)(from + i) + base);
            rounded_sines(x, many, 0.01f, column + from);
        }
        pad(dimension, column);
    }
}

/* ---------------------------------------------------------------- learning */

enum { LEARN_LANES = 32 };

static inline float greater(float a, float b)
{
    return a > b ? a : b;
}

static inline float less(float a, float b)
{
    return a < b ? a : b;
}

/* The padding stays +0: there the scaled pattern is 0. */
static inline __attribute__((always_inline)) void learn_column(bool divides, uint32_t dimension,
                                                               const float *scaled, float number,
                                                               float divisor, const float *from,
                                                               float *to, float *most, float *least)
{
    for (size_t at = 0; at < vector_stride(dimension); at += LEARN_LANES) {
        float values[LEARN_LANES];
        for (size_t l = 0; l < LEARN_LANES; l++) {
            float w = divides ? from[at + l] / divisor : from[at + l];
            values[l] = fmaf(scaled[at + l], number, w);
        }
        for (size_t l = 0; l < LEARN_LANES; l++) {
            most[l] = greater(values[l], most[l]);
            least[l] = less(values[l], least[l]);
            to[at + l] = values[l];
        }
    }
}

static void divide_column(uint32_t dimension, float divisor, const float *from, float *to)
{
    for (size_t i = 0; i < vector_stride(dimension); i++)
        to[i] = from[i] / divisor;
}

/* Numbers of the padding may be in the range, too: they are 0, and 0 is neither above 1 nor below
 * any bound. */
static void learn(uint32_t dimension, const float *scaled, const float *pattern, float divisor,
                  const float *from, size_t count, float *to, struct attractor_range *range)
{
    size_t stride = vector_stride(dimension);
    float most[LEARN_LANES], least[LEARN_LANES];
    for (size_t l = 0; l < LEARN_LANES; l++) {
        most[l] = range->greatest;
        least[l] = range->least;
    }
    for (size_t c = 0; c < count; c++, from += stride, to += stride) {
        if (!pattern)
            divide_column(dimension, divisor, from, to);
        else if (divisor != 1.0f)
            learn_column(true, dimension, scaled, pattern[c], divisor, from, to, most, least);
        else
            learn_column(false, dimension, scaled, pattern[c], divisor, from, to, most, least);
    }
    for (size_t l = 0; l < LEARN_LANES; l++) {
        range->greatest = greater(most[l], range->greatest);
        range->least = less(least[l], range->least);
    }
}

/* ---------------------------------------------------------------- an update */

/* The tree of canonical.h adds partials in this order if each sum is made as soon as both of its
 * sides are there: j with its five bits turned round. */
static uint32_t turned(uint32_t j)
{
    return (j & 1) << 4 | (j & 2) << 2 | (j & 4) | (j & 8) >> 2 | (j & 16) >> 4;
}

static void add_rows(size_t stride, const float *a, float *to)
{
    for (size_t i = 0; i < stride; i++)
        to[i] = a[i] + to[i];
}

/* Partial j of all rows of W at once: the columns j, j + 32, ... in rising order. */
static void take_plain(size_t stride, const float *column, float number, float *p)
{
    for (size_t i = 0; i < stride; i++)
        p[i] = fmaf(column[i], number, p[i]);
}

static void take_first(size_t stride, const float *column, float number, float *p)
{
    for (size_t i = 0; i < stride; i++)
        p[i] = fmaf(column[i], number, 0.0f);
}

static void take_compensated(size_t stride, const float *column, float number, float *p, float *c)
{
    for (size_t i = 0; i < stride; i++)
        canonical_take_compensated(&p[i], &c[i], column[i], number);
}

static void partial_plain(uint32_t dimension, const float *columns, const float *state, uint32_t j,
                          float *p)
{
    size_t stride = vector_stride(dimension);
    bool any = false;
    for (uint32_t k = j; k < dimension; k += VECTOR_LANES) {
        if (state[k] == 0.0f) continue;
        const float *column = columns + k * stride;
        if (any)
            take_plain(stride, column, state[k], p);
        else
            take_first(stride, column, state[k], p);
        any = true;
    }
    if (!any) memset(p, 0, stride * sizeof *p);
}

static void partial_compensated(uint32_t dimension, const float *columns, const float *state,
                                uint32_t j, float *p, float *c)
{
    size_t stride = vector_stride(dimension);
    memset(p, 0, stride * sizeof *p);
    memset(c, 0, stride * sizeof *c);
    for (uint32_t k = j; k < dimension; k += VECTOR_LANES)
        if (state[k] != 0.0f) take_compensated(stride, columns + k * stride, state[k], p, c);
}

/* Six lines of partial sums, and as many of corrections behind them. */
enum { UPDATE_LINES = 6 };

static void logistic_of(uint32_t dimension, const float *sums, float *next)
{
    for (size_t i = 0; i < vector_stride(dimension); i++)
        next[i] = canonical_logistic(sums[i]);
    pad(dimension, next);
}

static void update(uint32_t dimension, const float *columns, const float *state, float *scratch,
                   float *next)
{
    size_t stride = vector_stride(dimension);
    bool compensated = canonical_is_compensated(dimension);
    float *corrections = scratch + UPDATE_LINES * stride;
    uint32_t lines = 0;
    for (uint32_t t = 0; t < VECTOR_LANES; t++, lines++) {
        float *p = scratch + lines * stride, *c = corrections + lines * stride;
        if (compensated)
            partial_compensated(dimension, columns, state, turned(t), p, c);
        else
            partial_plain(dimension, columns, state, turned(t), p);
        for (uint32_t whole = t; whole & 1; whole >>= 1, lines--) {
            /* the right side lies on top; the sum takes the left one's place */
            add_rows(stride, scratch + lines * stride, scratch + (lines - 1) * stride);
            if (compensated)
                add_rows(stride, corrections + lines * stride, corrections + (lines - 1) * stride);
        }
    }
    if (compensated)
        for (size_t i = 0; i < stride; i++)
            scratch[i] = canonical_corrected(scratch[i], corrections[i]);
    logistic_of(dimension, scratch, next);
}

#endif
