/* reports: what Info and Stats say -> the caller's structs. nanopb has bounded counts and texts;
 * numbers are passed on as they are. */
#include "client/client.h"

#include <string.h>

#define COPY(to, from) memcpy((to), (from), sizeof(to) < sizeof(from) ? sizeof(to) : sizeof(from))

void ea_text_plain(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

static void take_gpu(const engram_accel_v1_GpuInfo *m, ea_gpu_info *out)
{
    *out = (ea_gpu_info){
        .number = m->number,
        .state = (ea_gpu_state)m->state,
        .capability_major = m->capability_major,
        .capability_minor = m->capability_minor,
        .multiprocessors = m->multiprocessors,
        .driver_version = m->driver_version,
        .runtime_version = m->runtime_version,
        .memory_bytes = m->memory_bytes,
        .memory_free_bytes = m->memory_free_bytes,
        .budget_bytes = m->budget_bytes,
        .restarts = m->restarts,
        .uptime_ns = m->uptime_ns,
        .ecc = m->ecc,
        .managed = m->managed,
        .concurrent_managed = m->concurrent_managed,
        .virtual_memory = m->virtual_memory,
        .simulated = m->simulated,
    };
    COPY(out->why, m->why);
    COPY(out->name, m->name);
    COPY(out->uuid, m->uuid);
    ea_text_plain(out->why);
    ea_text_plain(out->name);
    ea_text_plain(out->uuid);
}

void ea_report_info(const engram_accel_v1_InfoReply *m, ea_info *out)
{
    COPY(out->server_version, m->server_version);
    COPY(out->build, m->build);
    COPY(out->cpu_features, m->cpu_features);
    COPY(out->kernels, m->kernels);
    COPY(out->gpu, m->gpu);
    ea_text_plain(out->gpu);
    out->workers = m->workers;
    out->connections = m->connections;
    out->process_id = m->process_id;
    out->uptime_ns = m->uptime_ns;
    out->memory_bytes_max = m->memory_bytes_max;
    out->memory_bytes_used = m->memory_bytes_used;
    out->instance = m->instance;
    out->message_bytes_max = m->limits.message_bytes_max;
    out->body_bytes_max = m->limits.body_bytes_max;
    out->reply_bytes_max = m->limits.reply_bytes_max;
    out->dimension_max = m->limits.dimension_max;
    out->k_max = m->limits.k_max;
    out->in_flight_max = m->limits.in_flight_max;
    memset(out->gpus, 0, sizeof out->gpus);
    out->gpu_count = m->gpus_count;
    for (uint32_t i = 0; i < out->gpu_count; i++)
        take_gpu(&m->gpus[i], &out->gpus[i]);
}

static void take_gpu_stats(const engram_accel_v1_GpuStats *m, ea_gpu_stats *out)
{
    *out = (ea_gpu_stats){
        .number = m->number,
        .state = (ea_gpu_state)m->state,
        .replica_bytes = m->replica_bytes,
        .request_bytes = m->request_bytes,
        .slab_bytes = m->slab_bytes,
        .free_bytes = m->free_bytes,
        .budget_bytes = m->budget_bytes,
        .pinned_bytes = m->pinned_bytes,
        .replicas = m->replicas,
        .streams = m->streams,
        .uploads = m->uploads,
        .upload_bytes = m->upload_bytes,
        .upload_ns = m->upload_ns,
        .evictions = m->evictions,
        .runs = m->runs,
        .run_ns = m->run_ns,
        .errors = m->errors,
        .no_memory = m->no_memory,
        .restarts = m->restarts,
        .jobs_in_flight = m->jobs_in_flight,
        .uptime_ns = m->uptime_ns,
    };
}

static void take_operation(const engram_accel_v1_OperationStats *m, ea_operation_stats *out)
{
    *out = (ea_operation_stats){
        .name = ea_operation_name((uint32_t)m->kind),
        .requests = m->requests,
        .errors = m->errors,
        .total_ns = m->total_ns,
        .p50_ns = m->p50_ns,
        .p90_ns = m->p90_ns,
        .p99_ns = m->p99_ns,
        .max_ns = m->max_ns,
    };
}

void ea_report_stats(const engram_accel_v1_StatsReply *m, ea_stats *out)
{
    *out = (ea_stats){
        .connections_open = m->connections_open,
        .connections_total = m->connections_total,
        .connections_refused = m->connections_refused,
        .connections_dropped = m->connections_dropped,
        .requests_total = m->requests_total,
        .errors_total = m->errors_total,
        .cancelled_total = m->cancelled_total,
        .deadline_exceeded_total = m->deadline_exceeded_total,
        .bytes_in = m->bytes_in,
        .bytes_out = m->bytes_out,
        .queue_depth = m->queue_depth,
        .jobs_in_flight = m->jobs_in_flight,
        .memory_bytes_used = m->memory_bytes_used,
        .memory_bytes_peak = m->memory_bytes_peak,
        .collections = m->collections,
        .rows = m->rows,
        .vram_bytes = m->vram_bytes,
        .uptime_ns = m->uptime_ns,
        .operation_count = m->operations_count,
        .gpu_count = m->gpus_count,
        .route_count = m->routes_count,
    };
    for (uint32_t i = 0; i < out->operation_count; i++)
        take_operation(&m->operations[i], &out->operations[i]);
    for (uint32_t i = 0; i < out->gpu_count; i++)
        take_gpu_stats(&m->gpus[i], &out->gpus[i]);
    for (uint32_t i = 0; i < out->route_count; i++) {
        const engram_accel_v1_RouteStats *r = &m->routes[i];
        out->routes[i] = (ea_route_stats){(ea_backend)r->backend, (uint32_t)r->reason, r->requests};
        if ((unsigned)r->backend < EA_BACKENDS) out->backend_requests[r->backend] += r->requests;
    }
}
