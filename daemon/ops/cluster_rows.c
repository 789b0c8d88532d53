/* cluster_rows: the rows of a clustering, in input order: those of a request, those with its ids,
 * or all of a collection by rising id, so that its history has no say. */
#include "daemon/base/yield.h"
#include "daemon/ops/cluster_inside.h"

enum { CHECKED = 64 };

static enum status find_ids(struct job *j, struct cluster_job *w)
{
    enum status st = STATUS_OK;
    for (uint64_t first = 0; first < w->rows && !st && !is_cancelled(j); first += FIND_BATCH) {
        uint32_t rows[FIND_BATCH];
        size_t n = (size_t)smaller(FIND_BATCH, w->rows - first);
        st = operation_find_rows(j, NULL, w->collection, j->request.ids.data, first, n, rows);
        for (size_t i = 0; i < n && !st; i++) {
            if (w->positions) w->positions[first + i] = rows[i];
            w->sources[first + i] = collection_row(w->collection, rows[i]);
            w->row_norms[first + i] = collection_norm(w->collection, rows[i]);
        }
    }
    return st;
}

static void find_all(const struct job *j, struct cluster_job *w)
{
    for (uint32_t i = 0; i < w->rows && !is_cancelled(j); i++) {
        if (i % CHECKED == 0) yield_check();
        w->items[i] = (struct radix_item){collection_id(w->collection, i), i};
    }
    if (is_cancelled(j)) return;
    struct radix_item *sorted = radix_sort_until(w->items, w->room, w->rows, &j->cancelled);
    for (uint32_t i = 0; i < w->rows && !is_cancelled(j); i++) {
        if (i % CHECKED == 0) yield_check();
        if (w->positions) w->positions[i] = sorted[i].value;
        w->sources[i] = collection_row(w->collection, sorted[i].value);
        w->row_norms[i] = collection_norm(w->collection, sorted[i].value);
        w->ids[i] = sorted[i].key;
    }
}

static void find_inline(const struct job *j, struct cluster_job *w)
{
    const float *rows = j->request.rows.data;
    for (uint32_t i = 0; i < w->rows && !is_cancelled(j); i++) {
        if (i % 4096 == 0) yield_check();
        w->sources[i] = rows + (size_t)i * w->dimension;
    }
}

static enum status check_times(struct job *j, const struct cluster_job *w)
{
    for (uint32_t i = 0; w->times && i < w->rows && !is_cancelled(j); i++) {
        if (i % 4096 == 0) yield_check();
        if (!canonical_is_finite(w->times[i]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_TIMES,
                               "times: number %" PRIu32 " is not finite", i);
    }
    return STATUS_OK;
}

void cluster_reset(struct cluster_job *w)
{
    for (uint32_t i = 0; i < w->rows; i++) {
        if (i % 4096 == 0) yield_check();
        w->births[i] = 0;
        w->next[i] = CLUSTER_NO_ROW;
        w->sizes[i] = 1;
    }
}

enum status cluster_find(struct job *j, struct cluster_job *w)
{
    enum status st = check_times(j, w);
    if (st) return st;
    if (w->collection && is_present(&j->request.ids))
        st = find_ids(j, w);
    else if (w->collection)
        find_all(j, w);
    else
        find_inline(j, w);
    cluster_reset(w);
    return st;
}

void cluster_copy_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    uint64_t first = (uint64_t)part * CLUSTER_BLOCK, end = smaller(first + CLUSTER_BLOCK, w->rows);
    (void)worker;
    for (uint64_t at = first; at < end && !is_cancelled(j); at += CHECKED) {
        size_t n = (size_t)smaller(CHECKED, end - at);
        yield_check();
        for (size_t i = 0; i < n; i++)
            vectors_pad(w->dimension, w->sources[at + i], 1, cluster_row(w, at + i));
        if (w->collection) continue;
        w->vectors->norms(w->dimension, cluster_row(w, at), n, w->row_norms + at);
        size_t bad = vectors_find_bad(w->row_norms + at, n);
        if (bad < n) note_smallest(&w->bad, at + bad);
    }
}

uint64_t cluster_copy_parts(const struct cluster_job *w)
{
    return pieces_of(w->rows, CLUSTER_BLOCK);
}

enum status cluster_refuse(struct job *j, const struct cluster_job *w)
{
    uint64_t bad = atomic_load(&w->bad);
    if (bad == NO_ROW) return STATUS_OK;
    return operation_refuse_row(j, "row", bad, w->sources[bad], w->dimension);
}
