#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/store/array.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/id_index.h"
#include "daemon/store/row_index.h"

/* An upsert has four steps. look: find duplicates and the rows that exist. reserve: take memory, in
 * the edition that is written. stage: write new rows behind the last row, where no reader looks,
 * and check every row. put: let the edition have the rows, which cannot fail. */

/* A batch of this size is still in the second-level cache when it is checked after copying. So many
 * ids are looked up, or put, between two looks at what others wait for. */
enum { BATCH_BYTES = 256 << 10, IDS_AT_ONCE = 4096 };

struct upsert {
    struct collection *c;
    struct edition *e; /* that is written */
    const uint64_t *ids;
    const float *rows;
    uint64_t n;
    uint64_t base;     /* rows before this upsert */
    uint64_t inserted; /* how many of the n are new */

    /* If some rows exist already: the row of each of the n ids, and the norms of the replacing
     * rows. */
    uint32_t *targets;
    float *norms;
    uint32_t *hits; /* of each segment, how many of its rows are replaced */
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

static enum status find_duplicates(const uint64_t *ids, uint64_t n, struct failure *f)
{
    struct id_index seen = {0};
    if (!id_index_reserve(&seen, ids, 0, n)) return no_memory(f, "the check for repeated ids");
    enum status st = STATUS_OK;
    for (uint64_t i = 0; i < n; i++) {
        if (i % IDS_AT_ONCE == 0) yield_check();
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

/* Notes how many rows of each segment are replaced. False: no memory. */
static bool count_hits(struct upsert *u)
{
    uint32_t shift = u->c->segment_shift;
    u->hit_count = (size_t)((u->base - 1) >> shift) + 1;
    u->hits = array_resize(NULL, 0, u->hit_count * sizeof *u->hits);
    for (uint64_t i = 0; u->hits && i < u->n; i++) {
        if (i % IDS_AT_ONCE == 0) yield_check();
        if (u->targets[i] != COLLECTION_NO_ROW) u->hits[u->targets[i] >> shift]++;
    }
    return u->hits != NULL;
}

/* True if every row of segment i is replaced: nothing of it needs to be copied. */
static bool hits_all(const struct upsert *u, size_t i)
{
    uint64_t first = (uint64_t)i << u->c->segment_shift, rows = u->base - first;
    uint64_t most = UINT64_C(1) << u->c->segment_shift;
    return u->hits[i] == (rows < most ? rows : most);
}

/* Returns the bytes that a next edition copies. */
static uint64_t copied_bytes(const struct upsert *u)
{
    uint64_t segments = 0;
    for (size_t i = 0; i < u->hit_count; i++)
        segments += u->hits[i] && !hits_all(u, i);
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

static enum status reserve(struct upsert *u, struct failure *f)
{
    enum status st = room_for_ids(u->e, u->inserted);
    if (!st) st = room_reserve(u->e, u->base + u->inserted);
    if (st) return write_refuse(u->c, st, "the new rows", f);
    for (size_t i = 0; i < u->hit_count && !st; i++)
        if (u->hits[i]) st = hits_all(u, i) ? room_renew(u->e, i) : room_own(u->e, i);
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
        vectors_pad(c->dimension, u->rows + i * c->dimension, 1, row_at(u->e, row));
        *norm_at(u->e, row) = u->norms[i];
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

enum status collection_write_rows(struct collection *c, const uint64_t *ids, const float *rows,
                                  uint64_t n, struct upsert_counts *out, struct failure *f)
{
    struct upsert u = {.c = c, .ids = ids, .rows = rows, .n = n, .base = rows_of(c->now)};
    if (n == 0) {
        *out = (struct upsert_counts){0};
        return STATUS_OK;
    }
    u.batch = BATCH_BYTES / (c->stride * sizeof *rows);

    enum status st = look(&u, f);
    struct write_size size = {.bytes = n * row_bytes_of(c), .inserted = u.inserted};
    if (!st) {
        size.copied = copied_bytes(&u);
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
    enum status st = collection_write_rows(c, ids, rows, n, out, f);
    collection_publish(c);
    gone_free(c->heap, collection_take_gone(c));
    return st;
}
