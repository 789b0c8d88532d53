/* op_knn: the k best rows of each query, fused with the scan: scores live in a block of the
 * second-level cache and never travel to memory. */
#include "daemon/exec/filter.h"
#include "daemon/exec/grid.h"
#include "daemon/exec/screening.h"
#include "kernels/topk.h"

/* Candidates are kept per worker and query when all of them fit, so that many parts can share the
 * rows; otherwise per worker for one group of queries at a time. */
#define KEPT_BYTES_MAX (UINT64_C(64) << 20)

struct knn {
    struct grid grid;
    uint32_t k; /* k asked for, at most the allowed rows: columns of the result */
    bool lower_is_better;
    const uint64_t *allowed;  /* bitmap over rows, or NULL */
    uint64_t kept_queries;    /* per worker */
    uint64_t entry_bytes;     /* per query */
    uint64_t tops, top_bytes; /* scratch offset; one array a worker, on lines of its own */
    uint64_t entries;         /* scratch offset: [worker][query] */
    uint64_t scores, score_bytes, positions, position_bytes; /* one each a worker */
    uint64_t filter;
    struct screening screening; /* if the grid is screened */
    uint64_t states;            /* scratch offset: one screening_state a worker */
};

static struct knn *knn_of(struct job *j)
{
    return j->plan.scratch.data;
}

static struct topk *top_of(struct job *j, const struct knn *w, uint32_t worker, uint64_t query)
{
    return (struct topk *)scratch_at(j, w->tops + worker * w->top_bytes) + query;
}

static void start_top(struct job *j, const struct knn *w, uint32_t worker, uint64_t query)
{
    uint64_t place = worker * w->kept_queries + query;
    topk_init(top_of(j, w, worker, query), scratch_at(j, w->entries + place * w->entry_bytes), w->k,
              w->lower_is_better, j->request.has_threshold ? &j->request.threshold : NULL);
}

static enum status take_result(struct job *j, struct knn *w)
{
    uint64_t queries = w->grid.query_count;
    if (w->grid.rows.count < w->k) w->k = (uint32_t)w->grid.rows.count;
    operation_shape(j, 0, DTYPE_UINT64, queries, w->k);
    operation_shape(j, 1, DTYPE_FLOAT32, queries, w->k);
    operation_shape(j, 2, DTYPE_UINT32, queries, 1);
    return operation_take_result(j, 3);
}

/* Sorts a query's candidates into its line of the result. */
static void write_query(struct job *j, struct knn *w, uint64_t query, struct topk *top)
{
    uint64_t *ids = (uint64_t *)j->result.tensors[0].data + query * w->k;
    float *scores = (float *)j->result.tensors[1].data + query * w->k;
    static const uint32_t no_score = 0x7fc00000;
    uint32_t count = topk_finish(top, ids, scores);
    for (uint32_t i = count; i < w->k; i++) {
        ids[i] = UINT64_MAX;
        memcpy(&scores[i], &no_score, sizeof no_score);
    }
    ((uint32_t *)j->result.tensors[2].data)[query] = count;
}

static enum status knn_prepare(struct job *j)
{
    struct knn *w = knn_of(j);
    if (filter_is_given(j)) {
        struct filtered f = filter_resolve(j, FILTER_EITHER, scratch_at(j, w->filter));
        w->allowed = f.bitmap;
        w->grid.rows.list = f.list;
        /* With a bitmap everything is scanned, but k is at most what is allowed. */
        uint64_t rows = w->grid.rows.count;
        w->grid.rows.count = f.count;
        enum status st = take_result(j, w);
        if (st) return st;
        if (f.bitmap) w->grid.rows.count = rows;
        grid_recut(&w->grid);
        j->plan.parts = (uint32_t)grid_parts(&w->grid);
    }
    if (w->grid.screened)
        memset(scratch_at(j, w->states), 0, j->worker_count * sizeof(struct screening_state));
    if (!grid_prepare(&w->grid, j)) return grid_refuse(&w->grid, j);
    for (uint32_t worker = 0; w->grid.shared && w->k && worker < j->worker_count; worker++)
        for (uint64_t query = 0; query < w->grid.query_count; query++)
            start_top(j, w, worker, query);
    return STATUS_OK;
}

