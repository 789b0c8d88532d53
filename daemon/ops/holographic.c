#include "daemon/ops/holographic.h"

#include <math.h>
#include <stdio.h>

#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/check.h"
#include "daemon/ops/work.h"
#include "kernels/canonical.h"
#include "kernels/hrr.h"

/* A part is so many numbers of operands, and takes so many products of numbers: some tenths of a
 * millisecond at most. Sums are read as fast as memory gives them. */
enum {
    CHECKED = 64,
    PART_NUMBERS = 1 << 15,
    PART_PRODUCTS = 1 << 20,
    PART_SUMMED = 1 << 18,
    PART_RESULTS_MIN = 8
};

/* ---------------------------------------------------------------- the request alone */

const struct job_object *holographic_into(const struct job *j, const struct holographic_kind *kind)
{
    const struct job_object *o = &j->objects[HOLOGRAPHIC_INTO];
    return !kind->follow && o->resident ? o : NULL;
}

static struct operand operand_at(const struct job *j, const struct holographic_kind *kind,
                                 uint32_t i)
{
    const struct job_request *r = &j->request;
    struct operand o = {.name = i ? "b" : "a",
                        .rows = i ? &r->other_rows : &r->rows,
                        .ids = i ? &r->other_ids : &r->ids,
                        .collection = j->objects[kind->first_named + i].collection};
    o.count = is_present(o.ids) ? o.ids->rows : o.rows->rows;
    return o;
}

static uint64_t count_results(const struct job *j, const struct holographic_kind *kind)
{
    const struct job_request *r = &j->request;
    uint64_t count = 1;
    if (!kind->operands) return r->limit;
    if (kind->lists) return is_present(&r->offsets) ? r->offsets.rows - 1 : 1;
    for (uint32_t i = 0; i < kind->operands; i++) {
        struct operand o = operand_at(j, kind, i);
        if (o.count != 1) count = o.count;
    }
    return count;
}

static enum status refuse_operand(struct job *j, const struct operand *o, const char *text)
{
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "%s: %s", o->name,
                       text);
}

static enum status check_operand(struct job *j, const struct operand *o, const char *collection)
{
    bool by_id = is_present(o->ids), rows = is_present(o->rows);
    if (by_id && rows) return refuse_operand(j, o, "rows and ids exclude each other");
    if (!by_id && !rows) return refuse_operand(j, o, "neither rows nor ids");
    if (by_id && !collection[0])
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "%s: empty, and ids of a collection are given", o->name);
    if (rows && collection[0])
        return refuse_operand(j, o, "rows and a collection exclude each other");
    return o->count ? STATUS_OK : refuse_operand(j, o, by_id ? "no ids" : "no rows");
}

static enum status check_counts(struct job *j, const struct holographic_kind *kind, uint64_t count)
{
    for (uint32_t i = 0; i < kind->operands; i++) {
        struct operand o = operand_at(j, kind, i);
        if (o.count == 1 || o.count == count) continue;
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: %" PRIu64
                           " rows, 1 or as many as the other operand has wanted, %" PRIu64,
                           o.name, o.count, count);
    }
    return STATUS_OK;
}

static enum status walk_lists(struct job *j, const struct holographic_kind *kind)
{
    const struct tensor *t = &j->request.offsets;
    const uint64_t *offsets = t->data;
    enum status st = check_rising(j, "offsets", t, operand_at(j, kind, 0).count, "rows");
    for (uint64_t i = 0; i + 1 < t->rows && !st; i++) {
        if (i % CHECK_OFFSETS_MAX == 0) yield_check();
        if (offsets[i] == offsets[i + 1])
            st = failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                             "offsets: list %" PRIu64 " is empty", i);
    }
    return st;
}

static enum status check_lists(struct job *j, const struct holographic_kind *kind)
{
    const struct tensor *t = &j->request.offsets;
    if (!is_present(t)) return STATUS_OK;
    if (t->rows < 2) return check_refuse(j, DETAIL_BAD_OFFSETS, "offsets: no list");
    return check_later(t) ? STATUS_OK : walk_lists(j, kind);
}

