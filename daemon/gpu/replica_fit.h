/* replica_fit: VRAM for a replica of a given size, and for a second version of one.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: DEVICE_NO_MEMORY if even evicting every idle replica leaves too little.
 *
 * The budget limits what is mapped. To make room, the least recently used replicas that no task
 * holds are evicted, and the front is told. New memory is cleared before it is used, because it
 * may have belonged to another space. */
#ifndef ENGRAM_GPU_REPLICA_FIT_H
#define ENGRAM_GPU_REPLICA_FIT_H

#include "daemon/gpu/replica_list.h"

struct gpu;

struct replica_room replica_room_of_rows(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* Takes VRAM for these sizes; new memory is cleared on the stream. *wait: nothing was done,
 * because a range must move or shrink and other tasks use the replica. */
enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait);

/* Makes a second version of r, which tasks hold, of these sizes and with r's contents: r becomes
 * its former version. It shares r's memory where the device can. If it fails, *out is what is to be
 * discarded when the stream is done, or NULL. */
enum device_result replica_fork(struct gpu *g, struct replica *r, const struct replica_room *room,
                                device_stream stream, struct replica **out);
/* Ends the sharing where [first, first + bytes) of a range lies, so that it can be written there;
 * no enqueued work may use r. */
enum device_result replica_own(struct gpu *g, struct replica *r, int range, uint64_t first,
                               uint64_t bytes, device_stream stream);

#endif
