/* bench: measures how fast the daemon answers. */
#include "client/cli/commands/bench.h"

#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/interrupt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_operation_names[] = {"ping", "knn", "score", "similarity", NULL};

enum {
    OPTION_OPERATION = 0x500,
    OPTION_CONNECTIONS,
    OPTION_DEPTH,
    OPTION_RATE,
    OPTION_SECONDS,
    OPTION_BATCH,
    OPTION_CANDIDATES,
    OPTION_COLLECTION,
    OPTION_ROWS,
    OPTION_DIM,
    OPTION_REPORT
};

static const struct argp_option bench_options[] = {
    {"operation", OPTION_OPERATION, "NAME", 0, "ping, knn, score or similarity (default: knn)", 0},
    {"connections", OPTION_CONNECTIONS, "N", 0, "Connections at once (default: 1)", 0},
    {"depth", OPTION_DEPTH, "N", 0, "Requests in flight on each connection (default: 1)", 0},
    {"rate", OPTION_RATE, "R", 0,
     "Requests a second in all; 0: as fast as they are answered (default: 0)", 0},
    {"seconds", OPTION_SECONDS, "S", 0, "How long (default: 5)", 0},
    {"batch", OPTION_BATCH, "Q", 0, "Queries in a request (default: 1)", 0},
    {NULL, 'k', "N", 0, "Of knn: how many to find; of score: 0 for all scores (default: 10)", 0},
    {"candidates", OPTION_CANDIDATES, "N", 0, "Of score: ids for each query (default: 100)", 0},
    {"collection", OPTION_COLLECTION, "NAME", 0,
     "Ask this one (default: one of random rows, made before and dropped after)", 0},
    {"rows", OPTION_ROWS, "N", 0, "Rows of the random collection (default: 10000)", 0},
    {"dim", OPTION_DIM, "D", 0, "Its dimension (default: 384)", 0},
    {"report", OPTION_REPORT, NULL, 0,
     "Print a page about this machine: what it is, some figures (--seconds each, default 1), and "
     "from how many rows on a card is faster, as predicted and, by root or the daemon's user, as "
     "measured up to --rows (default 65536), for which gpu.force is set meanwhile",
     0},
    {0},
};