static enum status check_into(struct job *j, uint64_t count)
{
    const struct job_request *r = &j->request;
    const struct job_write *w = &r->write;
    bool into = r->names[HOLOGRAPHIC_INTO][0] != '\0', ids = is_present(&r->into_ids);
    if (into != ids)
        return check_refuse(j, into ? DETAIL_BAD_SHAPE : DETAIL_BAD_NAME,
                            into ? "into_ids: missing" : "into: empty, and into_ids are given");
    if (!into && (w->version || w->token_low || w->token_high))
        return check_refuse(j, DETAIL_BAD_NAME, "into: empty, and a write is described");
    if (!into || r->into_ids.rows == count) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "into_ids: %" PRIu64 " for %" PRIu64 " results", r->into_ids.rows, count);
}

enum status holographic_check(struct job *j, const struct holographic_kind *kind)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; i < kind->operands && !st; i++) {
        struct operand o = operand_at(j, kind, i);
        st = check_operand(j, &o, j->request.names[kind->first_named + i]);
    }
    if (!st && kind->lists) st = check_lists(j, kind);
    if (st) return st;
    uint64_t count = count_results(j, kind);
    if (!kind->lists) st = check_counts(j, kind, count);
    return st || kind->follow ? st : check_into(j, count);
}

static uint32_t dimension_of(const struct operand *o)
{
    return o->collection ? collection_dimension(o->collection) : (uint32_t)o->rows->columns;
}

uint32_t holographic_dimension(const struct job *j, const struct holographic_kind *kind)
{
    struct operand a = operand_at(j, kind, 0);
    return kind->operands ? dimension_of(&a) : j->request.dimension;
}

/* Returns what a row costs, in products of rows; a number's product takes 0.1 ns. Binding a pair is
 * three transforms of N log2 N operations, where N is more than twice the dimension if that has no
 * plan of its own; half of it a row of a list. */
static uint64_t row_products(const struct holographic_kind *kind, uint32_t dimension)
{
    enum { TRANSFORM_BESIDE = 6000 };
    if (dimension < 1 || dimension > VECTOR_DIMENSION_MAX) return 1; /* it will be refused */
    uint64_t stride = vector_stride(dimension);
    if (!kind->transforms) return kind->products + kind->beside / stride;
    uint64_t length = hrr_length(dimension), octaves = 0;
    while (UINT64_C(1) << octaves < length)
        octaves++;
    uint64_t numbers = 5 * length * octaves / 4 + TRANSFORM_BESIDE;
    return numbers / stride / (kind->lists ? 2 : 1);
}

void holographic_work(const struct job *j, const struct holographic_kind *kind, struct work *w)
{
    struct operand a = operand_at(j, kind, 0);
    uint64_t results = count_results(j, kind);
    uint32_t dimension = holographic_dimension(j, kind);
    w->stride = (uint32_t)vector_stride(dimension);
    w->queries = 1;
    w->rows = kind->lists ? a.count : results;
    w->pairs = work_times(w->rows, row_products(kind, dimension));
    w->unbounded = holographic_into(j, kind) != NULL; /* a write may have to copy */
    w->bytes_out = w->unbounded ? 0 : work_times(results, w->stride * sizeof(float));
}

/* ---------------------------------------------------------------- what it is run on */

static enum status check_dimensions(struct job *j, struct holographic *w)
{
    const struct job_object *into = holographic_into(j, w->kind);
    w->dimension = holographic_dimension(j, w->kind);
    for (uint32_t i = 1; i < w->kind->operands; i++)
        if (dimension_of(&w->operands[i]) != w->dimension)
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                               "%s has %" PRIu32 " dimensions, %s has %" PRIu32,
                               w->operands[i].name, dimension_of(&w->operands[i]),
                               w->operands[0].name, w->dimension);
    const struct edition *codebook = w->kind->follow ? j->collection : NULL;
    if (codebook && collection_dimension(codebook) != w->dimension)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "a has %" PRIu32 " dimensions, %s has %" PRIu32, w->dimension,
                           j->request.names[0], collection_dimension(codebook));
    if (!into || collection_dimension(into->collection) == w->dimension) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                       "results have %" PRIu32 " dimensions, %s has %" PRIu32, w->dimension,
                       j->request.names[HOLOGRAPHIC_INTO], collection_dimension(into->collection));
}

