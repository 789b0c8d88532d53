/* gpu_screen [--small|--tiny]: the tensor cores' screen. Its product is within the bound that
 * kernels/screen.h assumes; and the k best found with it are those found without it, bit for bit,
 * on rows that make it easy, hard or useless. Exit 1 unless both hold. --small is for
 * compute-sanitizer, --tiny for its racecheck: every kernel, few launches. */
#include "kernels/screen.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { QUERIES = 300, PRODUCT_ROWS = 200, PRODUCT_QUERIES = 40 };

/* What rows are like. */
enum kind {
    RANDOM,
    CLUSTERED, /* 50 clusters, noise 10 % */
    NEAR,      /* one cluster, noise one rounding */
    EQUAL,
    EDGE,    /* elements just above and below where TF32 rounds the other way */
    LOSING,  /* small products beside a large sum */
    SAMPLED, /* samples.h, all kinds in turn */
    ZEROS,   /* mostly */
    TINY,
    HUGE_ROWS,
    RISING, /* each row nearer than the last */
    KINDS
};

static const char *const kind_names[] = {"random",  "clustered", "near", "equal", "edge",  "losing",
                                         "sampled", "zeros",     "tiny", "huge",  "rising"};
static const char *const metric_names[] = {"", "cosine", "dot", "euclidean"};

static float edge_element(uint64_t *state, uint32_t row)
{
    static const float around[] = {0x1.002p0f, 0x1.001ffep0f, 0x1.001p0f, 0x1.003p0f, 0x1.ffefp0f};
    uint64_t bits = sample_random(state);
    return around[(row + (bits & 1)) % 5] * (row % 7 == 3 && bits & 2 ? -1.0f : 1.0f);
}

/* Queries are rows of another seed. */
static float element(enum kind kind, uint32_t dimension, uint32_t row, uint32_t i, uint64_t *state)
{
    uint64_t center = (uint64_t)(kind == CLUSTERED ? row % 50 : 0) * 0x10001 + i * 77777u + 5;
    float u = sample_uniform(state);
    switch (kind) {
    case RANDOM: return u;
    case CLUSTERED: return sample_uniform(&center) + 0.1f * u;
    case NEAR: return sample_uniform(&center) * (u > 0.5f ? 1.0f + 0x1p-23f : 1.0f);
    case EQUAL: return sample_uniform(&center);
    case EDGE: return edge_element(state, row);
    case LOSING: return i % 64 == 0 ? 1.0f : (row % 3 ? 0x1.ffcp-13f : -0x1.004p-12f);
    case ZEROS: return row % 5 ? 0.0f : u;
    case TINY: return u * (row % 2 ? 0x1p-50f : 0x1p-68f);
    case HUGE_ROWS: return u * (row % 3 ? 0x1p57f : 0x1p52f);
    case RISING: return 1.0f + (float)row * 0x1p-14f;
    default: return sample_element((enum sample)(row % SAMPLES), dimension, i, state);
    }
}

static float *rows_of(enum kind kind, uint32_t dimension, size_t count, uint64_t seed)
{
    size_t stride = vector_stride(dimension);
    float *rows = samples_allocate(count * stride);
    for (size_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < stride; i++)
            rows[r * stride + i] =
                i < dimension ? element(kind, dimension, (uint32_t)r, i, &seed) : 0.0f;
    return rows;
}

struct scene {
    enum kind kind;
    uint32_t dimension;
    float *host_rows, *host_queries;
    struct cuda_rows rows;
    struct cuda_queries queries;
};

