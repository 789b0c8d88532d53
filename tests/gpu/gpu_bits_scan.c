/* gpu_bits_scan [--small|--tiny]: one query's k best in one launch, lists of many queries and
 * weighted averages, against the CPU's bits: rows in orders that are hard to select from, filters,
 * any scratch. Prints the number that differ; exit 1 unless that is 0. --small is for
 * compute-sanitizer, --tiny for its racecheck: every kernel, few launches. */
#include "kernels/canonical.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { QUERIES = 24, GUARD = 4096, SPARSE = 997 };

enum order { ORDER_SAMPLES, ORDER_UNIFORM, ORDER_TIES, ORDER_RISING, ORDER_EQUAL, ORDERS };
enum filter { FILTER_NONE, FILTER_HALF, FILTER_FEW, FILTER_NOTHING, FILTER_RUNS, FILTERS };

static const uint32_t ks[] = {1, 2, 10, 16, 17, 31, 64, 65, 100, 127, 128, 129};
static const char *const metric_names[] = {"", "cosine", "dot", "euclidean"};
static const char *const order_names[] = {"samples", "uniform", "ties", "rising", "equal"};

struct tally {
    uint64_t compared, differing;
};
static struct tally topk_tally, lists_tally, weighted_tally;

struct data {
    uint32_t dimension;
    size_t count;
    enum order order;
    float *rows, *queries, *row_norms, *query_norms, *scores;
    struct cuda_rows device_rows;
    struct cuda_queries device_queries;
};

/* What a case asks for beside rows, metric and k. */
struct variant {
    enum filter filter;
    bool ids, threshold, least_scratch;
    unsigned char garbage;
};

/* Device memory that all cases share. */
static struct {
    char *scratch;
    uint64_t scratch_bytes;
    uint64_t *ids, *out_ids, *allowed;
    float *out_scores;
    uint32_t *out_counts;
    unsigned blocks; /* of a full launch for k > 64 */
} device;

static void *host_allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p) abort();
    return p;
}

static const struct vector_kernels *cpu(void)
{
    return vectors_choose("auto");
}

static float *rows_create(uint32_t dimension, size_t count, enum order order)
{
    if (order == ORDER_SAMPLES) return samples_create(dimension, count, 0, 77);
    size_t stride = vector_stride(dimension);
    float *rows = samples_allocate(count * stride);
    float *few = samples_create(dimension, 7, 0, 5);
    uint64_t seed = 3;
    for (size_t r = 0; r < count; r++) {
        size_t kind = order == ORDER_TIES ? sample_random(&seed) % 7 : 1;
        for (size_t i = 0; i < stride; i++) {
            float value = few[kind * stride + i];
            if (order == ORDER_RISING) value = i == 0 ? 1.0f + (float)(r / 3) : 0.5f;
            if (order == ORDER_UNIFORM) value = sample_uniform(&seed);
            rows[r * stride + i] = i < dimension ? value : 0.0f;
        }
    }
    samples_free(few);
    return rows;
}

static struct data data_init(uint32_t dimension, size_t count, enum order order)
{
    size_t stride = vector_stride(dimension);
    struct data d = {.dimension = dimension, .count = count, .order = order};
    uint64_t seed = 11;
    d.rows = rows_create(dimension, count, order);
    d.queries = samples_allocate(QUERIES * stride);
    for (size_t n = 0; n < QUERIES * stride; n++)
        d.queries[n] = n % stride < dimension ? 0.75f + sample_uniform(&seed) : 0.0f;
    d.row_norms = host_allocate(count * sizeof(float));
    d.query_norms = host_allocate(QUERIES * sizeof(float));
    d.scores = host_allocate(count * sizeof(float));
    cpu()->norms(dimension, d.rows, count, d.row_norms);
    cpu()->norms(dimension, d.queries, QUERIES, d.query_norms);
    d.device_rows =
        (struct cuda_rows){dimension, device_copy_of(d.rows, count * stride * sizeof(float)),
                           device_copy_of(d.row_norms, count * sizeof(float)), count};
    d.device_queries =
        (struct cuda_queries){device_copy_of(d.queries, QUERIES * stride * sizeof(float)),
                              device_copy_of(d.query_norms, QUERIES * sizeof(float)), QUERIES};
    return d;
}

static void data_finish(struct data *d)
{
    samples_free(d->rows);
    samples_free(d->queries);
    free(d->row_norms), free(d->query_norms), free(d->scores);
    cudaFree((void *)d->device_rows.rows), cudaFree((void *)d->device_rows.norms);
    cudaFree((void *)d->device_queries.rows), cudaFree((void *)d->device_queries.norms);
}

