/* averages: norms of vectors, and the weighted mean of rows. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/files/arrays.h"
#include "client/cli/files/ids.h"
#include "client/cli/files/vectors_file.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>

#define BLOCK_BYTES (8u << 20) /* of a request, unless the daemon allows less */

/* ---- norms ---- */

struct norms_command {
    const char *path, *out;
    struct vectors_file file;
    struct npy_writer writer;
    struct table *table;
    float *rows, *norms;
    uint64_t block, done;
};

static const struct argp_option norms_options[] = {
    {"out", 'o', "FILE.npy", 0, "Write the norms (float32) to FILE instead of a table", 0},
    {0},
};

static error_t norms_parse(int key, char *text, struct argp_state *state)
{
    struct norms_command *o = state->input;
    if (key == 'o') {
        o->out = text;
    } else if (key == ARGP_KEY_ARG && !o->path) {
        o->path = text;
    } else if (key == ARGP_KEY_ARG) {
        argp_error(state, "unexpected argument '%s'", text);
    } else if (key == ARGP_KEY_END) {
        if (!o->path) argp_error(state, "a FILE of vectors is needed");
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int norms_open(struct norms_command *o, struct cli *cli)
{
    if (!vectors_file_open(&o->file, o->path, VECTORS_OF_FLOATS))
        return cli_file_error(o->file.error);
    int code = cli_info(cli);
    if (code) return code;
    uint64_t body = cli->info.body_bytes_max;
    o->block = cli_fit(body < BLOCK_BYTES ? body : BLOCK_BYTES, 256, 4 * o->file.columns,
                       o->file.rows ? o->file.rows : 1);
    o->rows = reallocarray(NULL, o->block, 4 * o->file.columns);
    o->norms = reallocarray(NULL, o->block, sizeof *o->norms);
    if (!o->rows || !o->norms) return cli_error(CLI_NO_MEMORY, "out of memory");
    if (o->out && !npy_writer_open(&o->writer, o->out, NPY_WRITE_FLOAT32, 1, o->file.rows, 1))
        return cli_file_error(o->writer.error);
    return CLI_OK;
}

static void norms_print(struct norms_command *o, const struct cli *cli, uint64_t n)
{
    struct text t;
    for (uint64_t i = 0; i < n; i++) {
        if (cli->json) {
            struct json j;
            json_init(&j, stdout);
            json_object(&j, NULL);
            json_u64(&j, "row", o->done + i);
            json_float(&j, "norm", o->norms[i]);
            json_end(&j);
        } else {
            table_cell(o->table, "%" PRIu64, o->done + i);
            table_cell(o->table, "%s", format_score(&t, o->norms[i]));
        }
    }
}

static int norms_ask(struct norms_command *o, struct cli *cli)
{
    uint64_t n;
    struct progress progress;
    progress_start(&progress, o->file.rows, 4 * o->file.columns, clock_ns());
    while (o->done < o->file.rows) {
        if (!vectors_file_read(&o->file, o->rows, o->block, &n))
            return cli_file_error(o->file.error);
        ea_status status = ea_norms(cli->client, o->rows, n, (uint32_t)o->file.columns, o->norms);
        if (status) progress_finish(&progress);
        if (status) return cli_failed(cli, status, o->path);
        if (!o->out)
            norms_print(o, cli, n);
        else if (!npy_writer_append(&o->writer, o->norms, n))
            return cli_file_error(o->writer.error);
        o->done += n;
        if (cli->json && !o->out) continue; /* they are printed as they come */
        progress_show(&progress, o->done, clock_ns());
    }
    progress_finish(&progress);
    if (o->out && !npy_writer_finish(&o->writer)) return cli_file_error(o->writer.error);
    if (!o->out && !cli->json) cli_table_print(o->table);
    if (o->out && cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "file", o->out);
        json_u64(&j, "rows", o->done);
        json_end(&j);
    } else if (o->out) {
        printf("%s  float32  %" PRIu64 "\n", o->out, o->done);
    }
    return CLI_OK;
}

static int norms_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    static const char *const heads[] = {">row", ">norm", NULL};
    struct norms_command o = {.table = table_create(heads)};
    cli_parse(cli, self, &o, argc, argv);
    int code = norms_open(&o, cli);
    if (!code) code = norms_ask(&o, cli);
    npy_writer_abandon(&o.writer);
    vectors_file_close(&o.file);
    table_destroy(o.table);
    free(o.rows);
    free(o.norms);
    return code;
}

