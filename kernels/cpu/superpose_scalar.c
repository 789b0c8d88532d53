/* The reference: plain C. */
#include "kernels/cpu/superpose_loops.h"

const struct superpose_kernels superpose_scalar = {
    .name = "scalar",
    .sums = sums,
    .fold = fold,
    .largest = largest,
};
