/* operation_work: what a request asks for, in numbers that the scheduler predicts its time from, and
 * whether it may run together with others or in parts. Looks at shapes alone, never at rows or ids:
 * it runs on the loop for every request. */
#include <math.h>

#include "daemon/exec/batch.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/spread_ask.h"
#include "kernels/topk.h"

enum {
    BATCH_QUERIES_MAX = 256,
    SPLIT_QUERIES_MIN = 64,
    BEST_BYTES = 12, /* an id and its score */
    EDGE_FLOATS = 2,
    NODE_BYTES = 14,  /* fetched, without its edges */
    ENTRY_BYTES = 24, /* of a spread's reply */
    /* Edges that a spread may walk where it is received: some 20 us, seldom 40. */
    LINEAR_BRIEF = 4096,
    ENGRAM_BRIEF = 2048,
    SET_EDGES = 128, /* a set alone, without any, takes as long */
};

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX / 16 : product;
}

static uint64_t rows_of(const struct job *j)
{
    return j->collection ? collection_rows(j->collection) : j->request.rows.rows;
}

static uint32_t dimension_of(const struct job *j)
{
    const struct job_request *r = &j->request;
    if (j->collection) return collection_dimension(j->collection);
    return (uint32_t)smaller(is_present(&r->rows) ? r->rows.columns : r->queries.columns,
                             VECTOR_DIMENSION_MAX);
}

/* Of the best k of so many. */
static uint64_t best_bytes(const struct job *j, uint64_t rows)
{
    uint64_t columns = smaller(smaller(j->request.k, TOPK_K_MAX), rows);
    return times(j->request.queries.rows, columns * BEST_BYTES + sizeof(uint32_t));
}

static void add_knn(const struct job *j, struct work *w)
{
    w->queries = j->request.queries.rows;
    w->rows = rows_of(j);
    w->listed = filter_is_given(j) && filter_is_scant(j, filter_allows(j));
    if (w->listed) w->rows = smaller(w->rows, filter_allows(j));
    w->k = j->request.k;
    w->pairs = times(w->queries, w->rows);
    w->bytes_out = best_bytes(j, w->rows);
}

/* With a threshold nobody knows how many scores there will be. */
static void add_similarity(const struct job *j, struct work *w)
{
    w->queries = j->request.queries.rows;
    w->rows = rows_of(j);
    if (w->filtered) w->rows = smaller(w->rows, filter_allows(j));
    w->pairs = times(w->queries, w->rows);
    if (j->request.has_threshold) return;
    w->bytes_out = times(w->pairs, sizeof(float));
    if (j->collection) w->bytes_out += w->rows * sizeof(uint64_t);
}

static void add_lists(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    w->listed = true;
    w->queries = r->queries.rows;
    w->rows = w->pairs = is_present(&r->ids) ? r->ids.rows : r->rows.rows;
    w->k = r->k;
    w->bytes_out = r->k ? best_bytes(j, w->rows) : times(w->pairs, sizeof(float));
}

static void add_average(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    w->listed = true;
    w->queries = 1;
    w->rows = w->pairs = is_present(&r->ids) ? r->ids.rows : r->rows.rows;
    w->bytes_out = dimension_of(j) * sizeof(float);
}

/* No scores: for the CPU its bytes tell. */
static void add_norms(const struct job *j, struct work *w)
{
    w->rows = j->request.rows.rows;
    w->bytes_out = times(w->rows, sizeof(float));
}

static uint64_t fetched_bytes(const struct job *j)
{
    const struct job_request *r = &j->request;
    uint64_t rows = collection_rows(j->collection);
    uint64_t count =
        is_present(&r->ids) ? r->ids.rows : smaller(r->limit, rows - smaller(r->offset, rows));
    return times(count, sizeof(uint64_t) + 1 + dimension_of(j) * sizeof(float));
}

static uint64_t known_nodes_bytes(const struct job *j)
{
    uint64_t nodes = graph_nodes(j->graph), bytes = times(j->request.ids.rows, NODE_BYTES);
    if (!j->request.edges || !nodes) return bytes;
    return bytes + times(times(j->request.ids.rows, graph_edges(j->graph) / nodes + 1), BEST_BYTES);
}

/* Of products of so many weights, each anywhere from 0 to 1, the share that is above `least`. */
static double share_above(double least, uint32_t weights)
{
    if (least <= 0) return 1;
    if (!(least < 1)) return 0;
    double term = least, below = 0, steps = -log(least);
    for (uint32_t k = 0; k < weights; k++) {
        below += term;
        term *= steps / (k + 1);
    }
    return below < 1 ? 1 - below : 0;
}

/* What is active after d hops from a whole seed, of the nodes that are reached, which have `each`
 * contributions: as far as decay and threshold tell. fade: f(1) ... f(d). */
