/* bind_tables: the tables of binding (kernels/hrr.h) by dimension, in the host's memory, from where
 * they are copied to the device with each request that binds.
 * Owner:  the GPU process; the dimensions used last are kept.
 * Thread: the device thread; copiers read them.
 * Errors: NULL: no memory. */
#ifndef ENGRAM_GPU_BIND_TABLES_H
#define ENGRAM_GPU_BIND_TABLES_H

#include <stdint.h>

struct hrr_plan;

struct bind_tables {
    const struct hrr_plan *plan;
    uint32_t dimension;
    uint32_t users;
    struct bind_tables *next; /* used before it */
};

/* The tables of one dimension, which stay until they are given back; the first time they are made,
 * which takes up to 2 ms. */
struct bind_tables *bind_tables_take(struct bind_tables **kept, uint32_t dimension);
/* NULL is fine. */
void bind_tables_give(struct bind_tables **kept, struct bind_tables *t);
/* Frees all; nobody has any. */
void bind_tables_finish(struct bind_tables **kept);

#endif
