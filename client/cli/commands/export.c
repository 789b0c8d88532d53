/* export: a collection's rows, or a graph's edges and nodes, as files that load and others read. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/export_edges.h"
#include "client/cli/files/npy_write.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <string.h>

#define PAGE_BYTES (16u << 20) /* bounds this process's memory */

struct export
{
    struct cli *cli;
    const char *name, *out, *ids_path, *nodes_path;
    bool collection, graph;
    struct npy_writer rows, ids;
    struct progress progress;
    ea_cursor at;
    ea_result page;
    uint32_t dimension;
    struct export_edges edges;
};

enum { OPTION_NODES = 0x500, OPTION_COLLECTION, OPTION_GRAPH };

static const struct argp_option export_options[] = {
    {"out", 'o', "FILE", 0,
     "Of a collection .npy (float32, a row for each), of a graph .mtx, .npy (n x 3 float64) or "
     ".tsv; - is standard output",
     0},
    {"ids", 'i', "FILE.npy", 0, "Of a collection: the ids (uint64) of these rows", 0},
    {"nodes", OPTION_NODES, "FILE", 0,
     "Of a graph: its nodes' kinds and factors, as lines that graph set reads", 0},
    {"collection", OPTION_COLLECTION, NULL, 0, "NAME is a collection, even if a graph has it", 0},
    {"graph", OPTION_GRAPH, NULL, 0, "NAME is a graph, even if a collection has it", 0},
    {0},
};

