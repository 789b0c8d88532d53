#include "daemon/ops/operation_inside.h"

#include "daemon/base/yield.h"
#include "daemon/store/attractor.h"
#include "daemon/store/space.h"

const struct operation_ops *operation_find(uint32_t operation)
{
    static const struct operation_ops *const all[OPERATION_MAX] = {
#define OPERATION(NAME, number, name, ...) [OPERATION_##NAME] = &operation_##name,
#include "proto/operations.def"
        [OPERATION_KNN_BATCH] = &operation_knn_batch,
        [OPERATION_TABLES] = &operation_tables,
        [OPERATION_RECALL_BATCH] = &operation_recall_batch,
        [OPERATION_EXPLAIN] = &operation_explain,
        [OPERATION_SWAP] = &operation_swap,
        [OPERATION_COLLECTION_CREATE] = &operation_collection_create,
        [OPERATION_ATTRACTOR_CREATE] = &operation_attractor_create,
    };
    return operation < OPERATION_MAX ? all[operation] : NULL;
}

enum status operation_check(struct job *j)
{
    const struct operation_ops *ops = operation_find(j->operation);
    return ops && ops->check ? ops->check(j) : STATUS_OK;
}

void operation_shape(struct job *j, uint32_t i, enum dtype dtype, uint64_t rows, uint64_t columns)
{
    j->result.tensors[i] = (struct tensor){.dtype = dtype, .rows = rows, .columns = columns};
}

static uint64_t version_of(const struct job_object *o)
{
    if (o->graph)
        return graph_version(o->writer ? graph_written((const struct graph *)o->resident)
                                       : o->graph);
    if (o->attractor)
        return attractor_version(
            o->writer ? attractor_written((const struct attractor *)o->resident) : o->attractor);
    return collection_version(o->writer ? collection_written((const struct collection *)o->resident)
                                        : o->collection);
}

void operation_note_objects(struct job *j)
{
    struct job_result *r = &j->result;
    r->version = 0;
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        const struct job_object *o = &j->objects[i];
        r->versions[i] = o->resident ? version_of(o) : 0;
        if (o->resident && (o->writer || !r->version)) r->version = r->versions[i];
        if (o->writer && o->collection)
            r->rows = collection_rows(collection_written((const struct collection *)o->resident));
    }
}

static void nothing(struct job *j, uint32_t part, uint32_t worker)
{
    (void)j, (void)part, (void)worker;
}

enum status operation_rehearse(struct job *j)
{
    for (uint32_t i = 0; i < JOB_TENSORS_MAX; i++)
        j->result.tensors[i].dtype = DTYPE_NONE;
    j->rehearsed = true;
    j->plan.run_part = nothing;
    j->plan.parts = 1;
    j->plan.finish = operation_note_objects;
    return STATUS_OK;
}

void operation_note_graph(struct job *j)
{
    const struct graph_edition *e =
        j->writer ? graph_written((const struct graph *)j->resident) : j->graph;
    j->result.version = graph_version(e);
    j->result.nodes = graph_nodes(e);
    j->result.rows = graph_edges(e);
}

/* ---- checks ---- */

enum status operation_check_dimension(struct job *j, const struct tensor *t, const char *what,
                                      uint32_t *dimension)
{
    if (j->collection) {
        *dimension = collection_dimension(j->collection);
        if (t->columns == *dimension) return STATUS_OK;
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "%s have %" PRIu64 " columns, the collection's dimension is %" PRIu32,
                           what, t->columns, *dimension);
    }
    if (t->columns < 1 || t->columns > VECTOR_DIMENSION_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "%s have %" PRIu64 " columns, not 1 to %d", what, t->columns,
                           VECTOR_DIMENSION_MAX);
    *dimension = (uint32_t)t->columns;
    return STATUS_OK;
}

enum status operation_check_metric(struct job *j, enum metric *metric)
{
    uint32_t asked = j->request.metric;
    if (!asked && j->collection) asked = collection_metric(j->collection);
    if (asked < METRIC_COSINE || asked > METRIC_SQUARED_EUCLIDEAN)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC,
                           asked ? "there is no metric %" PRIu32 : "a metric must be given", asked);
    *metric = (enum metric)asked;
    return STATUS_OK;
}

/* ---- for the GPU process ---- */

enum status operation_find_rows(struct job *j, const char *what, const struct edition *collection,
                                const uint64_t *ids, uint64_t first, size_t n, uint32_t *rows)
{
    yield_check();
    if (collection_find_rows(collection, ids + first, n, rows) == n) return STATUS_OK;
    size_t i = 0;
    while (rows[i] != COLLECTION_NO_ROW)
        i++;
    return failure_set(&j->failure, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID,
                       "%s%sthere is no id %" PRIu64 " (row %" PRIu64 ")", what ? what : "",
                       what ? ": " : "", ids[first + i], first + i);
}

uint64_t operation_batch_pairs(const struct job *c)
{
    uint64_t pairs = 0;
    for (const struct job *m = c->members; m; m = m->member_next)
        pairs += operation_gpu_pairs(m);
    return pairs;
}

uint64_t operation_gpu_place(struct job *j, const void *p)
{
    uint64_t place = heap_place(j->heap, p);
    if (place == PLACE_NONE) j->gpu.unfit = true;
    return place;
}

struct order_run *operation_gpu_order(struct job *j, enum run_operation operation,
                                      enum metric metric)
{
    struct order *o = &j->gpu.order;
    const struct tensor *queries = &j->request.queries;
    *o = (struct order){.kind = ORDER_RUN, .space = operation_owner(j)};
    o->run = order_run_of(operation);
    o->run.metric = metric;
    if (j->collection) {
        o->run.dimension = collection_dimension(j->collection);
        o->run.row_count = collection_rows(j->collection);
    } else {
        o->run.dimension = (uint32_t)j->request.rows.columns;
        o->run.row_count = j->request.rows.rows;
        o->run.rows = operation_gpu_place(j, j->request.rows.data);
    }
    o->run.query_count = is_present(queries) ? queries->rows : 0;
    o->run.queries = is_present(queries) ? operation_gpu_place(j, queries->data) : PLACE_NONE;
    return &o->run;
}
