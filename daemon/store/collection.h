/* collection: named float32 rows of one dimension and metric, with u64 ids. This copy in host
 * memory is the authoritative one. Rows are stored densely in segments, padded to 32 floats, with
 * their ids and norms beside them; an open addressing index maps an id to its row. Deleting a row
 * moves the last row into its place.
 *
 * Readers pin the newest edition (edition.h). A small write changes it in place if nobody has
 * pinned it; any other makes the next edition, which shares the segments that it leaves as they
 * are. What only old editions have is freed with them.
 * Owner:  its space.
 * Thread: the loop owns name, turnstile, lifetime and which edition is the newest. An edition's
 *         rows may be read on any thread by who has it pinned. One writer at a time, on any thread
 *         (collection_write_...), between collection_expect_write and collection_publish.
 * Errors: as each function says; a failed call leaves the collection as it was. */
#ifndef ENGRAM_STORE_COLLECTION_H
#define ENGRAM_STORE_COLLECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"
#include "daemon/store/edition.h"
#include "daemon/store/resident.h"
#include "daemon/store/shadow.h"
#include "daemon/store/space.h"

struct collection;
struct segment;

struct collection_info {
    const char *name;
    uint32_t dimension;
    enum metric metric;
    uint64_t rows;
    uint64_t version;
    uint64_t row_bytes;   /* of the segments, padding included */
    uint64_t index_bytes; /* of the ids, norms and index */
    uint64_t room_bytes;  /* of the segments, ids and norms, with all the room that they have */
    uint64_t vram_bytes;  /* of its replicas; filled in by the pipeline, here 0 */
    uint64_t vram_version;
    struct shadow_info shadow;      /* of its rows in int8, in the host */
    struct shadow_info vram_shadow; /* and of its replica's, on GPU vram_card; as vram_bytes */
    uint32_t vram_card;
    struct screen_counts screens[SCREENS];
};

/* Of up to `max` collections of the space, those with the most searches that asked rows in int8,
 * the most first; *left_out: how many others have some. */
size_t store_collection_screens(const struct space *space, const struct collection **out,
                                size_t max, size_t *left_out);

/* The part that a collection and a graph have in common, and shortcuts to its members. */
struct resident *collection_resident(struct collection *c);
struct space *collection_space(const struct collection *c);
struct turnstile *collection_turnstile(struct collection *c);
struct collection_info collection_info(const struct collection *c);

/* ---- editions; the loop ---- */

/* The newest edition. */
struct edition *collection_now(const struct collection *c);
/* Keeps the newest edition for a reader. NULL: a writer is changing it in place. */
struct edition *collection_pin(struct collection *c);
/* Ends a pin; with the last one what only this edition had is gone, */
void collection_release(struct edition *e);
/* and its memory, which takes a while, can be freed on any thread. */
struct gone {
    struct segment *segments; /* lists; NULL: none */
    struct row_index *indexes;
};
struct gone collection_take_gone(struct collection *c);
bool gone_is_much(const struct gone *g);
void gone_free(struct heap *heap, struct gone g);
/* Does all of that at once. */
void collection_unpin(struct edition *e);

/* ---- by name (collection_names.c) ---- */

/* Makes an empty collection. ALREADY_EXISTS, INVALID_ARGUMENT (name, dimension not within
 * 1..VECTOR_DIMENSION_MAX, metric), RESOURCE_EXHAUSTED (MEMORY, TOO_MANY_COLLECTIONS). */
enum status store_collection_create(struct store *s, struct space *space, const char *name,
                                    uint32_t dimension, uint32_t metric, struct failure *f,
                                    struct collection **out);
/* The same in two steps: makes it without entering its name, so that one thread alone can fill it;
 * and enters the name. */
enum status store_collection_prepare(struct store *s, struct space *space, const char *name,
                                     uint32_t dimension, uint32_t metric, struct failure *f,
                                     struct collection **out);
enum status store_collection_link(struct store *s, struct collection *c, struct failure *f);

/* NOT_FOUND/UNKNOWN_COLLECTION, INVALID_ARGUMENT/BAD_NAME. */
enum status store_collection_find(struct store *s, struct space *space, const char *name,
                                  struct failure *f, struct collection **out);

/* Takes the collection out of the space's names at once; its memory stays until
 * collection_destroy. */
