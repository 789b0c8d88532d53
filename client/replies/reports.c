/* reports: copies the replies to Info, Stats and Explain to the caller's structs. nanopb has
 * limited counts and texts; numbers are passed on unchanged. */
#include <string.h>

#include "client/replies/replies.h"

_Static_assert(sizeof(((engram_accel_v1_ExplainReply *)0)->operations) /
                       sizeof(engram_accel_v1_OperationCost) <=
                   EA_COSTS_MAX,
               "ea_explanation has a place for each kind of work");

#define COPY(to, from) memcpy((to), (from), sizeof(to) < sizeof(from) ? sizeof(to) : sizeof(from))

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
    *out = (ea_info){0};
    COPY(out->server_version, m->server_version);
    COPY(out->build, m->build);
    COPY(out->cpu_features, m->cpu_features);
    COPY(out->kernels, m->kernels);
    COPY(out->gpu, m->gpu);
    ea_text_plain(out->server_version);
    ea_text_plain(out->build);
    ea_text_plain(out->cpu_features);
    ea_text_plain(out->kernels);
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
    out->gpu_count = m->gpus_count;
    for (uint32_t i = 0; i < out->gpu_count; i++)
        take_gpu(&m->gpus[i], &out->gpus[i]);
    out->ready = !m->loading;
    out->load_objects = m->load_objects;
    out->load_objects_done = m->load_objects_done;
    out->load_bytes = m->load_bytes;
    out->load_bytes_done = m->load_bytes_done;
    out->left_out_count = m->left_out;
    out->left_out_shown = m->left_out_names_count;
    for (uint32_t i = 0; i < out->left_out_shown; i++) {
        COPY(out->left_out[i], m->left_out_names[i]);
        ea_text_plain(out->left_out[i]);
    }
}

static int64_t sensor_of(bool known, uint64_t value)
{
    if (!known) return -1;
    return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static ea_gpu_sensors take_gpu_sensors(const engram_accel_v1_GpuSensors *m)
{
#define SENSOR(name) .name = sensor_of(m->has_##name, m->name)
    return (ea_gpu_sensors){
        SENSOR(celsius),
        SENSOR(milliwatts),
        SENSOR(limit_milliwatts),
        SENSOR(megahertz),
        SENSOR(memory_megahertz),
        SENSOR(busy_percent),
        SENSOR(memory_busy_percent),
        SENSOR(used_bytes),
        SENSOR(all_bytes),
        SENSOR(ecc_corrected),
        SENSOR(ecc_uncorrected),
        SENSOR(slowed),
    };
#undef SENSOR
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
        .shrunk = m->shrunk,
        .split = m->split,
        .sensors = take_gpu_sensors(&m->sensors),
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

void ea_report_space(const engram_accel_v1_SpaceStats *m, ea_space_stats *out)
{
    *out = (ea_space_stats){
        .host_bytes = m->host_bytes,
        .host_bytes_max = m->host_bytes_max,
        .vram_bytes_max = m->vram_bytes_max,
        .queue_depth = m->queue_depth,
        .queue_max = m->queue_max,
        .connections = m->connections,
        .connections_max = m->connections_max,
        .refused_queue = m->refused_queue,
        .refused_connections = m->refused_connections,
        .weight = m->weight,
    };
    for (uint32_t i = 0; i < m->backends_count; i++) {
        const engram_accel_v1_BackendUse *u = &m->backends[i];
        if ((unsigned)u->backend < EA_BACKENDS)
            out->use[u->backend] =
                (ea_backend_use){u->requests, u->busy_ns, u->batches, u->batched_requests};
    }
}

static void take_scheduler(const engram_accel_v1_StatsReply *m, ea_stats *out)
{
    const engram_accel_v1_SchedulerStats *s = &m->scheduler;
    const engram_accel_v1_Pressure *p = &m->pressure;
    out->scheduler = (ea_scheduler_stats){
        .decisions = s->decisions,
        .decide_p50_ns = s->decide_p50_ns,
        .decide_p99_ns = s->decide_p99_ns,
        .decide_max_ns = s->decide_max_ns,
        .batches = s->batches,
        .batched_requests = s->batched_requests,
        .splits = s->splits,
        .steals = s->steals,
        .probes = s->probes,
        .aged = s->aged,
        .passes = s->passes,
        .gpu_success_permille = s->gpu_success_permille,
        .calibrated = s->calibrated,
    };
    out->pressure = (ea_pressure){
        .shrunk_batches = p->shrunk_batches,
        .shrunk_runs = p->shrunk_runs,
        .split_runs = p->split_runs,
        .evictions = p->evictions,
        .cpu = p->cpu,
        .low = p->low,
    };
}

static void take_peers(const engram_accel_v1_StatsReply *m, ea_stats *out)
{
    out->peers_left_out = m->peers_left_out;
    for (out->peer_count = 0; out->peer_count < m->peers_count; out->peer_count++) {
        const engram_accel_v1_PeerStats *p = &m->peers[out->peer_count];
        ea_peer_stats *to = &out->peers[out->peer_count];
        *to = (ea_peer_stats){
            .own = p->own,
            .connections = p->connections,
            .requests = p->requests,
            .in_line = p->in_line,
            .in_line_max = p->in_line_max,
            .body_bytes = p->body_bytes,
            .refused_queue = p->refused_queue,
            .refused_connections = p->refused_connections,
            .refused_bodies = p->refused_bodies,
        };
        memcpy(to->name, p->name, sizeof to->name);
        ea_text_plain(to->name);
    }
}

ea_screens ea_report_screens(const engram_accel_v1_Screens *m)
{
    return (ea_screens){
        .searches = m->searches,
        .queries = m->queries,
        .screened = m->screened,
        .survived = m->survived,
        .read_bytes = m->read_bytes,
        .useless = m->useless,
        .rested = m->rested,
    };
}

static uint32_t take_screens(const engram_accel_v1_CollectionScreens *m, uint32_t count,
                             ea_collection_screens *out)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = (ea_collection_screens){.cpu = ea_report_screens(&m[i].cpu),
                                         .gpu = ea_report_screens(&m[i].gpu)};
        memcpy(out[i].name, m[i].name, sizeof out[i].name);
        ea_text_plain(out[i].name);
    }
    return count;
}

