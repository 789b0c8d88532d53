#include <stdio.h>

#include "daemon/report/metrics.h"

enum { LABEL_BYTES = 160 };

static const char *const backend_names[4] = {"none", "cpu", "gpu", "both"};
/* As ea_reason_name in the client. */
static const char *const reason_names[REASON_MAX] = {
    [REASON_NONE] = "none",
    [REASON_CHOSEN_FASTER] = "chosen_faster",
    [REASON_BELOW_MIN_BATCH] = "below_min_batch",
    [REASON_GPU_ABSENT] = "gpu_absent",
    [REASON_GPU_DOWN] = "gpu_down",
    [REASON_PREDICTED_SLOWER] = "predicted_slower",
    [REASON_LOW_SUCCESS_RATE] = "low_success_rate",
    [REASON_VRAM_PRESSURE] = "vram_pressure",
    [REASON_QUEUE_FULL] = "queue_full",
    [REASON_FORCED] = "forced",
    [REASON_FALLBACK_AFTER_ERROR] = "fallback_after_error",
    [REASON_PROBE] = "probe",
    [REASON_SHADOW_ONLY] = "shadow_only",
};

const char *metrics_backend_name(enum backend_id backend)
{
    return backend_names[backend & 3];
}

const char *metrics_reason_name(enum reason reason)
{
    unsigned known = reason;
    return known < REASON_MAX && reason_names[known] ? reason_names[known] : "none";
}

static void one(struct metrics_text *t, const char *name, const char *type, uint64_t value,
                const char *help)
{
    metrics_text_family(t, name, type, help);
    metrics_text_count(t, NULL, value);
}

/* ---------------------------------------------------------------- the daemon */

static void render_daemon(const struct metrics_view *v, struct metrics_text *t)
{
    metrics_text_family(t, "engram_accel_build_info", "gauge",
                        "Always 1; its label says what runs.");
    metrics_text_count(t, "version=\"" ENGRAM_VERSION "\"", 1);
    metrics_text_family(t, "engram_accel_uptime_seconds", "gauge", "Since the daemon started.");
    metrics_text_seconds(t, NULL, v->uptime_ns);
    one(t, "engram_accel_workers", "gauge", v->workers, "Threads that compute.");
    one(t, "engram_accel_frames_total", "counter", v->frames,
        "Requests that came, valid or not, pings and Hellos too.");
    one(t, "engram_accel_error_replies_total", "counter", v->error_replies,
        "Requests that were answered with an error.");
    one(t, "engram_accel_cancelled_total", "counter", v->cancelled,
        "Requests that ended because they were cancelled.");
    one(t, "engram_accel_deadline_exceeded_total", "counter", v->deadline_exceeded,
        "Requests that ended at their deadline.");
    one(t, "engram_accel_observed", "gauge", v->observed,
        "1: requests, their times and routes are counted (observe.enabled).");
    one(t, "engram_accel_slow_requests_total", "counter", v->slow,
        "Requests that took observe.slow_ms or longer.");
    one(t, "engram_accel_requests_in_line", "gauge", v->queue_depth,
        "Requests that wait for a backend.");
    one(t, "engram_accel_requests_in_flight", "gauge", v->jobs_in_flight,
        "Requests that are not answered yet.");
    one(t, "engram_accel_connections", "gauge", v->net.open, "Connections that are open.");
    one(t, "engram_accel_connections_total", "counter", v->net.opened,
        "Connections that were accepted.");
    one(t, "engram_accel_connections_refused_total", "counter", v->net.refused,
        "Connections that were refused for want of room.");
    one(t, "engram_accel_connections_dropped_total", "counter", v->net.dropped,
        "Connections that the daemon ended: too slow, or not speaking its language.");
    one(t, "engram_accel_received_bytes_total", "counter", v->net.bytes_in,
        "Bytes that clients sent.");
    one(t, "engram_accel_sent_bytes_total", "counter", v->net.bytes_out, "Bytes sent to clients.");
    one(t, "engram_accel_memory_used_bytes", "gauge", v->heap.bytes_used,
        "Collections, requests and results.");
    one(t, "engram_accel_memory_outside_bytes", "gauge", v->heap.bytes_outside,
        "Of that, beside the heap: ids, norms, indexes, names, what an empty collection takes.");
    one(t, "engram_accel_memory_cached_bytes", "gauge", v->heap.bytes_cached,
        "Of the heap: given back, and kept for reuse.");
    one(t, "engram_accel_memory_peak_bytes", "gauge", v->heap.bytes_peak,
        "The most that was used at once.");
    one(t, "engram_accel_memory_max_bytes", "gauge", v->heap.bytes_max,
        "The bound on what may be used (memory.max_mib).");
    one(t, "engram_accel_memory_blocks", "gauge", v->heap.blocks, "Blocks of the heap in use.");
}

