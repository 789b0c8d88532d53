/* dot: a picture of the nodes that a spread touched, in Graphviz's language.
 * Owner:  the caller's struct; dot_free.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. The file appears whole or not at all.
 *
 * Nodes are the larger and redder, the more active they are; seeds have a double line. Edges
 * between these nodes are drawn, thicker with more weight, dashed if it is below 0; two edges that
 * lead there and back are one line. */
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
    uint64_t low, high; /* the ids of its ends */
    bool back;          /* the edge leads from high to low */
    float weight;
};

struct dot {
    char *text;
    size_t bytes;
    FILE *out;              /* writes the text */
    struct dot_node *nodes; /* by id */
    uint64_t count;
    struct dot_edge *edges;
    size_t edge_count, edge_room;
};

/* Makes the picture of one set's result; names may be NULL. Fetches the edges. */
int dot_draw(struct dot *dot, struct cli *cli, const char *graph, const ea_spread_result *answer,
             const struct names *names);
/* Writes a picture; path "-": to standard output. */
int dot_write(const char *text, size_t bytes, const char *path);
void dot_free(struct dot *dot);

/* The steps of dot_draw that need no daemon. */
bool dot_begin(struct dot *dot, const char *title, const struct dot_node *nodes, uint64_t count,
               const struct names *names);
/* Adds the edges of one node, except those to nodes outside the picture. */
bool dot_edges(struct dot *dot, uint64_t source, const uint64_t *targets, const float *weights,
               uint64_t n);
bool dot_end(struct dot *dot);

#endif
