/* gpu_bits [--small|--tiny]: the GPU's scores, norms, weighted sums and k best against the CPU's,
 * bit for bit. Prints the number that differ; exit 1 unless that is 0. --small is for
 * compute-sanitizer; --tiny for its racecheck, which slows shared memory a thousandfold: every
 * kernel, few launches. */
#include "kernels/canonical.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { QUERIES = 40, SCALAR_QUERIES = 2, K_COUNT = 4 };
enum size { WHOLE, SMALL, TINY };

static const uint32_t dimensions[] = {1, 3, 31, 32, 33, 96, 384, 768, 1000, 1024, 1025, 1536, 4096};
static const uint32_t small_dimensions[] = {33, 384, 1025};
static const uint64_t tile_queries[] = {2, 8, 9, 16, 17, QUERIES};
static const uint32_t ks[K_COUNT] = {1, 10, 1000, 16384};
static const char *const metric_names[] = {"", "cosine", "dot", "euclidean"};

struct tally {
    uint64_t compared, differing;
};

struct data {
    uint32_t dimension;
    size_t count;
    float *rows, *queries, *row_norms, *query_norms;
    float *reference; /* QUERIES x count */
    struct cuda_rows device_rows;
    struct cuda_queries device_queries;
};

static struct tally scores_tally, norms_tally, weighted_tally, topk_tally;

static void compare(struct tally *tally, const char *what, const struct data *d, int metric,
                    const void *expected, const void *got, size_t count)
{
    const uint32_t *a = expected, *b = got;
    uint64_t differing = 0;
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        if (a[i] == b[i]) continue;
        if (differing++ == 0) first = i;
    }
    tally->compared += count;
    tally->differing += differing;
    if (differing)
        printf("DIFFERS %s dimension %u %s: %llu of %zu, first at %zu: %08x, not %08x\n", what,
               d->dimension, metric_names[metric], (unsigned long long)differing, count, first,
               b[first], a[first]);
}

static void *host_allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p) abort();
    return p;
}

static const struct vector_kernels *best_variant(void)
{
    return vectors_choose("auto");
}

static void data_finish(struct data *d)
{
    samples_free(d->rows);
    samples_free(d->queries);
    free(d->row_norms), free(d->query_norms), free(d->reference);
    cudaFree((void *)d->device_rows.rows), cudaFree((void *)d->device_rows.norms);
    cudaFree((void *)d->device_queries.rows), cudaFree((void *)d->device_queries.norms);
}

/* Takes rows and queries; norms are computed on both sides and compared. */
static struct data data_init(uint32_t dimension, size_t count, float *rows, float *queries)
{
    size_t stride = vector_stride(dimension);
    struct data d = {.dimension = dimension, .count = count, .rows = rows, .queries = queries};
    d.row_norms = host_allocate(count * sizeof(float));
    d.query_norms = host_allocate(QUERIES * sizeof(float));
    d.reference = host_allocate(QUERIES * count * sizeof(float));
    best_variant()->norms(dimension, rows, count, d.row_norms);
    best_variant()->norms(dimension, queries, QUERIES, d.query_norms);
    float *row_norms = device_allocate(count * sizeof(float));
    float *query_norms = device_allocate(QUERIES * sizeof(float));
    d.device_rows = (struct cuda_rows){
        dimension, device_copy_of(rows, count * stride * sizeof(float)), row_norms, count};
    d.device_queries = (struct cuda_queries){
        device_copy_of(queries, QUERIES * stride * sizeof(float)), query_norms, QUERIES};
    struct cuda_rows as_rows = {dimension, d.device_queries.rows, NULL, QUERIES};
    DEVICE(cuda_norms(&d.device_rows, row_norms, NULL));
    DEVICE(cuda_norms(&as_rows, query_norms, NULL));
    float *got = host_allocate(count * sizeof(float));
    device_read(got, row_norms, count * sizeof(float));
    compare(&norms_tally, "norms", &d, 0, d.row_norms, got, count);
    device_read(got, query_norms, QUERIES * sizeof(float));
    compare(&norms_tally, "norms", &d, 0, d.query_norms, got, QUERIES);
    free(got);
    return d;
}

static void reference(struct data *d, enum metric metric, const struct vector_kernels *kernels,
                      size_t queries, float *scores)
{
    struct row_block block = {d->rows, d->row_norms, d->count};
    void *packed = host_allocate(kernels->pack_bytes(d->dimension, queries));
    kernels->pack(d->dimension, d->queries, queries, packed);
    struct query_pack pack = {packed, d->query_norms, queries};
    kernels->tile(metric, d->dimension, &pack, block, scores, d->count);
    free(packed);
}

