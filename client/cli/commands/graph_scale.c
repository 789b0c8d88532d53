/* graph_scale: all edges of a graph at once: scale and prune. */
#include "client/cli/commands/commands.h"
#include "client/cli/long_call.h"
#include "client/cli/text/format.h"

#include <float.h>

struct all_edges {
    const char *name, *what;
    double least;
    bool given;
    float number;
};

static error_t all_edges_parse(int key, char *text, struct argp_state *state)
{
    struct all_edges *a = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            a->name = text;
        } else if (state->arg_num == 1) {
            a->number = (float)cli_argument_number(state, a->what, text, a->least, (double)FLT_MAX);
            a->given = true;
        } else {
            argp_error(state, "unexpected argument '%s'", text);
        }
        break;
    case ARGP_KEY_END:
        if (!a->given) argp_error(state, "the graph's NAME and %s are needed", a->what);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_json(const struct all_edges *a, const ea_graph_counts *did)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "graph", a->name);
    json_u64(&j, "edges_removed", did->edges_removed);
    json_u64(&j, "nodes", did->nodes);
    json_u64(&j, "edges", did->edges);
    json_u64(&j, "version", did->version);
    json_end(&j);
}

static int scale_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct all_edges a = {.what = "FACTOR"};
    struct text x;
    ea_graph_counts did;
    struct long_call call;
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_next_write(cli->client, cli_expectation(cli));
    long_call_begin(&call, cli);
    ea_status status = ea_graph_scale(cli->client, a.name, a.number, &did);
    code = long_call_end(&call, cli, status, a.name, "nothing was changed");
    if (code) return code;
    if (cli->json)
        print_json(&a, &did);
    else
        printf("%s: the weights of %s times %.9g\n", a.name, format_many(&x, did.edges, "edge"),
               (double)a.number);
    return CLI_OK;
}

static int prune_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct all_edges a = {.what = "BELOW", .least = (double)-FLT_MAX};
    struct text x, y;
    ea_graph_counts did;
    struct long_call call;
    cli_parse(cli, self, &a, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_next_write(cli->client, cli_expectation(cli));
    long_call_begin(&call, cli);
    ea_status status = ea_graph_prune(cli->client, a.name, a.number, &did);
    code = long_call_end(&call, cli, status, a.name, "nothing was removed");
    if (code) return code;
    if (cli->json)
        print_json(&a, &did);
    else
        printf("%s: %s removed, %s left\n", a.name, format_many(&x, did.edges_removed, "edge"),
               format_count(&y, did.edges));
    return CLI_OK;
}

const struct command command_graph_scale = {
    "graph scale",
    "multiply the weights of all edges",
    "NAME FACTOR",
    "Multiply the weights of all edges of a graph by FACTOR, 0 or more: memories fade.",
    NULL,
    all_edges_parse,
    scale_run};
const struct command command_graph_prune = {"graph prune",
                                            "remove edges of small weight",
                                            "NAME BELOW",
                                            "Remove all edges of a graph whose weight is less than "
                                            "BELOW; nodes stay. A negative BELOW stands "
                                            "behind '--'.",
                                            NULL,
                                            all_edges_parse,
                                            prune_run};
