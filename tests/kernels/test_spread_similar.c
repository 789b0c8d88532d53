/* spread_similar: similarity in the place of weights, against ENGRAM's rule word for word: any
 * graph, any dimension, rows that are missing; every variant, however it is cut. SPREAD_SEED=N
 * begins with another graph. */
#include "tests/kernels/spread_cases.h"
#include "tests/support/spread_rows.h"

#include <criterion/criterion.h>

enum { GRAPHS = 6000, NODES_MAX = 60, WAYS = 6 };

static uint64_t first_seed(void)
{
    const char *text = getenv("SPREAD_SEED");
    return text ? strtoull(text, NULL, 0) : 1;
}

static void assert_same(const struct spread_graph *g, struct spread_question *q,
                        struct spread_rows *rows, const struct spread_answer *wanted,
                        const struct spread_way *way, uint64_t seed)
{
    for (size_t i = 0; vectors_variant(i); i++)
        if (!strcmp(vectors_variant(i)->name, way->kernels->name))
            rows->embeddings.kernels = vectors_variant(i);
    struct spread_ran ran = spread_sample_run(g, q, way);
    const char *differ = spread_answers_differ(&ran.answer, wanted);
    cr_assert(!differ, "seed %llu, %s, alone %d, threads %u: %s", (unsigned long long)seed,
              way->kernels->name, way->alone, way->threads, differ ? differ : "");
    cr_assert(ran.clean && !ran.no_memory, "seed %llu: the workspace is soiled",
              (unsigned long long)seed);
    spread_answer_free(&ran.answer);
}

static struct spread_way way_of(uint64_t i, uint64_t seed)
{
    return (struct spread_way){.kernels = case_kernels(i % case_variants()),
                               .alone = i % WAYS >= 4,
                               .threads = i % WAYS == 3 ? 3 : 0,
                               .seed = seed + i};
}

static bool answers_are_equal(const struct spread_answer *a, const struct spread_answer *b)
{
    return spread_answers_differ(a, b) == NULL;
}

static uint32_t dimension_of(uint64_t *seed)
{
    static const uint32_t some[] = {1, 3, 31, 32, 33, 64, 100, 768, 1024, 1025, 2050};
    return case_chance(seed, 95) ? some[case_below(seed, 11)] : 16384;
}

Test(spread_similar, random_spreads_are_the_rule, .timeout = 900)
{
    uint64_t changed = 0, whole = 0, within = 0, cut = 0;
    for (uint64_t i = 0, seed = first_seed(); i < GRAPHS; i++, seed++) {
        struct spread_case c;
        struct spread_rows rows;
        uint64_t state = seed ^ 0x5eed;
        case_make(&c, SPREAD_ENGRAM, NODES_MAX, seed);
        if (c.question.hops < 2) c.question.hops = 2, c.decay[2] = 0.5f;
        struct spread_answer without = spread_reference(&c.sample.graph, &c.question);
        uint32_t missing = case_chance(&state, 60) ? 0 : case_below(&state, 80);
        spread_rows_make(&rows, &c.sample.graph, dimension_of(&state), missing, seed);
        c.question.embeddings = &rows.embeddings;
        struct spread_answer wanted = spread_reference(&c.sample.graph, &c.question);
        bool differs = !answers_are_equal(&wanted, &without);
        for (uint64_t w = 0; w < WAYS && (differs || i % 8 == 0); w++) {
            struct spread_way way = way_of(i + w, seed);
            assert_same(&c.sample.graph, &c.question, &rows, &wanted, &way, seed);
        }
        changed += differs, whole += differs && !missing;
        within += differs && c.question.allowed, cut += differs && wanted.truncated;
        spread_answer_free(&wanted), spread_answer_free(&without);
        spread_rows_free(&rows);
        case_free(&c);
    }
    cr_assert(changed >= 500 && changed > whole && within > 20 && cut > 20,
              "%llu changed, %llu of them with all rows, %llu within, %llu truncated",
              (unsigned long long)changed, (unsigned long long)whole, (unsigned long long)within,
              (unsigned long long)cut);
}

/* ---------------------------------------------------------------- where it begins */

/* A seed, to a source, to `count` targets, of which each other is the first one again. */
static struct spread_sample fan_of(uint32_t count, bool repeated)
{
    struct spread_sample_edge *edges = calloc(count + 1, sizeof *edges);
    edges[0] = (struct spread_sample_edge){0, 1, 1.0f};
    for (uint32_t i = 0; i < count; i++)
        edges[i + 1] = (struct spread_sample_edge){1, repeated && i % 2 ? 2 : 2 + i, 0.125f};
    struct spread_sample s = spread_sample_of(2 + count, edges, count + 1, NULL, NULL, true);
    free(edges);
    return s;
}

