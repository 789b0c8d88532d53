#include "daemon/wire/decode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <pb_decode.h>

#include "daemon/store/space.h"
#include "daemon/wire/decode_inside.h"
#include "daemon/wire/text.h"
#include "kernels/topk.h"

/* The table of operations is the schema's. */
#define SAME_NUMBER(NAME)                                                          \
    _Static_assert((int)OPERATION_##NAME == (int)engram_accel_v1_Kind_KIND_##NAME, \
                   "the schema's number of " #NAME);
#define ANSWERED(NAME, ...)  SAME_NUMBER(NAME)
#define OPERATION(NAME, ...) SAME_NUMBER(NAME)
#include "proto/operations.def"
SAME_NUMBER(SPREAD_ENGRAM)

enum { LAST_MAX = 64 };

enum status decode_bad(struct failure *f, enum detail detail, const char *text)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, detail, "%s", text);
}

static enum status decode_message(const void *message, uint32_t message_bytes,
                                  const pb_msgdesc_t *fields, void *out, struct failure *f)
{
    pb_istream_t in = pb_istream_from_buffer(message, message_bytes);
    if (pb_decode(&in, fields, out)) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, "message: %s",
                       PB_GET_ERROR(&in));
}

enum status decode_named(const struct decode_request *r, const char *label,
                         const pb_msgdesc_t *fields, void *out)
{
    const struct text_rule rule = {label, 1, COLLECTION_NAME_MAX, DETAIL_BAD_NAME, false};
    enum status st = text_check(r->message, r->message_bytes, &rule, 1, r->f);
    if (st) return st;
    return decode_message(r->message, r->message_bytes, fields, out, r->f);
}

enum status decode_place(const struct decode_request *r, const struct body_field *fields,
                         size_t count)
{
    return body_place(fields, count, r->body, r->body_bytes, r->f);
}

void decode_take_name(const struct decode_request *r, const char *name)
{
    memcpy(r->out->collection, name, strlen(name) + 1); /* text_check has limited its length */
}

/* ---- what several requests have in common; tensors are placed ---- */

enum status decode_same_rows(const struct decode_request *r, const char *name,
                             const struct tensor *a, const char *other, const struct tensor *b)
{
    if (a->rows == b->rows) return STATUS_OK;
    return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "%s: %" PRIu64 " rows, %s have %" PRIu64, name, a->rows, other, b->rows);
}

static enum status check_same_columns(const struct decode_request *r)
{
    const struct job_request *q = r->out;
    if (q->rows.dtype == DTYPE_NONE || q->queries.columns == q->rows.columns) return STATUS_OK;
    return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "queries: %" PRIu64 " columns, rows have %" PRIu64, q->queries.columns,
                       q->rows.columns);
}

/* Either a collection or inline rows. */
static enum status check_target(const struct decode_request *r, bool inline_rows)
{
    bool named = r->out->collection[0] != '\0';
    if (inline_rows && named)
        return decode_bad(r->f, DETAIL_BAD_SHAPE,
                          "rows: inline rows and a collection exclude each other");
    if (!inline_rows && !named)
        return decode_bad(r->f, DETAIL_BAD_NAME, "collection: empty, and no inline rows either");
    return STATUS_OK;
}

static enum status check_metric(const struct decode_request *r, unsigned metric, bool required)
{
    if (metric == 0 && required)
        return decode_bad(r->f, DETAIL_BAD_METRIC, "metric: missing; 1 cosine, 2 dot, 3 euclidean");
    if (metric > METRIC_SQUARED_EUCLIDEAN)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC,
                           "metric: %u, 1 to %d wanted", metric, METRIC_SQUARED_EUCLIDEAN);
    r->out->metric = metric;
    return STATUS_OK;
}

