/* covariance_loops: sums, packing and products of covariances, on the lanes of the variant that
 * includes it. The variant defines lane, of COVARIANCE_LANES doubles, with lane_zero, lane_load,
 * lane_all, lane_fma, lane_add and lane_store, and the products that its registers hold:
 * COVARIANCE_LEFT vectors of the left side by COVARIANCE_RIGHT numbers of the right one, both sides
 * dividing COVARIANCE_TILE; and COVARIANCE_ROWS, its depth.
 * Owner:  included once by each covariance_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none.
 *
 * A packed side is panels of as many columns as a micro-tile has, one behind the other; in a panel,
 * the columns of one row lie beside each other, and rows follow each other. Columns beyond the last
 * one are +0. */
#ifndef ENGRAM_KERNELS_CPU_COVARIANCE_LOOPS_H
#define ENGRAM_KERNELS_CPU_COVARIANCE_LOOPS_H

#include <math.h>
#include <string.h>

#include "kernels/covariance.h"

#define COVARIANCE_INLINE static inline __attribute__((always_inline))

enum { COVARIANCE_WIDE = COVARIANCE_LEFT * COVARIANCE_LANES };
_Static_assert(COVARIANCE_TILE % COVARIANCE_WIDE == 0, "panels of the left side fill a tile");
_Static_assert(COVARIANCE_TILE % COVARIANCE_RIGHT == 0, "panels of the right side fill a tile");

/* ---- sums of columns ---- */

static void sum(const struct covariance_rows *rows, size_t first, size_t columns, double *sums)
{
    for (size_t r = 0; r < rows->count; r++) {
        const float *row = rows->rows[r] + first;
        if (r + 4 < rows->count) {
            const float *ahead = rows->rows[r + 4] + first;
            for (size_t c = 0; c < columns; c += 16)
                __builtin_prefetch(ahead + c);
        }
        if (!rows->weights) {
            for (size_t c = 0; c < columns; c++)
                sums[c] += (double)row[c];
            continue;
        }
        double weight = (double)rows->weights[r];
        for (size_t c = 0; c < columns; c++)
            sums[c] = fma(weight, (double)row[c], sums[c]);
    }
}

/* ---- packing ---- */

COVARIANCE_INLINE void pack(size_t panel, const struct covariance_rows *rows, const float *weights,
                            struct covariance_columns columns, const double *mean, double *packed)
{
    double centred[COVARIANCE_TILE];
    size_t count = columns.count, filled = (count + panel - 1) / panel * panel;
    memset(centred, 0, sizeof centred);
    for (size_t r = 0; r < rows->count; r++) {
        const float *row = rows->rows[r] + columns.first;
        if (r + 4 < rows->count) {
            const float *ahead = rows->rows[r + 4] + columns.first;
            for (size_t c = 0; c < count; c += 16)
                __builtin_prefetch(ahead + c);
        }
        for (size_t c = 0; c < count; c++)
            centred[c] = (double)row[c] - mean[columns.first + c];
        if (weights) {
            double weight = (double)weights[r];
            for (size_t c = 0; c < count; c++)
                centred[c] *= weight;
        }
        for (size_t at = 0; at < filled; at += panel)
            memcpy(packed + at * rows->count + r * panel, centred + at, panel * sizeof *packed);
    }
}

static void pack_left(const struct covariance_rows *rows, struct covariance_columns columns,
                      const double *mean, double *packed)
{
    pack(COVARIANCE_WIDE, rows, rows->weights, columns, mean, packed);
}

static void pack_right(const struct covariance_rows *rows, struct covariance_columns columns,
                       const double *mean, double *packed)
{
    pack(COVARIANCE_RIGHT, rows, NULL, columns, mean, packed);
}

/* ---- products ---- */

COVARIANCE_INLINE void add_micro(const double *left, const double *right, size_t depth,
                                 double *tile)
{
    lane sums[COVARIANCE_RIGHT][COVARIANCE_LEFT];
    for (int j = 0; j < COVARIANCE_RIGHT; j++)
        for (int v = 0; v < COVARIANCE_LEFT; v++)
            sums[j][v] = lane_load(tile + j * COVARIANCE_TILE + v * COVARIANCE_LANES);
    for (size_t r = 0; r < depth; r++) {
        lane wide[COVARIANCE_LEFT];
        for (int v = 0; v < COVARIANCE_LEFT; v++)
            wide[v] = lane_load(left + v * COVARIANCE_LANES);
        for (int j = 0; j < COVARIANCE_RIGHT; j++) {
            lane one = lane_all(right[j]);
            for (int v = 0; v < COVARIANCE_LEFT; v++)
                sums[j][v] = lane_fma(wide[v], one, sums[j][v]);
        }
        left += COVARIANCE_WIDE;
        right += COVARIANCE_RIGHT;
    }
    for (int j = 0; j < COVARIANCE_RIGHT; j++)
        for (int v = 0; v < COVARIANCE_LEFT; v++)
            lane_store(tile + j * COVARIANCE_TILE + v * COVARIANCE_LANES, sums[j][v]);
}

static void add(const double *left, size_t left_columns, const double *right, size_t right_columns,
                size_t depth, bool diagonal, double *tile)
{
    for (size_t j = 0; j < right_columns; j += COVARIANCE_RIGHT)
        for (size_t i = 0; i < left_columns; i += COVARIANCE_WIDE) {
            if (diagonal && i >= j + COVARIANCE_RIGHT) break;
            add_micro(left + i * depth, right + j * depth, depth, tile + j * COVARIANCE_TILE + i);
        }
}

static void fold(const double *from, size_t numbers, double *to)
{
    for (size_t i = 0; i < numbers; i += COVARIANCE_LANES)
        lane_store(to + i, lane_add(lane_load(to + i), lane_load(from + i)));
}

#endif