struct fan {
    struct spread_sample sample;
    struct spread_rows rows;
    struct spread_question question;
    struct spread_seed seed;
    float decay[4];
};

static void fan_make(struct fan *f, uint32_t count, bool repeated)
{
    *f = (struct fan){.sample = fan_of(count, repeated), .decay = {0, 1, 1, 1}, .seed = {0, 1.0f}};
    spread_rows_make(&f->rows, &f->sample.graph, 40, 0, count);
    f->question = (struct spread_question){.mode = SPREAD_ENGRAM,
                                           .hops = 2,
                                           .decay = f->decay,
                                           .thresholds = {0.25f, 0, 0},
                                           .touched_max = UINT64_MAX,
                                           .embeddings = &f->rows.embeddings,
                                           .seeds = &f->seed,
                                           .seed_count = 1};
}

static void fan_free(struct fan *f)
{
    spread_rows_free(&f->rows);
    spread_sample_free(&f->sample);
}

/* What node 2 got. */
static float fan_answer(struct fan *f)
{
    const struct spread_way way = {.kernels = &spread_scalar};
    struct spread_ran ran = spread_sample_run(&f->sample.graph, &f->question, &way);
    float got = -1;
    for (uint64_t i = 0; i < ran.answer.count; i++)
        if (ran.answer.records[i].node == 2) got = ran.answer.records[i].activation;
    spread_answer_free(&ran.answer);
    return got;
}

static float similarity_of(struct fan *f, uint32_t from, uint32_t to)
{
    const struct spread_embeddings *e = &f->rows.embeddings;
    uint64_t ids[2] = {from, to};
    const float *rows[2];
    float norms[2], cosine;
    cr_assert(e->find(e->owner, ids, 2, rows, norms));
    vectors_scalar.gather(METRIC_COSINE, e->dimension, rows[0], norms[0], rows + 1, norms + 1, 1,
                          &cosine);
    return 1.0f / (1.0f + canonical_exponential(-((cosine - 0.25f) / 0.5f)));
}

Test(spread_similar, needs_sixteen_edges)
{
    for (uint32_t count = 1; count <= 40; count++) {
        struct fan f;
        fan_make(&f, count, false);
        float wanted = count < 16 ? 0.125f : similarity_of(&f, 1, 2);
        cr_assert_eq(fan_answer(&f), wanted, "%u edges: %a, not %a", count, (double)fan_answer(&f),
                     (double)wanted);
        f.question.hops = 1;
        cr_assert_eq(fan_answer(&f), -1);
        fan_free(&f);
    }
}

/* Edges count, not nodes; each is a contribution of its own. */
Test(spread_similar, duplicates_count)
{
    struct fan f;
    fan_make(&f, 16, true);
    float one = similarity_of(&f, 1, 2), wanted = one;
    for (int more = 1; more < 3; more++)
        wanted = wanted + one < 1.0f ? wanted + one : 1.0f;
    wanted *= 0.93f; /* the third visit is a cycle, and six more are like it */
    for (int more = 3; more < 9; more++)
        wanted = (wanted + one < 1.0f ? wanted + one : 1.0f) * 0.93f;
    cr_assert_eq(fan_answer(&f), wanted, "%a, not %a", (double)fan_answer(&f), (double)wanted);
    fan_free(&f);
}

/* Any one row that is missing leaves the weights as they are: of the source, of any target. */
Test(spread_similar, needs_every_embedding)
{
    struct fan f;
    fan_make(&f, 20, false);
    struct spread_rows all = f.rows;
    for (uint32_t missing = 1; missing < 22; missing++) {
        struct spread_rows most;
        uint64_t wanted = missing;
        struct spread_graph others = f.sample.graph;
        uint64_t *ids = calloc(others.nodes, sizeof *ids);
        memcpy(ids, others.ids, others.nodes * sizeof *ids);
        ids[missing] = 1000 + wanted;
        others.ids = ids;
        spread_rows_make(&most, &others, 40, 0, 20);
        f.question.embeddings = &most.embeddings;
        cr_assert_eq(fan_answer(&f), 0.125f, "without the row of node %u", missing);
        spread_rows_free(&most);
        free(ids);
    }
    f.question.embeddings = &all.embeddings;
    cr_assert_eq(fan_answer(&f), similarity_of(&f, 1, 2));
    fan_free(&f);
}

