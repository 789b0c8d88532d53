/* explain: why requests run where they run: the costs of each backend, and the outcomes of
 * decisions. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/text/screens.h"

#include <math.h>
#include <string.h>

static const double NEAR = 1.25; /* times that differ by less than this factor count as near */

struct explain {
    uint32_t last;
};

static const struct argp_option explain_options[] = {
    {"last", 'n', "N", 0, "How many of this space's last decisions to show, 0 to 64 (default: 10)",
     0},
    {0},
};

static error_t explain_parse(int key, char *text, struct argp_state *state)
{
    struct explain *o = state->input;
    if (key != 'n') return ARGP_ERR_UNKNOWN;
    o->last = (uint32_t)cli_argument_u64(state, "--last", text, 0, EA_DECISIONS_MAX);
    return 0;
}

/* Returns took / predicted; 0: there was no prediction. */
static double ratio_of(const ea_decision *d)
{
    uint64_t predicted = d->backend == EA_BACKEND_GPU ? d->gpu_ns : d->cpu_ns;
    return predicted ? (double)d->took_ns / (double)predicted : 0;
}

/* ---- for people ---- */

static const char *percent(struct text *t, double part)
{
    snprintf(t->c, sizeof t->c, "%.0f %%", isfinite(part) ? 100 * part : 0);
    return t->c;
}

static const char *predicted(struct text *t, uint64_t ns)
{
    return ns ? format_ns(t, ns) : "-";
}

static void model_print(const ea_explanation *e)
{
    struct text a, b, c;
    printf("gpu            %s\n", e->gpu[0] ? e->gpu : "-");
    printf("predictions    %s, %s\n",
           e->calibrated ? "measured on this machine" : "from built-in figures",
           format_many(&a, e->workers, "worker"));
    printf("               replicas upload at %s, %s beside that\n",
           format_rate(&a, e->upload_byte_ns, "B/s"), format_fine_ns(&b, e->upload_ns));
    if (e->force)
        printf("forced         to %s%s (gpu.force)\n", e->force == EA_BACKEND_BOTH ? "" : "the ",
               ea_backend_name(e->force));
    printf("to the GPU     from %s on (similarity, knn), %s (others), %s (spreads)\n",
           format_many(&a, e->pairs_min, "pair"), format_many(&b, e->candidates_min, "candidate"),
           format_many(&c, e->nodes_min, "node"));
    printf("               if %s times as fast by a guess, faster when sure\n",
           format_ratio(&a, e->speedup_percent / 100.0));
    printf("               while %u %% of its runs end well\n", e->success_percent);
    printf("probes         at most %u %% of the time\n", e->probe_percent);
    printf("batches        at most %s and %s, waiting %s for company\n",
           format_many(&a, e->batch_requests_max, "request"),
           e->batch_queries_max == 1 ? "1 query" : format_count(&b, e->batch_queries_max),
           format_ns(&c, e->batch_wait_ns));
    printf("fairness       turns of %s, %s of work at a backend, aging after %s\n",
           format_ns(&a, e->quantum_ns), format_ns(&b, e->window_ns), format_ns(&c, e->age_ns));
    printf("split          %s\n", e->split ? "over both backends where that ends sooner" : "never");
}

static void costs_print(const ea_explanation *e)
{
    static const char *const heads[] = {"costs",     "on",     ">fixed", ">handed", ">rows read",
                                        ">products", ">query", ">score", ">moved",  NULL};
    struct text t;
    struct table *table = table_create(heads);
    for (uint32_t i = 0; i < e->operation_count; i++)
        for (ea_backend b = EA_BACKEND_CPU; b <= EA_BACKEND_GPU; b++) {
            const ea_backend_cost *c = &e->operations[i].costs[b];
            table_cell(table, "%s", b == EA_BACKEND_CPU ? e->operations[i].name : "");
            table_cell(table, "%s", ea_backend_name(b));
            table_cell(table, "%s", format_fine_ns(&t, c->fixed_ns));
            table_cell(table, "%s", format_fine_ns(&t, c->handed_ns));
            table_cell(table, "%s", format_rate(&t, c->row_byte_ns, "B/s"));
            table_cell(table, "%s", format_rate(&t, c->product_ns, "/s"));
            table_cell(table, "%s", format_fine_ns(&t, c->query_ns));
            table_cell(table, "%s", format_fine_ns(&t, c->pair_ns));
            table_cell(table, "%s", format_rate(&t, c->moved_byte_ns, "B/s"));
        }
    putchar('\n');
    cli_table_print(table);
    table_destroy(table);
}

