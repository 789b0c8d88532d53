/* adopt_collection: rows stay in their segments, which are blocks or pieces of blocks. */
#include <string.h>

#include "daemon/heap/shared_block.h"
#include "daemon/store/adopt_inside.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/row_index.h"
#include "daemon/store/restore.h"
#include "daemon/store/space_inside.h"

struct told_collection {
    uint64_t dimension, metric, rows, id_bound;
};

/* Its rows' ids and norms follow. */
struct told_segment {
    uint64_t rows_max, is_piece;
    uint64_t offset, bytes; /* of the piece */
    struct heap_told block;
};

enum { ROWS_ALIGN = 64 };

/* ---- telling ---- */

static void tell_segment(struct heap *heap, const struct segment *s, uint64_t rows,
                         struct catalogue_writer *w)
{
    struct told_segment told = {.rows_max = s->rows_max, .is_piece = s->shared != NULL};
    if (s->shared) {
        shared_block_tell(s->shared, &told.block);
        told.offset = heap_place(heap, s->rows.data);
        told.bytes = s->rows.bytes;
    } else {
        heap_tell(heap, &s->rows, &told.block);
    }
    catalogue_put(w, &told, sizeof told);
    catalogue_put(w, s->ids, rows * sizeof *s->ids);
    catalogue_put(w, s->norms, rows * sizeof *s->norms);
}

void tell_collection(struct heap *heap, const struct resident *r, struct catalogue_writer *w)
{
    const struct collection *c = (const struct collection *)r;
    const struct edition *e = c->now;
    uint64_t each = UINT64_C(1) << c->segment_shift, left = rows_of(e);
    struct told_collection told = {c->dimension, c->metric, left, c->id_bound};
    catalogue_put(w, &told, sizeof told);
    for (size_t i = 0; left; i++) {
        uint64_t rows = left < each ? left : each;
        tell_segment(heap, e->segments[i], rows, w);
        left -= rows;
    }
}

/* ---- adopting ---- */

static enum status adopt_rows(struct adoption *a, const struct told_segment *t,
                              struct shared_block **shared, struct heap_block *rows,
                              struct failure *f)
{
    uint32_t owner = a->space->number;
    if (!t->is_piece) return heap_adopt_block(a->heap, &t->block, owner, rows, f);
    if (t->offset % ROWS_ALIGN) return adopt_refuse(a, "has rows that are not aligned", f);
    return heap_adopt_piece(a->heap, &t->block, owner, t->offset, t->bytes, shared, rows, f);
}

/* Segment i, of which so many rows count. */
static enum status adopt_segment(struct adoption *a, struct collection *c, bool alone,
                                 uint64_t rows, struct failure *f)
{
    struct told_segment t;
    struct room_adopted room = {0};
    uint64_t each = UINT64_C(1) << c->segment_shift;
    catalogue_get(a->from, &t, sizeof t);
    const uint64_t *ids = catalogue_look(a->from, rows * sizeof *ids);
    const float *norms = catalogue_look(a->from, rows * sizeof *norms);
    if (!ids || !norms) return adopt_refuse(a, "has rows without ids", f);
    if (t.rows_max < rows || t.rows_max > each || (t.rows_max != each && !alone))
        return adopt_refuse(a, "has a segment of a wrong size", f);
    enum status st = adopt_rows(a, &t, &room.shared, &room.rows, f);
    if (st) return st;
    room.rows_max = t.rows_max;
    bool fits = room.shared ? room.rows.bytes == t.rows_max * row_bytes_of(c)
                            : room.rows.bytes >= t.rows_max * row_bytes_of(c);
    struct segment *s = NULL;
    st = fits ? room_adopt(c->now, &room, &s) : STATUS_DATA_LOSS;
    if (st) {
        room_adopt_fail(c->heap, &room);
        return fits ? heap_refuse(a->heap, st, a->space->number, "ids of rows", f)
                    : adopt_refuse(a, "has a segment without memory for its rows", f);
    }
    memcpy(s->ids, ids, rows * sizeof *ids);
    memcpy(s->norms, norms, rows * sizeof *norms);
    return STATUS_OK;
}

static enum status adopt_all(struct adoption *a, struct collection *c, uint64_t rows,
                             struct failure *f)
{
    uint64_t each = UINT64_C(1) << c->segment_shift;
    enum status st = STATUS_OK;
    for (uint64_t first = 0; !st && first < rows; first += each)
        st = adopt_segment(a, c, rows <= each, rows - first < each ? rows - first : each, f);
    if (!st && (st = room_adopt_end(c->now, rows)))
        heap_refuse(a->heap, st, a->space->number, "the index of rows", f);
    return st;
}

enum status adopt_collection(struct adoption *a, struct failure *f)
{
    struct told_collection t;
    struct collection *c = NULL;
    catalogue_get(a->from, &t, sizeof t);
    if (t.rows > UINT64_C(1) << COLLECTION_ROWS_MAX_LOG2 || t.dimension > UINT32_MAX ||
        t.metric > UINT32_MAX)
        return adopt_refuse(a, "has more rows or numbers than can be", f);
    enum status st = store_collection_create(a->store, a->space, a->told.name,
                                             (uint32_t)t.dimension, (uint32_t)t.metric, f, &c);
    if (st) return st;
    c->id_bound = t.id_bound;
    st = adopt_all(a, c, t.rows, f);
    collection_restore(c, a->told.version);
    return st;
}
