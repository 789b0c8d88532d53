/* What clients of a story ask about graphs. */
#include <float.h>
#include <string.h>

#include "kernels/spread.h"
#include "tests/support/story_draft.h"

static uint64_t node_id(struct story *s)
{
    return 3 + 5 * story_random(s, STORY_NODES);
}

static void choose_edges(struct story *s, struct story_request *r, uint64_t most)
{
    r->id_count = 1 + story_random(s, most);
    r->ids = story_take(s, r->id_count * 8);
    r->targets = story_take(s, r->id_count * 8);
    r->weights = draft_floats(s, r->id_count);
    for (uint64_t i = 0; i < r->id_count; i++) {
        r->ids[i] = node_id(s);
        r->targets[i] = node_id(s);
    }
}

/* Most are of one node, whose weights similarity may replace. */
static void choose_hub(struct story *s, struct story_request *r)
{
    uint64_t hub = node_id(s);
    do
        choose_edges(s, r, 40);
    while (r->id_count < 25);
    for (uint64_t i = 0; i < r->id_count; i++)
        if (i % 4)
            r->ids[i] = hub;
        else
            r->targets[i] = hub;
}

static void choose_nodes(struct story *s, struct story_request *r, uint64_t most)
{
    r->id_count = 1 + story_random(s, most);
    r->ids = draft_ids(s, r->id_count, STORY_NODES);
}

static struct draft *create(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_CREATE;
    struct draft *d = draft_open(OPERATION_GRAPH_CREATE, engram_accel_v1_GraphCreateRequest_fields);
    strcpy(d->sample.message.graph_create.name, story_name(r->name));
    return d;
}

struct draft *story_graph_drop(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_DROP;
    struct draft *d = draft_open(OPERATION_GRAPH_DROP, engram_accel_v1_GraphDropRequest_fields);
    strcpy(d->sample.message.graph_drop.name, story_name(r->name));
    return d;
}

static struct draft *add_edges(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_ADD_EDGES;
    struct draft *d =
        draft_open(OPERATION_GRAPH_ADD_EDGES, engram_accel_v1_GraphAddEdgesRequest_fields);
    engram_accel_v1_GraphAddEdgesRequest *m = &d->sample.message.add_edges;
    strcpy(m->graph, story_name(r->name));
    if (story_chance(s, 400))
        choose_hub(s, r);
    else
        choose_edges(s, r, story_chance(s, 200) ? 150 : 12);
    m->replace = r->replace = story_chance(s, 300);
    m->count_doubled = r->id_count % 2;
    PUT(d, m, sources, DTYPE_UINT64, r->id_count, 1, r->ids);
    PUT(d, m, targets, DTYPE_UINT64, r->id_count, 1, r->targets);
    PUT(d, m, weights, DTYPE_FLOAT32, r->id_count, 1, r->weights);
    return d;
}

/* Rows that have names, or are nodes 0, 1, ...; some have no edges. */
static struct draft *add_csr(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_ADD_CSR;
    struct draft *d =
        draft_open(OPERATION_GRAPH_ADD_CSR, engram_accel_v1_GraphAddCsrRequest_fields);
    engram_accel_v1_GraphAddCsrRequest *m = &d->sample.message.add_csr;
    bool named = story_chance(s, 700);
    uint64_t rows = r->row_count = 1 + story_random(s, 10);
    uint64_t *offsets = story_take(s, (rows + 1) * 8);
    for (uint64_t i = 0; i < rows; i++)
        offsets[i + 1] = offsets[i] + story_random(s, 5);
    uint64_t n = r->id_count = offsets[rows], *columns = story_take(s, n * 8 + 8);
    r->row_ids = draft_ids(s, rows, STORY_NODES);
    r->ids = story_take(s, n * 8 + 8);
    r->targets = story_take(s, n * 8 + 8);
    r->weights = draft_floats(s, n);
    for (uint64_t i = 0; i < rows; i++) {
        if (!named) r->row_ids[i] = i;
        for (uint64_t e = offsets[i]; e < offsets[i + 1]; e++) {
            columns[e] = named ? story_random(s, rows) : node_id(s);
            r->ids[e] = r->row_ids[i];
            r->targets[e] = named ? r->row_ids[columns[e]] : columns[e];
        }
    }
    strcpy(m->graph, story_name(r->name));
    m->replace = r->replace = story_chance(s, 300);
    if (named) PUT(d, m, ids, DTYPE_UINT64, rows, 1, r->row_ids);
    PUT(d, m, offsets, DTYPE_UINT64, rows + 1, 1, offsets);
    PUT(d, m, columns, DTYPE_UINT64, n, 1, columns);
    PUT(d, m, weights, DTYPE_FLOAT32, n, 1, r->weights);
    return d;
}

