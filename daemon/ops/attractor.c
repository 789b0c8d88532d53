/* attractor: create, learn, fetch, set and drop. An attractor has one writer at a time, and one
 * part does everything; a write that is cancelled changes nothing. */
#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/work.h"
#include "daemon/store/attractor.h"

enum { FETCH_ROWS = 64 }; /* of a part */

static struct attractor *attractor_of(const struct job *j)
{
    return (struct attractor *)j->resident;
}

static bool goes_on(void *owner)
{
    return !is_cancelled(owner);
}

/* What stopped is answered as cancelled, or as too late. */
static void note_stop(struct job *j, const struct attractor_wish *wish)
{
    if (wish->stopped) atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
}

static void note_written(struct job *j)
{
    j->result.counts[1] = attractor_patterns(attractor_written(attractor_of(j)));
    operation_note_objects(j);
}

/* bytes: about how many are written, at 1 GB/s. */
static enum status one_part(struct job *j, void (*run)(struct job *, uint32_t, uint32_t),
                            uint64_t bytes)
{
    operation_note_objects(j);
    j->plan.part_ns = bytes;
    j->plan.run_part = run;
    j->plan.finish = note_written;
    j->plan.parts = 1;
    return STATUS_OK;
}

static enum status check_columns(struct job *j, const char *what, uint64_t columns)
{
    uint32_t dimension = attractor_dimension(j->attractor);
    if (columns == dimension) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                       "%s have %" PRIu64 " columns, the attractor's dimension is %" PRIu32, what,
                       columns, dimension);
}

/* ---- create ---- */

static enum status create_check(struct job *j)
{
    struct job_attractor *a = &j->request.attractor;
    if (!a->has_sparsity) a->sparsity = ATTRACTOR_SPARSITY;
    if (!a->has_rate) a->rate = ATTRACTOR_RATE;
    struct attractor_shape shape = {j->request.dimension, a->sparsity, a->rate};
    return attractor_shape_check(&shape, &j->failure);
}

/* ---- learn ---- */

static uint64_t patterns_asked(const struct job *j)
{
    const struct job_request *r = &j->request;
    return is_present(&r->ids) ? r->ids.rows : r->rows.rows;
}

static void learn_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct attractor_wish wish = {.goes_on = goes_on, .owner = j};
    const struct attractor_patterns patterns = {
        .rows = r->rows.data,
        .ids = r->ids.data,
        .collection = j->objects[1].collection,
        .n = patterns_asked(j),
    };
    attractor_learn(attractor_of(j), j->kernels, &patterns, &wish, &j->failure);
    note_stop(j, &wish);
    j->result.counts[0] = patterns.n;
}

static uint64_t bytes_learned(const struct job *j)
{
    uint64_t d = attractor_dimension(j->attractor);
    return work_times(patterns_asked(j), d * d * sizeof(float) / 4);
}

static enum status learn_plan(struct job *j)
{
    const struct edition *c = j->objects[1].collection;
    enum status st = c ? check_columns(j, "rows of the collection", collection_dimension(c))
                       : check_columns(j, "patterns", j->request.rows.columns);
    return st ? st : one_part(j, learn_part, bytes_learned(j));
}

static enum status learn_check(struct job *j)
{
    const struct job_request *r = &j->request;
    bool ids = is_present(&r->ids), rows = is_present(&r->rows), named = r->names[1][0];
    if (ids == rows)
        return check_refuse(j, DETAIL_BAD_SHAPE,
                            ids ? "patterns: rows and ids exclude each other"
                                : "patterns: neither rows nor ids");
    if (ids == named) return STATUS_OK;
    return ids ? check_refuse(j, DETAIL_BAD_NAME, "collection: empty, and ids of it are given")
               : check_refuse(j, DETAIL_BAD_SHAPE,
                              "patterns: rows and a collection exclude each other");
}

/* All weights are read and written for each pattern. */
static void learn_work(const struct job *j, struct work *w)
{
    w->unbounded = true;
    w->bytes_in += bytes_learned(j);
}

/* ---- fetch ---- */

/* Columns become rows, square by square, so that both stay in the cache. */
static void fetch_part(struct job *j, uint32_t part, uint32_t worker)
{
    enum { SIDE = 32 };
    uint32_t d = attractor_dimension(j->attractor), top = part * FETCH_ROWS;
    uint32_t bottom = (uint32_t)smaller(d, top + FETCH_ROWS);
    size_t stride = vector_stride(d);
    const float *columns = attractor_columns(j->attractor);
    float *out = j->result.tensors[RESULT_ATTRACTOR_WEIGHTS].data;
    yield_check();
    for (uint32_t left = 0; left < d; left += SIDE)
        for (uint32_t i = top; i < bottom; i++)
            for (uint32_t k = left; k < d && k < left + SIDE; k++)
                out[(size_t)i * d + k] = columns[k * stride + i];
}

static void fetch_finish(struct job *j)
{
    if (j->failure.code || is_cancelled(j)) operation_drop_result(j);
}

static enum status fetch_plan(struct job *j)
{
    uint32_t d = attractor_dimension(j->attractor);
    operation_note_objects(j);
    j->result.counts[1] = attractor_patterns(j->attractor);
    operation_shape(j, RESULT_ATTRACTOR_WEIGHTS, DTYPE_FLOAT32, d, d);
    enum status st = operation_take_result(j, RESULTS_AttractorFetch);
    if (st) return operation_drop_all(j);
    j->plan.run_part = fetch_part;
    j->plan.finish = fetch_finish;
    j->plan.parts = (uint32_t)pieces_of(d, FETCH_ROWS);
    return STATUS_OK;
}

static void fetch_work(const struct job *j, struct work *w)
{
    uint64_t d = attractor_dimension(j->attractor);
    w->bytes_out = d * d * sizeof(float);
}

/* ---- set ---- */

static void set_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct attractor_wish wish = {.goes_on = goes_on, .owner = j};
    attractor_set(attractor_of(j), j->request.rows.data, &wish, &j->failure);
    note_stop(j, &wish);
}

static enum status set_plan(struct job *j)
{
    enum status st = check_columns(j, "weights", j->request.rows.columns);
    return st ? st : one_part(j, set_part, 2 * j->body_bytes);
}

static enum status set_check(struct job *j)
{
    const struct tensor *w = &j->request.rows;
    if (w->rows == w->columns) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHTS,
                       "weights: %" PRIu64 " x %" PRIu64 ", not square", w->rows, w->columns);
}

/* ---- drop ---- */

/* The loop gives the memory back, which hands blocks on. */
static void drop_part(struct job *j, uint32_t part, uint32_t worker)
{
    j->result.counts[0] = attractor_patterns(j->attractor);
}

static enum status drop_plan(struct job *j)
{
    operation_note_objects(j);
    j->plan.run_part = drop_part;
    j->plan.parts = 1;
    return STATUS_OK;
}

const struct operation_ops operation_attractor_create = {.check = create_check};
const struct operation_ops operation_attractor_learn = {
    .check = learn_check, .work = learn_work, .plan = learn_plan};
const struct operation_ops operation_attractor_fetch = {.work = fetch_work, .plan = fetch_plan};
const struct operation_ops operation_attractor_set = {.check = set_check, .plan = set_plan};
const struct operation_ops operation_attractor_drop = {.plan = drop_plan};
