/* knn_search: scores are selected from at once, block by block, while they are in the second-level
 * cache; they are never written to memory as a whole. */
#include "daemon/ops/knn_inside.h"

#include "daemon/base/yield.h"

/* If the candidates of all queries fit, each worker keeps them for all queries, so that many parts
 * can share the rows; otherwise a worker keeps them for one group of queries at a time. */
#define KEPT_BYTES_MAX (UINT64_C(64) << 20)
enum { CHECK_EVERY = 256 }; /* queries */

enum status knn_check(struct job *j)
{
    const struct job_request *r = &j->request;
    uint32_t dimension;
    enum status st = operation_check_dimension(j, &r->queries, "queries", &dimension);
    if (!st) st = filter_check(j);
    if (!st && (r->k < 1 || r->k > TOPK_K_MAX))
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                         "k is 1 to %d, not %" PRIu32, TOPK_K_MAX, r->k);
    if (!st && r->has_threshold && r->threshold != r->threshold)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                         "the threshold is not a number");
    return st;
}

enum status knn_take_result(struct job *j, uint64_t allowed_rows, uint32_t *k)
{
    uint64_t queries = j->request.queries.rows;
    if (allowed_rows < *k) *k = (uint32_t)allowed_rows;
    operation_shape(j, RESULT_KNN_IDS, DTYPE_UINT64, queries, *k);
    operation_shape(j, RESULT_KNN_SCORES, DTYPE_FLOAT32, queries, *k);
    operation_shape(j, RESULT_KNN_COUNTS, DTYPE_UINT32, queries, 1);
    return operation_take_result(j, RESULTS_Knn);
}

void knn_write_none(struct job *j)
{
    const struct tensor *counts = &j->result.tensors[RESULT_KNN_COUNTS];
    if (counts->rows) memset(counts->data, 0, counts->rows * sizeof(uint32_t));
}

uint64_t knn_entry_bytes(const struct edition *c, uint32_t k)
{
    uint32_t columns = (uint32_t)smaller(k, collection_rows(c));
    return columns ? topk_bytes(columns) : 0;
}

void knn_search_init(struct knn_search *s, const struct job *j, const struct edition *c)
{
    s->grid.metric = collection_metric(c);
    s->lower_is_better = metric_lower_is_better(s->grid.metric);
    s->grid.rows.kernels = j->kernels;
    s->grid.rows.collection = c;
    s->grid.rows.dimension = collection_dimension(c);
    s->grid.rows.count = collection_rows(c);
}

static void cut(struct knn_search *s, const struct job *j, const struct knn_size *size)
{
    uint32_t workers = j->worker_count;
    s->grid.query_count = size->queries;
    bool alone = size->queries > 1 && size->entries * workers > KEPT_BYTES_MAX;
    if (alone) {
        s->grid.group_queries = KEPT_BYTES_MAX / (size->entries_max * workers);
        if (!s->grid.group_queries) s->grid.group_queries = 1;
    }
    s->alone = alone;
    grid_cut(&s->grid, workers, alone, size->listed);
    uint64_t rows_a_worker = s->grid.rows.count / (alone ? 1 : workers);
    s->grid.screened = screening_pays(j->kernels, s->grid.metric, s->grid.rows.dimension,
                                      size->queries, size->k, rows_a_worker);
}

void knn_layout(struct knn_search *s, const struct job *j, const struct knn_size *size,
                uint64_t *bytes)
{
    uint32_t workers = j->worker_count;
    cut(s, j, size);
    struct grid *g = &s->grid;
    s->screening =
        (struct screening){screen_of(g->metric, g->rows.dimension), j->kernels, g->rows.dimension};
    s->states = layout_add(bytes, g->screened ? workers * sizeof(struct screening_state) : 0);
    grid_layout(g, workers, bytes);
    s->shadowing = (struct shadowing){.screen = screen_of_shadow(g->metric, g->rows.dimension),
                                      .kernels = j->kernels,
                                      .collection = g->rows.collection,
                                      .dimension = g->rows.dimension};
    if (shadowing_pays(g->rows.dimension, size->queries, size->k, g->rows.count))
        shadowing_layout(&s->shadowing, g->groups, g->group_queries, workers, bytes);
    s->kept_queries = s->alone ? g->group_queries : g->query_count;
    s->top_bytes = pieces_of(s->kept_queries * sizeof(struct topk), 64) * 64;
    s->tops = layout_add(bytes, workers * s->top_bytes);
    s->entry_bytes = smaller(size->entries, s->kept_queries * size->entries_max);
    s->entries = layout_add(bytes, workers * s->entry_bytes);
    s->score_bytes = g->group_queries * ROWS_BLOCK * sizeof(float);
    s->scores = layout_add(bytes, workers * s->score_bytes);
    s->position_bytes = (ROWS_BLOCK + 16) * sizeof(uint32_t);
    s->positions = layout_add(bytes, workers * s->position_bytes);
}

static const struct knn_owner *owner_of(const struct knn_search *s, uint64_t query)
{
    return &s->owners[s->owner_of ? s->owner_of[query] : 0];
}

/* Where a query's candidates begin, relative to those of the very first query. */
static uint64_t entries_at(const struct knn_search *s, uint64_t query)
{
    const struct knn_owner *o = owner_of(s, query);
    return o->entries + (query - o->first_query) * o->entry_bytes;
}

/* first: the first query whose candidates the worker keeps now. */
static struct topk *top_of(const struct knn_search *s, const struct job *j, uint32_t worker,
                           uint64_t first, uint64_t query)
{
    return (struct topk *)scratch_at(j, s->tops + worker * s->top_bytes) + (query - first);
}

