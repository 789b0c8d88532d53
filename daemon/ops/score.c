/* score: each query against its own list of candidates, by id or inline. Parts are ranges of
 * candidates, whatever lists they belong to; when the k best are chosen, a part has the lists that
 * begin in its range. */
#include "daemon/base/yield.h"
#include "daemon/ops/work.h"
#include "daemon/ops/check.h"
#include "daemon/ops/grid.h"
#include "kernels/topk.h"

enum { PART_BYTES = 512 << 10, PART_ROWS_MIN = 32, GPU_SHORT_MAX = 512 };
/* Candidates in a part: some 0.2 ms if the index is large; some 0.1 ms. */
enum { FIND_PART = 4 << 10, CHOICE_PART = 32 << 10, CHECK_EVERY = 1 << 14 };

struct score_plan {
    struct row_source rows;
    enum metric metric;
    uint64_t query_count;
    const uint64_t *offsets; /* query_count + 1 of them; the request's, or `whole` */
    uint64_t whole[2];
    uint64_t part_rows;
    uint32_t k, columns;
    uint64_t buffers, buffer_bytes, sets, set_bytes; /* one for each worker */
    uint64_t scores;                                 /* with k: all of them */
    uint64_t ids;                                    /* with k, inline: positions */
    uint64_t entries, positions;                     /* with k: in one choice */
    uint64_t choices, choice_bytes;                  /* one for each worker, if it has parts */
    uint64_t rows_at;                                /* for the GPU: the row of each candidate */
    uint64_t longest;                                /* of the longest list */
    _Atomic uint64_t bad_query, bad_candidate;
};

static struct score_plan *score_of(struct job *j)
{
    return j->plan.scratch.data;
}

static bool by_id(const struct job *j)
{
    return is_present(&j->request.ids);
}

/* With k they lie in scratch, those of a GPU process where it may write. */
static float *scores_of(struct job *j, struct score_plan *w)
{
    if (!w->k) return j->result.tensors[RESULT_SCORE_SCORES].data;
    return j->plan.exchange.data ? exchange_at(j, 0) : scratch_at(j, w->scores);
}

static enum status take_result(struct job *j, struct score_plan *w)
{
    if (!w->k) {
        operation_shape(j, RESULT_SCORE_SCORES, DTYPE_FLOAT32, w->rows.count, 1);
        return operation_take_result(j, RESULT_SCORE_COUNTS);
    }
    w->columns = (uint32_t)smaller(w->k, w->longest);
    operation_shape(j, RESULT_SCORE_IDS, DTYPE_UINT64, w->query_count, w->columns);
    operation_shape(j, RESULT_SCORE_SCORES, DTYPE_FLOAT32, w->query_count, w->columns);
    operation_shape(j, RESULT_SCORE_COUNTS, DTYPE_UINT32, w->query_count, 1);
    return operation_take_result(j, RESULTS_ScoreCandidates);
}

/* Finds out how long the longest list is; no list that the loop did not check is followed
 * before. */
static enum status walk_lists(struct job *j, struct score_plan *w)
{
    const struct tensor *t = &j->request.offsets;
    enum status st =
        is_present(t) ? check_rising(j, "offsets", t, w->rows.count, "candidates") : STATUS_OK;
    for (uint64_t q = 0; q < w->query_count && !st; q++) {
        if (q % CHECK_EVERY == 0) yield_check();
        uint64_t length = w->offsets[q + 1] - w->offsets[q];
        if (length > w->longest) w->longest = length;
    }
    return st;
}

static enum status score_prepare(struct job *j)
{
    struct score_plan *w = score_of(j);
    enum status st = walk_lists(j, w);
    return st ? st : take_result(j, w);
}

/* Scores candidates [first, end), all of one query. */
static void score_ids(struct job *j, struct score_plan *w, const struct query_set *query,
                      uint64_t first, uint64_t end, struct rows_buffer *buffer, float *scores)
{
    const uint64_t *ids = j->request.ids.data;
    while (first < end) {
        uint32_t rows[FIND_BATCH];
        size_t n = (size_t)smaller(FIND_BATCH, end - first);
        if (collection_find_rows(j->collection, ids + first, n, rows) < n) {
            size_t i = 0;
            while (rows[i] != COLLECTION_NO_ROW)
                i++;
            note_smallest(&w->bad_candidate, first + i);
            return;
        }
        rows_gather(&w->rows, query, w->metric, rows, n, buffer, scores + first);
        first += n;
    }
}

static void score_inline(struct score_plan *w, const struct query_set *query, uint64_t first,
                         uint64_t end, struct rows_buffer *buffer, float *scores)
{
    while (first < end) {
        const uint64_t *ids;
        uint64_t bad = NO_ROW;
        size_t n = rows_score(&w->rows, query, w->metric, first, end - first, buffer,
                              scores + first, 0, &ids, &bad);
        if (bad != NO_ROW) {
            note_smallest(&w->bad_candidate, bad);
            return;
        }
        first += n;
    }
}

