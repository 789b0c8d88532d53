/* graph_inside: the struct of a graph and its parts, for the files of daemon/store only: graph.c
 * (what it is), graph_editions.c (who sees which edition), graph_pieces.c (memory that editions
 * share), and the writers.
 * Owner:  the store.
 * Thread: as graph.h says.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_GRAPH_INSIDE_H
#define ENGRAM_STORE_GRAPH_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/yield.h"
#include "daemon/heap/outside.h"
#include "daemon/store/gate.h"
#include "daemon/store/dirty.h"
#include "daemon/store/graph.h"
#include "daemon/store/node_index.h"

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

/* Memory that editions share: an array, or a page of the lists of a side. */
struct graph_piece {
    struct heap_block block;
    uint64_t born;            /* the number of the edition that made it: older ones do not see it */
    struct graph_piece *next; /* in a list of those that newer editions do not see */
};

/* The lists of a side, SPREAD_PAGE_LISTS in a page. */
struct graph_pages {
    struct graph_piece **pieces;
    const struct spread_list **lists; /* the same pages, as readers use them */
    uint32_t count, capacity;
};

/* Values of an edition that the loop may read while a writer works in place. */
struct graph_known {
    _Atomic uint64_t nodes, edges, edge_bytes, node_bytes, count_max[SIDES], kinds[3];
    _Atomic uint64_t index_bytes; /* part of node_bytes */
    _Atomic uint64_t part_bytes[GRAPH_PARTS];
};

struct graph_edition {
    struct graph *of;
    uint64_t number; /* rises from edition to edition; changes in place leave it */
    _Atomic uint64_t version;
    struct gate gate;
    struct graph_edition *older, *newer;
    struct graph_piece *left; /* what it sees and newer editions do not; older ones may */
    struct graph_known known; /* graph_complete writes it */

    struct graph_piece *parts[GRAPH_PARTS]; /* NULL: none, and where pages are in its place */
    struct graph_pages lists[SIDES];
    struct graph_side sides[SIDES];
    uint32_t numbers;         /* of nodes, the free numbers included */
    uint32_t free_count;      /* how many of the graph's free_numbers count */
    struct node_index *index; /* shared with other editions; NULL: no node was ever here */
    /* No weight and no factor is larger than 2^this. The factors' bound falls at a layout only;
     * the weights' bound also when the last weight of the largest size is removed: those are
     * counted. */
    int weight_exponent, factor_exponent;
    uint32_t weight_size; /* graph_weight_size of the largest weight */
    uint64_t largest_count;
    uint64_t order_changes; /* changes of in-list lengths since the order was written */
    uint64_t kinds[3];
    uint64_t edge_count;
};

/* The write in progress. */
struct graph_write {
    struct graph_edition *edition; /* that is written; NULL: none */
    struct graph_piece *left;      /* what it does not see any more */
    bool completed;                /* it is a new version */
    enum status starved;           /* what should have been copied found no memory */
    /* What the loop says when it lets the writer in. */
    bool expected;
    bool alone;                /* nobody reads it meanwhile */
    bool tracked[GRAPH_PARTS]; /* which bytes change must be known */
    uint64_t older;            /* the number of the newest edition that is pinned and not the newest
                                  of all; 0: none */
    struct dirty changed[GRAPH_PARTS];
    bool changed_all[GRAPH_PARTS]; /* there was no memory to note which */
};

struct graph {
    struct resident resident; /* first, so that a resident of this kind can be cast to its graph */
    struct heap *heap;
    struct graph_edition *now;
    struct graph_write write;
    struct leftovers gone; /* struct graph_piece, struct node_index */
    /* bytes that changed since they were last copied to the replica */
    struct dirty dirty[GRAPH_PARTS];

    /* The writer's. Both have memory for all numbers, so that removing nodes takes none. */
    uint32_t *free_numbers; /* the last that counts is used next */
    uint64_t *marks;        /* a bitmap over numbers, all 0 between calls */
    uint64_t free_capacity, mark_words;
    struct outside spare_outside; /* of these two */
    struct outside outside;       /* this struct, and what belongs to an empty graph */

