/* upload: rows of a collection, or bytes of a graph, into its replica: they go straight to their place
 * in the ranges; the device computes the rows' norms.
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: read: false where the order makes no sense. */
#ifndef ENGRAM_GPU_UPLOAD_H
#define ENGRAM_GPU_UPLOAD_H

#include "daemon/gpu/tasks.h"

/* What an order asks for. */
struct upload {
    uint32_t dimension; /* of a graph: 0 */
    bool fresh;
    struct replica_room room;
};

/* ---- upload_part.c ---- */

/* What moves, into t->in, but for where to. */
bool upload_part_read(struct gpu *g, struct task *t, struct upload *out);
void upload_part_place(struct task *t);

#endif