static void screened_print(const ea_explanation *e)
{
    struct text a, b;
    if (e->screened[EA_BACKEND_CPU] > 0)
        printf("knn that asks int8 first takes what the bytes that it reads would, times %s on the "
               "CPU, %s on a GPU\n",
               format_ratio(&a, (double)e->screened[EA_BACKEND_CPU]),
               format_ratio(&b, (double)e->screened[EA_BACKEND_GPU]));
}

static void learnt_print(const ea_explanation *e)
{
    static const char *const heads[] = {"learnt", "on",       ">runs",   ">drift",     ">off by",
                                        ">sure",  ">success", ">probes", ">surprises", NULL};
    struct text t;
    struct table *table = table_create(heads);
    for (uint32_t i = 0; i < e->operation_count; i++)
        for (ea_backend b = EA_BACKEND_CPU; b <= EA_BACKEND_GPU; b++) {
            const ea_backend_cost *c = &e->operations[i].costs[b];
            table_cell(table, "%s", b == EA_BACKEND_CPU ? e->operations[i].name : "");
            table_cell(table, "%s", ea_backend_name(b));
            table_cell(table, "%s", format_count(&t, c->seen));
            table_cell(table, "%s", format_ratio(&t, (double)c->drift));
            table_cell(table, "%s", percent(&t, (double)c->spread));
            table_cell(table, "%s", percent(&t, (double)c->confidence));
            table_cell(table, "%s", c->outcomes ? percent(&t, c->success_permille / 1000.0) : "-");
            table_cell(table, "%s", format_count(&t, c->probes));
            table_cell(table, "%s", format_count(&t, c->surprises));
        }
    putchar('\n');
    cli_table_print(table);
    table_destroy(table);
}

static void crossovers_print(const ea_explanation *e)
{
    static const char *const heads[] = {"GPU faster", ">queries",   ">from rows",
                                        ">cpu there", ">gpu there", NULL};
    struct text t;
    struct table *table = table_create(heads);
    for (uint32_t i = 0; i < e->operation_count; i++)
        for (uint32_t k = 0; k < e->operations[i].crossover_count; k++) {
            const ea_crossover *x = &e->operations[i].crossovers[k];
            table_cell(table, "%s", k ? "" : e->operations[i].name);
            table_cell(table, "%s", format_count(&t, x->queries));
            table_cell(table, "%s", x->rows ? format_count(&t, x->rows) : "never");
            table_cell(table, "%s", x->rows ? format_ns(&t, x->cpu_ns) : "-");
            table_cell(table, "%s", x->rows ? format_ns(&t, x->gpu_ns) : "-");
        }
    putchar('\n');
    cli_table_print(table);
    table_destroy(table);
    puts("of 768 numbers, k 10, replica there, nothing waiting; rows of candidates: of all lists");
}

static void decision_print(struct table *table, const ea_decision *d, const ea_row_bytes *of)
{
    struct text a, b;
    bool gpu = d->backend == EA_BACKEND_GPU;
    uint64_t bytes = gpu ? of->gpu : of->cpu;
    table_cell(table, "%s", format_ns(&a, d->ago_ns));
    table_cell(table, "%s%s", d->name, d->filtered ? " (filter)" : "");
    if (d->queries)
        table_cell(table, "%s x %s x %u", format_count(&a, d->queries), format_count(&b, d->rows),
                   d->dimension);
    else
        table_cell(table, "-");
    table_cell(table, "%s", d->members > 1 ? format_count(&a, d->members) : "-");
    if (gpu)
        table_cell(table, "gpu%u", d->gpu);
    else
        table_cell(table, "cpu");
    table_cell(table, "%s", ea_reason_name(d->reason));
    table_cell(table, "%s", predicted(&a, d->wait_ns));
    table_cell(table, "%s", predicted(&a, gpu ? d->cpu_ns : d->gpu_ns));
    table_cell(table, "%s", predicted(&a, gpu ? d->gpu_ns : d->cpu_ns));
    table_cell(table, "%s", bytes ? format_bytes(&a, bytes) : "-");
    table_cell(table, "%s", format_ns(&a, d->took_ns));
    table_cell(table, "%s", d->well ? format_ratio(&a, ratio_of(d)) : "failed");
}