static void take_kept(const engram_accel_v1_StatsReply *m, ea_stats *out)
{
    const engram_accel_v1_JournalStats *j = &m->journal;
    const engram_accel_v1_SnapshotStats *s = &m->snapshots;
    out->journal = (ea_journal_stats){
        .mode = (ea_journal_mode)j->mode,
        .state = (ea_journal_state)j->state,
        .files = j->files,
        .file_bytes = j->file_bytes,
        .records = j->records,
        .bytes = j->bytes,
        .syncs = j->syncs,
        .group_last = j->group_records,
        .queued_bytes = j->queued_bytes,
        .lag_ns = j->lag_ns,
    };
    out->snapshots = (ea_snapshot_stats){
        .number = s->number,
        .age_ns = s->age_ns,
        .bytes = s->bytes,
        .duration_ns = s->duration_ns,
        .done = s->done,
        .failed = s->failed,
        .given_up = s->given_up,
        .written_bytes = s->written_bytes,
        .lag_ns = s->lag_ns,
        .every_ns = s->every_ns,
        .failing = s->failing,
    };
    memcpy(out->journal.why, j->why, sizeof out->journal.why);
    memcpy(out->snapshots.error, s->error, sizeof out->snapshots.error);
    ea_text_plain(out->journal.why);
    ea_text_plain(out->snapshots.error);
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
        .graphs = m->graphs,
        .graph_nodes = m->graph_nodes,
        .graph_edges = m->graph_edges,
        .graph_bytes = m->graph_bytes,
        .config_reloads = m->config_reloads,
        .config_reloads_refused = m->config_reloads_refused,
        .attractors = m->attractors,
        .attractor_patterns = m->attractor_patterns,
        .attractor_bytes = m->attractor_bytes,
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
    ea_report_space(&m->space, &out->space);
    take_scheduler(m, out);
    take_peers(m, out);
    take_kept(m, out);
    out->screens_left_out = m->screens_left_out;
    out->screens_count = take_screens(m->screens, m->screens_count, out->screens);
}

/* ---- explain ---- */

