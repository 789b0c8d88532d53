/* NEON: four lanes. */
#include "kernels/cpu/attractor_loops.h"

const struct attractor_kernels attractor_neon = {
    .name = "neon",
    .dentate = dentate,
    .weights = weights,
    .learn = learn,
    .update = update,
};
