/* spread: whatever runs it, however it is cut, wherever it is ended: the same bits, a clean
 * workspace. */
#include "tests/kernels/spread_cases.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

static void assert_equal(const struct spread_ran *ran, const struct spread_answer *wanted,
                         const struct spread_way *way, const char *what)
{
    const char *differ = spread_answers_differ(&ran->answer, wanted);
    cr_assert(!differ, "%s, %s, hop %d, changing %d, alone %d, threads %u: %s", what,
              way->kernels->name, way->hop, way->changing, way->alone, way->threads,
              differ ? differ : "");
    cr_assert(ran->clean && !ran->no_memory, "%s: the workspace is soiled", what);
}

static void assert_ran(const struct spread_graph *g, const struct spread_question *q,
                       const struct spread_way *way, const struct spread_answer *wanted,
                       const char *what)
{
    struct spread_ran ran = spread_sample_run(g, q, way);
    assert_equal(&ran, wanted, way, what);
    spread_answer_free(&ran.answer);
}

/* ---------------------------------------------------------------- parts and threads */

struct big {
    struct spread_sample sample;
    struct spread_question question;
    struct spread_seed seeds[3];
    float decay[6];
    uint64_t *allowed;
};

/* weighed: with factors. */
static void big_make(struct big *b, enum spread_mode mode, uint32_t nodes, uint64_t edge_count,
                     bool weighed)
{
    uint64_t seed = nodes;
    struct spread_sample_edge *edges = spread_power_edges(nodes, edge_count, 0.6, &seed);
    uint8_t *kinds = calloc(nodes, 1);
    float *factors = calloc(nodes, sizeof *factors);
    for (uint32_t n = 0; n < nodes; n++) {
        kinds[n] = (uint8_t)(n % 3);
        factors[n] = n % 7 ? 0.5f + (float)(n % 5) : 0.0f;
    }
    *b = (struct big){
        .sample =
            spread_sample_of(nodes, edges, edge_count, kinds, weighed ? factors : NULL, false),
        .seeds = {{1, 1.0f}, {nodes / 2, 0.5f}, {nodes - 1, 0.7f}},
        .decay = {0, 0.9f, 0.8f, 0.7f, 0.6f, 0.5f},
        .question = {.mode = mode,
                     .fan = SPREAD_FAN_NONE,
                     .hops = 5,
                     .thresholds = {1e-4f, 1e-4f, 2e-4f},
                     .touched_max = UINT64_MAX,
                     .seed_count = 3},
    };
    b->question.seeds = b->seeds;
    b->question.decay = b->decay;
    free(edges), free(kinds), free(factors);
}

static void big_free(struct big *b)
{
    spread_sample_free(&b->sample);
    free(b->allowed);
}

static void assert_every_way(struct big *b, const char *what)
{
    uint64_t seed = 5, most_parts = 0;
    struct spread_answer wanted = spread_reference(&b->sample.graph, &b->question);
    struct spread_way first = {.kernels = &spread_scalar, .hop = SPREAD_HOP_PUSH, .seed = 1};
    assert_ran(&b->sample.graph, &b->question, &first, &wanted, what);
    spread_answer_free(&wanted);
    b->question.paths = true; /* for the reference they would take too long */
    wanted = spread_sample_run(&b->sample.graph, &b->question, &first).answer;
    cr_assert(wanted.count > b->sample.graph.nodes / 10, "%s: %llu touched", what,
              (unsigned long long)wanted.count);
    for (uint32_t i = 0; i < 32; i++) {
        bool alone = i % 4 == 3;
        struct spread_way way = {.kernels = case_kernels(i % case_variants()),
                                 .threads = alone ? 0 : i % 4 * 2,
                                 .alone = alone,
                                 .hop = (enum spread_hop)(i / 4 % 3),
                                 .changing = i >= 24,
                                 .pulls = UINT64_C(0x2c) >> i % 3,
                                 .seed = i};
        struct spread_ran ran = spread_sample_run(&b->sample.graph, &b->question, &way);
        assert_equal(&ran, &wanted, &way, what);
        if (ran.parts > most_parts) most_parts = ran.parts;
        spread_answer_free(&ran.answer);
        if (i % 6 == 5) spread_sample_shuffle(&b->sample, &seed);
    }
    cr_assert(most_parts > 10, "%s: only %llu parts", what, (unsigned long long)most_parts);
    spread_answer_free(&wanted);
    big_free(b);
}

