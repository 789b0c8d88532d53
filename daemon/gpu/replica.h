/* replica: copies in VRAM: of a collection's rows, norms and ids, of a matrix, or of the parts of a
 * graph, each in a range that grows in place (replica_fit.h).
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: as each function says. */
#ifndef ENGRAM_GPU_REPLICA_H
#define ENGRAM_GPU_REPLICA_H

#include "daemon/gpu/replica_list.h"

struct gpu;

/* Returns NULL if there is none. */
struct replica *replica_find(struct gpu *g, uint64_t id);
/* Returns NULL if there is no memory. */
struct replica *replica_make(struct gpu *g, uint64_t id, uint32_t space, uint32_t dimension);
/* It becomes the most recently used. reads: kernels of the task read it. */
void replica_hold(struct gpu *g, struct replica *r, bool reads);
/* A former version is gone when the last task lets it go. */
void replica_let_go(struct gpu *g, struct replica *r, bool reads);
/* True if tasks hold it or its former version. */
static inline bool replica_in_use(const struct replica *r)
{
    return r->holders || r->former;
}

/* It must not be in use. */
void replica_drop(struct gpu *g, struct replica *r);
/* `next`, a copy of r with ranges of its own, is found in place of r from now on, which becomes its
 * former version. Tasks hold r. */
void replica_supersede(struct gpu *g, struct replica *r, struct replica *next);
/* Frees what never became a version. NULL is fine. */
void replica_discard(struct gpu *g, struct replica *r);
void replicas_finish(struct gpu *g);
/* Its ranges, which were so many bytes together before, have changed. */
void replica_account(struct gpu *g, const struct replica *r, uint64_t before);

/* Returns the VRAM that it has mapped, without what it shares with its former version. */
uint64_t replica_bytes(const struct replica *r);
/* The number of ranges that do not give way as a shadow's do, and what those have mapped
 * (replica_shadow.h). */
static inline int replica_own_ranges(const struct replica *r)
{
    return r->dimension && !r->shadow_only ? RANGE_SHADOW : RANGES_MAX;
}
uint64_t replica_shadow_bytes(const struct replica *r);
/* What mapping so many bytes takes. */
uint64_t replica_mapped(const struct gpu *g, uint64_t bytes);

/* Returns how many bytes more r's space may have here for a second version of r. */
uint64_t replica_space_left(const struct gpu *g, const struct replica *r);
/* True if r may have `more` bytes: a second version, of r or of another replica of its space, never
 * makes all of them together more than the space may have. */
bool replica_may_grow(const struct gpu *g, const struct replica *r, uint64_t more);
uint64_t replica_shared(const struct replica *r);
struct cuda_rows replica_rows(const struct replica *r);
static inline const uint64_t *replica_ids(const struct replica *r)
{
    return (const uint64_t *)r->ranges[RANGE_IDS].base;
}

#endif