static void render_operations(const struct metrics_view *v, struct metrics_text *t)
{
    char labels[LABEL_BYTES];
    metrics_text_family(t, "engram_accel_requests_total", "counter", "Requests answered.");
    for (uint32_t i = 0; i < OPERATION_MAX; i++) {
        const struct operation_row *row = operation_row(i);
        if (!row->text || row->internal || !v->operations[i].requests) continue;
        snprintf(labels, sizeof labels, "operation=\"%s\"", row->text);
        metrics_text_count(t, labels, v->operations[i].requests);
    }
    metrics_text_family(t, "engram_accel_request_errors_total", "counter",
                        "Requests answered with an error.");
    for (uint32_t i = 0; i < OPERATION_MAX; i++) {
        const struct operation_row *row = operation_row(i);
        if (!row->text || row->internal || !v->operations[i].requests) continue;
        snprintf(labels, sizeof labels, "operation=\"%s\"", row->text);
        metrics_text_count(t, labels, v->operations[i].errors);
    }
    metrics_text_family(t, "engram_accel_request_duration_seconds", "histogram",
                        "From a complete request to its reply, pings left out.");
    for (uint32_t i = 0; i < v->timed_count; i++) {
        const struct metrics_timed *m = &v->timed[i];
        const char *name = operation_row(m->operation)->text;
        snprintf(labels, sizeof labels, "operation=\"%s\",backend=\"%s\"", name ? name : "other",
                 backend_names[m->backend & 3]);
        metrics_text_histogram(t, labels, &v->bounds, &m->took);
    }
    metrics_text_family(t, "engram_accel_routes_total", "counter",
                        "Requests that a backend ran, and why that one.");
    for (int b = BACKEND_CPU; b <= BACKEND_BOTH; b++)
        for (int r = REASON_CHOSEN_FASTER; r < REASON_MAX; r++) {
            snprintf(labels, sizeof labels, "backend=\"%s\",reason=\"%s\"", backend_names[b],
                     reason_names[r]);
            metrics_text_count(t, labels, v->routes[b][r]);
        }
}

static void render_scheduler(const struct metrics_view *v, struct metrics_text *t)
{
    const struct wire_scheduler_stats *s = &v->scheduler;
    const struct wire_pressure *p = &v->pressure;
    metrics_text_family(t, "engram_accel_decision_seconds", "histogram",
                        "To choose a backend for a request.");
    metrics_text_histogram(t, NULL, &v->bounds, &v->decided);
    one(t, "engram_accel_decisions_total", "counter", s->decisions, "Choices of a backend.");
    one(t, "engram_accel_batches_total", "counter", s->batches, "Runs of several requests as one.");
    one(t, "engram_accel_batched_requests_total", "counter", s->batched_requests,
        "Requests that ran as one with others.");
    one(t, "engram_accel_splits_total", "counter", s->splits,
        "Requests that ran on CPU and GPU together.");
    one(t, "engram_accel_steals_total", "counter", s->steals,
        "Requests that a backend took over from another one's line.");
    one(t, "engram_accel_probes_total", "counter", s->probes,
        "Requests that tried the backend that was not chosen.");
    one(t, "engram_accel_aged_total", "counter", s->aged,
        "Requests served because their space had waited too long.");
    one(t, "engram_accel_passes_total", "counter", s->passes,
        "Short requests that passed a full backend.");
    metrics_text_family(t, "engram_accel_gpu_success_ratio", "gauge",
                        "Of the operation that fails most often on GPUs.");
    metrics_text_seconds(t, NULL, s->gpu_success_permille * UINT64_C(1000000));
    one(t, "engram_accel_calibrated", "gauge", s->calibrated,
        "1: the backends were measured on this machine.");
    one(t, "engram_accel_vram_pressure", "gauge", p->low, "1: VRAM is short on any card.");
    one(t, "engram_accel_vram_pressure_batches_total", "counter", p->shrunk_batches,
        "Batches made smaller because VRAM was short.");
    one(t, "engram_accel_vram_pressure_cpu_total", "counter", p->cpu,
        "Requests run on the CPU because VRAM was short.");
}

