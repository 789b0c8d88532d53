/* attractor: create, list, describe and drop. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

#include <inttypes.h>

struct attractor_create {
    const char *name;
    ea_attractor_shape shape;
    float sparsity, rate;
};

enum { OPTION_RATE = 0x500 };

static const struct argp_option create_options[] = {
    {"dim", 'd', "D", 0, "Numbers in a pattern, 1 to 2048", 0},
    {"sparsity", 's', "S", 0, "The part of a state that stays (default: 0.05)", 0},
    {"rate", OPTION_RATE, "R", 0, "Of learning (default: 0.01)", 0},
    {0},
};

/* The daemon says which numbers are too small. */
static error_t create_parse(int key, char *text, struct argp_state *state)
{
    struct attractor_create *a = state->input;
    switch (key) {
    case 'd':
        a->shape.dimension =
            (uint32_t)cli_argument_u64(state, "--dim", text, 1, EA_ATTRACTOR_DIMENSION_MAX);
        break;
    case 's':
        a->sparsity = (float)cli_argument_number(state, "--sparsity", text, 0, 1);
        a->shape.sparsity = &a->sparsity;
        break;
    case OPTION_RATE:
        a->rate = (float)cli_argument_number(state, "--rate", text, 0, 1);
        a->shape.rate = &a->rate;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
        a->name = text;
        break;
    case ARGP_KEY_END:
        if (!a->name) argp_error(state, "the attractor's NAME is needed");
        if (!a->shape.dimension) argp_error(state, "--dim is needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t name_parse(int key, char *text, struct argp_state *state)
{
    const char **name = state->input;
    if (key == ARGP_KEY_ARG && state->arg_num == 0) {
        *name = text;
        return 0;
    }
    if (key == ARGP_KEY_ARG) argp_error(state, "unexpected argument '%s'", text);
    if (key == ARGP_KEY_NO_ARGS) argp_error(state, "the attractor's NAME is needed");
    return ARGP_ERR_UNKNOWN;
}

static void json_attractor(struct json *j, const ea_attractor_info *a)
{
    json_object(j, NULL);
    json_string(j, "name", a->name);
    json_u64(j, "dimension", a->dimension);
    json_u64(j, "patterns", a->patterns);
    json_float(j, "sparsity", a->sparsity);
    json_u64(j, "kept", a->kept);
    json_float(j, "rate", a->rate);
    json_u64(j, "weight_bytes", a->weight_bytes);
    json_u64(j, "dentate_bytes", a->dentate_bytes);
    json_u64(j, "version", a->version);
    json_end(j);
}

static void print_attractors(const ea_attractor_info *list, size_t count)
{
    static const char *const heads[] = {"name",     ">dimension", ">patterns", ">kept", ">rate",
                                        ">weights", ">dentate",   ">version",  NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++) {
        const ea_attractor_info *info = &list[i];
        table_cell(t, "%s", info->name);
        table_cell(t, "%" PRIu32, info->dimension);
        table_cell(t, "%s", format_count(&a, info->patterns));
        table_cell(t, "%" PRIu32, info->kept);
        table_cell(t, "%.6g", (double)info->rate);
        table_cell(t, "%s", format_bytes(&a, info->weight_bytes));
        table_cell(t, "%s", format_bytes(&a, info->dentate_bytes));
        table_cell(t, "%" PRIu64, info->version);
    }
    cli_table_print(t);
    table_destroy(t);
}

static void print_one(struct cli *cli, const ea_attractor_info *info)
{
    struct json j;
    json_init(&j, stdout);
    if (cli->json)
        json_attractor(&j, info);
    else
        print_attractors(info, 1);
}

static int create_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct attractor_create a = {0};
    ea_attractor_info info;
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_attractor_create(cli->client, a.name, &a.shape, &info);
    if (status) return cli_failed(cli, status, a.name);
    print_one(cli, &info);
    return CLI_OK;
}

static int describe_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *name = NULL;
    ea_attractor_info info;
    cli_parse(cli, self, &name, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_attractor_describe(cli->client, name, &info);
    if (status) return cli_failed(cli, status, name);
    print_one(cli, &info);
    return CLI_OK;
}

static int drop_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *name = NULL;
    cli_parse(cli, self, &name, argc, argv);
    int code = cli_connect(cli);
    ea_attractor_info info;
    if (!code && ea_attractor_describe(cli->client, name, &info) == EA_OK)
        code = cli_confirm_drop(cli, name, info.patterns, "pattern");
    if (code) return code;
    ea_next_write(cli->client, cli_expectation(cli));
    ea_status status = ea_attractor_drop(cli->client, name);
    if (status) return cli_failed(cli, status, name);
    cli_print_dropped(cli, name);
    return CLI_OK;
}

static int list_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_attractor_info *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_attractor_list(cli->client, &list, &count);
    if (status) return cli_failed(cli, status, "attractor list");
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_array(&j, NULL);
        for (size_t i = 0; i < count; i++)
            json_attractor(&j, &list[i]);
        json_end(&j);
    } else {
        print_attractors(list, count);
    }
    ea_attractor_list_free(list);
    return CLI_OK;
}

const struct command command_attractor_create = {
    "attractor create",
    "make an attractor that has learned nothing",
    "NAME",
    "Make an attractor, which learns patterns of --dim numbers and completes them from a part. "
    "Names of attractors are their own, apart from those of collections and graphs.",
    create_options,
    create_parse,
    create_run};
const struct command command_attractor_list = {"attractor list",
                                               "the space's attractors",
                                               "",
                                               "List the attractors of the space, by name.",
                                               NULL,
                                               NULL,
                                               list_run};
const struct command command_attractor_describe = {
    "attractor describe",
    "one attractor",
    "NAME",
    "Print an attractor's dimension, how many patterns it has learned, how many numbers of a state "
    "stay, its rate, memory and version. The dentate matrix is shared by all attractors of the "
    "space that have this dimension.",
    NULL,
    name_parse,
    describe_run};
const struct command command_attractor_drop = {
    "attractor drop",
    "delete an attractor",
    "NAME",
    "Delete an attractor and give its memory back. There is no way back: on a terminal it asks "
    "first if there are more than "
    "10,000 patterns.",
    NULL,
    name_parse,
    drop_run};
