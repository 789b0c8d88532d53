/* graph_add: a few edges into a graph, or onto the weights of those that are there. */
#include "client/cli/commands/commands.h"
#include "client/cli/files/edges_file.h"
#include "client/cli/text/format.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct graph_add {
    const char *name, *path;
    bool delta, create, clamp;
    float low, high;
    uint64_t *sources, *targets;
    float *weights;
    uint64_t count, room;
    unsigned fields; /* of the last edge on the command line, so far */
};

enum { OPTION_DELTA = 0x500, OPTION_CREATE, OPTION_CLAMP, OPTION_EDGES };

static const struct argp_option add_options[] = {
    {"delta", OPTION_DELTA, NULL, 0,
     "WEIGHT is added to the weight of the one edge that is there; prints the sums", 0},
    {"clamp", OPTION_CLAMP, "LO,HI", 0, "With --delta: keep sums between these", 0},
    {"create", OPTION_CREATE, NULL, 0,
     "With --delta: make edges that are not there, from weight 0, with their nodes", 0},
    {"edges", OPTION_EDGES, "FILE", 0, "Edges from a FILE that graph load reads, after those given",
     0},
    {0},
};

static bool make_room(struct graph_add *a, uint64_t more)
{
    uint64_t room = a->room ? a->room : 1024;
    while (room < a->count + more)
        room *= 2;
    if (room == a->room) return true;
    uint64_t *sources = reallocarray(a->sources, room, sizeof *sources);
    if (sources) a->sources = sources;
    uint64_t *targets = reallocarray(a->targets, room, sizeof *targets);
    if (targets) a->targets = targets;
    float *weights = reallocarray(a->weights, room, sizeof *weights);
    if (weights) a->weights = weights;
    if (!sources || !targets || !weights) return false;
    a->room = room;
    return true;
}

static void parse_clamp(struct graph_add *a, struct argp_state *state, char *text)
{
    char *comma = strchr(text, ',');
    if (!comma) {
        argp_error(state, "--clamp: '%s' is not LO,HI", text);
        return;
    }
    *comma = 0;
    a->low = (float)cli_argument_number(state, "--clamp", text, (double)-FLT_MAX, (double)FLT_MAX);
    a->high =
        (float)cli_argument_number(state, "--clamp", comma + 1, (double)-FLT_MAX, (double)FLT_MAX);
    a->clamp = true;
}

/* SOURCE, TARGET and WEIGHT in turn. */
static void parse_field(struct graph_add *a, struct argp_state *state, const char *text)
{
    if (!make_room(a, 1)) argp_failure(state, CLI_NO_MEMORY, 0, "out of memory");
    if (a->fields == 0)
        a->sources[a->count] = cli_argument_u64(state, "SOURCE", text, 0, UINT64_MAX - 1);
    else if (a->fields == 1)
        a->targets[a->count] = cli_argument_u64(state, "TARGET", text, 0, UINT64_MAX - 1);
    else
        a->weights[a->count++] =
            (float)cli_argument_number(state, "WEIGHT", text, (double)-FLT_MAX, (double)FLT_MAX);
    a->fields = (a->fields + 1) % 3;
}

