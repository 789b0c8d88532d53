#include "tests/support/attractor_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/functions.h"

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) abort();
    return p;
}

float reference_sine(float x, bool *certain)
{
    long double sine = sinl((long double)x), unsure = fabsl(sine) * 0x1p-60L;
    *certain = (float)(sine - unsure) == (float)(sine + unsure);
    return (float)sine;
}

float reference_dot(uint32_t dimension, const float *x, const float *y)
{
    float p[32] = {0}, c[32] = {0};
    for (uint32_t i = 0; i < dimension; i++) {
        uint32_t j = i % 32;
        if (dimension <= 1024) {
            p[j] = fmaf(x[i], y[i], p[j]);
            continue;
        }
        float h = x[i] * y[i], e = fmaf(x[i], y[i], -h);
        float s = p[j] + h, a = s - p[j], f = (p[j] - (s - a)) + (h - a);
        c[j] = c[j] + (e + f);
        p[j] = s;
    }
    for (int s = 16; s; s /= 2) {
        for (int j = 0; j < s; j++) {
            p[j] = p[j] + p[j + s];
            c[j] = c[j] + c[j + s];
        }
    }
    return dimension > 1024 && isfinite(c[0]) ? p[0] + c[0] : p[0];
}

float reference_cosine(uint32_t dimension, const float *x, const float *y)
{
    float norms = sqrtf(reference_dot(dimension, x, x)) * sqrtf(reference_dot(dimension, y, y));
    float cosine = norms == 0.0f ? 0.0f : reference_dot(dimension, x, y) / norms;
    return fminf(1.0f, fmaxf(-1.0f, cosine));
}

static float sine_or_die(float x)
{
    bool certain;
    float sine = reference_sine(x, &certain);
    if (!certain) abort();
    return sine;
}

float *reference_dentate(uint32_t dimension)
{
    float *d = allocate((size_t)10 * dimension * dimension * sizeof *d);
    for (uint64_t i = 0; i < (uint64_t)10 * dimension; i++)
        for (uint64_t j = 0; j < dimension; j++)
            d[i * dimension + j] = 0.1f * sine_or_die((float)(dimension * i + j));
    return d;
}

float *reference_weights(uint32_t dimension)
{
    float *w = allocate((size_t)dimension * dimension * sizeof *w);
    for (uint64_t i = 0; i < dimension; i++)
        for (uint64_t j = 0; j < dimension; j++)
            w[i * dimension + j] = 0.01f * sine_or_die(0.1f * (float)(dimension * i + j));
    return w;
}

void reference_learn(uint32_t dimension, float rate, const float *pattern, float *w)
{
    size_t count = (size_t)dimension * dimension;
    float most = -INFINITY;
    for (size_t at = 0; at < count; at++) {
        w[at] = fmaf(rate * pattern[at / dimension], pattern[at % dimension], w[at]);
        most = fmaxf(most, w[at]);
    }
    for (size_t at = 0; most > 1.0f && at < count; at++)
        w[at] = w[at] / most;
}

struct place {
    float value;
    uint32_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

void reference_keep(float *values, uint32_t count, uint32_t kept)
{
    struct place *places = allocate(count * sizeof *places);
    for (uint32_t i = 0; i < count; i++)
        places[i] = (struct place){values[i], i};
    qsort(places, count, sizeof *places, by_value);
    for (uint32_t i = kept; i < count; i++)
        values[places[i].at] = 0.0f;
    free(places);
}

struct reference_outcome reference_complete(uint32_t dimension, const float *dentate,
                                            const float *w, uint32_t kept, const float *x,
                                            float *state)
{
    uint32_t separated = dimension / 2 > 1 ? dimension / 2 : 1;
    float *a = allocate((size_t)10 * dimension * sizeof *a);
    float *next = allocate(dimension * sizeof *next), *change = allocate(dimension * sizeof *next);
    for (uint32_t i = 0; i < 10 * dimension; i++)
        a[i] = reference_dot(dimension, x, dentate + (size_t)i * dimension);
    reference_keep(a, 10 * dimension, separated);
    for (uint32_t i = 0; i < dimension; i++) {
        state[i] = 0.0f;
        for (uint32_t k = 0; k < 10; k++)
            state[i] = state[i] + a[10 * i + k];
        state[i] = state[i] / 10.0f;
    }
    struct reference_outcome out = {0};
    while (out.rounds < 7 && !out.converged) {
        for (uint32_t i = 0; i < dimension; i++) {
            float sum = reference_dot(dimension, w + (size_t)i * dimension, state);
            next[i] = 1.0f / (1.0f + canonical_exponential(-sum));
        }
        reference_keep(next, dimension, kept);
        for (uint32_t i = 0; i < dimension; i++)
            change[i] = next[i] - state[i];
        out.converged = sqrtf(reference_dot(dimension, change, change)) < 0.01f;
        memcpy(state, next, dimension * sizeof *next);
        out.rounds++;
    }
    out.confidence = 0.9f * (1.0f - (float)out.rounds / 7.0f);
    free(a);
    free(next);
    free(change);
    return out;
}
