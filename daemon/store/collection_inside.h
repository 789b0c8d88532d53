/* collection_inside: the struct of a collection, for the files of daemon/store only: collection.c
 * (what it is), collection_editions.c (who sees which edition), collection_room.c (segments),
 * collection_upsert.c and collection_delete.c (writers).
 * Owner:  the store.
 * Thread: as collection.h says.
 * Errors: none. */
#ifndef ENGRAM_STORE_COLLECTION_INSIDE_H
#define ENGRAM_STORE_COLLECTION_INSIDE_H

#include <stdatomic.h>

#include "daemon/heap/outside.h"
#include "daemon/store/gate.h"
#include "daemon/store/collection.h"
#include "daemon/store/dirty.h"
#include "daemon/store/shadow_inside.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct row_index;

/* Rows that lie together, with their ids and norms. */
struct segment {
    struct heap_block rows;
    struct shared_block *shared; /* of which `rows` is a piece; NULL: it is a block of its own */
    uint64_t *ids;
    float *norms;         /* behind the ids, in the same memory */
    uint64_t rows_max;    /* how many have room */
    uint64_t born;        /* the number of the edition that made it: older ones do not see it */
    struct segment *next; /* in a list of those that newer editions do not see */
    struct segment_shadow shadow;
    struct outside outside; /* ids, norms and this struct */
};

struct edition {
    struct collection *of;
    uint64_t number; /* rises from edition to edition; changes in place leave it */
    /* These are atomic because the loop may read them while a writer works in place. */
    _Atomic uint64_t version, rows, index_bytes, room_bytes;
    /* Segment i holds rows [i << shift, (i + 1) << shift). The first may have room for fewer while
     * it is the only one. */
    struct segment **segments;
    size_t segment_count, segment_capacity;
    struct row_index *index; /* shared with other editions; NULL: no row was ever here */
    struct gate gate;
    struct edition *older, *newer;
    struct segment *left; /* what it sees and newer editions do not; older ones may */
};

/* A write of more than so many bytes makes a new edition, even if nobody sees the newest: who comes
 * while it works need not wait for it. In place the first take half a millisecond; the second, some
 * 10 ms, are for a write that would have to copy much more than it changes. */
enum { IN_PLACE_BYTES_MAX = 1 << 20, IN_PLACE_FAR_BYTES_MAX = 32 << 20 };

/* The write in progress. */
struct collection_write {
    struct edition *edition; /* that is written; NULL: nothing was changed */
    struct segment *left;    /* segments that it does not see any more */
    /* What the loop says when it lets the writer in. */
    bool tracked;       /* which rows change must be known */
    uint64_t older;     /* the number of the newest edition that is pinned and not the newest of
                           all; 0: none */
    uint64_t kept_rows; /* older editions see no row at or past this one */
    struct dirty changed;
    bool changed_all; /* there was no memory to note which */
};

struct collection {
    /* first, so that a resident of this kind can be cast to its collection */
    struct resident resident;
    struct heap *heap;
    const struct vector_kernels *kernels;
    uint32_t dimension;
    enum metric metric;
    size_t stride;          /* floats from row to row */
    uint32_t segment_shift; /* log2 of rows per segment */
    struct edition *now;
    struct collection_write write;
    struct gone gone;        /* what no edition sees any more */
    uint64_t id_bound;       /* the largest id that was ever here, or a larger one; the writer's */
    struct dirty dirty;      /* rows that changed since they were last copied to the replica */
    struct shadows *shadows; /* the store's; NULL: none */
    struct collection_shadow shadow;
    struct outside outside; /* this struct, and what belongs to an empty collection */
    UT_hash_handle hh;      /* in the space's table of collections */
};

enum status collection_create(struct heap *heap, const struct vector_kernels *kernels,
                              struct space *space, const char *name, uint32_t dimension,
                              enum metric metric, struct collection **out);

