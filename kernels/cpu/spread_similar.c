/* spread_similar: similarity in the place of weights, in the level that visits at depth
 * SPREAD_SIMILAR_DEPTH send to. Whether it takes their place is found out for each sender while
 * contributions are counted. A similarity takes as long as many edges, so the parts of the scatter
 * that follows are cut by time and not by senders, of which one may have most of the edges. */
#include "kernels/cpu/spread_inside.h"

enum { PIECE_FLOATS = 64 << 10 /* of rows, after which a thread gives way */ };

bool spread_similar_node(const struct spread_run *r, uint32_t node)
{
    const struct spread_embeddings *e = r->question->embeddings;
    const struct spread_graph *g = r->graph;
    struct spread_list list = *spread_out_list(g, node);
    const struct spread_edge *edges = g->out_edges + list.first;
    uint64_t ids[SPREAD_SIMILAR_CHUNK] = {g->ids[node]}, since = 0;
    const float *rows[SPREAD_SIMILAR_CHUNK];
    float norms[SPREAD_SIMILAR_CHUNK];
    if (list.count < SPREAD_SIMILAR_EDGES || !e->find(e->owner, ids, 1, rows, norms)) return false;
    for (uint32_t first = 0; first < list.count;) {
        uint32_t count = list.count - first;
        if (count > SPREAD_SIMILAR_CHUNK) count = SPREAD_SIMILAR_CHUNK;
        for (uint32_t i = 0; i < count; i++)
            ids[i] = g->ids[edges[first + i].node];
        if (!e->find(e->owner, ids, count, rows, norms)) return false;
        first += count;
        spread_pace(r, &since, count);
    }
    return true;
}

void spread_similar_weights(const struct spread_run *r, uint32_t node, const uint32_t *targets,
                            uint32_t count, float *weights)
{
    const struct spread_embeddings *e = r->question->embeddings;
    const struct spread_graph *g = r->graph;
    uint64_t ids[SPREAD_SIMILAR_CHUNK];
    const float *source, *rows[SPREAD_SIMILAR_CHUNK];
    float norm, norms[SPREAD_SIMILAR_CHUNK];
    uint32_t piece = PIECE_FLOATS / (uint32_t)vector_stride(e->dimension);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = g->ids[targets[i]];
    (void)e->find(e->owner, &g->ids[node], 1, &source, &norm);
    (void)e->find(e->owner, ids, count, rows, norms);
    for (uint32_t first = 0; first < count; first += piece) {
        uint32_t n = count - first < piece ? count - first : piece;
        e->kernels->gather(METRIC_COSINE, e->dimension, source, norm, rows + first, norms + first,
                           n, weights + first);
        spread_give_way(r);
    }
    float threshold = r->question->thresholds[SPREAD_HOT], factor = spread_factor(g, node);
    for (uint32_t i = 0; i < count; i++)
        weights[i] = spread_similar_weight(weights[i], threshold, factor);
}

/* ---------------------------------------------------------------- parts */

bool spread_similar_whole(const struct spread_run *r, uint64_t contributions)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t count = spread_senders(s)->count;
    if (count > s->similar_max) s->similar_max = count;
    uint64_t most = r->alone ? SPREAD_ALONE_EDGES : SPREAD_PART_EDGES;
    return contributions * spread_similar_cost(r->question->embeddings) <= most;
}

/* What an edge of sender i costs. */
static uint64_t edge_cost(const struct spread_run *r, uint32_t i)
{
    return spread_state_of(r)->similar[i] ? spread_similar_cost(r->question->embeddings) : 1;
}

static uint64_t sender_edges(const struct spread_run *r, uint32_t i)
{
    const struct spread_front *senders = spread_senders(spread_state_of(r));
    return spread_out_list(r->graph, senders->nodes[i])->count;
}

static uint64_t cost_of_all(const struct spread_run *r, uint64_t *edges)
{
    uint32_t count = spread_senders(spread_state_of(r))->count;
    uint64_t cost = 0;
    *edges = 0;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i + 1);
        *edges += sender_edges(r, i);
        cost += sender_edges(r, i) * edge_cost(r, i);
    }
    return cost;
}

uint32_t spread_similar_cut(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t count = spread_senders(s)->count, part = 0;
    uint64_t edges, cost = cost_of_all(r, &edges), before = 0;
    uint64_t parts = cost / SPREAD_PART_EDGES + 1;
    if (parts > SPREAD_PARTS_MAX) parts = SPREAD_PARTS_MAX;
    if (parts > edges) parts = edges ? edges : 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t each = edge_cost(r, i), after = before + sender_edges(r, i) * each;
        spread_give_way_at(r, i + 1);
        for (; part < parts && cost * part / parts < after; part++) {
            uint64_t wanted = cost * part / parts;
            s->starts[part] = i;
            s->start_edges[part] = (uint32_t)((wanted - before) / each);
        }
        before = after;
    }
    for (; part <= parts; part++) {
        s->starts[part] = count;
        s->start_edges[part] = 0;
    }
    if (s->scatter_parts < parts) s->scatter_parts = (uint32_t)parts;
    return (uint32_t)parts;
}
