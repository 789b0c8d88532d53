/* random_loops: rows of normal numbers by loops over columns, which the compiler vectorises with
 * the instructions of the file that includes them.
 * Owner:  included once by each random_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_RANDOM_LOOPS_H
#define ENGRAM_KERNELS_CPU_RANDOM_LOOPS_H

#include "kernels/random.h"

enum { RANDOM_BLOCKS = 64, RANDOM_COLUMNS = 4 * RANDOM_BLOCKS };

/* Blocks first .. first + RANDOM_BLOCKS - 1 of a row. */
static void random_columns(uint64_t seed, uint64_t row, uint32_t first, float scale,
                           float to[RANDOM_COLUMNS])
{
    uint32_t words[4][RANDOM_BLOCKS];
    float cosines[2][RANDOM_BLOCKS], sines[2][RANDOM_BLOCKS];
    for (uint32_t b = 0; b < RANDOM_BLOCKS; b++) {
        struct random_words w = random_block(seed, row, first + b);
        words[0][b] = w.w0, words[1][b] = w.w1, words[2][b] = w.w2, words[3][b] = w.w3;
    }
    for (int pair = 0; pair < 2; pair++) {
        for (uint32_t b = 0; b < RANDOM_BLOCKS; b++) {
            struct canonical_point p =
                random_pair(words[2 * pair][b], words[2 * pair + 1][b], scale);
            cosines[pair][b] = p.cosine, sines[pair][b] = p.sine;
        }
    }
    for (uint32_t b = 0; b < RANDOM_BLOCKS; b++) {
        to[4 * b] = cosines[0][b], to[4 * b + 1] = sines[0][b];
        to[4 * b + 2] = cosines[1][b], to[4 * b + 3] = sines[1][b];
    }
}

static void normal(uint64_t seed, uint32_t dimension, uint64_t first, size_t count, float *rows)
{
    size_t stride = vector_stride(dimension);
    float scale = random_scale(dimension), some[RANDOM_COLUMNS];
    for (size_t r = 0; r < count; r++, rows += stride) {
        for (uint32_t c = 0; c < dimension; c += RANDOM_COLUMNS) {
            uint32_t columns = dimension - c < RANDOM_COLUMNS ? dimension - c : RANDOM_COLUMNS;
            random_columns(seed, first + r, c / 4, scale, some);
            memcpy(rows + c, some, columns * sizeof *rows);
        }
        memset(rows + dimension, 0, (stride - dimension) * sizeof *rows);
    }
}

#endif
