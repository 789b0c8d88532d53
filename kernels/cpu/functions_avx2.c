/* AVX2 and FMA: eight lanes. */
#include "kernels/cpu/functions_loops.h"

const struct function_kernels functions_avx2 = {
    .name = "avx2",
    .exponentials = exponentials,
    .logistics = logistics,
    .logarithms = logarithms,
    .sines = sines,
    .cosines = cosines,
};
