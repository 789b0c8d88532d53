/* gpu_bits_direct [--small|--tiny|--time]: direct requests, one query that travels with the launch
 * and results stored into mapped host memory, against the CPU's, bit for bit: on both sides of each
 * limit between kernels, over scratch full of garbage. --time: how long they take from the host,
 * beside copies and an event; nothing is compared then. */
#include <time.h>

#include "daemon/gpu/device_cells.h"
#include "kernels/topk.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

enum { K_MAX = CUDA_DIRECT_K_MAX, SCORES_MAX = 2048, KINDS = 3, REPEATS = 2000 };

static const char *const metric_names[] = {"", "cosine", "dot", "euclidean"};

struct data {
    uint32_t dimension;
    uint64_t count;
    float *rows, *norms, *query, query_norm, *scores; /* scores: expected */
    uint64_t *ids;
    struct cuda_rows device;
    uint64_t *device_ids;
    char *scratch;
    uint64_t *cells; /* mapped */
};

static uint64_t compared, differing, launches;
static uint32_t last_tag;

static void *host_allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p) abort();
    return p;
}

/* Rows that are all one of seven, so that there are ties everywhere. */
static void repeat_rows(float *rows, uint32_t dimension, uint64_t count)
{
    size_t stride = vector_stride(dimension);
    uint64_t seed = 3;
    for (uint64_t r = 7; r < count; r++)
        memcpy(rows + r * stride, rows + sample_random(&seed) % 7 * stride, stride * sizeof *rows);
}

static struct data data_init(uint32_t dimension, uint64_t count, unsigned kind)
{
    const struct vector_kernels *cpu = vectors_choose("auto");
    struct data d = {.dimension = dimension, .count = count};
    d.rows = samples_create(dimension, count, kind == KINDS - 1 ? 0 : (int)kind, count + 1);
    if (kind == KINDS - 1) repeat_rows(d.rows, dimension, count);
    d.query = samples_create(dimension, 1, 0, 77);
    d.norms = host_allocate(count * sizeof(float));
    d.scores = host_allocate(count * sizeof(float));
    d.ids = host_allocate(count * sizeof(uint64_t));
    for (uint64_t i = 0; i < count; i++)
        d.ids[i] = (i * 0x9e3779b97f4a7c15u ^ i >> 7) | 1;
    cpu->norms(dimension, d.rows, count, d.norms);
    cpu->norms(dimension, d.query, 1, &d.query_norm);
    d.device = (struct cuda_rows){
        dimension, device_copy_of(d.rows, count * vector_stride(dimension) * sizeof(float)),
        device_copy_of(d.norms, count * sizeof(float)), count};
    d.device_ids = device_copy_of(d.ids, count * sizeof *d.ids);
    d.scratch = device_allocate(cuda_direct_scratch_best(K_MAX));
    size_t cells = cells_count(K_MAX, 0) > SCORES_MAX ? cells_count(K_MAX, 0) : SCORES_MAX;
    DEVICE(cudaHostAlloc((void **)&d.cells, cells * sizeof *d.cells, cudaHostAllocDefault));
    return d;
}

static void data_finish(struct data *d)
{
    samples_free(d->rows), samples_free(d->query);
    free(d->norms), free(d->scores), free(d->ids);
    cudaFree((void *)d->device.rows), cudaFree((void *)d->device.norms);
    cudaFree(d->device_ids), cudaFree(d->scratch), cudaFreeHost(d->cells);
}

struct variant {
    uint32_t k;
    bool ids, threshold, least_scratch;
};

static float threshold_of(const struct data *d)
{
    return d->scores[d->count / 3];
}

/* Launches, and waits until all cells have come; a launch that is over must have filled them. */
static struct cells ask(const struct data *d, enum metric metric, struct variant v)
{
    float threshold = threshold_of(d);
    struct cells c;
    cells_init(&c, d->cells, (uint32_t)cells_count(v.k, d->count), ++last_tag);
    struct cuda_direct direct = {.query = d->query,
                                 .query_norm = d->query_norm,
                                 .tag = last_tag,
                                 .k = v.k,
                                 .ids = v.ids ? d->device_ids : NULL,
                                 .threshold = v.threshold ? &threshold : NULL,
                                 .scratch = d->scratch,
                                 .scratch_bytes = v.least_scratch ? cuda_direct_scratch_min(v.k)
                                                                  : cuda_direct_scratch_best(v.k),
                                 .cells = d->cells};
    DEVICE(cuda_direct(metric, &d->device, &direct, NULL));
    if (++launches % 2) DEVICE(cudaDeviceSynchronize()); /* else it is watched for */
    while (!cells_came(&c))
        if (cudaStreamQuery(NULL) != cudaErrorNotReady && !cells_came(&c)) {
            printf("FAIL: %u of %u cells have come\n", c.seen, c.count);
            exit(1);
        }
    return c;
}

