/* reference: docs/arithmetic.md written out, one rounding a line, sharing no code with kernels/.
 * Owner:  tests.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_TESTS_REFERENCE_H
#define ENGRAM_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_COSINE = 1, REFERENCE_DOT = 2, REFERENCE_EUCLIDEAN = 3 };

struct reference_rows {
    uint32_t dimension;
    int metric;
    size_t count;
    const float *rows;   /* count x dimension, no padding */
    const uint64_t *ids; /* NULL: positions */
};

float reference_norm(uint32_t dimension, const float *x);
float reference_score(int metric, uint32_t dimension, const float *query, const float *row);

/* The k best of the rows for which allowed[i] (NULL: all), at least as good as *threshold (NULL:
 * all), best first, ties by id. Returns how many; ids and scores have room for min(k, count). */
size_t reference_knn(const struct reference_rows *r, const float *query, size_t k,
                     const bool *allowed, const float *threshold, uint64_t *ids, float *scores);

/* Floats in [-1, 1), the same for the same seed everywhere. */
void reference_fill(uint64_t seed, float *out, size_t count);

/* The same bits (and both NaN is the same). */
bool reference_same(float a, float b);

#endif
