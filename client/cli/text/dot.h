/* dot: a picture of what a spread touched, in Graphviz's language.
 * Owner:  the caller's struct; dot_free.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. The file appears whole or not at all.
 *
 * Nodes are larger and redder the nearer they are to the most active, seeds have a double line.
 * Edges are those among them, thicker with weight, dashed below 0; two that lead to and fro are one line. */
#ifndef ENGRAM_CLI_TEXT_DOT_H
#define ENGRAM_CLI_TEXT_DOT_H

#include "client/cli/cli.h"
#include "client/cli/text/names.h"

#include <stdio.h>

struct dot_node {
    uint64_t id;
    float activation;
    uint32_t depth;
};

struct dot_edge {
    uint64_t low, high; /* ids of its ends */
    bool back;          /* from high to low */
    float weight;
};

struct dot {
    char *text;
    size_t bytes;
    FILE *out;              /* writes text */
    struct dot_node *nodes; /* by id */
    uint64_t count;
    struct dot_edge *edges;
    size_t edge_count, edge_room;
};

/* The picture of one set's answer; names may be NULL. Fetches the edges. */
int dot_draw(struct dot *dot, struct cli *cli, const char *graph, const ea_spread_result *answer,
             const struct names *names);
/* path "-": standard output. */
int dot_write(const struct dot *dot, const char *path);
void dot_free(struct dot *dot);

/* The parts, which need no daemon. */
bool dot_begin(struct dot *dot, const char *title, const struct dot_node *nodes, uint64_t count,
               const struct names *names);
/* Leaves out those that lead elsewhere. */
bool dot_edges(struct dot *dot, uint64_t source, const uint64_t *targets, const float *weights,
               uint64_t n);
bool dot_end(struct dot *dot);

#endif