static double share_active(const struct job_spread *s, uint32_t d, double fade, double each)
{
    bool engram = s->mode == SPREAD_ENGRAM;
    double threshold = (double)s->thresholds[engram ? spread_tier_of(d) : 0];
    return threshold > 0 ? share_above(threshold / (fade * each), d) : 1;
}

/* Edges that one set walks if each node has so many, and a hop meets no node twice. all: nothing fades
 * or is dropped. *touched: nodes that it reaches. */
static double walked(const struct job *j, double seeds, double degree, bool all, double *touched)
{
    const struct job_spread *s = &j->request.spread;
    double nodes = (double)graph_nodes(j->graph), edges_max = (double)graph_edges(j->graph);
    double sum = 0, front = seeds < nodes ? seeds : nodes, fade = 1, before = 1;
    *touched = front;
    for (uint32_t d = 1; d <= s->hops && front >= 1; d++) {
        double edges = front * degree < edges_max ? front * degree : edges_max;
        sum += edges;
        front = edges < nodes ? edges : nodes;
        if (!all && s->decay != DECAY_TABLE) {
            fade *= spread_ask_decay(s, NULL, d);
            double share = share_active(s, d, fade, edges > nodes ? edges / nodes : 1);
            if (share < before) front *= share / before;
            before = share;
        }
        *touched = *touched + front < nodes ? *touched + front : nodes;
    }
    return sum;
}

static void add_spread(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    bool engram = r->spread.mode == SPREAD_ENGRAM;
    uint64_t sets = is_present(&r->offsets) ? r->offsets.rows - 1 : 1;
    /* No more of them than there are seeds walk anything; of all ways to share those, even shares
     * walk most. */
    double walking = (double)smaller(sets, r->ids.rows), seeds = (double)r->ids.rows;
    double each = walking > 0 ? seeds / walking : 0, touched, most;
    struct graph_info info = graph_info(j->graph);
    double degree = info.nodes ? (double)info.edges / (double)info.nodes : 0;
    double edges = walking * walked(j, each, degree, false, &touched);
    double bound = walking * walked(j, each, (double)info.out_count_max, true, &most);
    if (engram) w->operation = OPERATION_SPREAD_ENGRAM;
    bound += seeds + (double)(sets - 1) * SET_EDGES;
    w->unbounded = bound > (engram ? ENGRAM_BRIEF : LINEAR_BRIEF);
    w->stride = EDGE_FLOATS;
    w->queries = sets;
    w->k = r->k;
    w->rows = (uint64_t)touched;
    w->pairs = edges < 1e18 ? (uint64_t)edges + 1 : UINT64_MAX / 16;
    uint64_t entries = r->k ? smaller(r->k, w->rows) : w->rows;
    uint64_t path_bytes = r->spread.paths ? (smaller(r->spread.hops, 4) + 2) * sizeof(uint64_t) : 0;
    w->bytes_out = times(times(sets, entries), ENTRY_BYTES + path_bytes);
}

struct work operation_work(const struct job *j)
{
    struct work w = {
        .operation = j->operation,
        .stride = (uint32_t)vector_stride(dimension_of(j)),
        .filtered = filter_is_given(j),
        .bytes_in = j->body_bytes,
    };
    switch (j->operation) {
    case OPERATION_KNN: add_knn(j, &w); break;
    case OPERATION_SIMILARITY: add_similarity(j, &w); break;
    case OPERATION_SCORE_CANDIDATES: add_lists(j, &w); break;
    case OPERATION_WEIGHTED_AVERAGE: add_average(j, &w); break;
    case OPERATION_NORMS: add_norms(j, &w); break;
    case OPERATION_FETCH: w.bytes_out = fetched_bytes(j); break;
    case OPERATION_GRAPH_FETCH_NODES: w.bytes_out = known_nodes_bytes(j); break;
    case OPERATION_SPREAD: add_spread(j, &w); break;
    default: break;
    }
    const struct operation_ops *ops = operation_find(j->operation);
    w.gpu_able = ops && ops->gpu_pairs && ops->gpu_pairs(j);
    return w;
}

/* Gathering few rows for one is sooner done than scanning all for many. */
bool operation_batches(const struct job *j)
{
    uint64_t queries = j->request.queries.rows;
    return j->operation == OPERATION_KNN && j->collection && !j->whole && queries >= 1 &&
           queries <= BATCH_QUERIES_MAX && !filter_gathers(j) &&
           best_bytes(j, rows_of(j)) <= BATCH_RESULT_BYTES_MAX;
}

bool operation_splits(const struct job *j)
{
    return j->operation == OPERATION_KNN && j->collection && !j->whole && !filter_is_given(j) &&
           j->request.queries.rows >= SPLIT_QUERIES_MIN;
}