/* ---------------------------------------------------------------- spaces */

struct space_series {
    const char *name, *type, *help;
    size_t offset; /* in struct metrics_space */
    bool seconds;
};

#define COUNT(member) offsetof(struct metrics_space, counts.member)
#define GAUGE(member) offsetof(struct metrics_space, member)
static const struct space_series space_series[] = {
    {"engram_accel_space_requests_total", "counter", "Requests answered.", COUNT(requests), false},
    {"engram_accel_space_errors_total", "counter", "Requests answered with an error.",
     COUNT(errors), false},
    {"engram_accel_space_refused_total", "counter", "Requests refused for want of room.",
     COUNT(refused), false},
    {"engram_accel_space_refused_connections_total", "counter",
     "Connections refused by the space's quota.", COUNT(refused_connections), false},
    {"engram_accel_space_queue_seconds_total", "counter", "Time that requests waited.",
     COUNT(queue_ns), true},
    {"engram_accel_space_run_seconds_total", "counter", "Time that requests ran.", COUNT(run_ns),
     true},
    {"engram_accel_space_host_bytes", "gauge", "Memory in use.", GAUGE(host_bytes), false},
    {"engram_accel_space_vram_bytes", "gauge", "VRAM of replicas.", GAUGE(vram_bytes), false},
    {"engram_accel_space_requests_in_line", "gauge", "Requests that wait for a backend.",
     GAUGE(queue_depth), false},
    {"engram_accel_space_connections", "gauge", "Connections that are open.", GAUGE(connections),
     false},
    /* As engram's own operators chart them. */
    {"engram_gpu_launch_total", "counter", "Requests that a GPU ran.", COUNT(gpu_runs), false},
    {"engram_gpu_fallback_total", "counter",
     "Requests that the CPU ran because a GPU was down, failing or out of memory.",
     COUNT(fallbacks), false},
    {"engram_gpu_oom_total", "counter", "Requests that the CPU ran for want of VRAM.",
     COUNT(gpu_no_memory), false},
    {"engram_gpu_error_total", "counter", "Requests that the CPU ran after a GPU failed.",
     COUNT(gpu_errors), false},
    {"engram_gpu_memory_used_bytes", "gauge", "VRAM of replicas.", GAUGE(vram_bytes), false},
};

static void render_spaces(const struct metrics_view *v, struct metrics_text *t)
{
    char labels[LABEL_BYTES];
    for (size_t i = 0; i < sizeof space_series / sizeof *space_series; i++) {
        const struct space_series *s = &space_series[i];
        metrics_text_family(t, s->name, s->type, s->help);
        for (uint32_t n = 0; n < v->space_count; n++) {
            const struct metrics_space *m = &v->spaces[n];
            uint64_t value = *(const uint64_t *)((const char *)m + s->offset);
            snprintf(labels, sizeof labels, "memory_space=\"%s\"", m->counts.name);
            if (s->seconds)
                metrics_text_seconds(t, labels, value);
            else
                metrics_text_count(t, labels, value);
        }
    }
}

/* ---------------------------------------------------------------- cards */

struct card_series {
    const char *name, *help;
    size_t offset;         /* of a gauge, in struct wire_gpu_stats */
    enum card_total total; /* of a counter */
    bool counter, seconds;
};

