/* graph_inside: what a graph is made of, for the files of this room only.
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
    uint64_t used;      /* places of the edges' array, up to the end of the last list */
    uint64_t holes;     /* of them those that are in no list */
    uint32_t count_max; /* no list is longer; one was so long, since the last layout */
};

/* A workspace that is kept, or out. */
struct graph_work {
    struct heap_block block;
    uint32_t nodes;
    bool out;
    struct graph_work *next;
};

struct graph {
    struct resident resident; /* first: a resident of this kind is its graph */
    struct heap *heap;

    struct heap_block parts[GRAPH_PARTS];
    struct dirty dirty[GRAPH_PARTS]; /* bytes that the replica has not been told */
    struct graph_side sides[SIDES];
    uint32_t numbers; /* of nodes; some are nobody's */
    struct id_index index;

    /* Both have room for all numbers, so that removing needs no memory. */
    uint32_t *free_numbers; /* nobody's: free_count of them; the last is the next to be used */
    uint64_t *marks;        /* bitmap over numbers, all 0 between calls */
    uint64_t free_capacity, mark_words;
    uint32_t free_count;

    /* No weight, no factor is larger than 2^that. The factors' falls at a layout alone; the weights'
     * as soon as all of that size are gone: they are counted. */
    int weight_exponent, factor_exponent;
    uint32_t weight_size; /* graph_weight_size of the largest */
    uint64_t largest_count;
    uint64_t order_changes; /* of lengths of in-lists since the order was written */
    uint64_t kinds[3];
    uint64_t edge_count;

    /* The loop may read these while a writer works: graph_publish. */
    struct {
        _Atomic uint64_t nodes, edges, edge_bytes, node_bytes, count_max[SIDES], kinds[3];
        _Atomic uint64_t part_bytes[GRAPH_PARTS];
    } known;

    pthread_mutex_t work_lock; /* of the list; its bytes are for all */
    struct graph_work *work;
    _Atomic uint64_t work_bytes;

    UT_hash_handle hh; /* of the space's graphs */
};

/* ---- graph.c ---- */

extern const uint8_t graph_element_bytes[GRAPH_PARTS];

enum status graph_create(struct heap *heap, struct space *space, const char *name,
                         struct graph **out);
/* Room for count elements in a part, of which the first `keep` stay. */
enum status graph_part_reserve(struct graph *g, enum graph_part part, uint64_t count,
                               uint64_t keep);
void graph_part_replace(struct graph *g, enum graph_part part, struct heap_block block);
/* After a failure: gives back what parts do not need by far, as far as there is memory. */
void graph_fit(struct graph *g);
/* Everything but the name; without a new version. */
void graph_empty(struct graph *g);
/* After a change: what the loop reads, and a new version. */
void graph_publish(struct graph *g);
/* Memory for the time of a call; given back with heap_give. As heap_take; *out is empty then. */
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

/* Elements [first, first + count) of a part changed. */
static inline void graph_mark(struct graph *g, enum graph_part part, uint64_t first, uint64_t count)
{
    uint64_t bytes = graph_element_bytes[part];
    dirty_mark(&g->dirty[part], first * bytes, count * bytes);
}

/* What workspaces take is told, of the graph and of its space. With work_lock. */
void graph_count_work(struct graph *g);
/* Frees all that are kept; none may be out. */
void graph_drop_work(struct graph *g);

/* ---- graph_dirty.c, for resident.c ---- */

void graph_dirty_init(struct graph *g);
uint64_t graph_dirty_bytes(const struct graph *g);
bool graph_track(struct graph *g);
void graph_soil(struct graph *g);

/* ---- graph_nodes.c: nodes come in three acts: made (found by their ids from then on, and nothing
 * else), and then either kept or unmade ---- */

/* Numbers of n ids, none of them nobody's. Those that are not there are made: *made counts them,
 * from 0. A failure leaves those that were made before it. */
enum status graph_make_nodes(struct graph *g, const uint64_t *ids, uint64_t n, uint32_t *numbers,
                             uint32_t *made, struct failure *f);
/* How many numbers there are when they are kept, and memory for that. */
uint32_t graph_numbers_with(const struct graph *g, uint32_t made);
enum status graph_reserve_nodes(struct graph *g, uint32_t made, struct failure *f);
void graph_keep_nodes(struct graph *g, uint32_t made);
void graph_unmake_nodes(struct graph *g, uint32_t made);

