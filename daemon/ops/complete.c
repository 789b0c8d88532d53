/* complete: pattern completion by the modern rule (kernels/complete.h), in groups of states that
 * share the reading of the rows. A round is three plans that follow each other: the scores of all
 * rows, the weighted sums of blocks of rows, and what becomes of each state. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/check.h"
#include "daemon/ops/complete_inside.h"
#include "daemon/ops/work.h"
#include "kernels/superpose.h"

/* ---------------------------------------------------------------- scores */

/* Rows that are scored or added before others may run: some tenths of a millisecond. */
static size_t rows_at_once(const struct complete_job *w, uint64_t first, uint64_t end)
{
    enum { PRODUCTS = 1 << 23 };
    size_t segment = collection_segment_rows(w->collection);
    uint64_t rows = PRODUCTS / (w->stride * w->active_count) / COMPLETE_RUN * COMPLETE_RUN;
    if (rows < COMPLETE_RUN) rows = COMPLETE_RUN;
    return (size_t)smaller(smaller(rows, segment - first % segment), end - first);
}

static void take_best(struct complete_job *w, struct complete_best *best, uint64_t first,
                      const float *scores, size_t count, float largest)
{
    if (best->found && largest < best->score) return;
    if (!best->found || largest > best->score) best->id = UINT64_MAX;
    best->score = largest, best->found = true;
    for (size_t i = 0; i < count; i++) {
        if (scores[i] != largest) continue;
        uint64_t id = collection_id(w->collection, (uint32_t)(first + i));
        if (id <= best->id) best->id = id, best->row = (uint32_t)(first + i);
    }
}

static void score_rows(struct complete_job *w, uint64_t first, size_t count,
                       struct complete_best *best)
{
    struct row_block block = collection_block(w->collection, first, count, NULL);
    float *scores = w->scores + first;
    if (w->active_count == 1)
        w->vectors->scan(METRIC_DOT, w->dimension, w->lined, 0.0f, block, scores);
    else
        w->vectors->tile(METRIC_DOT, w->dimension, &w->pack, block, scores, w->scores_stride);
    for (uint32_t q = 0; q < w->active_count; q++) {
        float *line = scores + q * w->scores_stride;
        float largest = w->kernels->score(w->unit ? block.norms : NULL, count, line);
        take_best(w, &best[q], first, line, count, largest);
    }
}

static float largest_norm(const struct complete_job *w, uint64_t first, size_t count, float largest)
{
    const float *norms = collection_block(w->collection, first, count, NULL).norms;
    for (size_t i = 0; i < count; i++) {
        float norm = w->unit ? (norms[i] == 0.0f ? 0.0f : 1.0f) : norms[i];
        largest = norm > largest ? norm : largest;
    }
    return largest;
}

static void score_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct complete_job *w = complete_of(j);
    uint64_t first = part * w->part_rows, end = smaller(first + w->part_rows, w->rows);
    struct complete_best *best = w->bests + worker * w->group_states;
    while (first < end && !is_cancelled(j)) {
        size_t count = rows_at_once(w, first, end);
        yield_check();
        if (w->first_round) w->norms[worker] = largest_norm(w, first, count, w->norms[worker]);
        score_rows(w, first, count, best);
        first += count;
    }
}

/* ---------------------------------------------------------------- sums */

/* Turns a block's scores into shares. */
static void weigh_block(struct complete_job *w, uint64_t block, uint64_t first, size_t count)
{
    float norms[COMPLETE_BLOCK];
    for (size_t at = 0; w->unit && at < count;) {
        size_t segment = collection_segment_rows(w->collection);
        size_t some = (size_t)smaller(count - at, segment - (first + at) % segment);
        struct row_block rows = collection_block(w->collection, first + at, some, NULL);
        memcpy(norms + at, rows.norms, some * sizeof *norms);
        at += some;
    }
    for (uint32_t q = 0; q < w->active_count; q++)
        w->totals[q * w->blocks + block] =
            w->kernels->weigh(w->unit ? norms : NULL, count, w->best[q].score, w->beta,
                              w->scores + q * w->scores_stride + first);
}

static void sum_block(struct job *j, struct complete_job *w, uint64_t block)
{
    uint64_t first = block * COMPLETE_BLOCK, end = smaller(first + COMPLETE_BLOCK, w->rows);
    float *sums = w->sums + block * w->stride;
    yield_check();
    weigh_block(w, block, first, (size_t)(end - first));
    for (uint32_t q = 0; q < w->active_count; q++)
        memset(sums + q * w->blocks * w->stride, 0, w->stride * sizeof *sums);
    while (first < end && !is_cancelled(j)) {
        size_t count = rows_at_once(w, first, end);
        struct row_block rows = collection_block(w->collection, first, count, NULL);
        const struct complete_shares shares = {w->scores + first, w->scores_stride,
                                               w->active_count};
        yield_check();
        w->kernels->add(w->dimension, rows.rows, count, &shares, sums, w->blocks * w->stride);
        first += count;
    }
}