static enum status find_rows(struct job *j, const struct operand *o, uint32_t dimension)
{
    enum status st = STATUS_OK;
    for (uint64_t first = 0; first < o->count && !st; first += FIND_BATCH) {
        uint32_t rows[FIND_BATCH];
        size_t n = (size_t)smaller(FIND_BATCH, o->count - first);
        if (o->collection)
            st = operation_find_rows(j, o->name, o->collection, o->ids->data, first, n, rows);
        else
            yield_check();
        for (size_t i = 0; i < n && !st; i++) {
            const float *row = (const float *)o->rows->data + (first + i) * dimension;
            o->pointers[first + i] = o->collection ? collection_row(o->collection, rows[i]) : row;
        }
    }
    return st;
}

static struct holographic *state_of(struct job *j)
{
    return j->plan.scratch.data;
}

static enum status prepare(struct job *j)
{
    struct holographic *w = state_of(j);
    bool later = w->kind->lists && check_later(&j->request.offsets);
    enum status st = later ? walk_lists(j, w->kind) : STATUS_OK;
    for (uint32_t i = 0; i < w->kind->operands && !st; i++)
        st = find_rows(j, &w->operands[i], w->dimension);
    return st || !w->kind->begin ? st : w->kind->begin(j, w);
}

/* ---------------------------------------------------------------- rows that may be wrong */

/* Returns a row where kernels can read it; padded: of the worker. */
static float *padded_row(const struct holographic *w, const float *row, float *padded)
{
    if (w->dimension % VECTOR_LANES == 0 && (uintptr_t)row % 64 == 0) return (float *)row;
    vectors_pad(w->dimension, row, 1, padded);
    return padded;
}

static float norm_of(const struct holographic *w, const float *row, float *padded)
{
    float norm;
    w->kernels->norms(w->dimension, padded_row(w, row, padded), 1, &norm);
    return norm;
}

void holographic_rows(const struct holographic *w, const struct operand *o, uint64_t i,
                      uint64_t *first, uint64_t *end)
{
    bool list = w->kind->lists;
    *first = list ? w->lists[i] : o->count == 1 ? 0 : i;
    *end = list ? w->lists[i + 1] : *first + 1;
}

/* A row without a number of 2^56 or more has a norm: 16,384 squares of them are below 2^127. That
 * is seen faster than a norm where those are compensated. */
static bool is_wrong(const struct holographic *w, const float *row, float *padded)
{
    const uint32_t small = (127 + 56) << 23; /* as a binary32's bits */
    bool compensated = canonical_is_compensated(w->dimension);
    if (compensated && w->sums->largest(row, w->dimension) < small) return false;
    return !isfinite(norm_of(w, row, padded));
}

uint64_t holographic_find_wrong(const struct holographic *w, const struct operand *o,
                                uint64_t first, uint64_t end, float *padded)
{
    if (o->collection) return end;
    uint64_t row = first;
    for (; row < end && !is_wrong(w, o->pointers[row], padded); row++)
        if (row % CHECKED == 0) yield_check();
    return row;
}

/* The same of the rows that result i is made of. */
static uint64_t find_wrong(const struct holographic *w, const struct operand *o, uint64_t i,
                           float *padded, uint64_t *end)
{
    uint64_t row;
    holographic_rows(w, o, i, &row, end);
    return holographic_find_wrong(w, o, row, *end, padded);
}

/* Returns the first of results [first, first + count) of which an operand's row is wrong, or the
 * end. */
