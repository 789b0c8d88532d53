/* stats: what the daemon has done since it started. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/text/kept.h"
#include "client/cli/text/screens.h"
#include "client/cli/text/sensors.h"

#include <string.h>

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Bytes in a nanosecond are GB in a second; 0 if no time was measured. */
static double rate_of(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes / (double)ns : 0;
}

static void gpu_print_work(const ea_gpu_stats *g)
{
    struct text a, b;
    printf("               VRAM %s of %s", format_bytes(&a, g->replica_bytes + g->slab_bytes),
           format_bytes(&b, g->budget_bytes));
    printf(": %s %s", format_many(&a, g->replicas, "replica"), format_bytes(&b, g->replica_bytes));
    printf(", requests %s of %s\n", format_bytes(&a, g->request_bytes),
           format_bytes(&b, g->slab_bytes));
    printf("               %s free on the card; %s of host memory pinned\n",
           format_bytes(&a, g->free_bytes), format_bytes(&b, g->pinned_bytes));
    printf("               %s, %s", format_many(&a, g->uploads, "upload"),
           format_bytes(&b, g->upload_bytes));
    if (g->upload_ns) printf(" at %.1f GB/s", rate_of(g->upload_bytes, g->upload_ns));
    printf("; %s\n", format_many(&a, g->evictions, "eviction"));
    printf("               %s on %s", format_many(&a, g->runs, "request"),
           format_many(&b, g->streams, "stream"));
    printf(", busy %.1f %% of the time\n", share_of(g->run_ns, g->uptime_ns));
    printf("               %s failed, %s without memory%s\n", format_count(&a, g->errors),
           format_count(&b, g->no_memory),
           g->errors || g->no_memory ? ": the CPU answered them" : "");
    sensors_print(&g->sensors, 15);
}

static void gpu_print(const ea_gpu_stats *g)
{
    struct text a;
    printf("gpu %-10u %s", g->number, ea_gpu_state_name(g->state));
    if (g->uptime_ns) printf(", up %s", format_ns(&a, g->uptime_ns));
    printf(", %s in flight", format_count(&a, g->jobs_in_flight));
    printf(", %s\n", format_many(&a, g->restarts, "restart"));
    if (g->state == EA_GPU_READY) gpu_print_work(g);
}

static void routes_print(const ea_stats *s)
{
    static const char *const heads[] = {"ran on", "reason", ">requests", ">share", "meaning", NULL};
    struct text a;
    uint64_t all = 0;
    struct table *t = table_create(heads);
    for (int i = 0; i < EA_BACKENDS; i++)
        all += s->backend_requests[i];
    for (uint32_t i = 0; i < s->route_count; i++) {
        const ea_route_stats *r = &s->routes[i];
        table_cell(t, "%s", ea_backend_name(r->backend));
        table_cell(t, "%s", ea_reason_name(r->reason));
        table_cell(t, "%s", format_count(&a, r->requests));
        table_cell(t, "%.1f %%", share_of(r->requests, all));
        table_cell(t, "%s", ea_reason_text(r->reason));
    }
    if (s->route_count) {
        putchar('\n');
        cli_table_print(t);
    }
    table_destroy(t);
}

