/* upload: copies rows of a collection or a matrix, or bytes of a graph, directly to their places in
 * its replica; the device computes the rows' norms.
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: read: false if the order is invalid. */
#ifndef ENGRAM_GPU_UPLOAD_H
#define ENGRAM_GPU_UPLOAD_H

#include "daemon/gpu/replica.h"
#include "daemon/gpu/replica_fit.h"
#include "daemon/gpu/tasks.h"

enum { UPLOAD_PLACES_MAX = 3 };

/* The contents of an order. */
struct upload {
    uint32_t dimension; /* 0: of a graph */
    bool fresh, bare, shadow_only, exact;
    uint32_t round;
    uint64_t space_bytes_max;
    struct replica_room room;
    struct upload_place {
        int range;
        uint64_t first, bytes;
    } places[UPLOAD_PLACES_MAX]; /* which it writes, or its norms */
    uint32_t place_count;
};

/* ---- upload_codes.c: rows of which a replica keeps the codes ---- */

/* Takes VRAM for the rows of the order until they are coded. *wait: others have it now. */
enum order_result upload_codes_take(struct gpu *g, struct task *t, bool *wait);
void upload_codes_place(struct gpu *g, struct task *t);
enum device_result upload_codes_launch(struct gpu *g, struct task *t);

/* ---- upload_part.c ---- */

/* Sets up t->in, except for the addresses on the device. */
bool upload_part_read(struct gpu *g, struct task *t, struct upload *out);
void upload_part_place(struct task *t);

#endif