/* Direction and fan do not count, the source's factor does. */
Test(spread_similar, kinds_do_not_count)
{
    struct fan f;
    uint8_t kinds[22];
    float factors[22];
    fan_make(&f, 20, false);
    memset(kinds, SPREAD_CONCEPT, sizeof kinds);
    for (int i = 0; i < 22; i++)
        factors[i] = i == 1 ? 0.5f : 1.0f;
    float one = similarity_of(&f, 1, 2);
    f.sample.graph.kinds = kinds;
    f.question.thresholds[0] = 0.25f;
    f.seed.activation = 1.0f;
    f.question.fan = SPREAD_FAN_DIVIDE;
    float gain = spread_weight(1.0f, 0.4f, SPREAD_FAN_DIVIDE, SPREAD_CONCEPT, 1, 1.0f);
    cr_assert_eq(fan_answer(&f), spread_contribution(gain, one, 1.0f));
    f.sample.graph.factors = factors;
    cr_assert_eq(fan_answer(&f), spread_contribution(gain, one * 0.5f, 1.0f));
    fan_free(&f);
}

Test(spread_similar, any_threshold_has_a_weight)
{
    cr_assert_eq(spread_similar_weight(1.0f, FLT_MAX, 1.0f), 0.0f);
    cr_assert_eq(spread_similar_weight(0.01f, 0.01f, 1.0f), 0.5f);
    cr_assert_eq(spread_similar_weight(0.5f, 0.0f, 2.0f),
                 2 * (1.0f / (1.0f + canonical_exponential(-1.0f))));
    cr_assert_eq(spread_similar_weight(-1.0f, 0.0f, 65536.0f),
                 65536 * (1.0f / (1.0f + canonical_exponential(2.0f))));
}

/* ---------------------------------------------------------------- parts */

/* A hub that has most of the edges of a level is divided; so is what one thread runs alone. */
Test(spread_similar, a_hub_in_parts, .timeout = 900)
{
    enum { LEAVES = 30000, MORE = 3000 };
    uint64_t seed = 4, count = 0;
    struct spread_sample_edge *edges = calloc(2 * LEAVES + 40 * MORE, sizeof *edges);
    for (uint32_t i = 0; i < MORE; i++)
        edges[count++] = (struct spread_sample_edge){0, 1 + i, 0.9f};
    for (uint32_t i = 0; i < LEAVES; i++)
        edges[count++] = (struct spread_sample_edge){7, 1 + i, 0.5f};
    for (uint32_t i = 1; i <= MORE; i++)
        for (uint32_t e = 0; e < i % 30; e++)
            edges[count++] = (struct spread_sample_edge){i, 1 + case_below(&seed, LEAVES), 0.5f};
    struct spread_sample s = spread_sample_of(1 + LEAVES, edges, count, NULL, NULL, false);
    struct spread_rows rows;
    spread_rows_make(&rows, &s.graph, 70, 0, 5);
    const float decay[] = {0, 1, 0.9f, 0.8f};
    const struct spread_seed from = {0, 1.0f};
    struct spread_question q = {.mode = SPREAD_ENGRAM,
                                .hops = 3,
                                .paths = true,
                                .decay = decay,
                                .thresholds = {0.01f, 0.05f, 0.1f},
                                .touched_max = UINT64_MAX,
                                .embeddings = &rows.embeddings,
                                .seeds = &from,
                                .seed_count = 1};
    struct spread_answer wanted = spread_reference(&s.graph, &q);
    cr_assert_gt(wanted.count, LEAVES / 2);
    for (uint64_t i = 0; i < WAYS * case_variants(); i++) {
        struct spread_way way = way_of(i, 3 * i);
        way.kernels = case_kernels(i / WAYS);
        assert_same(&s.graph, &q, &rows, &wanted, &way, i);
        spread_sample_shuffle(&s, &seed);
    }
    /* ended in any step, half of its parts run */
    bool ended = false;
    for (uint64_t step = 1; !ended; step++) {
        struct spread_way way = {.kernels = &spread_scalar, .steps_max = step, .seed = step};
        struct spread_ran ran = spread_sample_run(&s.graph, &q, &way);
        cr_assert(ran.clean, "step %llu", (unsigned long long)step);
        ended = ran.steps < step;
        spread_answer_free(&ran.answer);
    }
    struct spread_way many = {.kernels = &spread_scalar, .seed = 1};
    struct spread_ran ran = spread_sample_run(&s.graph, &q, &many);
    cr_assert_geq(ran.parts, 10, "%llu parts", (unsigned long long)ran.parts);
    cr_assert_geq(ran.gave_way, LEAVES / SPREAD_SIMILAR_CHUNK);
    spread_answer_free(&ran.answer);
    spread_answer_free(&wanted);
    spread_rows_free(&rows);
    spread_sample_free(&s);
    free(edges);
}