void store_collection_unlink(struct store *s, struct space *space, struct collection *c);
/* Gives it another name, which is free. That needs no memory: the table of names neither gets empty
 * meanwhile, nor grows. */
void store_collection_rename(struct space *space, struct collection *c, const char *name);
/* One that is hidden and goes with that connection; NULL: there is none. */
struct resident *store_collection_made_by(const struct space *space, uint64_t maker);

/* Names greater than after ("" for all), in byte order, at most max; *more says whether others
 * follow. Returns how many. */
size_t store_collection_list(struct store *s, struct space *space, const char *after,
                             struct collection **out, size_t max, bool *more);

/* ---- a copy elsewhere ---- */

/* The record of whoever keeps a copy of the rows; NULL at first. The loop alone uses it. */
void *collection_replica(const struct collection *c);
void collection_set_replica(struct collection *c, void *replica);

/* Rows of the newest edition that changed since collection_clean was last called for them; at
 * first, all rows. Only the loop calls these, for a reader of the newest edition. */

/* Starts to track which rows change. False: no memory; then every row counts as dirty. */
bool collection_track(struct collection *c);
/* Finds the first run of dirty rows at or after `from` (0, or the end of another run), within one
 * segment. False: no row from there on is dirty. */
bool collection_next_dirty(const struct collection *c, uint64_t from, uint64_t *first,
                           uint64_t *count);
/* Marks a run that collection_next_dirty gave as clean. */
void collection_clean(struct collection *c, uint64_t first, uint64_t count);
/* Marks every row as dirty and stops tracking changes. */
void collection_soil(struct collection *c);
/* Bytes of the dirty rows, padding included. */
uint64_t collection_dirty_bytes(const struct collection *c);

/* ---- writer ---- */

struct shared_block;

/* n rows of exactly `dimension` floats each (unpadded, row-major, 64-byte aligned base) with n ids
 * (8-byte aligned). */
struct upsert_rows {
    const uint64_t *ids;
    const float *rows;
    uint64_t n;
    /* the memory that they lie in, of which the collection may keep the rows; NULL: it copies */
    struct shared_block *shared;
};

struct upsert_counts {
    uint64_t inserted, replaced;
};

/* The loop: a writer is let in, the only one. */
void collection_expect_write(struct collection *c);
/* The loop: that writer is through, well or not; what it wrote is seen by readers from now on. */
void collection_publish(struct collection *c);
/* Returns the edition that the writer has made, or the newest. */
struct edition *collection_written(const struct collection *c);

/* Inserts or replaces rows. INVALID_ARGUMENT naming the row or id: NOT_FINITE, NORM_OVERFLOW,
 * DUPLICATE_ID; RESOURCE_EXHAUSTED: MEMORY or QUOTA (with a retry hint if readers of old editions
 * hold some), TOO_MANY_ROWS. All or nothing; the version rises on success; n = 0 changes nothing.
 * Nobody changes the rows from now on, whose memory may be the collection's afterwards. */
enum status collection_write_rows(struct collection *c, const struct upsert_rows *what,
                                  struct upsert_counts *out, struct failure *f);

/* Deletes rows by id. Unknown and repeated ids count as missing. The version rises if a row was
 * deleted. Memory of emptied segments goes back to the system. RESOURCE_EXHAUSTED, as above. */
enum status collection_write_delete(struct collection *c, const uint64_t *ids, uint64_t n,
                                    uint64_t *deleted, uint64_t *missing, struct failure *f);

/* The same, expected and published: for whoever alone uses the collection. */
enum status collection_upsert(struct collection *c, const uint64_t *ids, const float *rows,
                              uint64_t n, struct upsert_counts *out, struct failure *f);
void collection_delete(struct collection *c, const uint64_t *ids, uint64_t n, uint64_t *deleted,
                       uint64_t *missing);

/* Deletes every row and gives the memory back to the system; an empty collection is small. Nobody
 * else may use the collection. So a worker can do the slow part of a drop before the loop destroys
 * the collection. */
void collection_clear(struct collection *c);

/* Gives the memory back to the system. The collection was unlinked (store_collection_unlink) or
 * never linked, and nobody has an edition pinned. NULL is fine. */
void collection_destroy(struct collection *c);

#endif
