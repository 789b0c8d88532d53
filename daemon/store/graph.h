/* graph: named weighted edges over nodes with u64 ids, in both orientations: the host truth. The forms
 * that readers see are kernels/spread.h's. A node's edges lie together, with room for some more, in
 * one array of each orientation; what outgrows its room moves to the end, and when half of an array
 * is holes it is written anew. All arrays are blocks of the heap, so that a GPU process can read them.
 * Per edge 16 bytes, per node about 64 and the id index; what growing leaves beside that is counted too.
 * Owner:  its space.
 * Thread: the loop owns name, turnstile and lifetime. Edges belong to whoever holds the turnstile:
 *         many readers, or one writer (graph_add_edges ... graph_clear), on any thread.
 * Errors: as each function says, naming the element; a failed call leaves the graph as it was. */
#ifndef ENGRAM_STORE_GRAPH_H
#define ENGRAM_STORE_GRAPH_H

#include "daemon/store/resident.h"
#include "kernels/spread.h"

struct graph;

/* Node numbers are u32 and SPREAD_NO_NODE means none; id 2^64 - 1 is nobody's. */
enum { GRAPH_NODES_MAX = 0x7fffffff, GRAPH_DEGREE_MAX = 0x7fffffff };
#define GRAPH_FACTOR_MAX 65536.0f /* of a node: 0 to this */

struct graph_info {
    const char *name;
    uint64_t nodes, edges;
    uint64_t version;
    uint64_t edge_bytes;                  /* both orientations, room for more and holes included */
    uint64_t node_bytes;                  /* lists, ids, kinds, factors, order, id index */
    uint64_t work_bytes;                  /* workspaces that spreads keep for the next */
    uint64_t out_count_max, in_count_max; /* since all was laid out anew, last: they only grow */
    uint64_t kinds[3];                    /* nodes of each enum spread_kind */
    uint64_t vram_bytes; /* of its replicas; the pipeline asks the GPU backend, here 0 */
    uint64_t vram_version;
};

struct resident *graph_resident(struct graph *g);
struct graph_info graph_info(const struct graph *g);
/* The loop may ask these while a writer works. */
uint64_t graph_nodes(const struct graph *g);
uint64_t graph_edges(const struct graph *g);

/* ---- readers ---- */

struct spread_graph graph_view(const struct graph *g);
/* Number of an id's node, or SPREAD_NO_NODE. It holds until the next change. */
uint32_t graph_find(const struct graph *g, uint64_t id);
/* The same for many ids, hiding memory latency. Returns how many were found. */
uint64_t graph_find_many(const struct graph *g, const uint64_t *ids, size_t count, uint32_t *nodes);

/* A workspace for this graph (kernels/spread.h), all zero: one that was given back, or a new one of
 * untouched pages. Any thread that holds the turnstile. RESOURCE_EXHAUSTED, PERMISSION_DENIED as
 * heap_take. */
enum status graph_take_workspace(struct graph *g, struct spread_workspace *out);
/* Clean again, and kept for the next, or given up if it no longer fits or enough are kept. */
void graph_give_workspace(struct graph *g, struct spread_workspace *w);
/* How many of them are kept at most, at the graph's present size; >= 1. */
uint32_t graph_workspaces_kept(const struct graph *g);

/* ---- a copy elsewhere: parts, each an array, byte for byte ---- */

enum graph_part {
    GRAPH_OUT, /* struct spread_list, nodes */
    GRAPH_IN,
    GRAPH_OUT_EDGES, /* struct spread_edge, up to the end of the last list; places in no list have
                      * the number of a node, too: what was there, or 0 */
    GRAPH_IN_EDGES,
    GRAPH_IDS,     /* u64, nodes */
    GRAPH_ORDER,   /* u32, nodes */
    GRAPH_KINDS,   /* u8, nodes; 0 bytes: all plain */
    GRAPH_FACTORS, /* float, nodes; 0 bytes: all 1 */
    GRAPH_PARTS
};
uint64_t graph_part_bytes(const struct graph *g, enum graph_part part);
/* As of the last change that was done: the loop may ask while a writer works. */
uint64_t graph_known_part_bytes(const struct graph *g, enum graph_part part);

/* Changes are told apart in pages of so many bytes of a part. These are the loop's, while a reader
 * holds the turnstile; resident_track, _soil and _dirty_bytes go with them. */
enum { GRAPH_PAGE_BYTES = 65536 };
struct graph_run {
    enum graph_part part;
    uint64_t first, bytes; /* in it */
    const void *data;      /* in the heap */
};
/* The first run of dirty pages, at most bytes_max long (in whole pages, one at least; 0: no bound).
 * False: there is none. */