static void operations_print(const ea_stats *s)
{
    static const char *const heads[] = {"operation", ">requests", ">errors", ">mean", ">p50",
                                        ">p90",      ">p99",      ">max",    NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (uint32_t i = 0; i < s->operation_count; i++) {
        const ea_operation_stats *o = &s->operations[i];
        table_cell(t, "%s", o->name);
        table_cell(t, "%s", format_count(&a, o->requests));
        table_cell(t, "%s", format_count(&a, o->errors));
        const uint64_t times[] = {o->total_ns / (o->requests ? o->requests : 1), o->p50_ns,
                                  o->p90_ns, o->p99_ns, o->max_ns};
        for (size_t k = 0; k < sizeof times / sizeof *times; k++) /* a ping is not timed */
            table_cell(t, "%s", o->total_ns ? format_ns(&a, times[k]) : "-");
    }
    if (s->operation_count) {
        putchar('\n');
        cli_table_print(t);
    }
    table_destroy(t);
}

/* Prints "3 of 4,096", or "3" if there is no limit. */
static const char *bounded(struct text *t, uint64_t n, uint64_t most)
{
    struct text a;
    format_count(t, n);
    size_t used = strlen(t->c);
    if (most) snprintf(t->c + used, sizeof t->c - used, " of %.26s", format_count(&a, most));
    return t->c;
}

static void space_print(const ea_space_stats *s)
{
    struct text a, b;
    printf("               memory %s", format_bytes(&a, s->host_bytes));
    if (s->host_bytes_max) printf(" of %s", format_bytes(&a, s->host_bytes_max));
    if (s->vram_bytes_max) printf("; VRAM at most %s", format_bytes(&a, s->vram_bytes_max));
    printf("; %s in line", bounded(&a, s->queue_depth, s->queue_max));
    printf("; connections %s; weight %u\n", bounded(&a, s->connections, s->connections_max),
           s->weight);
    for (ea_backend on = EA_BACKEND_CPU; on <= EA_BACKEND_GPU; on++) {
        const ea_backend_use *u = &s->use[on];
        if (!u->requests) continue;
        printf("               %s busy %s with %s", ea_backend_name(on), format_ns(&a, u->busy_ns),
               format_many(&b, u->requests, "request"));
        if (u->batches)
            printf(", of which %s shared %s", format_count(&a, u->batched_requests),
                   format_many(&b, u->batches, "run"));
        putchar('\n');
    }
    if (s->refused_queue || s->refused_connections)
        printf("               refused %s (quotas.queue), %s (quotas.connections)\n",
               format_many(&a, s->refused_queue, "request"),
               format_many(&b, s->refused_connections, "connection"));
}

static void graphs_print(const ea_stats *s)
{
    struct text a, b;
    if (!s->graphs) return;
    printf("               %s: %s", format_many(&a, s->graphs, "graph"),
           format_many(&b, s->graph_nodes, "node"));
    printf(", %s, %s\n", format_many(&a, s->graph_edges, "edge"), format_bytes(&b, s->graph_bytes));
}

static void attractors_print(const ea_stats *s)
{
    struct text a, b;
    if (!s->attractors) return;
    printf("               %s: %s", format_many(&a, s->attractors, "attractor"),
           format_many(&b, s->attractor_patterns, "pattern"));
    printf(", %s\n", format_bytes(&a, s->attractor_bytes));
}

static void scheduler_print(const ea_scheduler_stats *s)
{
    struct text a, b;
    printf("scheduler      %s", format_many(&a, s->decisions, "decision"));
    if (s->decide_max_ns) {
        printf(" taking %s (p50)", format_ns(&a, s->decide_p50_ns));
        printf(", %s (p99), %s at most", format_ns(&a, s->decide_p99_ns),
               format_ns(&b, s->decide_max_ns));
    }
    printf("\n               predicting %s; GPU runs end well: %.1f %%\n",
           s->calibrated ? "from measurements of this machine" : "from built-in figures",
           s->gpu_success_permille / 10.0);
    printf("               %s shared %s", format_many(&a, s->batched_requests, "request"),
           format_many(&b, s->batches, "run"));
    printf("; %s split over both, %s taken over\n", format_count(&a, s->splits),
           format_count(&b, s->steals));
    printf("               %s, %s went past long ones", format_many(&a, s->probes, "probe"),
           format_count(&b, s->passes));
    printf(", %s first by age\n", format_count(&a, s->aged));
}

static void pressure_print(const ea_pressure *p)
{
    struct text a, b;
    printf("pressure       VRAM is %s; made smaller: batches %s", p->low ? "short" : "not short",
           format_count(&a, p->shrunk_batches));
    printf(", runs %s; in passes: %s\n", format_count(&a, p->shrunk_runs),
           format_count(&b, p->split_runs));
    printf("               %s, %s on the CPU for it\n", format_many(&a, p->evictions, "eviction"),
           format_many(&b, p->cpu, "request"));
}

static void peers_print(const ea_stats *s)
{
    static const char *const heads[] = {"peer",     ">connections", ">requests",
                                        ">in line", ">of bodies",   ">refused",
                                        ">bodies",  ">connections", NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (uint32_t i = 0; i < s->peer_count; i++) {
        const ea_peer_stats *p = &s->peers[i];
        table_cell(t, "%s%s", p->name, p->own ? " (own)" : "");
        table_cell(t, "%s", format_count(&a, p->connections));
        table_cell(t, "%s", format_count(&a, p->requests));
        table_cell(t, "%s", bounded(&a, p->in_line, p->in_line_max));
        table_cell(t, "%s", format_bytes(&a, p->body_bytes));
        table_cell(t, "%s", format_count(&a, p->refused_queue));
        table_cell(t, "%s", format_count(&a, p->refused_bodies));
        table_cell(t, "%s", format_count(&a, p->refused_connections));
    }
    if (s->peer_count) {
        putchar('\n');
        cli_table_print(t);
    }
    table_destroy(t);
    if (s->peers_left_out) printf("and %s\n", format_many(&a, s->peers_left_out, "more peer"));
}

static void stats_print(const ea_stats *s)
{
    struct text a, b;
    printf("up             %s\n", format_ns(&a, s->uptime_ns));
    if (s->config_reloads + s->config_reloads_refused)
        printf("settings       read again %s, refused %s\n",
               format_many(&a, s->config_reloads, "time"),
               format_many(&b, s->config_reloads_refused, "time"));
    printf("connections    %s open, %s in all", format_count(&a, s->connections_open),
           format_count(&b, s->connections_total));
    printf(", %s refused, %s dropped\n", format_count(&a, s->connections_refused),
           format_count(&b, s->connections_dropped));
    printf("requests       %s, %s errors", format_count(&a, s->requests_total),
           format_count(&b, s->errors_total));
    printf(", %s cancelled, %s past their deadline\n", format_count(&a, s->cancelled_total),
           format_count(&b, s->deadline_exceeded_total));
    printf("in flight      %s queued, %s running\n", format_count(&a, s->queue_depth),
           format_count(&b, s->jobs_in_flight));
    printf("bytes          %s in, %s out\n", format_bytes(&a, s->bytes_in),
           format_bytes(&b, s->bytes_out));
    printf("memory         %s, at most %s\n", format_bytes(&a, s->memory_bytes_used),
           format_bytes(&b, s->memory_bytes_peak));
    printf("this space     %s, %s", format_many(&a, s->collections, "collection"),
           format_many(&b, s->rows, "row"));
    if (s->vram_bytes) printf(", %s of VRAM", format_bytes(&a, s->vram_bytes));
    putchar('\n');
    graphs_print(s);
    attractors_print(s);
    space_print(&s->space);
    scheduler_print(&s->scheduler);
    pressure_print(&s->pressure);
    kept_print(&s->snapshots, &s->journal);
    for (uint32_t i = 0; i < s->gpu_count; i++)
        gpu_print(&s->gpus[i]);
    operations_print(s);
    screens_print(s->screens, s->screens_count, s->screens_left_out, cli_table_print);
    peers_print(s);
    routes_print(s);
}

static void gpu_print_json(struct json *j, const ea_gpu_stats *g)
{
    json_object(j, NULL);
    json_u64(j, "number", g->number);
    json_string(j, "state", ea_gpu_state_name(g->state));
    json_u64(j, "uptime_ns", g->uptime_ns);
    json_u64(j, "restarts", g->restarts);
    json_u64(j, "jobs_in_flight", g->jobs_in_flight);
    json_u64(j, "budget_bytes", g->budget_bytes);
    json_u64(j, "replica_bytes", g->replica_bytes);
    json_u64(j, "slab_bytes", g->slab_bytes);
    json_u64(j, "request_bytes", g->request_bytes);
    json_u64(j, "free_bytes", g->free_bytes);
    json_u64(j, "pinned_bytes", g->pinned_bytes);
    json_u64(j, "replicas", g->replicas);
    json_u64(j, "streams", g->streams);
    json_u64(j, "uploads", g->uploads);
    json_u64(j, "upload_bytes", g->upload_bytes);
    json_u64(j, "upload_ns", g->upload_ns);
    json_u64(j, "evictions", g->evictions);
    json_u64(j, "runs", g->runs);
    json_u64(j, "run_ns", g->run_ns);
    json_u64(j, "errors", g->errors);
    json_u64(j, "no_memory", g->no_memory);
    json_u64(j, "shrunk", g->shrunk);
    json_u64(j, "split", g->split);
    sensors_json(j, &g->sensors);
    json_end(j);
}

static void routes_print_json(struct json *j, const ea_stats *s)
{
    json_object(j, "requests_by_backend");
    for (int i = EA_BACKEND_CPU; i < EA_BACKENDS; i++)
        json_u64(j, ea_backend_name((ea_backend)i), s->backend_requests[i]);
    json_end(j);
    json_array(j, "routes");
    for (uint32_t i = 0; i < s->route_count; i++) {
        json_object(j, NULL);
        json_string(j, "backend", ea_backend_name(s->routes[i].backend));
        json_string(j, "reason", ea_reason_name(s->routes[i].reason));
        json_u64(j, "requests", s->routes[i].requests);
        json_end(j);
    }
    json_end(j);
}

static void space_print_json(struct json *j, const ea_space_stats *s)
{
    json_object(j, "space");
    json_u64(j, "host_bytes", s->host_bytes);
    json_u64(j, "host_bytes_max", s->host_bytes_max);
    json_u64(j, "vram_bytes_max", s->vram_bytes_max);
    json_u64(j, "queue_depth", s->queue_depth);
    json_u64(j, "queue_max", s->queue_max);
    json_u64(j, "connections", s->connections);
    json_u64(j, "connections_max", s->connections_max);
    json_u64(j, "weight", s->weight);
    json_u64(j, "refused_queue", s->refused_queue);
    json_u64(j, "refused_connections", s->refused_connections);
    for (ea_backend b = EA_BACKEND_CPU; b <= EA_BACKEND_GPU; b++) {
        json_object(j, ea_backend_name(b));
        json_u64(j, "requests", s->use[b].requests);
        json_u64(j, "busy_ns", s->use[b].busy_ns);
        json_u64(j, "batches", s->use[b].batches);
        json_u64(j, "batched_requests", s->use[b].batched_requests);
        json_end(j);
    }
    json_end(j);
}

static void scheduler_print_json(struct json *j, const ea_stats *stats)
{
    const ea_scheduler_stats *s = &stats->scheduler;
    const ea_pressure *p = &stats->pressure;
    json_object(j, "scheduler");
    json_bool(j, "calibrated", s->calibrated);
    json_u64(j, "decisions", s->decisions);
    json_u64(j, "decide_p50_ns", s->decide_p50_ns);
    json_u64(j, "decide_p99_ns", s->decide_p99_ns);
    json_u64(j, "decide_max_ns", s->decide_max_ns);
    json_u64(j, "batches", s->batches);
    json_u64(j, "batched_requests", s->batched_requests);
    json_u64(j, "splits", s->splits);
    json_u64(j, "steals", s->steals);
    json_u64(j, "probes", s->probes);
    json_u64(j, "aged", s->aged);
    json_u64(j, "passes", s->passes);
    json_double(j, "gpu_success", s->gpu_success_permille / 1000.0);
    json_end(j);
    json_object(j, "pressure");
    json_bool(j, "low", p->low);
    json_u64(j, "shrunk_batches", p->shrunk_batches);
    json_u64(j, "shrunk_runs", p->shrunk_runs);
    json_u64(j, "split_runs", p->split_runs);
    json_u64(j, "evictions", p->evictions);
    json_u64(j, "cpu", p->cpu);
    json_end(j);
}

static void peers_print_json(struct json *j, const ea_stats *s)
{
    json_array(j, "peers");
    for (uint32_t i = 0; i < s->peer_count; i++) {
        const ea_peer_stats *p = &s->peers[i];
        json_object(j, NULL);
        json_string(j, "name", p->name);
        json_bool(j, "own", p->own);
        json_u64(j, "connections", p->connections);
        json_u64(j, "requests", p->requests);
        json_u64(j, "in_line", p->in_line);
        json_u64(j, "in_line_max", p->in_line_max);
        json_u64(j, "body_bytes", p->body_bytes);
        json_u64(j, "refused_queue", p->refused_queue);
        json_u64(j, "refused_connections", p->refused_connections);
        json_u64(j, "refused_bodies", p->refused_bodies);
        json_end(j);
    }
    json_end(j);
    json_u64(j, "peers_left_out", s->peers_left_out);
}

static void stats_print_json(const ea_stats *s)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "uptime_ns", s->uptime_ns);
    json_u64(&j, "config_reloads", s->config_reloads);
    json_u64(&j, "config_reloads_refused", s->config_reloads_refused);
    json_u64(&j, "connections_open", s->connections_open);
    json_u64(&j, "connections_total", s->connections_total);
    json_u64(&j, "connections_refused", s->connections_refused);
    json_u64(&j, "connections_dropped", s->connections_dropped);
    json_u64(&j, "requests_total", s->requests_total);
    json_u64(&j, "errors_total", s->errors_total);
    json_u64(&j, "cancelled_total", s->cancelled_total);
    json_u64(&j, "deadline_exceeded_total", s->deadline_exceeded_total);
    json_u64(&j, "bytes_in", s->bytes_in);
    json_u64(&j, "bytes_out", s->bytes_out);
    json_u64(&j, "queue_depth", s->queue_depth);
    json_u64(&j, "jobs_in_flight", s->jobs_in_flight);
    json_u64(&j, "memory_bytes_used", s->memory_bytes_used);
    json_u64(&j, "memory_bytes_peak", s->memory_bytes_peak);
    json_u64(&j, "collections", s->collections);
    json_u64(&j, "rows", s->rows);
    json_u64(&j, "graphs", s->graphs);
    json_u64(&j, "graph_nodes", s->graph_nodes);
    json_u64(&j, "graph_edges", s->graph_edges);
    json_u64(&j, "graph_bytes", s->graph_bytes);
    json_u64(&j, "attractors", s->attractors);
    json_u64(&j, "attractor_patterns", s->attractor_patterns);
    json_u64(&j, "attractor_bytes", s->attractor_bytes);
    json_u64(&j, "vram_bytes", s->vram_bytes);
    json_array(&j, "operations");
    for (uint32_t i = 0; i < s->operation_count; i++) {
        const ea_operation_stats *o = &s->operations[i];
        json_object(&j, NULL);
        json_string(&j, "name", o->name);
        json_u64(&j, "requests", o->requests);
        json_u64(&j, "errors", o->errors);
        json_u64(&j, "total_ns", o->total_ns);
        json_u64(&j, "p50_ns", o->p50_ns);
        json_u64(&j, "p90_ns", o->p90_ns);
        json_u64(&j, "p99_ns", o->p99_ns);
        json_u64(&j, "max_ns", o->max_ns);
        json_end(&j);
    }
    json_end(&j);
    json_array(&j, "gpus");
    for (uint32_t i = 0; i < s->gpu_count; i++)
        gpu_print_json(&j, &s->gpus[i]);
    json_end(&j);
    routes_print_json(&j, s);
    space_print_json(&j, &s->space);
    scheduler_print_json(&j, s);
    peers_print_json(&j, s);
    screens_json(&j, s->screens, s->screens_count, s->screens_left_out);
    kept_json(&j, &s->snapshots, &s->journal);
    json_end(&j);
}

static int stats_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_stats stats;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_get_stats(cli->client, &stats);
    if (status) return cli_failed(cli, status, "stats");
    if (cli->json)
        stats_print_json(&stats);
    else
        stats_print(&stats);
    return CLI_OK;
}

const struct command command_stats = {
    "stats",
    "what the daemon has done since it started",
    "",
    "Print counters, memory, snapshots and the journal, GPUs, the time each operation took, and "
    "where requests ran and why.",
    NULL,
    NULL,
    stats_run};