static enum status take_threshold(const struct decode_request *r, bool present, float threshold)
{
    if (!present) return STATUS_OK;
    if (isnan(threshold)) return decode_bad(r->f, DETAIL_BAD_THRESHOLD, "threshold: not a number");
    r->out->has_threshold = true;
    r->out->threshold = threshold;
    return STATUS_OK;
}

enum status decode_filter(const struct decode_request *r, const char *name)
{
    const struct job_request *q = r->out;
    if (q->filter_ids.dtype == DTYPE_NONE || q->filter_bitmap.dtype == DTYPE_NONE) return STATUS_OK;
    return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FILTER,
                       "%s: ids and bitmap exclude each other", name);
}

static enum status check_filter(const struct decode_request *r, bool inline_rows)
{
    const struct job_request *q = r->out;
    enum status st = decode_filter(r, "filter");
    if (!st && inline_rows &&
        (q->filter_ids.dtype != DTYPE_NONE || q->filter_bitmap.dtype != DTYPE_NONE))
        st = decode_bad(r->f, DETAIL_BAD_FILTER, "filter: inline rows have no ids to filter by");
    return st;
}

static enum status check_k(const struct decode_request *r, uint32_t k, uint32_t least)
{
    if (k < least || k > TOPK_K_MAX)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                           "k: %" PRIu32 ", %" PRIu32 " to %d wanted", k, least, TOPK_K_MAX);
    r->out->k = k;
    return STATUS_OK;
}

enum status decode_rising(const struct decode_request *r, const char *name, const struct tensor *t,
                          uint64_t n, const char *what)
{
    const uint64_t *offsets = t->data;
    uint64_t lists = t->rows - 1;
    if (offsets[0] != 0)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "%s: the first is %" PRIu64 ", 0 wanted", name, offsets[0]);
    for (uint64_t i = 0; i < lists; i++)
        if (offsets[i + 1] < offsets[i])
            return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                               "%s: number %" PRIu64 " goes back from %" PRIu64 " to %" PRIu64,
                               name, i + 1, offsets[i], offsets[i + 1]);
    if (offsets[lists] != n)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "%s: the last is %" PRIu64 ", %" PRIu64 " %s given", name,
                           offsets[lists], n, what);
    return STATUS_OK;
}

/* Checks candidate lists: q + 1 rising offsets from 0 to n. */
static enum status check_offsets(const struct decode_request *r, uint64_t n)
{
    const struct tensor *t = &r->out->offsets;
    uint64_t q = r->out->queries.rows;
    if (t->dtype == DTYPE_NONE) {
        if (q == 1 || (q == 0 && n == 0)) return STATUS_OK;
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "offsets: missing for %" PRIu64 " queries", q);
    }
    if (t->rows == 0 || t->rows - 1 != q)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "offsets: %" PRIu64 " for %" PRIu64 " queries, one more wanted", t->rows,
                           q);
    return decode_rising(r, "offsets", t, n, "candidates");
}

/* ---- one function per kind ---- */

static enum status decode_empty(const struct decode_request *r, const pb_msgdesc_t *fields)
{
    if (r->message_bytes) { /* unknown fields are allowed: a newer client may send them */
        engram_accel_v1_PingRequest none;
        enum status st = decode_message(r->message, r->message_bytes, fields, &none, r->f);
        if (st) return st;
    }
    return decode_place(r, NULL, 0);
}

static enum status decode_cancel(const struct decode_request *r)
{
    engram_accel_v1_CancelRequest m;
    enum status st = decode_message(r->message, r->message_bytes,
                                    engram_accel_v1_CancelRequest_fields, &m, r->f);
    if (st) return st;
    r->out->cancel_request_id = m.request_id;
    return decode_place(r, NULL, 0);
}

static enum status decode_explain(const struct decode_request *r)
{
    engram_accel_v1_ExplainRequest m;
    enum status st = decode_message(r->message, r->message_bytes,
                                    engram_accel_v1_ExplainRequest_fields, &m, r->f);
    if (st) return st;
    if (m.last > LAST_MAX)
        return failure_set(r->f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                           "last: %" PRIu32 ", 0 to %d wanted", m.last, LAST_MAX);
    r->out->last = m.last;
    return decode_place(r, NULL, 0);
}

