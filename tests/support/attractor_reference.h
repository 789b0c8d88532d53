/* attractor_reference: completion, word by word and slowly: no padding, no columns, no selection
 * by digits. What kernels/attractor.h says, for tests to compare with.
 * Owner:  the tests.
 * Thread: any.
 * Errors: a failed allocation ends the process. */
#ifndef ENGRAM_TESTS_SUPPORT_ATTRACTOR_REFERENCE_H
#define ENGRAM_TESTS_SUPPORT_ATTRACTOR_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The sine, rounded once from the long double one. *certain becomes false where that cannot
 * tell. */
float reference_sine(float x, bool *certain);
/* The sum of products as the wire's scores have it. */
float reference_dot(uint32_t dimension, const float *x, const float *y);
float reference_cosine(uint32_t dimension, const float *x, const float *y);

/* 10 d x d, and d x d. The caller frees them. */
float *reference_dentate(uint32_t dimension);
float *reference_weights(uint32_t dimension);

void reference_learn(uint32_t dimension, float rate, const float *pattern, float *w);

/* The `kept` greatest stay: sorted by value and index. */
void reference_keep(float *values, uint32_t count, uint32_t kept);

struct reference_outcome {
    uint32_t rounds;
    bool converged;
    float confidence;
};
/* x: d numbers, those that are not known 0 already. state: d. kept: of CA3. */
struct reference_outcome reference_complete(uint32_t dimension, const float *dentate,
                                            const float *w, uint32_t kept, const float *x,
                                            float *state);

#endif
