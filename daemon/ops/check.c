#include "daemon/ops/check.h"

#include <inttypes.h>
#include <math.h>

#include "daemon/base/yield.h"
#include "kernels/topk.h"
#include "kernels/vectors.h"

enum status check_refuse(struct job *j, enum detail detail, const char *text)
{
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, detail, "%s", text);
}

enum status check_same_rows(struct job *j, const char *name, const struct tensor *a,
                            const char *other, const struct tensor *b)
{
    if (a->rows == b->rows) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "%s: %" PRIu64 " rows, %s have %" PRIu64, name, a->rows, other, b->rows);
}

enum status check_same_columns(struct job *j)
{
    const struct job_request *q = &j->request;
    if (q->rows.dtype == DTYPE_NONE || q->queries.columns == q->rows.columns) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "queries: %" PRIu64 " columns, rows have %" PRIu64, q->queries.columns,
                       q->rows.columns);
}

/* A request has either a collection or inline rows. */
enum status check_target(struct job *j)
{
    bool inline_rows = check_inline(j), named = j->request.names[0][0] != '\0';
    if (inline_rows && named)
        return check_refuse(j, DETAIL_BAD_SHAPE,
                            "rows: inline rows and a collection exclude each other");
    if (!inline_rows && !named)
        return check_refuse(j, DETAIL_BAD_NAME, "collection: empty, and no inline rows either");
    return STATUS_OK;
}

enum status check_metric(struct job *j, bool required)
{
    uint32_t metric = j->request.metric;
    if (metric == 0 && required)
        return check_refuse(j, DETAIL_BAD_METRIC, "metric: missing; 1 cosine, 2 dot, 3 euclidean");
    if (metric > METRIC_SQUARED_EUCLIDEAN)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC,
                           "metric: %u, 1 to %d wanted", metric, METRIC_SQUARED_EUCLIDEAN);
    return STATUS_OK;
}

enum status check_threshold(struct job *j)
{
    const struct job_request *q = &j->request;
    if (!q->has_threshold || !isnan(q->threshold)) return STATUS_OK;
    return check_refuse(j, DETAIL_BAD_THRESHOLD, "threshold: not a number");
}

enum status check_filter_kinds(struct job *j, const char *name)
{
    const struct job_request *q = &j->request;
    if (q->filter_ids.dtype == DTYPE_NONE || q->filter_bitmap.dtype == DTYPE_NONE) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FILTER,
                       "%s: ids and bitmap exclude each other", name);
}

enum status check_filter(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = check_filter_kinds(j, "filter");
    if (!st && check_inline(j) &&
        (q->filter_ids.dtype != DTYPE_NONE || q->filter_bitmap.dtype != DTYPE_NONE))
        st = check_refuse(j, DETAIL_BAD_FILTER, "filter: inline rows have no ids to filter by");
    return st;
}

enum status check_k(struct job *j, uint32_t least)
{
    uint32_t k = j->request.k;
    if (k < least || k > TOPK_K_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                           "k: %" PRIu32 ", %" PRIu32 " to %d wanted", k, least, TOPK_K_MAX);
    return STATUS_OK;
}

enum status check_rising(struct job *j, const char *name, const struct tensor *t, uint64_t n,
                         const char *what)
{
    const uint64_t *offsets = t->data;
    uint64_t lists = t->rows - 1;
    if (offsets[0] != 0)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "%s: the first is %" PRIu64 ", 0 wanted", name, offsets[0]);
    for (uint64_t i = 0; i < lists; i++) {
        if (i % CHECK_OFFSETS_MAX == 0) yield_check();
        if (offsets[i + 1] < offsets[i])
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                               "%s: number %" PRIu64 " goes back from %" PRIu64 " to %" PRIu64,
                               name, i + 1, offsets[i], offsets[i + 1]);
    }
    if (offsets[lists] != n)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "%s: the last is %" PRIu64 ", %" PRIu64 " %s given", name,
                           offsets[lists], n, what);
    return STATUS_OK;
}

/* A request has either ids, and then a collection, or inline rows. */
enum status check_ids_or_rows(struct job *j)
{
    bool ids = j->request.ids.dtype != DTYPE_NONE;
    if (ids == check_inline(j))
        return check_refuse(j, DETAIL_BAD_SHAPE,
                            ids ? "rows: ids and rows exclude each other"
                                : "ids: missing, and no inline rows either");
    return check_target(j);
}

/* Candidate lists are q + 1 rising offsets from 0 to n. */
enum status check_offsets(struct job *j, uint64_t n)
{
    const struct tensor *t = &j->request.offsets;
    uint64_t q = j->request.queries.rows;
    if (t->dtype == DTYPE_NONE) {
        if (q == 1 || (q == 0 && n == 0)) return STATUS_OK;
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "offsets: missing for %" PRIu64 " queries", q);
    }
    if (t->rows == 0 || t->rows - 1 != q)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "offsets: %" PRIu64 " for %" PRIu64 " queries, one more wanted", t->rows,
                           q);
    return check_later(t) ? STATUS_OK : check_rising(j, "offsets", t, n, "candidates");
}
