/* covariance: the mean and covariance of a collection's rows. */
#include "client/cli/commands/commands.h"
#include "client/cli/files/arrays.h"
#include "client/cli/files/ids.h"
#include "client/cli/long_call.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"

#include <inttypes.h>
#include <stdlib.h>

struct covariance_command {
    const char *name, *ids_path, *weights_path, *out, *mean_path;
    struct ids ids;
    float *weights;
    uint64_t weight_count;
    bool dry_run;
    ea_covariance_result result;
};

enum { OPTION_MEAN = 0x900, OPTION_WEIGHTS, OPTION_DRY };

static const struct argp_option covariance_options[] = {
    {"out", 'o', "FILE.npy", 0, "Write the covariance (float64, d x d) to FILE", 0},
    {"mean", OPTION_MEAN, "FILE.npy", 0, "Write the mean (float64, d numbers) to FILE", 0},
    {"ids", 'i', "FILE.npy", 0,
     "Only the rows with these ids, after those given; one that is listed twice counts twice", 0},
    {"weights", OPTION_WEIGHTS, "FILE.npy", 0,
     "What each row weighs, 0 or more: in the order of the ids given or, without, of rising ids",
     0},
    {"dry-run", OPTION_DRY, NULL, 0, "Only say how long it would take, as far as can be told", 0},
    {0},
};

static error_t covariance_parse(int key, char *text, struct argp_state *state)
{
    struct covariance_command *o = state->input;
    switch (key) {
    case 'o': o->out = text; break;
    case 'i': o->ids_path = text; break;
    case OPTION_DRY: o->dry_run = true; break;
    case OPTION_MEAN: o->mean_path = text; break;
    case OPTION_WEIGHTS: o->weights_path = text; break;
    case ARGP_KEY_ARG: ids_add_behind(&o->ids, &o->name, state, text); break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int ask(struct covariance_command *o, struct cli *cli)
{
    bool listed = o->ids_path || o->ids.count;
    if (listed && o->weights_path && o->weight_count != o->ids.count)
        return cli_error(CLI_FILE, "%s: has %" PRIu64 " weights for %" PRIu64 " ids",
                         o->weights_path, o->weight_count, o->ids.count);
    static const uint64_t none;
    const ea_covariance_question question = {.collection = o->name,
                                             .ids = !listed        ? NULL
                                                    : o->ids.count ? o->ids.list
                                                                   : &none,
                                             .weights = o->weights,
                                             .dry_run = o->dry_run,
                                             .count = listed ? o->ids.count : o->weight_count};
    struct long_call call;
    long_call_begin(&call, cli);
    ea_status status = ea_covariance(cli->client, &question, &o->result);
    return long_call_end(&call, cli, status, o->name, "nothing was computed");
}

static void tell(const struct covariance_command *o, const struct cli *cli)
{
    const ea_covariance_result *r = &o->result;
    double trace = 0, squares = 0;
    for (uint64_t i = 0; i < r->dimension; i++) {
        trace += r->covariance[i * r->dimension + i];
        squares += r->mean[i] * r->mean[i];
    }
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "rows", r->rows);
        json_u64(&j, "dimension", r->dimension);
        json_double(&j, "total", r->total);
        json_double(&j, "divisor", r->divisor);
        json_double(&j, "mean_squared", squares);
        json_double(&j, "variance", trace);
        if (o->out) json_string(&j, "file", o->out);
        if (o->mean_path) json_string(&j, "mean_file", o->mean_path);
        meta_json(r->meta, &j);
        json_end(&j);
        return;
    }
    struct text text;
    printf("rows           %s\n", format_count(&text, r->rows));
    printf("dimension      %" PRIu64 "\n", r->dimension);
    if (o->weights) printf("weights        %.9g in all, divisor %.9g\n", r->total, r->divisor);
    printf("mean           squared norm %.9g\n", squares);
    printf("variance       %.9g in all, %.9g a number\n", trace, trace / (double)r->dimension);
    if (o->out)
        printf("%s  float64  %" PRIu64 " x %" PRIu64 "\n", o->out, r->dimension, r->dimension);
    if (o->mean_path) printf("%s  float64  %" PRIu64 "\n", o->mean_path, r->dimension);
    struct meta_total meta = {0};
    meta_total_add(&meta, r->meta);
    meta_total_print(&meta, r->rows, r->rows == 1 ? "row" : "rows");
}

static int covariance_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct covariance_command o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code && o.weights_path)
        code = arrays_read_column(o.weights_path, "one", &o.weights, &o.weight_count);
    if (!code) code = cli_connect(cli);
    if (!code && o.out && !o.dry_run) code = arrays_writable(o.out);
    if (!code && o.mean_path && !o.dry_run) code = arrays_writable(o.mean_path);
    if (!code) code = ask(&o, cli);
    uint64_t d = o.result.dimension;
    if (!code && o.dry_run) {
        long_call_predicted(cli, o.name, o.result.meta, "nothing was computed");
        o.out = o.mean_path = NULL;
    }
    if (!code && o.out) code = arrays_write(o.out, NPY_WRITE_FLOAT64, 2, d, d, o.result.covariance);
    if (!code && o.mean_path)
        code = arrays_write(o.mean_path, NPY_WRITE_FLOAT64, 1, d, 1, o.result.mean);
    if (!code && !o.dry_run) tell(&o, cli);
    ea_covariance_result_free(&o.result);
    ids_free(&o.ids);
    free(o.weights);
    return code;
}

const struct command command_covariance = {
    "covariance",
    "mean and covariance of rows",
    "NAME [ID...]",
    "Compute the mean and the covariance (divisor n - 1) of the rows of the collection NAME in "
    "binary64: of all of them, or of those with the ids given. Prints the squared norm of the mean "
    "and the variance, which is the covariance's trace; --out and --mean write the numbers.\v"
    "The numbers are the same, bit for bit, on every machine. With --weights they are those of "
    "numpy.cov with aweights: the mean is sum(w x) / sum(w), the divisor sum(w) - sum(w^2) / "
    "sum(w).",
    covariance_options,
    covariance_parse,
    covariance_run};
