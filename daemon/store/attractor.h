/* attractor: a named weight matrix W of d x d numbers that learns patterns and completes them
 * (kernels/attractor.h). This copy in host memory is the authoritative one. W lies by columns, each
 * padded to vector_stride(d), in one block of the heap. The dentate matrix of its dimension, ten
 * times as large and constant, is shared by the attractors of a space (dentate.h).
 *
 * Readers pin the newest edition. A write makes the next one, a whole W of its own, and so leaves
 * W as it was if it fails. What nobody has pinned of an older one is freed when its last reader
 * leaves. W as it is at first and the dentate matrix are made after the attractor, in parts, while
 * the attractor is closed: whoever comes meanwhile waits (attractor_open).
 * Owner:  its space.
 * Thread: the loop owns name, turnstile, lifetime and which edition is the newest. An edition may
 *         be read on any thread by who has it pinned. One writer at a time, on any thread, between
 *         attractor_expect_write and attractor_publish.
 * Errors: as each function says; a failed call leaves the attractor as it was. */
#ifndef ENGRAM_STORE_ATTRACTOR_H
#define ENGRAM_STORE_ATTRACTOR_H

#include "daemon/store/edition.h"
#include "daemon/store/resident.h"
#include "kernels/attractor.h"

#define ATTRACTOR_SPARSITY 0.05f /* the part of CA3 that stays, unless told otherwise */
#define ATTRACTOR_RATE     0.01f /* of learning, likewise */

struct attractor;
struct attractor_edition;
struct dentate;

struct attractor_info {
    const char *name;
    uint32_t dimension, kept; /* kept: of CA3 */
    float sparsity, rate;
    uint64_t version;
    uint64_t patterns;      /* learned since it was made or its weights were set */
    uint64_t weight_bytes;  /* of the newest W */
    uint64_t dentate_bytes; /* of the matrix that all of the space's of this dimension share */
};

struct attractor_totals {
    uint64_t attractors, patterns;
    uint64_t bytes; /* newest weights, and dentate matrices once each */
};

/* ---- by name (attractor_names.c) ---- */

/* Makes an attractor, closed, with memory for W and for the dentate matrix. ALREADY_EXISTS;
 * INVALID_ARGUMENT: BAD_NAME, BAD_DIMENSION (1 .. ATTRACTOR_DIMENSION_MAX), BAD_SPARSITY (sparsity
 * or rate not above 0 and at most 1); RESOURCE_EXHAUSTED (MEMORY, QUOTA, TOO_MANY_COLLECTIONS). */
struct attractor_shape {
    uint32_t dimension;
    float sparsity, rate;
};
enum status attractor_shape_check(const struct attractor_shape *shape, struct failure *f);
enum status store_attractor_create(struct store *s, struct space *space, const char *name,
                                   const struct attractor_shape *shape, struct failure *f,
                                   struct attractor **out);
/* The same in two steps, as with collections. */
enum status store_attractor_prepare(struct store *s, struct space *space, const char *name,
                                    const struct attractor_shape *shape, struct failure *f,
                                    struct attractor **out);
enum status store_attractor_link(struct store *s, struct attractor *a, struct failure *f);
/* NOT_FOUND/UNKNOWN_ATTRACTOR, INVALID_ARGUMENT/BAD_NAME. */
enum status store_attractor_find(struct store *s, struct space *space, const char *name,
                                 struct failure *f, struct attractor **out);
/* Takes it out of the space's names at once; its memory stays until attractor_destroy. */
void store_attractor_unlink(struct store *s, struct space *space, struct attractor *a);
/* As of collections (collection.h). */
void store_attractor_rename(struct space *space, struct attractor *a, const char *name);
struct resident *store_attractor_made_by(const struct space *space, uint64_t maker);
/* Names greater than after ("" for all), in byte order, at most max; *more says whether others
 * follow. Returns how many. */
size_t store_attractor_list(struct store *s, struct space *space, const char *after,
                            struct attractor **out, size_t max, bool *more);
struct attractor_totals store_attractor_totals(const struct space *space);

/* ---- lifetime and editions; the loop ---- */

struct resident *attractor_resident(struct attractor *a);
struct attractor_info attractor_info(const struct attractor *a);
/* The same of one that was just made; its version is 0. */
struct attractor_info attractor_info_at_first(const char *name,
                                              const struct attractor_shape *shape);
struct dentate *attractor_dentate(const struct attractor *a);

/* Making the first W, in parts of so many columns: each once, on any thread, while closed. */
void attractor_make(struct attractor *a, const struct attractor_kernels *k, uint32_t first,
                    uint32_t count);
/* The loop: W and the dentate matrix are there. */
void attractor_open(struct attractor *a);

void attractor_expect_write(struct attractor *a);
void attractor_publish(struct attractor *a);
/* Gives all memory back; nobody has an edition pinned. NULL is fine. */
void attractor_destroy(struct attractor *a);

/* ---- readers ---- */

uint64_t attractor_version(const struct attractor_edition *e);
uint64_t attractor_patterns(const struct attractor_edition *e);
uint32_t attractor_dimension(const struct attractor_edition *e);
/* How many values of CA3 stay. */
uint32_t attractor_kept_values(const struct attractor_edition *e);
const float *attractor_columns(const struct attractor_edition *e);
const float *attractor_dentate_rows(const struct attractor_edition *e);

/* ---- copies elsewhere; the loop, while a reader has the newest edition pinned ---- */

/* A copy is a matrix of (1 + ATTRACTOR_SPREAD) d rows of vector_stride(d) floats: W's columns, then
 * the dentate matrix's rows. */
struct attractor_run {
    uint64_t first, count; /* of its rows */
    const float *rows;
};
const struct attractor_edition *attractor_now(const struct attractor *a);
/* Finds rows at `from` or behind it that are dirty to the copy; false: there are none. */
bool attractor_next_dirty(const struct attractor *a, uint64_t from, struct attractor_run *out);
void attractor_clean(struct attractor *a, const struct attractor_run *run);

/* ---- the writer ---- */

/* Returns the edition that the writer has made, or the newest. */
const struct attractor_edition *attractor_written(const struct attractor *a);

/* n patterns: rows of d floats, any alignment; or ids of rows of a collection of dimension d. */
struct attractor_patterns {
    const float *rows;
    const uint64_t *ids;
    const struct edition *collection; /* of ids */
    uint64_t n;
};
/* Whether a write is still wanted; looked at between pieces of it. */
struct attractor_wish {
    bool (*goes_on)(void *owner);
    void *owner;
    bool stopped; /* set by the write: it was not */
};
/* Learns the patterns in their order. INVALID_ARGUMENT naming the pattern: NOT_FINITE,
 * NORM_OVERFLOW, BAD_WEIGHTS (a weight would leave its range); NOT_FOUND/UNKNOWN_ID;
 * RESOURCE_EXHAUSTED (MEMORY, QUOTA). The version rises unless n is 0. A wish that ended: OK, and
 * nothing has changed. */
enum status attractor_learn(struct attractor *a, const struct vector_kernels *vectors,
                            const struct attractor_patterns *patterns, struct attractor_wish *wish,
                            struct failure *f);
/* Replaces W by d x d weights, row by row. INVALID_ARGUMENT/BAD_WEIGHTS naming the row and column
 * of one that is not finite or out of ATTRACTOR_WEIGHT_MIN .. ATTRACTOR_WEIGHT_MAX;
 * RESOURCE_EXHAUSTED. */
enum status attractor_set(struct attractor *a, const float *rows, struct attractor_wish *wish,
                          struct failure *f);

#endif