/* Mostly of edges that are there, so that it is not always refused. */
static struct draft *add_weights(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_ADD_WEIGHTS;
    struct draft *d =
        draft_open(OPERATION_GRAPH_ADD_WEIGHTS, engram_accel_v1_GraphAddWeightsRequest_fields);
    engram_accel_v1_GraphAddWeightsRequest *m = &d->sample.message.add_weights;
    const struct story_collection *found = story_find(s, r->client->space, r->name);
    uint64_t edges = found ? found->last->edge_count : 0;
    strcpy(m->graph, story_name(r->name));
    choose_edges(s, r, story_chance(s, 200) ? 40 : 4);
    r->sums = story_take(s, r->id_count * 4);
    for (uint64_t i = 0; i < r->id_count && edges; i++) {
        const struct story_edge *edge = &found->last->edges[story_random(s, edges)];
        if (story_chance(s, 50)) continue;
        r->ids[i] = edge->source;
        r->targets[i] = edge->target;
    }
    m->create = r->create = story_chance(s, 600);
    m->has_low = m->has_high = story_chance(s, 700);
    m->low = r->low = m->has_low ? -0.5f : -FLT_MAX;
    m->high = r->high = m->has_high ? 1 : FLT_MAX;
    PUT(d, m, sources, DTYPE_UINT64, r->id_count, 1, r->ids);
    PUT(d, m, targets, DTYPE_UINT64, r->id_count, 1, r->targets);
    PUT(d, m, deltas, DTYPE_FLOAT32, r->id_count, 1, r->weights);
    return d;
}

/* Weights stay within float32, however often. */
static struct draft *scale(struct story *s, struct story_request *r)
{
    static const float factors[] = {0.5f, 0.9f, 1, 1.25f};
    r->operation = OPERATION_GRAPH_SCALE;
    struct draft *d = draft_open(OPERATION_GRAPH_SCALE, engram_accel_v1_GraphScaleRequest_fields);
    strcpy(d->sample.message.scale.graph, story_name(r->name));
    d->sample.message.scale.has_factor = true;
    d->sample.message.scale.factor = r->scalar = factors[story_random(s, 4)];
    return d;
}

static struct draft *prune(struct story *s, struct story_request *r)
{
    static const float bounds[] = {-0.9f, -0.5f, 0, 0.1f};
    r->operation = OPERATION_GRAPH_PRUNE;
    struct draft *d = draft_open(OPERATION_GRAPH_PRUNE, engram_accel_v1_GraphPruneRequest_fields);
    strcpy(d->sample.message.prune.graph, story_name(r->name));
    d->sample.message.prune.has_below = true;
    d->sample.message.prune.below = r->scalar = bounds[story_random(s, 4)];
    return d;
}

static struct draft *remove_edges(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_REMOVE_EDGES;
    struct draft *d =
        draft_open(OPERATION_GRAPH_REMOVE_EDGES, engram_accel_v1_GraphRemoveEdgesRequest_fields);
    engram_accel_v1_GraphRemoveEdgesRequest *m = &d->sample.message.remove_edges;
    strcpy(m->graph, story_name(r->name));
    choose_edges(s, r, 20);
    PUT(d, m, sources, DTYPE_UINT64, r->id_count, 1, r->ids);
    PUT(d, m, targets, DTYPE_UINT64, r->id_count, 1, r->targets);
    return d;
}

