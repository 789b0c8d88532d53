/* graph_set: kinds and factors of nodes. */
#include "client/cli/commands/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"
#include "client/cli/files/node_lines.h"

#include <stdlib.h>

#define NODES_MAX 1000000u /* of a request */

struct set {
    const char *name, *path;
    struct node_lines lines;
    uint64_t *ids;
    uint8_t *kinds;
    float *factors;
    uint64_t added;
    struct progress progress;
};

static error_t set_parse(int key, char *text, struct argp_state *state)
{
    struct set *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num > 1) argp_error(state, "unexpected argument '%s'", text);
        *(state->arg_num ? &o->path : &o->name) = text;
        break;
    case ARGP_KEY_END:
        if (!o->path) argp_error(state, "a graph's NAME and a FILE are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Lines from the i-th on that give the same: *n of them at most, and as many as there are. */
static int set_some(struct set *o, struct cli *cli, size_t i, size_t *n)
{
    const struct node_line *line = o->lines.list + i;
    size_t most = *n < o->lines.count - i ? *n : o->lines.count - i;
    for (*n = 0; *n < most && line[*n].gives == line->gives; ++*n) {
        o->ids[*n] = line[*n].id;
        o->kinds[*n] = line[*n].kind;
        o->factors[*n] = line[*n].factor;
    }
    ea_graph_counts did = {0};
    ea_status status = ea_graph_set_nodes(
        cli->client, o->name,
        &(ea_graph_nodes){.ids = o->ids,
                          .kinds = line->gives & GIVES_KIND ? o->kinds : NULL,
                          .factors = line->gives & GIVES_FACTOR ? o->factors : NULL,
                          .count = *n,
                          .write = cli_expectation(cli)},
        &did);
    struct text a, b;
    if (status) progress_finish(&o->progress);
    if (status && i > 0)
        cli_error(0, "%s of %s were set before this failed:", format_count(&a, i),
                  format_many(&b, o->lines.count, "node"));
    if (status) return cli_failed(cli, status, o->name);
    cli->expects = false;
    o->added += did.nodes_added;
    return CLI_OK;
}

static int set_all(struct set *o, struct cli *cli)
{
    uint64_t most = cli_fit(cli->info.body_bytes_max, 256, 13, NODES_MAX);
    o->ids = calloc(most, sizeof *o->ids);
    o->kinds = calloc(most, sizeof *o->kinds);
    o->factors = calloc(most, sizeof *o->factors);
    if (!o->ids || !o->kinds || !o->factors) return cli_error(CLI_NO_MEMORY, "out of memory");
    progress_start(&o->progress, o->lines.count, 13, clock_ns());
    int code = CLI_OK;
    size_t done = 0;
    interrupt_politely(true); /* until the end: what was set is told */
    for (size_t n; done < o->lines.count && !code; done += n) {
        n = most;
        code = set_some(o, cli, done, &n);
        if (code) return code;
        progress_show(&o->progress, done + n, clock_ns());
        if (done + n < o->lines.count && interrupt_seen()) code = CLI_INTERRUPTED;
    }
    progress_finish(&o->progress);
    if (code) cli_error(code, "interrupted: what follows was done before");
    struct text a, b;
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "graph", o->name);
        json_u64(&j, "nodes_set", done);
        json_u64(&j, "nodes_added", o->added);
        json_end(&j);
    } else {
        printf("%s: %s set, of which %s new\n", o->name, format_many(&a, done, "node"),
               format_count(&b, o->added));
    }
    return code;
}

static int set_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct set o = {0};
    cli_parse(cli, self, &o, argc, argv);
    int code = node_lines_read(&o.lines, o.path) ? CLI_OK : cli_file_error(o.lines.error);
    if (!code) code = cli_info(cli);
    if (!code) code = set_all(&o, cli);
    node_lines_free(&o.lines);
    free(o.ids);
    free(o.kinds);
    free(o.factors);
    return code;
}

const struct command command_graph_set = {
    "graph set",
    "set the kinds and factors of nodes",
    "NAME FILE",
    "Set what nodes are, from a text file with lines of ID KIND [FACTOR]: plain, episode or "
    "concept, and 0 to 65,536, by which all that the node sends is multiplied; '-' leaves either "
    "as it is. Nodes that are not there are made.",
    NULL,
    set_parse,
    set_run};
