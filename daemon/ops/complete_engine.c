/* complete_engine: completion by an attractor (kernels/attractor.h), in three plans that follow
 * each other: sums of the cues with the rows of the dentate matrix, a wave of cues at a time, so
 * that scratch does not grow with them; CA3 for each cue of the wave, and so on with the next wave;
 * and last the nearest stored row of each state, if a collection is named. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/complete_engine_inside.h"
#include "daemon/ops/grid.h"
#include "daemon/ops/work.h"

/* A part of the dentate's sums is so many products, some tenths of a millisecond; compensated ones
 * take eight times as long. A part of CA3 is so many numbers of states. */
enum { GROUP_QUERIES = 64, WAVE_QUERIES = 256, RANGE_ROWS_MIN = 24, RANGES_A_WORKER = 6 };
enum { PART_PRODUCTS = 12 << 20, COMPENSATED_TIMES = 8, SETTLE_NUMBERS = 4096 };
#define BEST_BYTES_MAX (UINT64_C(16) << 20)

struct nearest {
    uint64_t id;
    float cosine;
};

struct completing {
    const struct attractor_kernels *kernels;
    const struct vector_kernels *vectors;
    uint32_t dimension, kept;
    const float *columns, *dentate;
    uint64_t count; /* of cues */

    uint64_t wave_queries, first, wave; /* the wave: its first cue, how many */
    uint64_t groups, ranges, range_rows;
    struct query_set *set_of;               /* of each group */
    uint64_t masked, sets, set_bytes, sums; /* in scratch */
    uint64_t workers, worker_bytes;         /* CA3's, one for each worker */

    bool compares;
    struct grid grid; /* states and stored rows */
    bool best_is_shared;
    uint64_t best, scores, score_bytes; /* in scratch */
};

static struct completing *state_of(const struct job *j)
{
    return j->plan.scratch.data;
}

static uint64_t rows_of(const struct completing *w)
{
    return (uint64_t)ATTRACTOR_SPREAD * w->dimension;
}

/* The next plan, in the same scratch. */
static void follow(struct job *j, enum status (*prepare)(struct job *),
                   void (*run)(struct job *, uint32_t, uint32_t), void (*finish)(struct job *),
                   uint64_t parts)
{
    j->plan = (struct job_plan){
        .scratch = j->plan.scratch,
        .before = j->plan.before,
        .prepare = prepare,
        .run_part = run,
        .finish = finish,
        .parts = (uint32_t)parts,
    };
    j->step = steps_begin_next_plan;
}

static bool is_over(struct job *j)
{
    if (!j->failure.code && !is_cancelled(j)) return false;
    operation_drop_result(j);
    return true;
}

/* ---------------------------------------------------------------- the dentate's sums */

/* Copies cue i, unknown numbers as 0. */
static enum status mask_cue(struct job *j, const struct completing *w, uint64_t i, float *to)
{
    const struct tensor *cues = &j->request.queries, *mask = &j->request.mask;
    uint32_t d = w->dimension, known = 0;
    const float *cue = (const float *)cues->data + i * d;
    if (!is_present(mask)) {
        memcpy(to, cue, d * sizeof *to);
        return STATUS_OK;
    }
    uint64_t line = mask->rows == 1 ? 0 : i;
    const uint8_t *flags = (const uint8_t *)mask->data + line * d;
    for (uint32_t k = 0; k < d; k++) {
        known += flags[k] != 0;
        to[k] = flags[k] ? cue[k] : 0.0f;
    }
    if (known >= attractor_known_least(d)) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_TOO_FEW_KNOWN,
                       "cue %" PRIu64 ": %" PRIu32 " numbers are known, at least %" PRIu32
                       " wanted",
                       i, known, attractor_known_least(d));
}

static enum status sums_prepare(struct job *j)
{
    struct completing *w = state_of(j);
    float *masked = scratch_at(j, w->masked);
    struct query_form form = {w->vectors, w->dimension, false};
    for (uint64_t i = 0; i < w->wave; i++) {
        if (i % 16 == 0) yield_check();
        if (mask_cue(j, w, w->first + i, masked + i * w->dimension)) return j->failure.code;
    }
    for (uint64_t g = 0; g < w->groups; g++) {
        uint64_t first = g * GROUP_QUERIES;
        size_t count = (size_t)smaller(GROUP_QUERIES, w->wave - first);
        const float *rows = masked + first * w->dimension;
        yield_check();
        size_t bad = queries_build(&form, rows, count, scratch_at(j, w->sets + g * w->set_bytes),
                                   &w->set_of[g]);
        if (bad < count)
            return operation_refuse_row(j, "cue", w->first + first + bad, rows + bad * w->dimension,
                                        w->dimension);
    }
    return STATUS_OK;
}

