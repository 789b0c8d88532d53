/* sim_probe: functions of a simulated device for tests, in addition to device.h.
 * Owner:  tests.
 * Thread: the device thread.
 * Errors: none. */
#ifndef ENGRAM_GPU_SIM_PROBE_H
#define ENGRAM_GPU_SIM_PROBE_H

#include "daemon/gpu/device.h"
#include "daemon/gpu/sim_stream.h"

/* Returns the first call that failed because of the settings; NULL: none. */
const char *sim_probe_fault(struct device *d);
/* Sets a function that is called before each piece of enqueued work is done, when all work before
 * it on its stream is. */
void sim_probe_watch(struct device *d, sim_watch watch, void *owner);

#endif