static void start_top(const struct knn_search *s, const struct job *j, uint32_t worker,
                      uint64_t first, uint64_t query)
{
    const struct knn_owner *o = owner_of(s, query);
    const struct job_request *r = &o->job->request;
    uint64_t at =
        s->entries + worker * s->entry_bytes + entries_at(s, query) - entries_at(s, first);
    topk_init(top_of(s, j, worker, first, query), scratch_at(j, at), o->k, s->lower_is_better,
              r->has_threshold ? &r->threshold : NULL);
}

bool knn_start(struct knn_search *s, struct job *j)
{
    if (s->grid.screened)
        memset(scratch_at(j, s->states), 0, j->worker_count * sizeof(struct screening_state));
    if (!grid_prepare(&s->grid, j)) return false;
    if (!s->nothing && !s->grid.rows.list) shadowing_begin(&s->shadowing, j);
    for (uint32_t worker = 0; !s->alone && !s->nothing && worker < j->worker_count; worker++)
        for (uint64_t query = 0; query < s->grid.query_count; query++) {
            if (query % CHECK_EVERY == 0) yield_check();
            start_top(s, j, worker, 0, query);
        }
    return true;
}

/* Sorts a query's candidates into its row of its owner's result. */
static void write_query(const struct knn_search *s, uint64_t query, struct topk *top)
{
    const struct knn_owner *o = owner_of(s, query);
    const struct tensor *out = o->job->result.tensors;
    uint64_t line = query - o->first_query;
    uint64_t *ids = (uint64_t *)out[0].data + line * o->k;
    float *scores = (float *)out[1].data + line * o->k;
    static const uint32_t no_score = 0x7fc00000;
    uint32_t count = topk_finish(top, ids, scores);
    for (uint32_t i = count; i < o->k; i++) {
        ids[i] = UINT64_MAX;
        memcpy(&scores[i], &no_score, sizeof no_score);
    }
    ((uint32_t *)out[2].data)[line] = count;
}

/* Several queries, with most rows ruled out by the screen. */
static void screen_part(struct knn_search *s, struct job *j, struct grid_part *p, uint32_t worker,
                        struct topk *tops, const uint64_t *const *allowed)
{
    struct screening_state *state = (struct screening_state *)scratch_at(j, s->states) + worker;
    struct screening_block b = {
        .queries = &p->queries,
        .tops = tops,
        .allowed = allowed,
        .scores = scratch_at(j, s->scores + worker * s->score_bytes),
    };
    for (;;) {
        b.first_row = p->first_row;
        b.rows = grid_block(&s->grid, j, p, &b.ids);
        if (b.rows.count == 0) return;
        screening_offer(&s->screening, state, &b);
    }
}

/* Most rows are ruled out by their codes in int8. */
static void shadow_part(struct knn_search *s, struct job *j, struct grid_part *p, uint32_t worker,
                        struct topk *tops, const uint64_t *const *allowed)
{
    uint64_t group = p->first_query / s->grid.group_queries;
    struct screening_block b = {
        .queries = &p->queries,
        .tops = tops,
        .allowed = allowed,
        .scores = scratch_at(j, s->scores + worker * s->score_bytes),
    };
    for (;;) {
        b.first_row = p->first_row;
        b.rows = grid_block(&s->grid, j, p, &b.ids);
        if (b.rows.count == 0) return;
        shadowing_offer(&s->shadowing, j, group, worker, &b);
    }
}

static void score_part(struct knn_search *s, struct job *j, struct grid_part *p, uint32_t worker,
                       struct topk *tops, const uint64_t *const *allowed)
{
    float *scores = scratch_at(j, s->scores + worker * s->score_bytes);
    uint32_t *positions = scratch_at(j, s->positions + worker * s->position_bytes);
    for (;;) {
        const uint64_t *ids;
        uint64_t row = p->first_row;
        size_t n = grid_score(&s->grid, j, p, scores, ROWS_BLOCK, &ids);
        if (n == 0) return;
        for (size_t q = 0; q < p->queries.count; q++)
            topk_offer(&tops[q], s->grid.rows.kernels, scores + q * ROWS_BLOCK, ids, n, allowed[q],
                       row, positions);
    }
}

void knn_part(struct knn_search *s, struct job *j, uint32_t part, uint32_t worker)
{
    struct grid_part p;
    if (!grid_part(&s->grid, j, part, worker, &p) || s->nothing) return;
    size_t queries = p.queries.count;
    uint64_t first = s->alone ? p.first_query : 0;
    const uint64_t *allowed[GRID_GROUP_MAX];
    for (size_t q = 0; q < queries; q++) {
        allowed[q] = owner_of(s, p.first_query + q)->allowed;
        if (s->alone) start_top(s, j, worker, first, first + q);
    }
    struct topk *tops = top_of(s, j, worker, first, p.first_query);
    if (s->shadowing.on)
        shadow_part(s, j, &p, worker, tops, allowed);
    else if (s->grid.screened && queries > 1)
        screen_part(s, j, &p, worker, tops, allowed);
    else
        score_part(s, j, &p, worker, tops, allowed);
    for (size_t q = 0; s->alone && q < queries; q++)
        write_query(s, first + q, tops + q);
}

void knn_end(struct knn_search *s, struct job *j)
{
    s->screen = shadowing_end(&s->shadowing, s->grid.query_count);
    if (s->nothing) knn_write_none(s->owners[0].job);
    if (s->nothing || s->alone) return;
    for (uint64_t query = 0; query < s->grid.query_count; query++) {
        if (query % CHECK_EVERY == 0) yield_check();
        if (is_cancelled(owner_of(s, query)->job)) continue;
        struct topk *top = top_of(s, j, 0, 0, query);
        for (uint32_t worker = 1; worker < j->worker_count; worker++)
            topk_merge(top, top_of(s, j, worker, 0, query));
        write_query(s, query, top);
    }
}
