/* The reference: plain C. */
#include "kernels/cpu/attractor_loops.h"

const struct attractor_kernels attractor_scalar = {
    .name = "scalar",
    .dentate = dentate,
    .weights = weights,
    .learn = learn,
    .update = update,
};
