/* bench_report: a page about this machine: what it is, a few figures, and from where on a card is
 * faster, predicted and as requests went. */
#include "client/cli/commands/bench.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    enum bench_operation operation;
    uint64_t rows, batch, connections;
} figures[] = {{BENCH_PING, 0, 1, 1},          {BENCH_KNN, 1000, 1, 1},   {BENCH_KNN, 10000, 1, 1},
               {BENCH_KNN, 50000, 1, 1},       {BENCH_KNN, 50000, 64, 1}, {BENCH_KNN, 10000, 1, 16},
               {BENCH_SIMILARITY, 1000, 1, 1}, {BENCH_SCORE, 10000, 1, 1}};

#define DIMENSION    384u
#define AGAIN_US     50000u
#define MEASURED_US  2000000u
#define FRESH_NS     UINT64_C(3000000000)
#define CARD_WAIT_NS UINT64_C(30000000000)

static void machine(struct cli *cli)
{
    char line[200], model[160] = "?";
    struct text a, b;
    FILE *in = fopen("/proc/cpuinfo", "re");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(model, sizeof model, "%s", strchr(line, ':') + 2);
            model[strcspn(model, "\n")] = 0;
            break;
        }
    if (in) fclose(in);
    const ea_info *i = &cli->info;
    printf("machine    %s, %ld processors, %s of memory for the daemon\n", model,
           sysconf(_SC_NPROCESSORS_ONLN), format_bytes(&a, i->memory_bytes_max));
    printf("kernels    %s, %u workers\n", i->kernels, i->workers);
    printf("gpu        %s\n", i->gpu);
    printf("versions   tool %s, library %s, daemon %s (%s)\n", ENGRAM_VERSION, ea_library_version(),
           i->server_version, i->build);
    printf("up         %s\n\n", format_ns(&b, i->uptime_ns));
}

static int measure(struct cli *cli, const struct bench_options *given, size_t at, struct table *t)
{
    struct bench_options o = *given;
    struct bench_data d = {0};
    struct text a;
    struct bench_result *r = calloc(1, sizeof *r);
    if (!r) return cli_error(CLI_NO_MEMORY, "out of memory");
    o.operation = figures[at].operation;
    o.rows = figures[at].rows ? figures[at].rows : 1;
    o.batch = figures[at].batch;
    o.connections = figures[at].connections;
    o.dimension = DIMENSION;
    char label[32];
    snprintf(label, sizeof label, "%zu of %zu, ", at + 1, sizeof figures / sizeof *figures);
    o.label = label;
    int code = bench_data_make(&d, cli, &o);
    if (!code) code = bench_drive(cli, &o, &d, r);
    bench_data_drop(&d, cli);
    if (!code && r->errors) code = cli_error(CLI_REFUSED, "%s", r->error);
    if (!code) {
        double seconds = (double)r->elapsed_ns / 1e9;
        table_cell(t, "%s", bench_operation_names[o.operation]);
        table_cell(t, "%s", figures[at].rows ? format_count(&a, o.rows) : "-");
        table_cell(t, "%" PRIu64, o.batch);
        table_cell(t, "%" PRIu64, o.connections);
        table_cell(t, "%s", format_count(&a, (uint64_t)((double)r->done / seconds + 0.5)));
        table_cell(t, "%s", format_ns(&a, latency_percentile(&r->latency, 0.5)));
        table_cell(t, "%s", format_ns(&a, latency_percentile(&r->latency, 0.99)));
        table_cell(t, "%s",
                   r->meta.way_count == 0  ? "-"
                   : r->meta.way_count > 1 ? "both"
                                           : ea_backend_name(r->meta.ways[0].backend));
    }
    free(r);
    return code;
}

static int predictions(struct cli *cli)
{
    struct text a, b;
    ea_explanation *e = calloc(1, sizeof *e);
    if (!e) return cli_error(CLI_NO_MEMORY, "out of memory");
    ea_status status = ea_explain(cli->client, 0, e);
    int code = status ? cli_failed(cli, status, "explain") : CLI_OK;
    if (!code)
        printf("\npredicted from %s: rows of 768 from which the card is faster\n",
               e->calibrated ? "measurements of this machine" : "built-in guesses");
    for (uint32_t i = 0; !code && i < e->operation_count; i++) {
        const ea_operation_cost *o = &e->operations[i];
        for (uint32_t c = 0; c < o->crossover_count; c++) {
            const ea_crossover *x = &o->crossovers[c];
            if (!x->rows)
                printf("  %-20s %6u queries  never\n", o->name, x->queries);
            else
                printf("  %-20s %6u queries  %s (cpu %s, gpu %s)\n", o->name, x->queries,
                       format_count(&(struct text){0}, x->rows), format_ns(&a, x->cpu_ns),
                       format_ns(&b, x->gpu_ns));
        }
    }
    free(e);
    return code;
}

static bool starts(const struct cli *cli)
{
    bool some = false;
    for (uint32_t i = 0; i < cli->info.gpu_count; i++)
        some |= cli->info.gpus[i].state == EA_GPU_STARTING;
    return some;
}

/* A card takes a moment to start, and its daemon another one, in which nobody asks, to measure it
 * and the processor. */
static int wait_for_card(struct cli *cli)
{
    int code = cli_info(cli);
    bool fresh = !code && (starts(cli) || cli->info.uptime_ns < FRESH_NS);
    uint64_t since_ns = clock_ns();
    while (!code && starts(cli) && !interrupt_seen() && clock_ns() - since_ns < CARD_WAIT_NS) {
        usleep(AGAIN_US);
        ea_status status = ea_get_info(cli->client, &cli->info);
        if (status) code = cli_failed(cli, status, "info");
    }
    if (!code && fresh && !interrupt_seen()) usleep(MEASURED_US);
    return code;
}

int bench_report(struct cli *cli, const struct bench_options *given)
{
    static const char *const heads[] = {"operation",    ">rows",       ">queries",
                                        ">connections", ">requests/s", ">p50",
                                        ">p99",         "ran on",      NULL};
    struct table *t = table_create(heads);
    int code = cli->json
                   ? cli_error(CLI_USAGE, "--report is a page for people; bench --json has one "
                                          "figure")
                   : CLI_OK;
    interrupt_politely(true); /* what was made is dropped, what was set is set back */
    if (!code) code = wait_for_card(cli);
    if (!code) machine(cli);
    for (size_t at = 0; !code && !interrupt_seen() && at < sizeof figures / sizeof *figures; at++) {
        code = measure(cli, given, at, t);
    }
    if (!code && !interrupt_seen()) {
        printf("random rows of %u numbers, %.1f s each; what ran where is what was measured as "
               "faster\n",
               DIMENSION, given->seconds);
        cli_table_print(t);
        code = predictions(cli);
    }
    if (!code && !interrupt_seen()) code = bench_break_evens(cli, given);
    table_destroy(t);
    interrupt_politely(false);
    if (interrupt_seen()) code = cli_error(CLI_INTERRUPTED, "interrupted");
    return code;
}