/* The first query whose list ends at or after `position`, even if that list is empty. */
static uint64_t first_query(const struct score_plan *w, uint64_t position)
{
    uint64_t low = 0, high = w->query_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (w->offsets[middle + 1] >= position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void score_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct score_plan *w = score_of(j);
    uint64_t begin = part * w->part_rows, end = smaller(begin + w->part_rows, w->rows.count);
    bool last = part + 1 == j->plan.parts;
    uint32_t d = w->rows.dimension;
    const float *queries = j->request.queries.data;
    void *set = scratch_at(j, w->sets + worker * w->set_bytes);
    struct rows_buffer buffer =
        rows_buffer_at(d, rows_want_copies(&w->rows, 1, true),
                       scratch_at(j, w->buffers + worker * w->buffer_bytes));
    float *scores = scores_of(j, w);
    uint64_t *positions = w->k && !by_id(j) ? scratch_at(j, w->ids) : NULL;
    for (uint64_t i = begin; positions && i < end; i++)
        positions[i] = i;

    /* Queries are checked here, those with an empty list in the part where the list would be. */
    for (uint64_t q = first_query(w, begin); q < w->query_count; q++) {
        uint64_t from = w->offsets[q], to = smaller(w->offsets[q + 1], end);
        if ((from >= end && !last) || is_cancelled(j)) break;
        if (from < begin) from = begin;
        yield_check();
        struct query_form form = {w->rows.kernels, d, false};
        struct query_set query;
        if (queries_build(&form, queries + q * d, 1, set, &query) != 1) {
            note_smallest(&w->bad_query, q);
            continue;
        }
        if (from >= to) continue;
        if (by_id(j))
            score_ids(j, w, &query, from, to, &buffer, scores);
        else
            score_inline(w, &query, from, to, &buffer, scores);
    }
}

static enum status refuse(struct job *j, struct score_plan *w)
{
    uint64_t query = atomic_load(&w->bad_query), candidate = atomic_load(&w->bad_candidate);
    uint32_t d = w->rows.dimension;
    if (query != NO_ROW)
        return operation_refuse_row(j, "query", query,
                                    (const float *)j->request.queries.data + query * d, d);
    if (candidate == NO_ROW) return STATUS_OK;
    if (!by_id(j))
        return operation_refuse_row(j, "row", candidate, w->rows.inline_rows + candidate * d, d);
    return failure_set(&j->failure, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID,
                       "there is no id %" PRIu64 " (candidate %" PRIu64 ")",
                       ((const uint64_t *)j->request.ids.data)[candidate], candidate);
}

/* Chooses the k best of one list. */
static void choose(struct job *j, struct score_plan *w, uint64_t query, char *choice)
{
    static const uint32_t no_score = 0x7fc00000;
    uint64_t first = w->offsets[query], count = w->offsets[query + 1] - first;
    const uint64_t *ids =
        by_id(j) ? (const uint64_t *)j->request.ids.data + first : scratch_at(j, w->ids);
    const float *scores = scores_of(j, w) + first;
    struct topk top;
    topk_init(&top, choice + w->entries, w->columns, metric_lower_is_better(w->metric), NULL);
    for (uint64_t i = 0; i < count; i += ROWS_BLOCK) {
        if (i % CHECK_EVERY == 0) yield_check();
        topk_offer(&top, j->kernels, scores + i, ids + i, (size_t)smaller(ROWS_BLOCK, count - i),
                   NULL, 0, (uint32_t *)(choice + w->positions));
    }
    uint64_t *ids_out = (uint64_t *)j->result.tensors[RESULT_SCORE_IDS].data + query * w->columns;
    float *scores_out = (float *)j->result.tensors[RESULT_SCORE_SCORES].data + query * w->columns;
    uint32_t kept = topk_finish(&top, ids_out, scores_out);
    ((uint32_t *)j->result.tensors[RESULT_SCORE_COUNTS].data)[query] = kept;
    for (; kept < w->columns; kept++) {
        ids_out[kept] = UINT64_MAX;
        memcpy(&scores_out[kept], &no_score, sizeof no_score);
    }
}

/* Chooses for the lists that begin in a range of candidates or, in the last part, behind all of
 * them. */
static void choose_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct score_plan *w = score_of(j);
    uint64_t begin = (uint64_t)part * CHOICE_PART, end = begin + CHOICE_PART;
    if (end >= w->rows.count) end = UINT64_MAX;
    uint64_t q = begin ? first_query(w, begin) + 1 : 0;
    for (; q < w->query_count && w->offsets[q] < end && !is_cancelled(j); q++)
        choose(j, w, q, scratch_at(j, w->choices + worker * w->choice_bytes));
}

