/* graph: named weighted edges over nodes with u64 ids, stored in both orientations. This copy in
 * host memory is the authoritative one; readers see it as the structs of kernels/spread.h. The
 * edges of a node lie together, with some spare places, in one array for each orientation. A list
 * that outgrows its places moves to the end, and an array that is half holes is rewritten. All
 * arrays are blocks of the heap, so that a GPU process can read them. An edge takes 16 bytes, a
 * node about 64 and its place in the id index; spare places and holes count towards the quota,
 * too.
 * Owner:  its space.
 * Thread: the loop owns name, turnstile and lifetime. Edges belong to whoever holds the turnstile:
 *         many readers, or one writer (graph_add_edges ... graph_clear), on any thread.
 * Errors: as each function says, naming the element; a failed call leaves the graph as it was. */
#ifndef ENGRAM_STORE_GRAPH_H
#define ENGRAM_STORE_GRAPH_H

#include "daemon/store/resident.h"
#include "kernels/spread.h"

struct graph;

/* A node's number is a u32, SPREAD_NO_NODE means none; no node has the id 2^64 - 1. */
enum { GRAPH_NODES_MAX = 0x7fffffff, GRAPH_DEGREE_MAX = 0x7fffffff };
#define GRAPH_FACTOR_MAX 65536.0f /* a node's factor is 0 to this */

struct graph_info {
    const char *name;
    uint64_t nodes, edges;
    uint64_t version;
    uint64_t edge_bytes; /* both orientations, spare places and holes included */
    uint64_t node_bytes; /* lists, ids, kinds, factors, order, id index */
    uint64_t work_bytes; /* workspaces kept for later spreads */
    /* upper bounds: exact after a layout, and they only grow until the next */
    uint64_t out_count_max, in_count_max;
    uint64_t kinds[3];   /* how many nodes each enum spread_kind has */
    uint64_t vram_bytes; /* of its replicas; filled in by the pipeline, here 0 */
    uint64_t vram_version;
};

struct resident *graph_resident(struct graph *g);
struct graph_info graph_info(const struct graph *g);
/* The loop may call these while a writer works. */
uint64_t graph_nodes(const struct graph *g);
uint64_t graph_edges(const struct graph *g);

/* ---- readers ---- */

struct spread_graph graph_view(const struct graph *g);
/* Returns the number of the node with this id, or SPREAD_NO_NODE; valid until the next change. */
uint32_t graph_find(const struct graph *g, uint64_t id);
/* Finds the numbers of many ids, hiding memory latency. Returns how many were found. */
uint64_t graph_find_many(const struct graph *g, const uint64_t *ids, size_t count, uint32_t *nodes);

/* Takes a workspace for this graph (kernels/spread.h), all zero: one that was given back, or a new
 * one of untouched pages. Called on any thread that holds the turnstile. RESOURCE_EXHAUSTED,
 * PERMISSION_DENIED as heap_take. */
enum status graph_take_workspace(struct graph *g, struct spread_workspace *out);
/* Gives a workspace back, all zero again. It is kept for a later spread, or freed if the graph has
 * outgrown it or enough are kept. */
void graph_give_workspace(struct graph *g, struct spread_workspace *w);
/* How many workspaces are kept at most, at the graph's present size; >= 1. */
uint32_t graph_workspaces_kept(const struct graph *g);

/* Trials: spreads whose numbers cannot tell whether they are short. After each kind's failure, more
 * of them go without a trial, 255 at most. The loop alone calls these. trial: < GRAPH_TRIALS. */
enum { GRAPH_TRIALS = 16 };
bool graph_wants_trial(struct graph *g, uint32_t trial);
void graph_note_trial(struct graph *g, uint32_t trial, bool failed);

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
uint64_t graph_part_bytes(const struct graph *g, enum graph_part part);
/* The bytes after the last completed change: the loop may ask while a writer works. */
uint64_t graph_known_part_bytes(const struct graph *g, enum graph_part part);

/* Changes are tracked in pages of this many bytes of a part. Only the loop calls the functions
 * below, while a reader holds the turnstile; resident_track, _soil and _dirty_bytes belong to
 * them. */
enum { GRAPH_PAGE_BYTES = 65536 };
struct graph_run {
    enum graph_part part;
    uint64_t first, bytes; /* within the part */
    const void *data;      /* in the heap */
};
/* Finds the first run of dirty pages, at most bytes_max long (whole pages, at least one; 0:
 * unlimited). False: no page is dirty. */
bool graph_next_dirty(const struct graph *g, uint64_t bytes_max, struct graph_run *out);
/* Marks such a run as clean. */
void graph_clean(struct graph *g, const struct graph_run *run);
/* How many runs of dirty pages there are, with unlimited length. */
uint64_t graph_dirty_runs(const struct graph *g);

/* ---- writer ---- */

/* Adds n edges, in any order; duplicates are kept, each contributes on its own. Missing nodes are
 * made (plain, factor 1). replace: edges that exist from such a source to such a target are
 * removed first, all of them. INVALID_ARGUMENT naming the edge: BAD_WEIGHT (not finite), BAD_NODE
 * (id 2^64 - 1); RESOURCE_EXHAUSTED: MEMORY, QUOTA, TOO_MANY_NODES (nodes, or edges at a node).
 * All or nothing; the version rises by one unless n is 0. Cost: about n, and moving the lists that
 * grow. A call that adds as many edges as there were lays out the whole graph again, with new node
 * numbers in classes of falling out-degree (kernels/spread.h), if there is memory for that. */
