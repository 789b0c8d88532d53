/* gpu_similar [--small | --tiny] [SEED]: spreads with embeddings on the GPU, bit for bit: small
 * random graphs against the rule word for word (tests/support/spread_reference.h), a graph with
 * hubs against the CPU's engine; many seed sets at once, rows that are missing, dimensions on both
 * sides of where sums are compensated. Prints how much was compared and what differs; exit 1 unless
 * nothing does. --small, --tiny: for compute-sanitizer. */
#include "tests/gpu/device_spread.h"
#include "tests/kernels/spread_cases.h"
#include "tests/support/spread_rows.h"

enum { SETS = 24, SHOWN = 5 };

static uint64_t compared, differing, changed;

/* The call's embeddings and their tables. */
static void give_rows(struct cuda_spread *s, const struct spread_rows *r)
{
    const size_t stride = vector_stride(r->embeddings.dimension), count = r->count;
    s->embeddings = (struct cuda_embeddings){
        .rows = device_copy_of(r->rows, count * stride * sizeof *r->rows),
        .norms = device_copy_of(r->norms, count * sizeof *r->norms),
        .ids = device_copy_of(r->ids, count * sizeof *r->ids),
        .count = count,
        .dimension = r->embeddings.dimension,
        .tables = device_allocate(cuda_embeddings_bytes(count, s->graph.nodes))};
}

static void free_rows(const struct cuda_spread *s)
{
    cudaFree((void *)s->embeddings.rows), cudaFree((void *)s->embeddings.norms);
    cudaFree((void *)s->embeddings.ids), cudaFree(s->embeddings.tables);
}

static struct spread_answer expected(const struct spread_graph *g, struct spread_question q,
                                     const uint64_t *offsets, uint32_t set, bool literal)
{
    q.seeds += offsets[set];
    q.seed_count = offsets[set + 1] - offsets[set];
    if (literal) return spread_reference(g, &q);
    const struct spread_way way = {.kernels = &spread_scalar, .threads = 8};
    return spread_sample_run(g, &q, &way).answer;
}

/* q: with the seeds of all sets, and embeddings, which are those of rows. */
static void check(const struct spread_graph *g, const struct spread_question *q,
                  const uint64_t *offsets, uint32_t sets, const struct spread_rows *rows,
                  bool literal, uint64_t name)
{
    const struct spread_graph device = device_graph_of(g);
    struct cuda_spread s = device_spread_of(
        &device, q, offsets, sets, cuda_spread_scratch_best(q->mode, g->nodes, g->edges, sets));
    struct spread_answer *got = calloc(sets, sizeof *got);
    struct cuda_spread_set *done = calloc(sets, sizeof *done);
    if (!got || !done) abort();
    give_rows(&s, rows);
    device_spread_run(&s, name % 2 && sets > 1);
    device_spread_answers(&s, got, done);
    for (uint32_t i = 0; i < sets; i++) {
        struct spread_question plain = *q;
        plain.embeddings = NULL;
        struct spread_answer wanted = expected(g, *q, offsets, i, literal);
        struct spread_answer without = expected(g, plain, offsets, i, literal);
        const char *wrong = spread_answers_differ(&got[i], &wanted);
        compared += wanted.count;
        differing += wrong || done[i].no_memory || done[i].no_room;
        if (wrong && differing <= SHOWN)
            printf("DIFFERS %llu: set %u of %u, %u rows of %u for %u nodes: GPU and CPU: %s\n",
                   (unsigned long long)name, i, sets, rows->count, rows->embeddings.dimension,
                   g->nodes, wrong);
        changed += spread_answers_differ(&without, &wanted) != NULL;
        spread_answer_free(&wanted), spread_answer_free(&without), spread_answer_free(&got[i]);
    }
    free_rows(&s);
    device_spread_free(&s);
    device_graph_free(&device);
    free(got), free(done);
}

static void check_case(uint64_t seed, uint32_t nodes_max)
{
    static const uint32_t dimensions[] = {1, 31, 33, 64, 768, 1024, 1025, 2050};
    struct spread_case c;
    struct spread_rows rows;
    uint64_t random = seed ^ 0x51717;
    case_make(&c, SPREAD_ENGRAM, nodes_max, seed);
    if (c.question.hops < 2) c.question.hops = 2, c.decay[2] = 0.5f;
    const uint32_t missing = case_chance(&random, 60) ? 0 : case_below(&random, 80);
    spread_rows_make(&rows, &c.sample.graph, dimensions[case_below(&random, 8)], missing, seed);
    c.question.embeddings = &rows.embeddings;
    const uint64_t one[] = {0, c.question.seed_count};
    if (rows.count) check(&c.sample.graph, &c.question, one, 1, &rows, true, seed);
    /* the same seeds, each a set */
    uint64_t offsets[SETS + 1] = {0};
    uint32_t sets = 0;
    while (sets < SETS && sets < c.question.seed_count)
        sets++, offsets[sets] = sets;
    if (rows.count) check(&c.sample.graph, &c.question, offsets, sets, &rows, true, seed);
    spread_rows_free(&rows);
    case_free(&c);
}

/* Many nodes, of which some have a large share of the edges. */
static void check_hubs(uint32_t nodes, uint64_t count, uint32_t dimension, uint32_t missing)
{
    uint64_t seed = nodes;
    struct spread_sample_edge *edges = spread_power_edges(nodes, count, 0.7, &seed);
    struct spread_sample s = spread_sample_of(nodes, edges, count, NULL, NULL, false);
    struct spread_rows rows;
    const float decay[] = {0, 0.9f, 0.8f, 0.7f, 0.6f};
    struct spread_seed seeds[SETS];
    uint64_t offsets[SETS + 1] = {0};
    spread_rows_make(&rows, &s.graph, dimension, missing, 3);
    for (uint32_t i = 0; i < SETS; i++) {
        seeds[i] = (struct spread_seed){case_below(&seed, nodes), 1.0f};
        offsets[i + 1] = i + 1;
    }
    struct spread_question q = {.mode = SPREAD_ENGRAM,
                                .hops = 4,
                                .paths = true,
                                .decay = decay,
                                .thresholds = {0.01f, 0.05f, 0.1f},
                                .touched_max = UINT64_MAX,
                                .embeddings = &rows.embeddings,
                                .seeds = seeds};
    check(&s.graph, &q, offsets, SETS, &rows, false, nodes);
    const uint64_t whole[] = {0, SETS};
    check(&s.graph, &q, whole, 1, &rows, false, nodes + 1);
    spread_rows_free(&rows);
    spread_sample_free(&s);
    free(edges);
}

int main(int argc, char **argv)
{
    bool small = false, tiny = false;
    uint64_t first = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            small = true;
        else if (strcmp(argv[i], "--tiny") == 0)
            small = tiny = true;
        else
            first = strtoull(argv[i], NULL, 0);
    }
    device_open();
    for (uint64_t seed = first; seed < first + (tiny ? 5 : small ? 30 : 1500); seed++)
        check_case(seed, 60);
    if (tiny) {
        check_hubs(100, 1000, 33, 0);
    } else if (small) {
        check_hubs(500, 20000, 100, 0);
    } else {
        check_hubs(20000, 800000, 768, 0);
        check_hubs(20000, 800000, 768, 1);
        check_hubs(100000, 1000000, 384, 0);
    }
    printf("similar: %llu records, similarity counts in %llu sets, %llu sets differ: %s\n",
           (unsigned long long)compared, (unsigned long long)changed, (unsigned long long)differing,
           differing || !changed ? "FAIL" : "ok");
    return differing || !changed;
}