static uint64_t check_rows(const struct holographic *w, uint64_t first, uint64_t count,
                           float *padded)
{
    for (uint64_t i = first; i < first + count; i++)
        for (uint32_t k = 0; k < w->kind->operands; k++) {
            const struct operand *o = &w->operands[k];
            uint64_t end;
            if (!w->kind->lists && o->count == 1 && i > first) continue;
            if (find_wrong(w, o, i, padded, &end) < end) return i;
        }
    return first + count;
}

/* Returns how many of the results at out have a norm. */
static uint64_t check_norms(const struct holographic *w, float *out, uint64_t count, float *padded)
{
    for (uint64_t i = 0; i < count; i++) {
        float *row = out + i * w->dimension, *there = padded_row(w, row, padded), norm;
        w->kernels->norms(w->dimension, there, 1, &norm);
        if (!isfinite(norm)) return i;
        if (!w->request->normalize) continue;
        w->kernels->normalize(w->dimension, there, &norm, 1);
        if (there != row) memcpy(row, there, w->dimension * sizeof *row);
    }
    return count;
}

/* Says what is wrong with the first result that has none. */
static void refuse(struct job *j, struct holographic *w, uint64_t bad)
{
    float *padded = scratch_at(j, w->workers);
    void *scratch = (char *)padded + vector_stride(w->dimension) * sizeof(float);
    for (uint32_t k = 0; k < w->kind->operands; k++) {
        const struct operand *o = &w->operands[k];
        uint64_t end, row = find_wrong(w, o, bad, padded, &end);
        char what[16];
        if (row == end) continue;
        snprintf(what, sizeof what, "%s: row", o->name);
        operation_refuse_row(j, what, row, o->pointers[row], w->dimension);
        return;
    }
    float *out = w->out + bad * w->dimension;
    bool made = w->kind->make(w, bad, 1, scratch, out, &j->failure) == 1;
    if (made && !atomic_load(&j->skipped))
        operation_refuse_row(j, "result", bad, out, w->dimension);
}

/* ---------------------------------------------------------------- running */

static void run_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct holographic *w = state_of(j);
    uint64_t first = part * w->part_results, count = smaller(w->part_results, w->count - first);
    float *padded = scratch_at(j, w->workers + worker * w->worker_bytes);
    void *scratch = (char *)padded + vector_stride(w->dimension) * sizeof(float);
    float *out = w->out + first * w->dimension;
    yield_check();
    uint64_t sound = w->kind->checks ? count : check_rows(w, first, count, padded) - first;
    uint64_t made = w->kind->make(w, first, sound, scratch, out, NULL);
    if (w->request->normalize || w->kind->may_overflow) made = check_norms(w, out, made, padded);
    if (made < count) note_smallest(&w->bad, first + made);
}

static void store(struct job *j, const struct holographic *w)
{
    struct upsert_counts counts = {0};
    struct collection *into = (struct collection *)holographic_into(j, w->kind)->resident;
    const struct upsert_rows what = {
        .ids = w->request->into_ids.data, .rows = w->out, .n = w->count};
    collection_write_rows(into, &what, &counts, &j->failure);
    j->result.counts[0] = counts.inserted;
    j->result.counts[1] = counts.replaced;
}

void holographic_end(struct job *j, const struct holographic *w)
{
    if (holographic_into(j, w->kind)) store(j, w);
    operation_note_objects(j);
}

/* Another plan takes the place of this one, whose scratch stays. */
static void follow(struct job *j, const struct holographic *w)
{
    const float *results = w->out;
    uint64_t count = w->count;
    uint32_t dimension = w->dimension;
    const struct holographic_kind *kind = w->kind;
    j->plan = (struct job_plan){.before = j->plan.scratch};
    if (!kind->follow(j, results, count, dimension)) j->step = steps_begin_next_plan;
}