static void decisions_print(const ea_explanation *e)
{
    static const char *const heads[] = {
        ">ago",  "operation", "queries x rows x dim", ">batch", "on",    "reason",
        ">wait", ">other",    ">predicted",           ">of",    ">took", ">ratio",
        NULL};
    struct table *table = table_create(heads);
    uint32_t near = 0, judged = 0;
    for (uint32_t i = 0; i < e->decision_count; i++) {
        const ea_decision *d = &e->decisions[i];
        double ratio = ratio_of(d);
        decision_print(table, d, &e->row_bytes[i]);
        if (!d->well || ratio <= 0) continue;
        judged++;
        near += ratio <= NEAR && ratio >= 1 / NEAR;
    }
    putchar('\n');
    if (e->decision_count)
        cli_table_print(table);
    else
        puts("no decisions of this space are kept");
    if (judged) printf("%u of %u took what was predicted, give or take 25 %%\n", near, judged);
    table_destroy(table);
}

/* ---- JSON ---- */

static void cost_json(struct json *j, const char *key, const ea_backend_cost *c, float screened)
{
    json_object(j, key);
    json_double(j, "fixed_ns", c->fixed_ns);
    json_double(j, "handed_ns", c->handed_ns);
    json_double(j, "row_byte_ns", c->row_byte_ns);
    json_double(j, "product_ns", c->product_ns);
    json_double(j, "query_ns", c->query_ns);
    json_double(j, "score_ns", c->pair_ns);
    json_double(j, "moved_byte_ns", c->moved_byte_ns);
    json_float(j, "drift", c->drift);
    if (screened > 0) json_float(j, "screened", screened);
    json_float(j, "spread", c->spread);
    json_float(j, "confidence", c->confidence);
    json_double(j, "success", c->success_permille / 1000.0);
    json_u64(j, "outcomes", c->outcomes);
    json_u64(j, "seen", c->seen);
    json_u64(j, "probes", c->probes);
    json_u64(j, "surprises", c->surprises);
    json_end(j);
}

static void operations_json(struct json *j, const ea_explanation *e)
{
    json_array(j, "operations");
    for (uint32_t i = 0; i < e->operation_count; i++) {
        const ea_operation_cost *o = &e->operations[i];
        json_object(j, NULL);
        json_string(j, "name", o->name);
        bool knn = strcmp(o->name, "knn") == 0;
        for (ea_backend b = EA_BACKEND_CPU; b <= EA_BACKEND_GPU; b++)
            cost_json(j, ea_backend_name(b), &o->costs[b], knn ? e->screened[b] : 0);
        json_array(j, "crossovers");
        for (uint32_t k = 0; k < o->crossover_count; k++) {
            json_object(j, NULL);
            json_u64(j, "queries", o->crossovers[k].queries);
            if (o->crossovers[k].rows)
                json_u64(j, "rows", o->crossovers[k].rows);
            else
                json_null(j, "rows");
            json_u64(j, "cpu_ns", o->crossovers[k].cpu_ns);
            json_u64(j, "gpu_ns", o->crossovers[k].gpu_ns);
            json_end(j);
        }
        json_end(j);
        json_end(j);
    }
    json_end(j);
}