/* The columns outside of which a padded cue is 0, in steps of the 32 partials of a sum. */
struct known_run {
    uint32_t first, count;
};

static struct known_run known_run_of(const struct completing *w, const float *cue)
{
    uint32_t stride = (uint32_t)vector_stride(w->dimension), first = 0, end = stride;
    while (first < end && cue[first] == 0.0f)
        first++;
    while (end > first && cue[end - 1] == 0.0f)
        end--;
    first -= first % VECTOR_LANES;
    return (struct known_run){first, (uint32_t)vector_stride(end - first)};
}

/* What is 0 adds nothing to a sum, but for the sign of a zero, which nobody sees. So one cue, which
 * waits for the matrix, reads of its rows what may not be 0; whether sums are compensated must not
 * change by that. */
static void sums_of_one(const struct completing *w, const struct query_set *q,
                        struct row_block block, float *sums)
{
    enum { AT_ONCE = 64 };
    size_t stride = vector_stride(w->dimension);
    struct known_run known = known_run_of(w, q->rows);
    bool same = w->dimension <= VECTOR_COMPENSATED_ABOVE || known.count > VECTOR_COMPENSATED_ABOVE;
    if (!same || known.count == 0 || known.count >= stride) {
        w->vectors->scan(METRIC_DOT, w->dimension, q->rows, q->norms[0], block, sums);
        return;
    }
    for (size_t done = 0; done < block.count; done += AT_ONCE) {
        const float *rows[AT_ONCE];
        size_t n = (size_t)smaller(AT_ONCE, block.count - done);
        for (size_t i = 0; i < n; i++)
            rows[i] = block.rows + (done + i) * stride + known.first;
        w->vectors->gather(METRIC_DOT, known.count, q->rows + known.first, q->norms[0], rows, NULL,
                           n, sums + done);
    }
}

static void sums_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct completing *w = state_of(j);
    uint64_t group = part % w->groups, row = part / w->groups * w->range_rows;
    const struct query_set *q = &w->set_of[group];
    struct row_block block = {.rows = w->dentate + row * vector_stride(w->dimension),
                              .count = (size_t)smaller(w->range_rows, rows_of(w) - row)};
    float *sums = scratch_at(j, w->sums);
    sums += group * GROUP_QUERIES * rows_of(w) + row;
    yield_check();
    if (q->count == 1)
        sums_of_one(w, q, block, sums);
    else
        w->vectors->tile(METRIC_DOT, w->dimension, &q->pack, block, sums, (size_t)rows_of(w));
}

/* ---------------------------------------------------------------- CA3 */

static uint64_t settle_queries(const struct completing *w)
{
    uint64_t queries = SETTLE_NUMBERS / w->dimension;
    return queries ? queries : 1;
}

static void settle_cue(struct job *j, const struct completing *w, uint64_t i, char *memory)
{
    const struct tensor *out = j->result.tensors;
    uint64_t line = w->first + i;
    uint32_t d = w->dimension;
    float *state = (float *)(void *)memory;
    uint32_t *keys = (uint32_t *)(void *)(state + vector_stride(d));
    void *scratch =
        memory + vector_stride(d) * sizeof *state + pieces_of(rows_of(w) * sizeof *keys, 64) * 64;
    attractor_separate(d, (float *)scratch_at(j, w->sums) + i * rows_of(w), keys, state);
    const struct attractor_ca3 a = {w->kernels, w->vectors, d, w->kept, w->columns, scratch};
    struct attractor_outcome o = {0};
    yield_check();
    /* a round of a dense state reads all weights, which takes more than a millisecond */
    while (attractor_round(&a, state, &o) && !is_cancelled(j))
        yield_check();
    memcpy((float *)out[RESULT_ENGINE_STATES].data + line * d, state, d * sizeof *state);
    engine_give_rounds(j, line, o.rounds, o.converged);
}

static void settle_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct completing *w = state_of(j);
    uint64_t each = settle_queries(w), first = part * each, end = smaller(first + each, w->wave);
    for (uint64_t i = first; i < end && !is_cancelled(j); i++) {
        yield_check();
        settle_cue(j, w, i, scratch_at(j, w->workers + worker * w->worker_bytes));
    }
}

/* ---------------------------------------------------------------- the nearest stored row */

static struct nearest *best_of(const struct job *j, const struct completing *w, uint32_t worker)
{
    struct nearest *best = scratch_at(j, w->best);
    return w->best_is_shared ? best : best + worker * w->count;
}

