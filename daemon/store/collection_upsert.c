#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/heap/shared_block.h"
#include "daemon/store/array.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/id_index.h"
#include "daemon/store/row_index.h"

/* An upsert has four steps. look: find duplicates and the rows that exist. reserve: take memory, in
 * the edition that is written. stage: write new rows behind the last row, where no reader looks,
 * and check every row. put: let the edition have the rows, which cannot fail.
 *
 * A next edition keeps rows that replace a whole segment where they lie in the request's body, if
 * that is nearly all of the body: so one request that writes a collection anew copies nothing, and
 * beside a reader of an older edition needs no more memory than its body. */

/* A batch of this size is still in the second-level cache when it is checked after copying. So many
 * ids are looked up, or put, between two looks at what others wait for. */
enum { BATCH_BYTES = 256 << 10, IDS_AT_ONCE = 512 };

/* What is left of a body beside the rows that are kept may be this part of them. */
enum { LEFT_PART = 32 };

/* What replaces rows of a segment. */
struct hit {
    uint32_t count;
    bool scattered; /* these do not follow each other in the request as in the segment */
    uint64_t first; /* the number of the one that is, or would be, its first row */
};

struct upsert {
    struct collection *c;
    struct edition *e; /* that is written */
    const uint64_t *ids;
    const float *rows;
    uint64_t n;
    struct shared_block *shared; /* of the rows, if whole segments of them are kept; or NULL */
    uint64_t base;               /* rows before this upsert */
    uint64_t inserted;           /* how many of the n are new */

    /* If some rows exist already: the row of each of the n ids, and the norms of the replacing
     * rows. */
    uint32_t *targets;
    float *norms;
    struct hit *hits; /* of each segment */
    size_t hit_count;
    float *padded; /* a batch of replacing rows, if the dimension is not a multiple of 32 */
    size_t batch;  /* rows in one batch */
};

static enum status no_memory(struct failure *f, const char *what)
{
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for %s", what);
}

/* ---- look ---- */

static uint64_t ids_at_once(uint64_t left)
{
    yield_check();
    return left < IDS_AT_ONCE ? left : IDS_AT_ONCE;
}

static bool ascending(const uint64_t *ids, uint64_t n)
{
    uint64_t falls = 0;
    for (uint64_t first = 1, end; first < n && !falls; first = end) {
        end = first + ids_at_once(n - first);
        for (uint64_t i = first; i < end; i++)
            falls += ids[i] <= ids[i - 1];
    }
    return falls == 0;
}

static enum status refuse_filler(uint64_t i, struct failure *f)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_ID,
                       "ids: number %" PRIu64 " is 2^64 - 1, which no row can have", i);
}

static enum status find_duplicates(const uint64_t *ids, uint64_t n, struct failure *f)
{
    struct id_index seen = {0};
    if (!id_index_reserve(&seen, ids, 0, n)) return no_memory(f, "the check for repeated ids");
    enum status st = STATUS_OK;
    for (uint64_t i = 0; i < n; i++) {
        if (i % IDS_AT_ONCE == 0) yield_check();
        if (ids[i] == COLLECTION_NO_ID) {
            st = refuse_filler(i, f);
            break;
        }
        uint32_t other = id_index_find(&seen, ids, ids[i]);
        if (other != ID_INDEX_NONE) {
            st = failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_DUPLICATE_ID,
                             "id %" PRIu64 " is given twice, in rows %" PRIu32 " and %" PRIu64,
                             ids[i], other, i);
            break;
        }
        id_index_insert(&seen, ids, (uint32_t)i);
    }
    id_index_finish(&seen);
    return st;
}

static void note_hit(struct upsert *u, uint32_t row, uint64_t i)
{
    struct hit *h = &u->hits[row >> u->c->segment_shift];
    uint64_t first = i - row_in_segment(u->c->now, row);
    if (h->count++ && h->first != first) h->scattered = true;
    h->first = first;
}

