/* Whether an answer about a graph is the one that the model gives. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/graph.h"
#include "tests/support/reference.h"
#include "tests/support/spread_expect.h"
#include "tests/support/story_check.h"

enum { TWIN_BYTES = 32 << 20 };

/* ---------------------------------------------------------------- changes */

static void check_change(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_GraphChangeReply m = engram_accel_v1_GraphChangeReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_GraphChangeReply_fields, &m);
    const uint64_t counts[6] = {m.edges_added,   m.edges_removed, m.nodes_added,
                                m.nodes_removed, m.missing,       m.edges_doubled};
    if (!r->applied) WRONG(c->s, r, "it was said to be done, and was not");
    if (memcmp(counts, r->counts, sizeof counts) != 0 || m.nodes != r->rows_after ||
        m.edges != r->edges_after || m.meta.version != r->version)
        WRONG(c->s, r, "what it did is miscounted");
}

static void check_weights(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_GraphAddWeightsReply m = engram_accel_v1_GraphAddWeightsReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_GraphAddWeightsReply_fields, &m);
    const float *sums = NEXT(c, &m, weights, DTYPE_FLOAT32, r->id_count, 1);
    if (!r->applied) WRONG(c->s, r, "it was said to be done, and was not");
    if (m.edges_added != r->counts[0] || m.nodes_added != r->counts[2] ||
        m.nodes != r->rows_after || m.edges != r->edges_after || m.meta.version != r->version)
        WRONG(c->s, r, "what it did is miscounted");
    for (uint64_t i = 0; i < r->id_count; i++)
        if (!reference_same(sums[i], r->sums[i]))
            WRONG(c->s, r, "sum %llu is %.9g", (unsigned long long)i, sums[i]);
}

static void check_create(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_GraphCreateReply m = engram_accel_v1_GraphCreateReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_GraphCreateReply_fields, &m);
    if (!c->r->made || m.graph.nodes || m.graph.edges) WRONG(c->s, c->r, "a graph that is not new");
}

static void check_drop(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_GraphDropReply m = engram_accel_v1_GraphDropReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_GraphDropReply_fields, &m);
    const struct story_state *seen = story_seen(c->r);
    if (!c->r->made || !c->r->applied || m.nodes != seen->count || m.edges != seen->edge_count)
        WRONG(c->s, c->r, "a drop of %llu nodes", (unsigned long long)m.nodes);
}

/* ---------------------------------------------------------------- nodes */

static int by_target(const void *a, const void *b)
{
    const struct story_edge *x = a, *y = b;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static void check_edges(struct cursor *c, uint64_t id, uint64_t count, const uint64_t *targets,
                        const float *weights)
{
    const struct story_state *seen = story_seen(c->r);
    struct story_edge *edges = malloc((seen->edge_count + 1) * sizeof *edges);
    uint64_t n = 0;
    for (uint64_t i = 0; i < seen->edge_count; i++)
        if (seen->edges[i].source == id) edges[n++] = seen->edges[i];
    qsort(edges, n, sizeof *edges, by_target);
    if (n != count)
        WRONG(c->s, c->r, "node %llu has %llu edges", (unsigned long long)id,
              (unsigned long long)count);
    for (uint64_t i = 0; i < n; i++)
        if (targets[i] != edges[i].target || !reference_same(weights[i], edges[i].weight))
            WRONG(c->s, c->r, "edge %llu of node %llu", (unsigned long long)i,
                  (unsigned long long)id);
    free(edges);
}

static void degrees(const struct story_state *seen, uint64_t id, uint64_t *out, uint64_t *in)
{
    *out = *in = 0;
    for (uint64_t i = 0; i < seen->edge_count; i++) {
        *out += seen->edges[i].source == id;
        *in += seen->edges[i].target == id;
    }
}

static void check_nodes(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_GraphFetchNodesReply m = engram_accel_v1_GraphFetchNodesReply_init_zero;
    const struct story_request *r = c->r;
    uint64_t n = r->id_count, missing = 0, out_count, in_count;
    check_decode(c->s, r, reply, engram_accel_v1_GraphFetchNodesReply_fields, &m);
    check_see(c, m.meta.version);
    const struct story_state *seen = story_seen(r);
    check_version(c->s, r, m.meta.version);
    const uint8_t *found = NEXT(c, &m, found, DTYPE_UINT8, n, 1);
    const uint8_t *kinds = NEXT(c, &m, kinds, DTYPE_UINT8, n, 1);
    const float *factors = NEXT(c, &m, factors, DTYPE_FLOAT32, n, 1);
    const uint32_t *outs = NEXT(c, &m, out_counts, DTYPE_UINT32, n, 1);
    const uint32_t *ins = NEXT(c, &m, in_counts, DTYPE_UINT32, n, 1);
    const uint64_t *offsets = r->with_edges ? NEXT(c, &m, offsets, DTYPE_UINT64, n + 1, 1) : NULL;
    uint64_t edges = offsets ? offsets[n] : 0;
    const uint64_t *targets = offsets ? NEXT(c, &m, targets, DTYPE_UINT64, edges, 1) : NULL;
    const float *weights = offsets ? NEXT(c, &m, weights, DTYPE_FLOAT32, edges, 1) : NULL;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = story_place(seen, r->ids[i]);
        bool there = at < seen->count;
        degrees(seen, r->ids[i], &out_count, &in_count);
        missing += !there;
        if (found[i] != there || kinds[i] != (there ? seen->kinds[at] : 0) ||
            !reference_same(factors[i], there ? seen->factors[at] : 0) || outs[i] != out_count ||
            ins[i] != in_count)
            WRONG(c->s, r, "node %llu", (unsigned long long)r->ids[i]);
        if (offsets)
            check_edges(c, r->ids[i], offsets[i + 1] - offsets[i], targets + offsets[i],
                        weights + offsets[i]);
    }
    if (m.missing != missing) WRONG(c->s, r, "missing nodes are miscounted");
}

