/* replica_shadow: the rows of a replica in int8 as well (kernels/shadow.h), in VRAM that nothing
 * else wants: made when an upload has made the replica complete, kept up by later ones, given back
 * before any replica is evicted, and not taken over by a second version, which makes its own.
 * Owner:  the replica.
 * Thread: the device thread.
 * Errors: none: without memory, or if the device fails for it, there is no shadow. */
#ifndef ENGRAM_GPU_REPLICA_SHADOW_H
#define ENGRAM_GPU_REPLICA_SHADOW_H

#include "daemon/gpu/device.h"
#include "daemon/gpu/replica_list.h"

struct gpu;

/* Codes rows first .. end - 1, which are new or have changed, or all rows if the shadow lacks some;
 * the replica is complete, and searches behind this on the stream find it done. */
void replica_shadow_follow(struct gpu *g, struct replica *r, uint64_t first, uint64_t end,
                           device_stream stream);
/* Makes a shadow that found no memory before, if it is time to try again. */
void replica_shadow_retry(struct gpu *g, struct replica *r, device_stream stream);
/* Enqueues a comparison of the tiles (kernels/shadow_sum.h) of rows first .. end - 1 with their
 * checksums, whose struct cuda_shadow_found comes to `pinned`. The shadow is whole. */
enum device_result replica_shadow_look(struct gpu *g, const struct replica *r, uint64_t first,
                                       uint64_t end, void *pinned, device_stream stream);
/* Makes it anew from the rows, with a new centre. Without rows the replica is given up for that. */
void replica_shadow_renew(struct gpu *g, struct replica *r, device_stream stream);
/* No kernel may use it. False: there was none. */
bool replica_shadow_drop(struct gpu *g, struct replica *r);
/* Drops the one of the least recently used replica that has one and that no task holds, and is not
 * `but`. False: there is none. */
bool replica_shadow_evict(struct gpu *g, const struct replica *but);

/* ---- of a replica without rows (replica.shadow_only) ---- */

/* True if one is of use here. */
bool replica_shadow_alone(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* What it needs. */
struct replica_room replica_shadow_room(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* Measures and codes its rows first .. first + count - 1, which lie at `rows` in VRAM; r->rows is
 * what it has from now on. ERROR, if rows ahead of these were never coded. */
enum device_result replica_shadow_take(struct gpu *g, struct replica *r, const float *rows,
                                       uint64_t first, uint64_t count, device_stream stream);

/* ---- use ---- */

/* True if a search is to use the shadow. */
bool replica_shadow_helps(const struct gpu *g, const struct replica *r, uint64_t query_count,
                          uint32_t k);
/* The same of a search whose query travels with the launch. */
bool replica_shadow_helps_direct(const struct gpu *g, const struct replica *r, uint32_t k);
/* Counts a search that did without it. True: because it was of no use lately. */
bool replica_shadow_rest(struct gpu *g, struct replica *r);
/* Remembers how many of the pairs passed, and for how many queries it was of no use. False: too
 * many, and some of the next searches are to do without it. */
bool replica_shadow_learn(struct gpu *g, struct replica *r, uint64_t query_count, uint64_t passed,
                          uint64_t redone);
/* Tells the front what there is: r->shadow has changed. */
void replica_shadow_tell(struct gpu *g, const struct replica *r);
struct cuda_shadow replica_shadow(const struct replica *r);

#endif