    struct graph_trial {
        uint8_t skip, left; /* how many go without after a failure; how many still do */
    } trials[GRAPH_TRIALS];

    pthread_mutex_t work_lock; /* guards the list below; work_bytes may be read without it */
    struct graph_work *work;
    _Atomic uint64_t work_bytes;
    _Atomic uint32_t numbers_now; /* of the newest edition */

    UT_hash_handle hh; /* in the space's table of graphs */
};

/* ---- graph.c ---- */

extern const uint8_t graph_element_bytes[GRAPH_PARTS];

enum status graph_create(struct heap *heap, struct space *space, const char *name,
                         struct graph **out);
void graph_set_empty(struct graph_edition *g);
/* Removes everything but the name and leaves the version as it is. */
void graph_empty(struct graph_edition *g);
/* Takes memory for the duration of a call; heap_give returns it. Errors as heap_take, *out
 * empty. */
enum status graph_scratch(struct graph_edition *g, uint64_t bytes, struct heap_block *out);
enum status graph_refuse(struct graph_edition *g, enum status st, const char *what,
                         struct failure *f);

/* ---- graph_editions.c: a write. Writers call the graph, as the write makes it, g. ---- */

struct graph_edition *graph_edition_create(struct graph *g);
void graph_edition_destroy(struct graph_edition *e);

/* Runs a write that touches so many edges, in place or not: change may be called twice, and nothing
 * of what it did remains if it fails. In place it must fail before it changes what is seen; in
 * another edition whatever finds no memory to be copied is left as it is, and the write fails when
 * change returns. */
typedef enum status graph_change(struct graph_edition *g, void *write, struct failure *f);
enum status graph_write_run(struct graph *of, uint64_t edges, graph_change *change, void *write,
                            struct failure *f);
/* True if upkeep would hold up others for too long. */
bool graph_upkeep_waits(const struct graph_edition *g);
/* Updates the values that the loop reads and takes a version; called at the end of a change. */
void graph_complete(struct graph_edition *g);

static inline bool graph_in_place(const struct graph_edition *g)
{
    return g == g->of->now;
}

/* Marks elements [first, first + count) of a part as changed. */
void graph_mark(struct graph_edition *g, enum graph_part part, uint64_t first, uint64_t count);

/* ---- graph_pieces.c: of an edition that is being written ---- */

/* take: heap_take_fresh for what will stay, heap_take for copies, which come and go. */
typedef enum status graph_take(struct heap *h, uint64_t bytes, uint32_t owner,
                               struct heap_block *out);
enum status graph_piece_take(struct graph_edition *g, graph_take *take, uint64_t bytes,
                             struct graph_piece **out);
/* An array of edges, with addresses to grow. */
enum status graph_edges_take(struct graph_edition *g, uint64_t places, struct graph_piece **out);
void graph_piece_free(struct heap *heap, struct graph_piece *p);
/* True if only the edition that is being written sees p. NULL is fine. */
static inline bool graph_piece_is_own(const struct graph_edition *g, const struct graph_piece *p)
{
    return graph_in_place(g) || !p || p->born == g->number;
}
/* g does not need p any more. NULL is fine. */
void graph_piece_leave(struct graph_edition *g, struct graph_piece *p);

/* Makes a part that is no list large enough for count elements, and keeps the first `keep`. */
enum status graph_part_reserve(struct graph_edition *g, enum graph_part part, uint64_t count,
                               uint64_t keep);
void graph_part_replace(struct graph_edition *g, enum graph_part part, struct graph_piece *piece);
/* Makes pages for the lists of so many nodes; those past the present ones are whatever they are. */
enum status graph_lists_reserve(struct graph_edition *g, enum graph_side_of side, uint32_t numbers);
/* Gives back memory of parts that are far too large; called after a failure in place. */
void graph_fit(struct graph_edition *g);
void graph_pages_leave(struct graph_edition *g, struct graph_pages *pages);

