/* spread: random graphs and questions, against docs/spreading.md word for word. SPREAD_SEED=N
 * begins with another graph. */
#include "tests/kernels/spread_cases.h"

#include <criterion/criterion.h>

enum { GRAPHS = 2000, NODES_MAX = 120 };

static uint64_t first_seed(void)
{
    const char *text = getenv("SPREAD_SEED");
    return text ? strtoull(text, NULL, 0) : 1;
}

/* Every way to run leaves the same as the reference. */
static void assert_same(const struct spread_case *c, const struct spread_answer *wanted,
                        const struct spread_way *way, uint64_t seed)
{
    struct spread_ran ran = spread_sample_run(&c->sample.graph, &c->question, way);
    const char *differ = spread_answers_differ(&ran.answer, wanted);
    cr_assert(!differ, "seed %llu, %s, hop %d, changing %d: %llx, alone %d, threads %u: %s",
              (unsigned long long)seed, way->kernels->name, way->hop, way->changing,
              (unsigned long long)way->pulls, way->alone, way->threads, differ ? differ : "");
    cr_assert(ran.clean && !ran.no_memory, "seed %llu: the workspace is soiled",
              (unsigned long long)seed);
    spread_answer_free(&ran.answer);
}

static struct spread_way way_of(uint64_t i, uint64_t seed)
{
    return (struct spread_way){.kernels = case_kernels(i % case_variants()),
                               .alone = i / 3 % 2,
                               .hop = (enum spread_hop)(i / 2 % 3),
                               .seed = seed + i};
}

Test(spread, engram_is_the_rule, .timeout = 900)
{
    uint64_t cycles = 0, truncated = 0, deep = 0;
    for (uint64_t i = 0, seed = first_seed(); i < GRAPHS; i++, seed++) {
        struct spread_case c;
        case_make(&c, SPREAD_ENGRAM, NODES_MAX, seed);
        struct spread_answer wanted = spread_reference(&c.sample.graph, &c.question);
        struct spread_way way = way_of(i, seed);
        assert_same(&c, &wanted, &way, seed);
        cycles += wanted.cycles > 0, truncated += wanted.truncated, deep += wanted.hops_done > 4;
        spread_answer_free(&wanted);
        case_free(&c);
    }
    cr_assert(cycles > GRAPHS / 4 && truncated > GRAPHS / 20 && deep > GRAPHS / 20,
              "%llu with cycles, %llu truncated, %llu deep", (unsigned long long)cycles,
              (unsigned long long)truncated, (unsigned long long)deep);
}

Test(spread, linear_is_the_rule, .timeout = 900)
{
    uint64_t truncated = 0, deep = 0;
    for (uint64_t i = 0, seed = first_seed(); i < GRAPHS; i++, seed++) {
        struct spread_case c;
        case_make(&c, SPREAD_LINEAR, NODES_MAX, seed);
        struct spread_answer wanted = spread_reference(&c.sample.graph, &c.question);
        cr_assert_leq(wanted.excess_max, 1e-12, "seed %llu: off by %g", (unsigned long long)seed,
                      wanted.excess_max);
        for (uint64_t w = 0; w < 3; w++) {
            struct spread_way way = way_of(i + w * 5, seed);
            way.hop = (enum spread_hop)w;
            assert_same(&c, &wanted, &way, seed);
        }
        truncated += wanted.truncated, deep += wanted.hops_done > 4;
        spread_answer_free(&wanted);
        case_free(&c);
    }
    cr_assert(truncated > GRAPHS / 20 && deep > GRAPHS / 20, "%llu truncated, %llu deep",
              (unsigned long long)truncated, (unsigned long long)deep);
}

/* Hops that pull among hops that push, in any order: what is kept by number is kept for good. */
Test(spread, linear_changes_its_ways, .timeout = 900)
{
    uint64_t both = 0, last = 0, within = 0, weighed = 0, truncated = 0;
    for (uint64_t i = 0, seed = first_seed(); i < GRAPHS; i++, seed++) {
        struct spread_case c;
        uint64_t state = seed;
        case_make(&c, SPREAD_LINEAR, NODES_MAX, seed);
        struct spread_answer wanted = spread_reference(&c.sample.graph, &c.question);
        for (uint64_t w = 0; w < 4; w++) {
            struct spread_way way = way_of(i + w * 5, seed);
            way.changing = true;
            way.pulls = w == 0 ? 0x5555555555555554 : sample_random(&state);
            assert_same(&c, &wanted, &way, seed);
        }
        both += wanted.hops_done > 3, truncated += wanted.truncated;
        last += wanted.hops_done > 3 && c.question.last_hop;
        within += wanted.hops_done > 3 && c.question.allowed;
        weighed += wanted.hops_done > 3 && c.sample.graph.factors;
        spread_answer_free(&wanted);
        case_free(&c);
    }
    cr_assert(both > GRAPHS / 5 && last > GRAPHS / 30 && within > GRAPHS / 30 &&
                  weighed > GRAPHS / 20 && truncated > GRAPHS / 20,
              "%llu of several hops: %llu last, %llu within, %llu weighed; %llu truncated",
              (unsigned long long)both, (unsigned long long)last, (unsigned long long)within,
              (unsigned long long)weighed, (unsigned long long)truncated);
}

/* With weights of one size and a threshold, what the grid loses is far below float's own
 * rounding. */
Test(spread, linear_sums_are_exact_enough)
{
    uint64_t seed = 3;
    for (int round = 0; round < 20; round++) {
        struct spread_sample_edge *edges = spread_power_edges(2000, 20000, 0.5, &seed);
        struct spread_sample s = spread_sample_of(2000, edges, 20000, NULL, NULL, false);
        float decay[] = {0, 0.5f, 0.25f, 0.12f, 0.06f};
        struct spread_seed seeds[] = {{5, 1.0f}, {77, 0.3f}};
        struct spread_question q = {.mode = SPREAD_LINEAR,
                                    .hops = 4,
                                    .decay = decay,
                                    .thresholds = {1e-3f},
                                    .touched_max = UINT64_MAX,
                                    .seeds = seeds,
                                    .seed_count = 2};
        struct spread_answer a = spread_reference(&s.graph, &q);
        cr_assert(a.count > 100 && a.error_max <= 1e-6 / 1e6, "off by %g", a.error_max);
        spread_answer_free(&a);
        spread_sample_free(&s);
        free(edges);
    }
}
