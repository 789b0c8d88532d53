/* Encodes the replies to Hello, Info, Stats and Explain. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_InfoReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_StatsReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_ExplainReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every report");
_Static_assert(COUNT(((engram_accel_v1_ExplainReply *)0)->operations) == WIRE_COSTS_MAX,
               "the message has a place for each kind of work");

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

size_t encode_hello(uint64_t request_id, const struct wire_hello *hello, void *buffer)
{
    engram_accel_v1_HelloReply m = {
        .version = hello->version,
        .features = hello->features,
        .instance = hello->instance,
        .generation = hello->generation,
        .has_limits = true,
        .limits = limits_of(&hello->limits),
    };
    COPY_TEXT(m.server_version, hello->server_version);
    COPY_TEXT(m.space, hello->space);
    struct frame_header h = {.kind = OPERATION_HELLO, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_HelloReply_fields, &m, buffer);
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
        .loading = info->loading,
        .load_objects = info->load_objects,
        .load_objects_done = info->load_objects_done,
        .load_bytes = info->load_bytes,
        .load_bytes_done = info->load_bytes_done,
        .left_out = info->left_out_count,
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
    while (m.left_out_names_count < info->left_out_count &&
           m.left_out_names_count < COUNT(m.left_out_names)) {
        COPY_TEXT(m.left_out_names[m.left_out_names_count], info->left_out[m.left_out_names_count]);
        m.left_out_names_count++;
    }
    struct frame_header h = {.kind = OPERATION_INFO, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_InfoReply_fields, &m, buffer);
}

static engram_accel_v1_GpuSensors gpu_sensors_of(const struct wire_gpu_stats *g)
{
#define SENSOR(name, which) .has_##name = g->sensors_known >> (which)&1, .name = g->sensors[which]
    return (engram_accel_v1_GpuSensors){
        SENSOR(celsius, SENSOR_CELSIUS),
        SENSOR(milliwatts, SENSOR_MILLIWATTS),
        SENSOR(limit_milliwatts, SENSOR_LIMIT_MILLIWATTS),
        SENSOR(megahertz, SENSOR_MEGAHERTZ),
        SENSOR(memory_megahertz, SENSOR_MEMORY_MEGAHERTZ),
        SENSOR(busy_percent, SENSOR_BUSY_PERCENT),
        SENSOR(memory_busy_percent, SENSOR_MEMORY_BUSY_PERCENT),
        SENSOR(used_bytes, SENSOR_MEMORY_USED_BYTES),
        SENSOR(all_bytes, SENSOR_MEMORY_BYTES),
        SENSOR(ecc_corrected, SENSOR_ECC_CORRECTED),
        SENSOR(ecc_uncorrected, SENSOR_ECC_UNCORRECTED),
        SENSOR(slowed, SENSOR_SLOWED),
    };
#undef SENSOR
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
        .shrunk = g->shrunk,
        .split = g->split,
        .has_sensors = g->sensors_known != 0,
        .sensors = gpu_sensors_of(g),
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

engram_accel_v1_SpaceStats encode_space_stats(const struct wire_space_stats *s)
{
    engram_accel_v1_SpaceStats m = {
        .host_bytes = s->host_bytes,
        .host_bytes_max = s->host_bytes_max,
        .vram_bytes_max = s->vram_bytes_max,
        .queue_depth = s->queue_depth,
        .queue_max = s->queue_max,
        .connections = s->connections,
        .connections_max = s->connections_max,
        .weight = s->weight,
        .backends_count = COUNT(m.backends),
        .refused_queue = s->refused_queue,
        .refused_connections = s->refused_connections,
    };
    for (size_t i = 0; i < COUNT(m.backends); i++)
        m.backends[i] = (engram_accel_v1_BackendUse){
            .backend = (engram_accel_v1_Backend)(BACKEND_CPU + i),
            .requests = s->use[i].requests,
            .busy_ns = s->use[i].busy_ns,
            .batches = s->use[i].batches,
            .batched_requests = s->use[i].batched_requests,
        };
    return m;
}

static void fill_scheduler(engram_accel_v1_StatsReply *m, const struct wire_stats *s)
{
    const struct wire_scheduler_stats *c = &s->scheduler;
    const struct wire_pressure *p = &s->pressure;
    m->has_space = m->has_scheduler = m->has_pressure = true;
    m->space = encode_space_stats(&s->space);
    m->scheduler = (engram_accel_v1_SchedulerStats){
        .decisions = c->decisions,
        .decide_p50_ns = c->decide_p50_ns,
        .decide_p99_ns = c->decide_p99_ns,
        .decide_max_ns = c->decide_max_ns,
        .batches = c->batches,
        .batched_requests = c->batched_requests,
        .splits = c->splits,
        .steals = c->steals,
        .probes = c->probes,
        .aged = c->aged,
        .passes = c->passes,
        .calibrated = c->calibrated,
        .gpu_success_permille = c->gpu_success_permille,
    };
    m->pressure = (engram_accel_v1_Pressure){
        .shrunk_batches = p->shrunk_batches,
        .shrunk_runs = p->shrunk_runs,
        .split_runs = p->split_runs,
        .evictions = p->evictions,
        .cpu = p->cpu,
        .low = p->low,
    };
}

static void fill_peers(engram_accel_v1_StatsReply *m, const struct wire_stats *s)
{
    m->peers_left_out = s->peers_left_out;
    while (m->peers_count < s->peer_count && m->peers_count < COUNT(m->peers)) {
        const struct wire_peer_stats *p = &s->peers[m->peers_count];
        engram_accel_v1_PeerStats *out = &m->peers[m->peers_count++];
        *out = (engram_accel_v1_PeerStats){
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
        memcpy(out->name, p->name, sizeof out->name);
        out->name[sizeof out->name - 1] = 0;
    }
}

/* As many as there is room for. */
static pb_size_t fill_screens(const struct wire_screens *from, uint32_t count,
                              engram_accel_v1_CollectionScreens *to, size_t most)
{
    pb_size_t n = 0;
    for (; n < count && n < most; n++) {
        to[n] = encode_screens(from[n].counts);
        memcpy(to[n].name, from[n].name, sizeof to[n].name);
        to[n].name[sizeof to[n].name - 1] = 0;
    }
    return n;
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
        .graphs = s->graphs,
        .graph_nodes = s->graph_nodes,
        .graph_edges = s->graph_edges,
        .graph_bytes = s->graph_bytes,
        .config_reloads = s->config_reloads,
        .config_reloads_refused = s->config_reloads_refused,
        .attractors = s->attractors,
        .attractor_patterns = s->attractor_patterns,
        .attractor_bytes = s->attractor_bytes,
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
    fill_scheduler(&m, s);
    fill_peers(&m, s);
    encode_kept(s, &m);
    m.screens_left_out = s->screens_left_out;
    m.screens_count = fill_screens(s->screens, s->screen_count, m.screens, COUNT(m.screens));
    struct frame_header h = {.kind = OPERATION_STATS, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_StatsReply_fields, &m, buffer);
}

