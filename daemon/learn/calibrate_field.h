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
    uint32_t shift;  /* how far the number of rows of the grounds is reduced */
    uint64_t filled; /* rows made so far of the ground that is being filled */
    uint32_t ground; /* the ground that is being filled or cleared */
};

/* Makes all grounds, empty, as large as memory allows. gpu may hold replicas of them; NULL:
 * none. */
enum status field_make(struct field *f, struct store *store, struct heap *heap,
                       struct backend *gpu);
void field_finish(struct field *f);

/* Makes j a job on that ground. */
void field_lend(const struct field *f, uint32_t ground, struct job *j);

/* Moves on to the next ground without all its rows; false: all grounds are complete. */
bool field_wants_rows(struct field *f);
/* Sets j up for trial_fill with the next rows of that ground. */
void field_next_rows(struct field *f, struct job *j);

/* Bytes of each ground's rows or arrays. */
void field_bytes(const struct field *f, uint64_t bytes[GROUNDS]);

#endif
