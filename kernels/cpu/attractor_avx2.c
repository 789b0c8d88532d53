/* AVX2 and FMA: eight lanes. */
#include "kernels/cpu/attractor_loops.h"

const struct attractor_kernels attractor_avx2 = {
    .name = "avx2",
    .dentate = dentate,
    .weights = weights,
    .learn = learn,
    .update = update,
};