static void sum_part(struct job *j, uint32_t part, uint32_t worker)
{
    (void)worker;
    struct complete_job *w = complete_of(j);
    uint64_t per_part = w->part_rows / COMPLETE_BLOCK, block = part * per_part;
    uint64_t end = smaller(block + per_part, w->blocks);
    for (; block < end && !is_cancelled(j); block++)
        sum_block(j, w, block);
}

/* ---------------------------------------------------------------- states */

/* Folds the sums of all blocks into the first, in pieces of a power of two, between which others
 * may run. */
static void fold_sums(const struct complete_job *w, float *sums)
{
    enum { PIECE = 64 };
    const struct superpose_kernels *superpose = superpose_choose(w->vectors->name);
    for (uint64_t count = w->blocks; count > 1; count = pieces_of(count, PIECE)) {
        for (uint64_t i = 0; i < count; i += PIECE) {
            yield_check();
            superpose->fold(w->dimension, sums + i * w->stride, (size_t)smaller(PIECE, count - i));
            if (i)
                memcpy(sums + i / PIECE * w->stride, sums + i * w->stride,
                       w->stride * sizeof *sums);
        }
    }
}

static float norm_of(const struct complete_job *w, const float *row)
{
    float norm;
    w->vectors->norms(w->dimension, row, 1, &norm);
    return norm;
}

/* Writes what is replied of a state that is done. */
static void write_state(struct job *j, const struct complete_job *w, uint32_t q, const float *state)
{
    uint64_t line = w->group_first + w->active[q];
    struct tensor *out = j->result.tensors;
    const float *row = collection_row(w->collection, w->best[q].row);
    float norm = collection_norm(w->collection, w->best[q].row);
    struct row_block best = {row, &norm, 1};
    w->vectors->scan(METRIC_COSINE, w->dimension, state, norm_of(w, state), best,
                     (float *)out[RESULT_COMPLETE_COSINES].data + line);
    ((uint64_t *)out[RESULT_COMPLETE_IDS].data)[line] = w->best[q].id;
    memcpy((float *)out[RESULT_COMPLETE_STATES].data + line * w->dimension, state,
           w->dimension * sizeof *state);
}

static void settle_part(struct job *j, uint32_t q, uint32_t worker)
{
    struct complete_job *w = complete_of(j);
    uint64_t line = w->group_first + w->active[q];
    struct tensor *out = j->result.tensors;
    float *state = w->lined + q * w->stride, *moved = w->moved + worker * w->stride;
    float *sums = w->sums + q * w->blocks * w->stride;
    double *totals = w->totals + q * w->blocks;
    float norm = norm_of(w, state);
    fold_sums(w, sums);
    complete_fold_totals(totals, (size_t)w->blocks);
    memset(moved, 0, w->stride * sizeof *moved);
    w->kernels->settle(w->dimension, sums, totals[0], operation_mask(j, line),
                       (const float *)j->request.queries.data + line * w->dimension, state, moved);
    bool still = norm_of(w, moved) < COMPLETE_STILL;
    uint32_t rounds = ++((uint32_t *)out[RESULT_COMPLETE_ROUNDS].data)[line];
    ((uint8_t *)out[RESULT_COMPLETE_CONVERGED].data)[line] = still;
    ((float *)out[RESULT_COMPLETE_ENERGIES].data)[line] =
        complete_energy(norm, w->largest_norm, w->best[q].score, totals[0], w->rows, w->beta);
    w->done[q] = still || rounds == j->request.rounds;
    if (w->done[q]) write_state(j, w, q, state);
}

/* ---------------------------------------------------------------- rounds */

static void begin_scores(struct job *j, struct complete_job *w)
{
    for (uint32_t i = 0; i < j->worker_count * w->group_states; i++)
        w->bests[i].found = false;
    if (w->active_count > 1) w->vectors->pack(w->dimension, w->lined, w->active_count, w->packed);
    w->pack = (struct query_pack){w->packed, NULL, w->active_count};
    j->plan.run_part = score_part;
    j->plan.parts = (uint32_t)pieces_of(w->rows, w->part_rows);
    w->stage = COMPLETE_SCORES;
}

/* The best of all workers; the same however the rows were shared out. */
static void begin_sums(struct job *j, struct complete_job *w)
{
    for (uint32_t q = 0; q < w->active_count; q++) {
        struct complete_best *best = &w->best[q];
        best->found = false;
        for (uint32_t worker = 0; worker < j->worker_count; worker++) {
            const struct complete_best *b = &w->bests[worker * w->group_states + q];
            if (!b->found || (best->found && b->score < best->score)) continue;
            if (!best->found || b->score > best->score || b->id < best->id) *best = *b;
        }
    }
    for (uint32_t worker = 0; w->first_round && worker < j->worker_count; worker++)
        if (w->norms[worker] > w->largest_norm) w->largest_norm = w->norms[worker];
    w->first_round = false;
    j->plan.run_part = sum_part;
    j->plan.parts = (uint32_t)pieces_of(w->rows, w->part_rows);
    w->stage = COMPLETE_SUMS;
}

