#include "daemon/wire/encode.h"

#include <stdio.h>
#include <string.h>

#include <pb_encode.h>

#include "kernels/vectors.h"
#include "proto/engram_accel.pb.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The longest messages leave room for header and padding; nanopb knows their sizes. */
_Static_assert(engram_accel_v1_CollectionListReply_size + FRAME_HEADER_BYTES + FRAME_ALIGN <=
                       ENCODE_BYTES_MAX &&
                   engram_accel_v1_InfoReply_size + FRAME_HEADER_BYTES + FRAME_ALIGN <=
                       ENCODE_BYTES_MAX &&
                   engram_accel_v1_StatsReply_size + FRAME_HEADER_BYTES + FRAME_ALIGN <=
                       ENCODE_BYTES_MAX,
               "ENCODE_BYTES_MAX holds every reply");

/* Text that does not fit is cut: none of it is meant to be parsed. */
#define COPY_TEXT(array, text) snprintf((array), sizeof(array), "%s", (text) ? (text) : "")

static size_t write_frame(struct frame_header h, const pb_msgdesc_t *fields, const void *message,
                          void *buffer)
{
    char *bytes = buffer;
    pb_ostream_t out = pb_ostream_from_buffer((pb_byte_t *)bytes + FRAME_HEADER_BYTES,
                                              ENCODE_BYTES_MAX - FRAME_HEADER_BYTES);
    /* It cannot fail: the buffer holds the schema's longest message and no string is unbounded. */
    if (!pb_encode(&out, fields, message)) out.bytes_written = 0;
    h.message_bytes = (uint32_t)out.bytes_written;
    h.flags |= FRAME_FLAG_REPLY;
    frame_write(&h, buffer);
    size_t used = FRAME_HEADER_BYTES + out.bytes_written, total = frame_align(used);
    memset(bytes + used, 0, total - used);
    return total;
}

static engram_accel_v1_Limits limits_of(const struct wire_limits *l)
{
    return (engram_accel_v1_Limits){
        .message_bytes_max = FRAME_MESSAGE_BYTES_MAX,
        .body_bytes_max = l->body_bytes_max,
        .reply_bytes_max = l->reply_bytes_max,
        .dimension_max = l->dimension_max,
        .k_max = l->k_max,
        .in_flight_max = l->in_flight_max,
    };
}

static engram_accel_v1_Meta meta_of(const struct job *j)
{
    engram_accel_v1_Meta m = {
        .backend = (engram_accel_v1_Backend)j->backend,
        .reason = (engram_accel_v1_Reason)j->reason,
        .copy_ns = j->copy_ns,
        .version = j->result.version,
    };
    if (j->started_ns > j->received_ns) m.queue_ns = j->started_ns - j->received_ns;
    if (j->started_ns && j->finished_ns > j->started_ns) m.run_ns = j->finished_ns - j->started_ns;
    return m;
}

/* Retrying helps where a code says so, but not against a bound that the request itself breaks. */
static bool failure_retryable(const struct failure *f)
{
    switch (f->detail) {
    case DETAIL_MESSAGE_TOO_LARGE:
    case DETAIL_BODY_TOO_LARGE:
    case DETAIL_REPLY_TOO_LARGE:
    case DETAIL_TOO_MANY_ROWS: return false;
    default: return status_retryable(f->code);
    }
}

size_t encode_error(uint8_t kind, uint64_t request_id, const struct failure *f, void *buffer)
{
    engram_accel_v1_Error m = {
        .code = f->code,
        .detail = f->detail,
        .retryable = failure_retryable(f),
        .retry_after_ms = f->retry_after_ms,
    };
    COPY_TEXT(m.message, f->text);
    struct frame_header h = {.kind = kind, .flags = FRAME_FLAG_ERROR, .request_id = request_id};
    return write_frame(h, engram_accel_v1_Error_fields, &m, buffer);
}

size_t encode_hello(uint64_t request_id, const struct wire_hello *hello, void *buffer)
{
    engram_accel_v1_HelloReply m = {
        .version = hello->version,
        .features = hello->features,
        .instance = hello->instance,
        .has_limits = true,
        .limits = limits_of(&hello->limits),
    };
    COPY_TEXT(m.server_version, hello->server_version);
    COPY_TEXT(m.space, hello->space);
    struct frame_header h = {.kind = OPERATION_HELLO, .request_id = request_id};
    return write_frame(h, engram_accel_v1_HelloReply_fields, &m, buffer);
}

size_t encode_ping(uint64_t request_id, void *buffer)
{
    struct frame_header h = {
        .kind = OPERATION_PING, .flags = FRAME_FLAG_REPLY, .request_id = request_id};
    frame_write(&h, buffer);
    memset((char *)buffer + FRAME_HEADER_BYTES, 0, FRAME_ALIGN - FRAME_HEADER_BYTES);
    return FRAME_ALIGN;
}

