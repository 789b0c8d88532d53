/* NEON: four lanes. */
#include "kernels/cpu/random_loops.h"

const struct random_kernels random_neon = {
    .name = "neon",
    .normal = normal,
};