static void reference(const struct data *d, enum metric metric, size_t query, float *scores)
{
    struct row_block block = {d->rows, d->row_norms, d->count};
    cpu()->scan(metric, d->dimension, d->queries + query * vector_stride(d->dimension),
                d->query_norms[query], block, scores);
}

/* ------------------------------------------------------------------ the k best of one query */

static uint64_t id_of(uint64_t row)
{
    return (row * 0x9e3779b97f4a7c15u ^ row >> 7) | 1u << 20;
}

static uint64_t *filter_create(const struct data *d, enum filter filter)
{
    size_t words = d->count / 64 + 1;
    uint64_t *allowed = host_allocate(words * sizeof *allowed), state = 7;
    for (size_t w = 0; w < words; w++)
        allowed[w] = filter == FILTER_HALF ? sample_random(&state) : 0;
    for (size_t r = 0; r < d->count; r++) {
        /* Runs: only some blocks have any row, and their lists fall to the same threads. */
        size_t run = r / 64 % device.blocks;
        bool open = filter == FILTER_FEW ? r % SPARSE == 5
                                         : filter == FILTER_RUNS && run % 4 == 0 && run < 32;
        if (open) allowed[r / 64] |= 1ull << r % 64;
    }
    return allowed;
}

static size_t best_create(const struct data *d, bool lower, const struct variant *v,
                          const uint64_t *allowed, float threshold, struct topk_entry **out)
{
    struct topk_entry *best = host_allocate(d->count * sizeof *best);
    size_t count = 0;
    for (size_t r = 0; r < d->count; r++) {
        float score = d->scores[r];
        if (v->filter && !(allowed[r / 64] >> r % 64 & 1)) continue;
        if (v->threshold && (lower ? score > threshold : score < threshold)) continue;
        best[count++] =
            (struct topk_entry){v->ids ? id_of(r) : 1000 + r, topk_key(score, lower), score};
    }
    topk_sort(best, count);
    *out = best;
    return count;
}

static void compare_best(const struct data *d, enum metric metric, uint32_t k,
                         const struct topk_entry *best, size_t count, const char *how)
{
    uint64_t ids[256];
    float scores[256];
    uint32_t got = 0, expected = count < k ? (uint32_t)count : k;
    device_read(ids, device.out_ids, k * sizeof *ids);
    device_read(scores, device.out_scores, k * sizeof *scores);
    device_read(&got, device.out_counts, sizeof got);
    uint64_t differing = got != expected;
    for (uint32_t i = 0; i < expected; i++)
        differing += ids[i] != best[i].id || memcmp(&scores[i], &best[i].score, sizeof(float)) != 0;
    topk_tally.compared += expected + 1;
    topk_tally.differing += differing;
    if (differing && topk_tally.differing < 10000)
        printf("DIFFERS topk %s dimension %u %s rows %zu %s k %u: %llu, count %u, not %u\n", how,
               d->dimension, metric_names[metric], d->count, order_names[d->order], k,
               (unsigned long long)differing, got, expected);
    DEVICE(cudaMemset(device.out_ids, 0xff, k * sizeof *ids));
    DEVICE(cudaMemset(device.out_scores, 0xff, k * sizeof *scores));
    DEVICE(cudaMemset(device.out_counts, 0xff, sizeof got));
}

static struct cuda_topk question(const struct data *d, uint32_t k, const struct variant *v,
                                 const float *threshold)
{
    return (struct cuda_topk){
        .k = k,
        .ids = v->ids ? device.ids : NULL,
        .first_id = 1000,
        .filter.allowed = v->filter ? device.allowed : NULL,
        .threshold = v->threshold ? threshold : NULL,
        .scratch = device.scratch,
        .scratch_bytes = v->least_scratch ? cuda_topk_scratch_min(1, k, d->count)
                                          : cuda_topk_scratch_best(1, k, d->count),
        .out_ids = device.out_ids,
        .out_scores = device.out_scores,
        .out_counts = device.out_counts,
    };
}

