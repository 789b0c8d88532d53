/* complete: the whole of what a cue has a part of. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/engine_cues.h"
#include "client/cli/commands/queries.h"
#include "client/cli/files/npy_write.h"
#include "client/cli/text/format.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/names.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CUES_MAX    256u        /* of a request */
#define REPLY_BYTES (16u << 20) /* progress shows, and this process's memory is bounded */

struct complete_command {
    const char *name, *cues_path, *mask_path, *names_path, *out, *attractor;
    bool engine, modern; /* the rule; an option that only the modern one has was given */
    float beta;
    uint32_t rounds;
    bool unit;
    struct queries cues;
    struct vectors_file mask;
    uint8_t *marks;
    struct names names;
    struct npy_writer writer;
    struct progress progress;
    struct meta_total meta;
    struct table *table;
    ea_completed result;
    uint64_t done, converged;
};

enum {
    OPTION_RULE = 0x500,
    OPTION_BETA,
    OPTION_MASK,
    OPTION_UNIT,
    OPTION_ROUNDS,
    OPTION_NAMES,
    OPTION_ATTRACTOR
};

static const struct argp_option complete_options[] = {
    {"rule", OPTION_RULE, "RULE", 0,
     "modern: the mean of the rows, weighted by their likeness to the cue (the default); engine: "
     "by "
     "--attractor, as attractor complete does",
     0},
    {"attractor", OPTION_ATTRACTOR, "NAME", 0, "With --rule=engine: the attractor", 0},
    {"beta", OPTION_BETA, "B", 0,
     "How much likeness weighs, 1e-6 to 1e6: the larger, the nearer to the best row alone "
     "(default: 32, which suits --unit)",
     0},
    {"mask", OPTION_MASK, "FILE.npy", 0,
     "Which numbers of the cues are known (bool or uint8; a row for each cue, or one for all): "
     "they are kept, and the others begin as 0",
     0},
    {"unit", OPTION_UNIT, NULL, 0, "Take rows as if divided by their norms", 0},
    {"rounds", OPTION_ROUNDS, "N", 0, "At most so many rounds, 1 to 100 (default: 10)", 0},
    {"out", 'o', "FILE.npy", 0, "Write the completed vectors (float32) to FILE", 0},
    {"names", OPTION_NAMES, "FILE", 0,
     "What ids are called: lines of ID<TAB>NAME, or a line for each id from 0", 0},
    {0},
};

