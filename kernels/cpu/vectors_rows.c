/* Operations on rows that are the same for every variant. */
#include <math.h>
#include <string.h>

#include "kernels/vectors.h"

void vectors_pad(uint32_t dimension, const float *from, size_t count, float *to)
{
    size_t stride = vector_stride(dimension), pad = stride - dimension;
    if (!pad) {
        memcpy(to, from, count * dimension * sizeof *to);
        return;
    }
    for (size_t i = 0; i < count; i++, from += dimension, to += stride) {
        memcpy(to, from, dimension * sizeof *to);
        memset(to + dimension, 0, pad * sizeof *to);
    }
}

size_t vectors_find_bad(const float *norms, size_t count)
{
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= !(norms[i] < INFINITY);
    if (!bad) return count;
    size_t i = 0;
    while (norms[i] < INFINITY)
        i++;
    return i;
}
