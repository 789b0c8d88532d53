/* The reference: plain C. */
#include "kernels/cpu/random_loops.h"

const struct random_kernels random_scalar = {
    .name = "scalar",
    .normal = normal,
};
