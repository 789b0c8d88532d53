/* engram-accel-gpu: everything that is CUDA, in a process of its own that may be killed at any
 * instant. engram-acceld starts it; it is of no use by hand. */
#include "daemon/gpu/device.h"

int main(void)
{
    return device_cuda ? 0 : 1;
}