/* False in these: it found no memory to copy what others see, and the write is starved. */
/* Makes a part that is no list, of which `keep` elements count, the edition's own. */
bool graph_part_own(struct graph_edition *g, enum graph_part part, uint64_t keep);
/* Returns a node's list, to be changed; its edges may not be. NULL as false. */
struct spread_list *graph_list_own(struct graph_edition *g, enum graph_side_of side, uint32_t node);
bool graph_lists_own(struct graph_edition *g, enum graph_side_of side);
/* All that is of each node, so that nodes can change their numbers. */
bool graph_nodes_own(struct graph_edition *g);

/* The places below this one are seen by others. */
static inline uint64_t graph_places_seen(const struct graph_edition *g, enum graph_side_of side)
{
    return graph_piece_is_own(g, g->parts[GRAPH_OUT_EDGES + side]) ? 0
                                                                   : g->of->now->sides[side].used;
}

static inline const struct spread_list *list_of(const struct graph_edition *g,
                                                enum graph_side_of side, uint32_t node)
{
    return &g->lists[side].lists[node >> SPREAD_PAGE_SHIFT][node & (SPREAD_PAGE_LISTS - 1)];
}

/* To be changed: of a page that is the edition's own. */
static inline struct spread_list *list_at(struct graph_edition *g, enum graph_side_of side,
                                          uint32_t node)
{
    struct spread_list *page = g->lists[side].pieces[node >> SPREAD_PAGE_SHIFT]->block.data;
    return &page[node & (SPREAD_PAGE_LISTS - 1)];
}

static inline void *part_of(const struct graph_edition *g, enum graph_part part)
{
    return g->parts[part] ? g->parts[part]->block.data : NULL;
}

static inline struct spread_edge *edges_of(const struct graph_edition *g, enum graph_side_of side)
{
    return part_of(g, (enum graph_part)(GRAPH_OUT_EDGES + side));
}

static inline uint64_t *ids_of(const struct graph_edition *g)
{
    return part_of(g, GRAPH_IDS);
}

/* For loops over all of a graph: after so many nodes or edges they look whether others wait. */
enum { GRAPH_YIELD_EVERY = 1 << 14 };
static inline void graph_yield(uint64_t i)
{
    if (i % GRAPH_YIELD_EVERY == 0) yield_check();
}
/* The same for loops whose turns differ, and go to memory that nobody fetched: work counts
 * edges. */
enum { GRAPH_PACE = 1 << 11 };
static inline void graph_pace(uint64_t *work, uint64_t more)
{
    *work += more;
    if (*work < GRAPH_PACE) return;
    *work = 0;
    yield_check();
}
/* heap_populate and memcpy, piece by piece. */
void graph_populate(void *data, uint64_t bytes);
void graph_copy(void *to, const void *from, uint64_t bytes);

/* ---- graph_work.c ---- */

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
enum status graph_make_nodes(struct graph_edition *g, const uint64_t *ids, uint64_t n,
                             uint32_t *numbers, uint32_t *made, struct failure *f);
/* How many numbers there will be once made nodes are kept; and memory for that many. */
uint32_t graph_numbers_with(const struct graph_edition *g, uint32_t made);
enum status graph_reserve_nodes(struct graph_edition *g, uint32_t made, struct failure *f);
void graph_keep_nodes(struct graph_edition *g, uint32_t made);
void graph_unmake_nodes(struct graph_edition *g, uint32_t made);
/* Of a graph that is adopted (store/adopt.h) and has all its parts: its free numbers, and the index
 * of its nodes. */
enum status graph_adopt_nodes(struct graph_edition *g, const uint32_t *free_numbers,
                              struct failure *f);
/* Makes the index anew if nodes need a far smaller one. */
void graph_index_fit(struct graph_edition *g);
/* Makes the index the edition's own. False: there is no memory. */
bool graph_index_own(struct graph_edition *g);

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
struct list_plan list_plan_run(const struct graph_edition *g, enum graph_side_of side,
                               struct half_run run, bool replace);
/* Adds the run as planned; the array is large enough. */
void list_take_run(struct graph_edition *g, enum graph_side_of side, struct half_run run,
                   bool replace);
/* Removes the edges that lead where the run does, and sets weight 1 in the first half of each such
 * pair. Returns how many were removed. Here and below: nothing changes if the write is starved. */