/* Notes which rows of each segment are replaced. False: no memory. */
static bool count_hits(struct upsert *u)
{
    uint32_t shift = u->c->segment_shift;
    u->hit_count = (size_t)((u->base - 1) >> shift) + 1;
    u->hits = array_resize(NULL, 0, u->hit_count * sizeof *u->hits);
    for (uint64_t i = 0; u->hits && i < u->n; i++) {
        if (i % IDS_AT_ONCE == 0) yield_check();
        if (u->targets[i] != COLLECTION_NO_ROW) note_hit(u, u->targets[i], i);
    }
    return u->hits != NULL;
}

/* True if every row of segment i is replaced: nothing of it needs to be copied. */
static bool hits_all(const struct upsert *u, size_t i)
{
    uint64_t first = (uint64_t)i << u->c->segment_shift, rows = u->base - first;
    uint64_t most = UINT64_C(1) << u->c->segment_shift;
    return u->hits[i].count == (rows < most ? rows : most);
}

/* True if the rows that replace segment i lie in the request as in the segment, which has no room
 * for more. */
static bool hits_in_order(const struct upsert *u, size_t i)
{
    return !u->hits[i].scattered && u->hits[i].count == collection_segment_rows(u->c->now);
}

/* Decides whether rows are kept where they lie. */
static void look_what_to_keep(struct upsert *u, struct shared_block *shared)
{
    uint64_t rows = 0;
    if (!shared || u->c->stride != u->c->dimension) return;
    for (size_t i = 0; i < u->hit_count; i++)
        if (hits_in_order(u, i)) rows += u->hits[i].count;
    uint64_t left = (u->n - rows) * row_bytes_of(u->c) + u->n * sizeof *u->ids;
    if (left <= rows * row_bytes_of(u->c) / LEFT_PART && shared_block_lend(shared))
        u->shared = shared;
}

/* Returns the bytes that a next edition copies. */
static uint64_t copied_bytes(const struct upsert *u)
{
    uint64_t segments = 0;
    for (size_t i = 0; i < u->hit_count; i++)
        segments += u->hits[i].count && !hits_all(u, i);
    return segments * (row_bytes_of(u->c) << u->c->segment_shift);
}

static enum status take_targets(struct upsert *u, struct failure *f)
{
    struct collection *c = u->c;
    u->targets = array_resize(NULL, 0, u->n * sizeof *u->targets);
    if (!u->targets) return no_memory(f, "the rows to replace");
    uint64_t found = 0;
    for (uint64_t first = 0, n; first < u->n; first += n) {
        n = ids_at_once(u->n - first);
        found += row_index_find_many(c->now, u->ids + first, n, u->targets + first);
    }
    u->inserted = u->n - found;
    if (found == 0) {
        array_free(u->targets, u->n * sizeof *u->targets);
        u->targets = NULL;
        return STATUS_OK;
    }
    u->norms = array_resize(NULL, 0, u->n * sizeof *u->norms);
    if (!u->norms) return no_memory(f, "the norms of replaced rows");
    if (!count_hits(u)) return no_memory(f, "the segments of replaced rows");
    if (c->stride == c->dimension) return STATUS_OK;
    u->padded = array_resize(NULL, 0, u->batch * c->stride * sizeof *u->padded);
    return u->padded ? STATUS_OK : no_memory(f, "padding replaced rows");
}

static enum status look(struct upsert *u, struct failure *f)
{
    struct collection *c = u->c;
    if (u->n > COLLECTION_NO_ROW)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_ROWS,
                           "%" PRIu64 " rows in one request", u->n);
    bool rising = ascending(u->ids, u->n);
    enum status st = rising ? STATUS_OK : find_duplicates(u->ids, u->n, f);
    if (rising && u->n && u->ids[u->n - 1] == COLLECTION_NO_ID) st = refuse_filler(u->n - 1, f);
    if (st) return st;
    u->inserted = u->n;
    if (u->base && !(rising && u->ids[0] > c->id_bound)) st = take_targets(u, f);
    if (st) return st;
    if (u->base + u->inserted > COLLECTION_NO_ROW)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_ROWS,
                           "the collection has %" PRIu64 " rows; %" PRIu64
                           " more are past the limit of %" PRIu32,
                           u->base, u->inserted, COLLECTION_NO_ROW);
    return STATUS_OK;
}

