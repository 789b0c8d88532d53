/* commands: every command of the tool, each defined in the file of its noun.
 * Owner:  constants.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_CLI_COMMANDS_COMMANDS_H
#define ENGRAM_CLI_COMMANDS_COMMANDS_H

#include "client/cli/cli.h"

/* In the order of the help; command_NAME is in the file of its noun. */
#define COMMANDS(COMMAND)       \
    COMMAND(help)               \
    COMMAND(version)            \
    COMMAND(completion)         \
    COMMAND(ping)               \
    COMMAND(info)               \
    COMMAND(stats)              \
    COMMAND(explain)            \
    COMMAND(doctor)             \
    COMMAND(top)                \
    COMMAND(monitor)            \
    COMMAND(clients)            \
    COMMAND(spaces)             \
    COMMAND(memory)             \
    COMMAND(slowlog)            \
    COMMAND(config_get)         \
    COMMAND(config_set)         \
    COMMAND(reload)             \
    COMMAND(save)               \
    COMMAND(verify)             \
    COMMAND(restore)            \
    COMMAND(create)             \
    COMMAND(list)               \
    COMMAND(describe)           \
    COMMAND(drop)               \
    COMMAND(load)               \
    COMMAND(export)             \
    COMMAND(changes)            \
    COMMAND(knn)                \
    COMMAND(similarity)         \
    COMMAND(score)              \
    COMMAND(fetch)              \
    COMMAND(delete)             \
    COMMAND(norms)              \
    COMMAND(average)            \
    COMMAND(graph_create)       \
    COMMAND(graph_list)         \
    COMMAND(graph_describe)     \
    COMMAND(graph_drop)         \
    COMMAND(graph_load)         \
    COMMAND(graph_add)          \
    COMMAND(graph_scale)        \
    COMMAND(graph_prune)        \
    COMMAND(graph_set)          \
    COMMAND(graph_show)         \
    COMMAND(graph_remove)       \
    COMMAND(spread)             \
    COMMAND(recall)             \
    COMMAND(hrr_bind)           \
    COMMAND(hrr_unbind)         \
    COMMAND(hrr_product)        \
    COMMAND(hrr_superpose)      \
    COMMAND(hrr_permute)        \
    COMMAND(hrr_random)         \
    COMMAND(hrr_cleanup)        \
    COMMAND(complete)           \
    COMMAND(covariance)         \
    COMMAND(cluster)            \
    COMMAND(attractor_create)   \
    COMMAND(attractor_list)     \
    COMMAND(attractor_describe) \
    COMMAND(attractor_drop)     \
    COMMAND(attractor_learn)    \
    COMMAND(attractor_complete) \
    COMMAND(attractor_fetch)    \
    COMMAND(attractor_set)      \
    COMMAND(bench)

/* Those that take --expect, for their first request that writes. */
#define WRITING_COMMANDS(COMMAND) \
    COMMAND(drop)                 \
    COMMAND(load)                 \
    COMMAND(delete)               \
    COMMAND(graph_drop)           \
    COMMAND(graph_load)           \
    COMMAND(graph_add)            \
    COMMAND(graph_scale)          \
    COMMAND(graph_prune)          \
    COMMAND(graph_set)            \
    COMMAND(graph_remove)         \
    COMMAND(hrr_bind)             \
    COMMAND(hrr_unbind)           \
    COMMAND(hrr_product)          \
    COMMAND(hrr_superpose)        \
    COMMAND(hrr_permute)          \
    COMMAND(hrr_random)           \
    COMMAND(cluster)              \
    COMMAND(attractor_drop)       \
    COMMAND(attractor_learn)      \
    COMMAND(attractor_set)

/* Those whose result is one table, or one of the same shape for each query: --format csv. */
#define TABLE_COMMANDS(COMMAND) \
    COMMAND(clients)            \
    COMMAND(spaces)             \
    COMMAND(memory)             \
    COMMAND(slowlog)            \
    COMMAND(changes)            \
    COMMAND(config_get)         \
    COMMAND(create)             \
    COMMAND(list)               \
    COMMAND(describe)           \
    COMMAND(knn)                \
    COMMAND(similarity)         \
    COMMAND(score)              \
    COMMAND(fetch)              \
    COMMAND(norms)              \
    COMMAND(graph_create)       \
    COMMAND(graph_list)         \
    COMMAND(graph_describe)     \
    COMMAND(spread)             \
    COMMAND(recall)             \
    COMMAND(hrr_cleanup)        \
    COMMAND(attractor_create)   \
    COMMAND(attractor_list)     \
    COMMAND(attractor_describe)

/* Those that drop a whole, which take --yes; and those that are never suggested. */
#define DROPPING_COMMANDS(COMMAND) COMMAND(drop) COMMAND(graph_drop) COMMAND(attractor_drop)
#define DESTROYING_COMMANDS(COMMAND) \
    DROPPING_COMMANDS(COMMAND)       \
    COMMAND(delete)                  \
    COMMAND(graph_prune)             \
    COMMAND(graph_remove)

#define DECLARE(name) extern const struct command command_##name;
COMMANDS(DECLARE)
#undef DECLARE

#endif