static void fill_gpu(engram_accel_v1_GpuInfo *m, const struct wire_gpu *g)
{
    *m = (engram_accel_v1_GpuInfo){
        .number = g->number,
        .state = (engram_accel_v1_GpuState)g->state,
        .capability_major = g->capability_major,
        .capability_minor = g->capability_minor,
        .multiprocessors = g->multiprocessors,
        .memory_bytes = g->memory_bytes,
        .memory_free_bytes = g->memory_free_bytes,
        .budget_bytes = g->budget_bytes,
        .ecc = g->ecc,
        .managed = g->managed,
        .concurrent_managed = g->concurrent_managed,
        .virtual_memory = g->virtual_memory,
        .simulated = g->simulated,
        .driver_version = g->driver_version,
        .runtime_version = g->runtime_version,
        .restarts = g->restarts,
        .uptime_ns = g->uptime_ns,
    };
    COPY_TEXT(m->why, g->why);
    COPY_TEXT(m->name, g->name);
    COPY_TEXT(m->uuid, g->uuid);
}

size_t encode_info(uint64_t request_id, const struct wire_info *info, void *buffer)
{
    engram_accel_v1_InfoReply m = {
        .workers = info->workers,
        .uptime_ns = info->uptime_ns,
        .memory_bytes_max = info->memory_bytes_max,
        .memory_bytes_used = info->memory_bytes_used,
        .connections = info->connections,
        .has_limits = true,
        .limits = limits_of(&info->limits),
        .instance = info->instance,
        .process_id = info->process_id,
    };
    COPY_TEXT(m.server_version, info->server_version);
    COPY_TEXT(m.build, info->build);
    COPY_TEXT(m.cpu_features, info->cpu_features);
    COPY_TEXT(m.kernels, info->kernels);
    COPY_TEXT(m.gpu, info->gpu);
    while (m.gpus_count < info->gpu_count && m.gpus_count < COUNT(m.gpus)) {
        fill_gpu(&m.gpus[m.gpus_count], &info->gpus[m.gpus_count]);
        m.gpus_count++;
    }
    struct frame_header h = {.kind = OPERATION_INFO, .request_id = request_id};
    return write_frame(h, engram_accel_v1_InfoReply_fields, &m, buffer);
}

static engram_accel_v1_GpuStats gpu_stats_of(const struct wire_gpu_stats *g)
{
    return (engram_accel_v1_GpuStats){
        .number = g->number,
        .state = (engram_accel_v1_GpuState)g->state,
        .replica_bytes = g->replica_bytes,
        .request_bytes = g->request_bytes,
        .slab_bytes = g->slab_bytes,
        .free_bytes = g->free_bytes,
        .budget_bytes = g->budget_bytes,
        .pinned_bytes = g->pinned_bytes,
        .replicas = g->replicas,
        .streams = g->streams,
        .uploads = g->uploads,
        .upload_bytes = g->upload_bytes,
        .upload_ns = g->upload_ns,
        .evictions = g->evictions,
        .runs = g->runs,
        .run_ns = g->run_ns,
        .errors = g->errors,
        .no_memory = g->no_memory,
        .restarts = g->restarts,
        .jobs_in_flight = g->jobs_in_flight,
        .uptime_ns = g->uptime_ns,
    };
}

static void fill_gpus_and_routes(engram_accel_v1_StatsReply *m, const struct wire_stats *s)
{
    while (m->gpus_count < s->gpu_count && m->gpus_count < COUNT(m->gpus)) {
        m->gpus[m->gpus_count] = gpu_stats_of(&s->gpus[m->gpus_count]);
        m->gpus_count++;
    }
    while (m->routes_count < s->route_count && m->routes_count < COUNT(m->routes)) {
        const struct wire_route *r = &s->routes[m->routes_count];
        m->routes[m->routes_count++] = (engram_accel_v1_RouteStats){
            .backend = (engram_accel_v1_Backend)r->backend,
            .reason = (engram_accel_v1_Reason)r->reason,
            .requests = r->requests,
        };
    }
}