struct graph_counts {
    uint64_t edges_added, edges_removed, nodes_added, nodes_removed, missing;
};
enum status graph_add_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                            const float *weights, uint64_t n, bool replace,
                            struct graph_counts *out, struct failure *f);

/* Adds all edges of the rows of a matrix in CSR form. Row i is node row_ids[i] (NULL: node i). Its
 * edges lead to columns[offsets[i] .. offsets[i + 1]), which are positions in row_ids if that is
 * given, and ids otherwise. offsets: rows + 1 of them, from 0, never falling, the last equal to n.
 * Further errors: INVALID_ARGUMENT: BAD_OFFSETS, and BAD_NODE for a column that is no row.
 * Otherwise as graph_add_edges. Rows without edges become nodes, too; new nodes raise the version
 * even if n is 0. */
enum status graph_add_csr(struct graph *g, const uint64_t *row_ids, uint64_t rows,
                          const uint64_t *offsets, const uint64_t *columns, const float *weights,
                          uint64_t n, bool replace, struct graph_counts *out, struct failure *f);

/* Removes every edge from sources[i] to targets[i]; pairs without an edge count as missing. */
void graph_remove_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                        uint64_t n, struct graph_counts *out);

/* Adds to the weights of n edges, in the order given: w becomes w + delta, one float32 addition
 * (rounded to nearest, ties to even), and then low where it is less than low, high where it is
 * greater than high; low <= high, both finite. A pair may be given several times: each delta is
 * added to what the one before left. weights[i] is what the edge had after delta i. create: an
 * edge that is not there is made, from weight 0, with the nodes that it needs. INVALID_ARGUMENT
 * naming the edge: BAD_WEIGHT (delta not finite), BAD_NODE (id 2^64 - 1); NOT_FOUND/UNKNOWN_EDGE;
 * FAILED_PRECONDITION/SEVERAL_EDGES: several edges lead from that source to that target;
 * RESOURCE_EXHAUSTED as graph_add_edges. All or nothing; the version rises by one unless n is 0.
 * Cost: the lists of edges out of the sources and into the targets are read once each. */
struct graph_deltas {
    const uint64_t *sources, *targets;
    const float *deltas;
    uint64_t n;
    float low, high;
    bool create;
};
enum status graph_add_weights(struct graph *g, const struct graph_deltas *d, float *weights,
                              struct graph_counts *out, struct failure *f);

/* Multiplies the weights of all edges by factor (finite, 0 or more); a product is rounded once to
 * float32, to nearest, ties to even. INVALID_ARGUMENT/BAD_WEIGHT naming an edge whose weight would
 * not be finite; then nothing has changed. The version rises by one if there is an edge. Cost:
 * both arrays of edges, and replicas take them anew; the thread yields on the way. */
enum status graph_scale(struct graph *g, float factor, struct failure *f);
/* Removes the edges with weight < below; nodes stay. Takes no memory that it needs. The version
 * rises by one if an edge was removed. Cost: both arrays of edges are read, and yields. */
void graph_prune(struct graph *g, float below, struct graph_counts *out);

/* Makes nodes, or changes existing ones. NULL kinds or factors: new nodes are plain and have
 * factor 1, existing ones keep theirs. INVALID_ARGUMENT naming the node: BAD_NODE (id, kind,
 * factor not finite or not in 0 .. GRAPH_FACTOR_MAX, an id twice); RESOURCE_EXHAUSTED. All or
 * nothing. */
enum status graph_set_nodes(struct graph *g, const uint64_t *ids, const uint8_t *kinds,
                            const float *factors, uint64_t n, struct graph_counts *out,
                            struct failure *f);

/* Removes nodes with all their edges; unknown ids count as missing. Later nodes get their
 * numbers. */
void graph_remove_nodes(struct graph *g, const uint64_t *ids, uint64_t n, struct graph_counts *out);

/* Removes everything and gives the memory back to the system: a worker does this slow part of a
 * drop. The version rises if there was a node. */
void graph_clear(struct graph *g);

/* ---- lifetime: the loop ---- */

/* As store_collection_*. Graphs and collections have separate names. ALREADY_EXISTS/GRAPH_EXISTS,
 * NOT_FOUND/UNKNOWN_GRAPH, INVALID_ARGUMENT/BAD_NAME, RESOURCE_EXHAUSTED/MEMORY,
 * TOO_MANY_COLLECTIONS (graphs and collections count together). */
enum status store_graph_create(struct store *s, struct space *space, const char *name,
                               struct failure *f, struct graph **out);
enum status store_graph_find(struct store *s, struct space *space, const char *name,
                             struct failure *f, struct graph **out);
void store_graph_unlink(struct store *s, struct space *space, struct graph *g);
/* Sums over all graphs of the space; bytes: of edges, nodes and workspaces. */
struct graph_totals {
    uint64_t graphs, nodes, edges, bytes;
};
struct graph_totals store_graph_totals(const struct space *space);
size_t store_graph_list(struct store *s, struct space *space, const char *after, struct graph **out,
                        size_t max, bool *more);
/* Frees a graph that was unlinked (store_graph_unlink) or never linked. NULL is fine. */
void graph_destroy(struct graph *g);

#endif