/* ---------------------------------------------------------------- spreads */

/* A graph with those nodes and edges. */
struct graph *check_twin_graph(struct story *s, const struct story_state *seen)
{
    struct failure f;
    struct graph *g;
    struct graph_counts counts;
    if (!s->twins && (heap_create(TWIN_BYTES, &s->twin_heap) ||
                      store_create(s->twin_heap, vectors_choose("scalar"), &s->twins) ||
                      store_space(s->twins, "twins", &s->twin_space)))
        story_fail(s, "no memory for twins");
    if (store_graph_create(s->twins, s->twin_space, "twin", &f, &g) ||
        graph_set_nodes(g, seen->ids, seen->kinds, seen->factors, seen->count, &counts, &f))
        story_fail(s, "no twin: %s", f.text);
    for (uint64_t i = 0; i < seen->edge_count; i++) {
        const struct story_edge *e = &seen->edges[i];
        if (graph_add_edges(g, &e->source, &e->target, &e->weight, 1, false, &counts, &f))
            story_fail(s, "no edge for a twin: %s", f.text);
    }
    return g;
}

void check_twin_graph_close(struct story *s, struct graph *g)
{
    store_graph_unlink(s->twins, s->twin_space, g);
    graph_destroy(g);
}

/* The collection that it read, as it was then. */
struct collection *check_twin_rows(struct story *s, const struct story_read *read)
{
    struct failure f;
    struct collection *twin;
    struct upsert_counts counts;
    const struct story_state *seen = read->seen;
    if (store_collection_create(s->twins, s->twin_space, "rows", read->resident->dimension,
                                read->resident->metric, &f, &twin) ||
        (seen->count && collection_upsert(twin, seen->ids, seen->rows, seen->count, &counts, &f)))
        story_fail(s, "no rows for a twin: %s", f.text);
    return twin;
}

void check_twin_rows_close(struct story *s, struct collection *twin)
{
    if (!twin) return;
    store_collection_unlink(s->twins, s->twin_space, twin);
    collection_destroy(twin);
}

/* Notes which version of the embeddings was read, of one instant with the graph's. */
void check_see_embeddings(struct cursor *c, uint64_t version)
{
    struct story_request *r = (struct story_request *)c->r;
    struct story_read *read = &r->reads[0];
    const struct story_read graph = {.resident = r->resident, .seen = r->seen};
    if (!r->embedded && version) WRONG(c->s, r, "it tells of embeddings that it did not ask for");
    if (!r->embedded) return;
    for (const struct story_state *at = read->resident->last; at && !read->seen; at = at->before)
        if (at->version == version && story_read_may_see(r, read, at)) read->seen = at;
    if (!read->seen)
        WRONG(c->s, r, "it read version %llu of embeddings, and may not",
              (unsigned long long)version);
    if (story_reads_are_apart(&graph, read))
        WRONG(c->s, r, "it read versions %llu and %llu, which were never there together",
              (unsigned long long)graph.seen->version, (unsigned long long)version);
}

