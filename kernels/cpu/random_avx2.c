/* AVX2 and FMA: eight lanes. */
#include "kernels/cpu/random_loops.h"

const struct random_kernels random_avx2 = {
    .name = "avx2",
    .normal = normal,
};
