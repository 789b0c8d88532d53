/* vram_pool: blocks for requests inside one device slab: classes of 4 KiB, 64 KiB and 1 MiB, then
 * multiples of 1 MiB. It computes offsets and makes no device calls, so that tests need no GPU.
 * Owner:  the GPU process, one per device.
 * Thread: the device thread only.
 * Errors: STATUS_RESOURCE_EXHAUSTED when no run fits; the pool is unchanged.
 *
 * A block remembers its last owner: vram_block.dirty_bytes says how much of it another owner may
 * have written (in a fresh slab: everything). The taker must clear that before it can be read, and
 * sets dirty_bytes to 0 once the clearing is enqueued. A block that is given back with dirty bytes
 * counts as dirty for every owner. */
#ifndef ENGRAM_GPU_VRAM_POOL_H
#define ENGRAM_GPU_VRAM_POOL_H

#include <stdint.h>

#include "daemon/base/status.h"

struct vram_pool;

struct vram_block {
    uint64_t offset;      /* in the slab; a multiple of 256 */
    uint64_t bytes;       /* of its class, at least what was asked for; 0: no block */
    uint64_t dirty_bytes; /* from offset on: may be another owner's bytes; 0: none */
    uint64_t asked;       /* how many were asked for */
};

struct vram_pool_usage {
    uint64_t slab_bytes;
    uint64_t used_bytes;  /* of the blocks in use */
    uint64_t asked_bytes; /* of them, what was asked for */
    uint64_t blocks;
};

/* slab_bytes: rounded down to 1 MiB; RESOURCE_EXHAUSTED below that. Later calls allocate
 * nothing. */
enum status vram_pool_create(uint64_t slab_bytes, struct vram_pool **out);
void vram_pool_destroy(struct vram_pool *p);

/* bytes >= 1; owner (>= 1, below UINT32_MAX) is a space's number. Prefers what owner had last,
 * then the best fit, within a short search. */
enum status vram_pool_take(struct vram_pool *p, uint64_t bytes, uint32_t owner,
                           struct vram_block *out);
/* Gives a block back, once work that used it is done, and zeroes *b; an empty one is fine. */
void vram_pool_give(struct vram_pool *p, struct vram_block *b);

/* Returns the largest size that a take would get now. */
uint64_t vram_pool_largest(const struct vram_pool *p);
struct vram_pool_usage vram_pool_usage(const struct vram_pool *p);

#endif