size_t encode_stats(uint64_t request_id, const struct wire_stats *s, void *buffer)
{
    engram_accel_v1_StatsReply m = {
        .connections_open = s->connections_open,
        .connections_total = s->connections_total,
        .connections_refused = s->connections_refused,
        .connections_dropped = s->connections_dropped,
        .requests_total = s->requests_total,
        .errors_total = s->errors_total,
        .cancelled_total = s->cancelled_total,
        .deadline_exceeded_total = s->deadline_exceeded_total,
        .bytes_in = s->bytes_in,
        .bytes_out = s->bytes_out,
        .queue_depth = s->queue_depth,
        .jobs_in_flight = s->jobs_in_flight,
        .memory_bytes_used = s->memory_bytes_used,
        .memory_bytes_peak = s->memory_bytes_peak,
        .collections = s->collections,
        .rows = s->rows,
        .uptime_ns = s->uptime_ns,
        .vram_bytes = s->vram_bytes,
    };
    while (m.operations_count < s->operation_count && m.operations_count < COUNT(m.operations)) {
        const struct wire_operation_stats *o = &s->operations[m.operations_count];
        m.operations[m.operations_count++] = (engram_accel_v1_OperationStats){
            .kind = (engram_accel_v1_Kind)o->operation,
            .requests = o->requests,
            .errors = o->errors,
            .total_ns = o->total_ns,
            .p50_ns = o->p50_ns,
            .p90_ns = o->p90_ns,
            .p99_ns = o->p99_ns,
            .max_ns = o->max_ns,
        };
    }
    fill_gpus_and_routes(&m, s);
    struct frame_header h = {.kind = OPERATION_STATS, .request_id = request_id};
    return write_frame(h, engram_accel_v1_StatsReply_fields, &m, buffer);
}

size_t encode_cancel(uint64_t request_id, bool found, void *buffer)
{
    engram_accel_v1_CancelReply m = {.found = found};
    struct frame_header h = {.kind = OPERATION_CANCEL, .request_id = request_id};
    return write_frame(h, engram_accel_v1_CancelReply_fields, &m, buffer);
}

/* ---- collections ---- */

static void fill_collection(engram_accel_v1_CollectionInfo *m, const struct collection_info *info)
{
    *m = (engram_accel_v1_CollectionInfo){
        .dimension = info->dimension,
        .metric = (engram_accel_v1_Metric)info->metric,
        .rows = info->rows,
        .version = info->version,
        .row_bytes = info->row_bytes,
        .index_bytes = info->index_bytes,
        .vram_bytes = info->vram_bytes,
        .vram_version = info->vram_version,
    };
    COPY_TEXT(m->name, info->name);
}

size_t encode_collection(enum operation operation, uint64_t request_id, const struct job *j,
                         const struct collection_info *info, void *buffer)
{
    struct frame_header h = {.kind = (uint8_t)operation, .request_id = request_id};
    if (operation == OPERATION_COLLECTION_DESCRIBE) {
        engram_accel_v1_CollectionDescribeReply m = {.has_collection = true};
        fill_collection(&m.collection, info);
        return write_frame(h, engram_accel_v1_CollectionDescribeReply_fields, &m, buffer);
    }
    engram_accel_v1_CollectionCreateReply m = {.has_meta = j != NULL, .has_collection = true};
    if (j) m.meta = meta_of(j);
    fill_collection(&m.collection, info);
    return write_frame(h, engram_accel_v1_CollectionCreateReply_fields, &m, buffer);
}

size_t encode_collection_list(uint64_t request_id, const struct collection_info *infos,
                              size_t count, bool more, void *buffer)
{
    engram_accel_v1_CollectionListReply m;
    m.collections_count = 0;
    m.more = more || count > COUNT(m.collections);
    while (m.collections_count < count && m.collections_count < COUNT(m.collections)) {
        fill_collection(&m.collections[m.collections_count], &infos[m.collections_count]);
        m.collections_count++;
    }
    struct frame_header h = {.kind = OPERATION_COLLECTION_LIST, .request_id = request_id};
    return write_frame(h, engram_accel_v1_CollectionListReply_fields, &m, buffer);
}

/* ---- results ---- */

/* One tensor field of a reply. */
struct slot {
    bool *present;
    engram_accel_v1_Tensor *wire;
    enum dtype dtype;
};
#define SLOT(message, member, type)                        \
    {                                                      \
        &(message).has_##member, &(message).member, (type) \
    }

/* Gives the result's tensors to the reply's fields. Both stand in body order, and within one reply
 * neighbours differ in dtype; so a field that the result leaves out is found by its dtype, whether
 * its tensor is marked absent or was never counted. */
static void fill_slots(const struct job *j, const struct slot *slots, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < JOB_TENSORS_MAX; i++) {
        const struct tensor *t = &j->result.tensors[i];
        if (t->dtype == DTYPE_NONE) continue;
        while (next < count && slots[next].dtype != t->dtype)
            next++;
        if (next == count) return;
        *slots[next].present = true;
        *slots[next++].wire = (engram_accel_v1_Tensor){
            .dtype = (engram_accel_v1_Dtype)t->dtype, .rows = t->rows, .columns = t->columns};
    }
}

