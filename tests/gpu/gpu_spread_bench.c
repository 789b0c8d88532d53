/* gpu_spread_bench [--hop] [FOLDER]: what spreads take on the GPU, beside cuSPARSE's product of a
 * sparse matrix and a vector over the same edges, in one run. Device time by events, medians. A hop
 * is what another hop adds to a call: all seeds active, thresholds, accumulation and all; the
 * product alone is the peer's. cuSPARSE is found at run time (libcusparse.so.12, or in FOLDER), so
 * that nothing need be carried; without it its lines are left out. --hop: the hops alone. */
#include "tests/bench/bench.h"
#include "tests/gpu/device_spread.h"

#include <dlfcn.h>
#include <math.h>

enum { RUNS = 41, HOPS = 5, SETS = 256 };

static cudaStream_t stream;
static cudaEvent_t started, stopped;

/* ---------------------------------------------------------------- cuSPARSE */

/* Its interface, as far as it is used: cusparse.h of CUDA 12 and 13. */
enum {
    INDEX_32 = 2,
    BASE_ZERO = 0,
    REAL_32 = 0,
    AS_IT_IS = 0,
    CSR_ALG1 = 2,
    CSR_ALG2 = 3,
};
typedef int multiply_function(void *handle, int operation, const void *alpha, void *matrix, void *x,
                              const void *beta, void *y, int type, int algorithm, void *buffer);
struct peer {
    void *library, *handle, *matrix, *x, *y, *buffer;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, cudaStream_t on);
    int (*create_csr)(void **matrix, int64_t rows, int64_t columns, int64_t count, void *offsets,
                      void *indices, void *values, int offset_type, int index_type, int base,
                      int type);
    int (*create_vector)(void **vector, int64_t size, void *values, int type);
    int (*buffer_size)(void *handle, int operation, const void *alpha, void *matrix, void *x,
                       const void *beta, void *y, int type, int algorithm, size_t *bytes);
    multiply_function *preprocess, *multiply; /* the first may be missing */
};

static void peer_check(int status, const char *what)
{
    if (status == 0) return;
    printf("FAIL: %s: cuSPARSE status %d\n", what, status);
    exit(2);
}

static void peer_open(struct peer *p, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libcusparse.so.12", folder ? folder : "/usr/local/cuda/lib64");
    if (!folder) p->library = dlopen("libcusparse.so.12", RTLD_NOW);
    if (!p->library) p->library = dlopen(path, RTLD_NOW);
    if (!p->library) {
        printf("no peer: %s\n", dlerror());
        return;
    }
    *(void **)&p->create = dlsym(p->library, "cusparseCreate");
    *(void **)&p->set_stream = dlsym(p->library, "cusparseSetStream");
    *(void **)&p->create_csr = dlsym(p->library, "cusparseCreateCsr");
    *(void **)&p->create_vector = dlsym(p->library, "cusparseCreateDnVec");
    *(void **)&p->buffer_size = dlsym(p->library, "cusparseSpMV_bufferSize");
    *(void **)&p->preprocess = dlsym(p->library, "cusparseSpMV_preprocess");
    *(void **)&p->multiply = dlsym(p->library, "cusparseSpMV");
    if (!p->create || !p->set_stream || !p->create_csr || !p->create_vector || !p->buffer_size ||
        !p->multiply) {
        printf("no peer: functions are missing\n");
        p->library = NULL;
        return;
    }
    peer_check(p->create(&p->handle), "create");
    peer_check(p->set_stream(p->handle, stream), "stream");
}

