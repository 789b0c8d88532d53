#include "daemon/ops/work.h"

#include "daemon/ops/filter.h"
#include "daemon/ops/operation_inside.h"
#include "kernels/topk.h"

uint64_t work_times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX / 16 : product;
}

uint64_t work_rows(const struct job *j)
{
    return j->collection ? collection_rows(j->collection) : j->request.rows.rows;
}

uint32_t work_dimension(const struct job *j)
{
    const struct job_request *r = &j->request;
    if (j->collection) return collection_dimension(j->collection);
    return (uint32_t)smaller(is_present(&r->rows) ? r->rows.columns : r->queries.columns,
                             VECTOR_DIMENSION_MAX);
}

uint64_t work_best_bytes(const struct job *j, uint64_t rows)
{
    uint64_t columns = smaller(smaller(j->request.k, TOPK_K_MAX), rows);
    return work_times(j->request.queries.rows, columns * WORK_BEST_BYTES + sizeof(uint32_t));
}

struct work operation_work(const struct job *j)
{
    const struct operation_ops *ops = operation_find(j->operation);
    struct work w = {
        .operation = j->operation,
        .stride = (uint32_t)vector_stride(work_dimension(j)),
        .filtered = filter_is_given(j),
        .bytes_in = j->body_bytes,
    };
    if (ops && ops->work) ops->work(j, &w);
    w.gpu_able = ops && ops->gpu_pairs && ops->gpu_pairs(j);
    return w;
}

/* The operation's own functions decide only where the table allows it. A part stays as it is. */
static bool is_joined(const struct job *j)
{
    return operation_row(j->operation)->joined && !j->whole;
}

bool operation_batches(const struct job *j)
{
    const struct operation_ops *ops = operation_find(j->operation);
    return ops && ops->batches && is_joined(j) && ops->batches(j);
}

const void *operation_batch_key(const struct job *j)
{
    if (!operation_batches(j)) return NULL;
    const struct operation_ops *ops = operation_find(j->operation);
    return ops->batch_key ? ops->batch_key(j) : j->collection;
}

bool operation_splits(const struct job *j)
{
    const struct operation_ops *ops = operation_find(j->operation);
    return ops && ops->splits && is_joined(j) && ops->splits(j);
}
