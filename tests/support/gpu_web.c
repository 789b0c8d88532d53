#include "tests/support/gpu_web.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_of(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t id_of(uint64_t number)
{
    return 7 + 3 * number;
}

/* ---- the graph ---- */

ea_status web_set_nodes(ea_client *c, const char *graph, uint64_t first, uint64_t count)
{
    uint64_t *ids = malloc(count * sizeof *ids), seed = first + 3;
    uint8_t *kinds = malloc(count);
    float *factors = malloc(count * sizeof *factors);
    cr_assert(ids && kinds && factors);
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = id_of(first + i);
        kinds[i] = (uint8_t)(random_of(&seed) % 3);
        factors[i] = random_of(&seed) % 3 ? 1.0f : (float)(random_of(&seed) % 150) / 100.0f;
    }
    ea_status st = ea_graph_set_nodes(
        c, graph, &(ea_graph_nodes){.ids = ids, .kinds = kinds, .factors = factors, .count = count},
        NULL);
    free(ids), free(kinds), free(factors);
    return st;
}

ea_status web_add_edges(ea_client *c, const char *graph, uint64_t seed, uint64_t first,
                        uint64_t count)
{
    uint64_t n = count * WEB_DEGREE, *sources = malloc(n * sizeof *sources);
    uint64_t *targets = malloc(n * sizeof *targets), random = seed * 1000003;
    float *weights = malloc(n * sizeof *weights);
    cr_assert(sources && targets && weights);
    for (uint64_t i = 0; i < n; i++) {
        sources[i] = id_of(first + i / WEB_DEGREE);
        targets[i] = id_of(random_of(&random) % (first + count));
        weights[i] = (float)(random_of(&random) % 1000) / 1000.0f + 0.1f;
    }
    ea_status st = ea_graph_add_edges(
        c, graph,
        &(ea_graph_edges){.sources = sources, .targets = targets, .weights = weights, .count = n},
        NULL);
    free(sources), free(targets), free(weights);
    return st;
}

/* ---- questions ---- */

static uint64_t add(uint64_t digest, const void *bytes, uint64_t count)
{
    const uint8_t *at = bytes;
    for (uint64_t i = 0; at && i < count; i++)
        digest = (digest ^ at[i]) * 1099511628211u;
    return digest;
}

static uint64_t digest_of(const ea_spread_result *r)
{
    uint64_t d = add(14695981039346656037u, &r->sets, sizeof r->sets), n = r->count;
    d = add(d, r->offsets, (r->sets + 1) * sizeof *r->offsets);
    d = add(d, r->ids, n * sizeof *r->ids);
    d = add(d, r->activations, n * sizeof *r->activations);
    d = add(d, r->confidences, n * sizeof *r->confidences);
    d = add(d, r->visits, n * sizeof *r->visits);
    d = add(d, r->depths, n * sizeof *r->depths);
    d = add(d, r->touched, r->sets * sizeof *r->touched);
    d = add(d, r->cycles, r->sets * sizeof *r->cycles);
    d = add(d, r->truncated, r->sets);
    d = add(d, r->tier_sums, r->sets * 3 * sizeof *r->tier_sums);
    if (!r->path_offsets) return d;
    d = add(d, r->path_offsets, (n + 1) * sizeof *r->path_offsets);
    return add(d, r->path_ids, r->path_offsets[n] * sizeof *r->path_ids);
}

enum { SETS_MAX = 40, SEEDS_EACH = 3 };

ea_status web_ask_sets(ea_client *c, const char *graph, const ea_spread_options *how, uint64_t sets,
                       uint64_t nodes, uint64_t number, struct web_answer *out)
{
    uint64_t random = number, count = sets * SEEDS_EACH, *seeds = malloc(count * sizeof *seeds);
    uint64_t *offsets = malloc((sets + 1) * sizeof *offsets);
    float *activations = malloc(count * sizeof *activations);
    cr_assert(seeds && offsets && activations);
    for (uint64_t i = 0; i < count; i++) {
        seeds[i] = id_of(random_of(&random) % nodes);
        activations[i] = (float)(1 + random_of(&random) % 100) / 100.0f;
    }
    for (uint64_t i = 0; i <= sets; i++)
        offsets[i] = i * SEEDS_EACH;
    ea_spread_result r = {0};
    ea_status st = ea_spread(c, graph, how,
                             &(ea_seeds){.offsets = offsets,
                                         .sets = sets,
                                         .ids = seeds,
                                         .activations = activations,
                                         .count = count},
                             &r);
    *out = (struct web_answer){0};
    if (!st)
        *out = (struct web_answer){.digest = digest_of(&r),
                                   .version = r.meta->version,
                                   .entries = r.count,
                                   .backend = r.meta->backend,
                                   .reason = r.meta->reason};
    ea_spread_result_free(&r);
    free(seeds), free(offsets), free(activations);
    return st;
}

ea_status web_ask(ea_client *c, const char *graph, uint64_t number, struct web_answer *out)
{
    static const float low = 0.001f, none = 0.0f;
    uint64_t within_ids[WEB_NODES];
    for (uint64_t i = 0; i < WEB_NODES; i++)
        within_ids[i] = id_of(i);
    ea_filter within = {.ids = within_ids, .id_count = WEB_NODES - 100};
    const ea_spread_options questions[WEB_QUESTIONS] = {
        {.mode = EA_LINEAR, .threshold = &none},
        {.mode = EA_LINEAR, .threshold = &low, .hops = 6, .paths = true},
        {.mode = EA_LINEAR, .hops = 3, .last_hop = true, .decay = EA_DECAY_CONSTANT},
        {.mode = EA_LINEAR, .threshold = &none, .touched_max = 50, .within = &within},
        {.mode = EA_ENGRAM, .threshold = &low, .threshold_warm = &low, .threshold_cold = &low},
        {.mode = EA_ENGRAM, .paths = true, .fan = EA_FAN_SQRT, .k = 10},
        {.mode = EA_ENGRAM,
         .threshold = &none,
         .threshold_warm = &none,
         .threshold_cold = &none,
         .hops = 5,
         .within = &within,
         .ignore_kinds = true},
        {.mode = EA_ENGRAM, .touched_max = 30, .fan = EA_FAN_DIVIDE, .decay = EA_DECAY_POWER},
    };
    uint64_t sets = number % 2 ? 1 + number * 5 % SETS_MAX : 1;
    return web_ask_sets(c, graph, &questions[number % WEB_QUESTIONS], sets, WEB_NODES - 100, number,
                        out);
}