/* ---- reserve ---- */

static bool keeps(const struct upsert *u, size_t i)
{
    return u->shared && !write_is_in_place(u->c) && hits_in_order(u, i);
}

static enum status reserve_replaced(struct upsert *u, size_t i)
{
    if (!hits_all(u, i)) return room_own(u->e, i);
    if (!keeps(u, i)) return room_renew(u->e, i);
    float *rows = (float *)u->rows + u->hits[i].first * u->c->stride; /* ours from now on */
    return room_keep(u->e, i, u->shared, rows);
}

static enum status reserve(struct upsert *u, struct failure *f)
{
    enum status st = room_for_ids(u->e, u->inserted);
    if (!st) st = room_reserve(u->e, u->base + u->inserted);
    if (st) return write_refuse(u->c, st, "the new rows", f);
    for (size_t i = 0; i < u->hit_count && !st; i++)
        if (u->hits[i].count) st = reserve_replaced(u, i);
    return st ? write_refuse(u->c, st, "a copy of the rows that requests read", f) : STATUS_OK;
}

/* ---- stage ---- */

static enum status refuse_row(const struct upsert *u, uint64_t i, struct failure *f)
{
    const float *row = u->rows + i * u->c->dimension;
    for (uint32_t column = 0; column < u->c->dimension; column++)
        if (!isfinite(row[column]))
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "row %" PRIu64 " (id %" PRIu64 "): column %" PRIu32
                               " is not a finite number",
                               i, u->ids[i], column);
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NORM_OVERFLOW,
                       "row %" PRIu64 " (id %" PRIu64 "): its squared norm overflows float32", i,
                       u->ids[i]);
}

/* Copies request rows [first, first + count) behind the last row, from `row` on, and checks them;
 * all lie within one segment. */
static enum status stage_new(struct upsert *u, uint64_t first, size_t count, uint64_t row,
                             struct failure *f)
{
    struct collection *c = u->c;
    float *to = row_at(u->e, row), *norms = norm_at(u->e, row);
    size_t bytes = count * c->stride * sizeof *to;
    if (bytes >= HEAP_POPULATE_BYTES_MIN) heap_populate(to, bytes);
    segment_shadow_cut(segment_of(u->e, row), row_in_segment(u->e, row));
    vectors_pad(c->dimension, u->rows + first * c->dimension, count, to);
    c->kernels->norms(c->dimension, to, count, norms);
    size_t bad = vectors_find_bad(norms, count);
    return bad == count ? STATUS_OK : refuse_row(u, first + bad, f);
}

/* Checks rows that replace others. */
static enum status stage_replaced(struct upsert *u, uint64_t first, size_t count, struct failure *f)
{
    struct collection *c = u->c;
    const float *rows = u->rows + first * c->dimension;
    if (u->padded) {
        vectors_pad(c->dimension, rows, count, u->padded);
        rows = u->padded;
    }
    c->kernels->norms(c->dimension, rows, count, u->norms + first);
    size_t bad = vectors_find_bad(u->norms + first, count);
    return bad == count ? STATUS_OK : refuse_row(u, first + bad, f);
}

/* Copies the replacing rows among [first, end). */
static void put_replaced(struct upsert *u, uint64_t first, uint64_t end)
{
    struct collection *c = u->c;
    for (uint64_t i = first; i < end; i++) {
        if (i % 64 == 0) yield_check();
        uint32_t row = u->targets[i];
        if (row == COLLECTION_NO_ROW) continue;
        if (!keeps(u, row >> c->segment_shift))
            vectors_pad(c->dimension, u->rows + i * c->dimension, 1, row_at(u->e, row));
        float before = *norm_at(u->e, row);
        *norm_at(u->e, row) = u->norms[i];
        segment_shadow_write(c, segment_of(u->e, row), row_in_segment(u->e, row), before);
        write_mark(c, row, 1);
    }
}