static void begin_states(struct job *j, struct complete_job *w)
{
    j->plan.run_part = settle_part;
    j->plan.parts = w->active_count;
    w->stage = COMPLETE_STATES;
}

/* The states of the next group as they begin. Returns whether there is one. */
static bool begin_group(struct job *j, struct complete_job *w)
{
    const float *cues = j->request.queries.data;
    w->group_first += w->group_count;
    w->group_count = (uint32_t)smaller(w->group_states, w->states - w->group_first);
    w->active_count = w->group_count;
    for (uint32_t q = 0; q < w->group_count; q++) {
        uint64_t line = w->group_first + q;
        const uint8_t *known = operation_mask(j, line);
        float *state = w->lined + q * w->stride;
        vectors_pad(w->dimension, cues + line * w->dimension, 1, state);
        for (uint32_t c = 0; known && c < w->dimension; c++)
            if (!known[c]) state[c] = 0.0f;
        ((uint32_t *)j->result.tensors[RESULT_COMPLETE_ROUNDS].data)[line] = 0;
        w->active[q] = q;
    }
    return w->group_count > 0;
}

/* Moves the states that go on together. Returns whether there are any. */
static bool keep_active(struct complete_job *w)
{
    uint32_t kept = 0;
    for (uint32_t q = 0; q < w->active_count; q++) {
        if (w->done[q]) continue;
        w->active[kept] = w->active[q];
        if (kept < q)
            memcpy(w->lined + kept * w->stride, w->lined + q * w->stride,
                   w->stride * sizeof *w->lined);
        kept++;
    }
    w->active_count = kept;
    return kept > 0;
}

static void finish(struct job *j)
{
    struct complete_job *w = complete_of(j);
    if (j->failure.code || is_cancelled(j) || atomic_load(&j->skipped)) {
        operation_drop_result(j);
        return;
    }
    switch (w->stage) {
    case COMPLETE_SCORES: begin_sums(j, w); break;
    case COMPLETE_SUMS: begin_states(j, w); break;
    case COMPLETE_STATES:
        if (!keep_active(w) && !begin_group(j, w)) return;
        begin_scores(j, w);
        break;
    }
    j->plan.prepare = NULL;
    j->step = steps_begin_next_plan;
}

/* ---------------------------------------------------------------- the plan */

static void nothing(struct job *j, uint32_t part, uint32_t worker)
{
    (void)j, (void)part, (void)worker;
}

/* Returns cues from `first` on, with 0 for what is not known. */
static const float *known_cues(const struct job *j, const struct complete_job *w, uint64_t first,
                               size_t count)
{
    const float *cues = (const float *)j->request.queries.data + first * w->dimension;
    if (!is_present(&j->request.mask)) return cues;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *known = operation_mask(j, first + i);
        for (uint32_t c = 0; c < w->dimension; c++)
            w->masked[i * w->dimension + c] = known[c] ? cues[i * w->dimension + c] : 0.0f;
    }
    return w->masked;
}

static enum status check_cues(struct job *j, const struct complete_job *w)
{
    for (uint64_t first = 0; first < w->states; first += COMPLETE_CHECKED) {
        size_t count = (size_t)smaller(COMPLETE_CHECKED, w->states - first);
        yield_check();
        const float *cues = known_cues(j, w, first, count);
        size_t bad = queries_find_bad(w->vectors, w->dimension, cues, count, w->checked);
        if (bad < count)
            return operation_refuse_row(j, "state", first + bad, cues + bad * w->dimension,
                                        w->dimension);
    }
    return STATUS_OK;
}

static enum status prepare(struct job *j)
{
    struct complete_job *w = complete_of(j);
    if (check_cues(j, w)) return j->failure.code;
    w->first_round = true;
    for (uint32_t worker = 0; worker < j->worker_count; worker++)
        w->norms[worker] = 0.0f;
    if (begin_group(j, w)) {
        begin_scores(j, w);
        return STATUS_OK;
    }
    w->stage = COMPLETE_STATES;
    j->plan.run_part = nothing;
    j->plan.parts = 1;
    return STATUS_OK;
}

static enum status complete_plan(struct job *j)
{
    struct complete_job w = {0};
    enum status st = complete_check(j, &w);
    if (st) return st;
    operation_note_collection(j);
    complete_shape(j, &w);
    st = operation_take_result(j, RESULTS_Complete);
    if (!st) st = operation_take_scratch(j, complete_layout(j, &w));
    if (st) return operation_drop_all(j);
    *complete_of(j) = w;
    complete_place(j);
    j->plan.prepare = prepare;
    j->plan.run_part = score_part;
    j->plan.finish = finish;
    j->plan.parts = 1;
    return STATUS_OK;
}

const struct operation_ops operation_complete = {.check = complete_check_request,
                                                 .work = complete_work,
                                                 .plan = complete_plan,
                                                 .gpu_plan = complete_gpu_plan,
                                                 .gpu_pairs = complete_gpu_pairs};