bool graph_next_dirty(const struct graph *g, uint64_t bytes_max, struct graph_run *out);
/* Such a run is clean now. */
void graph_clean(struct graph *g, const struct graph_run *run);
/* How many there are, however long. */
uint64_t graph_dirty_runs(const struct graph *g);

/* ---- writer ---- */

/* n edges, in no order, duplicates welcome: each is a contribution of its own. Nodes that are not
 * there are made (plain, factor 1). replace: the edges that were there from such a source to such a
 * target go first, all of them. INVALID_ARGUMENT naming the edge: BAD_WEIGHT (not finite), BAD_NODE
 * (id 2^64 - 1); RESOURCE_EXHAUSTED: MEMORY, QUOTA, TOO_MANY_NODES (nodes, or edges at a node). All
 * or nothing; the version rises by one unless n is 0. Cost: about n, and what the lists that it
 * touches must move; when it brings as much as was there, all is laid out anew, and nodes get new
 * numbers, in classes of falling out-degree (kernels/spread.h), as far as there is memory for that. */
struct graph_counts {
    uint64_t edges_added, edges_removed, nodes_added, nodes_removed, missing;
};
enum status graph_add_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                            const float *weights, uint64_t n, bool replace,
                            struct graph_counts *out, struct failure *f);

/* All edges of the rows of a matrix in CSR form: row i is node row_ids[i] (NULL: node i), its edges
 * lead to columns[offsets[i] .. offsets[i + 1]), which are positions in row_ids if that is given,
 * else ids. offsets: rows + 1, from 0, never falling, the last equal to n. Also INVALID_ARGUMENT:
 * BAD_OFFSETS, and BAD_NODE for a column that is none. Otherwise as graph_add_edges. Rows without
 * edges become nodes too, and the version rises if there are any new ones, even if n is 0. */
enum status graph_add_csr(struct graph *g, const uint64_t *row_ids, uint64_t rows,
                          const uint64_t *offsets, const uint64_t *columns, const float *weights,
                          uint64_t n, bool replace, struct graph_counts *out, struct failure *f);

/* Every edge from sources[i] to targets[i]; what is not there counts as missing. */
void graph_remove_edges(struct graph *g, const uint64_t *sources, const uint64_t *targets,
                        uint64_t n, struct graph_counts *out);

/* Makes nodes, or changes those that are there. kinds, factors: NULL: plain and 1 for new ones, the
 * others keep theirs. INVALID_ARGUMENT naming the node: BAD_NODE (id, kind, factor not finite or not
 * in 0 .. GRAPH_FACTOR_MAX, an id twice); RESOURCE_EXHAUSTED. All or nothing. */
enum status graph_set_nodes(struct graph *g, const uint64_t *ids, const uint8_t *kinds,
                            const float *factors, uint64_t n, struct graph_counts *out,
                            struct failure *f);

/* With all their edges; unknown ids count as missing. Their numbers go to nodes to come. */
void graph_remove_nodes(struct graph *g, const uint64_t *ids, uint64_t n, struct graph_counts *out);

/* Everything goes and the memory back to the system: the slow part of a drop, on a worker. The version
 * rises if there was anything. */
void graph_clear(struct graph *g);

/* ---- lifetime: the loop ---- */

/* As store_collection_*: names of graphs are their own, apart from those of collections.
 * ALREADY_EXISTS/GRAPH_EXISTS, NOT_FOUND/UNKNOWN_GRAPH, INVALID_ARGUMENT/BAD_NAME,
 * RESOURCE_EXHAUSTED/MEMORY, TOO_MANY_COLLECTIONS (both kinds count together). */
enum status store_graph_create(struct store *s, struct space *space, const char *name,
                               struct failure *f, struct graph **out);
enum status store_graph_find(struct store *s, struct space *space, const char *name,
                             struct failure *f, struct graph **out);
void store_graph_unlink(struct store *s, struct space *space, struct graph *g);
/* Of all graphs in the space; bytes: of edges, nodes and workspaces. */
struct graph_totals {
    uint64_t graphs, nodes, edges, bytes;
};
struct graph_totals store_graph_totals(const struct space *space);
size_t store_graph_list(struct store *s, struct space *space, const char *after, struct graph **out,
                        size_t max, bool *more);
/* After store_graph_unlink, or never linked. NULL is fine. */
void graph_destroy(struct graph *g);

#endif
