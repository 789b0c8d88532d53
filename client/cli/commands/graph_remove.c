/* graph_remove: nodes, or edges. */
#include "client/cli/commands/commands.h"
#include "client/cli/files/edges_file.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/ids.h"

#define CHANGE_MAX 1000000u /* nodes or edges of a request */

struct removal {
    const char *name, *ids_path, *edges_path;
    struct ids ids, targets; /* with edges_path: sources and targets */
    ea_graph_counts sum;
};

enum { OPTION_EDGES = 0x500 };

static const struct argp_option remove_options[] = {
    {"ids", 'i', "FILE.npy", 0, "The ids, instead of or after those given", 0},
    {"edges", OPTION_EDGES, "FILE", 0,
     "Remove edges instead: every one between the nodes of a line, SOURCE TARGET (or another FILE "
     "that graph load reads); weights are not looked at",
     0},
    {0},
};

static error_t remove_parse(int key, char *text, struct argp_state *state)
{
    struct removal *o = state->input;
    switch (key) {
    case 'i': o->ids_path = text; break;
    case OPTION_EDGES: o->edges_path = text; break;
    case ARGP_KEY_ARG: ids_add_behind(&o->ids, &o->name, state, text); break;
    case ARGP_KEY_END:
        if (!o->name) argp_error(state, "the graph's NAME is needed");
        if (!o->ids.count && !o->ids_path && !o->edges_path)
            argp_error(state, "ids, --ids FILE or --edges FILE are needed");
        if (o->edges_path && (o->ids.count || o->ids_path))
            argp_error(state, "give ids or --edges, not both");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int read_edges(struct removal *o)
{
    struct edges_file file;
    uint64_t source[256], target[256], got = 1;
    float weight[256];
    int code = CLI_OK;
    bool good = edges_file_open(&file, &o->edges_path, 1, EDGES_AUTO, 0);
    while (!code && good && got > 0) {
        good = edges_file_read(&file, source, target, weight, 256, &got);
        for (uint64_t i = 0; good && !code && i < got; i++) {
            code = ids_add(&o->ids, source[i]);
            if (!code) code = ids_add(&o->targets, target[i]);
        }
    }
    if (!good) code = cli_file_error(file.error);
    edges_file_close(&file);
    return code;
}

static int remove_all(struct removal *o, struct cli *cli)
{
    uint64_t most = cli_fit(cli->info.body_bytes_max, 256, 16, CHANGE_MAX), n;
    struct text a, b, c;
    struct progress progress;
    int code = CLI_OK;
    progress_start(&progress, o->ids.count, o->edges_path ? 16 : 8, clock_ns());
    interrupt_politely(true); /* until the end: what was removed is told */
    for (uint64_t done = 0; done < o->ids.count && !code; done += n) {
        const uint64_t *ids = o->ids.list + done;
        ea_graph_counts did = {0};
        n = o->ids.count - done < most ? o->ids.count - done : most;
        if (!o->edges_path) ea_next_write(cli->client, cli_expectation(cli));
        ea_status status =
            o->edges_path
                ? ea_graph_remove_edges(cli->client, o->name,
                                        &(ea_graph_edges){.sources = ids,
                                                          .targets = o->targets.list + done,
                                                          .count = n,
                                                          .write = cli_expectation(cli)},
                                        &did)
                : ea_graph_remove_nodes(cli->client, o->name, ids, n, &did);
        if (status) progress_finish(&progress);
        if (status && done)
            cli_error(0, "%s nodes and %s edges were removed before this failed:",
                      format_count(&a, o->sum.nodes_removed),
                      format_count(&b, o->sum.edges_removed));
        if (status) return cli_failed(cli, status, o->name);
        cli->expects = false;
        o->sum.nodes_removed += did.nodes_removed;
        o->sum.edges_removed += did.edges_removed;
        o->sum.missing += did.missing;
        progress_show(&progress, done + n, clock_ns());
        if (done + n < o->ids.count && interrupt_seen()) code = CLI_INTERRUPTED;
    }
    progress_finish(&progress);
    if (code) cli_error(code, "interrupted: what follows was done before");
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_u64(&j, "nodes_removed", o->sum.nodes_removed);
        json_u64(&j, "edges_removed", o->sum.edges_removed);
        json_u64(&j, "missing", o->sum.missing);
        json_end(&j);
    } else {
        printf("%s and %s removed, %s of those named not there\n",
               format_many(&a, o->sum.nodes_removed, "node"),
               format_many(&b, o->sum.edges_removed, "edge"), format_count(&c, o->sum.missing));
    }
    return code;
}

static int remove_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct removal o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = o.ids_path ? ids_read(&o.ids, o.ids_path) : CLI_OK;
    if (!code && o.edges_path) code = read_edges(&o);
    if (!code) code = cli_info(cli);
    if (!code) code = remove_all(&o, cli);
    ids_free(&o.ids);
    ids_free(&o.targets);
    return code;
}

const struct command command_graph_remove = {
    "graph remove",
    "remove nodes with their edges, or edges",
    "NAME [ID...]",
    "Remove nodes of a graph with all their edges, or with --edges every edge between two nodes. "
    "What is not there is counted, not a failure.",
    remove_options,
    remove_parse,
    remove_run};