/* ---- explain ---- */

static engram_accel_v1_BackendCost backend_cost_of(enum backend_id b,
                                                   const struct wire_backend_cost *c)
{
    return (engram_accel_v1_BackendCost){
        .backend = (engram_accel_v1_Backend)b,
        .fixed_ns = c->fixed_ns,
        .row_byte_ns = c->row_byte_ns,
        .product_ns = c->product_ns,
        .query_ns = c->query_ns,
        .moved_byte_ns = c->moved_byte_ns,
        .pair_ns = c->pair_ns,
        .handed_ns = c->handed_ns,
        .drift = c->drift,
        .screened = c->screened,
        .spread = c->spread,
        .confidence = c->confidence,
        .seen = c->seen,
        .success_permille = c->success_permille,
        .outcomes = c->outcomes,
        .probes = c->probes,
        .surprises = c->surprises,
    };
}

static void fill_cost(engram_accel_v1_OperationCost *m, const struct wire_operation_cost *c)
{
    m->kind = (engram_accel_v1_Kind)c->operation;
    m->backends_count = COUNT(m->backends);
    for (size_t i = 0; i < COUNT(m->backends); i++)
        m->backends[i] = backend_cost_of(BACKEND_CPU + i, &c->backends[i]);
    m->crossovers_count = 0;
    while (m->crossovers_count < c->crossover_count && m->crossovers_count < COUNT(m->crossovers)) {
        const struct wire_crossover *x = &c->crossovers[m->crossovers_count];
        m->crossovers[m->crossovers_count++] = (engram_accel_v1_Crossover){
            .queries = x->queries, .rows = x->rows, .cpu_ns = x->cpu_ns, .gpu_ns = x->gpu_ns};
    }
}

static engram_accel_v1_Decision decision_of(const struct wire_decision *d)
{
    return (engram_accel_v1_Decision){
        .kind = (engram_accel_v1_Kind)d->work.operation,
        .server = d->server,
        .reason = (engram_accel_v1_Reason)d->reason,
        .ago_ns = d->ago_ns,
        .queries = d->work.queries,
        .rows = d->work.rows,
        .dimension = d->work.stride,
        .k = d->work.k,
        .members = d->members,
        .cpu_ns = d->cpu_ns,
        .gpu_ns = d->gpu_ns,
        .wait_ns = d->wait_ns,
        .took_ns = d->took_ns,
        .cpu_row_bytes = d->cpu_row_bytes,
        .gpu_row_bytes = d->gpu_row_bytes,
        .well = d->well,
        .filtered = d->work.filtered,
    };
}

static engram_accel_v1_SchedulerSettings settings_of(const struct wire_scheduler_settings *s)
{
    return (engram_accel_v1_SchedulerSettings){
        .force = (engram_accel_v1_Backend)s->force,
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
    };
}

size_t encode_explain(uint64_t request_id, const struct wire_explain *e, void *buffer)
{
    engram_accel_v1_ExplainReply m;
    m.calibrated = e->calibrated;
    m.workers = e->workers;
    m.upload_byte_ns = e->upload_byte_ns;
    m.upload_ns = e->upload_ns;
    m.has_settings = true;
    m.settings = settings_of(&e->settings);
    m.decisions_total = e->decisions_total;
    COPY_TEXT(m.gpu, e->gpu);
    m.screens_left_out = e->screens_left_out;
    m.screens_count = fill_screens(e->screens, e->screen_count, m.screens, COUNT(m.screens));
    m.operations_count = m.decisions_count = 0;
    while (m.operations_count < e->cost_count && m.operations_count < COUNT(m.operations)) {
        fill_cost(&m.operations[m.operations_count], &e->costs[m.operations_count]);
        m.operations_count++;
    }
    while (m.decisions_count < e->decision_count && m.decisions_count < COUNT(m.decisions)) {
        m.decisions[m.decisions_count] = decision_of(&e->decisions[m.decisions_count]);
        m.decisions_count++;
    }
    struct frame_header h = {.kind = OPERATION_EXPLAIN, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_ExplainReply_fields, &m, buffer);
}
