/* graph_inside: the struct of a graph and its parts, for the files of daemon/store only.
 * Owner:  the store.
 * Thread: as graph.h says.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_GRAPH_INSIDE_H
#define ENGRAM_STORE_GRAPH_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/store/dirty.h"
#include "daemon/store/graph.h"
#include "daemon/store/id_index.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define GRAPH_NOBODY UINT64_MAX

enum graph_side_of { SIDE_OUT, SIDE_IN, SIDES };

struct graph_side {
    uint64_t used;      /* places of the edge array, up to the end of the last list */
    uint64_t holes;     /* how many of these are in no list */
    uint32_t count_max; /* an upper bound of the lists' lengths, exact after a layout */
};

/* A workspace: kept, or in use (out). */
struct graph_work {
    struct heap_block block;
    uint32_t nodes;
    bool out;
    struct graph_work *next;
};

struct graph {
    struct resident resident; /* first, so that a resident of this kind can be cast to its graph */
    struct heap *heap;

    struct heap_block parts[GRAPH_PARTS];
    /* bytes that changed since they were last copied to the replica */
    struct dirty dirty[GRAPH_PARTS];
    struct graph_side sides[SIDES];
    uint32_t numbers; /* of nodes, the free numbers included */
    struct id_index index;

    /* Both have memory for all numbers, so that removing nodes takes none. */
    uint32_t *free_numbers; /* free_count of them; the last is used next */
    uint64_t *marks;        /* a bitmap over numbers, all 0 between calls */
    uint64_t free_capacity, mark_words;
    uint32_t free_count;

    /* No weight and no factor is larger than 2^this. The factors' bound falls at a layout only;
     * the weights' bound also when the last weight of the largest size is removed: those are
     * counted. */
    int weight_exponent, factor_exponent;
    uint32_t weight_size; /* graph_weight_size of the largest weight */
    uint64_t largest_count;
    uint64_t order_changes; /* changes of in-list lengths since the order was written */
    uint64_t kinds[3];
    uint64_t edge_count;

    /* Copies for the loop, which may read them while a writer works; graph_publish writes them. */
    struct {
        _Atomic uint64_t nodes, edges, edge_bytes, node_bytes, count_max[SIDES], kinds[3];
        _Atomic uint64_t part_bytes[GRAPH_PARTS];
    } known;

    struct graph_trial {
        uint8_t skip, left; /* how many go without after a failure; how many still do */
    } trials[GRAPH_TRIALS];

    pthread_mutex_t work_lock; /* guards the list below; work_bytes may be read without it */
    struct graph_work *work;
    _Atomic uint64_t work_bytes;

    UT_hash_handle hh; /* in the space's table of graphs */
};

/* ---- graph.c ---- */

extern const uint8_t graph_element_bytes[GRAPH_PARTS];

enum status graph_create(struct heap *heap, struct space *space, const char *name,
                         struct graph **out);
/* Makes a part large enough for count elements, and keeps the first `keep` elements. */
enum status graph_part_reserve(struct graph *g, enum graph_part part, uint64_t count,
                               uint64_t keep);
void graph_part_replace(struct graph *g, enum graph_part part, struct heap_block block);
/* Gives back memory of parts that are far too large; called after a failure. */
void graph_fit(struct graph *g);
/* Removes everything but the name and leaves the version as it is. */
void graph_empty(struct graph *g);
/* Updates the values that the loop reads and raises the version; called after a change. */
void graph_publish(struct graph *g);
/* Takes memory for the duration of a call; heap_give returns it. Errors as heap_take, *out
 * empty. */
enum status graph_scratch(struct graph *g, uint64_t bytes, struct heap_block *out);
enum status graph_refuse(struct graph *g, enum status st, const char *what, struct failure *f);

static inline struct spread_list *lists_of(const struct graph *g, enum graph_side_of side)
{
    return g->parts[GRAPH_OUT + side].data;
}

static inline struct spread_edge *edges_of(const struct graph *g, enum graph_side_of side)
{
    return g->parts[GRAPH_OUT_EDGES + side].data;
}

static inline uint64_t *ids_of(const struct graph *g)
{
    return g->parts[GRAPH_IDS].data;
}

/* Marks elements [first, first + count) of a part as changed. */
static inline void graph_mark(struct graph *g, enum graph_part part, uint64_t first, uint64_t count)
{
    uint64_t bytes = graph_element_bytes[part];
    dirty_mark(&g->dirty[part], first * bytes, count * bytes);
}

/* Updates work_bytes of the graph and of its space. The caller holds work_lock. */
void graph_count_work(struct graph *g);
/* Frees all kept workspaces; none may be in use. */
void graph_drop_work(struct graph *g);

/* ---- graph_dirty.c, for resident.c ---- */

void graph_dirty_init(struct graph *g);
uint64_t graph_dirty_bytes(const struct graph *g);
bool graph_track(struct graph *g);
void graph_soil(struct graph *g);

/* ---- graph_nodes.c: nodes come in three acts: made (found by their ids from then on, and nothing
 * else), and then either kept or unmade ---- */

/* Looks up the numbers of n ids, none of which is 2^64 - 1, and makes the missing nodes; *made
 * counts those, from 0. A failure leaves the nodes that were made before it. */
enum status graph_make_nodes(struct graph *g, const uint64_t *ids, uint64_t n, uint32_t *numbers,
                             uint32_t *made, struct failure *f);
/* How many numbers there will be once made nodes are kept; and memory for that many. */
uint32_t graph_numbers_with(const struct graph *g, uint32_t made);
enum status graph_reserve_nodes(struct graph *g, uint32_t made, struct failure *f);
void graph_keep_nodes(struct graph *g, uint32_t made);
void graph_unmake_nodes(struct graph *g, uint32_t made);

