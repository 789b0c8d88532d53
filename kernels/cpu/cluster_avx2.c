/* AVX2 and FMA: eight lanes. */
#include "kernels/cpu/cluster_loops.h"

const struct cluster_kernels cluster_avx2 = {
    .name = "avx2",
    .add = add,
    .divide = divide,
    .similarities = similarities,
    .largest = largest,
};