static struct scene scene_create(enum kind kind, uint32_t dimension, size_t rows, size_t queries)
{
    size_t row = vector_stride(dimension) * sizeof(float);
    struct scene s = {.kind = kind, .dimension = dimension};
    s.host_rows = rows_of(kind, dimension, rows, 1);
    s.host_queries = rows_of(kind, dimension, queries, 2);
    float *norms = device_allocate(rows * sizeof(float));
    float *query_norms = device_allocate(queries * sizeof(float));
    s.rows = (struct cuda_rows){dimension, device_copy_of(s.host_rows, rows * row), norms, rows};
    s.queries =
        (struct cuda_queries){device_copy_of(s.host_queries, queries * row), query_norms, queries};
    struct cuda_rows as_rows = {dimension, s.queries.rows, NULL, queries};
    DEVICE(cuda_norms(&s.rows, norms, NULL));
    DEVICE(cuda_norms(&as_rows, query_norms, NULL));
    return s;
}

static void scene_destroy(struct scene *s)
{
    samples_free(s->host_rows), samples_free(s->host_queries);
    cudaFree((void *)s->rows.rows), cudaFree((void *)s->rows.norms);
    cudaFree((void *)s->queries.rows), cudaFree((void *)s->queries.norms);
}

/* ---- the product ---- */

static double rounded_to_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

struct shares {
    double whole, summing; /* of the bound, and of what it allows the sum alone */
    uint64_t above;
};

static void check_pair(const struct scene *s, const struct screen *screen, size_t q, size_t r,
                       float dot, struct shares *most)
{
    size_t stride = vector_stride(s->dimension);
    const float *x = s->host_queries + q * stride, *t = s->host_rows + r * stride;
    long double exact = 0, size = 0, rounded = 0, rounded_size = 0, square_x = 0, square_t = 0;
    for (size_t i = 0; i < stride; i++) {
        long double a = rounded_to_tf32(x[i]), b = rounded_to_tf32(t[i]);
        exact += (long double)x[i] * t[i], size += fabsl((long double)x[i] * t[i]);
        rounded += a * b, rounded_size += fabsl(a * b);
        square_x += (long double)x[i] * x[i], square_t += (long double)t[i] * t[i];
    }
    if (square_x > 0x1p124L || square_t > 0x1p124L) return;
    double lost = (double)stride / SCREEN_TF32_DEPTH * SCREEN_TF32_STEP;
    double error = (double)fabsl(dot - exact), summing = (double)fabsl(dot - rounded);
    double bound = screen->approximate * (double)size + screen->flushed;
    double summing_bound = lost / (1 - lost) * (double)rounded_size + screen->flushed;
    most->above += !(error <= bound) || !(summing <= summing_bound);
    if (error / bound > most->whole) most->whole = error / bound;
    if (summing / summing_bound > most->summing) most->summing = summing / summing_bound;
}

static uint64_t check_product(enum kind kind, uint32_t dimension)
{
    struct scene s = scene_create(kind, dimension, PRODUCT_ROWS, PRODUCT_QUERIES);
    struct screen screen = screen_of_tf32(METRIC_DOT, dimension);
    struct shares most = {0, 0, 0};
    float *dots = device_allocate(PRODUCT_ROWS * PRODUCT_QUERIES * sizeof(float));
    float got[PRODUCT_ROWS * PRODUCT_QUERIES];
    DEVICE(cuda_screen_dots(&s.queries, &s.rows, dots, PRODUCT_ROWS, NULL));
    device_read(got, dots, sizeof got);
    for (size_t n = 0; n < PRODUCT_ROWS * PRODUCT_QUERIES; n++)
        check_pair(&s, &screen, n / PRODUCT_ROWS, n % PRODUCT_ROWS, got[n], &most);
    printf("product %-9s %5u: %5.1f %% of the bound, the sum %5.2f %% of its part%s\n",
           kind_names[kind], dimension, 100 * most.whole, 100 * most.summing,
           most.above ? "  FAIL: above it" : "");
    cudaFree(dots);
    scene_destroy(&s);
    return most.above;
}

/* ---- the k best ---- */

struct question {
    size_t queries;
    uint32_t k;
    enum metric metric;
    bool ids, allowed, threshold, little_scratch;
};

