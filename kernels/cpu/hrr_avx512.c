/* Sixteen numbers at a time. */
#include "kernels/cpu/transform_lanes_avx512.h"
#include "kernels/cpu/hrr_walk.h"

const struct hrr_kernels hrr_avx512 = {.name = "avx512", .pairs = pairs, .many = many};
