/* collection: create, list, describe and drop. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"
#include "client/cli/text/screens.h"

#include <inttypes.h>

#define QUOTED(number)  #number
#define TEXT_OF(number) QUOTED(number)

struct collection_options {
    const char *name;
    uint32_t dimension;
    ea_metric metric;
};

static const struct argp_option create_options[] = {
    {"dim", 'd', "D", 0, "Numbers in a vector, 1.." TEXT_OF(EA_DIMENSION_MAX), 0},
    {"metric", 'm', "METRIC", 0,
     "cosine, dot (higher is nearer) or l2 (squared Euclidean distance: lower is nearer)", 0},
    {0},
};

static error_t name_parse(int key, char *text, struct argp_state *state)
{
    struct collection_options *o = state->input;
    if (key == ARGP_KEY_ARG && state->arg_num == 0) {
        o->name = text;
        return 0;
    }
    if (key == ARGP_KEY_ARG) argp_error(state, "unexpected argument '%s'", text);
    if (key == ARGP_KEY_NO_ARGS) argp_error(state, "the collection's NAME is needed");
    return ARGP_ERR_UNKNOWN;
}

static error_t create_parse(int key, char *text, struct argp_state *state)
{
    struct collection_options *o = state->input;
    switch (key) {
    case 'd':
        o->dimension = (uint32_t)cli_argument_u64(state, "--dim", text, 1, EA_DIMENSION_MAX);
        break;
    case 'm': o->metric = cli_argument_metric(state, text); break;
    case ARGP_KEY_END:
        if (!o->dimension || !o->metric) argp_error(state, "--dim and --metric are needed");
        break;
    default: return name_parse(key, text, state);
    }
    return 0;
}

/* Of rows in int8, in memory or in VRAM. */
struct described_shadow {
    uint64_t rows, bytes, age_us, rests;
    double lost;
};

static void json_collection(struct json *j, const ea_collection_info *c)
{
    json_string(j, "name", c->name);
    json_u64(j, "dimension", c->dimension);
    json_string(j, "metric", cli_metric_name(c->metric));
    json_u64(j, "rows", c->rows);
    json_u64(j, "version", c->version);
    json_u64(j, "row_bytes", c->row_bytes);
    json_u64(j, "index_bytes", c->index_bytes);
    json_u64(j, "vram_bytes", c->vram_bytes);
    json_u64(j, "vram_version", c->vram_version);
    json_u64(j, "shadow_rows", c->shadow_rows);
    json_u64(j, "shadow_bytes", c->shadow_bytes);
    json_double(j, "shadow_lost", c->shadow_lost);
    json_u64(j, "shadow_age_us", c->shadow_age_us);
    json_u64(j, "shadow_screened", c->shadow_screened);
    json_u64(j, "shadow_passed", c->shadow_passed);
}

/* What describe alone knows. */
static void json_described(struct json *j, const ea_collection_info *c)
{
    json_u64(j, "shadow_rests", c->shadow_rests);
    if (c->vram_shadow_rows) {
        json_u64(j, "vram_gpu", c->vram_gpu);
        json_u64(j, "vram_shadow_rows", c->vram_shadow_rows);
        json_u64(j, "vram_shadow_bytes", c->vram_shadow_bytes);
        json_double(j, "vram_shadow_lost", c->vram_shadow_lost);
        json_u64(j, "vram_shadow_age_us", c->vram_shadow_age_us);
        json_u64(j, "vram_shadow_rests", c->vram_shadow_rests);
    }
    json_object(j, "screens");
    screens_backend_json(j, "cpu", &c->screens_cpu);
    screens_backend_json(j, "gpu", &c->screens_gpu);
    json_end(j);
}

static void json_one(const ea_collection_info *c, bool described)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_collection(&j, c);
    if (described) json_described(&j, c);
    json_end(&j);
}

/* Describes a replica whose version is older than the rows'. */
static const char *replica_note(const ea_collection_info *c)
{
    if (!c->vram_bytes || c->vram_version == c->version) return "";
    return c->vram_version ? " (older)" : " (loading)";
}