static void check_scan(struct data *d, enum metric metric, float *device, float *got)
{
    const size_t counts[] = {d->count, d->count < 1000 ? d->count / 2 : 1000, 1};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct cuda_rows rows = d->device_rows;
        rows.count = counts[c];
        DEVICE(cudaMemset(device, 0xff, d->count * sizeof(float)));
        DEVICE(cuda_scan(metric, &d->device_queries, &rows, device, NULL));
        device_read(got, device, counts[c] * sizeof(float));
        compare(&scores_tally, "scan", d, metric, d->reference, got, counts[c]);
    }
}

static void check_gather(struct data *d, enum metric metric, float *device, float *got)
{
    size_t count = d->count;
    uint64_t *positions = host_allocate(count * sizeof *positions);
    float *expected = host_allocate(count * sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        positions[i] = i * 7919 % count;
        expected[i] = d->reference[positions[i]];
    }
    uint64_t *device_positions = device_copy_of(positions, count * sizeof *positions);
    for (size_t part = count; part > 0; part = part > 777 ? 777 : 0) {
        DEVICE(cudaMemset(device, 0xff, count * sizeof(float)));
        DEVICE(cuda_gather(metric, &d->device_queries, &d->device_rows, device_positions, part,
                           device, NULL));
        device_read(got, device, part * sizeof(float));
        compare(&scores_tally, "gather", d, metric, expected, got, part);
    }
    cudaFree(device_positions);
    free(positions), free(expected);
}

static void check_scores(struct data *d, enum metric metric, enum size size)
{
    size_t all = QUERIES * d->count;
    float *device = device_allocate(all * sizeof(float)), *got = host_allocate(all * sizeof(float));
    reference(d, metric, best_variant(), QUERIES, d->reference);
    reference(d, metric, vectors_variant(0), SCALAR_QUERIES, got);
    struct tally scalar = {0, 0};
    compare(&scalar, "scalar", d, metric, d->reference, got, SCALAR_QUERIES * d->count);
    scores_tally.differing += scalar.differing;
    for (size_t q = 0; q < sizeof tile_queries / sizeof *tile_queries; q++) {
        if (size == TINY && tile_queries[q] % 8 != 0) continue; /* a shape once */
        struct cuda_queries queries = d->device_queries;
        queries.count = tile_queries[q];
        DEVICE(cudaMemset(device, 0xff, all * sizeof(float)));
        DEVICE(cuda_tile(metric, &queries, &d->device_rows, device, d->count, NULL));
        device_read(got, device, queries.count * d->count * sizeof(float));
        compare(&scores_tally, "tile", d, metric, d->reference, got, queries.count * d->count);
    }
    check_scan(d, metric, device, got);
    check_gather(d, metric, device, got);
    cudaFree(device);
    free(got);
}

static void check_weighted_sum(struct data *d)
{
    enum { COUNT = 100 };
    size_t stride = vector_stride(d->dimension), count = d->count < COUNT ? d->count : COUNT;
    const float *rows[COUNT];
    uint32_t positions[COUNT];
    for (size_t i = 0; i < count; i++) {
        positions[i] = (uint32_t)(i * 31 % d->count);
        rows[i] = d->rows + positions[i] * stride;
    }
    float *expected = host_allocate(stride * sizeof(float));
    float *got = host_allocate(stride * sizeof(float));
    best_variant()->weighted_sum(rows, d->row_norms, count, 0, d->dimension, expected);
    uint32_t *device_positions = device_copy_of(positions, count * sizeof *positions);
    float *sums = device_allocate(stride * sizeof(float));
    DEVICE(cuda_weighted_sum(&d->device_rows, device_positions, d->device_rows.norms, count, sums,
                             NULL));
    device_read(got, sums, d->dimension * sizeof(float));
    compare(&weighted_tally, "weighted_sum", d, 0, expected, got, d->dimension);
    cudaFree(device_positions), cudaFree(sums);
    free(expected), free(got);
}

/* What a top-k request may have beside k. */
struct variant {
    bool ids, allowed, threshold, least_scratch;
    bool own; /* with allowed: each query has its own bitmap, or none */
};

struct best {
    struct topk_entry *sorted;
    size_t count;
};

