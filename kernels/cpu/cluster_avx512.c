/* AVX-512: sixteen lanes. */
#include "kernels/cpu/cluster_loops.h"

const struct cluster_kernels cluster_avx512 = {
    .name = "avx512",
    .add = add,
    .divide = divide,
    .similarities = similarities,
    .largest = largest,
};
