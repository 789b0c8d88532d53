/* The reference: plain C. */
#include "kernels/cpu/cluster_loops.h"

const struct cluster_kernels cluster_scalar = {
    .name = "scalar",
    .add = add,
    .divide = divide,
    .similarities = similarities,
    .largest = largest,
};