static size_t encode_writes(const struct job *j, struct frame_header h, void *buffer)
{
    const struct job_result *r = &j->result;
    if (j->operation == OPERATION_UPSERT) {
        engram_accel_v1_UpsertReply m = {.has_meta = true,
                                         .meta = meta_of(j),
                                         .inserted = r->counts[0],
                                         .replaced = r->counts[1],
                                         .rows = r->rows};
        return write_frame(h, engram_accel_v1_UpsertReply_fields, &m, buffer);
    }
    if (j->operation == OPERATION_DELETE) {
        engram_accel_v1_DeleteReply m = {.has_meta = true,
                                         .meta = meta_of(j),
                                         .deleted = r->counts[0],
                                         .missing = r->counts[1],
                                         .rows = r->rows};
        return write_frame(h, engram_accel_v1_DeleteReply_fields, &m, buffer);
    }
    engram_accel_v1_CollectionDropReply m = {
        .has_meta = true, .meta = meta_of(j), .rows = r->counts[0]};
    return write_frame(h, engram_accel_v1_CollectionDropReply_fields, &m, buffer);
}

static size_t encode_similarity(const struct job *j, struct frame_header h, void *buffer)
{
    engram_accel_v1_SimilarityReply m = {.has_meta = true, .meta = meta_of(j)};
    const struct slot slots[] = {SLOT(m, ids, DTYPE_UINT64), SLOT(m, scores, DTYPE_FLOAT32),
                                 SLOT(m, offsets, DTYPE_UINT64)};
    fill_slots(j, slots, COUNT(slots));
    return write_frame(h, engram_accel_v1_SimilarityReply_fields, &m, buffer);
}

static size_t encode_hits(const struct job *j, struct frame_header h, void *buffer)
{
    if (j->operation == OPERATION_SCORE_CANDIDATES) {
        engram_accel_v1_ScoreCandidatesReply m = {.has_meta = true, .meta = meta_of(j)};
        const struct slot slots[] = {SLOT(m, ids, DTYPE_UINT64), SLOT(m, scores, DTYPE_FLOAT32),
                                     SLOT(m, counts, DTYPE_UINT32)};
        fill_slots(j, slots, COUNT(slots));
        return write_frame(h, engram_accel_v1_ScoreCandidatesReply_fields, &m, buffer);
    }
    engram_accel_v1_KnnReply m = {.has_meta = true, .meta = meta_of(j)};
    const struct slot slots[] = {SLOT(m, ids, DTYPE_UINT64), SLOT(m, scores, DTYPE_FLOAT32),
                                 SLOT(m, counts, DTYPE_UINT32)};
    fill_slots(j, slots, COUNT(slots));
    return write_frame(h, engram_accel_v1_KnnReply_fields, &m, buffer);
}

static size_t encode_vectors(const struct job *j, struct frame_header h, void *buffer)
{
    if (j->operation == OPERATION_NORMS) {
        engram_accel_v1_NormsReply m = {.has_meta = true, .meta = meta_of(j)};
        const struct slot slots[] = {SLOT(m, norms, DTYPE_FLOAT32)};
        fill_slots(j, slots, COUNT(slots));
        return write_frame(h, engram_accel_v1_NormsReply_fields, &m, buffer);
    }
    if (j->operation == OPERATION_WEIGHTED_AVERAGE) {
        engram_accel_v1_WeightedAverageReply m = {.has_meta = true, .meta = meta_of(j)};
        const struct slot slots[] = {SLOT(m, average, DTYPE_FLOAT32)};
        fill_slots(j, slots, COUNT(slots));
        return write_frame(h, engram_accel_v1_WeightedAverageReply_fields, &m, buffer);
    }
    engram_accel_v1_FetchReply m = {
        .has_meta = true, .meta = meta_of(j), .missing = j->result.counts[0]};
    const struct slot slots[] = {SLOT(m, ids, DTYPE_UINT64), SLOT(m, found, DTYPE_UINT8),
                                 SLOT(m, rows, DTYPE_FLOAT32)};
    fill_slots(j, slots, COUNT(slots));
    return write_frame(h, engram_accel_v1_FetchReply_fields, &m, buffer);
}

size_t encode_result(const struct job *j, void *buffer)
{
    struct frame_header h = {.kind = (uint8_t)j->operation,
                             .request_id = j->key.request_id,
                             .body_bytes = j->result.body_bytes};
    switch (j->operation) {
    case OPERATION_SIMILARITY: return encode_similarity(j, h, buffer);
    case OPERATION_KNN:
    case OPERATION_SCORE_CANDIDATES: return encode_hits(j, h, buffer);
    case OPERATION_NORMS:
    case OPERATION_WEIGHTED_AVERAGE:
    case OPERATION_FETCH: return encode_vectors(j, h, buffer);
    default: return encode_writes(j, h, buffer);
    }
}
