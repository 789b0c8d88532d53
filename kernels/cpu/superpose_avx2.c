/* AVX2 and FMA: eight lanes. */
#include "kernels/cpu/superpose_loops.h"

const struct superpose_kernels superpose_avx2 = {
    .name = "avx2",
    .sums = sums,
    .fold = fold,
    .largest = largest,
};
