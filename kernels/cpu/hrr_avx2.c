/* Eight numbers at a time. */
#include "kernels/cpu/transform_lanes_avx2.h"
#include "kernels/cpu/hrr_walk.h"

const struct hrr_kernels hrr_avx2 = {.name = "avx2", .pairs = pairs, .many = many};
