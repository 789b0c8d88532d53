/* AVX-512: sixteen lanes. */
#include "kernels/cpu/random_loops.h"

const struct random_kernels random_avx512 = {
    .name = "avx512",
    .normal = normal,
};
