/* fetch: returns rows as they were given, by id or by position. */
#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/work.h"

enum { PART_BYTES = 512 << 10, BATCH = 64 };

struct fetch_plan {
    uint64_t count, first; /* rows to return; by position: the first of them */
    uint64_t part_rows;
    uint32_t dimension;
    bool by_id;
    _Atomic uint64_t missing;
};

static void fetch_ids(struct job *j, struct fetch_plan *w, uint64_t at, uint64_t end)
{
    const uint64_t *ids = j->request.ids.data;
    uint64_t missing = 0;
    size_t row_bytes = w->dimension * sizeof(float);
    memcpy((uint64_t *)j->result.tensors[RESULT_FETCH_IDS].data + at, ids + at,
           (end - at) * sizeof *ids);
    uint8_t *found = j->result.tensors[RESULT_FETCH_FOUND].data;
    char *out = j->result.tensors[RESULT_FETCH_ROWS].data;
    for (; at < end && !is_cancelled(j); at += BATCH) {
        uint32_t rows[BATCH];
        size_t n = (size_t)smaller(BATCH, end - at);
        yield_check();
        missing += n - collection_find_rows(j->collection, ids + at, n, rows);
        for (size_t i = 0; i < n; i++) {
            bool known = rows[i] != COLLECTION_NO_ROW;
            found[at + i] = known;
            if (known)
                memcpy(out + (at + i) * row_bytes, collection_row(j->collection, rows[i]),
                       row_bytes);
            else
                memset(out + (at + i) * row_bytes, 0, row_bytes);
        }
    }
    atomic_fetch_add(&w->missing, missing);
}

static void fetch_positions(struct job *j, struct fetch_plan *w, uint64_t at, uint64_t end)
{
    uint64_t *ids = j->result.tensors[RESULT_FETCH_IDS].data;
    char *out = j->result.tensors[RESULT_FETCH_ROWS].data;
    size_t row_bytes = w->dimension * sizeof(float);
    memset((uint8_t *)j->result.tensors[RESULT_FETCH_FOUND].data + at, 1, end - at);
    for (; at < end && !is_cancelled(j); at++) {
        uint32_t row = (uint32_t)(w->first + at);
        ids[at] = collection_id(j->collection, row);
        memcpy(out + at * row_bytes, collection_row(j->collection, row), row_bytes);
    }
}

static void fetch_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct fetch_plan *w = j->plan.scratch.data;
    uint64_t at = part * w->part_rows, end = smaller(at + w->part_rows, w->count);
    if (at >= end) return;
    if (w->by_id)
        fetch_ids(j, w, at, end);
    else
        fetch_positions(j, w, at, end);
}

static void fetch_finish(struct job *j)
{
    struct fetch_plan *w = j->plan.scratch.data;
    j->result.counts[0] = atomic_load(&w->missing);
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

static enum status fetch_plan(struct job *j)
{
    const struct job_request *r = &j->request;
    uint64_t rows = collection_rows(j->collection);
    struct fetch_plan w = {.by_id = is_present(&r->ids),
                           .dimension = collection_dimension(j->collection)};
    w.first = smaller(r->offset, rows);
    w.count = w.by_id ? r->ids.rows : smaller(r->limit, rows - w.first);
    if (!w.by_id) j->result.positions = rows;
    w.part_rows = PART_BYTES / (w.dimension * sizeof(float));
    atomic_init(&w.missing, 0);
    operation_note_collection(j);
    operation_shape(j, RESULT_FETCH_IDS, DTYPE_UINT64, w.count, 1);
    operation_shape(j, RESULT_FETCH_FOUND, DTYPE_UINT8, w.count, 1);
    operation_shape(j, RESULT_FETCH_ROWS, DTYPE_FLOAT32, w.count, w.dimension);
    enum status st = operation_take_result(j, RESULTS_Fetch);
    if (!st) st = operation_take_scratch(j, sizeof w);
    if (st) return operation_drop_all(j);
    *(struct fetch_plan *)j->plan.scratch.data = w;
    j->plan.run_part = fetch_part;
    j->plan.finish = fetch_finish;
    j->plan.parts = w.count ? (uint32_t)pieces_of(w.count, w.part_rows) : 1;
    return STATUS_OK;
}

static enum status fetch_check(struct job *j)
{
    const struct job_request *q = &j->request;
    bool positions = q->offset || q->limit || q->cursor || q->keep;
    if (!is_present(&q->ids) || !positions) return STATUS_OK;
    return check_refuse(j, DETAIL_BAD_SHAPE,
                        "ids: offset and limit (or a cursor) are for a fetch without ids");
}

static void fetch_work(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    uint64_t rows = collection_rows(j->collection);
    uint64_t count =
        is_present(&r->ids) ? r->ids.rows : smaller(r->limit, rows - smaller(r->offset, rows));
    w->bytes_out = work_times(count, sizeof(uint64_t) + 1 + work_dimension(j) * sizeof(float));
}

const struct operation_ops operation_fetch = {
    .work = fetch_work, .check = fetch_check, .plan = fetch_plan};