static void check_spread(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_SpreadReply m = engram_accel_v1_SpreadReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_SpreadReply_fields, &m);
    check_see(c, m.meta.version);
    if (check_seeds(r, story_seen(r))) WRONG(c->s, r, "its seeds are not there, or not in its set");
    check_version(c->s, r, m.meta.version);
    check_see_embeddings(c, m.embeddings_version);
    c->s->by_backend[m.meta.backend % 4]++;
    struct spread_reply got = {.sets = r->set_count, .count = m.ids.rows};
    uint64_t sets = got.sets, n = got.count;
    got.offsets = NEXT(c, &m, offsets, DTYPE_UINT64, sets + 1, 1);
    got.ids = NEXT(c, &m, ids, DTYPE_UINT64, n, 1);
    got.activations = NEXT(c, &m, activations, DTYPE_FLOAT32, n, 1);
    got.confidences = NEXT(c, &m, confidences, DTYPE_FLOAT32, n, 1);
    got.visits = NEXT(c, &m, visits, DTYPE_UINT32, n, 1);
    got.depths = NEXT(c, &m, depths, DTYPE_UINT32, n, 1);
    got.touched = NEXT(c, &m, touched, DTYPE_UINT64, sets, 1);
    got.cycles = NEXT(c, &m, cycles, DTYPE_UINT64, sets, 1);
    got.truncated = NEXT(c, &m, truncated, DTYPE_UINT8, sets, 1);
    got.tier_sums = NEXT(c, &m, tier_sums, DTYPE_FLOAT32, sets, 3);
    if (r->how.paths) {
        got.path_offsets = NEXT(c, &m, path_offsets, DTYPE_UINT64, n + 1, 1);
        got.path_ids = NEXT(c, &m, path_ids, DTYPE_UINT64, got.path_offsets[n], 1);
    }
    struct spread_case asked = {.how = r->how,
                                .k = r->k,
                                .sets = sets,
                                .seed_count = r->id_count,
                                .offsets = r->offsets,
                                .seeds = r->ids,
                                .activations = r->weights};
    uint64_t within[STORY_NODES * 2];
    const struct story_state *seen = story_seen(r);
    for (uint64_t i = 0; i < seen->count; i++)
        if (check_passes(r, seen->ids[i])) within[asked.within_count++] = seen->ids[i];
    if (r->list || r->bitmap) asked.within = within;
    bool armed = fault_armed; /* the daemon is to fail, not the test */
    fault_armed = false;
    struct graph *twin = check_twin_graph(c->s, seen);
    struct collection *rows = r->embedded ? check_twin_rows(c->s, &r->reads[0]) : NULL;
    if (rows) asked.embeddings = collection_now(rows);
    const char *wrong = spread_reply_wrong(twin, &asked, &got);
    if (wrong) WRONG(c->s, r, "%s", wrong);
    asked.embeddings = NULL;
    if (rows) c->s->similar += spread_reply_wrong(twin, &asked, &got) != NULL;
    check_twin_rows_close(c->s, rows);
    check_twin_graph_close(c->s, twin);
    fault_armed = armed;
}

bool story_check_graph(struct story *s, struct story_request *r, const struct story_reply *reply)
{
    void (*check)(struct cursor * c, const struct story_reply *reply) =
        r->name < STORY_GRAPH                         ? NULL
        : r->operation == OPERATION_SPREAD            ? check_spread
        : r->operation == OPERATION_RECALL            ? story_check_recall
        : r->operation == OPERATION_GRAPH_FETCH_NODES ? check_nodes
        : r->operation == OPERATION_GRAPH_ADD_WEIGHTS ? check_weights
        : r->operation == OPERATION_GRAPH_CREATE      ? check_create
        : r->operation == OPERATION_GRAPH_DROP        ? check_drop
                                                      : check_change;
    if (!check) return false;
    struct cursor c = {s, r, reply->body, reply->body + reply->header->body_bytes};
    check(&c, reply);
    check_end(&c);
    return true;
}
