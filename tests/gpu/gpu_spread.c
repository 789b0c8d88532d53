/* gpu_spread [--quick|--small|--tiny] [SEED]: spreads on the GPU against the CPU, bit for bit:
 * every field of every record, by node; cycles, hops, truncated. Small random graphs against
 * docs/spreading.md word for word (tests/support/spread_reference.h), large ones against the CPU's
 * engine; several sets at once, and again in as many calls as they can be cut into. Prints how much
 * was compared and what differs; exit 1 unless nothing does. --quick: fewer, for half a minute;
 * --small: for compute-sanitizer; --tiny: for its racecheck. */
#include "daemon/base/clock.h"
#include "tests/gpu/device_spread.h"
#include "tests/kernels/spread_cases.h"

enum size { WHOLE, QUICK, SMALL, TINY };
enum { SHOWN = 5 };

struct tally {
    const char *name;
    uint64_t sets, calls, records, differing, truncated, no_memory;
    uint64_t started_ns, gpu_ns;
};

static uint64_t all_differing;
static uint32_t shown;

static void tally_start(struct tally *t, const char *name)
{
    *t = (struct tally){.name = name, .started_ns = clock_now_ns()};
}

static void tally_end(const struct tally *t)
{
    printf("%-22s %7llu sets in %llu calls %10llu records %7llu differ (truncated %llu, without "
           "memory %llu) "
           "%.1f s, GPU %.1f ms\n",
           t->name, (unsigned long long)t->sets, (unsigned long long)t->calls,
           (unsigned long long)t->records, (unsigned long long)t->differing,
           (unsigned long long)t->truncated, (unsigned long long)t->no_memory,
           (double)(clock_now_ns() - t->started_ns) / 1e9, (double)t->gpu_ns / 1e6);
    fflush(stdout);
    all_differing += t->differing;
}

/* How many records differ, of those that either has; and the rest as one. */
static uint64_t records_differ(const struct spread_answer *a, const struct spread_answer *b)
{
    uint64_t i = 0, j = 0, differ = 0;
    while (i < a->count || j < b->count) {
        const uint32_t x = i < a->count ? a->records[i].node : UINT32_MAX;
        const uint32_t y = j < b->count ? b->records[j].node : UINT32_MAX;
        differ += x != y || memcmp(&a->records[i], &b->records[j], sizeof *a->records) != 0;
        i += x <= y, j += y <= x;
    }
    return differ +
           (a->cycles != b->cycles || a->hops_done != b->hops_done || a->truncated != b->truncated);
}

/* ---------------------------------------------------------------- one call */

/* What a call is to be like. */
struct call {
    const struct spread_graph *host, *device;
    struct spread_question question; /* seeds: of all sets */
    const uint64_t *offsets;
    uint32_t sets;
    bool least;    /* no more scratch than it must have */
    bool literal;  /* against the reference, not the engine */
    uint64_t name; /* a seed, or so */
};

static struct spread_answer expected(const struct call *c, uint32_t set)
{
    struct spread_question q = c->question;
    q.seeds += c->offsets[set];
    q.seed_count = c->offsets[set + 1] - c->offsets[set];
    if (c->literal) return spread_reference(c->host, &q);
    size_t best = 0;
    while (case_kernels(best + 1))
        best++;
    const bool large = c->host->nodes >= 50000;
    const struct spread_way way = {
        .kernels = case_kernels(best), .alone = !large, .threads = large ? 8 : 0};
    return spread_sample_run(c->host, &q, &way).answer;
}

static void show(const struct call *c, uint32_t set, const char *what)
{
    const struct spread_question *q = &c->question;
    if (shown++ >= SHOWN) return;
    printf("DIFFERS %llu: mode %d set %u of %u, %u nodes, %llu edges, hops %u, touched_max %llu, "
           "paths %d, last_hop %d, allowed %d, kinds %d, factors %d, fan %d, least %d: "
           "GPU and CPU: %s\n",
           (unsigned long long)c->name, q->mode, set, c->sets, c->host->nodes,
           (unsigned long long)c->host->edges, q->hops, (unsigned long long)q->touched_max,
           q->paths, q->last_hop, q->allowed != NULL, c->host->kinds != NULL,
           c->host->factors != NULL, q->fan, c->least, what);
    fflush(stdout);
}