static inline uint64_t rows_of(const struct edition *e)
{
    return atomic_load_explicit(&e->rows, memory_order_relaxed);
}

static inline struct segment *segment_of(const struct edition *e, uint64_t row)
{
    return e->segments[row >> e->of->segment_shift];
}

static inline uint64_t row_in_segment(const struct edition *e, uint64_t row)
{
    return row & ((UINT64_C(1) << e->of->segment_shift) - 1);
}

static inline float *row_at(const struct edition *e, uint64_t row)
{
    return (float *)segment_of(e, row)->rows.data + row_in_segment(e, row) * e->of->stride;
}

static inline uint64_t *id_at(const struct edition *e, uint64_t row)
{
    return &segment_of(e, row)->ids[row_in_segment(e, row)];
}

static inline float *norm_at(const struct edition *e, uint64_t row)
{
    return &segment_of(e, row)->norms[row_in_segment(e, row)];
}

static inline uint64_t row_bytes_of(const struct collection *c)
{
    return c->stride * sizeof(float);
}

/* ---- collection_room.c: of an edition that is being written ---- */

/* Its pages go back to the system; segment_give: if it has a block, that may be used again, and if
 * it has a piece of one, shared_block_expect was called. */
void segment_free(struct heap *heap, struct segment *s);
void segment_give(struct heap *heap, struct segment *s);
/* Makes room for `rows` rows in all, and what of them is new is seen by nobody else. After a
 * failure some of it may have been taken; room_fit gives it back. */
enum status room_reserve(struct edition *e, uint64_t rows);
/* Makes segment i one that nobody else sees; room_renew: without its rows and their norms, which
 * the caller will write. */
enum status room_own(struct edition *e, size_t i);
enum status room_renew(struct edition *e, size_t i);
/* As room_renew, of a whole segment: its rows are there already, a piece of a block. */
enum status room_keep(struct edition *e, size_t i, struct shared_block *shared, float *rows);
/* Adds a segment behind the last, whose rows lie in a block of its own, or are a piece of a shared
 * one that is held for it (store/adopt.h). After an error they are the caller's to give up, with
 * room_adopt_fail. */
struct room_adopted {
    struct shared_block *shared; /* NULL: a block of its own */
    struct heap_block rows;
    uint64_t rows_max;
};
enum status room_adopt(struct edition *e, const struct room_adopted *room, struct segment **out);
void room_adopt_fail(struct heap *heap, struct room_adopted *room);
/* So many rows count; makes their index. */
enum status room_adopt_end(struct edition *e, uint64_t rows);
/* Makes room in the index for so many rows more. */
enum status room_for_ids(struct edition *e, uint64_t more);
/* Gives back memory that the present rows do not need. One spare segment may stay. */
void room_fit(struct edition *e);
/* Bytes of the segments as they were asked for, and of the ids and norms that have room. */
uint64_t room_bytes(const struct edition *e);

/* ---- collection_editions.c: a write, on the writer's thread ---- */

struct edition *edition_create(struct collection *c);
void edition_destroy(struct edition *e);
/* What a write will do. */
struct write_size {
    uint64_t bytes;    /* of rows that it writes */
    uint64_t copied;   /* bytes of segments that a next edition has to copy for it */
    uint64_t inserted; /* entries that it adds to the index, at most */
};
/* Runs a write, in place or not: change may be called twice, and nothing of what it did remains if
 * it fails; in place it must fail before it changes what is seen. */
enum status write_run(struct collection *c, const struct write_size *size,
                      enum status (*change)(void *write, struct failure *f), void *write,
                      struct failure *f);
bool write_is_in_place(const struct collection *c);
/* Notes that rows change. */
void write_mark(struct collection *c, uint64_t first, uint64_t count);
/* The edition has so many rows, and is complete. */
void write_end(struct collection *c, uint64_t rows);
/* Describes why there was no memory for a write. */
enum status write_refuse(struct collection *c, enum status st, const char *what, struct failure *f);

#endif
