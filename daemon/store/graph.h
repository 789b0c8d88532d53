/* graph: named weighted edges over nodes with u64 ids, stored in both orientations. This copy in
 * host memory is the authoritative one; readers see it as the structs of kernels/spread.h. The
 * edges of a node lie together, with some spare places, in one array for each orientation. A list
 * that outgrows its places moves to the end, and an array that is half holes is rewritten. All
 * arrays are blocks of the heap, so that a GPU process can read them. An edge takes 16 bytes, a
 * node about 64 and its place in the id index; spare places and holes count towards the quota,
 * too.
 *
 * Readers pin the newest edition (graph_edition.h). A small write changes it in place if nobody has
 * pinned it. Any other makes the next edition: lists of edges that it changes move to the end of
 * their array, and the places that they had stay as they are; of the array that says where the
 * lists lie it copies pages of 64 KiB; what is of each node besides is copied as a whole. What only
 * old editions have is freed with them.
 * Owner:  its space.
 * Thread: the loop owns name, turnstile, lifetime and which edition is the newest. An edition may
 *         be read on any thread by who has it pinned. One writer at a time (graph_add_edges ...
 *         graph_remove_nodes), on any thread, between graph_expect_write and graph_publish; or
 *         whoever alone uses the graph, without these.
 * Errors: as each function says, naming the element; a failed call leaves the graph as it was.
 *         Every write may fail with RESOURCE_EXHAUSTED (MEMORY, QUOTA), with a retry hint if
 *         readers of old editions hold some of the memory. */
#ifndef ENGRAM_STORE_GRAPH_H
#define ENGRAM_STORE_GRAPH_H

#include "daemon/store/graph_edition.h"
#include "daemon/store/resident.h"

struct graph;

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

/* By which sums are cut (kernels/spread.h). No weight and no factor is larger than 2^exponent, no
 * node has more in-edges than in_count_max; they may be larger than the contents need. */
enum { GRAPH_EXPONENT_MIN = -149, GRAPH_EXPONENT_MAX = 128 };
struct graph_bounds {
    int weight_exponent, factor_exponent;
    uint32_t in_count_max;
    uint32_t out_count_max; /* no sum is cut by it; operators see it, and costs are told by it */
};

struct resident *graph_resident(struct graph *g);
struct graph_info graph_info(const struct graph *g);
/* ---- editions; the loop ---- */

/* The newest edition. */
struct graph_edition *graph_now(const struct graph *g);
/* Keeps the newest edition for a reader. NULL: a writer is changing it in place. */
struct graph_edition *graph_pin(struct graph *g);
/* Ends a pin; with the last one what only this edition had is gone, */
void graph_release(struct graph_edition *e);
/* and its memory, which takes a while, can be freed on any thread. */
struct leftovers graph_take_gone(struct graph *g);
bool graph_gone_is_much(const struct leftovers *gone);
void graph_free_gone(struct heap *heap, struct leftovers gone);

/* ---- a copy elsewhere ---- */

/* The bytes of a part after the last completed change: the loop may ask while a writer works. */
uint64_t graph_known_part_bytes(const struct graph *g, enum graph_part part);

/* Changes are tracked in pages of this many bytes of a part. Only the loop calls the functions
 * below, for a reader of the newest edition; resident_track, _soil and _dirty_bytes belong to
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

/* The loop: a writer is let in, the only one. */
void graph_expect_write(struct graph *g);
/* Likewise, and nobody reads meanwhile: more is written in place. */
void graph_expect_write_alone(struct graph *g);
/* The loop: that writer is through, well or not; what it wrote is seen by readers from now on. */
void graph_publish(struct graph *g);
/* Returns the edition that the writer has made, or the newest. */
struct graph_edition *graph_written(const struct graph *g);

/* Adds n edges, in any order; duplicates are kept, each contributes on its own. Missing nodes are
 * made (plain, factor 1). replace: edges that exist from such a source to such a target are
 * removed first, all of them. INVALID_ARGUMENT naming the edge: BAD_WEIGHT (not finite), BAD_NODE
 * (id 2^64 - 1); RESOURCE_EXHAUSTED: MEMORY, QUOTA, TOO_MANY_NODES (nodes, or edges at a node).
 * All or nothing; the version rises by one unless n is 0. Cost: about n, and moving the lists that
 * grow. A call that adds as many edges as there were lays out the whole graph again, with new node
 * numbers in classes of falling out-degree (kernels/spread.h), if there is memory for that. */
struct graph_counts {
    uint64_t edges_added, edges_removed, nodes_added, nodes_removed, missing;
    uint64_t edges_doubled; /* graph_add_counted */
};
enum status graph_add_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                            const float *weights, uint64_t n, bool replace,
                            struct graph_counts *out, struct failure *f);
/* The same without replace, and counts the edges that come beside one between the same nodes that
 * was there, or stands before them. Cost: n are sorted as well, and the lists that grow read. */
enum status graph_add_counted(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                              const float *weights, uint64_t n, struct graph_counts *out,
                              struct failure *f);

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
enum status graph_remove_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                               uint64_t n, struct graph_counts *out, struct failure *f);

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
/* Removes the edges with weight < below; nodes stay. The version rises by one if an edge was
 * removed. Cost: both arrays of edges are read, and yields. */
enum status graph_prune(struct graph *g, float below, struct graph_counts *out, struct failure *f);

/* Makes nodes, or changes existing ones. NULL kinds or factors: new nodes are plain and have
 * factor 1, existing ones keep theirs. INVALID_ARGUMENT naming the node: BAD_NODE (id, kind,
 * factor not finite or not in 0 .. GRAPH_FACTOR_MAX, an id twice); RESOURCE_EXHAUSTED. All or
 * nothing. */
enum status graph_set_nodes(struct graph *g, const uint64_t *ids, const uint8_t *kinds,
                            const float *factors, uint64_t n, struct graph_counts *out,
                            struct failure *f);

/* Removes nodes with all their edges; unknown ids count as missing. Later nodes get their
 * numbers. */
enum status graph_remove_nodes(struct graph *g, const uint64_t *ids, uint64_t n,
                               struct graph_counts *out, struct failure *f);

/* Removes everything and gives the memory back to the system: a worker does this slow part of a
 * drop. Nobody else may use the graph. The version rises if there was a node. */
void graph_clear(struct graph *g);

/* ---- lifetime: the loop ---- */

/* As store_collection_*. Graphs and collections have separate names. ALREADY_EXISTS/GRAPH_EXISTS,
 * NOT_FOUND/UNKNOWN_GRAPH, INVALID_ARGUMENT/BAD_NAME, RESOURCE_EXHAUSTED/MEMORY,
 * TOO_MANY_COLLECTIONS (graphs and collections count together). */
enum status store_graph_create(struct store *s, struct space *space, const char *name,
                               struct failure *f, struct graph **out);
/* The same in two steps, as with collections. */
enum status store_graph_prepare(struct store *s, struct space *space, const char *name,
                                struct failure *f, struct graph **out);
enum status store_graph_link(struct store *s, struct graph *g, struct failure *f);
enum status store_graph_find(struct store *s, struct space *space, const char *name,
                             struct failure *f, struct graph **out);
void store_graph_unlink(struct store *s, struct space *space, struct graph *g);
/* As of collections (collection.h). */
void store_graph_rename(struct space *space, struct graph *g, const char *name);
struct resident *store_graph_made_by(const struct space *space, uint64_t maker);
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