static uint64_t id_of(bool given, uint64_t row)
{
    return given ? (row * 0x9e3779b97f4a7c15u ^ row >> 7) | 1u << 20 : 1000 + row;
}

enum { FILTERS = 3 };

/* Query q's bitmap. Queries next to each other have others, and some have none. */
static uint32_t filter_of(size_t query)
{
    return query % 5 == 3 ? CUDA_FILTER_NONE : (uint32_t)((query + 2) % FILTERS);
}

static size_t filter_words(const struct data *d)
{
    return d->count / 64 + 2;
}

static bool may_enter(const struct data *d, const struct variant *v, const uint64_t *allowed,
                      size_t query, size_t row)
{
    if (!v->allowed || (v->own && filter_of(query) == CUDA_FILTER_NONE)) return true;
    if (v->own) allowed += filter_of(query) * filter_words(d);
    return allowed[row / 64] >> row % 64 & 1;
}

static struct best best_of(const struct data *d, enum metric metric, size_t query,
                           const struct variant *v, const uint64_t *ids, const uint64_t *allowed,
                           float threshold)
{
    struct best best = {host_allocate(d->count * sizeof(struct topk_entry)), 0};
    bool lower = metric_lower_is_better(metric);
    for (size_t r = 0; r < d->count; r++) {
        float score = d->reference[query * d->count + r];
        if (!may_enter(d, v, allowed, query, r)) continue;
        if (v->threshold && (lower ? score > threshold : score < threshold)) continue;
        best.sorted[best.count++] =
            (struct topk_entry){v->ids ? ids[r] : 1000 + r, topk_key(score, lower), score};
    }
    topk_sort(best.sorted, best.count);
    return best;
}

static void compare_best(const struct data *d, enum metric metric, uint32_t k,
                         const struct best *best, uint32_t count, const uint64_t *ids,
                         const float *scores, size_t queries)
{
    uint32_t expected = best->count < k ? (uint32_t)best->count : k;
    uint64_t differing = count != expected;
    for (uint32_t i = 0; i < expected && i < count; i++)
        differing += ids[i] != best->sorted[i].id ||
                     memcmp(&scores[i], &best->sorted[i].score, sizeof(float)) != 0;
    topk_tally.compared += expected;
    topk_tally.differing += differing;
    if (differing)
        printf("DIFFERS topk dimension %u %s queries %zu k %u rows %zu: %llu, count %u, not %u\n",
               d->dimension, metric_names[metric], queries, k, d->count,
               (unsigned long long)differing, count, expected);
}

static void check_topk(struct data *d, enum metric metric, uint32_t k, size_t queries,
                       struct variant v)
{
    uint64_t *ids = host_allocate(d->count * sizeof *ids);
    size_t words = FILTERS * filter_words(d);
    uint64_t *allowed = host_allocate(words * sizeof *allowed), state = 7;
    uint32_t of[QUERIES];
    for (size_t q = 0; q < QUERIES; q++)
        of[q] = filter_of(q);
    for (size_t r = 0; r < d->count; r++)
        ids[r] = id_of(true, r);
    for (size_t w = 0; w < words; w++)
        allowed[w] = sample_random(&state) & sample_random(&state);
    float threshold = d->reference[d->count / 3];
    struct cuda_queries part = d->device_queries;
    part.count = queries;
    uint64_t scratch_bytes = v.least_scratch ? cuda_topk_scratch_min(queries, k, d->count)
                                             : cuda_topk_scratch_best(queries, k, d->count);
    struct cuda_topk topk = {
        .k = k,
        .ids = v.ids ? device_copy_of(ids, d->count * sizeof *ids) : NULL,
        .first_id = 1000,
        .filter = {.allowed = v.allowed ? device_copy_of(allowed, words * sizeof *allowed) : NULL,
                   .of = v.own ? device_copy_of(of, sizeof of) : NULL,
                   .words = filter_words(d)},
        .threshold = v.threshold ? &threshold : NULL,
        .scratch = device_allocate(scratch_bytes),
        .scratch_bytes = scratch_bytes,
        .out_ids = device_allocate(queries * k * sizeof(uint64_t)),
        .out_scores = device_allocate(queries * k * sizeof(float)),
        .out_counts = device_allocate(queries * sizeof(uint32_t)),
    };
    DEVICE(cuda_topk(metric, &part, &d->device_rows, &topk, NULL));
    uint64_t *got_ids = host_allocate(queries * k * sizeof *got_ids);
    float *got_scores = host_allocate(queries * k * sizeof *got_scores);
    uint32_t *got_counts = host_allocate(queries * sizeof *got_counts);
    device_read(got_ids, topk.out_ids, queries * k * sizeof *got_ids);
    device_read(got_scores, topk.out_scores, queries * k * sizeof *got_scores);
    device_read(got_counts, topk.out_counts, queries * sizeof *got_counts);
    for (size_t q = 0; q < queries; q++) {
        struct best best = best_of(d, metric, q, &v, ids, allowed, threshold);
        compare_best(d, metric, k, &best, got_counts[q], got_ids + q * k, got_scores + q * k,
                     queries);
        free(best.sorted);
    }
    cudaFree((void *)topk.ids), cudaFree((void *)topk.filter.allowed), cudaFree(topk.scratch);
    cudaFree((void *)topk.filter.of), cudaFree(topk.out_ids), cudaFree(topk.out_scores),
        cudaFree(topk.out_counts);
    free(ids), free(allowed), free(got_ids), free(got_scores), free(got_counts);
}