static void print_collections(struct cli *cli, const ea_collection_info *list, size_t count)
{
    static const char *const heads[] = {"name",     ">dim",  "metric",   ">rows", ">vectors",
                                        ">ids etc", ">VRAM", ">version", NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++) {
        const ea_collection_info *c = &list[i];
        table_cell(t, "%s", c->name);
        table_cell(t, "%" PRIu32, c->dimension);
        table_cell(t, "%s", cli_metric_name(c->metric));
        table_cell(t, "%s", format_count(&a, c->rows));
        table_cell(t, "%s", format_bytes(&a, c->row_bytes));
        table_cell(t, "%s", format_bytes(&a, c->index_bytes));
        table_cell(t, "%s%s", c->vram_bytes ? format_bytes(&a, c->vram_bytes) : "-",
                   replica_note(c));
        table_cell(t, "%" PRIu64, c->version);
    }
    cli_table_print(t);
    table_destroy(t);
}

/* "int8 in memory  5,000 rows, 1.3 MiB, 0.41 % of a row lost, centre 12.0 s old" */
static void print_shadow(const char *where, const struct described_shadow *s)
{
    struct text a, b;
    if (!s->rows) return;
    printf("%s  %s, %s", where, format_many(&a, s->rows, "row"), format_bytes(&b, s->bytes));
    if (s->lost > 0) printf(", %.2g %% of a row lost", 100 * s->lost);
    printf(", centre %s old", format_ns(&a, s->age_us * 1000));
    if (s->rests) printf("; of no use: %s to do without", format_count(&a, s->rests));
    putchar('\n');
}

static void print_described(struct cli *cli, const ea_collection_info *c)
{
    const struct described_shadow host = {.rows = c->shadow_rows,
                                          .bytes = c->shadow_bytes,
                                          .age_us = c->shadow_age_us,
                                          .rests = c->shadow_rests,
                                          .lost = c->shadow_lost};
    const struct described_shadow card = {.rows = c->vram_shadow_rows,
                                          .bytes = c->vram_shadow_bytes,
                                          .age_us = c->vram_shadow_age_us,
                                          .rests = c->vram_shadow_rests,
                                          .lost = c->vram_shadow_lost};
    print_collections(cli, c, 1);
    print_shadow("int8 in memory", &host);
    print_shadow("int8 in VRAM  ", &card);
}

static int create_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct collection_options o = {0};
    ea_collection_info info;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_collection_create(cli->client, o.name, o.dimension, o.metric, &info);
    if (status) return cli_failed(cli, status, o.name);
    if (cli->json)
        json_one(&info, false);
    else
        print_collections(cli, &info, 1);
    return CLI_OK;
}

static int describe_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct collection_options o = {0};
    ea_collection_info info;
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_collection_describe(cli->client, o.name, &info);
    if (status) return cli_failed(cli, status, o.name);
    if (cli->json)
        json_one(&info, true);
    else
        print_described(cli, &info);
    return CLI_OK;
}

static int drop_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct collection_options o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = cli_connect(cli);
    ea_collection_info info;
    if (!code && ea_collection_describe(cli->client, o.name, &info) == EA_OK)
        code = cli_confirm_drop(cli, o.name, info.rows, "row");
    if (code) return code;
    ea_next_write(cli->client, cli_expectation(cli));
    ea_status status = ea_collection_drop(cli->client, o.name);
    if (status) return cli_failed(cli, status, o.name);
    cli_print_dropped(cli, o.name);
    return CLI_OK;
}

static int list_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_collection_info *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_collection_list(cli->client, &list, &count);
    if (status) return cli_failed(cli, status, "collection list");
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_array(&j, NULL);
        for (size_t i = 0; i < count; i++) {
            json_object(&j, NULL);
            json_collection(&j, &list[i]);
            json_end(&j);
        }
        json_end(&j);
    } else {
        print_collections(cli, list, count);
    }
    ea_collection_list_free(list);
    return CLI_OK;
}

const struct command command_create = {
    "collection create",
    "make an empty collection",
    "NAME",
    "Make an empty collection for vectors of one dimension, compared in one way.",
    create_options,
    create_parse,
    create_run};
const struct command command_list = {"collection list",
                                     "the space's collections",
                                     "",
                                     "List the collections of the space, by name.",
                                     NULL,
                                     NULL,
                                     list_run};
const struct command command_describe = {"collection describe",
                                         "one collection",
                                         "NAME",
                                         "Print a collection's dimension, metric, rows, memory "
                                         "(VRAM: of its replicas on GPUs) and version.",
                                         NULL,
                                         name_parse,
                                         describe_run};
const struct command command_drop = {"collection drop",
                                     "delete a collection and its rows",
                                     "NAME",
                                     "Delete a collection and give its memory back. There is no "
                                     "way back: on a terminal it asks first if there are more than "
                                     "10,000 rows.",
                                     NULL,
                                     name_parse,
                                     drop_run};