struct answer {
    uint64_t *ids;
    float *scores;
    uint32_t *counts;
    struct cuda_topk_work work;
};

static struct answer ask(const struct scene *s, const struct question *q, struct cuda_topk topk,
                         uint64_t scratch_bytes)
{
    size_t places = q->queries * q->k;
    struct answer a = {malloc(places * 8), malloc(places * 4), malloc(q->queries * 4), {0, 0}};
    if (!a.ids || !a.scores || !a.counts) abort();
    struct cuda_queries queries = s->queries;
    queries.count = q->queries;
    topk.scratch = device_allocate(scratch_bytes);
    topk.scratch_bytes = scratch_bytes;
    topk.out_ids = device_allocate(places * 8);
    topk.out_scores = device_allocate(places * 4);
    topk.out_counts = device_allocate(q->queries * 4);
    topk.work = device_copy_of(&a.work, sizeof a.work);
    DEVICE(cuda_topk(q->metric, &queries, &s->rows, &topk, NULL));
    device_read(a.ids, topk.out_ids, places * 8);
    device_read(a.scores, topk.out_scores, places * 4);
    device_read(a.counts, topk.out_counts, q->queries * 4);
    device_read(&a.work, topk.work, sizeof a.work);
    cudaFree(topk.scratch), cudaFree(topk.out_ids), cudaFree(topk.out_scores);
    cudaFree(topk.out_counts), cudaFree(topk.work);
    return a;
}

static void answer_free(struct answer *a)
{
    free(a->ids), free(a->scores), free(a->counts);
}

static uint64_t differing(const struct question *q, const struct answer *a, const struct answer *b)
{
    uint64_t count = 0;
    for (size_t n = 0; n < q->queries; n++) {
        count += a->counts[n] != b->counts[n];
        for (size_t i = n * q->k; i < n * q->k + a->counts[n] && i < (n + 1) * q->k; i++)
            count += a->ids[i] != b->ids[i] || memcmp(&a->scores[i], &b->scores[i], 4) != 0;
    }
    return count;
}

/* The same question with and without the screen. */
static uint64_t check_best(const struct scene *s, struct question q)
{
    size_t rows = s->rows.count, words = rows / 64 + 1;
    uint64_t *ids = malloc(rows * 8), *allowed = malloc(words * 8), state = 9;
    if (!ids || !allowed) abort();
    for (size_t r = 0; r < rows; r++)
        ids[r] = r * 0x9e3779b97f4a7c15u;
    for (size_t w = 0; w < words; w++)
        allowed[w] = sample_random(&state) & sample_random(&state);
    float threshold = q.metric == METRIC_COSINE ? 0.05f : 1.5f;
    struct cuda_topk topk = {
        .k = q.k,
        .ids = q.ids ? device_copy_of(ids, rows * 8) : NULL,
        .first_id = 1000,
        .filter.allowed = q.allowed ? device_copy_of(allowed, words * 8) : NULL,
        .threshold = q.threshold ? &threshold : NULL,
    };
    uint64_t least = cuda_topk_scratch_min(q.queries, q.k, rows);
    uint64_t enough = q.little_scratch ? least + q.queries * (1100 + 8 * q.k) * 20
                                       : cuda_topk_scratch_best(q.queries, q.k, rows);
    /* Too little for the screen. */
    struct answer exact = ask(s, &q, topk, least + q.queries * 16 * 1000);
    struct answer got = ask(s, &q, topk, enough);
    uint64_t differ = differing(&q, &exact, &got) + (exact.work.passed || exact.work.redone);
    printf("best %-9s %5u %-9s queries %3zu k %4u%s%s%s%s: passed %8.1f a query, redone %4llu%s\n",
           kind_names[s->kind], s->dimension, metric_names[q.metric], q.queries, q.k,
           q.ids ? " ids" : "", q.allowed ? " allowed" : "", q.threshold ? " threshold" : "",
           q.little_scratch ? " little" : "", (double)got.work.passed / (double)q.queries,
           got.work.redone, differ ? "  FAIL: differs" : "");
    fflush(stdout);
    answer_free(&exact), answer_free(&got);
    cudaFree((void *)topk.ids), cudaFree((void *)topk.filter.allowed);
    free(ids), free(allowed);
    return differ;
}