static void choose_all(struct job *j)
{
    struct score_plan *w = score_of(j);
    if (!w->columns && w->query_count)
        memset(j->result.tensors[RESULT_SCORE_COUNTS].data, 0, w->query_count * sizeof(uint32_t));
    else if (w->columns && w->rows.count > CHOICE_PART)
        j->parts = (struct job_parts){choose_part, (uint32_t)pieces_of(w->rows.count, CHOICE_PART)};
    else if (w->columns)
        choose_part(j, 0, 0);
}

static void score_finish(struct job *j)
{
    struct score_plan *w = score_of(j);
    if (!j->failure.code) refuse(j, w);
    if (j->failure.code || is_cancelled(j)) {
        operation_drop_result(j);
        return;
    }
    if (w->k) choose_all(j);
}

static enum status check(struct job *j, struct score_plan *w)
{
    const struct job_request *r = &j->request;
    enum status st = operation_check_dimension(j, &r->queries, "queries", &w->rows.dimension);
    if (!st) st = operation_check_metric(j, &w->metric);
    if (!st && r->k > TOPK_K_MAX)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                         "k is 0 to %d, not %" PRIu32, TOPK_K_MAX, r->k);
    if (!st && by_id(j) != (j->collection != NULL))
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                         "candidates are ids of a collection, or inline rows without one");
    if (!st && !by_id(j) && is_present(&r->rows) && r->rows.columns != r->queries.columns)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                         "rows have %" PRIu64 " columns, queries %" PRIu64, r->rows.columns,
                         r->queries.columns);
    uint64_t offsets = is_present(&r->offsets) ? r->offsets.rows : 2;
    if (!st && offsets != r->queries.rows + 1)
        st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                         "%" PRIu64 " queries want %" PRIu64 " offsets", r->queries.rows,
                         r->queries.rows + 1);
    return st;
}

static void lay_out_choice(struct job *j, struct score_plan *w, bool scores, uint64_t *bytes)
{
    uint64_t n = w->rows.count;
    uint32_t k = (uint32_t)smaller(w->k, n);
    if (!w->k) return;
    w->scores = layout_add(bytes, scores ? n * sizeof(float) : 0);
    w->ids = layout_add(bytes, by_id(j) ? 0 : n * sizeof(uint64_t));
    w->entries = layout_add(&w->choice_bytes, k ? topk_bytes(k) : 0);
    w->positions = layout_add(&w->choice_bytes, (ROWS_BLOCK + 16) * sizeof(uint32_t));
    w->choices = layout_add(bytes, (n > CHOICE_PART ? j->worker_count : 1) * w->choice_bytes);
}

static uint64_t lay_out(struct job *j, struct score_plan *w)
{
    uint64_t bytes = 0, workers = j->worker_count;
    bool copies = rows_want_copies(&w->rows, 1, true);
    layout_add(&bytes, sizeof *w);
    struct query_form form = {j->kernels, w->rows.dimension, false};
    w->set_bytes = queries_bytes(&form, 1);
    w->sets = layout_add(&bytes, workers * w->set_bytes);
    w->buffer_bytes = rows_buffer_bytes(w->rows.dimension, copies);
    w->buffers = layout_add(&bytes, workers * w->buffer_bytes);
    lay_out_choice(j, w, true, &bytes);
    return bytes;
}

static enum status begin(struct job *j, struct score_plan *w)
{
    const struct job_request *r = &j->request;
    enum status st = check(j, w);
    if (st) return st;
    operation_note_collection(j);
    w->rows.kernels = j->kernels;
    w->rows.collection = j->collection;
    w->rows.inline_rows = by_id(j) ? NULL : r->rows.data;
    w->rows.count = by_id(j) ? r->ids.rows : r->rows.rows;
    w->query_count = r->queries.rows;
    w->k = r->k;
    atomic_init(&w->bad_query, NO_ROW);
    atomic_init(&w->bad_candidate, NO_ROW);
    return STATUS_OK;
}

/* Writes into scratch, which has been taken. */
static void keep(struct job *j, const struct score_plan *w)
{
    struct score_plan *kept = score_of(j);
    *kept = *w;
    kept->whole[1] = w->rows.count;
    kept->offsets = is_present(&j->request.offsets) ? j->request.offsets.data : kept->whole;
}

static enum status score_plan(struct job *j)
{
    struct score_plan w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    w.part_rows = PART_BYTES / (vector_stride(w.rows.dimension) * sizeof(float));
    if (w.part_rows < PART_ROWS_MIN) w.part_rows = PART_ROWS_MIN;