static void differs(const struct data *d, enum metric metric, struct variant v, uint64_t count)
{
    differing += count;
    if (count)
        printf("DIFFERS direct dimension %u %s rows %llu k %u%s%s%s: %llu\n", d->dimension,
               metric_names[metric], (unsigned long long)d->count, v.k, v.ids ? " ids" : "",
               v.threshold ? " threshold" : "", v.least_scratch ? " least scratch" : "",
               (unsigned long long)count);
}

static void check_scores(const struct data *d, enum metric metric)
{
    struct variant v = {0};
    struct cells c = ask(d, metric, v);
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        uint32_t bits = cells_number(&c, i);
        wrong += memcmp(&bits, &d->scores[i], sizeof bits) != 0;
    }
    compared += c.count;
    differs(d, metric, v, wrong);
}

static void check_best(const struct data *d, enum metric metric, struct variant v)
{
    bool lower = metric_lower_is_better(metric);
    float threshold = threshold_of(d), scores[K_MAX];
    uint64_t ids[K_MAX], wrong = 0;
    void *entries = host_allocate(topk_bytes(v.k));
    uint64_t *numbers = host_allocate(d->count * sizeof *numbers);
    uint32_t *positions = host_allocate((d->count + 16) * sizeof *positions);
    for (uint64_t i = 0; i < d->count; i++)
        numbers[i] = i;
    struct topk best;
    topk_init(&best, entries, v.k, lower, v.threshold ? &threshold : NULL);
    topk_offer(&best, vectors_choose("auto"), d->scores, v.ids ? d->ids : numbers, d->count, NULL,
               0, positions);
    uint32_t count = topk_finish(&best, ids, scores);
    struct cells c = ask(d, metric, v);
    wrong += cells_number(&c, 0) != count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = cells_number(&c, 1 + 2 * v.k + i);
        uint64_t id = cells_number(&c, 1 + i) | (uint64_t)cells_number(&c, 1 + v.k + i) << 32;
        wrong += id != ids[i] || memcmp(&bits, &scores[i], sizeof bits) != 0;
    }
    compared += count;
    differs(d, metric, v, wrong);
    free(entries), free(numbers), free(positions);
}

static void check(uint32_t dimension, uint64_t count, unsigned kind)
{
    static const uint32_t ks[] = {1, 10, K_MAX};
    struct data d = data_init(dimension, count, kind);
    for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++) {
        enum metric metric = (enum metric)m;
        vectors_choose("auto")->scan(metric, dimension, d.query, d.query_norm,
                                     (struct row_block){d.rows, d.norms, count}, d.scores);
        if (count <= SCORES_MAX) check_scores(&d, metric);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            check_best(&d, metric, (struct variant){.k = ks[i], .ids = true});
            check_best(&d, metric, (struct variant){.k = ks[i]});
            check_best(&d, metric, (struct variant){.k = ks[i], .ids = true, .threshold = true});
            check_best(&d, metric,
                       (struct variant){.k = ks[i], .ids = true, .least_scratch = true});
        }
    }
    data_finish(&d);
}

/* ---- time ---- */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Four calls of the driver, as a request that is not direct has. */
struct copied {
    char *pinned, *device;
    cudaStream_t stream;
    cudaEvent_t event;
};

static void ask_copied(const struct data *d, struct copied *c, uint32_t k)
{
    enum { NORM = 8192, OUT = 16384, SCORES = 20480, COUNTS = 24576, SCRATCH = 65536 };
    size_t row = vector_stride(d->dimension) * sizeof(float);
    memcpy(c->pinned, d->query, row);
    memcpy(c->pinned + NORM, &d->query_norm, sizeof(float));
    DEVICE(cudaMemcpyAsync(c->device, c->pinned, NORM + 4, cudaMemcpyHostToDevice, c->stream));
    struct cuda_queries query = {(float *)c->device, (float *)(c->device + NORM), 1};
    struct cuda_topk topk = {.k = k,
                             .ids = d->device_ids,
                             .scratch = c->device + SCRATCH,
                             .scratch_bytes = cuda_topk_scratch_best(1, k ? k : 1, d->count),
                             .out_ids = (uint64_t *)(c->device + OUT),
                             .out_scores = (float *)(c->device + SCORES),
                             .out_counts = (uint32_t *)(c->device + COUNTS)};
    if (k)
        DEVICE(cuda_topk(METRIC_COSINE, &query, &d->device, &topk, c->stream));
    else
        DEVICE(cuda_scan(METRIC_COSINE, &query, &d->device, (float *)(c->device + OUT), c->stream));
    DEVICE(cudaMemcpyAsync(c->pinned + OUT, c->device + OUT, k ? COUNTS + 4 - OUT : d->count * 4,
                           cudaMemcpyDeviceToHost, c->stream));
    DEVICE(cudaEventRecord(c->event, c->stream));
    while (cudaEventQuery(c->event) == cudaErrorNotReady)
        continue;
}