static error_t add_parse(int key, char *text, struct argp_state *state)
{
    struct graph_add *a = state->input;
    switch (key) {
    case OPTION_DELTA: a->delta = true; break;
    case OPTION_CREATE: a->create = true; break;
    case OPTION_CLAMP: parse_clamp(a, state, text); break;
    case OPTION_EDGES: a->path = text; break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            a->name = text;
        else
            parse_field(a, state, text);
        break;
    case ARGP_KEY_END:
        if (!a->name) argp_error(state, "the graph's NAME is needed");
        if (a->fields) argp_error(state, "an edge is SOURCE TARGET WEIGHT");
        if (!a->count && !a->path) argp_error(state, "edges or --edges FILE are needed");
        if (!a->delta && (a->clamp || a->create))
            argp_error(state, "--clamp and --create belong to --delta");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int read_edges(struct graph_add *a)
{
    struct edges_file file;
    uint64_t got = 1;
    int code = CLI_OK;
    bool good = edges_file_open(&file, &a->path, 1, EDGES_AUTO, 0);
    while (!code && good && got > 0) {
        if (make_room(a, 1024))
            good = edges_file_read(&file, a->sources + a->count, a->targets + a->count,
                                   a->weights + a->count, 1024, &got);
        else
            code = cli_error(CLI_NO_MEMORY, "out of memory for %" PRIu64 " edges", a->count);
        if (!code && good) a->count += got;
    }
    if (!good) code = cli_file_error(file.error);
    edges_file_close(&file);
    return code;
}

static void print_json(const struct graph_add *a, const ea_graph_counts *did)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "graph", a->name);
    json_u64(&j, "edges_added", did->edges_added);
    json_u64(&j, "nodes_added", did->nodes_added);
    json_u64(&j, "nodes", did->nodes);
    json_u64(&j, "edges", did->edges);
    json_u64(&j, "version", did->version);
    if (a->delta) {
        json_array(&j, "weights");
        for (uint64_t i = 0; i < a->count; i++)
            json_float(&j, NULL, a->weights[i]);
        json_end(&j);
    }
    json_end(&j);
}

static void print_weights(const struct graph_add *a)
{
    static const char *const heads[] = {">from", ">to", ">weight", NULL};
    struct table *t = table_create(heads);
    for (uint64_t i = 0; i < a->count; i++) {
        table_cell(t, "%" PRIu64, a->sources[i]);
        table_cell(t, "%" PRIu64, a->targets[i]);
        table_cell(t, "%.9g", (double)a->weights[i]);
    }
    cli_table_print(t);
    table_destroy(t);
}

static void print_change(const struct cli *cli, const struct graph_add *a,
                         const ea_graph_counts *did)
{
    struct text x, y;
    if (cli->json) {
        print_json(a, did);
        return;
    }
    if (a->delta) print_weights(a);
    if (!a->delta || did->edges_added)
        printf("%s and %s added\n", format_many(&x, did->edges_added, "edge"),
               format_many(&y, did->nodes_added, "node"));
}

static int add_all(struct cli *cli, struct graph_add *a)
{
    ea_graph_edges edges = {.sources = a->sources,
                            .targets = a->targets,
                            .weights = a->weights,
                            .count = a->count,
                            .create = a->create,
                            .write = cli_expectation(cli)};
    ea_graph_counts did = {0};
    if (a->clamp) {
        edges.low = &a->low;
        edges.high = &a->high;
    }
    ea_status status = a->delta
                           ? ea_graph_add_weights(cli->client, a->name, &edges, a->weights, &did)
                           : ea_graph_add_edges(cli->client, a->name, &edges, &did);
    if (status) return cli_failed(cli, status, a->name);
    print_change(cli, a, &did);
    return CLI_OK;
}

static int add_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct graph_add a = {0};
    cli_parse(cli, self, &a, argc, argv);
    int code = a.path ? read_edges(&a) : CLI_OK;
    if (!code) code = cli_connect(cli);
    if (!code) code = add_all(cli, &a);
    free(a.sources);
    free(a.targets);
    free(a.weights);
    return code;
}

const struct command command_graph_add = {
    "graph add",
    "add a few edges, or add to the weights of edges",
    "NAME [SOURCE TARGET WEIGHT]...",
    "Add edges to a graph, with the nodes that are missing. With --delta, add to the weights of "
    "edges "
    "that are there, and print what they became.\v"
    "With --delta each sum is rounded once to float32; the same edge may be given several times. "
    "An "
    "edge that is not there, or several between the same nodes, is an error, and then nothing is "
    "changed. A negative WEIGHT stands behind '--': graph add links --delta -- 1 2 -0.5",
    add_options,
    add_parse,
    add_run};
