/* knn_batch: the kNN requests of a batch in one scan, each with its own k, threshold, filter and
 * result; bit for bit what each would get alone. */
#include <assert.h>

#include "daemon/exec/batch.h"
#include "daemon/ops/knn_inside.h"

enum { CHECK_QUERIES = 32 }; /* queries checked at once */

struct knn_batch_plan {
    struct knn_search search;
    uint32_t owner_count;
    uint64_t owners, owner_of, queries, check, filters; /* scratch offsets */
};

static struct knn_batch_plan *batch_of(struct job *c)
{
    return c->plan.scratch.data;
}

/* ---- plan ---- */

static void add_size(const struct job *m, struct knn_size *size, uint64_t *filters)
{
    uint64_t queries = m->request.queries.rows;
    uint64_t entry_bytes = knn_entry_bytes(m->collection, m->request.k);
    size->queries += queries;
    size->entries += queries * entry_bytes;
    if (entry_bytes > size->entries_max) size->entries_max = entry_bytes;
    size->k += queries * smaller(m->request.k, collection_rows(m->collection));
    if (filter_is_given(m)) *filters += filter_bytes(m, FILTER_BITMAP);
}

static uint64_t lay_out(struct job *c, struct knn_batch_plan *w)
{
    struct knn_size size = {0};
    uint64_t bytes = 0, filters = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        if (m->failure.code) continue;
        add_size(m, &size, &filters);
        w->owner_count++;
    }
    /* the average k: a single request with a large k must not decide */
    if (size.queries) size.k /= size.queries;
    uint32_t dimension = w->search.grid.rows.dimension;
    layout_add(&bytes, sizeof *w);
    knn_layout(&w->search, c, &size, &bytes);
    w->owners = layout_add(&bytes, w->owner_count * sizeof(struct knn_owner));
    w->owner_of = layout_add(&bytes, size.queries * sizeof(uint16_t));
    w->queries = layout_add(&bytes, size.queries * dimension * sizeof(float));
    w->check = layout_add(&bytes, queries_check_bytes(dimension, CHECK_QUERIES));
    w->filters = layout_add(&bytes, filters);
    return bytes;
}

static void add_owners(struct job *c, struct knn_batch_plan *w)
{
    struct knn_owner *owners = scratch_at(c, w->owners);
    w->owner_count = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        if (m->failure.code) continue;
        operation_note_collection(m);
        struct knn_owner o = {
            .job = m,
            .query_count = m->request.queries.rows,
            .entry_bytes = knn_entry_bytes(m->collection, m->request.k),
            .k = m->request.k,
        };
        if (!filter_is_given(m) && knn_take_result(m, collection_rows(m->collection), &o.k)) {
            operation_drop_result(m);
            continue;
        }
        owners[w->owner_count++] = o;
    }
}

/* ---- run ---- */

static bool queries_are_sound(struct job *c, const struct knn_batch_plan *w, struct job *m)
{
    const struct tensor *queries = &m->request.queries;
    uint32_t dimension = w->search.grid.rows.dimension;
    const float *rows = queries->data;
    for (uint64_t first = 0; first < queries->rows; first += CHECK_QUERIES) {
        size_t n = (size_t)smaller(CHECK_QUERIES, queries->rows - first);
        size_t bad = queries_find_bad(c->kernels, dimension, rows + first * dimension, n,
                                      scratch_at(c, w->check));
        if (bad == n) continue;
        bad += first;
        operation_refuse_row(m, "query", bad, rows + bad * dimension, dimension);
        return false;
    }
    return true;
}

/* Checks a member completely. False: it is invalid, or nothing is left to do for it. */
static bool owner_joins(struct job *c, struct knn_batch_plan *w, struct knn_owner *o, void *memory)
{
    struct job *m = o->job;
    if (is_cancelled(m)) return false;
    if (filter_is_given(m)) {
        struct filtered f = filter_resolve(m, FILTER_BITMAP, memory);
        o->allowed = f.bitmap;
        if (knn_take_result(m, f.count, &o->k)) return false;
    }
    if (!queries_are_sound(c, w, m)) return false;
    if (!o->k) knn_write_none(m);
    return o->k != 0;
}

/* Copies the queries of an owner that takes part. */
static void gather(struct job *c, struct knn_batch_plan *w, uint32_t number, struct knn_owner *o,
                   struct knn_size *sum)
{
    uint64_t row_floats = w->search.grid.rows.dimension;
    float *queries = scratch_at(c, w->queries);
    uint16_t *owner_of = scratch_at(c, w->owner_of);
    memcpy(queries + sum->queries * row_floats, o->job->request.queries.data,
           o->query_count * row_floats * sizeof *queries);
    for (uint64_t q = 0; q < o->query_count; q++)
        owner_of[sum->queries + q] = (uint16_t)number;
    o->first_query = sum->queries;
    o->entries = sum->entries;
    sum->queries += o->query_count;
    sum->entries += o->query_count * o->entry_bytes;
}

static enum status batch_prepare(struct job *c)
{
    struct knn_batch_plan *w = batch_of(c);
    struct knn_owner *owners = scratch_at(c, w->owners);
    struct knn_size sum = {0};
    char *filter = scratch_at(c, w->filters);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->owner_count; i++) {
        struct knn_owner o = owners[i];
        if (owner_joins(c, w, &o, filter)) {
            gather(c, w, kept, &o, &sum);
            owners[kept++] = o;
        }
        if (filter_is_given(o.job)) filter += filter_bytes(o.job, FILTER_BITMAP);
    }
    w->search.owners = owners;
    w->search.owner_of = scratch_at(c, w->owner_of);
    w->search.grid.queries = scratch_at(c, w->queries);
    grid_keep(&w->search.grid, sum.queries);
    c->plan.parts = (uint32_t)grid_parts(&w->search.grid);
    bool sound = knn_start(&w->search, c);
    assert(sound); /* all of them were checked before */
    (void)sound;
    return STATUS_OK;
}

