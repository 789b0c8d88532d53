/* knn: the k best rows of each query. */
#include "daemon/exec/batch.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/work.h"
#include "daemon/ops/check.h"
#include "daemon/ops/knn_inside.h"

struct knn_plan {
    struct knn_search search;
    struct knn_owner owner;
    uint64_t filter; /* scratch offset */
};

static struct knn_plan *knn_of(struct job *j)
{
    return j->plan.scratch.data;
}

static enum status take_result(struct job *j, struct knn_plan *w, uint64_t allowed_rows)
{
    enum status st = knn_take_result(j, allowed_rows, &w->owner.k);
    w->search.nothing = !w->owner.k;
    return st;
}

static enum status knn_prepare(struct job *j)
{
    struct knn_plan *w = knn_of(j);
    struct grid *g = &w->search.grid;
    w->search.owners = &w->owner;
    if (filter_is_given(j)) {
        struct filtered f = filter_resolve(j, FILTER_EITHER, scratch_at(j, w->filter));
        enum status st = take_result(j, w, f.count);
        if (st) return st;
        w->owner.allowed = f.bitmap;
        g->rows.list = f.list;
        /* With a bitmap all rows are scanned. */
        if (!f.bitmap) g->rows.count = f.count;
        grid_recut(g);
        j->plan.parts = (uint32_t)grid_parts(g);
    }
    return knn_start(&w->search, j) ? STATUS_OK : grid_refuse(g, j);
}

static void knn_run_part(struct job *j, uint32_t part, uint32_t worker)
{
    knn_part(&knn_of(j)->search, j, part, worker);
}

static void knn_finish(struct job *j)
{
    struct knn_plan *w = knn_of(j);
    if (!j->failure.code) grid_refuse(&w->search.grid, j);
    if (j->failure.code || is_cancelled(j))
        operation_drop_result(j);
    else
        knn_end(&w->search, j);
    j->screen = w->search.screen;
}

static enum status begin(struct job *j, struct knn_plan *w)
{
    enum status st = knn_check(j);
    if (st) return st;
    operation_note_collection(j);
    knn_search_init(&w->search, j, j->collection);
    w->search.grid.queries = j->request.queries.data;
    w->owner.job = j;
    w->owner.k = j->request.k;
    w->owner.query_count = j->request.queries.rows;
    w->owner.entry_bytes = knn_entry_bytes(j->collection, j->request.k);
    return STATUS_OK;
}

static enum status knn_plan(struct job *j)
{
    struct knn_plan w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    bool filtered = filter_is_given(j);
    struct knn_size size = {
        .queries = w.owner.query_count,
        .entries = w.owner.query_count * w.owner.entry_bytes,
        .entries_max = w.owner.entry_bytes,
        .k = smaller(w.owner.k, w.search.grid.rows.count),
        .listed = filtered,
    };
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    knn_layout(&w.search, j, &size, &bytes);
    w.filter = layout_add(&bytes, filtered ? filter_bytes(j, FILTER_EITHER) : 0);
    st = filtered ? STATUS_OK : take_result(j, &w, w.search.grid.rows.count);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *knn_of(j) = w;
    j->plan.prepare = knn_prepare;
    j->plan.run_part = knn_run_part;
    j->plan.finish = knn_finish;
    j->plan.parts = (uint32_t)grid_parts(&w.search.grid);
    j->plan.part_ns = w.search.alone ? UINT64_MAX : 0;
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t knn_gpu_pairs(const struct job *j)
{
    bool scant = filter_is_given(j) && filter_is_scant(j, filter_allows(j));
    return scant ? 0 : j->request.queries.rows * collection_rows(j->collection);
}

static void gpu_order(struct job *j, const struct knn_plan *w)
{
    struct order_run *run = operation_gpu_order(j, RUN_KNN, w->search.grid.metric);
    run->k = w->owner.k;
    run->has_threshold = j->request.has_threshold;
    run->threshold = j->request.threshold;
    if (w->owner.allowed) run->allowed = operation_gpu_place(j, w->owner.allowed);
    run->out_ids = operation_gpu_place(j, j->result.tensors[RESULT_KNN_IDS].data);
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_KNN_SCORES].data);
    run->out_counts = operation_gpu_place(j, j->result.tensors[RESULT_KNN_COUNTS].data);
}

static enum status knn_gpu_prepare(struct job *j)
{
    struct knn_plan *w = knn_of(j);
    struct filtered f = filter_resolve(j, FILTER_BITMAP, scratch_at(j, w->filter));
    if (filter_is_scant(j, f.count)) {
        j->gpu.unfit = true;
        return STATUS_OK;
    }
    w->owner.allowed = f.bitmap;
    enum status st = take_result(j, w, f.count);
    if (!st) gpu_order(j, w);
    return st;
}

static enum status knn_gpu_plan(struct job *j)
{
    struct knn_plan w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    if (filter_is_given(j)) {
        w.filter = layout_add(&bytes, filter_bytes(j, FILTER_BITMAP));
        st = operation_take_own(j, bytes);
    } else {
        st = take_result(j, &w, w.search.grid.rows.count);
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

static enum status knn_check_request(struct job *j)
{
    enum status st = check_filter(j);
    if (!st) st = check_k(j, 1);
    return st ? st : check_threshold(j);
}

/* ---- as work ---- */

enum { BATCH_QUERIES_MAX = 256, SPLIT_QUERIES_MIN = 64 };

static void knn_work(const struct job *j, struct work *w)
{
    w->queries = j->request.queries.rows;
    w->rows = work_rows(j);
    w->listed = filter_is_given(j) && filter_is_scant(j, filter_allows(j));
    if (w->listed) w->rows = smaller(w->rows, filter_allows(j));
    w->k = j->request.k;
    w->pairs = work_times(w->queries, w->rows);
    w->bytes_out = work_best_bytes(j, w->rows);
    if (j->collection && !w->listed)
        w->screen[0] = shadowing_outlook(j->collection, w->queries, w->k);
}

/* Gathering few rows for one is sooner done than scanning all for many. */
static bool knn_batches(const struct job *j)
{
    uint64_t queries = j->request.queries.rows;
    return j->collection && queries >= 1 && queries <= BATCH_QUERIES_MAX && !filter_gathers(j) &&
           work_best_bytes(j, work_rows(j)) <= BATCH_RESULT_BYTES_MAX;
}

static bool knn_splits(const struct job *j)
{
    return j->collection && !filter_is_given(j) && j->request.queries.rows >= SPLIT_QUERIES_MIN;
}

const struct operation_ops operation_knn = {
    .check = knn_check_request,
    .work = knn_work,
    .batches = knn_batches,
    .carrier = OPERATION_KNN_BATCH,
    .splits = knn_splits,
    .plan = knn_plan,
    .gpu_plan = knn_gpu_plan,
    .gpu_pairs = knn_gpu_pairs,
};
