/* spread_pull: the sums over in-lists that each variant gives, and how often it gives way. */
#include "tests/kernels/spread_cases.h"

#include <criterion/criterion.h>

/* In-lists of every length up to past where kernels change their ways, twice, and a few long ones;
 * weights cancel but for a small rest, so that a bit lost anywhere in a sum shows in the rest. */
static struct spread_sample lists_of_every_length(uint32_t law, uint64_t *seed)
{
    enum { NODES = 300, LENGTHS = 140 };
    struct spread_sample_edge *edges = calloc(2 * NODES * NODES, sizeof *edges);
    uint64_t count = 0;
    for (uint32_t n = 0; n < NODES; n++) {
        uint32_t length = n < 2 * LENGTHS ? n % LENGTHS : 150 + case_below(seed, 400);
        if (length % 2)
            edges[count++] = (struct spread_sample_edge){case_below(seed, NODES), n,
                                                         case_weight(seed, law) * 0x1p-45f};
        for (uint32_t e = 0; e < length / 2; e++) {
            uint32_t source = case_below(seed, NODES);
            float weight = case_weight(seed, law);
            edges[count++] = (struct spread_sample_edge){source, n, weight};
            edges[count++] = (struct spread_sample_edge){source, n, -weight};
        }
    }
    struct spread_sample s = spread_sample_of(NODES, edges, count, NULL, NULL, true);
    spread_sample_shuffle(&s, seed);
    free(edges);
    return s;
}

Test(spread_pull, kernels_pull_the_same_sums)
{
    uint64_t seed = 17;
    cr_assert_eq(spread_kernels_for("neon"), &spread_scalar);
    for (uint32_t round = 0; round < 60; round++) {
        struct spread_sample s = lists_of_every_length(round % 6, &seed);
        uint32_t nodes = s.graph.nodes, count = round < 30 ? nodes : 1 + case_below(&seed, nodes);
        float *sent = calloc(nodes, sizeof *sent), *received = calloc(nodes, sizeof *sent),
              *wanted = calloc(nodes, sizeof *sent);
        for (uint32_t n = 0; n < nodes; n++)
            sent[n] = case_chance(&seed, 30) ? 0.0f : fabsf(sample_uniform(&seed));
        for (uint32_t n = nodes; round % 2 && n > 1; n--) {
            uint32_t other = case_below(&seed, n), kept = s.order[n - 1];
            s.order[n - 1] = s.order[other], s.order[other] = kept;
        }
        for (size_t k = 0; k < case_variants(); k++) {
            for (uint32_t n = 0; n < nodes; n++)
                received[n] = -1.0f;
            const struct spread_run run = {.graph = &s.graph};
            case_kernels(k)->pull(&run, s.order, count, sent, 0.7f, k ? received : wanted);
            if (k == 0) continue;
            for (uint32_t i = 0; i < nodes; i++) {
                uint32_t n = s.order[i];
                float expected = i < count ? wanted[n] : -1.0f;
                cr_assert_eq(memcmp(&received[n], &expected, sizeof expected), 0,
                             "%s, round %u, node %u: %a, not %a", case_kernels(k)->name, round, n,
                             (double)received[n], (double)expected);
            }
        }
        free(sent), free(received), free(wanted);
        spread_sample_free(&s);
    }
}

struct ways {
    uint64_t given;
};

static void give_way(void *owner)
{
    ((struct ways *)owner)->given++;
}

/* However many edges end at a node, a thread gives way at least every SPREAD_PULL_WAY of them; and
 * the sum is that of all of them. */
Test(spread_pull, long_lists_are_pulled_in_pieces)
{
    enum { NODES = 40, HUB = 300001, OTHERS = 30 };
    uint64_t seed = 23, count = 0;
    struct spread_sample_edge *edges = calloc(HUB + NODES * OTHERS, sizeof *edges);
    float weight = 0;
    for (uint32_t e = 0; e < HUB; e++) {
        weight = e % 2 ? -weight : case_weight(&seed, 0);
        edges[count++] = (struct spread_sample_edge){case_below(&seed, NODES), 7, weight};
    }
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t e = 0; e < OTHERS; e++)
            edges[count++] = (struct spread_sample_edge){case_below(&seed, NODES), n, 0.01f};
    struct spread_sample s = spread_sample_of(NODES, edges, count, NULL, NULL, true);
    float sent[NODES], wanted[NODES], received[NODES];
    for (uint32_t n = 0; n < NODES; n++)
        sent[n] = fabsf(sample_uniform(&seed));
    struct spread_sum sum = {0, 0};
    for (uint64_t e = 0; e < count; e++)
        if (edges[e].target == 7)
            spread_add(&sum, s.graph.grid, sent[edges[e].source], edges[e].weight);
    for (size_t k = 0; k < case_variants(); k++) {
        struct ways ways = {0};
        const struct spread_run run = {.graph = &s.graph, .give_way = give_way, .way_owner = &ways};
        case_kernels(k)->pull(&run, s.order, NODES, sent, 0.7f, k ? received : wanted);
        cr_assert_geq(ways.given, HUB / SPREAD_PULL_WAY, "%s", case_kernels(k)->name);
        if (k)
            cr_assert_eq(memcmp(received, wanted, sizeof wanted), 0, "%s", case_kernels(k)->name);
    }
    float expected = spread_received(sum, 0.7f);
    cr_assert_eq(memcmp(&wanted[7], &expected, sizeof expected), 0);
    spread_sample_free(&s);
    free(edges);
}