static enum status nearest_prepare(struct job *j)
{
    struct completing *w = state_of(j);
    uint32_t lines = w->best_is_shared ? 1 : j->worker_count;
    for (uint64_t i = 0; i < lines * w->count; i++) {
        if (i % 4096 == 0) yield_check();
        best_of(j, w, 0)[i] = (struct nearest){UINT64_MAX, -INFINITY};
    }
    grid_prepare(&w->grid, j); /* states are finite, so none is refused */
    return STATUS_OK;
}

static void take_better(struct nearest *best, float cosine, uint64_t id)
{
    if (cosine > best->cosine || (cosine == best->cosine && id < best->id))
        *best = (struct nearest){id, cosine};
}

static void nearest_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct completing *w = state_of(j);
    struct grid_part p;
    if (!grid_part(&w->grid, j, part, worker, &p)) return;
    float *scores = scratch_at(j, w->scores + worker * w->score_bytes);
    struct nearest *best = best_of(j, w, worker) + p.first_query;
    const uint64_t *ids;
    for (size_t n; (n = grid_score(&w->grid, j, &p, scores, ROWS_BLOCK, &ids));)
        for (size_t q = 0; q < p.queries.count; q++)
            for (size_t i = 0; i < n; i++)
                take_better(&best[q], scores[q * ROWS_BLOCK + i], ids[i]);
}

static void nearest_finish(struct job *j)
{
    struct completing *w = state_of(j);
    if (is_over(j)) return;
    for (uint64_t i = 0; i < w->count; i++) {
        if (i % 4096 == 0) yield_check();
        struct nearest best = best_of(j, w, 0)[i];
        for (uint32_t worker = 1; worker < j->worker_count && !w->best_is_shared; worker++) {
            struct nearest other = best_of(j, w, worker)[i];
            take_better(&best, other.cosine, other.id);
        }
        engine_give_nearest(j, i, best.id, best.cosine == -INFINITY ? NAN : best.cosine);
    }
}

/* ---------------------------------------------------------------- from wave to wave */

static void sums_finish(struct job *j);

static void begin_wave(struct completing *w, uint64_t first)
{
    w->first = first;
    w->wave = smaller(w->wave_queries, w->count - first);
    w->groups = pieces_of(w->wave, GROUP_QUERIES);
}

static void settle_finish(struct job *j)
{
    struct completing *w = state_of(j);
    if (is_over(j)) return;
    uint64_t next = w->first + w->wave;
    if (next < w->count) {
        begin_wave(w, next);
        follow(j, sums_prepare, sums_part, sums_finish, w->groups * w->ranges);
    } else if (w->compares) {
        follow(j, nearest_prepare, nearest_part, nearest_finish, grid_parts(&w->grid));
    }
}

static void sums_finish(struct job *j)
{
    struct completing *w = state_of(j);
    if (is_over(j)) return;
    follow(j, NULL, settle_part, settle_finish, pieces_of(w->wave, settle_queries(w)));
}

/* ---------------------------------------------------------------- the plan */

/* Ranges are as long as a part may last, but there are some for every worker. */
static void cut(struct completing *w, uint32_t workers)
{
    uint64_t queries = smaller(GROUP_QUERIES, w->wave_queries);
    uint64_t products = PART_PRODUCTS;
    if (w->dimension > VECTOR_COMPENSATED_ABOVE) products /= COMPENSATED_TIMES;
    uint64_t groups = pieces_of(w->wave_queries, GROUP_QUERIES);
    uint64_t wanted = pieces_of((uint64_t)workers * RANGES_A_WORKER, groups);
    w->range_rows = smaller(products / (queries * w->dimension), pieces_of(rows_of(w), wanted));
    if (w->range_rows < RANGE_ROWS_MIN) w->range_rows = RANGE_ROWS_MIN;
    w->ranges = pieces_of(rows_of(w), w->range_rows);
}

static void layout_nearest(struct job *j, struct completing *w, uint64_t *bytes)
{
    uint64_t all = work_times(w->count, j->worker_count * sizeof(struct nearest));
    struct grid *g = &w->grid;
    w->best_is_shared = all > BEST_BYTES_MAX;
    g->metric = METRIC_COSINE;
    g->rows = (struct row_source){.kernels = w->vectors,
                                  .collection = j->objects[1].collection,
                                  .dimension = w->dimension,
                                  .count = collection_rows(j->objects[1].collection)};
    g->queries = j->result.tensors[RESULT_ENGINE_STATES].data;
    g->query_count = w->count;
    grid_cut(g, j->worker_count, w->best_is_shared, false);
    grid_layout(g, j->worker_count, bytes);
    w->score_bytes = g->group_queries * ROWS_BLOCK * sizeof(float);
    w->scores = layout_add(bytes, j->worker_count * w->score_bytes);
    w->best = layout_add(bytes, w->best_is_shared ? w->count * sizeof(struct nearest) : all);
}

