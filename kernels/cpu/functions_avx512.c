/* AVX-512: sixteen lanes. */
#include "kernels/cpu/functions_loops.h"

const struct function_kernels functions_avx512 = {
    .name = "avx512",
    .exponentials = exponentials,
    .logistics = logistics,
    .logarithms = logarithms,
    .sines = sines,
    .cosines = cosines,
};
