/* device_cells: results that a device stores straight into pinned host memory. A cell's lower half
 * is a number, its upper half the launch's tag; one store writes both, so a cell with the tag has
 * come, whatever has become of the others.
 * Owner:  the task whose pinned memory it is.
 * Thread: the device thread; the device writes meanwhile.
 * Errors: none. A device that fails stores nothing more, so whoever waits must ask an event at
 *         last. */
#ifndef ENGRAM_GPU_DEVICE_CELLS_H
#define ENGRAM_GPU_DEVICE_CELLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct cells {
    uint64_t *at; /* NULL: none */
    uint32_t count;
    uint32_t tag;  /* not 0 */
    uint32_t seen; /* so many, from the first on, were found to have come */
};

/* How many cells a launch fills: kernels/cuda/vectors_cuda.h's cuda_direct. k = 0: all scores. */
static inline uint64_t cells_count(uint32_t k, uint64_t rows)
{
    return k ? 1 + 3 * (uint64_t)k : rows;
}

/* The same of shadow_cuda.h's cuda_shadow_direct: the last has how many rows were scored. */
static inline uint64_t cells_count_shadow(uint32_t k)
{
    return cells_count(k, 0) + 1;
}

/* Makes cells of which none has come. */
static inline void cells_init(struct cells *c, uint64_t *at, uint32_t count, uint32_t tag)
{
    *c = (struct cells){.at = at, .count = count, .tag = tag};
    memset(at, 0, count * sizeof *at);
}

/* The host reads what a device writes, so each read is one that the compiler may not divide. */
static inline uint64_t cells_read(const struct cells *c, uint32_t i)
{
    return atomic_load_explicit((_Atomic uint64_t *)&c->at[i], memory_order_relaxed);
}

/* True if all have come. */
static inline bool cells_came(struct cells *c)
{
    while (c->seen < c->count && cells_read(c, c->seen) >> 32 == c->tag)
        c->seen++;
    return c->seen == c->count;
}

static inline uint32_t cells_number(const struct cells *c, uint32_t i)
{
    return (uint32_t)cells_read(c, i);
}

#endif
