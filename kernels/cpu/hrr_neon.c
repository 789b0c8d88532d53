/* Four numbers at a time. */
#include "kernels/cpu/transform_lanes_neon.h"
#include "kernels/cpu/hrr_walk.h"

const struct hrr_kernels hrr_neon = {.name = "neon", .pairs = pairs, .many = many};