/* ---- graph_halves.c: edges as one of their two nodes sees them ---- */

struct graph_half {
    uint32_t node, other;
    float weight;
};
/* Of one node, in the array of all. */
struct half_run {
    struct graph_half *halves;
    uint64_t count;
};
/* By node, then, if asked, by other. Stable. Gives back which of the two arrays has them. */
struct graph_half *halves_sort(struct graph_half *halves, struct graph_half *spare, uint64_t n,
                               bool by_other);
/* The run that begins there; n: to the end of all. */
struct half_run halves_run(struct graph_half *halves, uint64_t n);
/* The first of a run (by other) that leads there, or NULL. */
struct graph_half *halves_find(struct half_run run, uint32_t other);

/* ---- graph_lists.c ---- */

/* What a list becomes when it takes a run: how many of its edges lead where the run does (these go,
 * if replace), and the places at the end of the array that it needs, if it has to move. */
struct list_plan {
    uint64_t gone, count, places;
};
struct list_plan list_plan_run(const struct graph *g, enum graph_side_of side, struct half_run run,
                               bool replace);
/* The same done. There is room. */
void list_take_run(struct graph *g, enum graph_side_of side, struct half_run run, bool replace);
/* Edges that lead where the run does go; the first half of each such pair gets weight 1. Returns
 * how many went. */
uint64_t list_drop_run(struct graph *g, enum graph_side_of side, struct half_run run);
/* Edges that lead to a number that is nobody's go. Returns how many. */
uint64_t list_drop_nobody(struct graph *g, enum graph_side_of side, uint32_t node);
/* The list is empty and has no room. */
void list_drop(struct graph *g, enum graph_side_of side, uint32_t node);
/* Lists one after the other, without holes, in that order (NULL: by number), in a new block; tight:
 * without room for more. False: there is no memory, and nothing changed. */
bool side_rewrite(struct graph *g, enum graph_side_of side, const uint32_t *order, bool tight);
/* Whether that is worth it. */
bool side_is_loose(const struct graph *g, enum graph_side_of side);

/* ---- graph_numbers.c ---- */

/* Numbers nodes anew: those with more out-edges first, in classes (twice as many, the next one), in a
 * class as they were; nobody's last. What nodes have goes with them, but for two things that are the
 * caller's: edges, which still lead to the former numbers, and the order, which is one within
 * windows still, but not by degrees. degrees, by number, say what counts, and go with the nodes, too;
 * NULL: as it is. map: of each former number the one that it is now; to be given back. False: there
 * is no memory for that, and all keep their numbers. */
bool graph_renumber(struct graph *g, uint32_t *const degrees[SIDES], struct heap_block *map);
/* Edges where they are. */
void graph_renumber_edges(struct graph *g, const uint32_t *map);

/* ---- graph_build.c ---- */

/* n edges by numbers, and made nodes: all is laid out and, as far as there is memory, numbered anew,
 * sources and targets too. All or nothing. */
enum status graph_build(struct graph *g, uint32_t *sources, uint32_t *targets, const float *weights,
                        uint64_t n, uint32_t made, struct failure *f);
/* Of edges that came. */
void graph_count_weights(struct graph *g, const float *weights, uint64_t n);
/* Numbers, order, lists and measures anew, as far as there is memory. */
void graph_lay_out(struct graph *g);
/* After a change: what became too loose is written anew, as far as there is memory. */
void graph_tidy(struct graph *g);

/* ---- small arithmetic ---- */

/* One number for all magnitudes in (2^(e - 1), 2^e], rising; 0: of 0. */
static inline uint32_t graph_weight_size(float weight)
{
    union {
        float f;
        uint32_t u;
    } v = {weight};
    return ((v.u & INT32_MAX) + 0x7fffff) >> 23;
}

/* Of an edge that goes. */
static inline void graph_forget_weight(struct graph *g, float weight)
{
    g->largest_count -= graph_weight_size(weight) == g->weight_size;
}

/* The smallest e with magnitude <= 2^e. magnitude: finite, above 0. */
int graph_exponent(float magnitude);

#endif
