/* AVX-512: sixteen lanes. */
#include "kernels/cpu/attractor_loops.h"

const struct attractor_kernels attractor_avx512 = {
    .name = "avx512",
    .dentate = dentate,
    .weights = weights,
    .learn = learn,
    .update = update,
};
