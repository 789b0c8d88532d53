/* vram_pool: blocks for requests inside one device slab: classes of 4 KiB, 64 KiB and 1 MiB, then
 * multiples of 1 MiB. Offsets only: no device calls; tests need no GPU.
 * Owner:  the GPU process, one per device.
 * Thread: the device thread only.
 * Errors: STATUS_RESOURCE_EXHAUSTED when no run fits; the pool is unchanged.
 *
 * A block remembers its last owner: vram_block.dirty_bytes says how much of it another owner may
 * have written (of a fresh slab: all), which the taker must clear before it can be read. Once that
 * is enqueued the taker sets it to 0: a block that comes back with some is dirty for everyone. */
#ifndef ENGRAM_GPU_VRAM_POOL_H
#define ENGRAM_GPU_VRAM_POOL_H

#include <stdint.h>

#include "daemon/base/status.h"

struct vram_pool;

struct vram_block {
    uint64_t offset;      /* into the slab; a multiple of 256 */
    uint64_t bytes;       /* of its class, at least what was asked for; 0: no block */
    uint64_t dirty_bytes; /* from offset on: others' bytes; 0: none */
};

struct vram_pool_usage {
    uint64_t slab_bytes;
    uint64_t used_bytes; /* in blocks handed out */
    uint64_t blocks;
};

/* slab_bytes: rounded down to 1 MiB; RESOURCE_EXHAUSTED below that. Takes no memory later. */
enum status vram_pool_create(uint64_t slab_bytes, struct vram_pool **out);
void vram_pool_destroy(struct vram_pool *p);

/* bytes >= 1; owner (>= 1, below UINT32_MAX) names the space. What owner had last is preferred,
 * then the best fit; a short walk. */
enum status vram_pool_take(struct vram_pool *p, uint64_t bytes, uint32_t owner,
                           struct vram_block *out);
/* Gives a block back (work that used it is done) and zeroes *b; nothing for an empty one. */
void vram_pool_give(struct vram_pool *p, struct vram_block *b);

/* The largest take that would succeed now. */
uint64_t vram_pool_largest(const struct vram_pool *p);
struct vram_pool_usage vram_pool_usage(const struct vram_pool *p);

#endif
