/* nodes_fetch: what a graph knows of nodes, in as many requests as the daemon's bounds ask for.
 * Owner:  nobody; what the callback gets is freed when it returns.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_NODES_FETCH_H
#define ENGRAM_CLI_COMMANDS_NODES_FETCH_H

#include "client/cli/cli.h"

/* part: of ids[first] and those after it, part->count of them; with their out-edges if asked for. */
typedef int (*nodes_use)(const ea_nodes *part, uint64_t first, void *user);

/* After cli_info. Ends with the first code that is not CLI_OK. */
int nodes_fetch(struct cli *cli, const char *graph, const uint64_t *ids, uint64_t n, bool edges,
                nodes_use use, void *user);

#endif
