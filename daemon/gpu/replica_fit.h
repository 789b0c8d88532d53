/* replica_fit: VRAM for a replica of a given size.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: replica_fit: DEVICE_NO_MEMORY if even evicting every idle replica leaves too little.
 *
 * The budget limits what is mapped. To make room, the least recently used replicas that no task
 * holds are evicted, and the front is told. New memory is cleared before it is used, because it
 * may have belonged to another space. */
#ifndef ENGRAM_GPU_REPLICA_FIT_H
#define ENGRAM_GPU_REPLICA_FIT_H

#include "daemon/gpu/replica_list.h"

struct gpu;

/* The bytes of each range, and the most that it could ever have. */
struct replica_room {
    uint64_t bytes[RANGES_MAX], most[RANGES_MAX];
};
struct replica_room replica_room_of_rows(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* Takes VRAM for these sizes; new memory is cleared on the stream. *wait: nothing was done,
 * because a range must move or shrink and other tasks use the replica. */
enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait);

#endif