static error_t export_parse(int key, char *text, struct argp_state *state)
{
    struct export *e = state->input;
    switch (key) {
    case 'o': e->out = text; break;
    case 'i': e->ids_path = text; break;
    case OPTION_NODES: e->nodes_path = text; break;
    case OPTION_COLLECTION: e->collection = true; break;
    case OPTION_GRAPH: e->graph = true; break;
    case ARGP_KEY_ARG:
        if (e->name) argp_error(state, "unexpected argument '%s'", text);
        e->name = text;
        break;
    case ARGP_KEY_END:
        if (!e->name || !e->out) argp_error(state, "a NAME and --out FILE are needed");
        if (e->collection && e->graph) argp_error(state, "give --collection or --graph, not both");
        if (e->ids_path && (e->graph || e->nodes_path))
            argp_error(state, "--ids is of a collection, --nodes of a graph");
        if (e->out && e->ids_path && strcmp(e->out, "-") == 0 && strcmp(e->ids_path, "-") == 0)
            argp_error(state, "rows and ids cannot both go to standard output");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- a collection ---- */

static int open_files(struct export *e)
{
    uint64_t rows = e->at.positions;
    if (!npy_writer_open(&e->rows, e->out, NPY_WRITE_FLOAT32, 2, rows, e->dimension))
        return cli_file_error(e->rows.error);
    if (e->ids_path && !npy_writer_open(&e->ids, e->ids_path, NPY_WRITE_UINT64, 1, rows, 1))
        return cli_file_error(e->ids.error);
    progress_start(&e->progress, rows, 4 * (uint64_t)e->dimension, clock_ns());
    return CLI_OK;
}

static int write_page(struct export *e)
{
    if (!npy_writer_append(&e->rows, e->page.vectors, e->page.rows))
        return cli_file_error(e->rows.error);
    if (e->ids_path && !npy_writer_append(&e->ids, e->page.ids, e->page.rows))
        return cli_file_error(e->ids.error);
    return CLI_OK;
}

static int export_rows(struct export *e)
{
    ea_client *c = e->cli->client;
    uint64_t most = e->cli->info.reply_bytes_max, each = 4 * (uint64_t)e->dimension + 9;
    uint64_t limit = cli_fit(most < PAGE_BYTES ? most : PAGE_BYTES, 256, each, UINT64_MAX);
    int code = CLI_OK;
    for (bool first = true; !code && !e->at.at_end; first = false) {
        ea_status status = ea_scan_rows(c, e->name, &e->at, limit, &e->page);
        if (status) {
            progress_finish(&e->progress);
            code = cli_failed(e->cli, status, e->name);
            break;
        }
        if (e->page.rows && e->page.columns != e->dimension)
            code = cli_error(CLI_REFUSED, "%s was made anew while it was read", e->name);
        if (!code && first) code = open_files(e);
        if (!code) code = write_page(e);
        progress_show(&e->progress, e->at.position, clock_ns());
    }
    progress_finish(&e->progress);
    if (!code && e->ids_path && !npy_writer_finish(&e->ids)) code = cli_file_error(e->ids.error);
    if (!code && !npy_writer_finish(&e->rows)) code = cli_file_error(e->rows.error);
    return code;
}

static void report_rows(const struct export *e)
{
    struct text a;
    FILE *to = strcmp(e->out, "-") == 0 ? stderr : stdout;
    if (e->cli->json) {
        struct json j;
        json_init(&j, to);
        json_object(&j, NULL);
        json_string(&j, "name", e->name);
        json_string(&j, "kind", "collection");
        json_string(&j, "file", e->out);
        json_u64(&j, "rows", e->at.position);
        json_u64(&j, "dimension", e->dimension);
        json_u64(&j, "version", e->at.version);
        json_end(&j);
        return;
    }
    fprintf(to, "%s: %s of %" PRIu32 " written, version %" PRIu64 "\n", e->out,
            format_many(&a, e->at.position, "row"), e->dimension, e->at.version);
}

/* ---- which of the two ---- */

static int find_kind(struct export *e)
{
    ea_collection_info rows;
    ea_graph_info graph;
    ea_client *c = e->cli->client;
    ea_status is_rows = e->graph ? EA_NOT_FOUND : ea_collection_describe(c, e->name, &rows);
    if (is_rows && is_rows != EA_NOT_FOUND) return cli_failed(e->cli, is_rows, e->name);
    if (e->collection && is_rows) return cli_failed(e->cli, is_rows, e->name);
    ea_status is_graph = e->collection ? EA_NOT_FOUND : ea_graph_describe(c, e->name, &graph);
    if (is_graph && is_graph != EA_NOT_FOUND) return cli_failed(e->cli, is_graph, e->name);
    if (is_rows && is_graph)
        return cli_error(CLI_REFUSED, "there is no %s '%s'",
                         e->graph ? "graph" : "collection or graph", e->name);
    if (!is_rows && !is_graph)
        return cli_error(CLI_USAGE, "%s is a collection and a graph: --collection or --graph",
                         e->name);
    e->graph = !is_graph;
    e->dimension = is_rows ? 0 : rows.dimension;
    if (e->graph && e->ids_path) return cli_error(CLI_USAGE, "--ids is of a collection");
    if (!e->graph && e->nodes_path) return cli_error(CLI_USAGE, "--nodes is of a graph");
    return CLI_OK;
}

static int export_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct export e = {.cli = cli};
    cli_parse(cli, self, &e, argc, argv);
    int code = cli_info(cli);
    if (!code) code = find_kind(&e);
    if (!code && e.graph) {
        e.edges = (struct export_edges){
            .cli = cli, .name = e.name, .out = e.out, .nodes_path = e.nodes_path};
        code = export_edges(&e.edges);
    } else if (!code) {
        code = export_rows(&e);
        if (!code) report_rows(&e);
    }
    npy_writer_abandon(&e.rows);
    npy_writer_abandon(&e.ids);
    ea_result_free(&e.page);
    return code;
}

const struct command command_export = {
    "export",
    "a collection or graph as files",
    "NAME",
    "Write a collection's rows, in storage order, or a graph's edges to FILE.\v"
    "All is of one version, whatever others write meanwhile: the daemon keeps it until the export "
    "ends (30 s after the last page that was asked for). A FILE appears whole or not at all. What "
    "is written loads again to the same bits: load FILE --ids IDS, graph load FILE, and graph set "
    "with what --nodes wrote. Ids of nodes above 2^53 have no place in .npy.",
    export_options,
    export_parse,
    export_run};
