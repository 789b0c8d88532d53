/* vram_units: the slab's units of 1 MiB: which runs are free, and who had each unit last.
 * Owner:  vram_pool.
 * Thread: the device thread only.
 * Errors: VRAM_NONE when no run fits; nothing changes then.
 *
 * A tag is the last owner's number; 0: it may be anyone's. A unit has one tag or, if it was used
 * for small blocks, TAG_PAGES, and then each of its pages has a tag. So runs split and merge
 * without losing any tag. */
#ifndef ENGRAM_GPU_VRAM_UNITS_H
#define ENGRAM_GPU_VRAM_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/status.h"

#define VRAM_NONE UINT32_MAX
#define TAG_PAGES UINT32_MAX

enum { VRAM_PAGE = 4096, VRAM_SLOT = 65536, VRAM_UNIT = 1 << 20 };
enum {
    PAGES_A_SLOT = VRAM_SLOT / VRAM_PAGE,
    SLOTS_A_UNIT = VRAM_UNIT / VRAM_SLOT,
    PAGES_A_UNIT = VRAM_UNIT / VRAM_PAGE,
    VRAM_BINS = 32,
    VRAM_UNITS_MAX = 1 << 23,
};

enum unit_state { UNIT_FREE, UNIT_TAKEN, UNIT_SPLIT };

struct vram_link {
    uint32_t next, previous;
};

struct vram_unit {
    uint32_t tag;
    uint32_t length;       /* units of the run that starts here; of a free run also where it ends */
    struct vram_link link; /* first unit of a free run: in its bin; split: in a list of vram_pool */
    uint16_t slots_free;   /* split: a bit for each slot */
    uint16_t slots_split;  /* split: a bit for each slot that is cut into pages */
    uint8_t state;         /* of the first unit of a run */
};

struct vram_units {
    uint32_t count;
    uint32_t bins[VRAM_BINS]; /* free runs, by the logarithm of their length */
    struct vram_unit *unit;
    uint32_t *page_tags; /* lazily initialised: read only if a unit's tag says so */
};

enum status vram_units_init(struct vram_units *s, uint32_t count);
void vram_units_finish(struct vram_units *s);

/* Takes a run of `count`. to_split: for small blocks: it is taken from the other end of the free
 * units, near what the owner has had, and not from where everything was the owner's. */
uint32_t vram_units_take(struct vram_units *s, uint32_t count, uint32_t owner, bool to_split);
/* first, count: as taken, in state UNIT_TAKEN. */
void vram_units_give(struct vram_units *s, uint32_t first, uint32_t count);
uint32_t vram_units_longest(const struct vram_units *s);

/* Returns the bytes from the start of the first unit or page that others may have written. */
uint64_t vram_units_dirt(const struct vram_units *s, uint32_t first, uint32_t count,
                         uint32_t owner);
uint64_t vram_pages_dirt(const struct vram_units *s, uint32_t first, uint32_t count,
                         uint32_t owner);

#endif