static void check_all_topk(struct data *d, enum metric metric, bool small)
{
    const size_t queries[] = {1, 3, QUERIES};
    for (size_t q = 0; q < 3; q++) {
        for (size_t k = 0; k < K_COUNT; k++) {
            check_topk(d, metric, ks[k], queries[q], (struct variant){.ids = k % 2});
            if (small) continue;
            check_topk(d, metric, ks[k], queries[q], (struct variant){.ids = !(k % 2)});
            check_topk(d, metric, ks[k], queries[q], (struct variant){.threshold = true});
            check_topk(d, metric, ks[k], queries[q], (struct variant){.allowed = true});
            check_topk(d, metric, ks[k], queries[q],
                       (struct variant){.allowed = true, .own = true});
        }
        check_topk(d, metric, 10, queries[q], (struct variant){.allowed = true, .own = true});
        check_topk(d, metric, 10, queries[q],
                   (struct variant){true, true, true, .least_scratch = true});
    }
}

/* Few launches: a span and several, sorted and narrowed, one run of the k best and more. d: 3,000
 * rows, each better than the last. */
static void check_tiny_topk(struct data *d, enum metric metric)
{
    check_topk(d, metric, 10, 1, (struct variant){.ids = true});
    check_topk(d, metric, 10, 3, (struct variant){.ids = true});
    check_topk(d, metric, 10, 12, (struct variant){.allowed = true});
    check_topk(d, metric, 10, 12, (struct variant){.allowed = true, .own = true});
    check_topk(d, metric, 1000, 1, (struct variant){.threshold = true});
    check_topk(d, metric, 1000, 3, (struct variant){.ids = false});
    check_topk(d, metric, 2100, 3, (struct variant){.ids = true});
}

/* Every row is one of seven: ties everywhere. Or each is better than the last. */
static float *odd_rows(uint32_t dimension, size_t count, bool rising)
{
    size_t stride = vector_stride(dimension);
    float *rows = samples_allocate(count * stride);
    uint64_t seed = 3;
    float *few = samples_create(dimension, 7, 0, 5);
    for (size_t r = 0; r < count; r++) {
        size_t kind = sample_random(&seed) % 7;
        for (size_t i = 0; i < stride; i++)
            rows[r * stride + i] =
                rising ? (i < dimension ? (float)(r / 3) : 0.0f) : few[kind * stride + i];
    }
    samples_free(few);
    return rows;
}

static float *ordinary_queries(uint32_t dimension)
{
    size_t stride = vector_stride(dimension);
    float *queries = samples_allocate(QUERIES * stride);
    uint64_t seed = 11;
    for (size_t n = 0; n < QUERIES * stride; n++)
        queries[n] = n % stride < dimension ? 0.75f + sample_uniform(&seed) : 0.0f;
    return queries;
}

static void check_odd(uint32_t dimension, size_t count, bool rising, enum size size)
{
    struct data d = data_init(dimension, count, odd_rows(dimension, count, rising),
                              ordinary_queries(dimension));
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        reference(&d, (enum metric)metric, best_variant(), QUERIES, d.reference);
        if (size == TINY && rising)
            check_tiny_topk(&d, (enum metric)metric);
        else if (size == TINY)
            check_topk(&d, (enum metric)metric, 10, 3,
                       (struct variant){true, true, true, .least_scratch = true});
        else
            check_all_topk(&d, (enum metric)metric, size == SMALL);
    }
    data_finish(&d);
}