/* An answer beside the one that is wanted. */
static void compare(struct tally *t, const struct call *c, uint32_t set,
                    const struct spread_answer *wanted, const struct spread_answer *got,
                    const struct cuda_spread_set *outcome)
{
    t->sets++;
    t->truncated += wanted->truncated;
    if (outcome->no_memory == 1 && c->least && c->question.mode == SPREAD_ENGRAM) {
        t->no_memory++;
        return;
    }
    const uint64_t differ = records_differ(got, wanted) + outcome->no_memory + outcome->no_room;
    t->records += wanted->count;
    t->differing += differ;
    if (differ) show(c, set, spread_answers_differ(got, wanted));
}

/* All sets at once, and if there are several, again in passes. */
static void check(struct tally *t, const struct call *c)
{
    const struct spread_question *q = &c->question;
    const uint64_t bytes =
        c->least ? cuda_spread_scratch_min(q->mode, c->host->nodes, c->host->edges, c->sets)
                 : cuda_spread_scratch_best(q->mode, c->host->nodes, c->host->edges, c->sets);
    const uint32_t ways = c->sets > 1 ? 2 : 1;
    struct cuda_spread s = device_spread_of(c->device, q, c->offsets, c->sets, bytes);
    struct spread_answer *got = calloc(ways * c->sets, sizeof *got);
    struct cuda_spread_set *sets = calloc(ways * c->sets, sizeof *sets);
    if (!got || !sets) abort();
    for (uint32_t way = 0; way < ways; way++) {
        DEVICE(cudaDeviceSynchronize());
        const uint64_t start = clock_now_ns();
        t->calls += device_spread_run(&s, way > 0);
        if (!way) t->gpu_ns += clock_now_ns() - start;
        device_spread_answers(&s, got + way * c->sets, sets + way * c->sets);
    }
    device_spread_free(&s);
    for (uint32_t i = 0; i < c->sets; i++) {
        struct spread_answer wanted = expected(c, i);
        for (uint32_t at = i; at < ways * c->sets; at += c->sets) {
            compare(t, c, i, &wanted, &got[at], &sets[at]);
            spread_answer_free(&got[at]);
        }
        spread_answer_free(&wanted);
    }
    free(got), free(sets);
}

/* ---------------------------------------------------------------- small graphs, all options */

/* More seed sets for a case's question. */
static void check_case(struct tally *t, struct spread_case *c, uint64_t seed)
{
    uint64_t random = seed * 31 + 7;
    const uint32_t sets = case_chance(&random, 50) ? 1 : 1 + case_below(&random, 40);
    uint64_t *offsets = calloc(sets + 1, sizeof *offsets);
    struct spread_seed *seeds = NULL;
    for (uint32_t i = 0; i < sets; i++) {
        struct spread_case one = *c;
        one.question.seed_count = 0;
        case_seeds(&one, &random);
        const uint64_t count = one.question.seed_count;
        offsets[i + 1] = offsets[i] + count;
        seeds = realloc(seeds, offsets[i + 1] * sizeof *seeds);
        if (!seeds) abort();
        memcpy(seeds + offsets[i], one.seeds, count * sizeof *seeds);
        for (uint64_t k = 0; c->allowed && k < count; k++)
            c->allowed[one.seeds[k].node / 64] |= 1ull << one.seeds[k].node % 64;
        free(one.seeds);
    }
    const struct spread_graph device = device_graph_of(&c->sample.graph);
    struct call call = {.host = &c->sample.graph,
                        .device = &device,
                        .question = c->question,
                        .offsets = offsets,
                        .sets = sets,
                        .least = case_chance(&random, 40),
                        .literal = c->sample.graph.nodes < 200,
                        .name = seed};
    call.question.seeds = seeds;
    check(t, &call);
    device_graph_free(&device);
    free(offsets), free(seeds);
}