static enum status decode_create(const struct decode_request *r)
{
    engram_accel_v1_CollectionCreateRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_CollectionCreateRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    r->out->dimension = m.dimension;
    st = check_metric(r, (unsigned)m.metric, true);
    if (st) return st;
    return decode_place(r, NULL, 0);
}

static enum status decode_drop(const struct decode_request *r)
{
    engram_accel_v1_CollectionDropRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_CollectionDropRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    return decode_place(r, NULL, 0);
}

static enum status decode_list(const struct decode_request *r)
{
    engram_accel_v1_CollectionListRequest m;
    enum status st = decode_named(r, "after", engram_accel_v1_CollectionListRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.after);
    return decode_place(r, NULL, 0);
}

static enum status decode_describe(const struct decode_request *r)
{
    engram_accel_v1_CollectionDescribeRequest m;
    enum status st = decode_named(r, "name", engram_accel_v1_CollectionDescribeRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.name);
    return decode_place(r, NULL, 0);
}

static enum status decode_upsert(const struct decode_request *r)
{
    engram_accel_v1_UpsertRequest m;
    enum status st = decode_named(r, "collection", engram_accel_v1_UpsertRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, true, DTYPE_UINT64, false, r->out->ids),
        FIELD(m, "rows", rows, true, DTYPE_FLOAT32, true, r->out->rows),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (st) return st;
    return decode_same_rows(r, "ids", &r->out->ids, "rows", &r->out->rows);
}

static enum status decode_delete(const struct decode_request *r)
{
    engram_accel_v1_DeleteRequest m;
    enum status st = decode_named(r, "collection", engram_accel_v1_DeleteRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, true, DTYPE_UINT64, false, r->out->ids),
    };
    return decode_place(r, fields, COUNT(fields));
}

