/* graph_load: the edges of files into a graph. */
#include "client/cli/commands/commands.h"
#include "client/cli/commands/replacement.h"
#include "client/cli/files/edges_file.h"
#include "client/cli/files/edges_sort.h"
#include "client/cli/text/format.h"
#include "client/cli/interrupt.h"
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EDGE_BYTES  20u         /* in a request */
#define BLOCK_EDGES (1u << 16)  /* read between two looks at the clock */
#define FIRST_ROOM  (1u << 20)  /* edges */
#define PART_BYTES  (64u << 20) /* of a request, unless the daemon allows less; as the library's */
#define PART_MIN    (1u << 13)  /* edges of one that is not made smaller */

/* The daemon's numbers (proto/README.md): no memory now, or never in this space. */
enum { DETAIL_MEMORY = 25, DETAIL_QUOTA = 37 };

struct graph_load {
    struct cli *cli;
    const char *name, *into; /* whom it is loaded into: that, or a hidden one */
    const char **paths;
    unsigned count;
    bool create, replace, update, add;
    bool made; /* by this command */
    struct replacement replacement;
    uint64_t there; /* edges before */
    enum edges_format format;
    uint64_t first_id;
    struct edges_file file;
    struct progress progress, sorting;
    uint64_t *sources, *targets; /* read and not sent */
    float *weights;
    uint64_t edges, room;
    uint64_t part;                   /* edges of a request */
    uint64_t sent;                   /* of those read, in this turn */
    uint64_t bytes_read, bytes_sent; /* of the file */
    uint64_t read;
    ea_graph_counts sum;
};

enum { OPTION_FORMAT = 0x500, OPTION_FIRST_ID, OPTION_ADD, OPTION_UPDATE };

static const struct argp_option load_options[] = {
    {"create", 'c', NULL, 0, "Make the graph first", 0},
    {"replace", 'r', NULL, 0, "The files' edges take the place of the whole graph, at one instant",
     0},
    {"update", OPTION_UPDATE, NULL, 0, "Edges that are there between the same nodes go first", 0},
    {"add", OPTION_ADD, NULL, 0,
     "The edges come to those that are there: the same file again doubles them", 0},
    {"format", OPTION_FORMAT, "FORMAT", 0,
     "tsv, mtx or npy; auto (the default) goes by the file's ending", 0},
    {"first-id", OPTION_FIRST_ID, "ID", 0,
     "Of .mtx: the node that row 1 is (default: 0, as load numbers rows)", 0},
    {0},
};

static enum edges_format format_named(struct argp_state *state, const char *text)
{
    static const char *const names[] = {"auto", "tsv", "mtx", "npy"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(names[i], text) == 0) return (enum edges_format)i;
    argp_error(state, "--format: '%s' is not auto, tsv, mtx or npy", text);
    return EDGES_AUTO;
}

