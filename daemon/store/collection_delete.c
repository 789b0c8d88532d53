#include <string.h>

#include "daemon/base/yield.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/row_index.h"

enum { YIELD_EVERY = 256 }; /* rows */

/* Moves the last row into the place of this one. What old entries of the index say stays right for
 * older editions. */
static enum status delete_row(struct edition *e, uint32_t row, uint32_t last)
{
    struct collection *c = e->of;
    if (row == last) return STATUS_OK;
    enum status st = room_own(e, (size_t)(row >> c->segment_shift));
    if (st) return st;
    memcpy(row_at(e, row), row_at(e, last), row_bytes_of(c));
    float before = *norm_at(e, row);
    *norm_at(e, row) = *norm_at(e, last);
    *id_at(e, row) = *id_at(e, last);
    row_index_add(e->index, *id_at(e, row), row);
    segment_shadow_write(c, segment_of(e, row), row_in_segment(e, row), before);
    write_mark(c, row, 1);
    return STATUS_OK;
}

struct deletion {
    struct collection *c;
    const uint64_t *ids;
    uint64_t n, left; /* left: rows, afterwards */
};

/* In place nothing fails once a row has moved: every segment is its own. */
static enum status delete_all(struct edition *e, struct deletion *d)
{
    uint64_t rows = rows_of(e), moves = d->n < rows / 2 ? d->n : rows / 2;
    enum status st = room_for_ids(e, moves);
    for (uint64_t i = 0; i < d->n && !st; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        uint32_t row = row_index_find(e, rows, d->ids[i]);
        if (row != COLLECTION_NO_ROW) st = delete_row(e, row, (uint32_t)--rows);
    }
    d->left = rows;
    return st;
}

static enum status change(void *write, struct failure *f)
{
    struct deletion *d = write;
    struct collection *c = d->c;
    enum status st = delete_all(c->write.edition, d);
    if (st) return write_refuse(c, st, "a copy of the rows that requests read", f);
    write_end(c, d->left);
    return STATUS_OK;
}

/* True if any of the ids is there. */
static bool finds_any(const struct edition *e, const uint64_t *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        if (row_index_find(e, rows_of(e), ids[i]) != COLLECTION_NO_ROW) return true;
    }
    return false;
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum status collection_write_delete(struct collection *c, const uint64_t *ids, uint64_t n,
                                    uint64_t *deleted, uint64_t *missing, struct failure *f)
{
    uint64_t before = rows_of(c->now);
    struct deletion d = {.c = c, .ids = ids, .n = n, .left = before};
    enum status st = STATUS_OK;
    struct write_size size = {
        .bytes = n * row_bytes_of(c),
        .copied = smaller_of(n, before >> c->segment_shift) * (row_bytes_of(c) << c->segment_shift),
        .inserted = n,
    };
    if (finds_any(c->now, ids, n)) st = write_run(c, &size, change, &d, f);
    if (st) return st;
    *deleted = before - d.left;
    *missing = n - *deleted;
    return STATUS_OK;
}

void collection_delete(struct collection *c, const uint64_t *ids, uint64_t n, uint64_t *deleted,
                       uint64_t *missing)
{
    struct failure f;
    collection_expect_write(c);
    if (collection_write_delete(c, ids, n, deleted, missing, &f)) *deleted = *missing = 0;
    collection_publish(c);
    gone_free(c->heap, collection_take_gone(c));
}
