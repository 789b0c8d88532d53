/* similarity: the score of every query against every row or, with a threshold, of those rows that
 * reach it. */
#include "daemon/ops/work.h"
#include "daemon/ops/check.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/grid.h"
#include "daemon/ops/matches.h"

enum { GPU_COPIED_IDS_MAX = 32768 };
/* With a threshold all scores come back from the GPU, and the matches are found here: 4 bytes a
 * pair go over the bus, where the CPU would read a whole row. */
#define GPU_SCORES_BYTES_MAX (UINT64_C(256) << 20)

struct similarity_plan {
    struct grid grid;
    struct matches matches; /* with a threshold */
    uint64_t filter;
    /* with a threshold, one for each worker */
    uint64_t scores, score_bytes, positions, position_bytes;
};

static struct similarity_plan *similarity_of(struct job *j)
{
    return j->plan.scratch.data;
}

static bool is_inline(const struct job *j)
{
    return !j->collection;
}

/* Without a threshold: ids are the columns, and scores has every pair. */
static enum status take_result(struct job *j, const struct similarity_plan *w)
{
    uint64_t rows = w->grid.rows.count;
    if (is_inline(j))
        j->result.tensors[RESULT_SIMILARITY_IDS] = (struct tensor){0};
    else
        operation_shape(j, RESULT_SIMILARITY_IDS, DTYPE_UINT64, rows, 1);
    operation_shape(j, RESULT_SIMILARITY_SCORES, DTYPE_FLOAT32, w->grid.query_count, rows);
    return operation_take_result(j, RESULT_SIMILARITY_OFFSETS);
}

static enum status similarity_prepare(struct job *j)
{
    struct similarity_plan *w = similarity_of(j);
    if (filter_is_given(j)) {
        struct filtered f = filter_resolve(j, FILTER_LIST, scratch_at(j, w->filter));
        w->grid.rows.list = f.list;
        w->grid.rows.count = f.count;
        grid_recut(&w->grid);
        j->plan.parts = (uint32_t)grid_parts(&w->grid);
        enum status st = j->request.has_threshold ? STATUS_OK : take_result(j, w);
        if (st) return st;
    }
    return grid_prepare(&w->grid, j) ? STATUS_OK : grid_refuse(&w->grid, j);
}

/* Writes scores directly to their places in the reply. */
static void all_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct similarity_plan *w = similarity_of(j);
    struct grid_part p;
    if (!grid_part(&w->grid, j, part, worker, &p)) return;
    uint64_t columns = w->grid.rows.count;
    uint64_t *ids_out = is_inline(j) ? NULL : j->result.tensors[RESULT_SIMILARITY_IDS].data;
    float *scores =
        (float *)j->result.tensors[RESULT_SIMILARITY_SCORES].data + p.first_query * columns;
    for (;;) {
        const uint64_t *ids;
        uint64_t row = p.first_row;
        size_t n = grid_score(&w->grid, j, &p, scores + row, columns, &ids);
        if (n == 0) break;
        if (ids_out && p.first_query == 0) memcpy(ids_out + row, ids, n * sizeof *ids);
    }
}

static void match_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct similarity_plan *w = similarity_of(j);
    struct grid_part p;
    if (!grid_part(&w->grid, j, part, worker, &p)) return;
    float *scores = scratch_at(j, w->scores + worker * w->score_bytes);
    uint32_t *positions = scratch_at(j, w->positions + worker * w->position_bytes);
    bool lower = metric_lower_is_better(w->grid.metric);
    while (matches_welcome(&w->matches)) {
        const uint64_t *ids;
        size_t n = grid_score(&w->grid, j, &p, scores, ROWS_BLOCK, &ids);
        if (n == 0) break;
        for (size_t q = 0; q < p.queries.count; q++) {
            float *line = scores + q * ROWS_BLOCK;
            size_t count = j->kernels->pass(line, n, j->request.threshold, lower, positions);
            matches_add(&w->matches, j, worker, p.first_query + q, ids, line, positions, count);
        }
    }
}

/* Writes the ids of the columns if there is no query, and so no part that does it. */
static void write_columns(struct job *j, const struct similarity_plan *w)
{
    uint64_t *ids = j->result.tensors[RESULT_SIMILARITY_IDS].data;
    for (uint64_t i = 0; i < w->grid.rows.count; i++)
        ids[i] =
            collection_id(j->collection, w->grid.rows.list ? w->grid.rows.list[i] : (uint32_t)i);
}

static void similarity_finish(struct job *j)
{
    struct similarity_plan *w = similarity_of(j);
    if (!j->failure.code) grid_refuse(&w->grid, j);
    if (j->request.has_threshold)
        matches_finish(&w->matches, j, metric_lower_is_better(w->grid.metric));
    if (j->failure.code || is_cancelled(j)) {
        operation_drop_result(j);
        return;
    }
    if (!j->request.has_threshold && !w->grid.query_count && j->collection) write_columns(j, w);
}

