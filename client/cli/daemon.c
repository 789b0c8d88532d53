/* daemon: ping, info and stats. */
#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/latency.h"
#include "client/cli/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- ping ---- */

struct ping_options {
    uint64_t count;
};

static const struct argp_option ping_options[] = {
    {"count", 'c', "N", 0, "Ping N times, one after the other (default: 1)", 0},
    {0},
};

static error_t ping_parse(int key, char *text, struct argp_state *state)
{
    struct ping_options *o = state->input;
    if (key != 'c') return ARGP_ERR_UNKNOWN;
    o->count = cli_argument_u64(state, "--count", text, 1, 1000000000);
    return 0;
}

static void ping_print(struct cli *cli, const struct latency *l)
{
    static const struct {
        const char *name;
        double fraction;
    } lines[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
    struct text t;
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "count", l->count);
        json_u64(&j, "min_ns", l->min_ns);
        json_u64(&j, "p50_ns", latency_percentile(l, 0.5));
        json_u64(&j, "p90_ns", latency_percentile(l, 0.9));
        json_u64(&j, "p99_ns", latency_percentile(l, 0.99));
        json_u64(&j, "max_ns", l->max_ns);
        json_end(&j);
    } else if (l->count == 1) {
        printf("reply in %s\n", format_ns(&t, l->max_ns));
    } else {
        printf("%" PRIu64 " replies: min %s", l->count, format_ns(&t, l->min_ns));
        for (unsigned i = 0; i < 3; i++)
            printf(", %s %s", lines[i].name,
                   format_ns(&t, latency_percentile(l, lines[i].fraction)));
        printf(", max %s\n", format_ns(&t, l->max_ns));
    }
}

static int ping_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct ping_options o = {.count = 1};
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;

    struct latency *l = calloc(1, sizeof *l);
    if (!l) return cli_error(CLI_REFUSED, "out of memory");
    ea_status status = EA_OK;
    for (uint64_t i = 0; i < o.count && !status; i++) {
        uint64_t start_ns = clock_ns();
        status = ea_ping(cli->client);
        if (!status) latency_add(l, clock_ns() - start_ns);
    }
    if (status)
        code = cli_failed(cli, status, "ping");
    else
        ping_print(cli, l);
    free(l);
    return code;
}

const struct command command_ping = {
    "ping",       "ask the daemon for a sign of life",
    "",           "Ask the daemon for a sign of life and print how long it took, connecting aside.",
    ping_options, ping_parse,
    ping_run};

/* ---- info ---- */

static void info_print(const ea_info *info)
{
    struct text a, b, c;
    printf("version        %s\n", info->server_version);
    printf("build          %s\n", info->build);
    printf("process        %u, up %s\n", info->process_id, format_ns(&a, info->uptime_ns));
    printf("instance       %016" PRIx64 "\n", info->instance);
    printf("cpu            %s\n", info->cpu_features);
    printf("kernels        %s, %u workers\n", info->kernels, info->workers);
    printf("gpu            %s\n", info->gpu);
    printf("memory         %s of %s\n", format_bytes(&a, info->memory_bytes_used),
           format_bytes(&b, info->memory_bytes_max));
    printf("connections    %u\n", info->connections);
    printf("limits         message %s, body %s, reply %s\n",
           format_bytes(&a, info->message_bytes_max), format_bytes(&b, info->body_bytes_max),
           format_bytes(&c, info->reply_bytes_max));
    printf("               dimension %u, k %u, %u requests in flight\n", info->dimension_max,
           info->k_max, info->in_flight_max);
}

static void info_print_json(const ea_info *info)
{
    struct json j;
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, info->instance);
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "version", info->server_version);
    json_string(&j, "build", info->build);
    json_string(&j, "cpu_features", info->cpu_features);
    json_string(&j, "kernels", info->kernels);
    json_string(&j, "gpu", info->gpu);
    json_string(&j, "instance", instance);
    json_u64(&j, "workers", info->workers);
    json_u64(&j, "connections", info->connections);
    json_u64(&j, "process_id", info->process_id);
    json_u64(&j, "uptime_ns", info->uptime_ns);
    json_u64(&j, "memory_bytes_used", info->memory_bytes_used);
    json_u64(&j, "memory_bytes_max", info->memory_bytes_max);
    json_object(&j, "limits");
    json_u64(&j, "message_bytes", info->message_bytes_max);
    json_u64(&j, "body_bytes", info->body_bytes_max);
    json_u64(&j, "reply_bytes", info->reply_bytes_max);
    json_u64(&j, "dimension", info->dimension_max);
    json_u64(&j, "k", info->k_max);
    json_u64(&j, "in_flight", info->in_flight_max);
    json_end(&j);
    json_end(&j);
}

static int info_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_info(cli);
    if (code) return code;
    if (cli->json)
        info_print_json(&cli->info);
    else
        info_print(&cli->info);
    return CLI_OK;
}

const struct command command_info = {
    "info",  "what the daemon is, runs on and allows",
    "",      "Print the daemon's version, build, processor, memory and limits.",
    NULL,    NULL,
    info_run};

/* ---- stats ---- */

static void stats_print(const ea_stats *s)
{
    static const char *const heads[] = {"operation", ">requests", ">errors", ">mean", ">p50",
                                        ">p90",      ">p99",      ">max",    NULL};
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
    printf("this space     %s collections, %s rows\n", format_count(&a, s->collections),
           format_count(&b, s->rows));

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
    "stats",  "what the daemon has done since it started",
    "",       "Print counters, memory and the time each operation took.",
    NULL,     NULL,
    stats_run};
