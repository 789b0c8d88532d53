/* collection_room: the segments and the index of an edition that is being written. A segment that
 * another edition sees is copied before a row that is seen there changes. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/heap/shared_block.h"
#include "daemon/store/array.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/row_index.h"

enum { COLUMN_BYTES = sizeof(uint64_t) + sizeof(float) }; /* an id and a norm */

static uint64_t segment_rows(const struct collection *c)
{
    return UINT64_C(1) << c->segment_shift;
}

void segment_free(struct heap *heap, struct segment *s)
{
    if (s->shared)
        shared_block_expect(s->shared);
    else
        heap_release(heap, &s->rows);
    segment_give(heap, s);
}

void segment_give(struct heap *heap, struct segment *s)
{
    segment_shadow_end(s);
    if (s->shared)
        shared_block_give(s->shared, s->rows.data, s->rows.bytes);
    else
        heap_give(heap, &s->rows);
    array_free(s->ids, s->rows_max * COLUMN_BYTES);
    outside_end(&s->outside);
    free(s);
}

/* Without rows. */
static enum status segment_begin(const struct edition *e, uint64_t rows_max, struct segment **out)
{
    const struct collection *c = e->of;
    struct segment *s = fault_here("store: segment") ? NULL : calloc(1, sizeof *s);
    if (!s) return STATUS_RESOURCE_EXHAUSTED;
    s->rows_max = rows_max;
    s->born = e->number;
    s->outside = (struct outside){.heap = c->heap, .owner = c->resident.space->number};
    void *columns = NULL;
    enum status st = array_make_counted(&s->outside, rows_max * COLUMN_BYTES, sizeof *s, &columns);
    if (st) {
        free(s);
        return st;
    }
    s->ids = columns;
    s->norms = (float *)(s->ids + rows_max);
    *out = s;
    return STATUS_OK;
}

/* take: heap_take_fresh for rows that will stay, heap_take for copies, which come and go. */
static enum status segment_make(const struct edition *e, uint64_t rows_max,
                                enum status (*take)(struct heap *h, uint64_t bytes, uint32_t owner,
                                                    struct heap_block *out),
                                struct segment **out)
{
    struct collection *c = e->of;
    struct segment *s;
    enum status st = segment_begin(e, rows_max, &s);
    if (st) return st;
    st = take(c->heap, rows_max * row_bytes_of(c), c->resident.space->number, &s->rows);
    if (st) {
        segment_free(c->heap, s);
        return st;
    }
    *out = s;
    return STATUS_OK;
}

/* True if only the edition that is being written sees s. */
static bool is_own(const struct edition *e, const struct segment *s)
{
    return write_is_in_place(e->of) || s->born == e->number;
}

/* e does not need s any more. */
static void leave(struct edition *e, struct segment *s)
{
    struct collection *c = e->of;
    if (is_own(e, s)) {
        segment_free(c->heap, s);
        return;
    }
    s->next = c->write.left;
    c->write.left = s;
}

/* Gets the pages of the first rows, and copies these, in pieces: pages that are new take longer
 * than the copy. */
static void fill_rows(const struct segment *from, struct segment *to, uint64_t bytes, bool copy)
{
    enum { PIECE_BYTES = 256 << 10 };
    char *data = to->rows.data;
    const char *old = from->rows.data;
    for (uint64_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        yield_check();
        if (n >= HEAP_POPULATE_BYTES_MIN && !to->rows.kept) heap_populate(data + at, n);
        if (copy) memcpy(data + at, old + at, n);
    }
}

/* Puts a segment with room for rows_max rows in the place of segment i, with copies of its rows, or
 * with their ids alone. */