/* Twice on the same scratch, and nothing past it is touched. */
static void check_k(const struct data *d, enum metric metric, uint32_t k, const struct variant *v,
                    float threshold, const struct topk_entry *best, size_t count)
{
    char guard[GUARD];
    struct cuda_queries query = d->device_queries;
    query.count = 1;
    struct cuda_topk topk = question(d, k, v, &threshold);
    if (topk.scratch_bytes + GUARD > device.scratch_bytes) abort();
    DEVICE(cudaMemset(device.scratch, v->garbage, topk.scratch_bytes + GUARD));
    DEVICE(cuda_topk(metric, &query, &d->device_rows, &topk, NULL));
    compare_best(d, metric, k, best, count, "first");
    DEVICE(cuda_topk(metric, &query, &d->device_rows, &topk, NULL));
    compare_best(d, metric, k, best, count, "again");
    device_read(guard, device.scratch + topk.scratch_bytes, GUARD);
    for (size_t i = 0; i < GUARD; i++)
        topk_tally.differing += (unsigned char)guard[i] != v->garbage;
}

static void check_variant(struct data *d, enum metric metric, struct variant v, unsigned every)
{
    bool lower = metric_lower_is_better(metric);
    float threshold = d->count ? d->scores[d->count / 3] : 0.0f;
    uint64_t *allowed = filter_create(d, v.filter);
    DEVICE(cudaMemcpy(device.allowed, allowed, (d->count / 64 + 1) * sizeof *allowed,
                      cudaMemcpyHostToDevice));
    struct topk_entry *best = NULL;
    size_t count = best_create(d, lower, &v, allowed, threshold, &best);
    for (size_t n = 0; n < sizeof ks / sizeof *ks; n++)
        if (n % every == 0 || ks[n] == 128) check_k(d, metric, ks[n], &v, threshold, best, count);
    free(allowed), free(best);
}

/* A launch replayed from a graph finds its own marks undone. */
static void check_graph(struct data *d, enum metric metric, int replays)
{
    const struct variant v = {.garbage = 0xa5};
    struct topk_entry *best = NULL;
    size_t count = best_create(d, metric_lower_is_better(metric), &v, NULL, 0.0f, &best);
    struct cuda_queries query = d->device_queries;
    query.count = 1;
    struct cuda_topk topk = question(d, 100, &v, NULL);
    cudaStream_t stream;
    cudaGraph_t graph;
    DEVICE(cudaStreamCreate(&stream));
    DEVICE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    DEVICE(cuda_topk(metric, &query, &d->device_rows, &topk, stream));
    DEVICE(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = device_graph(graph);
    for (int n = 0; n < replays; n++) {
        DEVICE(cudaGraphLaunch(exec, stream));
        DEVICE(cudaStreamSynchronize(stream));
        compare_best(d, metric, 100, best, count, "graph");
    }
    DEVICE(cudaGraphExecDestroy(exec));
    DEVICE(cudaGraphDestroy(graph));
    DEVICE(cudaStreamDestroy(stream));
    free(best);
}

static void check_topk(uint32_t dimension, size_t count, enum order order, bool brief)
{
    struct data d = data_init(dimension, count, order);
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        enum metric metric = (enum metric)m;
        if (count) reference(&d, metric, 0, d.scores);
        check_variant(&d, metric, (struct variant){.garbage = 0xff}, brief ? 4 : 1);
        check_variant(&d, metric, (struct variant){.ids = true, .least_scratch = true}, 5);
        for (int filter = FILTER_HALF; filter < FILTERS; filter++)
            check_variant(
                &d, metric,
                (struct variant){.filter = (enum filter)filter, .ids = filter & 1, .garbage = 0x5a},
                brief ? 4 : 3);
        if (brief && m == METRIC_COSINE) continue;
        check_variant(&d, metric, (struct variant){.threshold = true, .garbage = 1}, 3);
        check_variant(&d, metric,
                      (struct variant){.filter = FILTER_HALF, .ids = true, .threshold = true}, 4);
        if (count) check_graph(&d, metric, 20);
    }
    data_finish(&d);
}

/* Distances and products are the two kernels; k of one warp's list, and the longest. */
static void check_tiny_topk(uint32_t dimension, size_t count, enum order order)
{
    struct data d = data_init(dimension, count, order);
    for (int m = METRIC_DOT; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        enum metric metric = (enum metric)m;
        struct variant runs = {.filter = FILTER_RUNS, .ids = true, .garbage = 0x5a};
        reference(&d, metric, 0, d.scores);
        check_variant(&d, metric, (struct variant){.garbage = 0xff}, 8);
        check_variant(&d, metric, (struct variant){.threshold = true, .least_scratch = true}, 12);
        check_variant(&d, metric, runs, 12);
        check_graph(&d, metric, 2);
    }
    data_finish(&d);
}