static void check_cases(const char *name, enum spread_mode mode, uint32_t nodes_max, uint64_t first,
                        uint64_t count)
{
    struct tally t;
    tally_start(&t, name);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct spread_case c;
        case_make(&c, mode, nodes_max, seed);
        check_case(&t, &c, seed);
        case_free(&c);
    }
    tally_end(&t);
}

/* ---------------------------------------------------------------- large graphs */

/* So many nodes, edges by law, and `hubs` nodes that most of the nodes point to, and that point to
 * most: one edge each. */
static struct spread_sample large_sample(uint32_t nodes, uint64_t count, bool power, uint32_t hubs,
                                         uint64_t seed)
{
    struct spread_sample_edge *edges = power ? spread_power_edges(nodes, count, 0.7, &seed)
                                             : spread_uniform_edges(nodes, count, &seed);
    uint8_t *kinds = calloc(nodes, 1);
    float *factors = calloc(nodes, sizeof *factors);
    if (!kinds || !factors) abort();
    for (uint64_t h = 0, at = 0; h < hubs; h++)
        for (uint32_t n = 0; n < nodes && at < count; n++, at++) {
            if (h % 2 == 0)
                edges[at].target = (uint32_t)(h * 77777 % nodes), edges[at].source = n;
            else
                edges[at].source = (uint32_t)(h * 77777 % nodes), edges[at].target = n;
        }
    for (uint32_t n = 0; n < nodes; n++) {
        kinds[n] = (uint8_t)case_below(&seed, 3);
        factors[n] = fabsf(sample_uniform(&seed)) * 2;
    }
    struct spread_sample s = spread_sample_of(nodes, edges, count, kinds, factors, false);
    free(edges), free(kinds), free(factors);
    return s;
}

/* Seeds in rising order, spread over the nodes; of the next set a little further. */
static struct spread_seed *large_seeds(uint32_t nodes, uint32_t sets, uint64_t each,
                                       uint64_t *offsets, uint64_t seed)
{
    struct spread_seed *seeds = calloc(sets * each, sizeof *seeds);
    if (!seeds) abort();
    offsets[0] = 0;
    for (uint32_t i = 0; i < sets; i++) {
        const uint64_t gap = nodes / each, first = gap > 1 ? case_below(&seed, (uint32_t)gap) : 0;
        for (uint64_t k = 0; k < each; k++)
            seeds[i * each + k] = (struct spread_seed){
                (uint32_t)(first + k * gap), 0x1p-20f + 0.999f * fabsf(sample_uniform(&seed))};
        offsets[i + 1] = (i + 1) * each;
    }
    return seeds;
}

/* What a large question is like, beside its defaults. */
struct large {
    enum spread_mode mode;
    uint32_t sets, hops;
    uint64_t seeds; /* of each set */
    uint64_t touched_max;
    float threshold;
    bool last_hop, paths, allowed, least;
};

