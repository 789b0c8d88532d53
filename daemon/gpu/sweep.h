/* sweep: while nothing is asked, the shadows of replicas (replica_shadow.h) are compared with their
 * checksums, a few tiles at a time. One that differs is made anew from the rows, and so is one
 * whose rows lie half as far again from their codes as when its centre was chosen.
 * Owner:  struct gpu.
 * Thread: the device thread.
 * Errors: none; what the device does not do is tried again later. */
#ifndef ENGRAM_GPU_SWEEP_H
#define ENGRAM_GPU_SWEEP_H

struct gpu;

/* Called in each turn: takes what the device has found, and begins the next look if it is time. */
void sweep_turn(struct gpu *g);
/* The device does nothing any more. */
void sweep_finish(struct gpu *g);

#endif