uint64_t list_drop_run(struct graph_edition *g, enum graph_side_of side, struct half_run run);
/* Gives the edges that lead where the run does the weights of its halves; a run has each node once,
 * and there is one such edge for each. */
void list_set_run(struct graph_edition *g, enum graph_side_of side, struct half_run run);
/* Removes the edges that lead to a free number. Returns how many. */
uint64_t list_drop_nobody(struct graph_edition *g, enum graph_side_of side, uint32_t node);
/* Removes the edges with weight < below. Returns how many. */
uint64_t list_drop_below(struct graph_edition *g, enum graph_side_of side, uint32_t node,
                         float below);
/* Empties a list and gives up its places. */
void list_drop(struct graph_edition *g, enum graph_side_of side, uint32_t node);
/* Writes all lists one after the other, without holes, into a new block, in the given order (NULL:
 * by number). tight: without spare places. False: there is no memory, and nothing changed. */
bool side_rewrite(struct graph_edition *g, enum graph_side_of side, const uint32_t *order,
                  bool tight);
/* True if side_rewrite is worth its cost. */
bool side_is_loose(const struct graph_edition *g, enum graph_side_of side);

/* ---- graph_numbers.c ---- */

/* Renumbers nodes in classes of falling out-degree, each class up to twice the degrees of the
 * next; within a class the order stays, and free numbers come last. Arrays by node move along, but
 * for two things left to the caller: edges still hold the former numbers, and the order array is
 * valid within windows but no longer sorted by degree. degrees: by number, used in place of the
 * present degrees, and moved along, too; NULL: the present ones. map: the new number of each
 * former one; the caller gives it back. False: there is no memory, and nothing changed. */
bool graph_renumber(struct graph_edition *g, uint32_t *const degrees[SIDES],
                    struct heap_block *map);
/* Rewrites the node numbers inside the edges, which stay where they are. */
void graph_renumber_edges(struct graph_edition *g, const uint32_t *map);

/* ---- graph_edges.c ---- */

/* At most this many edges in one request; and no id of 2^64 - 1 among n, which `what` names. */
enum status graph_check_count(uint64_t n, struct failure *f);
enum status graph_check_ids(const uint64_t *ids, uint64_t n, const char *what, struct failure *f);
/* Adds n > 0 edges with finite weights, given by numbers, and the made nodes. The first edges of a
 * graph give its nodes new numbers; otherwise nodes keep theirs. All or nothing; the caller tidies
 * up (graph_settle) and publishes. */
enum status graph_put_edges(struct graph_edition *g, uint32_t *sources, uint32_t *targets,
                            const float *weights, uint64_t n, uint32_t made, struct failure *f);
/* After a change that added n edges to `before`: rewrites what is worth it. */
void graph_settle(struct graph_edition *g, uint64_t n, uint64_t before);

/* ---- graph_build.c ---- */

/* Adds n edges, given by numbers, and the made nodes, by laying out the whole graph again; nodes
 * get new numbers if there is memory for that, and sources and targets are rewritten with them.
 * All or nothing. */
enum status graph_build(struct graph_edition *g, uint32_t *sources, uint32_t *targets,
                        const float *weights, uint64_t n, uint32_t made, struct failure *f);
/* Counts the weights of added edges for the bound on weights. */
void graph_count_weights(struct graph_edition *g, const float *weights, uint64_t n);
/* Renumbers nodes, and rewrites order, lists and bounds, as far as there is memory. */
void graph_lay_out(struct graph_edition *g);
/* Rewrites what became too loose, as far as there is memory; called after a change. In a large
 * graph that is left to a write of another edition, so that nobody waits for it. */
void graph_tidy(struct graph_edition *g);

bool graph_upkeep_is_due(const struct graph_edition *g);

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
static inline void graph_forget_weight(struct graph_edition *g, float weight)
{
    g->largest_count -= graph_weight_size(weight) == g->weight_size;
}

/* Returns the smallest e with magnitude <= 2^e. magnitude: finite, above 0. */
int graph_exponent(float magnitude);

#endif