static void measure(uint32_t dimension, uint64_t count, uint32_t k)
{
    static double times[2][REPEATS];
    struct data d = data_init(dimension, count, 0);
    struct copied c;
    DEVICE(cudaHostAlloc((void **)&c.pinned, 1 << 20, cudaHostAllocDefault));
    c.device = device_allocate(64 << 20);
    DEVICE(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    DEVICE(cudaEventCreateWithFlags(&c.event, cudaEventDisableTiming));
    for (int i = -100; i < REPEATS; i++) {
        double start = now_us();
        ask_copied(&d, &c, k);
        double between = now_us();
        struct cells cells;
        cells_init(&cells, d.cells, (uint32_t)cells_count(k, count), ++last_tag);
        struct cuda_direct direct = {.query = d.query,
                                     .query_norm = d.query_norm,
                                     .tag = last_tag,
                                     .k = k,
                                     .ids = d.device_ids,
                                     .scratch = d.scratch,
                                     .scratch_bytes = cuda_direct_scratch_best(k),
                                     .cells = d.cells};
        DEVICE(cuda_direct(METRIC_COSINE, &d.device, &direct, c.stream));
        while (!cells_came(&cells))
            continue;
        if (i < 0) continue;
        times[0][i] = between - start;
        times[1][i] = now_us() - between;
    }
    for (int i = 0; i < 2; i++)
        qsort(times[i], REPEATS, sizeof **times, rising);
    printf("1 query x %u, %6llu rows, %s %2u: copies and event %.1f us (p99 %.1f), direct %.1f us "
           "(p99 %.1f)\n",
           dimension, (unsigned long long)count, k ? "k =" : "all scores", k, times[0][REPEATS / 2],
           times[0][REPEATS * 99 / 100], times[1][REPEATS / 2], times[1][REPEATS * 99 / 100]);
    fflush(stdout);
    cudaFree(c.device), cudaFreeHost(c.pinned), cudaStreamDestroy(c.stream);
    cudaEventDestroy(c.event);
    data_finish(&d);
}

static void measure_all(void)
{
    static const uint64_t counts[] = {100, 1000, 2048, 4000, 10000, 16000, 20000, 100000, 1000000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i] <= SCORES_MAX) measure(768, counts[i], 0);
        measure(768, counts[i], 10);
    }
    measure(384, 1000, 10);
    measure(768, 10000, 1);
    measure(768, 10000, K_MAX);
    measure(768, 100000, K_MAX);
}

int main(int argc, char **argv)
{
    static const uint32_t dimensions[] = {1, 31, 33, 384, 768, 1000, 1024};
    static const uint64_t counts[] = {1,    2,    7,    8,    9,    33,   100,  1000,  1055, 1056,
                                      1057, 2047, 2048, 2049, 4224, 4225, 9999, 16896, 16897};
    const char *how = argc > 1 ? argv[1] : "";
    bool small = !strcmp(how, "--small"), tiny = !strcmp(how, "--tiny");
    device_open();
    if (!strcmp(how, "--time")) {
        measure_all();
        return 0;
    }
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t dimension = dimensions[i];
        if (dimension > cuda_direct_dimension()) continue;
        if ((small || tiny) && dimension != 33 && dimension != 768) continue;
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            if (tiny && counts[n] != 9 && counts[n] != 1057) continue;
            for (unsigned kind = 0; kind < KINDS; kind++)
                if (!tiny || kind == 0) check(dimension, counts[n], kind);
        }
    }
    if (!small && !tiny) check(768, 100000, 0), check(768, 100000, KINDS - 1);
    if (!small && !tiny) check(96, 1000003, KINDS - 1);
    printf("direct         %12llu compared %8llu differ\n", (unsigned long long)compared,
           (unsigned long long)differing);
    return differing ? 1 : 0;
}