static void check_all_topk(bool small)
{
    const size_t counts[] = {0, 1, 31, 1000, 4097, 20011};
    for (size_t c = 0; c < (small ? 5 : 6); c++)
        for (int order = 0; order < ORDERS; order++)
            if (!small || order == ORDER_TIES || (order == ORDER_RISING && c > 2))
                check_topk(33, counts[c], (enum order)order, small || c == 5);
    if (small) return;
    for (int order = 0; order < ORDERS; order++)
        check_topk(3, 300007, (enum order)order, true);
    check_topk(768, 30000, ORDER_UNIFORM, true);
    check_topk(1025, 5000, ORDER_SAMPLES, true);
    check_topk(1100, 20000, ORDER_TIES, true);
}

/* ------------------------------------------------------------------ lists of many queries */

static void compare_floats(struct tally *tally, const char *what, uint32_t dimension,
                           const float *expected, const float *got, size_t count)
{
    uint64_t differing = 0;
    for (size_t i = 0; i < count; i++)
        differing += memcmp(&expected[i], &got[i], sizeof(float)) != 0;
    tally->compared += count;
    tally->differing += differing;
    if (differing)
        printf("DIFFERS %s dimension %u: %llu of %zu\n", what, dimension,
               (unsigned long long)differing, count);
}

/* every: a list is empty unless its number is a multiple; the rest have about `length` rows. */
static void check_lists(struct data *d, enum metric metric, size_t length, size_t every)
{
    uint64_t offsets[QUERIES + 1] = {0}, seed = 9;
    for (size_t q = 0; q < QUERIES; q++)
        offsets[q + 1] =
            offsets[q] + (q % every == 0 && length ? 1 + sample_random(&seed) % length : 0);
    size_t count = offsets[QUERIES];
    uint32_t *positions = host_allocate(count * sizeof *positions);
    float *expected = host_allocate(count * sizeof *expected);
    float *got = host_allocate((count + 16) * sizeof *got);
    for (size_t q = 0; q < QUERIES; q++) {
        reference(d, metric, q, d->scores);
        for (size_t i = offsets[q]; i < offsets[q + 1]; i++) {
            positions[i] = (uint32_t)(sample_random(&seed) % d->count);
            expected[i] = d->scores[positions[i]];
        }
    }
    uint32_t *device_positions = device_copy_of(positions, count * sizeof *positions);
    uint64_t *device_offsets = device_copy_of(offsets, sizeof offsets);
    float *scores = device_allocate((count + 16) * sizeof *scores);
    DEVICE(cuda_gather_lists(metric, &d->device_queries, &d->device_rows, device_positions,
                             device_offsets, count, scores, NULL));
    device_read(got, scores, (count + 16) * sizeof *got);
    compare_floats(&lists_tally, "lists", d->dimension, expected, got, count);
    for (size_t i = 0; i < 16; i++) { /* what device_allocate filled it with */
        uint32_t bits;
        memcpy(&bits, &got[count + i], sizeof bits);
        lists_tally.differing += bits != 0xffffffffu;
    }
    cudaFree(device_positions), cudaFree(device_offsets), cudaFree(scores);
    free(positions), free(expected), free(got);
}

static void check_all_lists(bool small)
{
    const uint32_t dimensions[] = {33, 1, 384, 1025, 1536};
    for (size_t n = 0; n < (small ? 1 : 5); n++) {
        struct data d = data_init(dimensions[n], 2003, ORDER_SAMPLES);
        for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
            check_lists(&d, (enum metric)m, 0, 1);
            check_lists(&d, (enum metric)m, 1, 23);
            check_lists(&d, (enum metric)m, 100, 5);
            check_lists(&d, (enum metric)m, small ? 200 : 3000, 1);
        }
        data_finish(&d);
    }
}

/* ------------------------------------------------------------------ weighted averages */