static enum status check(struct job *j, struct similarity_plan *w)
{
    const struct job_request *r = &j->request;
    enum status st = operation_check_dimension(j, &r->queries, "queries", &w->grid.rows.dimension);
    if (!st) st = operation_check_metric(j, &w->grid.metric);
    if (!st) st = filter_check(j);
    if (!st && is_inline(j) && r->rows.columns != r->queries.columns)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                         "rows have %" PRIu64 " columns, queries %" PRIu64, r->rows.columns,
                         r->queries.columns);
    if (!st && r->has_threshold && r->threshold != r->threshold)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                         "the threshold is not a number");
    return st;
}

static enum status begin(struct job *j, struct similarity_plan *w)
{
    const struct job_request *r = &j->request;
    enum status st = check(j, w);
    if (st) return st;
    operation_note_collection(j);
    w->grid.rows.kernels = j->kernels;
    w->grid.rows.collection = j->collection;
    w->grid.rows.inline_rows = is_inline(j) ? r->rows.data : NULL;
    w->grid.rows.count = is_inline(j) ? r->rows.rows : collection_rows(j->collection);
    w->grid.queries = r->queries.data;
    w->grid.query_count = r->queries.rows;
    return STATUS_OK;
}

static enum status similarity_plan(struct job *j)
{
    const struct job_request *r = &j->request;
    struct similarity_plan w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    grid_cut(&w.grid, j->worker_count, false, filter_is_given(j));
    grid_layout(&w.grid, j->worker_count, &bytes);
    if (filter_is_given(j)) w.filter = layout_add(&bytes, filter_bytes(j, FILTER_LIST));
    if (r->has_threshold) {
        matches_layout(&w.matches, j, w.grid.query_count, &bytes);
        w.score_bytes = w.grid.group_queries * ROWS_BLOCK * sizeof(float);
        w.scores = layout_add(&bytes, j->worker_count * w.score_bytes);
        w.position_bytes = (ROWS_BLOCK + 16) * sizeof(uint32_t);
        w.positions = layout_add(&bytes, j->worker_count * w.position_bytes);
    } else if (!filter_is_given(j)) {
        st = take_result(j, &w);
    }
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *similarity_of(j) = w;
    if (r->has_threshold) matches_prepare(&similarity_of(j)->matches, j);
    j->plan.prepare = similarity_prepare;
    j->plan.run_part = r->has_threshold ? match_part : all_part;
    j->plan.finish = similarity_finish;
    j->plan.parts = (uint32_t)grid_parts(&w.grid);
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t similarity_gpu_pairs(const struct job *j)
{
    uint64_t rows = is_inline(j) ? j->request.rows.rows : collection_rows(j->collection);
    uint64_t pairs = j->request.queries.rows * rows;
    bool large = j->request.has_threshold && pairs > GPU_SCORES_BYTES_MAX / sizeof(float);
    return large ? 0 : pairs;
}

static struct order_run *gpu_order(struct job *j, const struct similarity_plan *w)
{
    struct order_run *run = operation_gpu_order(j, RUN_SCORES, w->grid.metric);
    bool matching = j->request.has_threshold;
    run->out_scores = operation_gpu_place(
        j, matching ? exchange_at(j, 0) : j->result.tensors[RESULT_SIMILARITY_SCORES].data);
    return run;
}

/* A few ids are copied faster than they come over the bus. */
static void gpu_copy_ids(struct job *j)
{
    const struct tensor *ids = &j->result.tensors[RESULT_SIMILARITY_IDS];
    collection_copy_ids(j->collection, 0, ids->rows, ids->data);
}

static enum status similarity_gpu_prepare(struct job *j)
{
    struct similarity_plan *w = similarity_of(j);
    struct filtered f = filter_resolve(j, FILTER_LIST, scratch_at(j, w->filter));
    if (!f.count) {
        j->gpu.unfit = true;
        return STATUS_OK;
    }
    w->grid.rows.list = f.list;
    w->grid.rows.count = f.count;
    if (!j->request.has_threshold) {
        enum status st = take_result(j, w);
        if (st) return st;
        write_columns(j, w);
    }
    struct order_run *run = gpu_order(j, w);
    run->positions = operation_gpu_place(j, f.list);
    run->list_count = f.count;
    return STATUS_OK;
}

/* Returns ids of rows, a block at a time. */
static size_t gpu_ids(struct job *j, const struct similarity_plan *w, uint64_t row,
                      uint64_t *copies, const uint64_t **ids)
{
    size_t n = (size_t)smaller(ROWS_BLOCK, w->grid.rows.count - row);
    *ids = copies;
    for (size_t i = 0; is_inline(j) && i < n; i++)
        copies[i] = row + i;
    if (is_inline(j)) return n;
    if (!w->grid.rows.list) collection_copy_ids(j->collection, row, n, copies);
    if (!w->grid.rows.list) return n;
    for (size_t i = 0; i < n; i++)
        copies[i] = collection_id(j->collection, w->grid.rows.list[row + i]);
    *ids = copies;
    return n;
}

/* Collects the scores that reach the threshold. */
static void similarity_gpu_finish(struct job *j)
{
    struct similarity_plan *w = similarity_of(j);
    bool lower = metric_lower_is_better(w->grid.metric);
    const float *scores = exchange_at(j, 0);
    uint32_t *positions = scratch_at(j, w->positions);
    for (uint64_t row = 0; row < w->grid.rows.count && matches_welcome(&w->matches);) {
        uint64_t copies[ROWS_BLOCK];
        const uint64_t *ids;
        size_t n = gpu_ids(j, w, row, copies, &ids);
        for (uint64_t q = 0; q < w->grid.query_count && !is_cancelled(j); q++) {
            const float *line = scores + q * w->grid.rows.count + row;
            size_t count = j->kernels->pass(line, n, j->request.threshold, lower, positions);
            matches_add(&w->matches, j, 0, q, ids, line, positions, count);
        }
        row += n;
    }
    matches_finish(&w->matches, j, lower);
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

/* Takes scratch for a filter's list and, with a threshold, for matches, and for the scores, which
 * come from a GPU process. */
static enum status gpu_take_scratch(struct job *j, struct similarity_plan *w)
{
    const struct job_request *r = &j->request;
    uint64_t bytes = 0, scores = 0;
    layout_add(&bytes, sizeof *w);
    if (filter_is_given(j)) w->filter = layout_add(&bytes, filter_bytes(j, FILTER_LIST));
    if (r->has_threshold) {
        matches_layout(&w->matches, j, w->grid.query_count, &bytes);
        w->positions = layout_add(&bytes, (ROWS_BLOCK + 16) * sizeof(uint32_t));
        scores = w->grid.query_count * w->grid.rows.count * sizeof(float);
    }
    enum status st = operation_take_own(j, bytes);
    if (!st) st = operation_take_exchange(j, scores);
    if (st) return st;
    *similarity_of(j) = *w;
    if (r->has_threshold) matches_prepare(&similarity_of(j)->matches, j);
    return STATUS_OK;
}

static enum status similarity_gpu_plan(struct job *j)
{
    struct similarity_plan w = {0};
    bool filtered = filter_is_given(j), matching = j->request.has_threshold;
    enum status st = begin(j, &w);
    if (st) return st;
    if (filtered || matching) st = gpu_take_scratch(j, &w);
    if (!st && !filtered && !matching) st = take_result(j, &w);
    if (st) return operation_drop_all(j);
    if (matching) {
        j->gpu.finish = similarity_gpu_finish;
        j->gpu.finish_is_long = true;
    }
    if (filtered) {
        j->gpu.prepare = similarity_gpu_prepare;
        j->gpu.prepare_is_long = true;
        return STATUS_OK;
    }
    struct order_run *run = gpu_order(j, &w);
    if (matching || is_inline(j)) return STATUS_OK;
    if (w.grid.rows.count <= GPU_COPIED_IDS_MAX)
        j->gpu.meanwhile = gpu_copy_ids;
    else
        run->out_ids = operation_gpu_place(j, j->result.tensors[RESULT_SIMILARITY_IDS].data);
    return STATUS_OK;
}

static enum status similarity_check(struct job *j)
{
    bool own = check_inline(j);
    enum status st = check_target(j);
    if (!st) st = check_filter(j);
    if (!st) st = check_same_columns(j);
    if (!st) st = check_metric(j, own);
    if (!st && !own && j->request.metric)
        st = check_refuse(j, DETAIL_BAD_METRIC,
                          "metric: only with inline rows; a collection has its own");
    return st ? st : check_threshold(j);
}

/* With a threshold nobody knows how many scores there will be. */
static void similarity_work(const struct job *j, struct work *w)
{
    w->queries = j->request.queries.rows;
    w->rows = work_rows(j);
    if (w->filtered) w->rows = smaller(w->rows, filter_allows(j));
    w->pairs = work_times(w->queries, w->rows);
    if (j->request.has_threshold) return;
    w->bytes_out = work_times(w->pairs, sizeof(float));
    if (j->collection) w->bytes_out += w->rows * sizeof(uint64_t);
}

const struct operation_ops operation_similarity = {
    .check = similarity_check,
    .work = similarity_work,
    .plan = similarity_plan,
    .gpu_plan = similarity_gpu_plan,
    .gpu_pairs = similarity_gpu_pairs,
};
