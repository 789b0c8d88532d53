/* Changes of graphs, by the naive model of tests/support/graph_model.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/graph_model.h"
#include "tests/support/story.h"

static void unpack(struct graph_model *m, const struct story_state *was)
{
    m->node_count = was->count;
    m->edge_count = was->edge_count;
    for (uint64_t i = 0; i < was->count; i++)
        m->nodes[i] = (struct model_node){was->ids[i], was->kinds[i], was->factors[i]};
    for (uint64_t i = 0; i < was->edge_count; i++)
        m->edges[i] =
            (struct model_edge){was->edges[i].source, was->edges[i].target, was->edges[i].weight};
}

static int by_id(const void *a, const void *b)
{
    const struct model_node *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void pack(struct story *s, struct graph_model *m, struct story_state *now)
{
    qsort(m->nodes, m->node_count, sizeof *m->nodes, by_id);
    now->count = m->node_count;
    now->edge_count = m->edge_count;
    now->ids = story_take(s, m->node_count * 8 + 8);
    now->kinds = story_take(s, m->node_count + 1);
    now->factors = story_take(s, m->node_count * 4 + 4);
    now->edges = story_take(s, m->edge_count * sizeof *now->edges + 1);
    for (uint64_t i = 0; i < m->node_count; i++) {
        now->ids[i] = m->nodes[i].id;
        now->kinds[i] = m->nodes[i].kind;
        now->factors[i] = m->nodes[i].factor;
    }
    for (uint64_t i = 0; i < m->edge_count; i++)
        now->edges[i] =
            (struct story_edge){m->edges[i].source, m->edges[i].target, m->edges[i].weight};
}

static struct graph_deltas deltas_of(const struct story_request *r)
{
    return (struct graph_deltas){.sources = r->ids,
                                 .targets = r->targets,
                                 .deltas = r->weights,
                                 .n = r->id_count,
                                 .low = r->low,
                                 .high = r->high,
                                 .create = r->create};
}

enum status story_weights_fate(const struct story_request *r)
{
    static struct graph_model m;
    static float sums[STORY_IDS];
    const struct graph_deltas d = deltas_of(r);
    struct graph_counts counts;
    uint64_t bad;
    if (r->applied) return STATUS_OK;
    unpack(&m, story_seen(r));
    return model_add_weights(&m, &d, sums, &counts, &bad);
}

static struct graph_counts add_weights(struct story *s, struct graph_model *m,
                                       const struct story_request *r)
{
    const struct graph_deltas d = deltas_of(r);
    struct graph_counts did = {0};
    uint64_t bad;
    enum status st = model_add_weights(m, &d, r->sums, &did, &bad);
    STORY_CHECK(s, !st, "weights were added to, and edge %llu cannot be", (unsigned long long)bad);
    return did;
}

static struct graph_counts add_csr(struct graph_model *m, const struct story_request *r)
{
    struct graph_counts rows = model_set(m, r->row_ids, NULL, NULL, r->row_count);
    struct graph_counts did = model_add(m, r->ids, r->targets, r->weights, r->id_count, r->replace);
    did.nodes_added += rows.nodes_added;
    return did;
}

/* As it was sent, an odd number of edges asks to be counted. */
static struct graph_counts add_edges(struct graph_model *m, const struct story_request *r)
{
    bool counted = !r->replace && r->id_count % 2;
    uint64_t doubled = counted ? model_count_doubled(m, r->ids, r->targets, r->id_count) : 0;
    struct graph_counts did = model_add(m, r->ids, r->targets, r->weights, r->id_count, r->replace);
    did.edges_doubled = doubled;
    return did;
}

void story_apply_graph(struct story *s, struct story_request *r, uint64_t version)
{
    static struct graph_model m;
    struct story_state *was = r->resident->last, *now = story_take(s, sizeof *now);
    STORY_CHECK(s, was->seq < r->seq, "a change overtook one that was asked before it");
    story_take_version(s, was->version, version);
    unpack(&m, was);
    struct graph_counts did = {0};
    if (r->operation == OPERATION_GRAPH_ADD_EDGES)
        did = add_edges(&m, r);
    else if (r->operation == OPERATION_GRAPH_ADD_CSR)
        did = add_csr(&m, r);
    else if (r->operation == OPERATION_GRAPH_ADD_WEIGHTS)
        did = add_weights(s, &m, r);
    else if (r->operation == OPERATION_GRAPH_SCALE)
        model_scale(&m, r->scalar);
    else if (r->operation == OPERATION_GRAPH_PRUNE)
        did = model_prune(&m, r->scalar);
    else if (r->operation == OPERATION_GRAPH_REMOVE_EDGES)
        did = model_remove(&m, r->ids, r->targets, r->id_count);
    else if (r->operation == OPERATION_GRAPH_SET_NODES)
        did = model_set(&m, r->ids, r->kinds, r->factors, r->id_count);
    else
        did = model_remove_nodes(&m, r->ids, r->id_count);
    pack(s, &m, now);
    memcpy(r->counts, &did, sizeof did);
    _Static_assert(sizeof did == sizeof r->counts, "all that is counted");
    now->seq = r->seq;
    now->version = r->version = version;
    now->by = r;
    now->wrote = ++s->model.moments;
    now->before = was;
    r->rows_after = now->count;
    r->edges_after = now->edge_count;
    r->applied = true;
    r->resident->last = now;
}
