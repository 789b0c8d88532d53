/* The reference. */
#include "kernels/cpu/transform_lanes_scalar.h"
#include "kernels/cpu/hrr_walk.h"

const struct hrr_kernels hrr_scalar = {.name = "scalar", .pairs = pairs, .many = many};