static enum status decode_fetch(const struct decode_request *r)
{
    engram_accel_v1_FetchRequest m;
    enum status st = decode_named(r, "collection", engram_accel_v1_FetchRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    r->out->offset = m.offset;
    r->out->limit = m.limit;
    const struct body_field fields[] = {
        FIELD(m, "ids", ids, false, DTYPE_UINT64, false, r->out->ids),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st && m.has_ids && (m.offset || m.limit))
        st =
            decode_bad(r->f, DETAIL_BAD_SHAPE, "ids: offset and limit are for a fetch without ids");
    return st;
}

static enum status decode_similarity(const struct decode_request *r)
{
    engram_accel_v1_SimilarityRequest m;
    enum status st = decode_named(r, "collection", engram_accel_v1_SimilarityRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    r->out->filter_bitmap_first = m.filter.bitmap_first;
    const struct body_field fields[] = {
        FIELD(m, "queries", queries, true, DTYPE_FLOAT32, true, r->out->queries),
        FIELD(m.filter, "filter.ids", ids, false, DTYPE_UINT64, false, r->out->filter_ids),
        FIELD(m.filter, "filter.bitmap", bitmap, false, DTYPE_UINT8, false, r->out->filter_bitmap),
        FIELD(m, "rows", rows, false, DTYPE_FLOAT32, true, r->out->rows),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = check_target(r, m.has_rows);
    if (!st) st = check_filter(r, m.has_rows);
    if (!st) st = check_same_columns(r);
    if (!st) st = check_metric(r, (unsigned)m.metric, m.has_rows);
    if (!st && !m.has_rows && m.metric)
        st = decode_bad(r->f, DETAIL_BAD_METRIC,
                        "metric: only with inline rows; a collection has its own");
    if (!st) st = take_threshold(r, m.has_threshold, m.threshold);
    return st;
}

static enum status decode_knn(const struct decode_request *r)
{
    engram_accel_v1_KnnRequest m;
    enum status st = decode_named(r, "collection", engram_accel_v1_KnnRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    r->out->filter_bitmap_first = m.filter.bitmap_first;
    const struct body_field fields[] = {
        FIELD(m, "queries", queries, true, DTYPE_FLOAT32, true, r->out->queries),
        FIELD(m.filter, "filter.ids", ids, false, DTYPE_UINT64, false, r->out->filter_ids),
        FIELD(m.filter, "filter.bitmap", bitmap, false, DTYPE_UINT8, false, r->out->filter_bitmap),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st) st = check_filter(r, false);
    if (!st) st = check_k(r, m.k, 1);
    if (!st) st = take_threshold(r, m.has_threshold, m.threshold);
    return st;
}

static enum status decode_score(const struct decode_request *r)
{
    engram_accel_v1_ScoreCandidatesRequest m;
    enum status st =
        decode_named(r, "collection", engram_accel_v1_ScoreCandidatesRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    const struct body_field fields[] = {
        FIELD(m, "queries", queries, true, DTYPE_FLOAT32, true, r->out->queries),
        FIELD(m, "offsets", offsets, false, DTYPE_UINT64, false, r->out->offsets),
        FIELD(m, "ids", ids, false, DTYPE_UINT64, false, r->out->ids),
        FIELD(m, "rows", rows, false, DTYPE_FLOAT32, true, r->out->rows),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st && m.has_ids == m.has_rows)
        st = decode_bad(r->f, DETAIL_BAD_SHAPE,
                        m.has_ids ? "rows: ids and rows exclude each other"
                                  : "ids: missing, and no inline rows either");
    if (!st) st = check_target(r, m.has_rows);
    if (!st) st = check_same_columns(r);
    if (!st) st = check_metric(r, (unsigned)m.metric, m.has_rows);
    if (!st) st = check_k(r, m.k, 0);
    if (!st) st = check_offsets(r, m.has_rows ? r->out->rows.rows : r->out->ids.rows);
    return st;
}

static enum status decode_norms(const struct decode_request *r)
{
    engram_accel_v1_NormsRequest m;
    enum status st =
        decode_message(r->message, r->message_bytes, engram_accel_v1_NormsRequest_fields, &m, r->f);
    if (st) return st;
    const struct body_field fields[] = {
        FIELD(m, "rows", rows, true, DTYPE_FLOAT32, true, r->out->rows),
    };
    return decode_place(r, fields, COUNT(fields));
}

static enum status decode_average(const struct decode_request *r)
{
    engram_accel_v1_WeightedAverageRequest m;
    enum status st =
        decode_named(r, "collection", engram_accel_v1_WeightedAverageRequest_fields, &m);
    if (st) return st;
    decode_take_name(r, m.collection);
    const struct body_field fields[] = {
        FIELD(m, "weights", weights, true, DTYPE_FLOAT32, false, r->out->weights),
        FIELD(m, "rows", rows, false, DTYPE_FLOAT32, true, r->out->rows),
        FIELD(m, "ids", ids, false, DTYPE_UINT64, false, r->out->ids),
    };
    st = decode_place(r, fields, COUNT(fields));
    if (!st && m.has_ids == m.has_rows)
        st = decode_bad(r->f, DETAIL_BAD_SHAPE,
                        m.has_ids ? "rows: ids and rows exclude each other"
                                  : "ids: missing, and no inline rows either");
    if (!st) st = check_target(r, m.has_rows);
    if (!st)
        st = m.has_rows ? decode_same_rows(r, "weights", &r->out->weights, "rows", &r->out->rows)
                        : decode_same_rows(r, "weights", &r->out->weights, "ids", &r->out->ids);
    return st;
}

enum status decode_hello(const void *message, uint32_t message_bytes, struct hello *out,
                         struct failure *f)
{
    static const struct text_rule rules[] = {
        {"client_name", 3, 64, DETAIL_BAD_NAME, true},
        {"space", 4, 128, DETAIL_BAD_SPACE, false},
    };
    enum status st = text_check(message, message_bytes, rules, COUNT(rules), f);
    if (st) return st;
    engram_accel_v1_HelloRequest m;
    st = decode_message(message, message_bytes, engram_accel_v1_HelloRequest_fields, &m, f);
    if (st) return st;
    if (m.version_min > m.version_max)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_VERSION,
                           "version: from %" PRIu32 " to %" PRIu32, m.version_min, m.version_max);

    *out = (struct hello){
        .version_min = m.version_min,
        .version_max = m.version_max,
        .features = m.features,
        .token_bytes = m.token.size,
    };
    memcpy(out->client_name, m.client_name, sizeof out->client_name);
    memcpy(out->space, m.space, sizeof out->space);
    memcpy(out->token, m.token.bytes, m.token.size);
    return STATUS_OK;
}

enum status decode_request(const struct frame_header *header, const void *message, void *body,
                           struct job *j)
{
    memset(&j->request, 0, sizeof j->request);
    j->operation = OPERATION_NONE;
    j->failure = (struct failure){0};
    const struct decode_request r = {
        .message = message,
        .message_bytes = header->message_bytes,
        .body = body,
        .body_bytes = header->body_bytes,
        .out = &j->request,
        .f = &j->failure,
    };
    j->operation = header->kind;
    switch (j->operation) {
    case OPERATION_PING: return decode_empty(&r, engram_accel_v1_PingRequest_fields);
    case OPERATION_INFO: return decode_empty(&r, engram_accel_v1_InfoRequest_fields);
    case OPERATION_STATS: return decode_empty(&r, engram_accel_v1_StatsRequest_fields);
    case OPERATION_CANCEL: return decode_cancel(&r);
    case OPERATION_EXPLAIN: return decode_explain(&r);
    case OPERATION_COLLECTION_CREATE: return decode_create(&r);
    case OPERATION_COLLECTION_DROP: return decode_drop(&r);
    case OPERATION_COLLECTION_LIST: return decode_list(&r);
    case OPERATION_COLLECTION_DESCRIBE: return decode_describe(&r);
    case OPERATION_UPSERT: return decode_upsert(&r);
    case OPERATION_DELETE: return decode_delete(&r);
    case OPERATION_FETCH: return decode_fetch(&r);
    case OPERATION_SIMILARITY: return decode_similarity(&r);
    case OPERATION_KNN: return decode_knn(&r);
    case OPERATION_SCORE_CANDIDATES: return decode_score(&r);
    case OPERATION_NORMS: return decode_norms(&r);
    case OPERATION_WEIGHTED_AVERAGE: return decode_average(&r);
    case OPERATION_SPREAD:
    case OPERATION_GRAPH_CREATE:
    case OPERATION_GRAPH_DROP:
    case OPERATION_GRAPH_LIST:
    case OPERATION_GRAPH_DESCRIBE:
    case OPERATION_GRAPH_ADD_EDGES:
    case OPERATION_GRAPH_ADD_CSR:
    case OPERATION_GRAPH_REMOVE_EDGES:
    case OPERATION_GRAPH_SET_NODES:
    case OPERATION_GRAPH_REMOVE_NODES:
    case OPERATION_GRAPH_FETCH_NODES: return decode_graph(&r, j->operation);
    case OPERATION_HELLO:
        return failure_set(r.f, STATUS_FAILED_PRECONDITION, DETAIL_HELLO_REQUIRED,
                           "hello: only as a connection's first frame");
    default:
        j->operation = OPERATION_NONE;
        return failure_set(r.f, STATUS_UNIMPLEMENTED, DETAIL_UNKNOWN_KIND, "frame: unknown kind %u",
                           header->kind);
    }
}
