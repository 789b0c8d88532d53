/* nodes_fetch: fetches nodes of a graph, in as many requests as the daemon's limits require.
 * Owner:  nobody; what the callback gets is freed when it returns.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_NODES_FETCH_H
#define ENGRAM_CLI_COMMANDS_NODES_FETCH_H

#include "client/cli/cli.h"

/* part: part->count nodes from ids[first] on; with their out-edges if requested. */
typedef int (*nodes_use)(const ea_nodes *part, uint64_t first, void *user);

/* Call after cli_info. Ends with the first code that is not CLI_OK. */
int nodes_fetch(struct cli *cli, const char *graph, const uint64_t *ids, uint64_t n, bool edges,
                nodes_use use, void *user);

#endif