static error_t complete_parse(int key, char *text, struct argp_state *state)
{
    struct complete_command *o = state->input;
    switch (key) {
    case OPTION_RULE:
        o->engine = strcmp(text, "engine") == 0;
        if (!o->engine && strcmp(text, "modern") != 0)
            argp_error(state, "--rule: there is no rule '%s'; modern and engine are", text);
        break;
    case OPTION_ATTRACTOR: o->attractor = text; break;
    case OPTION_BETA:
        o->beta = (float)cli_argument_number(state, "--beta", text, 1e-6, 1e6);
        o->modern = true;
        break;
    case OPTION_MASK: o->mask_path = text; break;
    case OPTION_UNIT: o->unit = o->modern = true; break;
    case OPTION_ROUNDS:
        o->rounds = (uint32_t)cli_argument_u64(state, "--rounds", text, 1, EA_COMPLETE_ROUNDS_MAX);
        o->modern = true;
        break;
    case 'o': o->out = text; break;
    case OPTION_NAMES:
        o->names_path = text;
        o->modern = true;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            o->name = text;
        else if (state->arg_num == 1)
            o->cues_path = text;
        else
            argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        if (!o->cues_path) argp_error(state, "the collection's NAME and CUES are needed");
        if (o->engine != (o->attractor != NULL))
            argp_error(state, "--rule=engine and --attractor go together");
        if (o->engine && o->modern)
            argp_error(state, "--beta, --unit, --rounds and --names are for --rule=modern");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int open_mask(struct complete_command *o)
{
    struct vectors_file *m = &o->mask;
    if (!vectors_file_open(m, o->mask_path, VECTORS_OF_MARKS)) return cli_file_error(m->error);
    if (m->columns != o->cues.dimension)
        return cli_error(CLI_FILE, "%s: marks %" PRIu64 " numbers, the cues have %u", o->mask_path,
                         m->columns, o->cues.dimension);
    if (m->rows != 1 && m->rows != o->cues.total)
        return cli_error(CLI_FILE,
                         "%s: has %" PRIu64 " rows; 1, or one for each of the %" PRIu64
                         " cues, is wanted",
                         o->mask_path, m->rows, o->cues.total);
    uint64_t rows = m->rows == 1 ? 1 : o->cues.block_rows;
    o->marks = malloc(rows * m->columns);
    return o->marks ? CLI_OK : cli_error(CLI_NO_MEMORY, "%s: out of memory", o->mask_path);
}

static int open_all(struct complete_command *o, struct cli *cli)
{
    static const char *const heads[] = {">cue",  ">id",     ">cosine", ">rounds",
                                        "still", ">energy", "name",    NULL};
    static const char *const bare[] = {">cue",  ">id",     ">cosine", ">rounds",
                                       "still", ">energy", NULL};
    int code = queries_open_file(&o->cues, o->cues_path);
    o->cues.file.any_number = o->mask_path != NULL;
    if (!code && o->names_path && !names_open(&o->names, o->names_path))
        code = cli_file_error(o->names.error);
    if (!code) code = cli_info(cli);
    if (code) return code;
    ea_collection_info about;
    ea_status status = ea_collection_describe(cli->client, o->name, &about);
    if (status) return cli_failed(cli, status, o->name);
    uint64_t reply = cli->info.reply_bytes_max, each = 4 * (uint64_t)about.dimension + 21;
    uint64_t most = cli_fit(reply < REPLY_BYTES ? reply : REPLY_BYTES, 512, each, CUES_MAX);
    most = cli_fit(cli->info.body_bytes_max, 256, 5 * (uint64_t)about.dimension, most);
    code = queries_prepare(&o->cues, o->name, about.dimension, most);
    if (!code && o->mask_path) code = open_mask(o);
    if (!code && o->out &&
        !npy_writer_open(&o->writer, o->out, NPY_WRITE_FLOAT32, 2, o->cues.total, about.dimension))
        code = cli_file_error(o->writer.error);
    if (code) return code;
    o->table = table_create(o->names_path ? heads : bare);
    if (!o->table) return cli_error(CLI_NO_MEMORY, "out of memory");
    progress_start(&o->progress, o->cues.total, 4 * (uint64_t)about.dimension, clock_ns());
    return CLI_OK;
}

static void tell_json(struct complete_command *o, const ea_completed *r, uint64_t i)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "cue", o->done + i);
    json_id(&j, "id", r->ids[i]);
    if (o->names_path) json_string(&j, "name", names_find(&o->names, r->ids[i]));
    json_float(&j, "cosine", r->cosines[i]);
    json_u64(&j, "rounds", r->rounds[i]);
    json_bool(&j, "converged", r->converged[i]);
    json_float(&j, "energy", r->energies[i]);
    meta_json(r->meta, &j);
    json_end(&j);
}

static void tell_row(struct complete_command *o, const ea_completed *r, uint64_t i)
{
    struct text text;
    table_cell(o->table, "%" PRIu64, o->done + i);
    table_cell(o->table, "%" PRIu64, r->ids[i]);
    table_cell(o->table, "%s", format_score(&text, r->cosines[i]));
    table_cell(o->table, "%" PRIu32, r->rounds[i]);
    table_cell(o->table, "%s", r->converged[i] ? "yes" : "no");
    table_cell(o->table, "%s", format_score(&text, r->energies[i]));
    if (!o->names_path) return;
    const char *name = names_find(&o->names, r->ids[i]);
    table_cell(o->table, "%s", name ? name : "");
}