/* Stages runs of new and of replacing rows, in batches. In an edition that nobody sees, these are
 * copied while they lie in the cache. */
static enum status stage(struct upsert *u, struct failure *f)
{
    size_t segment_rows = collection_segment_rows(u->e);
    uint64_t tail = u->base;
    for (uint64_t i = 0; i < u->n;) {
        yield_check();
        bool replaced = u->targets && u->targets[i] != COLLECTION_NO_ROW;
        uint64_t end = i + u->batch < u->n ? i + u->batch : u->n;
        size_t segment_left = segment_rows - (size_t)(tail & (segment_rows - 1));
        if (!replaced && end - i > segment_left) end = i + segment_left;
        size_t count = u->targets ? 1 : (size_t)(end - i);
        while (u->targets && i + count < end &&
               (u->targets[i + count] != COLLECTION_NO_ROW) == replaced)
            count++;
        enum status st =
            replaced ? stage_replaced(u, i, count, f) : stage_new(u, i, count, tail, f);
        if (st) return st;
        if (!replaced)
            tail += count;
        else if (!write_is_in_place(u->c))
            put_replaced(u, i, i + count);
        i += count;
    }
    return STATUS_OK;
}

/* ---- put ---- */

/* Writes the ids of new rows, which lie behind the last row. */
static void put_new(struct upsert *u)
{
    uint64_t tail = u->base;
    for (uint64_t i = 0; i < u->n; i++) {
        if (i % IDS_AT_ONCE == 0) yield_check();
        if (!u->targets || u->targets[i] == COLLECTION_NO_ROW) *id_at(u->e, tail++) = u->ids[i];
    }
    row_index_add_rows(u->e->index, u->e, u->base, u->inserted);
    write_mark(u->c, u->base, u->inserted);
}

static void put(struct upsert *u)
{
    struct collection *c = u->c;
    if (u->targets && write_is_in_place(c)) put_replaced(u, 0, u->n);
    put_new(u);
    for (uint64_t i = 0; i < u->n; i++) {
        if (i % (16 * IDS_AT_ONCE) == 0) yield_check();
        if (u->ids[i] > c->id_bound) c->id_bound = u->ids[i];
    }
    write_end(c, u->base + u->inserted);
}

static enum status change(void *write, struct failure *f)
{
    struct upsert *u = write;
    u->e = u->c->write.edition;
    enum status st = reserve(u, f);
    if (!st) st = stage(u, f);
    if (!st) put(u);
    return st;
}

enum status collection_write_rows(struct collection *c, const struct upsert_rows *what,
                                  struct upsert_counts *out, struct failure *f)
{
    uint64_t n = what->n;
    struct upsert u = {
        .c = c, .ids = what->ids, .rows = what->rows, .n = n, .base = rows_of(c->now)};
    if (n == 0) {
        *out = (struct upsert_counts){0};
        return STATUS_OK;
    }
    u.batch = BATCH_BYTES / row_bytes_of(c);

    enum status st = look(&u, f);
    struct write_size size = {.bytes = n * row_bytes_of(c), .inserted = u.inserted};
    if (!st) {
        size.copied = copied_bytes(&u);
        look_what_to_keep(&u, what->shared);
        st = write_run(c, &size, change, &u, f);
    }
    if (!st) *out = (struct upsert_counts){.inserted = u.inserted, .replaced = n - u.inserted};
    array_free(u.targets, n * sizeof *u.targets);
    array_free(u.norms, n * sizeof *u.norms);
    array_free(u.hits, u.hit_count * sizeof *u.hits);
    array_free(u.padded, u.batch * c->stride * sizeof *u.padded);
    return st;
}

enum status collection_upsert(struct collection *c, const uint64_t *ids, const float *rows,
                              uint64_t n, struct upsert_counts *out, struct failure *f)
{
    collection_expect_write(c);
    const struct upsert_rows what = {.ids = ids, .rows = rows, .n = n};
    enum status st = collection_write_rows(c, &what, out, f);
    collection_publish(c);
    gone_free(c->heap, collection_take_gone(c));
    return st;
}
