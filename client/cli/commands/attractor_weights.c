/* attractor_weights: what attractors learn; their weights in and out of files. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/vectors_in.h"
#include "client/cli/files/arrays.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>

#define BLOCK_BYTES (16u << 20) /* of patterns, of a request */

/* ---- learn ---- */

struct attractor_learn {
    const char *name;
    struct vectors_in in;
    struct progress progress;
    ea_learned learned;
    uint64_t done;
};

static error_t learn_parse(int key, char *text, struct argp_state *state)
{
    struct attractor_learn *a = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            a->name = text;
        else if (state->arg_num == 1)
            vectors_in_parse(&a->in, state, text);
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        if (!a->in.text) argp_error(state, "the attractor's NAME and PATTERNS are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int learn_block(struct attractor_learn *a, struct cli *cli, uint64_t n)
{
    ea_operand patterns;
    int code = vectors_in_next(&a->in, n, &patterns);
    if (code) return code;
    ea_learn_question question = {.attractor = a->name,
                                  .rows = patterns.rows,
                                  .dimension = a->in.dimension,
                                  .collection = patterns.collection,
                                  .ids = patterns.ids,
                                  .count = patterns.count,
                                  .write = cli_expectation(cli)};
    ea_status status = ea_attractor_learn(cli->client, &question, &a->learned);
    if (status) {
        char what[96];
        progress_finish(&a->progress);
        snprintf(what, sizeof what, "patterns from %" PRIu64 " on", a->done);
        return cli_failed(cli, status, a->done ? what : a->name);
    }
    cli->expects = false;
    a->done += patterns.count;
    progress_show(&a->progress, a->done, clock_ns());
    return a->done < a->in.count && interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static void print_learned(const struct cli *cli, const char *name, const ea_learned *l,
                          uint64_t done)
{
    struct text a, b;
    struct json j;
    if (!cli->json) {
        printf("%s: %s learned, %s in all\n", name, format_many(&a, done, "pattern"),
               format_count(&b, l->patterns));
        return;
    }
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "attractor", name);
    json_u64(&j, "learned", done);
    json_u64(&j, "patterns", l->patterns);
    json_u64(&j, "version", l->version);
    json_end(&j);
}

static int learn_all(struct attractor_learn *a, struct cli *cli)
{
    uint64_t body = cli->info.body_bytes_max, each = vectors_in_bytes(&a->in);
    uint64_t most = cli_fit(body < BLOCK_BYTES ? body : BLOCK_BYTES, 128, each, a->in.count);
    int code = vectors_in_prepare(&a->in, most);
    progress_start(&a->progress, a->in.count, each, clock_ns());
    while (!code && a->done < a->in.count) {
        uint64_t left = a->in.count - a->done;
        code = learn_block(a, cli, left < most ? left : most);
    }
    progress_finish(&a->progress);
    return code;
}

static int learn_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct attractor_learn a = {0};
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_info(cli);
    if (!code) code = vectors_in_open(&a.in, cli);
    if (!code) code = learn_all(&a, cli);
    if (a.done) print_learned(cli, a.name, &a.learned, a.done);
    vectors_in_close(&a.in);
    return code;
}

const struct command command_attractor_learn = {
    "attractor learn",
    "learn patterns, in their order",
    "NAME PATTERNS",
    "Let an attractor learn patterns, one after the other. PATTERNS: FILE (.npy, .fvecs, .fbin), "
    "or rows of a collection: COLLECTION:ID, COLLECTION:FIRST-LAST or COLLECTION:@FILE.npy, a file "
    "of ids.",
    NULL,
    learn_parse,
    learn_run};

/* ---- fetch, set ---- */

struct attractor_file {
    const char *name, *path;
};

static error_t file_parse(int key, char *text, struct argp_state *state)
{
    struct attractor_file *f = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            f->name = text;
        else if (state->arg_num == 1)
            f->path = text;
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        if (!f->path) argp_error(state, "the attractor's NAME and FILE.npy are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int fetch_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct attractor_file f = {0};
    ea_result weights = {0};
    cli_parse(cli, self, &f, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_attractor_fetch(cli->client, f.name, &weights);
    if (status) return cli_failed(cli, status, f.name);
    code =
        arrays_write(f.path, NPY_WRITE_FLOAT32, 2, weights.rows, weights.columns, weights.vectors);
    if (!code && cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "attractor", f.name);
        json_string(&j, "file", f.path);
        json_u64(&j, "dimension", weights.rows);
        json_u64(&j, "version", weights.meta->version);
        json_end(&j);
    } else if (!code) {
        printf("%s: %" PRIu64 " x %" PRIu64 " weights to %s\n", f.name, weights.rows,
               weights.columns, f.path);
    }
    ea_result_free(&weights);
    return code;
}

/* All of the file, which must be square. */
static int read_weights(const char *path, float **weights, uint32_t *dimension)
{
    struct vectors_file file = {0};
    int code = CLI_OK;
    uint64_t got = 0;
    if (!vectors_file_open(&file, path, VECTORS_OF_FLOATS))
        code = cli_file_error(file.error);
    else if (file.rows != file.columns || file.rows > EA_ATTRACTOR_DIMENSION_MAX)
        code = cli_error(CLI_FILE, "%s: %" PRIu64 " x %" PRIu64 " weights, not square, or too many",
                         path, file.rows, file.columns);
    if (!code) {
        *weights = malloc(file.rows * file.columns * sizeof **weights);
        *dimension = (uint32_t)file.rows;
        if (!*weights)
            code = cli_error(CLI_NO_MEMORY, "out of memory");
        else if (!vectors_file_read(&file, *weights, file.rows, &got))
            code = cli_file_error(file.error);
    }
    vectors_file_close(&file);
    return code;
}

static int set_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct attractor_file f = {0};
    float *weights = NULL;
    uint32_t dimension = 0;
    ea_learned learned;
    cli_parse(cli, self, &f, argc, argv);
    int code = read_weights(f.path, &weights, &dimension);
    if (!code) code = cli_connect(cli);
    if (!code) {
        ea_next_write(cli->client, cli_expectation(cli));
        ea_status status = ea_attractor_set(cli->client, f.name, weights, dimension, &learned);
        if (status) code = cli_failed(cli, status, f.name);
    }
    if (!code && cli->json)
        print_learned(cli, f.name, &learned, 0);
    else if (!code)
        printf("%s: %" PRIu32 " x %" PRIu32 " weights set\n", f.name, dimension, dimension);
    free(weights);
    return code;
}

const struct command command_attractor_fetch = {
    "attractor fetch",
    "write an attractor's weights to a file",
    "NAME FILE.npy",
    "Write the weights of an attractor, row by row, to FILE.npy (float32, D x D).",
    NULL,
    file_parse,
    fetch_run};
const struct command command_attractor_set = {
    "attractor set",
    "replace an attractor's weights",
    "NAME FILE.npy",
    "Replace the weights of an attractor by those of FILE, a matrix of D x D numbers, each at most "
    "1 and at least -2^40.",
    NULL,
    file_parse,
    set_run};
