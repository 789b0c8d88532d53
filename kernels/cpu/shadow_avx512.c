/* AVX-512 without VNNI: products as AVX2 makes them. */
#include "kernels/cpu/shadow_signs_loops.h"

const struct shadow_kernels shadow_avx512 = {
    .name = "avx512",
    .measure = measure,
    .prepare = prepare,
    .scan = scan,
    .pack = pack,
    .tile = tile,
};