static void decisions_json(struct json *j, const ea_explanation *e)
{
    json_array(j, "decisions");
    for (uint32_t i = 0; i < e->decision_count; i++) {
        const ea_decision *d = &e->decisions[i];
        json_object(j, NULL);
        json_string(j, "operation", d->name);
        json_string(j, "backend", ea_backend_name(d->backend));
        if (d->backend == EA_BACKEND_GPU)
            json_u64(j, "gpu", d->gpu);
        else
            json_null(j, "gpu");
        json_string(j, "reason", ea_reason_name(d->reason));
        json_u64(j, "ago_ns", d->ago_ns);
        json_u64(j, "queries", d->queries);
        json_u64(j, "rows", d->rows);
        json_u64(j, "dimension", d->dimension);
        json_u64(j, "k", d->k);
        json_bool(j, "filtered", d->filtered);
        json_u64(j, "batch", d->members);
        json_u64(j, "cpu_ns", d->cpu_ns);
        json_u64(j, "gpu_ns", d->gpu_ns);
        json_u64(j, "cpu_row_bytes", e->row_bytes[i].cpu);
        json_u64(j, "gpu_row_bytes", e->row_bytes[i].gpu);
        json_u64(j, "wait_ns", d->wait_ns);
        json_u64(j, "took_ns", d->took_ns);
        if (ratio_of(d) > 0)
            json_double(j, "ratio", ratio_of(d));
        else
            json_null(j, "ratio");
        json_bool(j, "well", d->well);
        json_end(j);
    }
    json_end(j);
}

static void settings_json(struct json *j, const ea_explanation *e)
{
    json_object(j, "settings");
    json_string(j, "force", ea_backend_name(e->force));
    json_u64(j, "pairs_min", e->pairs_min);
    json_u64(j, "candidates_min", e->candidates_min);
    json_u64(j, "nodes_min", e->nodes_min);
    json_u64(j, "speedup_percent", e->speedup_percent);
    json_u64(j, "success_percent", e->success_percent);
    json_u64(j, "probe_percent", e->probe_percent);
    json_u64(j, "window_ns", e->window_ns);
    json_u64(j, "quantum_ns", e->quantum_ns);
    json_u64(j, "age_ns", e->age_ns);
    json_u64(j, "batch_wait_ns", e->batch_wait_ns);
    json_u64(j, "batch_queries_max", e->batch_queries_max);
    json_u64(j, "batch_requests_max", e->batch_requests_max);
    json_bool(j, "split", e->split);
    json_end(j);
}

static void explain_print_json(const ea_explanation *e)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "gpu", e->gpu);
    json_bool(&j, "calibrated", e->calibrated);
    json_u64(&j, "workers", e->workers);
    json_double(&j, "upload_byte_ns", e->upload_byte_ns);
    json_double(&j, "upload_ns", e->upload_ns);
    settings_json(&j, e);
    operations_json(&j, e);
    json_u64(&j, "decisions_total", e->decisions_total);
    decisions_json(&j, e);
    screens_json(&j, e->screens, e->screens_count, e->screens_left_out);
    json_end(&j);
}

static int explain_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct explain o = {.last = 10};
    ea_explanation e;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_explain(cli->client, o.last, &e);
    if (status) return cli_failed(cli, status, "explain");
    if (cli->json) {
        explain_print_json(&e);
        return CLI_OK;
    }
    model_print(&e);
    costs_print(&e);
    learnt_print(&e);
    screened_print(&e);
    crossovers_print(&e);
    screens_print(e.screens, e.screens_count, e.screens_left_out, cli_table_print);
    if (o.last) decisions_print(&e);
    return CLI_OK;
}

const struct command command_explain = {
    "explain",
    "why requests run on CPU or GPU",
    "",
    "Print what each backend is predicted to cost, from how many rows on the GPU is faster, and "
    "what "
    "came of this space's last decisions.\v"
    "A prediction is the sum of what 'costs' shows, each times how much of it the work has, times "
    "the drift, times what was seen of work of that size. The table of decisions has the predicted "
    "wait, the prediction for the other backend and for the one that ran it, from how many bytes "
    "of rows that is (less where they are asked in int8 first), what it took, and took "
    "divided by predicted.",
    explain_options,
    explain_parse,
    explain_run};
