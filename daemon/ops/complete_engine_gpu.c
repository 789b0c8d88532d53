/* complete_engine_gpu: completion by an attractor for a GPU process: an order of all cues, and
 * records of what became of them, which are told apart here. */
#include "daemon/ops/complete_engine_inside.h"
#include "daemon/ops/work.h"

enum { RECORDS_SHORT_MAX = 4096 };
#define ROWS_MAX (UINT64_C(1) << 32)

/* ---- what both ways share ---- */

enum status engine_check_dimensions(struct job *j, uint32_t dimension)
{
    const struct edition *c = j->objects[1].collection;
    uint64_t columns = j->request.queries.columns;
    if (columns != dimension)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "cues have %" PRIu64 " columns, the attractor's dimension is %" PRIu32,
                           columns, dimension);
    if (!c || collection_dimension(c) == dimension) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                       "the collection has %" PRIu32 " dimensions, the attractor has %" PRIu32,
                       collection_dimension(c), dimension);
}

enum status engine_take_result(struct job *j, uint32_t dimension)
{
    bool compares = j->objects[1].collection != NULL;
    uint64_t count = j->request.queries.rows, compared = compares ? count : 0;
    operation_shape(j, RESULT_ENGINE_STATES, DTYPE_FLOAT32, count, dimension);
    operation_shape(j, RESULT_ENGINE_CONFIDENCES, DTYPE_FLOAT32, count, 1);
    operation_shape(j, RESULT_ENGINE_ROUNDS, DTYPE_UINT32, count, 1);
    operation_shape(j, RESULT_ENGINE_CONVERGED, DTYPE_UINT8, count, 1);
    operation_shape(j, RESULT_ENGINE_IDS, compares ? DTYPE_UINT64 : DTYPE_NONE, compared, 1);
    operation_shape(j, RESULT_ENGINE_COSINES, compares ? DTYPE_FLOAT32 : DTYPE_NONE, compared, 1);
    operation_shape(j, RESULT_ENGINE_PASSES, compares ? DTYPE_UINT8 : DTYPE_NONE, compared, 1);
    return operation_take_result(j, RESULTS_CompleteEngine);
}

void engine_give_rounds(struct job *j, uint64_t line, uint32_t rounds, bool converged)
{
    const struct tensor *out = j->result.tensors;
    ((float *)out[RESULT_ENGINE_CONFIDENCES].data)[line] = attractor_confidence(rounds);
    ((uint32_t *)out[RESULT_ENGINE_ROUNDS].data)[line] = rounds;
    ((uint8_t *)out[RESULT_ENGINE_CONVERGED].data)[line] = converged;
}

void engine_give_nearest(struct job *j, uint64_t line, uint64_t id, float cosine)
{
    const struct tensor *out = j->result.tensors;
    ((uint64_t *)out[RESULT_ENGINE_IDS].data)[line] = id;
    ((float *)out[RESULT_ENGINE_COSINES].data)[line] = cosine;
    ((uint8_t *)out[RESULT_ENGINE_PASSES].data)[line] = cosine > ENGINE_PASS_COSINE;
}

/* ---- a GPU's way ---- */

static uint64_t matrix_rows(uint32_t dimension)
{
    return (uint64_t)(ATTRACTOR_SPREAD + 1) * dimension;
}

/* A collection without rows has no replica. */
uint64_t engine_gpu_pairs(const struct job *j)
{
    const struct edition *c = j->objects[1].collection;
    uint64_t stored = c ? collection_rows(c) : 0;
    if (!j->attractor || (c && (!stored || stored > ROWS_MAX))) return 0;
    return work_times(j->request.queries.rows,
                      matrix_rows(attractor_dimension(j->attractor)) + stored);
}

static const struct order_engine_end *records_of(const struct job *j)
{
    return exchange_at(j, 0);
}

static void finish(struct job *j)
{
    const struct order_engine_end *records = records_of(j);
    for (uint64_t i = 0; i < j->request.queries.rows; i++) {
        engine_give_rounds(j, i, records[i].rounds, records[i].converged != 0);
        if (j->objects[1].collection) engine_give_nearest(j, i, records[i].id, records[i].cosine);
    }
}

enum status engine_gpu_plan(struct job *j)
{
    const struct job_request *r = &j->request;
    const struct edition *c = j->objects[1].collection;
    uint32_t d = attractor_dimension(j->attractor);
    enum status st = engine_check_dimensions(j, d);
    if (st) return st;
    operation_note_objects(j);
    st = engine_take_result(j, d);
    if (!st) st = operation_take_exchange(j, r->queries.rows * sizeof(struct order_engine_end));
    if (st) return operation_drop_all(j);
    struct order *o = &j->gpu.order;
    struct order_run *run = &o->run;
    *o = (struct order){.kind = ORDER_RUN, .space = operation_owner(j)};
    *run = order_run_of(RUN_COMPLETE_ENGINE);
    run->metric = METRIC_DOT;
    run->dimension = d;
    run->k = attractor_kept_values(j->attractor);
    run->row_count = matrix_rows(d);
    run->other.row_count = c ? collection_rows(c) : 0;
    run->query_count = r->queries.rows;
    run->queries = operation_gpu_place(j, r->queries.data);
    run->list_count = is_present(&r->mask) ? r->mask.rows : 0;
    if (run->list_count) run->weights = operation_gpu_place(j, r->mask.data);
    run->out_scores = operation_gpu_place(j, j->result.tensors[RESULT_ENGINE_STATES].data);
    run->out_ids = operation_gpu_place(j, records_of(j));
    j->gpu.finish = finish;
    j->gpu.finish_is_long = r->queries.rows > RECORDS_SHORT_MAX;
    return STATUS_OK;
}