static void batch_run_part(struct job *c, uint32_t part, uint32_t worker)
{
    knn_part(&batch_of(c)->search, c, part, worker);
}

static void batch_finish(struct job *c)
{
    bool all = is_cancelled(c);
    for (struct job *m = c->members; m; m = m->member_next)
        if (all || m->failure.code || is_cancelled(m)) operation_drop_result(m);
    if (!all) knn_end(&batch_of(c)->search, c);
    c->screen = batch_of(c)->search.screen;
}

static enum status batch_plan(struct job *c)
{
    struct knn_batch_plan w = {0};
    for (struct job *m = c->members; m; m = m->member_next)
        knn_check(m);
    knn_search_init(&w.search, c, c->collection);
    if (operation_take_scratch(c, lay_out(c, &w))) {
        for (struct job *m = c->members; m; m = m->member_next)
            memset(&m->failure, 0, sizeof m->failure);
        return operation_drop_all(c);
    }
    add_owners(c, &w);
    *batch_of(c) = w;
    c->plan.prepare = batch_prepare;
    c->plan.run_part = batch_run_part;
    c->plan.finish = batch_finish;
    c->plan.parts = (uint32_t)grid_parts(&w.search.grid);
    c->plan.part_ns = w.search.alone ? UINT64_MAX : 0;
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

struct gpu_batch {
    uint64_t segments, filters; /* scratch offsets */
};

/* Excludes a member from the order: the CPU runs it, or says what is wrong. */
static void leave_out(struct job *m)
{
    bool memory = m->failure.detail == DETAIL_MEMORY;
    operation_drop_result(m);
    memset(&m->failure, 0, sizeof m->failure);
    m->gpu.gave_up = memory ? REASON_QUEUE_FULL : REASON_CHOSEN_FASTER;
}

/* Makes a member's segment of the order. False: a GPU cannot run it. */
static bool make_segment(struct job *m, void *filter, struct order_segment *out)
{
    const struct job_request *r = &m->request;
    uint64_t rows = collection_rows(m->collection);
    struct filtered f = {.count = rows};
    if (filter_is_given(m)) f = filter_resolve(m, FILTER_BITMAP, filter);
    if (f.bitmap && filter_is_scant(m, f.count)) return false;
    uint32_t k = r->k;
    operation_note_collection(m);
    if (knn_take_result(m, f.count, &k)) return false;
    *out = (struct order_segment){
        .query_count = r->queries.rows,
        .queries = operation_gpu_place(m, r->queries.data),
        .allowed = f.bitmap ? operation_gpu_place(m, f.bitmap) : PLACE_NONE,
        .k = k,
        .has_threshold = r->has_threshold,
        .threshold = r->threshold,
        .out_ids = operation_gpu_place(m, m->result.tensors[RESULT_KNN_IDS].data),
        .out_scores = operation_gpu_place(m, m->result.tensors[RESULT_KNN_SCORES].data),
        .out_counts = operation_gpu_place(m, m->result.tensors[RESULT_KNN_COUNTS].data),
    };
    return !m->gpu.unfit;
}

/* Makes the order for all members that are not excluded. */
static enum status batch_gpu_prepare(struct job *c)
{
    struct gpu_batch *w = c->plan.scratch.data;
    struct order_segment *segments = scratch_at(c, w->segments);
    char *filter = scratch_at(c, w->filters);
    struct order_run *run = operation_gpu_order(c, RUN_KNN, collection_metric(c->collection));
    c->gpu.pairs = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        if (m->gpu.gave_up) continue;
        struct order_segment *s = &segments[run->segment_count];
        bool fit = make_segment(m, filter, s);
        if (filter_is_given(m)) filter += filter_bytes(m, FILTER_BITMAP);
        if (!fit) {
            leave_out(m);
            continue;
        }
        run->segment_count++;
        run->query_count += s->query_count;
        if (s->k > run->k) run->k = s->k;
        c->gpu.pairs += operation_gpu_pairs(m);
    }
    run->segments = operation_gpu_place(c, segments);
    if (!run->segment_count) c->gpu.unfit = true;
    return STATUS_OK;
}

static enum status batch_gpu_plan(struct job *c)
{
    uint64_t members = 0, queries = 0, filters = 0, bytes = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        memset(&m->gpu, 0, sizeof m->gpu);
        if (knn_check(m) || !operation_gpu_pairs(m)) {
            leave_out(m);
            continue;
        }
        members++;
        queries += m->request.queries.rows;
        if (filter_is_given(m)) filters += filter_bytes(m, FILTER_BITMAP);
    }
    c->gpu.unfit = members > ORDER_SEGMENTS_MAX || queries > ORDER_SEGMENT_QUERIES_MAX;
    if (c->gpu.unfit) return STATUS_OK;
    struct gpu_batch w;
    layout_add(&bytes, sizeof w);
    w.segments = layout_add(&bytes, members * sizeof(struct order_segment));
    w.filters = layout_add(&bytes, filters);
    enum status st = operation_take_own(c, bytes);
    if (st) return operation_drop_all(c);
    *(struct gpu_batch *)c->plan.scratch.data = w;
    if (!filters) return batch_gpu_prepare(c);
    c->gpu.prepare = batch_gpu_prepare;
    c->gpu.prepare_is_long = true;
    return STATUS_OK;
}

const struct operation_ops operation_knn_batch = {
    .plan = batch_plan,
    .gpu_plan = batch_gpu_plan,
    .gpu_pairs = operation_batch_pairs,
};