static struct draft *set_nodes(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_SET_NODES;
    struct draft *d =
        draft_open(OPERATION_GRAPH_SET_NODES, engram_accel_v1_GraphSetNodesRequest_fields);
    engram_accel_v1_GraphSetNodesRequest *m = &d->sample.message.set_nodes;
    strcpy(m->graph, story_name(r->name));
    choose_nodes(s, r, 15);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    if (story_chance(s, 700)) {
        r->kinds = story_take(s, r->id_count);
        for (uint64_t i = 0; i < r->id_count; i++)
            r->kinds[i] = (uint8_t)story_random(s, 3);
        PUT(d, m, kinds, DTYPE_UINT8, r->id_count, 1, r->kinds);
    }
    if (story_chance(s, 500)) {
        r->factors = story_take(s, r->id_count * 4);
        for (uint64_t i = 0; i < r->id_count; i++)
            r->factors[i] = (float)story_random(s, 30) / 10;
        PUT(d, m, factors, DTYPE_FLOAT32, r->id_count, 1, r->factors);
    }
    return d;
}

static struct draft *remove_nodes(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_REMOVE_NODES;
    struct draft *d =
        draft_open(OPERATION_GRAPH_REMOVE_NODES, engram_accel_v1_GraphRemoveNodesRequest_fields);
    engram_accel_v1_GraphRemoveNodesRequest *m = &d->sample.message.remove_nodes;
    strcpy(m->graph, story_name(r->name));
    choose_nodes(s, r, 4);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

static struct draft *fetch_nodes(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_GRAPH_FETCH_NODES;
    struct draft *d =
        draft_open(OPERATION_GRAPH_FETCH_NODES, engram_accel_v1_GraphFetchNodesRequest_fields);
    engram_accel_v1_GraphFetchNodesRequest *m = &d->sample.message.fetch_nodes;
    strcpy(m->graph, story_name(r->name));
    choose_nodes(s, r, 20);
    m->edges = r->with_edges = story_chance(s, 500);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

/* Seeds that are likely there, different ones. */
static void choose_seeds(struct story *s, struct story_request *r)
{
    const struct story_collection *found = story_find(s, r->client->space, r->name);
    uint64_t there = found ? found->last->count : 0;
    choose_nodes(s, r, 6);
    r->weights = story_take(s, r->id_count * 4);
    for (uint64_t i = 0; i < r->id_count; i++)
        r->weights[i] = (float)(1 + story_random(s, 100)) / 100;
    if (there < r->id_count || story_chance(s, 50)) return;
    uint64_t first = story_random(s, there - r->id_count + 1);
    for (uint64_t i = 0; i < r->id_count; i++)
        r->ids[i] = found->last->ids[first + i];
}

/* Of the nodes that are there, with the seeds: mostly all of them. */
static void choose_within(struct story *s, struct story_request *r)
{
    enum { BYTES = 40 };
    const struct story_collection *found = story_find(s, r->client->space, r->name);
    uint64_t there = found ? found->last->count : 0, what = story_random(s, 5), n = 0;
    r->list = what == 0;
    r->bitmap = what == 1;
    if (!r->list && !r->bitmap) return;
    r->filter = story_take(s, (there + r->id_count + 1) * 8);
    for (uint64_t i = 0; i < there; i++)
        if (story_chance(s, 600)) r->filter[n++] = found->last->ids[i];
    for (uint64_t i = story_chance(s, 50); i < r->id_count; i++)
        r->filter[n++] = r->ids[i];
    if (story_chance(s, 30)) r->filter[n++] = 1; /* often nobody's */
    r->filter_count = n;
    if (r->list) return;
    r->filter_first = story_random(s, 4);
    r->filter_count = BYTES;
    r->bits = story_take(s, BYTES);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bit = r->filter[i] - r->filter_first;
        if (r->filter[i] >= r->filter_first) r->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

static void choose_how(struct story *s, struct job_spread *how)
{
    static const float laws[] = {
        [DECAY_EXPONENTIAL] = 0.7F, [DECAY_POWER] = 1, [DECAY_LINEAR] = 0.2F, [DECAY_CONSTANT] = 0};
    static const uint32_t choice[] = {DECAY_EXPONENTIAL, DECAY_POWER, DECAY_LINEAR, DECAY_CONSTANT};
    how->mode = story_chance(s, 500) ? SPREAD_LINEAR : SPREAD_ENGRAM;
    how->hops = 1 + (uint32_t)story_random(s, 5);
    how->decay = choice[story_random(s, 4)];
    how->decay_parameter = laws[how->decay];
    for (int i = 0; i < 3; i++)
        how->thresholds[i] = (float)story_random(s, 10) / 100;
    if (how->mode == SPREAD_ENGRAM) {
        how->fan = (uint32_t)story_random(s, 3);
        how->ignore_kinds = story_chance(s, 300);
        how->paths = story_chance(s, 300);
    } else {
        how->last_hop = story_chance(s, 300);
        how->paths = !how->last_hop && story_chance(s, 300);
    }
}

/* That collection which has the most nodes of the graph, mostly. */
static uint32_t choose_embeddings(struct story *s, const struct story_request *r)
{
    const struct story_collection *graph = story_find(s, r->client->space, r->name);
    uint32_t best = (uint32_t)story_random(s, STORY_NAMES);
    uint64_t most = 0;
    for (uint32_t name = 0; graph && name < STORY_NAMES && !story_chance(s, 100); name++) {
        const struct story_collection *rows = story_find(s, r->client->space, name);
        uint64_t there = 0;
        for (uint64_t i = 0; rows && i < graph->last->count; i++)
            there += story_place(rows->last, graph->last->ids[i]) < rows->last->count;
        if (there > most) best = name;
        if (there > most) most = there;
    }
    return best;
}

static struct draft *spread(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_SPREAD;
    struct draft *d = draft_open(OPERATION_SPREAD, engram_accel_v1_SpreadRequest_fields);
    engram_accel_v1_SpreadRequest *m = &d->sample.message.spread;
    strcpy(m->graph, story_name(r->name));
    choose_seeds(s, r);
    choose_within(s, r);
    choose_how(s, &r->how);
    r->embedded = r->how.mode == SPREAD_ENGRAM && story_chance(s, 500);
    if (r->embedded) r->reads[0].name = r->reads[1].name = choose_embeddings(s, r);
    if (r->embedded) strcpy(m->embeddings, story_name(r->reads[0].name));
    m->mode = (engram_accel_v1_SpreadMode)r->how.mode;
    m->hops = r->how.hops;
    m->decay = (engram_accel_v1_DecayLaw)r->how.decay;
    m->decay_parameter = r->how.decay_parameter;
    m->has_threshold = true;
    m->threshold = r->how.thresholds[0];
    m->has_threshold_warm = m->has_threshold_cold = r->how.mode == SPREAD_ENGRAM;
    m->threshold_warm = r->how.thresholds[1];
    m->threshold_cold = r->how.thresholds[2];
    m->fan = (engram_accel_v1_FanEffect)r->how.fan;
    m->ignore_kinds = r->how.ignore_kinds;
    m->last_hop = r->how.last_hop;
    m->paths = r->how.paths;
    m->k = r->k = story_chance(s, 500) ? 0 : 1 + (uint32_t)story_random(s, 10);
    r->set_count = 1 + story_random(s, 3);
    r->offsets = story_take(s, (r->set_count + 1) * 8);
    for (uint64_t i = 1; i < r->set_count; i++)
        r->offsets[i] = r->offsets[i - 1] + story_random(s, r->id_count - r->offsets[i - 1] + 1);
    r->offsets[r->set_count] = r->id_count;
    PUT(d, m, seed_offsets, DTYPE_UINT64, r->set_count + 1, 1, r->offsets);
    PUT(d, m, seeds, DTYPE_UINT64, r->id_count, 1, r->ids);
    PUT(d, m, activations, DTYPE_FLOAT32, r->id_count, 1, r->weights);
    draft_put_filter(d, r, &m->has_within, &m->within);
    return d;
}

static struct draft *recall(struct story *s, struct story_request *r)
{
    choose_how(s, &r->how);
    return story_recall(s, r);
}

struct draft *story_graph_request(struct story *s, struct story_request *r)
{
    if (!story_find(s, r->client->space, r->name) && story_chance(s, 700)) return create(s, r);
    uint64_t at = story_random(s, 1000);
    return at < 330   ? spread(s, r)
           : at < 400 ? recall(s, r)
           : at < 520 ? add_edges(s, r)
           : at < 560 ? add_csr(s, r)
           : at < 640 ? add_weights(s, r)
           : at < 660 ? scale(s, r)
           : at < 670 ? prune(s, r)
           : at < 730 ? remove_edges(s, r)
           : at < 810 ? set_nodes(s, r)
           : at < 850 ? remove_nodes(s, r)
           : at < 980 ? fetch_nodes(s, r)
           : at < 990 ? create(s, r)
                      : story_graph_drop(s, r);
}
