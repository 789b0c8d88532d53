/* AVX-512: sixteen lanes. */
#include "kernels/cpu/superpose_loops.h"

const struct superpose_kernels superpose_avx512 = {
    .name = "avx512",
    .sums = sums,
    .fold = fold,
    .largest = largest,
};