/* Rows past 2^31 elements: zeros, and samples at the very end. */
static void check_far(void)
{
    enum { LAST = 1000, DIMENSION = 768 };
    const uint64_t count = 2900000, first = count - LAST;
    size_t row = DIMENSION * sizeof(float);
    struct data d = data_init(DIMENSION, LAST, samples_create(DIMENSION, LAST, 0, 1),
                              ordinary_queries(DIMENSION));
    reference(&d, METRIC_DOT, best_variant(), QUERIES, d.reference);
    char *rows = device_allocate(count * row);
    DEVICE(cudaMemset(rows, 0, first * row));
    DEVICE(cudaMemcpy(rows + first * row, d.rows, LAST * row, cudaMemcpyHostToDevice));
    float *scores = device_allocate(2 * count * sizeof(float)), *got = host_allocate(LAST * 4);
    struct cuda_rows far = {DIMENSION, (float *)rows, NULL, count};
    DEVICE(cuda_scan(METRIC_DOT, &d.device_queries, &far, scores, NULL));
    device_read(got, scores + first, LAST * sizeof(float));
    compare(&scores_tally, "far scan", &d, METRIC_DOT, d.reference, got, LAST);
    d.device_queries.count = 2;
    DEVICE(cuda_tile(METRIC_DOT, &d.device_queries, &far, scores, count, NULL));
    device_read(got, scores + count + first, LAST * sizeof(float));
    compare(&scores_tally, "far tile", &d, METRIC_DOT, d.reference + LAST, got, LAST);
    cudaFree(rows), cudaFree(scores);
    free(got);
    data_finish(&d);
}

static void report(const char *what, const struct tally *tally)
{
    printf("%-14s %12llu compared %8llu differ\n", what, (unsigned long long)tally->compared,
           (unsigned long long)tally->differing);
}

static void check_dimension(uint32_t dimension, size_t rows, uint64_t seed, enum size size)
{
    struct data d = data_init(dimension, rows, samples_create(dimension, rows, seed, 1 + seed),
                              samples_create(dimension, QUERIES, seed + 4, 100 + seed));
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++) {
        check_scores(&d, (enum metric)metric, size);
        if (size == WHOLE && seed % 4 == 1)
            check_topk(&d, (enum metric)metric, 10, QUERIES, (struct variant){.ids = true});
    }
    check_weighted_sum(&d);
    data_finish(&d);
    printf("dimension %u: scores %llu, differ %llu\n", dimension,
           (unsigned long long)scores_tally.compared, (unsigned long long)scores_tally.differing);
    fflush(stdout);
}

static void check_whole(void)
{
    for (size_t n = 0; n < sizeof dimensions / sizeof *dimensions; n++)
        check_dimension(dimensions[n], 20011, n, WHOLE);
    check_odd(33, 30000, false, WHOLE);
    check_odd(3, 60000, true, WHOLE);
    check_odd(1100, 20000, false, SMALL);
    check_far();
}

static void check_small(void)
{
    for (size_t n = 0; n < sizeof small_dimensions / sizeof *small_dimensions; n++)
        check_dimension(small_dimensions[n], 500, n, SMALL);
    check_odd(33, 2300, false, SMALL);
    check_odd(3, 900, true, SMALL);
}

static void check_tiny(void)
{
    check_dimension(33, 16500, 0, TINY); /* 8 threads a row, several tiles a block */
    check_dimension(1025, 200, 1, TINY);
    check_odd(33, 500, false, TINY);
    check_odd(3, 3000, true, TINY);
}

int main(int argc, char **argv)
{
    const char *asked = argc > 1 ? argv[1] : "";
    device_open();
    printf("cpu: %s\n", best_variant()->name);
    if (strcmp(asked, "--tiny") == 0)
        check_tiny();
    else if (strcmp(asked, "--small") == 0)
        check_small();
    else
        check_whole();
    report("norms", &norms_tally);
    report("scores", &scores_tally);
    report("weighted sums", &weighted_tally);
    report("k best", &topk_tally);
    uint64_t differing = norms_tally.differing + scores_tally.differing + weighted_tally.differing +
                         topk_tally.differing;
    printf("bits: %llu differ: %s\n", (unsigned long long)differing, differing ? "FAIL" : "ok");
    return differing != 0;
}