static void check_large(struct tally *t, const struct spread_graph *host,
                        const struct spread_graph *device, struct large l, uint64_t name)
{
    float decay[SPREAD_HOPS_MAX + 1];
    uint64_t *offsets = calloc(l.sets + 1, sizeof *offsets), random = name;
    uint64_t *allowed = calloc((size_t)host->nodes / 64 + 1, sizeof *allowed);
    if (!offsets || !allowed) abort();
    struct spread_seed *seeds = large_seeds(host->nodes, l.sets, l.seeds, offsets, name);
    for (uint32_t d = 0; d <= l.hops; d++)
        decay[d] = (float)exp(-0.3 * d);
    for (uint32_t n = 0; n < host->nodes; n++)
        if (case_chance(&random, 60)) allowed[n / 64] |= 1ull << n % 64;
    for (uint64_t k = 0; k < offsets[l.sets]; k++)
        allowed[seeds[k].node / 64] |= 1ull << seeds[k].node % 64;
    struct call call = {.host = host,
                        .device = device,
                        .question = {.mode = l.mode,
                                     .fan = (enum spread_fan)(name % 3),
                                     .last_hop = l.last_hop,
                                     .paths = l.paths,
                                     .hops = l.hops,
                                     .decay = decay,
                                     .thresholds = {l.threshold, l.threshold * 5, l.threshold * 10},
                                     .allowed = l.allowed ? allowed : NULL,
                                     .touched_max = l.touched_max ? l.touched_max : UINT64_MAX,
                                     .seeds = seeds},
                        .offsets = offsets,
                        .sets = l.sets,
                        .least = l.least,
                        .name = name};
    check(t, &call);
    free(offsets), free(allowed), free(seeds);
}

static void check_graph(const char *name, struct spread_sample sample, bool quick)
{
    struct tally t;
    tally_start(&t, name);
    const struct spread_graph device = device_graph_of(&sample.graph);
    const uint32_t n = sample.graph.nodes;
    const struct large questions[] = {
        {SPREAD_LINEAR, 1, 4, 10, 0, .threshold = 1e-6f, .paths = true},
        {SPREAD_ENGRAM, 1, 4, 10, 0, .threshold = 0.0001f, .paths = true},
        {SPREAD_LINEAR, 1, 3, n, 0, .threshold = 0, .paths = true},
        {SPREAD_LINEAR, 1, 5, 1, 0, .threshold = 0.01f, .last_hop = true},
        {SPREAD_ENGRAM, 1, 3, n / 50 + 1, 0, .threshold = 0.01f},
        {SPREAD_LINEAR, 1, 6, 10, n / 7, .threshold = 0, .allowed = true},
        {SPREAD_ENGRAM, 1, 5, 10, n / 7, .threshold = 0, .allowed = true, .paths = true},
        {SPREAD_LINEAR, 9, 3, 10, 0, .threshold = 0.001f, .paths = true},
        {SPREAD_ENGRAM, 9, 3, 10, 0, .threshold = 0.01f},
        {SPREAD_LINEAR, 3, 6, n / 3, 0, .threshold = 0, .last_hop = true, .least = true},
        {SPREAD_ENGRAM, 2, 3, n / 9 + 1, 0, .threshold = 0.05f, .least = true},
        {SPREAD_LINEAR, 1, 2, n, n / 2, .threshold = 0},
    };
    const size_t count = sizeof questions / sizeof *questions;
    for (size_t i = 0; i < (quick ? count / 2 : count); i++)
        check_large(&t, &sample.graph, &device, questions[i], 100 + i);
    device_graph_free(&device);
    spread_sample_free(&sample);
    tally_end(&t);
}

/* Many sets: some for a block, some for the grid. */
static void check_many(uint32_t sets)
{
    struct tally t;
    tally_start(&t, "many sets");
    struct spread_sample sample = large_sample(100000, 800000, false, 0, 5);
    const struct spread_graph device = device_graph_of(&sample.graph);
    check_large(&t, &sample.graph, &device,
                (struct large){SPREAD_LINEAR, sets, 3, 5, 0, .threshold = 1e-6f}, 1);
    check_large(&t, &sample.graph, &device,
                (struct large){SPREAD_ENGRAM, sets, 4, 5, 0, .threshold = 0.01f}, 2);
    check_large(&t, &sample.graph, &device,
                (struct large){SPREAD_LINEAR, sets / 4, 5, 5, 5000, .threshold = 0, .paths = true,
                               .least = true},
                3);
    check_large(&t, &sample.graph, &device,
                (struct large){SPREAD_ENGRAM, sets / 4, 6, 50, 0, .threshold = 0, .least = true},
                4);
    device_graph_free(&device);
    spread_sample_free(&sample);
    tally_end(&t);
}