static uint64_t check_kind(enum kind kind, uint32_t dimension, size_t rows, bool small)
{
    const size_t queries[] = {QUERIES, small ? 64 : 16, 128};
    uint64_t differ = 0;
    struct scene s = scene_create(kind, dimension, rows, QUERIES);
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        enum metric m = (enum metric)metric;
        differ +=
            check_best(&s, (struct question){.queries = queries[metric % 3], .k = 10, .metric = m});
        differ += check_best(
            &s, (struct question){.queries = 48, .k = 10, .metric = m, .little_scratch = true});
        if (small) continue;
        differ +=
            check_best(&s, (struct question){.queries = 33, .k = 1000, .metric = m, .ids = true});
        differ +=
            check_best(&s, (struct question){.queries = 129, .k = 1, .metric = m, .allowed = true});
        differ += check_best(
            &s, (struct question){.queries = 20, .k = 10, .metric = m, .threshold = true});
    }
    scene_destroy(&s);
    return differ;
}

/* The products, both shapes of the screen with more than one screened span, lists that overflow,
 * and rows of more than 1,024 dimensions. */
static uint64_t check_tiny(void)
{
    const struct {
        enum kind kind;
        uint32_t dimension;
        size_t rows;
        struct question question;
    } cases[] = {
        {RANDOM, 33, 16500, {.queries = 32, .k = 10, .metric = METRIC_COSINE, .ids = true}},
        {RANDOM,
         33,
         10000,
         {.queries = 64, .k = 10, .metric = METRIC_SQUARED_EUCLIDEAN, .little_scratch = true}},
        {EQUAL, 33, 10000, {.queries = 64, .k = 10, .metric = METRIC_DOT}},
        {RANDOM, 1100, 8200, {.queries = 64, .k = 10, .metric = METRIC_DOT, .allowed = true}},
    };
    uint64_t bad = check_product(RANDOM, 33);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct scene s = scene_create(cases[n].kind, cases[n].dimension, cases[n].rows,
                                      cases[n].question.queries);
        bad += check_best(&s, cases[n].question);
        scene_destroy(&s);
    }
    printf("screen: %llu differ or above the bound: %s\n", (unsigned long long)bad,
           bad ? "FAIL" : "ok");
    return bad;
}

int main(int argc, char **argv)
{
    bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
    const uint32_t dimensions[] = {33, 3, 32, 96, 768, 1536, 16384};
    const uint32_t best_dimensions[] = {33, 96, 768, 1100};
    const size_t kind_step = small ? 3 : 1, rows = small ? 12000 : 50000;
    device_open();
    int major = 0;
    DEVICE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 8) {
        printf("SKIP: no TF32 before compute capability 8.0\n");
        return SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "--tiny") == 0) return check_tiny() != 0;
    uint64_t above = 0, differ = 0;
    for (size_t kind = 0; kind < KINDS; kind += kind_step)
        for (size_t d = 0; d < (small ? 2 : sizeof dimensions / sizeof *dimensions); d++)
            above += check_product((enum kind)kind, dimensions[d]);
    for (size_t kind = 0; kind < KINDS; kind += kind_step)
        for (size_t d = 0; d < (small ? 1 : sizeof best_dimensions / sizeof *best_dimensions); d++)
            differ += check_kind((enum kind)kind, best_dimensions[d], rows, small);
    printf("screen: %llu products above the bound, %llu of the best differ: %s\n",
           (unsigned long long)above, (unsigned long long)differ, above || differ ? "FAIL" : "ok");
    return above || differ;
}
