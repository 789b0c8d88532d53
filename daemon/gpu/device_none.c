/* device_none: this build has no CUDA. */
#include "daemon/gpu/device.h"

const struct device_ops *const device_cuda = NULL;