/* In-lists as rows, in a row and without room. */
static void peer_matrix(struct peer *p, const struct spread_graph *g)
{
    uint32_t *offsets = malloc((g->nodes + 1ul) * sizeof *offsets);
    uint32_t *columns = malloc(g->edges * sizeof *columns);
    float *weights = malloc(g->edges * sizeof *weights), *ones = malloc(g->nodes * sizeof *ones);
    if (!offsets || !columns || !weights || !ones) abort();
    uint32_t used = 0;
    for (uint32_t n = 0; n < g->nodes; n++) {
        offsets[n] = used;
        ones[n] = 1.0f / (float)(n % 100 + 1);
        for (uint32_t e = 0; e < g->in[n].count; e++, used++) {
            columns[used] = g->in_edges[g->in[n].first + e].node;
            weights[used] = g->in_edges[g->in[n].first + e].weight;
        }
    }
    offsets[g->nodes] = used;
    peer_check(p->create_csr(&p->matrix, g->nodes, g->nodes, used,
                             device_copy_of(offsets, (g->nodes + 1ul) * sizeof *offsets),
                             device_copy_of(columns, used * sizeof *columns),
                             device_copy_of(weights, used * sizeof *weights), INDEX_32, INDEX_32,
                             BASE_ZERO, REAL_32),
               "matrix");
    void *x = device_copy_of(ones, g->nodes * sizeof *ones);
    peer_check(p->create_vector(&p->x, g->nodes, x, REAL_32), "x");
    peer_check(
        p->create_vector(&p->y, g->nodes, device_allocate(g->nodes * sizeof(float)), REAL_32), "y");
    free(offsets), free(columns), free(weights), free(ones);
}

static double peer_ms(struct peer *p, int algorithm)
{
    const float one = 1.0f, zero = 0.0f;
    double ms[RUNS];
    size_t bytes = 0;
    peer_check(p->buffer_size(p->handle, AS_IT_IS, &one, p->matrix, p->x, &zero, p->y, REAL_32,
                              algorithm, &bytes),
               "buffer");
    p->buffer = device_allocate(bytes);
    DEVICE(cudaDeviceSynchronize());
    if (p->preprocess)
        peer_check(p->preprocess(p->handle, AS_IT_IS, &one, p->matrix, p->x, &zero, p->y, REAL_32,
                                 algorithm, p->buffer),
                   "preprocess");
    for (int n = -3; n < RUNS; n++) {
        float took;
        DEVICE(cudaEventRecord(started, stream));
        peer_check(p->multiply(p->handle, AS_IT_IS, &one, p->matrix, p->x, &zero, p->y, REAL_32,
                               algorithm, p->buffer),
                   "multiply");
        DEVICE(cudaEventRecord(stopped, stream));
        DEVICE(cudaEventSynchronize(stopped));
        DEVICE(cudaEventElapsedTime(&took, started, stopped));
        if (n >= 0) ms[n] = took;
    }
    cudaFree(p->buffer);
    return bench_percentile(ms, RUNS, 50);
}

/* ---------------------------------------------------------------- ours */

struct asked {
    enum spread_mode mode;
    uint32_t sets, hops;
    uint64_t seeds; /* of each set */
    float threshold;
    bool paths;
};

struct timed {
    double ms, wall_ms; /* medians: by events; from the call to its end on the host */
    uint64_t records;   /* of all sets */
    uint32_t hops_done; /* of the first */
};

