#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/array.h"
#include "daemon/store/collection_inside.h"

/* An upsert has three steps. look: find duplicates and the rows that exist, and reserve memory.
 * stage: write new rows behind the last row, where no reader looks, and check every row. publish:
 * make the rows visible, which cannot fail. */

/* A batch of this size is still in the second-level cache when it is checked after copying. */
enum { BATCH_BYTES = 256 << 10 };

struct upsert {
    struct collection *c;
    const uint64_t *ids;
    const float *rows;
    uint64_t n;
    uint64_t base;     /* rows before this upsert */
    uint64_t inserted; /* how many of the n are new */

    /* If some rows exist already: the row of each of the n ids, and the norms of the replacing
     * rows. */
    uint32_t *targets;
    float *norms;
    float *padded; /* a batch of replacing rows, if the dimension is not a multiple of 32 */
    size_t batch;  /* rows in one batch */
};

static enum status no_memory(struct failure *f, const char *what)
{
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for %s", what);
}

/* ---- look ---- */

static bool ascending(const uint64_t *ids, uint64_t n)
{
    uint64_t falls = 0;
    for (uint64_t i = 1; i < n; i++)
        falls += ids[i] <= ids[i - 1];
    return falls == 0;
}

static enum status find_duplicates(const uint64_t *ids, uint64_t n, struct failure *f)
{
    struct id_index seen = {0};
    if (!id_index_reserve(&seen, ids, 0, n)) return no_memory(f, "the check for repeated ids");
    enum status st = STATUS_OK;
    for (uint64_t i = 0; i < n; i++) {
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

static enum status take_targets(struct upsert *u, struct failure *f)
{
    struct collection *c = u->c;
    u->targets = array_resize(NULL, 0, u->n * sizeof *u->targets);
    if (!u->targets) return no_memory(f, "the rows to replace");
    uint64_t found = id_index_find_many(&c->index, c->ids, u->ids, u->n, u->targets);
    u->inserted = u->n - found;
    if (found == 0) {
        array_free(u->targets, u->n * sizeof *u->targets);
        u->targets = NULL;
        return STATUS_OK;
    }
    u->norms = array_resize(NULL, 0, u->n * sizeof *u->norms);
    if (!u->norms) return no_memory(f, "the norms of replaced rows");
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
    st = collection_reserve(c, u->base + u->inserted);
    return st ? heap_refuse(c->heap, st, c->resident.space->number, "the new rows", f) : STATUS_OK;
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
    float *to = row_at(c, row);
    size_t bytes = count * c->stride * sizeof *to;
    if (bytes >= HEAP_POPULATE_BYTES_MIN) heap_populate(to, bytes);
    vectors_pad(c->dimension, u->rows + first * c->dimension, count, to);
    c->kernels->norms(c->dimension, to, count, c->norms + row);
    size_t bad = vectors_find_bad(c->norms + row, count);
    return bad == count ? STATUS_OK : refuse_row(u, first + bad, f);
}

/* Checks rows that replace others; publish() copies them, when nothing can fail any more. */
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

/* Stages runs of new and of replacing rows, in batches. */
static enum status stage(struct upsert *u, struct failure *f)
{
    size_t segment_rows = collection_segment_rows(u->c);
    uint64_t tail = u->base;
    for (uint64_t i = 0; i < u->n;) {
        bool replaced = u->targets && u->targets[i] != ID_INDEX_NONE;
        uint64_t end = i + u->batch < u->n ? i + u->batch : u->n;
        size_t segment_left = segment_rows - (size_t)(tail & (segment_rows - 1));
        if (!replaced && end - i > segment_left) end = i + segment_left;
        size_t count = u->targets ? 1 : (size_t)(end - i);
        while (u->targets && i + count < end &&
               (u->targets[i + count] != ID_INDEX_NONE) == replaced)
            count++;
        enum status st =
            replaced ? stage_replaced(u, i, count, f) : stage_new(u, i, count, tail, f);
        if (st) return st;
        if (!replaced) tail += count;
        i += count;
    }
    return STATUS_OK;
}

/* ---- publish ---- */

static void publish(struct upsert *u)
{
    struct collection *c = u->c;
    uint64_t tail = u->base;
    if (!u->targets) {
        memcpy(c->ids + tail, u->ids, u->n * sizeof *c->ids);
    } else {
        for (uint64_t i = 0; i < u->n; i++) {
            uint32_t row = u->targets[i];
            if (row == ID_INDEX_NONE) {
                c->ids[tail++] = u->ids[i];
                continue;
            }
            vectors_pad(c->dimension, u->rows + i * c->dimension, 1, row_at(c, row));
            c->norms[row] = u->norms[i];
            dirty_mark(&c->dirty, row, 1);
        }
    }
    id_index_insert_many(&c->index, c->ids, (uint32_t)u->base, u->inserted);
    for (uint64_t i = 0; i < u->n; i++)
        if (u->ids[i] > c->id_bound) c->id_bound = u->ids[i];
    dirty_mark(&c->dirty, u->base, u->inserted);
    collection_publish(c, u->base + u->inserted);
}

enum status collection_upsert(struct collection *c, const uint64_t *ids, const float *rows,
                              uint64_t n, struct upsert_counts *out, struct failure *f)
{
    struct upsert u = {.c = c, .ids = ids, .rows = rows, .n = n, .base = rows_of(c)};
    if (n == 0) {
        *out = (struct upsert_counts){0};
        return STATUS_OK;
    }
    u.batch = BATCH_BYTES / (c->stride * sizeof *rows);

    enum status st = look(&u, f);
    if (!st) st = stage(&u, f);
    if (!st) {
        publish(&u);
        *out = (struct upsert_counts){.inserted = u.inserted, .replaced = n - u.inserted};
    }
    array_free(u.targets, n * sizeof *u.targets);
    array_free(u.norms, n * sizeof *u.norms);
    array_free(u.padded, u.batch * c->stride * sizeof *u.padded);
    collection_fit(c);
    return st;
}
