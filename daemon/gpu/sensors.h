/* sensors: what NVML says of the card: temperature, power, clocks, use, memory, ECC, and why it is
 * slower than it could be; read once a second into the share. NVML is loaded when it is there, and
 * what it does not know is left out.
 * Owner:  the GPU process.
 * Thread: one of its own, which alone calls NVML: a call that never returns holds up nothing else,
 *         and what it said last grows old (SHARE_SENSORS_OLD_NS). It ends with the process.
 * Errors: none; one line in the log says why nothing is known. */
#ifndef ENGRAM_GPU_SENSORS_H
#define ENGRAM_GPU_SENSORS_H

#include "daemon/heap/share.h"

#define SENSORS_LIBRARY "libnvidia-ml.so.1"

/* library: its name or path; number: the card's in log lines. share->device is known, and share is
 * never unmapped. */
void sensors_start(const char *library, uint32_t number, struct share *share);

#endif
