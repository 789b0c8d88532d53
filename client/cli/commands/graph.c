/* graph: create, list, describe and drop. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

#include <inttypes.h>

static error_t name_parse(int key, char *text, struct argp_state *state)
{
    const char **name = state->input;
    if (key == ARGP_KEY_ARG && state->arg_num == 0) {
        *name = text;
        return 0;
    }
    if (key == ARGP_KEY_ARG) argp_error(state, "unexpected argument '%s'", text);
    if (key == ARGP_KEY_NO_ARGS) argp_error(state, "the graph's NAME is needed");
    return ARGP_ERR_UNKNOWN;
}

static void json_graph(struct json *j, const ea_graph_info *g)
{
    json_object(j, NULL);
    json_string(j, "name", g->name);
    json_u64(j, "nodes", g->nodes);
    json_u64(j, "edges", g->edges);
    json_u64(j, "episodes", g->episodes);
    json_u64(j, "concepts", g->concepts);
    json_u64(j, "out_count_max", g->out_count_max);
    json_u64(j, "in_count_max", g->in_count_max);
    json_u64(j, "edge_bytes", g->edge_bytes);
    json_u64(j, "node_bytes", g->node_bytes);
    json_u64(j, "work_bytes", g->work_bytes);
    json_u64(j, "version", g->version);
    json_u64(j, "vram_bytes", g->vram_bytes);
    json_u64(j, "vram_version", g->vram_version);
    json_end(j);
}

/* Describes a replica whose version is older than the edges'. */
static const char *replica_note(const ea_graph_info *g)
{
    if (!g->vram_bytes || g->vram_version == g->version) return "";
    return g->vram_version ? " (older)" : " (loading)";
}

static void print_graphs(const ea_graph_info *list, size_t count)
{
    static const char *const heads[] = {"name",      ">nodes",   ">edges",   ">episodes",
                                        ">concepts", ">out max", ">in max",  ">edges take",
                                        ">nodes",    ">VRAM",    ">version", NULL};
    struct text a;
    struct table *t = table_create(heads);
    for (size_t i = 0; i < count; i++) {
        const ea_graph_info *g = &list[i];
        table_cell(t, "%s", g->name);
        table_cell(t, "%s", format_count(&a, g->nodes));
        table_cell(t, "%s", format_count(&a, g->edges));
        table_cell(t, "%s", format_count(&a, g->episodes));
        table_cell(t, "%s", format_count(&a, g->concepts));
        table_cell(t, "%s", format_count(&a, g->out_count_max));
        table_cell(t, "%s", format_count(&a, g->in_count_max));
        table_cell(t, "%s", format_bytes(&a, g->edge_bytes));
        table_cell(t, "%s", format_bytes(&a, g->node_bytes + g->work_bytes));
        table_cell(t, "%s%s", g->vram_bytes ? format_bytes(&a, g->vram_bytes) : "-",
                   replica_note(g));
        table_cell(t, "%" PRIu64, g->version);
    }
    cli_table_print(t);
    table_destroy(t);
}

static void print_one(struct cli *cli, const ea_graph_info *info)
{
    struct json j;
    json_init(&j, stdout);
    if (cli->json)
        json_graph(&j, info);
    else
        print_graphs(info, 1);
}

static int create_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *name = NULL;
    ea_graph_info info;
    cli_parse(cli, self, &name, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_graph_create(cli->client, name, &info);
    if (status) return cli_failed(cli, status, name);
    print_one(cli, &info);
    return CLI_OK;
}

static int describe_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *name = NULL;
    ea_graph_info info;
    cli_parse(cli, self, &name, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_graph_describe(cli->client, name, &info);
    if (status) return cli_failed(cli, status, name);
    print_one(cli, &info);
    return CLI_OK;
}

static int drop_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *name = NULL;
    cli_parse(cli, self, &name, argc, argv);
    int code = cli_connect(cli);
    ea_graph_info info;
    if (!code && ea_graph_describe(cli->client, name, &info) == EA_OK)
        code = info.nodes > info.edges ? cli_confirm_drop(cli, name, info.nodes, "node")
                                       : cli_confirm_drop(cli, name, info.edges, "edge");
    if (code) return code;
    ea_next_write(cli->client, cli_expectation(cli));
    ea_status status = ea_graph_drop(cli->client, name);
    if (status) return cli_failed(cli, status, name);
    cli_print_dropped(cli, name);
    return CLI_OK;
}

static int list_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    ea_graph_info *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_graph_list(cli->client, &list, &count);
    if (status) return cli_failed(cli, status, "graph list");
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_array(&j, NULL);
        for (size_t i = 0; i < count; i++)
            json_graph(&j, &list[i]);
        json_end(&j);
    } else {
        print_graphs(list, count);
    }
    ea_graph_list_free(list);
    return CLI_OK;
}

const struct command command_graph_create = {
    "graph create",
    "make an empty graph",
    "NAME",
    "Make an empty graph. Names of graphs are their own, apart from those of collections.",
    NULL,
    name_parse,
    create_run};
const struct command command_graph_list = {
    "graph list", "the space's graphs", "", "List the graphs of the space, by name.", NULL, NULL,
    list_run};
const struct command command_graph_describe = {
    "graph describe",
    "one graph",
    "NAME",
    "Print a graph's nodes, edges, kinds, the most edges out of and into a node, memory (VRAM: of "
    "its replicas on GPUs) and version.",
    NULL,
    name_parse,
    describe_run};
const struct command command_graph_drop = {
    "graph drop",
    "delete a graph with its nodes and edges",
    "NAME",
    "Delete a graph and give its memory back. There is no way back: on a terminal it asks first if "
    "there are more than "
    "10,000 nodes or edges.",
    NULL,
    name_parse,
    drop_run};