static error_t bench_parse(int key, char *text, struct argp_state *state)
{
    struct bench_options *o = state->input;
    unsigned operation = 0;
    switch (key) {
    case OPTION_OPERATION:
        while (bench_operation_names[operation] &&
               strcmp(bench_operation_names[operation], text) != 0)
            operation++;
        if (!bench_operation_names[operation])
            argp_error(state, "--operation: '%s' is not ping, knn, score or similarity", text);
        o->operation = (enum bench_operation)operation;
        break;
    case OPTION_CONNECTIONS:
        o->connections = cli_argument_u64(state, "--connections", text, 1, 10000);
        break;
    case OPTION_DEPTH: o->depth = cli_argument_u64(state, "--depth", text, 1, 100000); break;
    case OPTION_RATE: o->rate = cli_argument_number(state, "--rate", text, 0, 1e9); break;
    case OPTION_SECONDS:
        o->seconds = cli_argument_number(state, "--seconds", text, 0.01, 1e6);
        break;
    case OPTION_BATCH: o->batch = cli_argument_u64(state, "--batch", text, 1, 65536); break;
    case 'k': o->k = cli_argument_u64(state, "-k", text, 0, UINT32_MAX); break;
    case OPTION_CANDIDATES:
        o->candidates = cli_argument_u64(state, "--candidates", text, 1, 1000000);
        break;
    case OPTION_COLLECTION: o->collection = text; break;
    case OPTION_ROWS: o->rows = cli_argument_u64(state, "--rows", text, 1, UINT32_MAX); break;
    case OPTION_DIM:
        o->dimension = cli_argument_u64(state, "--dim", text, 1, EA_DIMENSION_MAX);
        break;
    case OPTION_REPORT: o->report = true; break;
    case ARGP_KEY_END:
        if (o->seconds <= 0) o->seconds = o->report ? 1 : 5;
        if (!o->rows) o->rows = o->report ? 65536 : 10000;
        break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct {
    const char *label, *member;
    double fraction;
} percentiles[] = {{"p50", "p50_ns", 0.5},
                   {"p90", "p90_ns", 0.9},
                   {"p99", "p99_ns", 0.99},
                   {"p99.9", "p99_9_ns", 0.999}};

static double per_second(const struct bench_result *r)
{
    return r->elapsed_ns ? (double)r->done / ((double)r->elapsed_ns / 1e9) : 0;
}

static void print_report(const struct bench_options *o, const struct bench_result *r)
{
    static const char *const heads[] = {">requests/s", ">requests", ">errors", ">mean", ">p50",
                                        ">p90",        ">p99",      ">p99.9",  ">max",  NULL};
    struct text t;
    struct table *table = table_create(heads);
    table_cell(table, "%s", format_count(&t, (uint64_t)(per_second(r) + 0.5)));
    table_cell(table, "%s", format_count(&t, r->done));
    table_cell(table, "%s", format_count(&t, r->errors));
    table_cell(table, "%s", format_ns(&t, (uint64_t)latency_mean(&r->latency)));
    for (unsigned i = 0; i < 4; i++)
        table_cell(table, "%s",
                   format_ns(&t, latency_percentile(&r->latency, percentiles[i].fraction)));
    table_cell(table, "%s", format_ns(&t, r->latency.max_ns));
    printf("%s: %" PRIu64 " connections x %" PRIu64 " in flight, ",
           bench_operation_names[o->operation], o->connections, o->depth);
    if (o->rate > 0)
        printf("%g requests/s wanted, latency from the intended send\n", o->rate);
    else
        printf("as fast as they are answered, latency from the send\n");
    cli_table_print(table);
    table_destroy(table);
    if (r->unsent)
        printf("%s more were due, but every connection had %" PRIu64 " in flight\n",
               format_count(&t, r->unsent), o->depth);
    for (unsigned i = 0; i <= EA_UNAUTHENTICATED; i++)
        if (r->errors_of[i])
            printf("%s x %s\n", format_count(&t, r->errors_of[i]), ea_status_name((ea_status)i));
}

static void print_report_json(const struct bench_options *o, const struct bench_data *d,
                              const struct bench_result *r)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "operation", bench_operation_names[o->operation]);
    json_u64(&j, "connections", o->connections);
    json_u64(&j, "depth", o->depth);
    json_double(&j, "rate", o->rate);
    if (o->operation != BENCH_PING) {
        json_u64(&j, "batch", o->batch);
        json_u64(&j, "dimension", d->dimension);
        if (o->operation != BENCH_SIMILARITY) json_u64(&j, "k", o->k);
        if (o->operation == BENCH_SCORE) json_u64(&j, "candidates", o->candidates);
    }
    json_u64(&j, "elapsed_ns", r->elapsed_ns);
    json_double(&j, "requests_per_second", per_second(r));
    json_u64(&j, "requests", r->done);
    json_u64(&j, "errors", r->errors);
    json_u64(&j, "unsent", r->unsent);
    json_double(&j, "mean_ns", latency_mean(&r->latency));
    json_u64(&j, "min_ns", r->latency.min_ns);
    for (unsigned i = 0; i < 4; i++)
        json_u64(&j, percentiles[i].member,
                 latency_percentile(&r->latency, percentiles[i].fraction));
    json_u64(&j, "max_ns", r->latency.max_ns);
    json_object(&j, "errors_by_status");
    for (unsigned i = 0; i <= EA_UNAUTHENTICATED; i++)
        if (r->errors_of[i]) json_u64(&j, ea_status_name((ea_status)i), r->errors_of[i]);
    json_end(&j);
    json_object(&j, "daemon");
    meta_total_json(&r->meta, &j);
    json_end(&j);
    json_end(&j);
}

static int bench_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct bench_options o = {.operation = BENCH_KNN,
                              .connections = 1,
                              .depth = 1,
                              .rows = 0,
                              .dimension = 384,
                              .batch = 1,
                              .k = 10,
                              .candidates = 100};
    struct bench_data d = {0};
    struct bench_result *r = calloc(1, sizeof *r);
    cli_parse(cli, self, &o, argc, argv);
    if (!r) return cli_error(CLI_NO_MEMORY, "out of memory");
    if (o.report) {
        free(r);
        return bench_report(cli, &o);
    }
    int code = o.operation == BENCH_KNN && o.k == 0
                   ? cli_error(CLI_USAGE, "bench: -k must be at least 1 for knn")
                   : cli_info(cli);
    if (!code && o.depth > cli->info.in_flight_max)
        code = cli_error(CLI_REFUSED,
                         "--depth %" PRIu64 " is more than the %u requests that the "
                         "daemon takes from a connection",
                         o.depth, cli->info.in_flight_max);
    if (!code) {
        interrupt_politely(true);
        code = bench_data_make(&d, cli, &o);
        if (!code) code = bench_drive(cli, &o, &d, r);
        if (r->sent && cli->json)
            print_report_json(&o, &d, r);
        else if (r->sent)
            print_report(&o, r);
        if (r->sent && o.operation != BENCH_PING && r->meta.requests)
            meta_total_print(&r->meta, r->done * o.batch, "queries");
        bench_data_drop(&d, cli);
        interrupt_politely(false);
    }
    if (!code && r->errors) code = cli_error(CLI_REFUSED, "%s", r->error);
    if (interrupt_seen()) code = cli_error(CLI_INTERRUPTED, "interrupted");
    free(r);
    return code;
}

const struct command command_bench = {
    "bench",
    "how fast the daemon answers",
    "",
    "Send requests for a while and print how many were answered in a second and how long they "
    "took.\v"
    "With --rate, a latency counts from the moment at which the request should have been sent, so "
    "that requests which had to wait behind slow ones are not hidden.",
    bench_options,
    bench_parse,
    bench_run};
