/* The reference: plain C. */
#include "kernels/cpu/functions_loops.h"

const struct function_kernels functions_scalar = {
    .name = "scalar",
    .exponentials = exponentials,
    .logistics = logistics,
    .logarithms = logarithms,
    .sines = sines,
    .cosines = cosines,
};
