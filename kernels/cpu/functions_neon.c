/* NEON: four lanes. */
#include "kernels/cpu/functions_loops.h"

const struct function_kernels functions_neon = {
    .name = "neon",
    .exponentials = exponentials,
    .logistics = logistics,
    .logarithms = logarithms,
    .sines = sines,
    .cosines = cosines,
};
