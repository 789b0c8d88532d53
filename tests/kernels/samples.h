/* samples: vectors that are hard to sum alike.
 * Owner:  included by the kernel tests; everything is static inline.
 * Thread: any.
 * Errors: a failed allocation ends the test process. */
#ifndef ENGRAM_TESTS_KERNELS_SAMPLES_H
#define ENGRAM_TESTS_KERNELS_SAMPLES_H

#include "kernels/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sample {
    SAMPLE_UNIFORM,
    SAMPLE_MIXED,      /* exponents 40 powers of two apart */
    SAMPLE_CANCELLING, /* pairs that sum to almost nothing */
    SAMPLE_HUGE,       /* norm just under sqrt(FLT_MAX) */
    SAMPLE_TINY,       /* squares underflow */
    SAMPLE_SUBNORMAL,
    SAMPLE_ZERO,
    SAMPLE_NEGATIVE_ZERO, /* -0, and a few 1 */
    SAMPLE_SMALL,         /* squares are subnormal */
    SAMPLES,
};

static inline uint64_t sample_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [-1, 1). */
static inline float sample_uniform(uint64_t *state)
{
    return (float)((int64_t)sample_random(state) >> 40) * 0x1p-23f;
}

static inline float sample_element(enum sample kind, uint32_t dimension, uint32_t i,
                                   uint64_t *state)
{
    float u = sample_uniform(state);
    float sign = u < 0.0f ? -1.0f : 1.0f;
    switch (kind) {
    case SAMPLE_UNIFORM: return u;
    case SAMPLE_MIXED: return ldexpf(u, (int)(sample_random(state) % 40) - 20);
    case SAMPLE_CANCELLING: return (i & 32 ? -1.0f : 1.0f) * (1000.0f + ldexpf(u, -10));
    case SAMPLE_HUGE: return sign * 0x1.fffffp63f * 0.9999f / sqrtf((float)dimension);
    case SAMPLE_TINY: return u * 1e-30f;
    case SAMPLE_SUBNORMAL: return u * 0x1p-126f;
    case SAMPLE_NEGATIVE_ZERO: return i % 7 == 3 ? sign : -0.0f;
    case SAMPLE_SMALL: return u * 0x1p-70f;
    case SAMPLE_ZERO:
    case SAMPLES: break;
    }
    return 0.0f;
}

/* count floats whose address is a multiple of 64 but not of 128, and whose end is the end of the
 * allocation, so that a sanitizer sees the first float read past it. Free with samples_free. */
static inline float *samples_allocate(size_t count)
{
    float *base = NULL;
    if (posix_memalign((void **)&base, 128, 64 + count * sizeof(float)) != 0) abort();
    return base + 16;
}

static inline void samples_free(float *samples)
{
    free(samples - 16);
}

/* Rows of every kind in turn, starting with `first`. */
static inline float *samples_create(uint32_t dimension, size_t count, size_t first, uint64_t seed)
{
    size_t stride = vector_stride(dimension);
    float *rows = samples_allocate(count * stride);
    for (size_t r = 0; r < count; r++) {
        enum sample kind = (enum sample)((first + r) % SAMPLES);
        for (uint32_t i = 0; i < stride; i++)
            rows[r * stride + i] = i < dimension ? sample_element(kind, dimension, i, &seed) : 0.0f;
    }
    return rows;
}

static inline bool same_bits(const float *a, const float *b, size_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

#endif