static int take(struct complete_command *o, const struct cli *cli)
{
    const ea_completed *r = &o->result;
    meta_total_add(&o->meta, r->meta);
    for (uint64_t i = 0; i < r->rows; i++) {
        o->converged += r->converged[i];
        if (cli->json)
            tell_json(o, r, i);
        else
            tell_row(o, r, i);
    }
    if (o->out && !npy_writer_append(&o->writer, r->states, r->rows))
        return cli_file_error(o->writer.error);
    o->done += r->rows;
    progress_show(&o->progress, o->done, clock_ns());
    return CLI_OK;
}

static int ask(struct complete_command *o, struct cli *cli, const float *cues, uint64_t n)
{
    ea_complete_question question = {.collection = o->name,
                                     .states = cues,
                                     .state_count = n,
                                     .dimension = o->cues.dimension,
                                     .mask = o->marks,
                                     .mask_rows = !o->marks           ? 0
                                                  : o->mask.rows == 1 ? 1
                                                                      : n,
                                     .beta = o->beta,
                                     .rounds = o->rounds,
                                     .unit = o->unit};
    uint64_t got = n, wanted = o->mask.rows == 1 ? !o->mask.next_row : n;
    if (o->marks && wanted && !vectors_file_read_marks(&o->mask, o->marks, wanted, &got))
        return cli_file_error(o->mask.error);
    uint64_t step = o->mask.rows == 1 ? 0 : o->cues.dimension;
    if (o->marks && !vectors_file_check_known(&o->cues.file, cues, n, o->marks, step))
        return cli_file_error(o->cues.file.error);
    ea_status status = ea_complete(cli->client, &question, &o->result);
    if (status) return cli_failed(cli, status, o->name);
    return take(o, cli);
}

static int ask_all(struct complete_command *o, struct cli *cli)
{
    const float *cues;
    uint64_t n;
    int code;
    while (!(code = queries_next(&o->cues, &cues, &n)) && n)
        if ((code = ask(o, cli, cues, n))) break;
    progress_finish(&o->progress);
    if (!code && o->out && !npy_writer_finish(&o->writer)) code = cli_file_error(o->writer.error);
    if (code) return code;
    if (!cli->json) cli_table_print(o->table);
    if (o->out && !cli->json)
        printf("%s  float32  %" PRIu64 " x %" PRIu32 "\n", o->out, o->done, o->cues.dimension);
    meta_total_print(&o->meta, o->done, o->done == 1 ? "cue" : "cues");
    return CLI_OK;
}

static int complete_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct complete_command o = {.beta = 32, .rounds = 10};
    cli_parse(cli, self, &o, argc, argv);
    if (o.engine)
        return engine_cues_run(cli, &(struct engine_cues){.attractor = o.attractor,
                                                          .cues_path = o.cues_path,
                                                          .collection = o.name,
                                                          .mask_path = o.mask_path,
                                                          .out = o.out});
    int code = open_all(&o, cli);
    if (!code) code = ask_all(&o, cli);
    npy_writer_abandon(&o.writer);
    ea_completed_free(&o.result);
    table_destroy(o.table);
    names_close(&o.names);
    vectors_file_close(&o.mask);
    queries_close(&o.cues);
    free(o.marks);
    return code;
}

const struct command command_complete = {
    "complete",
    "whole vectors from parts of them",
    "NAME CUES",
    "Complete each vector of CUES (.npy, .fvecs, .fbin), of which some numbers are known, from the "
    "rows of the collection NAME. Prints a line for each cue (with --json an object): the row that "
    "weighed most, its cosine with the completed vector, the rounds, whether the last one moved it "
    "by less than 1e-4, and the energy.\v"
    "Each round makes the cue the mean of all rows, weighted by e^(beta x.cue). Known numbers come "
    "back after each round.",
    complete_options,
    complete_parse,
    complete_run};