static struct timed timed(const struct spread_graph *device, struct asked a, uint32_t first_set,
                          int runs)
{
    float decay[SPREAD_HOPS_MAX + 1];
    uint64_t *offsets = calloc(a.sets + 1, sizeof *offsets), records = 0;
    struct spread_seed *seeds = calloc(a.sets * a.seeds, sizeof *seeds);
    struct cuda_spread_set *sets = calloc(a.sets, sizeof *sets);
    double ms[RUNS], wall[RUNS];
    if (!offsets || !seeds || !sets) abort();
    for (uint32_t d = 0; d <= a.hops; d++)
        decay[d] = 0.1f;
    for (uint64_t i = 0, gap = device->nodes / a.seeds; i < a.sets * a.seeds; i++) {
        const uint64_t set = first_set + i / a.seeds, k = i % a.seeds;
        offsets[i / a.seeds + 1] = i + 1;
        seeds[i] = (struct spread_seed){(uint32_t)(k * gap + set * 7919 % gap), 0.5f};
    }
    struct spread_question q = {.mode = a.mode,
                                .hops = a.hops,
                                .decay = decay,
                                .thresholds = {a.threshold, a.threshold * 5, a.threshold * 10},
                                .paths = a.paths,
                                .touched_max = UINT64_MAX,
                                .seeds = seeds};
    struct cuda_spread s =
        device_spread_of(device, &q, offsets, a.sets,
                         cuda_spread_scratch_best(a.mode, device->nodes, device->edges, a.sets));
    for (int n = -3; n < runs; n++) {
        float took;
        DEVICE(cudaDeviceSynchronize()); /* what was set to 0xff, on another stream */
        const double start = bench_now_s();
        DEVICE(cudaEventRecord(started, stream));
        DEVICE(cuda_spread(&s, stream));
        DEVICE(cudaEventRecord(stopped, stream));
        DEVICE(cudaEventSynchronize(stopped));
        if (n >= 0) wall[n] = (bench_now_s() - start) * 1e3;
        DEVICE(cudaEventElapsedTime(&took, started, stopped));
        if (n >= 0) ms[n] = took;
    }
    device_read(sets, s.out_sets, a.sets * sizeof *sets);
    for (uint32_t i = 0; i < a.sets; i++)
        records += sets[i].record_count;
    struct timed t = {bench_percentile(ms, (size_t)runs, 50),
                      bench_percentile(wall, (size_t)runs, 50), records, sets[0].hops_done};
    device_spread_free(&s);
    free(offsets), free(seeds), free(sets);
    return t;
}

static double copy_gbs(void)
{
    const size_t bytes = (size_t)512 << 20;
    void *from = device_allocate(bytes), *to = device_allocate(bytes);
    double ms[RUNS];
    DEVICE(cudaDeviceSynchronize());
    for (int n = -3; n < RUNS; n++) {
        float took;
        DEVICE(cudaEventRecord(started, stream));
        DEVICE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        DEVICE(cudaEventRecord(stopped, stream));
        DEVICE(cudaEventSynchronize(stopped));
        DEVICE(cudaEventElapsedTime(&took, started, stopped));
        if (n >= 0) ms[n] = took;
    }
    cudaFree(from), cudaFree(to);
    return 2e-6 * (double)bytes / bench_percentile(ms, RUNS, 50);
}

/* ---------------------------------------------------------------- lines */

static void row(const char *what, double ours_ms, double peer_ms_, double target)
{
    char ours[32], theirs[32];
    snprintf(ours, sizeof ours, "%.1f us", ours_ms * 1e3);
    snprintf(theirs, sizeof theirs, "%.1f us", peer_ms_ * 1e3);
    bench_row(what, ours, theirs, peer_ms_ / ours_ms, true, target);
}

/* A hop over all nodes beside one product. */
static void hop(struct peer *p, const char *name, const struct spread_graph *host,
                const struct spread_graph *device, double copied_gbs)
{
    struct asked a = {SPREAD_LINEAR, 1, 1, host->nodes, .threshold = 0};
    const struct timed one = timed(device, a, 0, RUNS);
    a.hops = HOPS;
    const struct timed many = timed(device, a, 0, RUNS);
    const double ms = (many.ms - one.ms) / (HOPS - 1);
    /* Edges, list heads, what is sent before and after, activation and visits read and written. */
    const double bytes = 8.0 * (double)host->edges + (16 + 8 + 8 + 4) * (double)host->nodes;
    printf("  %s: a hop %.1f us, a call of one hop %.1f us, of %d hops %.1f us; %.0f MB a hop: "
           "%.0f GB/s, %.0f %% of a copy's %.0f (hops done %u, records %llu)\n",
           name, ms * 1e3, one.ms * 1e3, HOPS, many.ms * 1e3, bytes / 1e6, bytes / ms / 1e6,
           bytes / ms / 1e4 / copied_gbs, copied_gbs, many.hops_done,
           (unsigned long long)many.records);
    if (!p->library) return;
    peer_matrix(p, host);
    const double alg1 = peer_ms(p, CSR_ALG1), alg2 = peer_ms(p, CSR_ALG2);
    char what[80];
    snprintf(what, sizeof what, "%s: a hop; cuSPARSE SpMV ALG1", name);
    row(what, ms, alg1, 1.2);
    snprintf(what, sizeof what, "%s: a hop; cuSPARSE SpMV ALG2", name);
    row(what, ms, alg2, 1.2);
    snprintf(what, sizeof what, "%s: a whole call of one hop; ALG1", name);
    row(what, one.ms, alg1, 1.0);
}