#define NOW(member)   offsetof(struct wire_gpu_stats, member), CARD_TOTALS, false
#define TOTAL(member) 0, TOTAL_##member, true
static const struct card_series card_series[] = {
    {"engram_accel_gpu_uptime_seconds", "Since its process became ready.", NOW(uptime_ns), true},
    {"engram_accel_gpu_replicas", "Collections, graphs and attractors with a copy there.",
     NOW(replicas), false},
    {"engram_accel_gpu_replica_bytes", "VRAM of replicas.", NOW(replica_bytes), false},
    {"engram_accel_gpu_request_bytes", "VRAM handed out to requests.", NOW(request_bytes), false},
    {"engram_accel_gpu_slab_bytes", "VRAM set aside for requests.", NOW(slab_bytes), false},
    {"engram_accel_gpu_free_bytes", "VRAM of the device that is free.", NOW(free_bytes), false},
    {"engram_accel_gpu_budget_bytes", "VRAM that the daemon may take.", NOW(budget_bytes), false},
    {"engram_accel_gpu_pinned_bytes", "Host memory pinned for copies.", NOW(pinned_bytes), false},
    {"engram_accel_gpu_streams", "Streams in use.", NOW(streams), false},
    {"engram_accel_gpu_requests_in_flight", "Requests that it has.", NOW(jobs_in_flight), false},
    {"engram_accel_gpu_uploads_total", "Uploads to replicas.", TOTAL(UPLOADS), false},
    {"engram_accel_gpu_upload_bytes_total", "Bytes uploaded.", TOTAL(UPLOAD_BYTES), false},
    {"engram_accel_gpu_upload_seconds_total", "Time with an upload under way.", TOTAL(UPLOAD_NS),
     true},
    {"engram_accel_gpu_evictions_total", "Replicas given up for others.", TOTAL(EVICTIONS), false},
    {"engram_accel_gpu_runs_total", "Runs of requests.", TOTAL(RUNS), false},
    {"engram_accel_gpu_run_seconds_total", "Time with a request on the device.", TOTAL(RUN_NS),
     true},
    {"engram_accel_gpu_errors_total", "Orders that ended with an error.", TOTAL(ERRORS), false},
    {"engram_accel_gpu_no_memory_total", "Orders that ended for want of VRAM.", TOTAL(NO_MEMORY),
     false},
    {"engram_accel_gpu_shrunk_runs_total", "Runs with less scratch than they asked for.",
     TOTAL(SHRUNK), false},
    {"engram_accel_gpu_split_runs_total", "Runs in passes because they did not fit at once.",
     TOTAL(SPLIT), false},
};

static void render_card_states(const struct metrics_view *v, struct metrics_text *t)
{
    static const char *const states[] = {
        [WIRE_GPU_ABSENT] = "absent", [WIRE_GPU_STARTING] = "starting", [WIRE_GPU_READY] = "ready",
        [WIRE_GPU_DOWN] = "down",     [WIRE_GPU_BREAKER] = "breaker",
    };
    char labels[LABEL_BYTES];
    uint64_t ready = 0, memory_bytes = 0;
    metrics_text_family(t, "engram_accel_gpu_state", "gauge",
                        "1 for the state that a card's process is in.");
    for (uint32_t i = 0; i < v->card_count; i++)
        for (int s = WIRE_GPU_ABSENT; s <= WIRE_GPU_BREAKER; s++) {
            snprintf(labels, sizeof labels, "gpu=\"%u\",state=\"%s\"", i, states[s]);
            metrics_text_count(t, labels, (int)v->cards[i].now.state == s);
        }
    metrics_text_family(t, "engram_accel_gpu_restarts_total", "counter",
                        "Starts of a card's process after its first.");
    for (uint32_t i = 0; i < v->card_count; i++) {
        snprintf(labels, sizeof labels, "gpu=\"%u\"", i);
        metrics_text_count(t, labels, v->cards[i].now.restarts);
        ready += v->cards[i].now.state == WIRE_GPU_READY;
        memory_bytes += v->cards[i].memory_bytes;
    }
    one(t, "engram_gpu_available", "gauge", ready > 0, "1: a GPU is ready.");
    one(t, "engram_gpu_memory_total_bytes", "gauge", memory_bytes, "VRAM of all cards.");
}

static void render_cards(const struct metrics_view *v, struct metrics_text *t)
{
    char labels[LABEL_BYTES];
    render_card_states(v, t);
    for (size_t i = 0; v->card_count && i < sizeof card_series / sizeof *card_series; i++) {
        const struct card_series *s = &card_series[i];
        metrics_text_family(t, s->name, s->counter ? "counter" : "gauge", s->help);
        for (uint32_t n = 0; n < v->card_count; n++) {
            const struct metrics_card *card = &v->cards[n];
            uint64_t value = s->counter ? card_totals_of(&card->totals, s->total)
                                        : *(const uint64_t *)((const char *)&card->now + s->offset);
            snprintf(labels, sizeof labels, "gpu=\"%u\"", n);
            if (s->seconds)
                metrics_text_seconds(t, labels, value);
            else
                metrics_text_count(t, labels, value);
        }
    }
}

bool metrics_render(const struct metrics_view *v, struct metrics_text *out)
{
    render_daemon(v, out);
    render_operations(v, out);
    render_scheduler(v, out);
    render_spaces(v, out);
    render_cards(v, out);
    metrics_render_sensors(v, out);
    metrics_render_memory(v, out);
    metrics_render_kept(v, out);
    return !out->failed;
}
