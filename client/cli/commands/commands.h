/* commands: every command of the tool, each defined in the file of its noun.
 * Owner:  constants.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_CLI_COMMANDS_COMMANDS_H
#define ENGRAM_CLI_COMMANDS_COMMANDS_H

#include "client/cli/cli.h"

extern const struct command command_ping, command_info, command_stats, command_explain;
extern const struct command command_create, command_list, command_describe, command_drop;
extern const struct command command_load;
extern const struct command command_knn, command_similarity, command_score;
extern const struct command command_fetch, command_delete; /* rows.c */
extern const struct command command_graph_create, command_graph_list, command_graph_describe;
extern const struct command command_graph_drop, command_graph_load;
extern const struct command command_graph_set, command_graph_show, command_graph_remove;
extern const struct command command_spread;
extern const struct command command_bench;

#endif
