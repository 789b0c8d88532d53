/* AVX2. */
#include "kernels/cpu/shadow_signs_loops.h"

const struct shadow_kernels shadow_avx2 = {
    .name = "avx2",
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