    st = operation_take_scratch(j, lay_out(j, &w));
    if (st) return operation_drop_all(j);
    keep(j, &w);
    j->plan.prepare = score_prepare;
    j->plan.run_part = score_part;
    j->plan.finish = score_finish;
    j->plan.parts = w.rows.count ? (uint32_t)pieces_of(w.rows.count, w.part_rows) : 1;
    return STATUS_OK;
}

/* ---- on the GPU process ---- */

static uint64_t score_gpu_pairs(const struct job *j)
{
    if (!j->request.queries.rows || by_id(j) != (j->collection != NULL)) return 0;
    return by_id(j) ? j->request.ids.rows : j->request.rows.rows;
}

static void find_part(struct job *j, uint32_t part, uint32_t worker)
{
    (void)worker;
    struct score_plan *w = score_of(j);
    uint64_t first = (uint64_t)part * FIND_PART;
    size_t n = (size_t)smaller(FIND_PART, w->rows.count - first);
    if (atomic_load_explicit(&w->bad_candidate, memory_order_relaxed) != NO_ROW) return;
    const uint64_t *ids = (const uint64_t *)j->request.ids.data + first;
    uint32_t *rows = (uint32_t *)scratch_at(j, w->rows_at) + first;
    if (collection_find_rows(j->collection, ids, n, rows) < n)
        note_smallest(&w->bad_candidate, first);
}

/* Called when all rows are found or came with the request, or one is unknown, or the job was
 * cancelled. */
static void score_gpu_order(struct job *j)
{
    struct score_plan *w = score_of(j);
    if (is_cancelled(j)) return;
    /* The CPU finds out which candidate is unknown, unless a query is invalid, too. */
    if (atomic_load(&w->bad_candidate) != NO_ROW || take_result(j, w)) {
        j->gpu.unfit = true;
        return;
    }
    uint64_t *positions = w->k && !by_id(j) ? scratch_at(j, w->ids) : NULL;
    for (uint64_t i = 0; positions && i < w->rows.count; i++)
        positions[i] = i;
    struct order_run *run = operation_gpu_order(j, RUN_LISTS, w->metric);
    if (by_id(j)) run->positions = operation_gpu_place(j, scratch_at(j, w->rows_at));
    run->list_count = w->rows.count;
    run->offsets = operation_gpu_place(j, w->offsets);
    run->out_scores = operation_gpu_place(j, scores_of(j, w));
}

static enum status score_gpu_prepare(struct job *j)
{
    struct score_plan *w = score_of(j);
    enum status st = walk_lists(j, w);
    if (st) return st;
    j->step = score_gpu_order;
    if (!by_id(j)) return STATUS_OK;
    j->parts = (struct job_parts){find_part, (uint32_t)pieces_of(w->rows.count, FIND_PART)};
    return STATUS_OK;
}

static enum status score_gpu_plan(struct job *j)
{
    struct score_plan w = {0};
    enum status st = begin(j, &w);
    if (st) return st;
    uint64_t bytes = 0;
    layout_add(&bytes, sizeof w);
    lay_out_choice(j, &w, false, &bytes);
    w.rows_at = layout_add(&bytes, by_id(j) ? w.rows.count * sizeof(uint32_t) : 0);
    st = operation_take_own(j, bytes);
    if (!st) st = operation_take_exchange(j, w.k ? w.rows.count * sizeof(float) : 0);
    if (st) return operation_drop_all(j);
    keep(j, &w);
    /* Lists are walked, too, and most of them may be empty. */
    bool is_long = w.rows.count > GPU_SHORT_MAX || w.query_count > GPU_SHORT_MAX;
    j->gpu.prepare = score_gpu_prepare;
    j->gpu.prepare_is_long = is_long;
    j->gpu.finish = w.k ? choose_all : NULL;
    j->gpu.finish_is_long = is_long;
    return STATUS_OK;
}

static enum status score_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = check_ids_or_rows(j);
    if (!st) st = check_same_columns(j);
    if (!st) st = check_metric(j, check_inline(j));
    if (!st) st = check_k(j, 0);
    return st ? st : check_offsets(j, check_inline(j) ? q->rows.rows : q->ids.rows);
}

static void score_work(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    w->listed = true;
    w->queries = r->queries.rows;
    w->rows = w->pairs = is_present(&r->ids) ? r->ids.rows : r->rows.rows;
    w->k = r->k;
    w->bytes_out = r->k ? work_best_bytes(j, w->rows) : work_times(w->pairs, sizeof(float));
}

const struct operation_ops operation_score_candidates = {
    .check = score_check,
    .work = score_work,
    .plan = score_plan,
    .gpu_plan = score_gpu_plan,
    .gpu_pairs = score_gpu_pairs,
};