/* ---------------------------------------------------------------- what has no answer of the CPU */

static void expect(struct tally *t, bool right, const char *what)
{
    t->sets++;
    t->differing += !right;
    if (!right) printf("DIFFERS %s\n", what);
}

/* No time: the seeds alone. Too many seeds for the scratch: that set alone has no answer. */
static void check_ends(void)
{
    struct tally t;
    tally_start(&t, "time, memory");
    struct spread_sample sample = large_sample(3000, 3000, false, 0, 6);
    const struct spread_graph device = device_graph_of(&sample.graph);
    enum { TOO_MANY = 20000 };
    float decay[5] = {1, 1, 1, 1, 1};
    struct spread_seed *seeds = calloc(TOO_MANY + 2, sizeof *seeds);
    if (!seeds) abort();
    for (uint32_t i = 0; i < TOO_MANY + 2; i++)
        seeds[i] = (struct spread_seed){i % 7, 0.5f};
    const uint64_t offsets[] = {0, 1, TOO_MANY + 1, TOO_MANY + 2};
    struct spread_question q = {
        .hops = 4, .decay = decay, .touched_max = UINT64_MAX, .seeds = seeds};
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++) {
        q.mode = (enum spread_mode)mode;
        const uint32_t sets = mode == SPREAD_LINEAR ? 1 : 3;
        const uint64_t bytes = cuda_spread_scratch_min(q.mode, 3000, 3000, sets);
        struct cuda_spread s = device_spread_of(&device, &q, offsets, sets, bytes);
        struct spread_answer got[3];
        struct cuda_spread_set outcomes[3];
        s.time_ns = mode == SPREAD_LINEAR ? 1 : 0;
        DEVICE(cuda_spread(&s, NULL));
        device_spread_answers(&s, got, outcomes);
        if (mode == SPREAD_LINEAR)
            expect(&t, got[0].truncated && got[0].count == 1 && got[0].hops_done == 0,
                   "time is up after the seeds");
        else
            expect(&t,
                   outcomes[1].no_memory == 1 && outcomes[0].no_memory == 0 &&
                       outcomes[2].no_memory == 0 && got[0].count > 0 && got[2].count > 0,
                   "one set without memory");
        for (uint32_t i = 0; i < sets; i++)
            spread_answer_free(&got[i]);
        device_spread_free(&s);
    }
    free(seeds);
    device_graph_free(&device);
    spread_sample_free(&sample);
    tally_end(&t);
}

/* Too little room for all sets' records: each has all of its own, or none and says so, and that
 * only where what is left is too little for it. */
static void check_room_once(struct tally *t, const struct call *c, bool half)
{
    const struct spread_question *q = &c->question;
    const uint64_t nodes = c->host->nodes;
    struct spread_answer *wanted = calloc(c->sets, sizeof *wanted);
    struct spread_answer *got = calloc(c->sets, sizeof *got);
    struct cuda_spread_set *sets = calloc(c->sets, sizeof *sets);
    if (!wanted || !got || !sets) abort();
    uint64_t all = 0, given = 0;
    for (uint32_t i = 0; i < c->sets; i++) {
        wanted[i] = expected(c, i);
        all += wanted[i].count;
    }
    struct cuda_spread s = device_spread_of(
        c->device, q, c->offsets, c->sets,
        cuda_spread_scratch_best(q->mode, c->host->nodes, c->host->edges, c->sets));
    s.record_room = nodes < q->touched_max ? nodes : q->touched_max;
    if (s.record_room < (half ? all / 2 : all)) s.record_room = half ? all / 2 : all;
    t->calls += device_spread_run(&s, c->name % 3 == 1);
    device_spread_answers(&s, got, sets);
    for (uint32_t i = 0; i < c->sets; i++)
        given += sets[i].record_count;
    for (uint32_t i = 0; i < c->sets; i++) {
        const bool none = sets[i].no_room && !got[i].count;
        uint64_t differ = sets[i].no_memory;
        differ +=
            none ? wanted[i].count <= s.record_room - given : records_differ(&got[i], &wanted[i]);
        t->sets++;
        t->records += got[i].count;
        t->differing += differ;
        if (differ) show(c, i, "room for records");
        spread_answer_free(&wanted[i]);
        spread_answer_free(&got[i]);
    }
    expect(t, (given == all) == (s.record_room >= all), "all are there if, and only if, all fit");
    device_spread_free(&s);
    free(wanted), free(got), free(sets);
}

