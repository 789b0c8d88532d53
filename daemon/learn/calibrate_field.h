/* calibrate_field: the grounds that trials run on: made-up collections and graphs in a space that
 * no client can name, and the block that requests are made in.
 * Owner:  calibrate.
 * Thread: the loop; rows and edges are made and cleared by workers, a piece at a time.
 * Errors: field_make: as heap_take and store_collection_create; what it made by then is
 *         field_finish's. */
#ifndef ENGRAM_LEARN_CALIBRATE_FIELD_H
#define ENGRAM_LEARN_CALIBRATE_FIELD_H

#include "daemon/exec/backend.h"
#include "daemon/learn/calibrate_shapes.h"
#include "daemon/store/resident.h"
#include "daemon/store/space.h"

struct field {
    struct store *store;
    struct heap *heap;
    struct backend *gpu; /* NULL: none */
    struct space *space;
    struct resident *grounds[GROUNDS];
    struct heap_block memory;
    uint32_t shift;  /* of the grounds' rows */
    uint64_t filled; /* rows of the ground that is being filled */
    uint32_t ground; /* that is being filled or cleared */
};

/* All grounds, empty, as large as memory allows. gpu, which may have replicas of them: or NULL. */
enum status field_make(struct field *f, struct store *store, struct heap *heap,
                       struct backend *gpu);
void field_finish(struct field *f);

/* j is about that ground. */
void field_lend(const struct field *f, uint32_t ground, struct job *j);

/* Goes to the ground that wants rows; false: all have theirs. */
bool field_wants_rows(struct field *f);
/* The next of that ground's: sets j up for trial_fill. */
void field_next_rows(struct field *f, struct job *j);

/* Of each ground's rows or arrays. */
void field_bytes(const struct field *f, uint64_t bytes[GROUNDS]);

#endif