static void check_average(struct data *d, size_t count, bool listed, float total)
{
    size_t stride = vector_stride(d->dimension);
    const float **rows = host_allocate((count + 1) * sizeof *rows);
    uint32_t *positions = host_allocate(count * sizeof *positions);
    uint64_t seed = count + 5;
    float *weights = host_allocate(count * sizeof *weights);
    float *expected = host_allocate(stride * sizeof(float));
    float *got = host_allocate(stride * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        positions[i] = (uint32_t)(listed ? sample_random(&seed) % d->count : i);
        rows[i] = d->rows + positions[i] * stride;
        weights[i] = sample_uniform(&seed);
    }
    memset(expected, 0, stride * sizeof(float));
    if (count) cpu()->weighted_sum(rows, weights, count, 0, d->dimension, expected);
    uint32_t *device_positions = device_copy_of(positions, count * sizeof *positions);
    float *device_weights = device_copy_of(weights, count * sizeof *weights);
    float *out = device_allocate(stride * sizeof(float));
    DEVICE(cuda_weighted_sum(&d->device_rows, listed ? device_positions : NULL, device_weights,
                             count, out, NULL));
    device_read(got, out, d->dimension * sizeof(float));
    compare_floats(&weighted_tally, "weighted sum", d->dimension, expected, got, d->dimension);
    for (size_t i = 0; i < d->dimension; i++)
        expected[i] = count == 0 || total == 0.0f ? 0.0f : expected[i] / total;
    DEVICE(cudaMemset(out, 0xff, stride * sizeof(float)));
    DEVICE(cuda_weighted_average(&d->device_rows, listed ? device_positions : NULL, device_weights,
                                 count, total, out, NULL));
    device_read(got, out, d->dimension * sizeof(float));
    compare_floats(&weighted_tally, "weighted average", d->dimension, expected, got, d->dimension);
    cudaFree(device_positions), cudaFree(device_weights), cudaFree(out);
    free(rows), free(positions), free(weights), free(expected), free(got);
}

static void check_all_averages(bool small)
{
    const uint32_t dimensions[] = {33, 1, 16, 768, 1025};
    const size_t counts[] = {0, 1, 15, 127, 128, 129, 511, 512, 640, 641, 5003};
    for (size_t n = 0; n < (small ? 1 : 5); n++) {
        struct data d = data_init(dimensions[n], 5003, ORDER_UNIFORM);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            check_average(&d, counts[c], false, 3.7f);
            check_average(&d, counts[c], true, -0x1p-130f);
            if (c % 4 == 0) check_average(&d, counts[c], true, 0.0f);
        }
        check_average(&d, small ? 700 : 40000, true, 0.3f);
        data_finish(&d);
    }
}

/* ------------------------------------------------------------------ all of it */

static void check_tiny(void)
{
    const uint32_t dimensions[] = {33, 1025};
    for (size_t n = 0; n < 2; n++) {
        struct data d = data_init(dimensions[n], 1000, ORDER_SAMPLES);
        for (int m = METRIC_DOT; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
            check_lists(&d, (enum metric)m, 100, 5);
            check_lists(&d, (enum metric)m, 2000, 1);
        }
        check_average(&d, 0, false, 3.7f);
        check_average(&d, 127, true, 3.7f);
        check_average(&d, 1000, false, -0x1p-130f);
        data_finish(&d);
    }
    check_tiny_topk(33, 1000, ORDER_TIES);
    check_tiny_topk(33, 9000, ORDER_RISING);
    check_tiny_topk(1025, 400, ORDER_RISING);
}

static bool report(const char *what, const struct tally *tally)
{
    printf("%-18s %12llu compared %8llu differ\n", what, (unsigned long long)tally->compared,
           (unsigned long long)tally->differing);
    return tally->differing != 0;
}

int main(int argc, char **argv)
{
    enum { ROWS_MAX = 300007 };
    const char *asked = argc > 1 ? argv[1] : "";
    bool tiny = strcmp(asked, "--tiny") == 0, small = strcmp(asked, "--small") == 0;
    int processors = 0;
    device_open();
    DEVICE(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    device.blocks = 2 * (unsigned)processors;
    uint64_t *ids = host_allocate(ROWS_MAX * sizeof *ids);
    for (size_t r = 0; r < ROWS_MAX; r++)
        ids[r] = id_of(r);
    device.ids = device_copy_of(ids, ROWS_MAX * sizeof *ids);
    device.scratch_bytes = cuda_topk_scratch_best(1, 129, ROWS_MAX) + ((uint64_t)8 << 20);
    device.scratch = device_allocate(device.scratch_bytes);
    device.allowed = device_allocate((ROWS_MAX / 64 + 1) * sizeof(uint64_t));
    device.out_ids = device_allocate(256 * sizeof(uint64_t));
    device.out_scores = device_allocate(256 * sizeof(float));
    device.out_counts = device_allocate(sizeof(uint32_t));
    if (tiny) {
        check_tiny();
    } else {
        check_all_averages(small);
        check_all_lists(small);
        check_all_topk(small);
    }
    bool bad = report("weighted", &weighted_tally);
    bad |= report("lists", &lists_tally);
    bad |= report("k best, 1 query", &topk_tally);
    printf("bits: %s\n", bad ? "FAIL" : "ok");
    free(ids);
    return bad;
}
