#include "tests/support/spread_job.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

uint32_t spread_job_draw(struct spread_scene *b, uint32_t below)
{
    b->seed = b->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((b->seed >> 33) % below);
}

static float draw_weight(struct spread_scene *b)
{
    return (float)(spread_job_draw(b, 2000) + 1) / 2000.0f;
}

/* Random edges, kinds and factors; weights may be negative in mode linear's graphs. */
struct spread_scene spread_job_open(uint32_t nodes, uint64_t edges, bool negative, uint64_t seed)
{
    struct spread_scene b = {.nodes = nodes, .seed = seed};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &b.heap), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_space(b.store, "test", &b.space), STATUS_OK);
    cr_assert_eq(store_graph_create(b.store, b.space, "g", NULL, &b.graph), STATUS_OK);
    b.ids = malloc(nodes * sizeof *b.ids);
    uint8_t *kinds = malloc(nodes);
    float *factors = malloc(nodes * sizeof *factors);
    for (uint32_t i = 0; i < nodes; i++) {
        b.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
        kinds[i] = (uint8_t)spread_job_draw(&b, 3);
        factors[i] = spread_job_draw(&b, 4) ? 1.0f : draw_weight(&b) * 2;
    }
    struct graph_counts counts;
    struct failure f;
    cr_assert_eq(graph_set_nodes(b.graph, b.ids, kinds, factors, nodes, &counts, &f), STATUS_OK);
    uint64_t *sources = malloc((edges + 1) * sizeof *sources);
    uint64_t *targets = malloc((edges + 1) * sizeof *targets);
    float *weights = malloc((edges + 1) * sizeof *weights);
    for (uint64_t i = 0; i < edges; i++) {
        sources[i] = b.ids[spread_job_draw(&b, nodes)];
        targets[i] = b.ids[spread_job_draw(&b, spread_job_draw(&b, 4) ? nodes : nodes / 8 + 1)];
        weights[i] = negative && !spread_job_draw(&b, 5) ? -draw_weight(&b) : draw_weight(&b);
    }
    cr_assert_eq(graph_add_edges(b.graph, sources, targets, weights, edges, false, &counts, &f),
                 STATUS_OK);
    free(sources);
    free(targets);
    free(weights);
    free(kinds);
    free(factors);
    return b;
}

void spread_job_embed(struct spread_scene *b, uint32_t dimension, uint32_t missing)
{
    struct failure f;
    struct upsert_counts counts;
    float *row = malloc(dimension * sizeof *row);
    cr_assert_eq(store_collection_create(b->store, b->space, "vectors", dimension, METRIC_DOT, &f,
                                         &b->embeddings),
                 STATUS_OK);
    for (uint32_t n = 0; n < b->nodes; n++) {
        if (spread_job_draw(b, 1000) < missing) continue;
        float lean = (float)spread_job_draw(b, 5) - 2;
        for (uint32_t i = 0; i < dimension; i++)
            row[i] = draw_weight(b) - 0.5f + lean * 0.2f;
        cr_assert_eq(collection_upsert(b->embeddings, &b->ids[n], row, 1, &counts, &f), STATUS_OK);
    }
    free(row);
}

void spread_job_close(struct spread_scene *b)
{
    store_destroy(b->store);
    cr_assert_eq(heap_usage(b->heap).blocks, 0);
    heap_destroy(b->heap);
    free(b->ids);
}

/* ---------------------------------------------------------------- questions */

void spread_job_ask(struct spread_asked *a, enum spread_mode mode, uint32_t hops)
{
    memset(a, 0, sizeof *a);
    a->c = (struct spread_case){.offsets = a->offsets, .seeds = a->seeds, .sets = 1};
    a->c.how = (struct job_spread){.mode = mode,
                                   .hops = hops,
                                   .decay = DECAY_EXPONENTIAL,
                                   .decay_parameter = 0.7f,
                                   .thresholds = {0.01f, 0.05f, 0.1f}};
}

