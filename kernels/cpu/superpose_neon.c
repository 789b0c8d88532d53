/* NEON: four lanes. */
#include "kernels/cpu/superpose_loops.h"

const struct superpose_kernels superpose_neon = {
    .name = "neon",
    .sums = sums,
    .fold = fold,
    .largest = largest,
};
