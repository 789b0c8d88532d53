/* attractor_settle: which values stay, what the dentate gyrus gives, and CA3's rounds. */
#include "kernels/attractor.h"

#include <string.h>

#include "kernels/topk.h"

uint32_t attractor_kept(uint32_t dimension, float sparsity)
{
    uint32_t kept = (uint32_t)((double)dimension * (double)sparsity + 0.5);
    if (kept > dimension) kept = dimension;
    return kept ? kept : 1;
}

/* ---------------------------------------------------------------- which values stay */

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Among the keys that begin with the digits above shift that `prefix` has, finds the digit at shift
 * of the one that stands at place *rank, from 0, in rising order; lessens *rank by those below. */
static uint32_t find_digit(const uint32_t *keys, size_t count, uint32_t prefix, uint32_t mask,
                           uint32_t shift, size_t *rank)
{
    uint32_t places[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        if ((keys[i] & mask) == prefix) places[keys[i] >> shift & (DIGITS - 1)]++;
    uint32_t digit = 0;
    while (*rank >= places[digit])
        *rank -= places[digit++];
    return digit;
}

/* Keys rise from the greatest value to the least. */
void attractor_keep(float *values, size_t count, size_t kept, uint32_t *keys)
{
    if (kept >= count) return;
    for (size_t i = 0; i < count; i++)
        keys[i] = topk_key(values[i], false);
    size_t ties = kept - 1; /* the rank of the last that stays, then its rank among its equals */
    uint32_t last = find_digit(keys, count, 0, 0, 21, &ties) << 21;
    last |= find_digit(keys, count, last, UINT32_C(0x7ff) << 21, 10, &ties) << 10;
    last |= find_digit(keys, count, last, UINT32_C(0x3fffff) << 10, 0, &ties) & 0x3ff;
    for (size_t i = 0; i < count; i++) {
        bool tie = keys[i] == last;
        if (keys[i] > last || (tie && ties == SIZE_MAX)) values[i] = 0.0f;
        if (tie && ties != SIZE_MAX) ties--; /* SIZE_MAX: all that may stay have been seen */
    }
}

void attractor_separate(uint32_t dimension, float *sums, uint32_t *keys, float *state)
{
    attractor_keep(sums, (size_t)ATTRACTOR_SPREAD * dimension, attractor_dentate_kept(dimension),
                   keys);
    for (uint32_t i = 0; i < dimension; i++) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < ATTRACTOR_SPREAD; k++)
            sum += sums[i * ATTRACTOR_SPREAD + k];
        state[i] = sum / (float)ATTRACTOR_SPREAD;
    }
    for (size_t i = dimension; i < vector_stride(dimension); i++)
        state[i] = 0.0f;
}

/* ---------------------------------------------------------------- CA3 */

size_t attractor_settle_bytes(uint32_t dimension)
{
    size_t floats = attractor_update_floats(dimension) + 3 * vector_stride(dimension);
    return (floats * sizeof(float) + 63) / 64 * 64;
}

bool attractor_round(const struct attractor_ca3 *a, float *state, struct attractor_outcome *out)
{
    size_t stride = vector_stride(a->dimension);
    float *next = a->scratch, *change = next + stride, norm;
    uint32_t *keys = (uint32_t *)(void *)(change + stride);
    float *sums = change + 2 * stride;
    a->kernels->update(a->dimension, a->columns, state, sums, next);
    attractor_keep(next, a->dimension, a->kept, keys);
    for (size_t i = 0; i < stride; i++)
        change[i] = next[i] - state[i];
    a->vectors->norms(a->dimension, change, 1, &norm);
    memcpy(state, next, stride * sizeof *state);
    out->rounds++;
    out->converged = norm < 0.01f;
    out->confidence = attractor_confidence(out->rounds);
    return out->rounds < ATTRACTOR_ROUNDS_MAX && !out->converged;
}

struct attractor_outcome attractor_settle(const struct attractor_kernels *kernels,
                                          const struct vector_kernels *vectors, uint32_t dimension,
                                          uint32_t kept, const float *columns, void *scratch,
                                          float *state)
{
    const struct attractor_ca3 a = {kernels, vectors, dimension, kept, columns, scratch};
    struct attractor_outcome out = {0};
    while (attractor_round(&a, state, &out))
        ;
    return out;
}