static void check_room(void)
{
    enum { NODES = 20000, SETS = 300, SEEDS = 5, GAP = NODES / SEEDS };
    struct tally t;
    tally_start(&t, "room for records");
    struct spread_sample sample = large_sample(NODES, 6 * NODES, true, 2, 7);
    const struct spread_graph device = device_graph_of(&sample.graph);
    float decay[5] = {1, 0.9f, 0.8f, 0.7f, 0.6f};
    uint64_t offsets[SETS + 1], random = 11;
    struct spread_seed seeds[SETS * SEEDS];
    for (uint32_t set = 0; set <= SETS; set++)
        offsets[set] = set * SEEDS;
    for (uint32_t i = 0; i < SETS * SEEDS; i++) /* rising in a set */
        seeds[i] = (struct spread_seed){i % SEEDS * GAP + case_below(&random, GAP), 0.7f};
    for (uint32_t n = 0; n < 12; n++) {
        struct call c = {.host = &sample.graph,
                         .device = &device,
                         .question = {.mode = n % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR,
                                      .hops = 1 + n / 2 % 4,
                                      .decay = decay,
                                      .thresholds = {0.01f, 0.05f, 0.1f},
                                      .paths = n % 3 == 0,
                                      .last_hop = n == 4 || n == 10,
                                      .touched_max = n == 6 || n == 7 ? 300 : UINT64_MAX,
                                      .seeds = seeds},
                         .offsets = offsets,
                         .sets = SETS,
                         .name = 9000 + n};
        if (c.question.last_hop) c.question.paths = false;
        check_room_once(&t, &c, n % 4 < 2);
    }
    device_graph_free(&device);
    spread_sample_free(&sample);
    tally_end(&t);
}

int main(int argc, char **argv)
{
    enum size size = WHOLE;
    uint64_t first = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            size = QUICK;
        else if (strcmp(argv[i], "--small") == 0)
            size = SMALL;
        else if (strcmp(argv[i], "--tiny") == 0)
            size = TINY;
        else
            first = strtoull(argv[i], NULL, 0);
    }
    device_open();
    const uint64_t cases = size == WHOLE ? 1000 : size == QUICK ? 200 : size == SMALL ? 40 : 10;
    check_cases("linear, small", SPREAD_LINEAR, 120, first, cases);
    check_cases("engram, small", SPREAD_ENGRAM, 120, first, cases);
    check_cases("linear, middling", SPREAD_LINEAR, 5000, first, cases / 10);
    check_cases("engram, middling", SPREAD_ENGRAM, 5000, first, cases / 10);
    check_ends();
    check_room();
    if (size == SMALL || size == TINY) {
        check_graph("uniform 2,000", large_sample(2000, 40000, false, 4, 1), size == TINY);
    } else {
        check_graph("power 50,000", large_sample(50000, 600000, true, 2, 2), false);
        check_many(size == QUICK ? 64 : 256);
        check_graph("uniform 1,000,000", large_sample(1000000, 8000000, false, 0, 3),
                    size == QUICK);
        check_graph("power 1,000,000", large_sample(1000000, 10000000, true, 4, 4), size == QUICK);
    }
    printf("spread: %llu differ: %s\n", (unsigned long long)all_differing,
           all_differing ? "FAIL" : "ok");
    return all_differing != 0;
}
