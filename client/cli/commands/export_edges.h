/* export_edges: a graph's edges, and its nodes, as files.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h; no half file is left. */
#ifndef ENGRAM_CLI_COMMANDS_EXPORT_EDGES_H
#define ENGRAM_CLI_COMMANDS_EXPORT_EDGES_H

#include "client/cli/cli.h"
#include "client/cli/files/npy_write.h"
#include "client/cli/files/whole_file.h"

enum export_format { EXPORT_TSV, EXPORT_MTX, EXPORT_NPY };

struct export_edges {
    struct cli *cli;
    const char *name, *out, *nodes_path; /* nodes_path NULL: no nodes */

    enum export_format format;
    struct whole_file file, nodes_file;
    struct npy_writer npy;
    ea_cursor at;
    ea_nodes page;
    uint64_t nodes, edges, id_max;
};

/* Writes them, and says so. */
int export_edges(struct export_edges *e);

#endif