/* Several queries, most rows told apart by the screen. */
static void screen_part(struct job *j, struct knn *w, struct grid_part *p, uint32_t worker,
                        struct topk *tops)
{
    struct screening_state *state = (struct screening_state *)scratch_at(j, w->states) + worker;
    struct screening_block b = {
        .queries = &p->queries,
        .tops = tops,
        .allowed = w->allowed,
        .scores = scratch_at(j, w->scores + worker * w->score_bytes),
    };
    for (;;) {
        b.first_row = p->first_row;
        b.rows = grid_block(&w->grid, j, p, &b.ids);
        if (b.rows.count == 0) return;
        screening_offer(&w->screening, state, &b);
    }
}

static void score_part(struct job *j, struct knn *w, struct grid_part *p, uint32_t worker,
                       struct topk *tops)
{
    float *scores = scratch_at(j, w->scores + worker * w->score_bytes);
    uint32_t *positions = scratch_at(j, w->positions + worker * w->position_bytes);
    for (;;) {
        const uint64_t *ids;
        uint64_t row = p->first_row;
        size_t n = grid_score(&w->grid, j, p, scores, ROWS_BLOCK, &ids);
        if (n == 0) return;
        for (size_t q = 0; q < p->queries.count; q++)
            topk_offer(&tops[q], w->grid.rows.kernels, scores + q * ROWS_BLOCK, ids, n, w->allowed,
                       row, positions);
    }
}

static void knn_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct knn *w = knn_of(j);
    struct grid_part p;
    if (!grid_part(&w->grid, j, part, worker, &p) || !w->k) return;
    size_t queries = p.queries.count;
    uint64_t kept_first = w->grid.shared ? p.first_query : 0;
    for (size_t q = 0; !w->grid.shared && q < queries; q++)
        start_top(j, w, worker, q);

    struct topk *tops = top_of(j, w, worker, kept_first);
    if (w->grid.screened && queries > 1)
        screen_part(j, w, &p, worker, tops);
    else
        score_part(j, w, &p, worker, tops);
    for (size_t q = 0; !w->grid.shared && q < queries; q++)
        write_query(j, w, p.first_query + q, top_of(j, w, worker, q));
}

static void knn_finish(struct job *j)
{
    struct knn *w = knn_of(j);
    if (!j->failure.code) grid_refuse(&w->grid, j);
    if (j->failure.code || is_cancelled(j)) {
        operation_drop_result(j);
        return;
    }
    if (!w->k) memset(j->result.tensors[2].data, 0, w->grid.query_count * sizeof(uint32_t));
    if (!w->k || !w->grid.shared) return;
    for (uint64_t query = 0; query < w->grid.query_count && !is_cancelled(j); query++) {
        struct topk *top = top_of(j, w, 0, query);
        for (uint32_t worker = 1; worker < j->worker_count; worker++)
            topk_merge(top, top_of(j, w, worker, query));
        write_query(j, w, query, top);
    }
}

static enum status check(struct job *j, struct knn *w)
{
    const struct job_request *r = &j->request;
    enum status st = operation_check_dimension(j, &r->queries, "queries", &w->grid.rows.dimension);
    if (!st) st = filter_check(j);
    if (!st && (r->k < 1 || r->k > TOPK_K_MAX))
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                         "k is 1 to %d, not %" PRIu32, TOPK_K_MAX, r->k);
    if (!st && r->has_threshold && r->threshold != r->threshold)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                         "the threshold is not a number");
    return st;
}