void spread_job_ask_randomly(struct spread_scene *b, struct spread_asked *a, enum spread_mode mode)
{
    spread_job_ask(a, mode, 1 + spread_job_draw(b, 5));
    struct job_spread *how = &a->c.how;
    how->decay = 1 + spread_job_draw(b, 5);
    how->paths = spread_job_draw(b, 2);
    how->last_hop = mode == SPREAD_LINEAR && !how->paths && !spread_job_draw(b, 3);
    how->fan = mode == SPREAD_ENGRAM ? spread_job_draw(b, 3) : 0;
    how->ignore_kinds = mode == SPREAD_ENGRAM && spread_job_draw(b, 2);
    how->touched_max = spread_job_draw(b, 3) ? 0 : 1 + spread_job_draw(b, b->nodes);
    for (int t = 0; t < 3; t++)
        how->thresholds[t] = spread_job_draw(b, 4) ? draw_weight(b) * 0.1f : 0;
    for (uint32_t d = 0; d < how->hops; d++)
        a->table[d] = draw_weight(b);
    a->c.table = a->table;
    a->c.k = spread_job_draw(b, 2) ? 0 : 1 + spread_job_draw(b, 40);
    a->c.sets = 1 + spread_job_draw(b, spread_job_draw(b, 2) ? 3 : SPREAD_JOB_SETS);
    for (uint64_t s = 0; s < a->c.sets; s++)
        a->offsets[s + 1] = a->offsets[s] + spread_job_draw(b, 9);
    a->c.seed_count = a->offsets[a->c.sets];
    bool bounded = !spread_job_draw(b, 3);
    for (uint64_t i = 0; i < a->c.seed_count; i++) {
        a->seeds[i] = b->ids[spread_job_draw(b, spread_job_draw(b, 2) ? 5 : b->nodes)];
        a->activations[i] = draw_weight(b) * 1.2f;
        a->within[i] = a->seeds[i];
    }
    if (spread_job_draw(b, 2)) a->c.activations = a->activations;
    if (!bounded || !a->c.seed_count) return;
    a->c.within = a->within;
    for (a->c.within_count = a->c.seed_count; a->c.within_count < SPREAD_JOB_SEEDS;
         a->c.within_count++)
        a->within[a->c.within_count] = b->ids[spread_job_draw(b, b->nodes)];
}

struct tensor spread_job_numbers(const uint64_t *data, uint64_t rows)
{
    return (struct tensor){DTYPE_UINT64, rows, 1, (void *)data};
}

static struct tensor floats(const float *data, uint64_t rows)
{
    return (struct tensor){DTYPE_FLOAT32, rows, 1, (void *)data};
}

struct job spread_job_of(struct spread_scene *b, const struct spread_case *c)
{
    struct job j = {.operation = OPERATION_SPREAD,
                    .space = b->space,
                    .resident = graph_resident(b->graph),
                    .graph = graph_now(b->graph),
                    .heap = b->heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = 3,
                    .reply_bytes_max = UINT64_C(1) << 27};
    if (c->embeddings)
        j.objects[1] = (struct job_object){
            .resident = b->embeddings ? collection_resident(b->embeddings) : NULL,
            .collection = c->embeddings};
    j.request.spread = c->how;
    j.request.k = c->k;
    j.request.ids = spread_job_numbers(c->seeds, c->seed_count);
    if (c->offsets) j.request.offsets = spread_job_numbers(c->offsets, c->sets + 1);
    if (c->activations) j.request.weights = floats(c->activations, c->seed_count);
    if (c->how.decay == DECAY_TABLE) j.request.table = floats(c->table, c->how.hops);
    if (c->within) j.request.filter_ids = spread_job_numbers(c->within, c->within_count);
    return j;
}

struct spread_reply spread_job_reply(const struct job *j)
{
    const struct tensor *t = j->result.tensors;
    return (struct spread_reply){.sets = t[0].rows - 1,
                                 .count = t[1].rows,
                                 .offsets = t[0].data,
                                 .ids = t[1].data,
                                 .activations = t[2].data,
                                 .confidences = t[3].data,
                                 .visits = t[4].data,
                                 .depths = t[5].data,
                                 .touched = t[6].data,
                                 .cycles = t[7].data,
                                 .truncated = t[8].data,
                                 .tier_sums = t[9].data,
                                 .path_offsets = t[10].data,
                                 .path_ids = t[11].data};
}
