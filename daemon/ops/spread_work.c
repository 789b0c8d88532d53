/* spread_work: a spread's work in numbers: how many edges it is likely to follow, from the graph's
 * size and degrees, and the request's decay and thresholds. */
#include <math.h>

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/spread_ask.h"
#include "daemon/ops/spread_inside.h"
#include "daemon/ops/work.h"

enum {
    EDGE_FLOATS = 2,
    ENTRY_BYTES = 24,    /* of an entry in a spread's reply */
    LINEAR_BRIEF = 4096, /* spread_brief_edges */
    ENGRAM_BRIEF = 2048,
    SET_EDGES = 128, /* a set takes as long as so many edges, even if it has none */
};

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

/* The share of the reached nodes, with `each` contributions, that are active d hops from a seed
 * with activation 1, as far as decay and threshold tell. fade: f(1) ... f(d). */
static double share_active(const struct job_spread *s, uint32_t d, double fade, double each)
{
    bool engram = s->mode == SPREAD_ENGRAM;
    double threshold = (double)s->thresholds[engram ? spread_tier_of(d) : 0];
    return threshold > 0 ? share_above(threshold / (fade * each), d) : 1;
}

/* An edge of hop d counts for so many if some of the hop's weights may be similarities: all of them
 * where nodes have enough edges on average, and a share of them where they have less. */
static double edge_cost(const struct job *j, uint32_t d, double degree)
{
    struct edition *e = spread_ask_collection(j);
    if (!e || d != SPREAD_SIMILAR_DEPTH + 1) return 1;
    const struct spread_embeddings embeddings = {.dimension = collection_dimension(e)};
    double share = degree < SPREAD_SIMILAR_EDGES ? degree / SPREAD_SIMILAR_EDGES : 1;
    return 1 + share * (spread_similar_cost(&embeddings) - 1);
}

/* Edges that one set follows if each node has `degree` of them and no hop meets a node twice. all:
 * nothing fades or is dropped. *touched: nodes that it reaches. */
static double walked(const struct job *j, double seeds, double degree, bool all, double *touched)
{
    const struct job_spread *s = &j->request.spread;
    double nodes = (double)graph_nodes(j->graph), edges_max = (double)graph_edges(j->graph);
    double sum = 0, front = seeds < nodes ? seeds : nodes, fade = 1, before = 1;
    *touched = front;
    for (uint32_t d = 1; d <= s->hops && front >= 1; d++) {
        double edges = front * degree < edges_max ? front * degree : edges_max;
        sum += edges * edge_cost(j, d, degree);
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

uint64_t spread_brief_edges(const struct job *j)
{
    return j->request.spread.mode == SPREAD_ENGRAM ? ENGRAM_BRIEF : LINEAR_BRIEF;
}

void spread_estimate(const struct job *j, uint64_t sets, uint64_t seed_count, struct work *w)
{
    bool engram = j->request.spread.mode == SPREAD_ENGRAM;
    /* At most as many sets as there are seeds follow any edge; of all ways to distribute the
     * seeds, an even one follows the most. */
    double walking = (double)smaller(sets, seed_count), seeds = (double)seed_count;
    double each = walking > 0 ? seeds / walking : 0, touched, most;
    uint64_t nodes = graph_nodes(j->graph);
    double degree = nodes ? (double)graph_edges(j->graph) / (double)nodes : 0;
    double edges = walking * walked(j, each, degree, false, &touched);
    double bound = walking * walked(j, each, (double)graph_out_count_max(j->graph), true, &most);
    w->operation = engram ? OPERATION_SPREAD_ENGRAM : OPERATION_SPREAD;
    bound += seeds + (double)(sets - 1) * SET_EDGES;
    w->unbounded = bound > (double)spread_brief_edges(j);
    w->stride = EDGE_FLOATS;
    w->queries = sets;
    w->rows = (uint64_t)touched;
    w->pairs = edges < 1e18 ? (uint64_t)edges + 1 : UINT64_MAX / 16;
}

void spread_work(const struct job *j, struct work *w)
{
    const struct job_request *r = &j->request;
    uint64_t sets = is_present(&r->offsets) ? r->offsets.rows - 1 : 1;
    spread_estimate(j, sets, r->ids.rows, w);
    w->k = r->k;
    uint64_t entries = r->k ? smaller(r->k, w->rows) : w->rows;
    uint64_t path_bytes = r->spread.paths ? (smaller(r->spread.hops, 4) + 2) * sizeof(uint64_t) : 0;
    w->bytes_out = work_times(work_times(sets, entries), ENTRY_BYTES + path_bytes);
}
