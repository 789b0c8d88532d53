#include "client/cli/commands/export_edges.h"

#include "client/cli/files/node_lines.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define PAGE_NODES 4096u /* at first; halved where their edges are too many for a reply */
#define MTX_HEAD   128   /* its numbers are known at the end */
#define EXACT_MAX  (UINT64_C(1) << 53)

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

/* ---- before and after ---- */

static bool write_mtx_head(struct export_edges *e)
{
    char head[MTX_HEAD + 1];
    uint64_t size = e->edges ? e->id_max + 1 : 0;
    int n = snprintf(head, sizeof head,
                     "%%%%MatrixMarket matrix coordinate real general\n%" PRIu64 " %" PRIu64
                     " %" PRIu64,
                     size, size, e->edges);
    memset(head + n, ' ', (size_t)(MTX_HEAD - n));
    head[MTX_HEAD - 1] = '\n';
    return whole_file_write(&e->file, head, MTX_HEAD);
}

static int open_edges(struct export_edges *e)
{
    if (e->format == EXPORT_NPY)
        return npy_writer_open(&e->npy, e->out, NPY_WRITE_FLOAT64, 2, NPY_ROWS_UNKNOWN, 3)
                   ? CLI_OK
                   : cli_file_error(e->npy.error);
    bool opened = whole_file_open(&e->file, e->out);
    if (opened && e->format == EXPORT_MTX && !e->file.temporary) {
        errno = ESPIPE;
        opened = whole_file_fail(&e->file, "must be a regular file, as the number of edges comes "
                                           "last (.tsv need not)");
    }
    if (opened && e->format == EXPORT_MTX) opened = write_mtx_head(e);
    return opened ? CLI_OK : cli_file_error(e->file.error);
}

static int open_files(struct export_edges *e)
{
    e->format = ends_with(e->out, ".mtx")   ? EXPORT_MTX
                : ends_with(e->out, ".npy") ? EXPORT_NPY
                                            : EXPORT_TSV;
    bool known = e->format != EXPORT_TSV || ends_with(e->out, ".tsv") ||
                 ends_with(e->out, ".txt") || strcmp(e->out, "-") == 0 ||
                 strncmp(e->out, "/dev/", 5) == 0;
    if (!known) return cli_error(CLI_USAGE, "%s: a graph is written as .mtx, .npy or .tsv", e->out);
    int code = open_edges(e);
    if (!code && e->nodes_path && !whole_file_open(&e->nodes_file, e->nodes_path))
        code = cli_file_error(e->nodes_file.error);
    return code;
}

static int finish_files(struct export_edges *e)
{
    bool nodes = !e->nodes_path || whole_file_finish(&e->nodes_file);
    if (!nodes) return cli_file_error(e->nodes_file.error);
    if (e->format == EXPORT_NPY)
        return npy_writer_finish(&e->npy) ? CLI_OK : cli_file_error(e->npy.error);
    bool well = true;
    if (e->format == EXPORT_MTX)
        well = fseeko(e->file.stream, 0, SEEK_SET) == 0 ? write_mtx_head(e)
                                                        : whole_file_fail(&e->file, "cannot write");
    return well && whole_file_finish(&e->file) ? CLI_OK : cli_file_error(e->file.error);
}

/* ---- a page ---- */

static int write_edge(struct export_edges *e, uint64_t from, uint64_t to, float weight)
{
    uint64_t larger = from > to ? from : to;
    char line[96];
    if (larger > e->id_max) e->id_max = larger;
    e->edges++;
    if (e->format == EXPORT_NPY) {
        const double row[3] = {(double)from, (double)to, (double)weight};
        if (larger > EXACT_MAX)
            return cli_error(CLI_REFUSED,
                             "node %" PRIu64 ": .npy has no place for ids above 2^53; .mtx and "
                             ".tsv do",
                             larger);
        return npy_writer_append(&e->npy, row, 1) ? CLI_OK : cli_file_error(e->npy.error);
    }
    uint64_t first = e->format == EXPORT_MTX;
    int n = snprintf(line, sizeof line, "%" PRIu64 "%c%" PRIu64 "%c%.9g\n", from + first,
                     first ? ' ' : '\t', to + first, first ? ' ' : '\t', (double)weight);
    return whole_file_write(&e->file, line, (size_t)n) ? CLI_OK : cli_file_error(e->file.error);
}

static int write_node(struct export_edges *e, uint64_t i)
{
    const ea_nodes *p = &e->page;
    char line[96];
    int n = snprintf(line, sizeof line, "%" PRIu64 "\t%s\t%.9g\n", p->ids[i],
                     node_kind_name(p->kinds[i]), (double)p->factors[i]);
    return whole_file_write(&e->nodes_file, line, (size_t)n) ? CLI_OK
                                                             : cli_file_error(e->nodes_file.error);
}

static int write_page(struct export_edges *e)
{
    const ea_nodes *p = &e->page;
    int code = CLI_OK;
    for (uint64_t i = 0; !code && i < p->count; i++) {
        if (!p->found[i]) continue;
        e->nodes++;
        if (e->nodes_path) code = write_node(e, i);
        for (uint64_t at = p->offsets[i]; !code && at < p->offsets[i + 1]; at++)
            code = write_edge(e, p->ids[i], p->targets[at], p->weights[at]);
    }
    return code;
}

static void report(const struct export_edges *e)
{
    struct text a, b;
    FILE *to = strcmp(e->out, "-") == 0 ? stderr : stdout;
    if (e->cli->json) {
        struct json j;
        json_init(&j, to);
        json_object(&j, NULL);
        json_string(&j, "name", e->name);
        json_string(&j, "kind", "graph");
        json_string(&j, "file", e->out);
        json_u64(&j, "nodes", e->nodes);
        json_u64(&j, "edges", e->edges);
        json_u64(&j, "version", e->at.version);
        json_end(&j);
        return;
    }
    fprintf(to, "%s: %s of %s written, version %" PRIu64 "\n", e->out,
            format_many(&a, e->edges, "edge"), format_many(&b, e->nodes, "node"), e->at.version);
}

int export_edges(struct export_edges *e)
{
    struct progress progress;
    int code = open_files(e);
    progress_start(&progress, 0, 0, clock_ns());
    progress.what = "nodes";
    for (uint64_t limit = PAGE_NODES; !code && !e->at.at_end;) {
        ea_status status = ea_scan_nodes(e->cli->client, e->name, &e->at, limit, true, &e->page);
        if (status == EA_RESOURCE_EXHAUSTED && limit > 1 &&
            ea_error_detail(e->cli->client) == EA_DETAIL_REPLY_TOO_LARGE) {
            limit /= 2;
            continue;
        }
        progress.total = e->at.positions;
        if (status) progress_finish(&progress);
        code = status ? cli_failed(e->cli, status, e->name) : write_page(e);
        progress_show(&progress, e->at.position, clock_ns());
    }
    progress_finish(&progress);
    if (!code) code = finish_files(e);
    if (!code) report(e);
    whole_file_abandon(&e->file);
    whole_file_abandon(&e->nodes_file);
    npy_writer_abandon(&e->npy);
    ea_nodes_free(&e->page);
    return code;
}
