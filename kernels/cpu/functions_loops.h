/* functions_loops: loops of the functions, which the compiler vectorises with the instructions of
 * the file that includes them.
 * Owner:  included once by each functions_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_FUNCTIONS_LOOPS_H
#define ENGRAM_KERNELS_CPU_FUNCTIONS_LOOPS_H

#include "kernels/functions.h"

enum { FUNCTIONS_CHUNK = 512 };

/* Results are staged, so that the loop may be vectorised although `to` may be `from`. */
static inline __attribute__((always_inline)) void functions_loop(float (*function)(float),
                                                                 const float *from, size_t count,
                                                                 float *to)
{
    float results[FUNCTIONS_CHUNK];
    while (count > 0) {
        size_t some = count < FUNCTIONS_CHUNK ? count : FUNCTIONS_CHUNK;
        for (size_t i = 0; i < some; i++)
            results[i] = function(from[i]);
        memcpy(to, results, some * sizeof *to);
        from += some, to += some, count -= some;
    }
}

static void exponentials(const float *from, size_t count, float *to)
{
    functions_loop(canonical_exponential, from, count, to);
}

static void logistics(const float *from, size_t count, float *to)
{
    functions_loop(canonical_logistic, from, count, to);
}

static void logarithms(const float *from, size_t count, float *to)
{
    functions_loop(canonical_logarithm, from, count, to);
}

static void sines(const float *from, size_t count, float *to)
{
    functions_loop(canonical_angle_sine, from, count, to);
}

static void cosines(const float *from, size_t count, float *to)
{
    functions_loop(canonical_angle_cosine, from, count, to);
}

#endif