static enum status take_memory(struct job *j, struct completing *w)
{
    uint64_t bytes = 0, set_of;
    uint32_t d = w->dimension;
    struct query_form form = {w->vectors, d, false};
    uint64_t groups = pieces_of(w->wave_queries, GROUP_QUERIES);
    layout_add(&bytes, sizeof *w);
    set_of = layout_add(&bytes, groups * sizeof *w->set_of);
    w->masked = layout_add(&bytes, w->wave_queries * d * sizeof(float));
    w->set_bytes = queries_bytes(&form, (size_t)smaller(GROUP_QUERIES, w->wave_queries));
    w->sets = layout_add(&bytes, groups * w->set_bytes);
    w->sums = layout_add(&bytes, w->wave_queries * rows_of(w) * sizeof(float));
    w->worker_bytes = vector_stride(d) * sizeof(float) +
                      pieces_of(rows_of(w) * sizeof(uint32_t), 64) * 64 + attractor_settle_bytes(d);
    w->workers = layout_add(&bytes, j->worker_count * w->worker_bytes);
    enum status st = engine_take_result(j, w->dimension);
    if (!st && w->compares) layout_nearest(j, w, &bytes);
    if (!st) st = operation_take_scratch(j, bytes);
    if (!st) w->set_of = scratch_at(j, set_of);
    return st;
}

static void nothing_part(struct job *j, uint32_t part, uint32_t worker) {}

static enum status complete_plan(struct job *j)
{
    uint64_t least = (uint64_t)WAVE_QUERIES, count = j->request.queries.rows;
    uint64_t wave = j->worker_count * (uint64_t)GROUP_QUERIES;
    struct completing w = {
        .kernels = attractor_choose(j->kernels->name),
        .vectors = j->kernels,
        .dimension = attractor_dimension(j->attractor),
        .kept = attractor_kept_values(j->attractor),
        .columns = attractor_columns(j->attractor),
        .dentate = attractor_dentate_rows(j->attractor),
        .count = count,
        .wave_queries = smaller(wave > least ? wave : least, count),
        .compares = j->objects[1].collection != NULL,
    };
    enum status st = engine_check_dimensions(j, w.dimension);
    if (st) return st;
    operation_note_objects(j);
    if (count) cut(&w, j->worker_count);
    st = count ? take_memory(j, &w) : engine_take_result(j, w.dimension);
    if (st) return operation_drop_all(j);
    j->plan.parts = 1;
    j->plan.run_part = nothing_part;
    if (!count) return STATUS_OK;
    begin_wave(&w, 0);
    *state_of(j) = w;
    j->plan.prepare = sums_prepare;
    j->plan.run_part = sums_part;
    j->plan.finish = sums_finish;
    j->plan.parts = (uint32_t)(w.groups * w.ranges);
    return STATUS_OK;
}

static enum status complete_check(struct job *j)
{
    const struct tensor *cues = &j->request.queries, *mask = &j->request.mask;
    if (!is_present(mask)) return STATUS_OK;
    if (mask->columns == cues->columns && (mask->rows == 1 || mask->rows == cues->rows))
        return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MASK,
                       "mask: %" PRIu64 " x %" PRIu64 ", not 1 x %" PRIu64 " or %" PRIu64
                       " x %" PRIu64,
                       mask->rows, mask->columns, cues->columns, cues->rows, cues->columns);
}

/* CA3 reads some columns of the weights, as much as about all of them once. Compensated sums are
 * counted as so many plain ones. */
static void complete_work(const struct job *j, struct work *w)
{
    const struct edition *c = j->objects[1].collection;
    uint64_t d = j->request.queries.columns;
    w->queries = j->request.queries.rows;
    w->rows = (ATTRACTOR_SPREAD + 1) * d + (c ? collection_rows(c) : 0);
    w->pairs = work_times(w->queries, w->rows);
    if (d > VECTOR_COMPENSATED_ABOVE) w->pairs = work_times(w->pairs, COMPENSATED_TIMES);
    w->unbounded = true; /* a part is no work for the loop */
    w->bytes_out = work_times(w->queries, d * sizeof(float) + 24);
}

const struct operation_ops operation_complete_engine = {
    .check = complete_check,
    .work = complete_work,
    .plan = complete_plan,
    .gpu_plan = engine_gpu_plan,
    .gpu_pairs = engine_gpu_pairs,
};
