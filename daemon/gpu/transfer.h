/* transfer: copies bytes between the heap and the device through pieces of pinned memory: copiers
 * fill or empty some while others are on the bus.
 * Owner:  a task; the pieces are the process's.
 * Thread: the device thread; copiers run the parts.
 * Errors: a failure of the device sets transfer.failed; nothing more is started then. */
#ifndef ENGRAM_GPU_TRANSFER_H
#define ENGRAM_GPU_TRANSFER_H

#include "daemon/gpu/pieces.h"

struct gpu;

/* Waits for the copiers and frees the events; nothing may be started afterwards. */
void transfers_finish(struct gpu *g);

/* Starts what can be started; true if anything was. */
bool transfer_step(struct gpu *g, struct transfer *t);
/* In: everything is enqueued, but pieces may still be on the bus. Out: everything is in the
 * heap. */
bool transfer_issued(const struct transfer *t);
/* True if no piece is in flight, except for stuck ones. */
bool transfer_idle(const struct transfer *t);
/* Makes the transfer start nothing more. */
void transfer_stop(struct transfer *t);
/* Frees stuck pieces, once the device is done with the stream. */
void transfer_abandon(struct gpu *g, struct transfer *t);

/* Advances the pieces of all transfers; true if any moved. */
bool transfers_poll(struct gpu *g);

/* Copies and pads rows first .. first + count of a tensor and, unless they are bare, computes
 * their norms; called by the thread that has the pinned memory. Returns the first of them that is
 * not finite, or count. */
uint64_t transfer_rows(const struct vector_kernels *kernels, const struct section *s,
                       uint64_t first, uint64_t count, float *to, float *norms);
/* Copies bytes [first, first + bytes) of a tensor that does not consist of rows. */
void transfer_bytes(const struct section *s, uint64_t first, uint64_t bytes, char *pinned,
                    bool out);

#endif
