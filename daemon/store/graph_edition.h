/* graph_edition: what readers of a graph see: its nodes and edges as they are at one version. While
 * an edition is pinned, nothing that can be seen through it changes (graph.h).
 * Owner:  its graph.
 * Thread: any that has it pinned, or whose writer is the only user of the graph.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_GRAPH_EDITION_H
#define ENGRAM_STORE_GRAPH_EDITION_H

#include "daemon/base/status.h"
#include "kernels/spread.h"

struct graph_edition;

/* A node's number is a u32, SPREAD_NO_NODE means none; no node has the id 2^64 - 1. */
enum { GRAPH_NODES_MAX = 0x7fffffff, GRAPH_DEGREE_MAX = 0x7fffffff };
#define GRAPH_FACTOR_MAX 65536.0f /* a node's factor is 0 to this */

/* The loop may call these while a writer works in place. */
uint64_t graph_nodes(const struct graph_edition *e);
uint64_t graph_edges(const struct graph_edition *e);
uint64_t graph_version(const struct graph_edition *e);
/* An upper bound of the nodes' numbers of out-edges. */
uint64_t graph_out_count_max(const struct graph_edition *e);

struct spread_graph graph_view(const struct graph_edition *e);
/* Returns the number of the node with this id, or SPREAD_NO_NODE; in this edition. */
uint32_t graph_find(const struct graph_edition *e, uint64_t id);
/* Finds the numbers of many ids, hiding memory latency. Returns how many were found. */
uint64_t graph_find_many(const struct graph_edition *e, const uint64_t *ids, size_t count,
                         uint32_t *nodes);

/* Takes a workspace for this edition (kernels/spread.h), all zero: one that was given back, or a
 * new one of untouched pages. RESOURCE_EXHAUSTED, PERMISSION_DENIED as heap_take. */
enum status graph_take_workspace(const struct graph_edition *e, struct spread_workspace *out);
/* Gives a workspace back, all zero again. It is kept for a later spread, or freed if the graph has
 * outgrown it or enough are kept. */
void graph_give_workspace(const struct graph_edition *e, struct spread_workspace *w);
/* How many workspaces are kept at most, at the graph's present size; >= 1. */
uint32_t graph_workspaces_kept(const struct graph_edition *e);

/* Trials: spreads whose numbers cannot tell whether they are short. After each kind's failure, more
 * of them go without a trial, 255 at most. The loop alone calls these. trial: < GRAPH_TRIALS. */
enum { GRAPH_TRIALS = 16 };
bool graph_wants_trial(const struct graph_edition *e, uint32_t trial);
void graph_note_trial(const struct graph_edition *e, uint32_t trial, bool failed);

/* ---- a copy elsewhere: parts, each an array, byte for byte ---- */

enum graph_part {
    GRAPH_OUT, /* struct spread_list, one a node */
    GRAPH_IN,
    /* struct spread_edge, up to the end of the last list. Places in no list hold the number of a
     * node, too (an old one, or 0), so that every number can be checked alike. */
    GRAPH_OUT_EDGES,
    GRAPH_IN_EDGES,
    GRAPH_IDS,     /* u64, one a node */
    GRAPH_ORDER,   /* u32, one a node */
    GRAPH_KINDS,   /* u8, one a node; 0 bytes: all are plain */
    GRAPH_FACTORS, /* float, one a node; 0 bytes: all are 1 */
    GRAPH_PARTS
};
uint64_t graph_part_bytes(const struct graph_edition *e, enum graph_part part);

#endif
