/* mutate: upsert, delete and drop. A collection has one writer at a time, and one part does
 * everything; a job that is cancelled before it starts changes nothing. */
#include "daemon/ops/check.h"
#include "daemon/ops/operation_inside.h"

/* bytes: about how many are written, at 1 GB/s. */
static enum status one_part(struct job *j, void (*run)(struct job *, uint32_t, uint32_t),
                            void (*finish)(struct job *), uint64_t bytes)
{
    operation_note_collection(j);
    j->plan.part_ns = bytes;
    j->plan.run_part = run;
    j->plan.finish = finish;
    j->plan.parts = 1;
    return STATUS_OK;
}

static struct collection *collection_of(const struct job *j)
{
    return (struct collection *)j->resident;
}

/* The reply is about what was written. */
static void note_written(struct job *j)
{
    j->collection = collection_written(collection_of(j));
    operation_note_collection(j);
}

/* ---- upsert ---- */

static void upsert_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct job_request *r = &j->request;
    struct upsert_counts counts = {0};
    const struct upsert_rows what = {r->ids.data, r->rows.data, r->ids.rows, j->shared};
    collection_write_rows(collection_of(j), &what, &counts, &j->failure);
    j->result.counts[0] = counts.inserted;
    j->result.counts[1] = counts.replaced;
}

static enum status upsert_plan(struct job *j)
{
    const struct job_request *r = &j->request;
    uint32_t dimension;
    enum status st = operation_check_dimension(j, &r->rows, "rows", &dimension);
    if (st) return st;
    if (r->ids.rows != r->rows.rows)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%" PRIu64 " ids for %" PRIu64 " rows", r->ids.rows, r->rows.rows);
    return one_part(j, upsert_part, note_written, j->body_bytes);
}

/* ---- delete ---- */

static void delete_part(struct job *j, uint32_t part, uint32_t worker)
{
    collection_write_delete(collection_of(j), j->request.ids.data, j->request.ids.rows,
                            &j->result.counts[0], &j->result.counts[1], &j->failure);
}

static enum status delete_plan(struct job *j)
{
    uint64_t row_bytes = vector_stride(collection_dimension(j->collection)) * sizeof(float);
    return one_part(j, delete_part, note_written, j->request.ids.rows * row_bytes);
}

/* ---- drop ---- */

/* Frees the pages, the slow part of a drop; the pipeline destroys the rest of the collection. What
 * a snapshot reads stays. */
static void drop_part(struct job *j, uint32_t part, uint32_t worker)
{
    j->result.counts[0] = collection_rows(j->collection);
    if (!resident_is_saved(j->resident)) collection_clear(collection_of(j));
}

static enum status drop_plan(struct job *j)
{
    return one_part(j, drop_part, operation_note_collection, UINT64_MAX);
}

static enum status upsert_check(struct job *j)
{
    return check_same_rows(j, "ids", &j->request.ids, "rows", &j->request.rows);
}

const struct operation_ops operation_upsert = {.check = upsert_check, .plan = upsert_plan};
const struct operation_ops operation_delete = {.plan = delete_plan};
const struct operation_ops operation_collection_drop = {.plan = drop_plan};
