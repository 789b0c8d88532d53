#include "daemon/report/scheduler_report.h"

#include <string.h>

void scheduler_report_space(const struct space *space, uint64_t host_bytes,
                            struct wire_space_stats *out)
{
    const struct tenant *t = space->tenant;
    memset(out, 0, sizeof *out);
    out->host_bytes = host_bytes;
    if (!t) return;
    out->host_bytes_max = t->quotas.host_bytes;
    out->vram_bytes_max = t->quotas.vram_bytes;
    out->queue_depth = t->queued;
    out->queue_max = t->quotas.queue_max;
    out->connections = t->connections;
    out->connections_max = t->quotas.connections_max;
    out->refused_queue = t->refused_queue;
    out->refused_connections = t->refused_connections;
    out->weight = t->quotas.weight;
    for (int i = 0; i < 2; i++)
        out->use[i] = (struct wire_backend_use){
            .requests = t->requests[i],
            .busy_ns = t->busy_ns[i],
            .batches = t->batches[i],
            .batched_requests = t->batched_requests[i],
        };
}

/* The rate of the operation that fails most often on GPUs. */
static double least_success(const struct cost_model *m)
{
    double least = 1;
    for (size_t i = 0; i < COST_KINDS; i++) {
        enum measure measure = cost_rows[i].measure;
        if (measure != MEASURE_PAIRS && measure != MEASURE_CANDIDATES) continue;
        double rate = cost_success_rate(m, BACKEND_GPU, cost_rows[i].operation);
        if (rate < least) least = rate;
    }
    return least;
}

void scheduler_report_counters(const struct scheduler *s, const struct stats *counted,
                               struct wire_scheduler_stats *out)
{
    const struct scheduler_counters *c = &s->counters;
    const struct histogram *decide = &counted->decide;
    *out = (struct wire_scheduler_stats){
        .decisions = c->decisions,
        .decide_p50_ns = histogram_percentile(decide, 50),
        .decide_p99_ns = histogram_percentile(decide, 99),
        .decide_max_ns = histogram_max(decide),
        .batches = c->batches,
        .batched_requests = c->batched_requests,
        .splits = c->splits,
        .steals = c->steals,
        .probes = c->probes,
        .aged = c->aged,
        .passes = c->passes,
        .gpu_success_permille = (uint32_t)(1000 * least_success(&s->model) + 0.5),
        .calibrated = s->model.calibrated,
    };
}

void scheduler_report_pressure(const struct scheduler *s, const struct stats *counted,
                               const struct cards_seen *seen, struct wire_stats *stats)
{
    struct wire_pressure *out = &stats->pressure;
    *out = (struct wire_pressure){
        .shrunk_batches = s->counters.shrunk_batches,
        .cpu = counted->routes[BACKEND_CPU][REASON_VRAM_PRESSURE],
    };
    for (uint32_t i = 0; i < stats->gpu_count; i++) {
        out->shrunk_runs += stats->gpus[i].shrunk;
        out->split_runs += stats->gpus[i].split;
        out->evictions += stats->gpus[i].evictions;
        out->low |= seen->cards[i].room.ready && seen->cards[i].room.low;
    }
}