Test(spread_ways, linear_in_parts, .timeout = 900)
{
    struct big b;
    big_make(&b, SPREAD_LINEAR, 30000, 300000, false);
    assert_every_way(&b, "linear");
}

Test(spread_ways, linear_in_parts_to_the_last_hop, .timeout = 900)
{
    struct big b;
    big_make(&b, SPREAD_LINEAR, 30000, 300000, false);
    b.question.last_hop = true;
    assert_every_way(&b, "last hop");
}

Test(spread_ways, linear_in_parts_with_factors, .timeout = 900)
{
    struct big b;
    big_make(&b, SPREAD_LINEAR, 30000, 300000, true);
    assert_every_way(&b, "factors");
}

Test(spread_ways, linear_in_parts_within_a_set, .timeout = 900)
{
    struct big b;
    uint64_t seed = 12;
    big_make(&b, SPREAD_LINEAR, 30000, 300000, false);
    b.allowed = calloc(30000 / 64 + 1, sizeof *b.allowed);
    for (uint32_t n = 0; n < 30000; n++)
        if (case_chance(&seed, 60)) b.allowed[n / 64] |= 1ull << n % 64;
    for (uint64_t i = 0; i < b.question.seed_count; i++)
        b.allowed[b.seeds[i].node / 64] |= 1ull << b.seeds[i].node % 64;
    b.question.allowed = b.allowed;
    assert_every_way(&b, "within");
}

Test(spread_ways, engram_in_parts, .timeout = 900)
{
    struct big b;
    big_make(&b, SPREAD_ENGRAM, 30000, 300000, false);
    assert_every_way(&b, "engram");
}

/* Every so many edges and nodes a thread gives way, whoever runs what. */
Test(spread_ways, gives_way, .timeout = 900)
{
    enum { NODES = 30000, EDGES = 300000, WINDOWS = NODES / SPREAD_WINDOW };
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        struct big b;
        big_make(&b, (enum spread_mode)mode, NODES, EDGES, false);
        memset(b.question.thresholds, 0, sizeof b.question.thresholds);
        for (uint32_t i = 0; i < 6; i++) {
            struct spread_way way = {.kernels = case_kernels(i % case_variants()),
                                     .threads = i % 3 == 2 ? 2 : 0,
                                     .alone = i % 3 == 1,
                                     .hop = i < 3 ? SPREAD_HOP_PUSH : SPREAD_HOP_PULL,
                                     .seed = i};
            struct spread_ran ran = spread_sample_run(&b.sample.graph, &b.question, &way);
            uint64_t least = mode == SPREAD_ENGRAM || i < 3 ? 100 : 2 * WINDOWS;
            cr_assert(ran.gave_way >= least, "mode %d, way %u: %llu times", mode, i,
                      (unsigned long long)ran.gave_way);
            spread_answer_free(&ran.answer);
        }
        big_free(&b);
    }
}

/* What is cut is the same whoever came first. */
Test(spread_ways, bounds_in_parts, .timeout = 900)
{
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        struct big b;
        big_make(&b, (enum spread_mode)mode, 30000, 300000, false);
        b.question.touched_max = 25000;
        assert_every_way(&b, mode == SPREAD_LINEAR ? "bounded linear" : "bounded engram");
    }
}

/* ---------------------------------------------------------------- hubs */

/* From node 0 to a million, from each of them to node 1, and back from there. */
static struct spread_sample hub_of(uint32_t leaves)
{
    uint64_t seed = 9, count = 0;
    struct spread_sample_edge *edges = calloc(2ul * leaves + 1, sizeof *edges);
    for (uint32_t i = 0; i < leaves; i++) {
        edges[count++] = (struct spread_sample_edge){0, 2 + i, case_weight(&seed, 0)};
        edges[count++] = (struct spread_sample_edge){2 + i, 1, case_weight(&seed, 2)};
    }
    edges[count++] = (struct spread_sample_edge){1, 0, 0.5f};
    struct spread_sample s = spread_sample_of(2 + leaves, edges, count, NULL, NULL, false);
    free(edges);
    return s;
}