static error_t load_parse(int key, char *text, struct argp_state *state)
{
    struct graph_load *l = state->input;
    switch (key) {
    case 'c': l->create = true; break;
    case 'r': l->replace = true; break;
    case OPTION_ADD: l->add = true; break;
    case OPTION_UPDATE: l->update = true; break;
    case OPTION_FORMAT: l->format = format_named(state, text); break;
    case OPTION_FIRST_ID:
        l->first_id = cli_argument_u64(state, "--first-id", text, 0, UINT64_MAX - 1);
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            l->name = text;
        else
            l->paths[l->count++] = text;
        break;
    case ARGP_KEY_END:
        if (l->add + l->update + l->replace > 1)
            argp_error(state, "give one of --add, --update and --replace");
        if (l->create && l->replace) argp_error(state, "give --create or --replace, not both");
        if (l->count == 0) argp_error(state, "a graph's NAME and a FILE are needed");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static enum edges_format format_of(const struct graph_load *l, unsigned i)
{
    return l->format ? l->format : edges_format_of(l->paths[i]);
}

/* The files that are read together, from the i-th on: all, when they are columns, else one. */
static int open_next(struct graph_load *l, unsigned i, unsigned *files)
{
    *files = format_of(l, 0) == EDGES_NPY ? l->count : 1;
    for (unsigned at = 0; at < l->count; at++)
        if ((format_of(l, at) == EDGES_NPY) != (format_of(l, 0) == EDGES_NPY))
            return cli_error(CLI_USAGE,
                             "%s: .npy files are the columns of one list of edges, "
                             "other files cannot stand among them",
                             l->paths[at]);
    if (edges_file_open(&l->file, l->paths + i, *files, l->format, l->first_id)) return CLI_OK;
    return cli_file_error(l->file.error);
}

/* Makes the hidden graph that is to take the place of the one that is there, if there is one. */
static ea_status begin_replacement(struct graph_load *l, ea_graph_info *info)
{
    ea_status status = ea_graph_describe(l->cli->client, l->name, info);
    if (status && status != EA_NOT_FOUND) return status;
    l->there = status ? 0 : info->edges;
    replacement_name(&l->replacement);
    l->into = l->replacement.hidden;
    return ea_graph_create(l->cli->client, l->into, info);
}

static int find_graph(struct graph_load *l)
{
    ea_client *c = l->cli->client;
    ea_graph_info info;
    l->into = l->name;
    ea_status status = l->replace  ? begin_replacement(l, &info)
                       : l->create ? ea_graph_create(c, l->name, &info)
                                   : ea_graph_describe(c, l->name, &info);
    if (status == EA_ALREADY_EXISTS)
        return cli_error(CLI_REFUSED, "%s: %s (without --create, --add or --update loads into it)",
                         l->name, ea_error_text(c));
    if (status == EA_NOT_FOUND)
        return cli_error(CLI_REFUSED, "%s: %s (--create makes it)", l->name, ea_error_text(c));
    if (status) return cli_failed(l->cli, status, l->name);
    l->made = l->create;
    if (!l->replace) l->there = info.edges;
    if (l->there && !l->add && !l->update && !l->replace) {
        struct text many;
        return cli_error(CLI_REFUSED,
                         "%s has %s already (--replace puts the file in place of all of them; "
                         "--update takes the place of those between the same nodes; --add adds to "
                         "them, so that a file that is loaded twice counts twice)",
                         l->name, format_many(&many, l->there, "edge"));
    }
    l->sum.nodes = info.nodes;
    l->sum.edges = info.edges;
    l->sum.version = info.version;
    l->part =
        cli_fit(l->cli->info.body_bytes_max < PART_BYTES ? l->cli->info.body_bytes_max : PART_BYTES,
                256, EDGE_BYTES, UINT64_MAX);
    return CLI_OK;
}

static int out_of_memory(struct graph_load *l)
{
    progress_finish(&l->progress);
    return cli_error(CLI_NO_MEMORY, "out of memory for %" PRIu64 " edges%s", l->edges,
                     l->update ? " (--update sorts them)" : "");
}

static bool make_room(struct graph_load *l)
{
    uint64_t room = l->room ? 2 * l->room : FIRST_ROOM;
    if (l->edges + BLOCK_EDGES <= l->room) return true;
    uint64_t *sources = reallocarray(l->sources, room, sizeof *sources);
    if (sources) l->sources = sources;
    uint64_t *targets = reallocarray(l->targets, room, sizeof *targets);
    if (targets) l->targets = targets;
    float *weights = reallocarray(l->weights, room, sizeof *weights);
    if (weights) l->weights = weights;
    if (!sources || !targets || !weights) return false;
    l->room = room;
    return true;
}

/* Half of the way is to read, half to send: of what was read, so many edges were. */
static void show_progress(struct graph_load *l, uint64_t sent)
{
    double part = l->edges ? (double)sent / (double)l->edges : 0;
    uint64_t way = (uint64_t)(part * (double)(l->bytes_read - l->bytes_sent));
    uint64_t done = (l->bytes_read + l->bytes_sent + way) / 2;
    if (l->progress.total && done <= l->progress.total)
        progress_show(&l->progress, done, clock_ns());
}

static bool same_pair(const struct graph_load *l, uint64_t a, uint64_t b)
{
    return l->sources[a] == l->sources[b] && l->targets[a] == l->targets[b];
}

/* Of the next request: with --update, edges between the same nodes are not parted. */
static uint64_t part_end(const struct graph_load *l)
{
    uint64_t end = l->edges - l->sent > l->part ? l->sent + l->part : l->edges, cut = end;
    if (!l->update || end == l->edges) return end;
    while (cut > l->sent && same_pair(l, cut - 1, cut))
        cut--;
    if (cut > l->sent) return cut;
    while (end < l->edges && same_pair(l, end - 1, end))
        end++;
    return end;
}

/* A request that found no memory changed nothing. A quota, or the daemon's bound, may have no room
 * for one that large beside what the graph is to become. False: there is no smaller one. */
static bool smaller_part(struct graph_load *l, ea_status status, uint64_t end)
{
    uint64_t edges = end - l->sent;
    uint32_t detail = ea_error_detail(l->cli->client);
    bool no_room = detail == DETAIL_MEMORY || detail == DETAIL_QUOTA;
    if (status != EA_RESOURCE_EXHAUSTED || !no_room || edges < 2 * PART_MIN) return false;
    l->part = edges / 2;
    return part_end(l) < end;
}

static ea_status send_part(struct graph_load *l, uint64_t end)
{
    ea_graph_counts did = {0};
    uint64_t at = l->sent;
    ea_status status =
        ea_graph_add_edges(l->cli->client, l->into,
                           &(ea_graph_edges){.sources = l->sources + at,
                                             .targets = l->targets + at,
                                             .weights = l->weights + at,
                                             .count = end - at,
                                             .replace = l->update,
                                             .count_doubled = l->add,
                                             .write = l->replace ? NULL : cli_expectation(l->cli)},
                           &did);
    if (!status && !l->replace) l->cli->expects = false;
    l->sum.edges_added += did.edges_added;
    l->sum.edges_removed += did.edges_removed;
    l->sum.nodes_added += did.nodes_added;
    l->sum.edges_doubled += did.edges_doubled;
    if (did.version) {
        l->sum.nodes = did.nodes;
        l->sum.edges = did.edges;
        l->sum.version = did.version;
    }
    return status;
}

/* What was read, in one request or in several. */
static int send_all(struct graph_load *l)
{
    int code = CLI_OK;
    for (l->sent = 0; !code && l->sent < l->edges;) {
        if (interrupt_seen()) return CLI_INTERRUPTED;
        uint64_t end = part_end(l);
        ea_status status = send_part(l, end);
        if (!status) {
            l->sent = end;
            show_progress(l, l->sent);
        } else if (!smaller_part(l, status, end)) {
            progress_finish(&l->progress);
            code = cli_failed(l->cli, status, l->name);
        }
    }
    l->edges = 0;
    l->bytes_sent = l->bytes_read;
    return code;
}

static bool look_at_sort(void *user, uint64_t done, uint64_t of)
{
    struct graph_load *l = user;
    l->sorting.total = of;
    progress_show(&l->sorting, done, clock_ns());
    return !interrupt_seen();
}

/* Edges between the same nodes must lie together, or a later request would replace an earlier's. */
static int sort_edges(struct graph_load *l)
{
    const struct edge_list list = {l->sources, l->targets, l->weights, l->edges};
    progress_finish(&l->progress);
    progress_start(&l->sorting, 0, 0, clock_ns());
    l->sorting.what = "sorted";
    enum edges_sorted end = edges_sort(&list, look_at_sort, l);
    progress_finish(&l->sorting);
    if (end == EDGES_NO_MEMORY) return out_of_memory(l);
    return end == EDGES_STOPPED ? CLI_INTERRUPTED : CLI_OK;
}

static int read_block(struct graph_load *l, uint64_t *got)
{
    if (!make_room(l)) return out_of_memory(l);
    uint64_t most = l->update ? UINT64_MAX : l->part; /* they are sorted, all of them */
    uint64_t left = most - l->edges, max = left < BLOCK_EDGES ? left : BLOCK_EDGES, size;
    if (!edges_file_read(&l->file, l->sources + l->edges, l->targets + l->edges,
                         l->weights + l->edges, max, got)) {
        progress_finish(&l->progress);
        return cli_file_error(l->file.error);
    }
    l->edges += *got;
    l->read += *got;
    edges_file_place(&l->file, &l->bytes_read, &size);
    l->progress.total = size;
    show_progress(l, 0);
    return CLI_OK;
}

/* Of the files that are open; after the last ones what is left goes, too. */
static int transfer(struct graph_load *l, bool last)
{
    uint64_t got = 1;
    int code = CLI_OK;
    l->bytes_read = l->bytes_sent = 0;
    progress_start(&l->progress, 0, 0, clock_ns());
    while (!code && got > 0) {
        if (interrupt_seen()) code = CLI_INTERRUPTED;
        if (!code) code = read_block(l, &got);
        if (!code && l->edges >= l->part && !l->update) code = send_all(l);
    }
    if (!code && last && l->update) code = sort_edges(l);
    if (!code && last) code = send_all(l);
    progress_finish(&l->progress);
    return code;
}

static int transfer_all(struct graph_load *l)
{
    int code = CLI_OK;
    for (unsigned i = 0, files; !code && i < l->count; i += files) {
        if (i > 0) {
            edges_file_close(&l->file);
            code = open_next(l, i, &files);
        } else {
            files = format_of(l, 0) == EDGES_NPY ? l->count : 1;
        }
        if (!code) code = transfer(l, i + files == l->count);
    }
    return code;
}

/* What was loaded takes its place. Nothing that is half there ever does. */
static int put_in_place(struct graph_load *l)
{
    if (interrupt_seen()) return CLI_INTERRUPTED;
    int code = replacement_end(&l->replacement, l->cli, EA_GRAPH, l->name);
    if (!code) l->sum.version = l->replacement.done.version;
    return code;
}

static void report(const struct graph_load *l, uint64_t ns, int code)
{
    struct text a, b, c, d;
    const ea_graph_counts *s = &l->sum;
    if (l->cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "graph", l->name);
        json_u64(&j, "edges_read", l->read);
        json_u64(&j, "edges_added", s->edges_added);
        json_u64(&j, "edges_removed", s->edges_removed);
        json_u64(&j, "edges_before", l->there);
        json_bool(&j, "replaced", l->replacement.done.replaced_version > 0);
        if (l->add) json_u64(&j, "edges_doubled", s->edges_doubled);
        json_u64(&j, "nodes_added", s->nodes_added);
        json_u64(&j, "nodes", s->nodes);
        json_u64(&j, "edges", s->edges);
        json_u64(&j, "version", s->version);
        json_u64(&j, "ns", ns);
        json_bool(&j, "complete", code == CLI_OK);
        json_end(&j);
    } else if (code == CLI_OK) {
        uint64_t rate = ns ? (uint64_t)((double)s->edges_added / ((double)ns / 1e9)) : 0;
        printf("%s: %s loaded in %s, %s/s", l->name, format_many(&a, s->edges_added, "edge"),
               format_ns(&b, ns), format_count(&c, rate));
        if (l->replacement.done.replaced_version)
            printf(" in place of %s", format_many(&d, l->there, "edge"));
        if (s->edges_removed) printf("; %s replaced", format_count(&d, s->edges_removed));
        if (l->add)
            printf("; %s beside one between the same nodes",
                   format_many(&d, s->edges_doubled, "edge"));
        printf("; the graph has %s, %s\n", format_many(&a, s->nodes, "node"),
               format_many(&b, s->edges, "edge"));
    }
    if (code != CLI_OK && l->replace)
        cli_error(0, "%s: %s is as it was", code == CLI_INTERRUPTED ? "interrupted" : "stopped",
                  l->name);
    else if (code != CLI_OK)
        cli_error(0, "%s: %s of %s that were read are in",
                  code == CLI_INTERRUPTED ? "interrupted" : "stopped",
                  format_count(&a, s->edges_added), format_many(&b, l->read, "edge"));
}

/* Else --create would be refused when the command is repeated. After Ctrl-C the edges stay. */
static void drop_again(struct graph_load *l)
{
    ea_status status = ea_graph_drop(l->cli->client, l->name);
    if (status)
        cli_failed(l->cli, status, "what --create made could not be dropped again");
    else
        cli_error(0, "%s, which --create made, was dropped again: nothing is left", l->name);
}

static int load_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct graph_load l = {.cli = cli, .paths = calloc((size_t)argc + 1, sizeof *l.paths)};
    unsigned files;
    if (!l.paths) return cli_error(CLI_NO_MEMORY, "out of memory");
    cli_parse(cli, self, &l, argc, argv);
    int code = open_next(&l, 0, &files);
    if (!code) code = cli_info(cli);
    if (!code) code = find_graph(&l);
    if (!code) {
        uint64_t start_ns = clock_ns();
        interrupt_politely(true); /* until the end: what was loaded is told */
        code = transfer_all(&l);
        if (!code && l.replace) code = put_in_place(&l);
        report(&l, clock_ns() - start_ns, code);
    }
    if (l.made && code && code != CLI_INTERRUPTED) drop_again(&l);
    edges_file_close(&l.file);
    free(l.sources);
    free(l.targets);
    free(l.weights);
    free(l.paths);
    return code;
}

const struct command command_graph_load = {
    "graph load",
    "load files of edges into a graph",
    "NAME FILE...",
    "Load directed, weighted edges into a graph; nodes that are not there are made. A FILE is .tsv "
    "or .txt (lines of SOURCE TARGET [WEIGHT]; a '#' first: a comment), .mtx (MatrixMarket) or "
    ".npy: "
    "one n x 3 float64 array, or SOURCES.npy TARGETS.npy [WEIGHTS.npy].\v"
    "Without a weight an edge has 1. Two edges between the same nodes are two contributions. Into "
    "a graph that has edges already only --add, --update or --replace load, so that nothing is "
    "doubled without being told: --add says how many edges came beside one between the same nodes, "
    "that was there or came before them; --update holds all edges in memory. Ctrl-C stops after "
    "the request that is on its way and says how many edges are in. --replace loads beside the "
    "graph that is there, which needs room for both, and then puts the new one in its place: "
    "nobody ever sees half, and after an error or Ctrl-C the old one is as it was. A graph that "
    "--create made is dropped again if the load fails.",
    load_options,
    load_parse,
    load_run};