static void few(const struct spread_graph *device)
{
    printf("\nfew seeds, 1,000,000 x 8 (us: by events, on the host)\n");
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++)
        for (uint32_t hops = 1; hops <= 4; hops++)
            for (uint64_t seeds = 1; seeds <= 10; seeds *= 10) {
                const struct asked a = {(enum spread_mode)mode, 1, hops, seeds, .threshold = 1e-6f};
                const struct timed t = timed(device, a, 0, RUNS);
                printf("  mode %s, %2llu seeds, %u hops: %8.1f %8.1f  (%llu touched)\n",
                       mode == SPREAD_LINEAR ? "linear" : "engram", (unsigned long long)seeds, hops,
                       t.ms * 1e3, t.wall_ms * 1e3, (unsigned long long)t.records);
            }
    fflush(stdout);
}

/* Of another set each. */
static double orders_ms(const struct spread_graph *device, struct asked a)
{
    double sum = 0;
    a.sets = 1;
    for (uint32_t i = 0; i < SETS; i += 16)
        sum += timed(device, a, i, 5).ms;
    return sum * 16;
}

static void many(const struct spread_graph *device)
{
    bench_header("256 sets of 10 seeds in one order, and in 256 orders");
    for (int mode = SPREAD_LINEAR; mode <= SPREAD_ENGRAM; mode++)
        for (uint32_t hops = 1; hops <= 3; hops++) {
            char what[80];
            struct asked a = {(enum spread_mode)mode, SETS, hops, 10, .threshold = 1e-6f};
            const struct timed t = timed(device, a, 0, 9);
            snprintf(what, sizeof what, "mode %s, %u hops, %llu touched",
                     mode == SPREAD_LINEAR ? "linear" : "engram", hops,
                     (unsigned long long)t.records);
            row(what, t.ms, orders_ms(device, a), 4.0);
        }
}

/* Nodes 0, 1, ... have nearly as many in-edges as there are nodes. */
static struct spread_sample power_sample(void)
{
    enum { NODES = 1000000, EDGES = 10000000, HUBS = 2 };
    uint64_t seed = 9;
    struct spread_sample_edge *edges = spread_power_edges(NODES, EDGES, 0.5, &seed);
    for (uint64_t i = 0; i < (uint64_t)HUBS * NODES; i++)
        edges[i].source = (uint32_t)(i % NODES), edges[i].target = (uint32_t)(i / NODES);
    struct spread_sample s = spread_sample_of(NODES, edges, EDGES, NULL, NULL, false);
    free(edges);
    return s;
}

int main(int argc, char **argv)
{
    struct peer peer = {0};
    const bool hop_alone = argc > 1 && strcmp(argv[1], "--hop") == 0;
    const char *folder = argc > 1 + hop_alone ? argv[1 + hop_alone] : NULL;
    device_open();
    DEVICE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DEVICE(cudaEventCreate(&started));
    DEVICE(cudaEventCreate(&stopped));
    peer_open(&peer, folder);
    const double copied = copy_gbs();
    uint64_t seed = 8;
    struct spread_sample_edge *edges = spread_uniform_edges(1000000, 8000000, &seed);
    struct spread_sample uniform = spread_sample_of(1000000, edges, 8000000, NULL, NULL, false);
    free(edges);
    struct spread_sample power = power_sample();
    const struct spread_graph on_uniform = device_graph_of(&uniform.graph);
    const struct spread_graph on_power = device_graph_of(&power.graph);
    bench_header("one hop of mode linear, all nodes active");
    hop(&peer, "uniform", &uniform.graph, &on_uniform, copied);
    hop(&peer, "power, hubs of 10^6", &power.graph, &on_power, copied);
    if (!hop_alone) {
        few(&on_uniform);
        many(&on_uniform);
    }
    spread_sample_free(&uniform);
    spread_sample_free(&power);
    return 0;
}