Test(spread_ways, a_hub_of_a_million, .timeout = 900)
{
    struct spread_sample s = hub_of(1000000);
    float decay[] = {0, 1, 1, 1, 1};
    struct spread_seed seed = {0, 1.0f};
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        struct spread_question q = {.mode = (enum spread_mode)mode,
                                    .hops = 3,
                                    .decay = decay,
                                    .thresholds = {1e-6f, 1e-6f, 1e-6f},
                                    .touched_max = UINT64_MAX,
                                    .seeds = &seed,
                                    .seed_count = 1};
        struct spread_answer wanted = spread_reference(&s.graph, &q);
        cr_assert_gt(wanted.count, 900000);
        for (uint32_t i = 0; i < 4; i++) {
            struct spread_way way = {.kernels = case_kernels(i % case_variants()),
                                     .threads = i / 2 * 2,
                                     .hop = (enum spread_hop)(1 + i % 2)};
            assert_ran(&s.graph, &q, &way, &wanted, "hub");
        }
        spread_answer_free(&wanted);
    }
    spread_sample_free(&s);
}

/* ---------------------------------------------------------------- ends */

static uint64_t clock_now, clock_step;

static uint64_t made_up_clock(void *owner)
{
    return clock_now += clock_step;
}

/* Ended by the clock after hop d it is what hops = d gives. */
Test(spread_ways, time_ends_it_between_hops)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct spread_case c;
        case_make(&c, seed % 2 ? SPREAD_LINEAR : SPREAD_ENGRAM, 100, seed);
        c.question.touched_max = UINT64_MAX;
        c.question.last_hop = false;
        uint32_t hops = c.question.hops, d = (uint32_t)(seed / 2 % hops);
        struct spread_answer whole = spread_reference(&c.sample.graph, &c.question);
        clock_now = 0, clock_step = 1;
        c.question.deadline_ns = d + 1;
        struct spread_way way = {.kernels = &spread_scalar, .now_ns = made_up_clock};
        struct spread_ran ran = spread_sample_run(&c.sample.graph, &c.question, &way);
        bool cut = ran.answer.truncated;
        cr_assert(cut || d >= whole.hops_done, "seed %llu", (unsigned long long)seed);
        c.question.hops = cut && d > 0 ? d : hops;
        struct spread_answer wanted = spread_reference(&c.sample.graph, &c.question);
        wanted.truncated = cut;
        if (!cut || d > 0) assert_equal(&ran, &wanted, &way, "in time");
        spread_answer_free(&ran.answer), spread_answer_free(&wanted), spread_answer_free(&whole);
        case_free(&c);
    }
}

/* Wherever it is given up, half of a step done: the workspace is clean. */
Test(spread_ways, ends_anywhere)
{
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        struct big b;
        big_make(&b, (enum spread_mode)mode, 9000, 90000, true);
        b.question.paths = true;
        for (uint64_t step = 1;; step++) {
            uint64_t ended = 0;
            for (uint64_t pulls = 0; pulls < 32; pulls++) {
                struct spread_way way = {.kernels = case_kernels(pulls % case_variants()),
                                         .steps_max = step,
                                         .changing = true,
                                         .pulls = pulls << 1,
                                         .seed = pulls};
                struct spread_ran ran = spread_sample_run(&b.sample.graph, &b.question, &way);
                cr_assert(ran.clean, "step %llu, pulls %llx", (unsigned long long)step,
                          (unsigned long long)pulls);
                ended += ran.steps < step;
                spread_answer_free(&ran.answer);
            }
            if (ended == 32) break;
        }
        big_free(&b);
    }
}

Test(spread_ways, cancelled_ends_it)
{
    struct big b;
    _Atomic(bool) cancelled = true;
    big_make(&b, SPREAD_ENGRAM, 3000, 30000, false);
    struct spread_way way = {.kernels = &spread_scalar, .cancelled = &cancelled};
    struct spread_ran ran = spread_sample_run(&b.sample.graph, &b.question, &way);
    cr_assert(ran.steps == 0 && ran.clean);
    spread_answer_free(&ran.answer);
    big_free(&b);
}

static _Atomic(bool) *cancel_now;
static uint64_t cancel_in; /* so many looks at the clock */