static void finish(struct job *j)
{
    struct holographic *w = state_of(j);
    uint64_t bad = atomic_load(&w->bad);
    if (!j->failure.code && bad != NO_ROW && !atomic_load(&j->skipped)) refuse(j, w, bad);
    if (w->kind->end) w->kind->end(w);
    bool stopped = j->failure.code || atomic_load(&j->skipped);
    if (!stopped) holographic_end(j, w);
    if (!stopped && w->kind->follow)
        follow(j, w);
    else if (j->failure.code || stopped)
        operation_drop_result(j);
}

/* ---------------------------------------------------------------- the plan */

enum status holographic_take_results(struct job *j, const struct holographic *w,
                                     uint64_t *scratch_bytes, uint64_t *scratch_at)
{
    bool kept = w->kind->follow || holographic_into(j, w->kind);
    uint64_t bytes = work_times(w->count, w->dimension * sizeof(float));
    *scratch_at = layout_add(scratch_bytes, kept ? bytes : 0);
    if (kept) return STATUS_OK;
    operation_shape(j, RESULT_HOLOGRAPHIC_ROWS, DTYPE_FLOAT32, w->count, w->dimension);
    return operation_take_result(j, RESULTS_Holographic);
}

static enum status take_memory(struct job *j, struct holographic *w)
{
    uint64_t bytes = 0, pointers[HOLOGRAPHIC_OPERANDS_MAX], out;
    layout_add(&bytes, sizeof *w);
    for (uint32_t i = 0; i < w->kind->operands; i++)
        pointers[i] = layout_add(&bytes, w->operands[i].count * sizeof(float *));
    w->worker_bytes = vector_stride(w->dimension) * sizeof(float) + w->kind->scratch_bytes(w);
    w->workers = layout_add(&bytes, j->worker_count * w->worker_bytes);
    enum status st = holographic_take_results(j, w, &bytes, &out);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return st;
    for (uint32_t i = 0; i < w->kind->operands; i++)
        w->operands[i].pointers = scratch_at(j, pointers[i]);
    w->out =
        j->result.block.data ? j->result.tensors[RESULT_HOLOGRAPHIC_ROWS].data : scratch_at(j, out);
    return STATUS_OK;
}

static uint64_t results_of_a_part(const struct holographic *w)
{
    bool sums = w->kind->lists && !w->kind->transforms;
    uint64_t rows = w->kind->lists ? w->operands[0].count / w->count + 1 : 1;
    uint64_t cost = row_products(w->kind, w->dimension) * vector_stride(w->dimension) * rows;
    uint64_t results = (sums ? PART_SUMMED : PART_NUMBERS) / (w->dimension * rows);
    if (!sums) results = smaller(results, PART_PRODUCTS / cost);
    uint64_t least = w->kind->lists ? 1 : PART_RESULTS_MIN;
    return results < least ? least : results;
}

enum status holographic_begin(struct job *j, const struct holographic_kind *kind,
                              struct holographic *w)
{
    *w =
        (struct holographic){.kind = kind, .job = j, .request = &j->request, .kernels = j->kernels};
    for (uint32_t i = 0; i < kind->operands; i++)
        w->operands[i] = operand_at(j, kind, i);
    w->sums = superpose_choose(j->kernels->name);
    w->count = count_results(j, kind);
    w->offsets[1] = w->operands[0].count;
    return check_dimensions(j, w);
}

enum status holographic_plan(struct job *j, const struct holographic_kind *kind)
{
    struct holographic w;
    enum status st = holographic_begin(j, kind, &w);
    if (!st) st = take_memory(j, &w);
    if (st) return operation_drop_all(j);
    w.part_results = results_of_a_part(&w);
    atomic_init(&w.bad, NO_ROW);
    *state_of(j) = w;
    bool given = is_present(&j->request.offsets);
    state_of(j)->lists = given ? j->request.offsets.data : state_of(j)->offsets;
    j->plan.prepare = prepare;
    j->plan.run_part = run_part;
    j->plan.finish = finish;
    j->plan.parts = (uint32_t)pieces_of(w.count, w.part_results);
    return STATUS_OK;
}