/* ---- average ---- */

struct average_command {
    const char *name, *ids_path, *weights_path, *out;
    struct ids ids;
    float *weights;
};

enum { OPTION_WEIGHTS = 0x500 };

static const struct argp_option average_options[] = {
    {"ids", 'i', "FILE", 0, "The ids, instead of or after those given", 0},
    {"weights", OPTION_WEIGHTS, "FILE.npy", 0, "What each row weighs (default: 1)", 0},
    {"out", 'o', "FILE.npy", 0, "Write the mean (float32) to FILE", 0},
    {0},
};

static error_t average_parse(int key, char *text, struct argp_state *state)
{
    struct average_command *o = state->input;
    switch (key) {
    case 'i': o->ids_path = text; break;
    case OPTION_WEIGHTS: o->weights_path = text; break;
    case 'o': o->out = text; break;
    case ARGP_KEY_ARG: ids_add_behind(&o->ids, &o->name, state, text); break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the collection's NAME is needed");
        if (!o->ids.count && !o->ids_path) argp_error(state, "give ids, or --ids");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int average_weights(struct average_command *o)
{
    uint64_t n = o->ids.count;
    if (o->weights_path) {
        int code = arrays_read_column(o->weights_path, "one a row", &o->weights, &n);
        if (code) return code;
        if (n == o->ids.count) return CLI_OK;
        return cli_error(CLI_FILE, "%s: holds %" PRIu64 " weights for %" PRIu64 " ids",
                         o->weights_path, n, o->ids.count);
    }
    o->weights = reallocarray(NULL, n + 1, sizeof *o->weights);
    if (!o->weights) return cli_error(CLI_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < n; i++)
        o->weights[i] = 1;
    return CLI_OK;
}

static int average_tell(const struct average_command *o, const struct cli *cli, const float *mean,
                        uint32_t dimension)
{
    if (o->out) {
        int code = arrays_write(o->out, NPY_WRITE_FLOAT32, 1, dimension, 1, mean);
        if (code) return code;
    }
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "collection", o->name);
        json_u64(&j, "rows", o->ids.count);
        json_array(&j, "vector");
        for (uint32_t k = 0; k < dimension; k++)
            json_float(&j, NULL, mean[k]);
        json_end(&j);
        json_end(&j);
    } else if (o->out) {
        printf("%s  float32  %" PRIu32 "\n", o->out, dimension);
    } else {
        for (uint32_t k = 0; k < dimension; k++)
            printf("%s%.9g", k ? "," : "", (double)mean[k]);
        putchar('\n');
    }
    return CLI_OK;
}

static int average_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct average_command o = {0};
    ea_collection_info about = {0};
    float *mean = NULL;
    cli_parse(cli, self, &o, argc, argv);
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code) code = average_weights(&o);
    if (!code) code = cli_connect(cli);
    ea_status status = code ? EA_OK : ea_collection_describe(cli->client, o.name, &about);
    if (status) code = cli_failed(cli, status, o.name);
    if (!code && !(mean = calloc(about.dimension, sizeof *mean)))
        code = cli_error(CLI_NO_MEMORY, "out of memory");
    if (!code) {
        struct long_call call;
        long_call_begin(&call, cli);
        status = ea_weighted_average(cli->client,
                                     &(ea_average_question){.collection = o.name,
                                                            .ids = o.ids.list,
                                                            .weights = o.weights,
                                                            .count = o.ids.count,
                                                            .dimension = about.dimension},
                                     mean);
        code = long_call_end(&call, cli, status, o.name, "nothing was computed");
        if (!code) code = average_tell(&o, cli, mean, about.dimension);
    }
    ids_free(&o.ids);
    free(o.weights);
    free(mean);
    return code;
}

const struct command command_norms = {
    "norms",
    "the norm of each vector of a file",
    "FILE",
    "Compute the Euclidean norm of each vector of FILE (.npy, .npz, .fvecs, .fbin, "
    ".csv, .jsonl; - is standard input), with the daemon's own arithmetic.",
    norms_options,
    norms_parse,
    norms_run};
const struct command command_average = {"average",
                                        "the weighted mean of rows",
                                        "NAME [ID...]",
                                        "Compute the weighted mean of rows of a collection, and "
                                        "print it as numbers between commas, which "
                                        "--query takes.",
                                        average_options,
                                        average_parse,
                                        average_run};