static enum status replace(struct edition *e, size_t i, uint64_t rows_max, bool copy)
{
    struct segment *from = e->segments[i], *to;
    struct collection *c = e->of;
    uint64_t first = (uint64_t)i << c->segment_shift, rows = rows_of(e);
    enum status st = segment_make(e, rows_max, heap_take, &to);
    if (st) return st;
    rows = rows > first ? rows - first : 0;
    if (rows > from->rows_max) rows = from->rows_max;
    fill_rows(from, to, rows * row_bytes_of(c), copy);
    memcpy(to->ids, from->ids, rows * sizeof *to->ids);
    if (copy) memcpy(to->norms, from->norms, rows * sizeof *to->norms);
    e->segments[i] = to;
    leave(e, from);
    return STATUS_OK;
}

enum status room_keep(struct edition *e, size_t i, struct shared_block *shared, float *rows)
{
    struct segment *from = e->segments[i], *to;
    enum status st = segment_begin(e, from->rows_max, &to);
    if (st) return st;
    memcpy(to->ids, from->ids, from->rows_max * sizeof *to->ids);
    shared_block_hold(shared);
    to->shared = shared;
    to->rows = (struct heap_block){.data = rows, .bytes = from->rows_max * row_bytes_of(e->of)};
    e->segments[i] = to;
    leave(e, from);
    return STATUS_OK;
}

static enum status own(struct edition *e, size_t i, bool copy)
{
    const struct segment *s = e->segments[i];
    yield_check();
    return is_own(e, s) ? STATUS_OK : replace(e, i, s->rows_max, copy);
}

enum status room_own(struct edition *e, size_t i)
{
    return own(e, i, true);
}

enum status room_renew(struct edition *e, size_t i)
{
    return own(e, i, false);
}

/* ---------------------------------------------------------------- more rows */

/* Rows for which the first segment has room while it is the only one: so that their bytes are a
 * power of two, a collection of a few rows takes little memory and growing moves each row a few
 * times at most. */
static uint64_t first_segment_rows(const struct collection *c, uint64_t rows)
{
    uint64_t bytes = HEAP_UNIT;
    while (bytes < rows * row_bytes_of(c))
        bytes *= 2;
    uint64_t fit = bytes / row_bytes_of(c);
    return fit < segment_rows(c) ? fit : segment_rows(c);
}

static enum status reserve_first(struct edition *e, uint64_t rows)
{
    uint64_t want = first_segment_rows(e->of, rows);
    if (e->segment_count)
        return e->segments[0]->rows_max >= want ? STATUS_OK : replace(e, 0, want, true);
    enum status st = segment_make(e, want, heap_take_fresh, &e->segments[0]);
    if (!st) e->segment_count = 1;
    return st;
}

static enum status reserve_list(struct edition *e, size_t want)
{
    if (want <= e->segment_capacity) return STATUS_OK;
    size_t capacity = e->segment_capacity * 2 > want ? e->segment_capacity * 2 : want;
    struct segment **grown =
        fault_here("store: segment list") ? NULL : realloc(e->segments, capacity * sizeof *grown);
    if (!grown) return STATUS_RESOURCE_EXHAUSTED;
    e->segments = grown;
    e->segment_capacity = capacity;
    return STATUS_OK;
}

/* Rows that older editions see, though the newest has fewer, are not written over. */
static enum status own_kept(struct edition *e)
{
    uint64_t end = e->of->write.kept_rows, row = rows_of(e);
    uint64_t room = (uint64_t)e->segment_count << e->of->segment_shift;
    enum status st = STATUS_OK;
    if (end > room) end = room;
    for (; row < end && !st; row = ((row >> e->of->segment_shift) + 1) << e->of->segment_shift)
        st = room_own(e, (size_t)(row >> e->of->segment_shift));
    return st;
}

enum status room_reserve(struct edition *e, uint64_t rows)
{
    struct collection *c = e->of;
    size_t want = (size_t)((rows + segment_rows(c) - 1) >> c->segment_shift);
    enum status st = reserve_list(e, want);
    if (!st && rows > rows_of(e)) st = own_kept(e);
    if (!st && want && e->segment_count <= 1) st = reserve_first(e, rows);
    while (!st && e->segment_count < want) {
        yield_check();
        st = segment_make(e, segment_rows(c), heap_take_fresh, &e->segments[e->segment_count]);
        if (!st) e->segment_count++;
    }
    return st;
}