static void take_cost(const engram_accel_v1_OperationCost *m, ea_operation_cost *out)
{
    *out = (ea_operation_cost){.name = ea_operation_name((uint32_t)m->kind),
                               .crossover_count = m->crossovers_count};
    for (uint32_t i = 0; i < m->backends_count; i++) {
        const engram_accel_v1_BackendCost *b = &m->backends[i];
        if ((unsigned)b->backend >= EA_BACKENDS) continue;
        out->costs[b->backend] = (ea_backend_cost){
            .fixed_ns = b->fixed_ns,
            .row_byte_ns = b->row_byte_ns,
            .product_ns = b->product_ns,
            .query_ns = b->query_ns,
            .moved_byte_ns = b->moved_byte_ns,
            .pair_ns = b->pair_ns,
            .handed_ns = b->handed_ns,
            .drift = b->drift,
            .spread = b->spread,
            .confidence = b->confidence,
            .success_permille = b->success_permille,
            .outcomes = b->outcomes,
            .seen = b->seen,
            .probes = b->probes,
            .surprises = b->surprises,
        };
    }
    for (uint32_t i = 0; i < out->crossover_count; i++) {
        const engram_accel_v1_Crossover *x = &m->crossovers[i];
        out->crossovers[i] = (ea_crossover){x->queries, x->rows, x->cpu_ns, x->gpu_ns};
    }
}

static void take_decision(const engram_accel_v1_Decision *m, ea_decision *out)
{
    *out = (ea_decision){
        .name = ea_operation_name((uint32_t)m->kind),
        .backend = m->server ? EA_BACKEND_GPU : EA_BACKEND_CPU,
        .gpu = m->server ? m->server - 1 : 0,
        .reason = (uint32_t)m->reason,
        .dimension = m->dimension,
        .k = m->k,
        .members = m->members,
        .queries = m->queries,
        .rows = m->rows,
        .ago_ns = m->ago_ns,
        .cpu_ns = m->cpu_ns,
        .gpu_ns = m->gpu_ns,
        .wait_ns = m->wait_ns,
        .took_ns = m->took_ns,
        .well = m->well,
        .filtered = m->filtered,
    };
}

/* What came after the structs that it belongs to were frozen. */
static void take_screened(const engram_accel_v1_ExplainReply *m, ea_explanation *out)
{
    for (uint32_t i = 0; i < out->decision_count; i++)
        out->row_bytes[i] =
            (ea_row_bytes){m->decisions[i].cpu_row_bytes, m->decisions[i].gpu_row_bytes};
    for (uint32_t i = 0; i < m->operations_count; i++) {
        const engram_accel_v1_OperationCost *o = &m->operations[i];
        for (uint32_t b = 0; o->kind == engram_accel_v1_Kind_KIND_KNN && b < o->backends_count; b++)
            if ((unsigned)o->backends[b].backend < EA_BACKENDS)
                out->screened[o->backends[b].backend] = o->backends[b].screened;
    }
}

void ea_report_explain(const engram_accel_v1_ExplainReply *m, ea_explanation *out)
{
    const engram_accel_v1_SchedulerSettings *s = &m->settings;
    *out = (ea_explanation){
        .calibrated = m->calibrated,
        .workers = m->workers,
        .upload_byte_ns = m->upload_byte_ns,
        .upload_ns = m->upload_ns,
        .force = (ea_backend)s->force,
        .pairs_min = s->pairs_min,
        .candidates_min = s->candidates_min,
        .nodes_min = s->nodes_min,
        .speedup_percent = s->speedup_percent,
        .success_percent = s->success_percent,
        .probe_percent = s->probe_percent,
        .window_ns = s->window_ns,
        .quantum_ns = s->quantum_ns,
        .age_ns = s->age_ns,
        .batch_wait_ns = s->batch_wait_ns,
        .batch_queries_max = s->batch_queries_max,
        .batch_requests_max = s->batch_requests_max,
        .split = s->split,
        .decisions_total = m->decisions_total,
        .operation_count = m->operations_count,
        .decision_count = m->decisions_count,
    };
    COPY(out->gpu, m->gpu);
    ea_text_plain(out->gpu);
    for (uint32_t i = 0; i < out->operation_count; i++)
        take_cost(&m->operations[i], &out->operations[i]);
    for (uint32_t i = 0; i < out->decision_count; i++)
        take_decision(&m->decisions[i], &out->decisions[i]);
    take_screened(m, out);
    out->screens_left_out = m->screens_left_out;
    out->screens_count = take_screens(m->screens, m->screens_count, out->screens);
}
