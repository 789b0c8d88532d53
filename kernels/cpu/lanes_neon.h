/* lanes_neon: folding 32 partials held as eight 128-bit registers.
 * Owner:  the two NEON files; everything is static inline.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_LANES_NEON_H
#define ENGRAM_KERNELS_CPU_LANES_NEON_H

#include <arm_neon.h>

/* Steps 16, 8 and 4 of the tree: p[i] holds partials 4 i to 4 i + 3. */
static inline float32x4_t lanes_fours(const float32x4_t p[8])
{
    float32x4_t p0 = vaddq_f32(p[0], p[4]), p1 = vaddq_f32(p[1], p[5]);
    float32x4_t p2 = vaddq_f32(p[2], p[6]), p3 = vaddq_f32(p[3], p[7]);
    return vaddq_f32(vaddq_f32(p0, p2), vaddq_f32(p1, p3));
}

/* Step 2 of two vectors. */
static inline float32x4_t lanes_pairs(float32x4_t a, float32x4_t b)
{
    return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)),
                     vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}

/* Steps 2 and 1 of four vectors. */
static inline float32x4_t lanes_fold(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    return vpaddq_f32(lanes_pairs(a, b), lanes_pairs(c, d));
}

#endif
