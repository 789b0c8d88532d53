/* edges_sort: edges in the order of source and target, those between the same nodes as they came.
 * Owner:  the caller.
 * Thread: the main thread.
 * Errors: EDGES_NO_MEMORY, EDGES_STOPPED: the edges are as they were. */
#ifndef ENGRAM_CLI_FILES_EDGES_SORT_H
#define ENGRAM_CLI_FILES_EDGES_SORT_H

#include <stdbool.h>
#include <stdint.h>

struct edge_list {
    uint64_t *sources, *targets;
    float *weights;
    uint64_t count;
};

enum edges_sorted { EDGES_SORTED, EDGES_NO_MEMORY, EDGES_STOPPED };

/* Takes 48 bytes an edge meanwhile. looks: called some times a second with how much is done of
 * what; false stops it. */
enum edges_sorted edges_sort(const struct edge_list *edges,
                             bool (*looks)(void *user, uint64_t done, uint64_t of), void *user);

#endif
