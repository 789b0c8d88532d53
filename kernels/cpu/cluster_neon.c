/* NEON: four lanes. */
#include "kernels/cpu/cluster_loops.h"

const struct cluster_kernels cluster_neon = {
    .name = "neon",
    .add = add,
    .divide = divide,
    .similarities = similarities,
    .largest = largest,
};