/* ---------------------------------------------------------------- the index */

/* Makes the index anew for so many rows; other editions may go on with the old one. */
static enum status index_anew(struct edition *e, uint64_t rows)
{
    const struct collection *c = e->of;
    struct row_index *old = e->index, *x;
    enum status st = row_index_make(c->heap, c->resident.space->number, rows, &x);
    if (st) return st;
    row_index_add_rows(x, e, 0, rows_of(e));
    if (write_is_in_place(e->of) || old != e->of->now->index) row_index_free(old);
    e->index = x;
    return STATUS_OK;
}

enum status room_for_ids(struct edition *e, uint64_t more)
{
    uint64_t rows = rows_of(e) + more;
    if (row_index_has_room(e->index, more)) return STATUS_OK;
    /* Half of the present slots and more than rows need: deleted rows' entries filled it, and it
     * must not be full again soon. */
    return index_anew(e, rows_of(e) ? rows + rows / 3 : rows);
}

/* ---------------------------------------------------------------- adopted rows */

enum status room_adopt(struct edition *e, const struct room_adopted *room, struct segment **out)
{
    enum status st = reserve_list(e, e->segment_count + 1);
    struct segment *s;
    if (!st) st = segment_begin(e, room->rows_max, &s);
    if (st) return st;
    s->rows = room->rows;
    s->shared = room->shared;
    e->segments[e->segment_count++] = s;
    *out = s;
    return STATUS_OK;
}

void room_adopt_fail(struct heap *heap, struct room_adopted *room)
{
    if (room->shared) {
        shared_block_expect(room->shared);
        shared_block_give(room->shared, room->rows.data, room->rows.bytes);
    } else {
        heap_give(heap, &room->rows);
    }
}

enum status room_adopt_end(struct edition *e, uint64_t rows)
{
    struct collection *c = e->of;
    __atomic_add_fetch(&c->resident.space->row_count, rows, __ATOMIC_RELAXED);
    atomic_store_explicit(&e->rows, rows, memory_order_relaxed);
    enum status st = rows ? index_anew(e, rows + rows / 3) : STATUS_OK;
    uint64_t bytes = rows * COLUMN_BYTES + row_index_bytes(e->index);
    atomic_store_explicit(&e->index_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&e->room_bytes, room_bytes(e), memory_order_relaxed);
    return st;
}

/* ---------------------------------------------------------------- fewer rows */

static uint64_t segment_bytes(const struct collection *c, uint64_t rows)
{
    enum { PAGE = 4096 };
    uint64_t pages = (rows * row_bytes_of(c) + PAGE - 1) / PAGE;
    return pages * PAGE + rows * COLUMN_BYTES;
}

/* The first segment alone may have less room than the others. */
uint64_t room_bytes(const struct edition *e)
{
    const struct collection *c = e->of;
    if (!e->segment_count) return 0;
    uint64_t others = (uint64_t)e->segment_count - 1;
    return segment_bytes(c, e->segments[0]->rows_max) + others * segment_bytes(c, segment_rows(c));
}

static void release_segments(struct edition *e, size_t keep)
{
    while (e->segment_count > keep) {
        yield_check();
        leave(e, e->segments[--e->segment_count]);
    }
}

void room_fit(struct edition *e)
{
    struct collection *c = e->of;
    uint64_t rows = rows_of(e);
    size_t segments = (size_t)((rows + segment_rows(c) - 1) >> c->segment_shift);
    /* One spare segment stays, so that inserting and deleting a row at a segment's edge does not
     * take and free a segment each time. */
    release_segments(e, rows ? segments + 1 : 0);
    if (rows == 0) c->id_bound = 0;
    if (row_index_is_large(e->index, rows)) (void)index_anew(e, rows);
}