static void lay_out(struct job *j, struct knn *w, uint64_t *bytes)
{
    uint32_t workers = j->worker_count;
    uint32_t k = (uint32_t)smaller(w->k, w->grid.rows.count);
    w->entry_bytes = k ? topk_bytes(k) : 0;
    uint64_t all_bytes = w->entry_bytes * workers * w->grid.query_count;
    bool alone = w->grid.query_count > 1 && all_bytes > KEPT_BYTES_MAX;
    if (alone) {
        w->grid.group_queries = KEPT_BYTES_MAX / (w->entry_bytes * workers);
        if (!w->grid.group_queries) w->grid.group_queries = 1;
    }
    grid_cut(&w->grid, workers, alone, filter_is_given(j));
    uint64_t rows_a_worker = w->grid.rows.count / (w->grid.shared ? workers : 1);
    w->grid.screened = screening_pays(j->kernels, w->grid.metric, w->grid.rows.dimension,
                                      w->grid.query_count, k, rows_a_worker);
    w->screening = (struct screening){screen_of(w->grid.metric, w->grid.rows.dimension), j->kernels,
                                      w->grid.rows.dimension};
    w->states = layout_add(bytes, w->grid.screened ? workers * sizeof(struct screening_state) : 0);
    grid_layout(&w->grid, workers, bytes);
    w->kept_queries = w->grid.shared ? w->grid.query_count : w->grid.group_queries;
    w->top_bytes = pieces_of(w->kept_queries * sizeof(struct topk), 64) * 64;
    w->tops = layout_add(bytes, workers * w->top_bytes);
    w->entries = layout_add(bytes, workers * w->kept_queries * w->entry_bytes);
    w->score_bytes = w->grid.group_queries * ROWS_BLOCK * sizeof(float);
    w->scores = layout_add(bytes, workers * w->score_bytes);
    w->position_bytes = (ROWS_BLOCK + 16) * sizeof(uint32_t);
    w->positions = layout_add(bytes, workers * w->position_bytes);
    w->filter = layout_add(bytes, filter_is_given(j) ? filter_bytes(j, FILTER_EITHER) : 0);
}

static enum status begin(struct job *j, struct knn *w)
{
    enum status st = check(j, w);
    if (st) return st;
    operation_note_collection(j);
    w->k = j->request.k;
    w->grid.metric = collection_metric(j->collection);
    w->lower_is_better = metric_lower_is_better(w->grid.metric);
    w->grid.rows.kernels = j->kernels;
    w->grid.rows.collection = j->collection;
    w->grid.rows.count = collection_rows(j->collection);
    w->grid.queries = j->request.queries.data;
    w->grid.query_count = j->request.queries.rows;
    return STATUS_OK;
}

static enum status knn_plan(struct job *j)
{
    struct knn w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    lay_out(j, &w, &bytes);
    st = filter_is_given(j) ? STATUS_OK : take_result(j, &w);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *knn_of(j) = w;
    j->plan.prepare = knn_prepare;
    j->plan.run_part = knn_part;
    j->plan.finish = knn_finish;
    j->plan.parts = (uint32_t)grid_parts(&w.grid);
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t knn_gpu_pairs(const struct job *j)
{
    bool scant = filter_is_given(j) && filter_is_scant(j, filter_allows(j));
    return scant ? 0 : j->request.queries.rows * collection_rows(j->collection);
}

static void gpu_order(struct job *j, const struct knn *w)
{
    struct order_run *run = operation_gpu_order(j, RUN_KNN, w->grid.metric);
    run->k = w->k;
    run->has_threshold = j->request.has_threshold;
    run->threshold = j->request.threshold;
    if (w->allowed) run->allowed = operation_gpu_place(j, w->allowed);
    run->out_ids = operation_gpu_place(j, j->result.tensors[0].data);
    run->out_scores = operation_gpu_place(j, j->result.tensors[1].data);
    run->out_counts = operation_gpu_place(j, j->result.tensors[2].data);
}

static enum status knn_gpu_prepare(struct job *j)
{
    struct knn *w = knn_of(j);
    struct filtered f = filter_resolve(j, FILTER_BITMAP, scratch_at(j, w->filter));
    if (filter_is_scant(j, f.count)) {
        j->gpu.unfit = true;
        return STATUS_OK;
    }
    w->allowed = f.bitmap;
    w->grid.rows.count = f.count;
    enum status st = take_result(j, w);
    if (!st) gpu_order(j, w);
    return st;
}

static enum status knn_gpu_plan(struct job *j)
{
    struct knn w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    if (filter_is_given(j)) {
        w.filter = layout_add(&bytes, filter_bytes(j, FILTER_BITMAP));
        st = operation_take_scratch(j, bytes);
    } else {
        st = take_result(j, &w);
    }
    if (st) return operation_drop_all(j);
    if (!filter_is_given(j)) {
        gpu_order(j, &w);
        return STATUS_OK;
    }
    *knn_of(j) = w;
    j->gpu.prepare = knn_gpu_prepare;
    j->gpu.prepare_is_long = true;
    return STATUS_OK;
}

const struct operation_ops operation_knn = {
    .operation = OPERATION_KNN,
    .plan = knn_plan,
    .gpu_plan = knn_gpu_plan,
    .gpu_pairs = knn_gpu_pairs,
};
