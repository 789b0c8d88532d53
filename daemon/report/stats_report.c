#include "daemon/report/stats_report.h"

#include "daemon/report/cards_report.h"
#include "daemon/report/peers_report.h"
#include "daemon/report/scheduler_report.h"
#include "daemon/report/screens_report.h"

_Static_assert(4 * (int)REASON_MAX <= (int)WIRE_ROUTES_MAX, "every route has a place in a reply");

static void count_operations(const struct stats *s, struct wire_stats *out)
{
    for (int i = 0; i < OPERATION_MAX && out->operation_count < WIRE_OPERATIONS_MAX; i++) {
        const struct operation_stats *o = &s->operations[i];
        if (!o->requests) continue;
        out->operations[out->operation_count++] = (struct wire_operation_stats){
            .operation = i,
            .requests = o->requests,
            .errors = o->errors,
            .total_ns = o->total_ns,
            .p50_ns = histogram_percentile(&o->latency, 50),
            .p90_ns = histogram_percentile(&o->latency, 90),
            .p99_ns = histogram_percentile(&o->latency, 99),
            .max_ns = histogram_max(&o->latency),
        };
    }
}

void stats_report_routes(const struct stats *s, struct wire_stats *out)
{
    out->route_count = 0;
    for (int b = BACKEND_CPU; b <= BACKEND_BOTH; b++)
        for (int r = 0; r < REASON_MAX; r++)
            if (s->routes[b][r])
                out->routes[out->route_count++] =
                    (struct wire_route){.backend = b, .reason = r, .requests = s->routes[b][r]};
}

static void count_daemon(const struct report_sources *from, struct wire_stats *out)
{
    const struct net_counters *net = from->net;
    const struct stats *s = from->stats;
    struct heap_usage memory = heap_usage(from->heap);
    *out = (struct wire_stats){
        .connections_open = net->open,
        .connections_total = net->opened,
        .connections_refused = net->refused,
        .connections_dropped = net->dropped,
        .requests_total = s->requests_total,
        .errors_total = s->errors_total,
        .cancelled_total = s->cancelled_total,
        .deadline_exceeded_total = s->deadline_exceeded_total,
        .bytes_in = net->bytes_in,
        .bytes_out = net->bytes_out,
        .queue_depth = from->queue_depth,
        .jobs_in_flight = from->jobs_in_flight,
        .memory_bytes_used = memory.bytes_used,
        .memory_bytes_peak = memory.bytes_peak,
        .uptime_ns = from->now_ns - from->started_ns,
        .config_reloads = from->reloads ? from->reloads->taken : 0,
        .config_reloads_refused = from->reloads ? from->reloads->refused : 0,
    };
    count_operations(s, out);
    stats_report_routes(s, out);
}

/* Counts what the asking space has; it learns nothing about other spaces. */
static void count_residents(const struct backend *gpu, struct space *space, struct wire_stats *out)
{
    struct graph_totals graphs = store_graph_totals(space);
    out->collections = space->collection_count;
    out->rows = space_row_count(space);
    out->graphs = graphs.graphs;
    out->graph_nodes = graphs.nodes;
    out->graph_edges = graphs.edges;
    out->graph_bytes = graphs.bytes;
    struct attractor_totals attractors = store_attractor_totals(space);
    out->attractors = attractors.attractors;
    out->attractor_patterns = attractors.patterns;
    out->attractor_bytes = attractors.bytes;
    out->vram_bytes = gpu ? replicas_space_bytes(gpu, space) : 0;
}

/* Texts that name files are the operator's. */
static void tell_kept(const struct report_sources *from, struct wire_stats *out)
{
    out->journal = from->journal;
    out->snapshots = from->snapshots;
    if (!from->asking->is_operator) out->journal.why = out->snapshots.error = NULL;
}

void stats_report(const struct report_sources *from, struct space *space, struct wire_stats *out)
{
    struct cards_seen seen;
    cards_look(from->gpu, &seen);
    count_daemon(from, out);
    count_residents(from->gpu, space, out);
    out->screen_count = screens_report(space, out->screens, &out->screens_left_out);
    cards_report_stats(&seen, from->in_flight, from->now_ns, out);
    peers_report(from->peers, from->asking, out);
    scheduler_report_space(space, heap_owner_bytes(from->heap, space->number), &out->space);
    scheduler_report_counters(from->scheduler, from->stats, &out->scheduler);
    scheduler_report_pressure(from->scheduler, from->stats, &seen, out);
    tell_kept(from, out);
}
