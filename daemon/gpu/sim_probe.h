/* sim_probe: what a test may ask of a simulated device, beside what device.h offers.
 * Owner:  tests.
 * Thread: the device thread.
 * Errors: none. */
#ifndef ENGRAM_GPU_SIM_PROBE_H
#define ENGRAM_GPU_SIM_PROBE_H

#include "daemon/gpu/device.h"
#include "daemon/gpu/sim_stream.h"

/* The first call that failed as the settings asked; NULL: none did. */
const char *sim_probe_fault(struct device *d);
/* Is called before each piece of enqueued work is done, when all before it on its stream is. */
void sim_probe_watch(struct device *d, sim_watch watch, void *owner);

#endif
