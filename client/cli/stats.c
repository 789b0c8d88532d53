/* stats: what the daemon has done since it started. */
#include "client/cli/commands.h"
#include "client/cli/format.h"

#include <inttypes.h>

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Bytes in a nanosecond are GB in a second; 0 where nothing was timed. */
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

static void stats_print(const ea_stats *s)
{
    struct text a, b;
    printf("up             %s\n", format_ns(&a, s->uptime_ns));
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
    printf("this space     %s collections, %s rows", format_count(&a, s->collections),
           format_count(&b, s->rows));
    if (s->vram_bytes) printf(", %s of VRAM", format_bytes(&a, s->vram_bytes));
    putchar('\n');

    for (uint32_t i = 0; i < s->gpu_count; i++)
        gpu_print(&s->gpus[i]);
    operations_print(s);
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

static void stats_print_json(const ea_stats *s)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "uptime_ns", s->uptime_ns);
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
    "Print counters, memory, GPUs, the time each operation took, and where requests ran and why.",
    NULL,
    NULL,
    stats_run};