static uint64_t cancelling_clock(void *owner)
{
    if (cancel_in-- == 0) atomic_store(cancel_now, true);
    return 0;
}

/* Between any two steps of a run that pulls, pushes and pulls. */
Test(spread_ways, cancelled_in_the_middle)
{
    struct big b;
    big_make(&b, SPREAD_LINEAR, 9000, 90000, false);
    b.question.deadline_ns = UINT64_MAX;
    for (uint64_t looks = 0; looks < 4; looks++) {
        _Atomic(bool) cancelled = false;
        cancel_now = &cancelled, cancel_in = looks;
        struct spread_way way = {.kernels = case_kernels(looks % case_variants()),
                                 .changing = true,
                                 .pulls = 0xa,
                                 .now_ns = cancelling_clock,
                                 .cancelled = &cancelled};
        struct spread_ran ran = spread_sample_run(&b.sample.graph, &b.question, &way);
        cr_assert(cancelled && ran.clean && ran.steps == looks + 2, "%llu looks: %llu steps",
                  (unsigned long long)looks, (unsigned long long)ran.steps);
        spread_answer_free(&ran.answer);
    }
    big_free(&b);
}

/* Whichever piece of memory is not there. */
Test(spread_ways, no_memory_is_no_answer)
{
    struct big b;
    big_make(&b, SPREAD_ENGRAM, 30000, 300000, false);
    struct spread_way way = {.kernels = &spread_scalar};
    struct spread_ran whole = spread_sample_run(&b.sample.graph, &b.question, &way);
    cr_assert(!whole.no_memory && whole.taken_bytes > 0);
    for (uint64_t bytes = 1; bytes < whole.taken_bytes; bytes = bytes * 3 / 2 + 1) {
        way.memory_max = bytes;
        struct spread_ran ran = spread_sample_run(&b.sample.graph, &b.question, &way);
        cr_assert(ran.no_memory && ran.clean, "%llu bytes", (unsigned long long)bytes);
        spread_answer_free(&ran.answer);
    }
    way.memory_max = whole.taken_bytes;
    assert_ran(&b.sample.graph, &b.question, &way, &whole.answer, "just enough");
    spread_answer_free(&whole.answer);
    big_free(&b);
}

/* ---------------------------------------------------------------- small in large */

static uint64_t resident_pages(void *memory, uint64_t bytes)
{
    uint64_t pages = bytes / 4096 + 1, resident = 0;
    unsigned char *seen = calloc(pages, 1);
    cr_assert_eq(mincore(memory, bytes, seen), 0);
    for (uint64_t i = 0; i < pages; i++)
        resident += seen[i] & 1;
    free(seen);
    return resident;
}

/* A few nodes of a million: no more than a few pages for each, and as many for all. */
Test(spread_ways, a_small_run_touches_few_pages, .timeout = 900)
{
    uint64_t seed = 2, bytes = spread_workspace_bytes(1000000);
    struct spread_sample_edge *edges = spread_uniform_edges(1000000, 8000000, &seed);
    struct spread_sample s = spread_sample_of(1000000, edges, 8000000, NULL, NULL, false);
    float decay[] = {0, 0.5f, 0.3f, 0.2f};
    struct spread_seed from = {77, 1.0f};
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        struct spread_question q = {.mode = (enum spread_mode)mode,
                                    .hops = 2,
                                    .decay = decay,
                                    .thresholds = {1e-5f, 1e-5f, 1e-5f},
                                    .touched_max = UINT64_MAX,
                                    .seeds = &from,
                                    .seed_count = 1};
        void *memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(memory, MAP_FAILED);
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        struct spread_run r = {.graph = &s.graph,
                               .question = &q,
                               .kernels = &spread_scalar,
                               .workspace = {memory, 1000000}};
        spread_run_begin(&r);
        spread_run_through(&r);
        uint64_t touched = r.record_count;
        spread_run_end(&r);
        uint64_t pages = resident_pages(memory, bytes);
        cr_assert(touched > 20 && touched < 2000);
        cr_assert(pages < touched + 60, "%llu pages for %llu nodes", (unsigned long long)pages,
                  (unsigned long long)touched);
        munmap(memory, bytes);
    }
    spread_sample_free(&s);
    free(edges);
}
