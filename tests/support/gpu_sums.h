/* gpu_sums: orders that add up lists of rows, and whether what came back is right to the bit.
 * Owner:  the test.
 * Thread: one.
 * Errors: fail the test; sums_right says false. */
#ifndef ENGRAM_TESTS_GPU_SUMS_H
#define ENGRAM_TESTS_GPU_SUMS_H

#include "tests/support/gpu_ask.h"

struct sums {
    const struct ask_rows *of;
    uint64_t rows;  /* in all lists together */
    uint64_t lists; /* about as long as each other */
    bool comes;     /* the first of `of` come with the order; otherwise by position */
    bool weighted, unit;
};

struct order sums_ask(struct gpu_peer *p, const struct sums *s);

/* The rows of a replica are these. */
bool sums_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