/* ---- graph_halves.c: edges as one of their two nodes sees them ---- */

struct graph_half {
    uint32_t node, other;
    union {
        float weight;
        uint32_t at; /* its place in the request */
    };
};
/* The halves of one node: a range of the array of all halves. */
struct half_run {
    struct graph_half *halves;
    uint64_t count;
};
/* Sorts by node and, if asked, then by other; stable. Returns which of the two arrays has the
 * result. */
struct graph_half *halves_sort(struct graph_half *halves, struct graph_half *spare, uint64_t n,
                               bool by_other);
/* Returns the run that begins at `halves`, of which n are left. */
struct half_run halves_run(struct graph_half *halves, uint64_t n);
/* Returns the first half of a run (sorted by other) that leads to `other`, or NULL. */
struct graph_half *halves_find(struct half_run run, uint32_t other);

/* ---- graph_lists.c ---- */

/* The effect of adding a run to a list: how many edges lead to the same nodes as the run (replace
 * removes these), and how many places at the end of the array it needs if it has to move. */
struct list_plan {
    uint64_t gone, count, places;
};
struct list_plan list_plan_run(const struct graph *g, enum graph_side_of side, struct half_run run,
                               bool replace);
/* Adds the run as planned; the array is large enough. */
void list_take_run(struct graph *g, enum graph_side_of side, struct half_run run, bool replace);
/* Removes the edges that lead where the run does, and sets weight 1 in the first half of each such
 * pair. Returns how many were removed. */
uint64_t list_drop_run(struct graph *g, enum graph_side_of side, struct half_run run);
/* Gives the edges that lead where the run does the weights of its halves; a run has each node once,
 * and there is one such edge for each. */
void list_set_run(struct graph *g, enum graph_side_of side, struct half_run run);
/* Removes the edges that lead to a free number. Returns how many. */
uint64_t list_drop_nobody(struct graph *g, enum graph_side_of side, uint32_t node);
/* Removes the edges with weight < below. Returns how many. */
uint64_t list_drop_below(struct graph *g, enum graph_side_of side, uint32_t node, float below);
/* Empties a list and gives up its places. */
void list_drop(struct graph *g, enum graph_side_of side, uint32_t node);
/* Writes all lists one after the other, without holes, into a new block, in the given order (NULL:
 * by number). tight: without spare places. False: there is no memory, and nothing changed. */
bool side_rewrite(struct graph *g, enum graph_side_of side, const uint32_t *order, bool tight);
/* True if side_rewrite is worth its cost. */
bool side_is_loose(const struct graph *g, enum graph_side_of side);

/* ---- graph_numbers.c ---- */

/* Renumbers nodes in classes of falling out-degree, each class up to twice the degrees of the
 * next; within a class the order stays, and free numbers come last. Arrays by node move along, but
 * for two things left to the caller: edges still hold the former numbers, and the order array is
 * valid within windows but no longer sorted by degree. degrees: by number, used in place of the
 * present degrees, and moved along, too; NULL: the present ones. map: the new number of each
 * former one; the caller gives it back. False: there is no memory, and nothing changed. */
bool graph_renumber(struct graph *g, uint32_t *const degrees[SIDES], struct heap_block *map);
/* Rewrites the node numbers inside the edges, which stay where they are. */
void graph_renumber_edges(struct graph *g, const uint32_t *map);

/* ---- graph_edges.c ---- */

/* At most this many edges in one request; and no id of 2^64 - 1 among n, which `what` names. */
enum status graph_check_count(uint64_t n, struct failure *f);
enum status graph_check_ids(const uint64_t *ids, uint64_t n, const char *what, struct failure *f);
/* Adds n > 0 edges with finite weights, given by numbers, and the made nodes. The first edges of a
 * graph give its nodes new numbers; otherwise nodes keep theirs. All or nothing; the caller tidies
 * up (graph_settle) and publishes. */
enum status graph_put_edges(struct graph *g, uint32_t *sources, uint32_t *targets,
                            const float *weights, uint64_t n, uint32_t made, struct failure *f);
/* After a change that added n edges to `before`: rewrites what is worth it. */
void graph_settle(struct graph *g, uint64_t n, uint64_t before);

/* ---- graph_build.c ---- */

/* Adds n edges, given by numbers, and the made nodes, by laying out the whole graph again; nodes
 * get new numbers if there is memory for that, and sources and targets are rewritten with them.
 * All or nothing. */
enum status graph_build(struct graph *g, uint32_t *sources, uint32_t *targets, const float *weights,
                        uint64_t n, uint32_t made, struct failure *f);
/* Counts the weights of added edges for the bound on weights. */
void graph_count_weights(struct graph *g, const float *weights, uint64_t n);
/* Renumbers nodes, and rewrites order, lists and bounds, as far as there is memory. */
void graph_lay_out(struct graph *g);
/* Rewrites what became too loose, as far as there is memory; called after a change. */
void graph_tidy(struct graph *g);

/* ---- small arithmetic ---- */

/* One number for all magnitudes in (2^(e - 1), 2^e], rising with e; 0 for the weight 0. */
static inline uint32_t graph_weight_size(float weight)
{
    union {
        float f;
        uint32_t u;
    } v = {weight};
    return ((v.u & INT32_MAX) + 0x7fffff) >> 23;
}

/* Takes the weight of a removed edge out of the count. */
static inline void graph_forget_weight(struct graph *g, float weight)
{
    g->largest_count -= graph_weight_size(weight) == g->weight_size;
}

/* Returns the smallest e with magnitude <= 2^e. magnitude: finite, above 0. */
int graph_exponent(float magnitude);

#endif
