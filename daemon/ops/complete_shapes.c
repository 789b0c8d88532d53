/* complete_shapes: what is known of a pattern completion before it runs. */
#include "daemon/ops/check.h"
#include "daemon/ops/complete_inside.h"
#include "daemon/ops/work.h"

enum status complete_check_request(struct job *j)
{
    const struct job_request *r = &j->request;
    if (!(r->beta >= COMPLETE_BETA_MIN && r->beta <= COMPLETE_BETA_MAX))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_BETA,
                           "beta: %g, %g to %g wanted", (double)r->beta, (double)COMPLETE_BETA_MIN,
                           (double)COMPLETE_BETA_MAX);
    if (r->rounds < 1 || r->rounds > COMPLETE_ROUNDS_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_ROUNDS,
                           "rounds: %" PRIu32 ", 1 to %d wanted", r->rounds, COMPLETE_ROUNDS_MAX);
    if (!is_present(&r->mask)) return STATUS_OK;
    if (r->mask.columns != r->queries.columns)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "mask: %" PRIu64 " columns, states have %" PRIu64, r->mask.columns,
                           r->queries.columns);
    if (r->mask.rows != 1 && r->mask.rows != r->queries.rows)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "mask: %" PRIu64 " rows, 1 or as many as there are states wanted, "
                           "%" PRIu64,
                           r->mask.rows, r->queries.rows);
    return STATUS_OK;
}

/* Most states stop after three rounds or so. */
void complete_work(const struct job *j, struct work *w)
{
    enum { ROUNDS_USUAL = 3, LINE_BYTES = 4 + 1 + 4 + 8 + 4 };
    uint64_t rounds = smaller(j->request.rounds, ROUNDS_USUAL);
    w->queries = j->request.queries.rows;
    w->rows = work_times(work_rows(j), rounds);
    w->pairs = work_times(w->queries, w->rows);
    w->unbounded = j->request.rounds > ROUNDS_USUAL;
    w->bytes_out = work_times(w->queries, work_dimension(j) * sizeof(float) + LINE_BYTES);
}

enum status complete_check(struct job *j, struct complete_job *w)
{
    const struct job_request *r = &j->request;
    enum status st = operation_check_dimension(j, &r->queries, "states", &w->dimension);
    if (st) return st;
    w->rows = collection_rows(j->collection);
    if (!w->rows)
        return failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_NO_ROWS,
                           "%s has no rows", r->names[0]);
    w->vectors = j->kernels;
    w->kernels = complete_choose(j->kernels->name);
    w->collection = j->collection;
    w->stride = vector_stride(w->dimension);
    w->states = r->queries.rows;
    w->blocks = complete_blocks(w->rows);
    w->beta = r->beta;
    w->unit = r->unit;
    return STATUS_OK;
}

void complete_shape(struct job *j, const struct complete_job *w)
{
    operation_shape(j, RESULT_COMPLETE_STATES, DTYPE_FLOAT32, w->states, w->dimension);
    operation_shape(j, RESULT_COMPLETE_ROUNDS, DTYPE_UINT32, w->states, 1);
    operation_shape(j, RESULT_COMPLETE_CONVERGED, DTYPE_UINT8, w->states, 1);
    operation_shape(j, RESULT_COMPLETE_ENERGIES, DTYPE_FLOAT32, w->states, 1);
    operation_shape(j, RESULT_COMPLETE_IDS, DTYPE_UINT64, w->states, 1);
    operation_shape(j, RESULT_COMPLETE_COSINES, DTYPE_FLOAT32, w->states, 1);
}

/* A group's states, packed, stay in the second-level cache; its scores and sums take some tens of
 * MiB, or those of a single state as much as they take. A part reads some MiB of rows, and one is a
 * whole number of blocks. */
static void cut(struct complete_job *w)
{
    enum {
        GROUP_MAX = 64,
        STATES_BYTES = 512 << 10,
        PART_BYTES = 4 << 20,
        PART_PRODUCTS = 1 << 25
    };
    const uint64_t group_bytes = UINT64_C(64) << 20;
    uint64_t row_bytes = w->stride * sizeof(float);
    uint64_t state_bytes = w->rows * sizeof(float) + w->blocks * row_bytes;
    uint64_t states =
        smaller(GROUP_MAX, smaller(STATES_BYTES / row_bytes, group_bytes / state_bytes));
    states = smaller(states ? states : 1, w->states ? w->states : 1);
    w->group_states = (uint32_t)states;
    w->part_rows = COMPLETE_BLOCK;
    while (w->part_rows * 2 * row_bytes <= PART_BYTES &&
           w->part_rows * 2 * w->stride * states <= PART_PRODUCTS)
        w->part_rows *= 2;
}

/* Where each array lies, as an offset in its pointer. */
static void *add(uint64_t *bytes, uint64_t wanted)
{
    return (void *)(uintptr_t)layout_add(bytes, wanted);
}

uint64_t complete_layout(const struct job *j, struct complete_job *w)
{
    uint64_t bytes = 0, workers = j->worker_count;
    cut(w);
    uint64_t states = w->group_states;
    w->scores_stride = (size_t)pieces_of(w->rows, 16) * 16;
    layout_add(&bytes, sizeof *w);
    w->active = add(&bytes, states * sizeof *w->active);
    w->done = add(&bytes, states * sizeof *w->done);
    w->lined = add(&bytes, states * w->stride * sizeof(float));
    w->packed = add(&bytes, w->vectors->pack_bytes(w->dimension, (size_t)states));
    w->best = add(&bytes, states * sizeof *w->best);
    w->bests = add(&bytes, workers * states * sizeof *w->bests);
    w->norms = add(&bytes, workers * sizeof(float));
    w->moved = add(&bytes, workers * w->stride * sizeof(float));
    w->checked = add(&bytes, queries_check_bytes(w->dimension, COMPLETE_CHECKED));
    w->masked = NULL;
    if (is_present(&j->request.mask))
        w->masked = add(&bytes, COMPLETE_CHECKED * (uint64_t)w->dimension * sizeof(float));
    w->scores = add(&bytes, states * w->scores_stride * sizeof(float));
    w->totals = add(&bytes, states * w->blocks * sizeof(double));
    w->sums = add(&bytes, states * w->blocks * w->stride * sizeof(float));
    return bytes;
}

static void *at(const struct job *j, const void *offset)
{
    return scratch_at(j, (uintptr_t)offset);
}

void complete_place(struct job *j)
{
    struct complete_job *w = complete_of(j);
    w->active = at(j, w->active);
    w->done = at(j, w->done);
    w->lined = at(j, w->lined);
    w->packed = at(j, w->packed);
    w->best = at(j, w->best);
    w->bests = at(j, w->bests);
    w->norms = at(j, w->norms);
    w->moved = at(j, w->moved);
    w->checked = at(j, w->checked);
    w->masked = at(j, w->masked);
    w->scores = at(j, w->scores);
    w->totals = at(j, w->totals);
    w->sums = at(j, w->sums);
}
