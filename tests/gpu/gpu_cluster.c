/* gpu_cluster [--small | --tiny] [--bench] [--only N] [--data NAME] [SEED]: the merges of
 * clusterings on the GPU and by the CPU's kernels in the same steps (daemon/gpu/sim_cluster.h):
 * pairs, order, scans, centroids and norms, bit for bit, for all families of instances, both rules,
 * and orders of rows. Prints how many were compared and how many differ; exit 1 unless none does.
 * --small, --tiny: for compute-sanitizer. --bench: the times of both rules by events, beside what
 * is asked of an H200, and the scans that a merge takes; the smallest of them are compared, too.
 * --only: up to N rows; --data: planted, chain or star. */
#include "daemon/gpu/sim_cluster.h"
#include "kernels/cuda/cluster_cuda.h"
#include "kernels/topk.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"
#include "tests/support/cluster_reference.h"

enum { SHOWN = 5, STEPS = 128, NEAR_SOME = 2048, PAIR_SOME = 512 };

static uint64_t compared, differing;

/* Where an instance is clustered: on the device, or in host memory. */
struct side {
    bool device;
    struct cuda_rows rows;
    struct cuda_cluster work;
    struct cuda_cluster_state state; /* as last read */
    struct cuda_cluster_merge *merges;
    char *memory;
    void *found_ids, *found_scores, *found_counts, *scratch, *cosines;
    uint64_t scratch_bytes;
    const struct vector_kernels *kernels;
};

static void *take(const struct side *s, uint64_t bytes)
{
    if (s->device) return device_allocate(bytes);
    void *p = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!p) abort();
    return p;
}

static void give(const struct side *s, void *p)
{
    if (s->device)
        cudaFree(p);
    else
        free(p);
}

static void read_back(const struct side *s, void *to, const void *from, uint64_t bytes)
{
    if (s->device)
        device_read(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void run(struct side *s, enum cuda_cluster_stage stage)
{
    s->work.stage = stage;
    if (s->device) {
        DEVICE(cuda_cluster(&s->rows, &s->work, NULL));
        return;
    }
    struct device_call call = {.kernel = KERNEL_CLUSTER, .rows = s->rows, .cluster = s->work};
    sim_cluster_run(&call, s->kernels);
}

/* ---- all against all ---- */

static void find_here(const struct side *s, uint32_t first, uint32_t some)
{
    const uint64_t stride = vector_stride(s->rows.dimension);
    const uint32_t live = s->state.live;
    float *scores = malloc(live * sizeof *scores);
    uint32_t *positions = malloc((live + 16) * sizeof *positions);
    void *entries = aligned_alloc(64, topk_bytes(CUDA_CLUSTER_FOUND));
    if (!scores || !positions || !entries) abort();
    for (uint32_t i = 0; i < some; i++) {
        const struct row_block block = {s->work.rows, s->work.norms, live};
        uint64_t *ids = (uint64_t *)s->found_ids + (uint64_t)i * CUDA_CLUSTER_FOUND;
        float *values = (float *)s->found_scores + (uint64_t)i * CUDA_CLUSTER_FOUND;
        struct topk best;
        s->kernels->scan(METRIC_COSINE, s->rows.dimension, s->work.rows + (first + i) * stride,
                         s->work.norms[first + i], block, scores);
        topk_init(&best, entries, CUDA_CLUSTER_FOUND, false, &s->work.threshold);
        topk_offer(&best, s->kernels, scores, s->work.wide_ids, live, NULL, 0, positions);
        ((uint32_t *)s->found_counts)[i] = topk_finish(&best, ids, values);
    }
    free(scores), free(positions), free(entries);
}

static void find_there(const struct side *s, uint32_t first, uint32_t some)
{
    const uint64_t stride = vector_stride(s->rows.dimension);
    const struct cuda_rows rows = {s->rows.dimension, s->work.rows, s->work.norms, s->state.live};
    const struct cuda_queries queries = {s->work.rows + first * stride, s->work.norms + first,
                                         some};
    const struct cuda_topk topk = {.k = CUDA_CLUSTER_FOUND,
                                   .ids = s->work.wide_ids,
                                   .threshold = &s->work.threshold,
                                   .scratch = s->scratch,
                                   .scratch_bytes = s->scratch_bytes,
                                   .out_ids = s->found_ids,
                                   .out_scores = s->found_scores,
                                   .out_counts = s->found_counts};
    DEVICE(cuda_topk(METRIC_COSINE, &queries, &rows, &topk, NULL));
}

static void find_all(struct side *s)
{
    const uint32_t live = s->state.live;
    for (uint32_t first = 0; first < live; first += NEAR_SOME) {
        const uint32_t some = live - first < NEAR_SOME ? live - first : NEAR_SOME;
        if (s->device)
            find_there(s, first, some);
        else
            find_here(s, first, some);
        s->work.first = first, s->work.some = some;
        run(s, CUDA_CLUSTER_NEAR);
    }
}

static void pair_all(struct side *s)
{
    const uint64_t stride = vector_stride(s->rows.dimension);
    for (uint32_t first = 0; first < s->work.count; first += PAIR_SOME) {
        const uint32_t left = s->work.count - first, some = left < PAIR_SOME ? left : PAIR_SOME;
        const struct cuda_rows rows = {s->rows.dimension, s->work.rows, s->work.norms,
                                       first + some};
        const struct cuda_queries queries = {s->work.rows + first * stride, s->work.norms + first,
                                             some};
        if (s->device)
            DEVICE(cuda_tile(METRIC_COSINE, &queries, &rows, s->cosines, first + some, NULL));
        for (uint32_t i = 0; !s->device && i < some; i++) {
            const struct row_block block = {rows.rows, rows.norms, rows.count};
            s->kernels->scan(METRIC_COSINE, rows.dimension, queries.rows + i * stride,
                             queries.norms[i], block,
                             (float *)s->cosines + (uint64_t)i * rows.count);
        }
        s->work.first = first, s->work.some = some;
        run(s, CUDA_CLUSTER_PAIRS);
    }
}

/* ---- merges, as the GPU process enqueues them ---- */

static void merge_all(struct side *s)
{
    s->work.fresh = true;
    s->work.steps = STEPS;
    while (!s->state.ended) {
        const uint32_t before = s->state.merges;
        s->work.live = s->state.live;
        s->work.merges = before;
        run(s, s->work.average ? CUDA_CLUSTER_ADD : CUDA_CLUSTER_MERGE);
        read_back(s, &s->state, s->work.state, sizeof s->state);
        read_back(s, s->merges + before, s->work.window,
                  (s->state.merges - before) * sizeof *s->merges);
        s->work.fresh = false;
    }
}

static void cluster(struct side *s, float second)
{
    s->work.live = s->work.count;
    run(s, CUDA_CLUSTER_BEGIN);
    read_back(s, &s->state, s->work.state, sizeof s->state);
    if (s->work.average)
        pair_all(s);
    else
        find_all(s);
    merge_all(s);
    if (s->work.average || second >= s->work.threshold) return;
    s->work.live = s->state.live;
    run(s, CUDA_CLUSTER_AGAIN);
    read_back(s, &s->state, s->work.state, sizeof s->state);
    s->work.threshold = second;
    if (s->state.ended) return;
    find_all(s);
    merge_all(s);
}

/* ---- an instance ---- */

struct instance {
    uint32_t count, dimension;
    const float *rows, *norms; /* of scattered_count rows, padded */
    uint32_t scattered_count;
    const uint32_t *positions;
    const float *times;
    bool average;
    float threshold, second;
    uint32_t size_min;
};

static void *copied(const struct side *s, const void *from, uint64_t bytes)
{
    if (!from) return NULL;
    void *to = take(s, bytes);
    if (s->device)
        DEVICE(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    else
        memcpy(to, from, bytes);
    return to;
}

static void open_side(struct side *s, const struct instance *c)
{
    struct cuda_cluster *w = &s->work;
    const uint64_t found = (uint64_t)NEAR_SOME * CUDA_CLUSTER_FOUND;
    const uint64_t row_bytes = vector_stride(c->dimension) * sizeof(float);
    s->kernels = vectors_choose("auto");
    s->rows = (struct cuda_rows){c->dimension, copied(s, c->rows, c->scattered_count * row_bytes),
                                 copied(s, c->norms, c->scattered_count * sizeof(float)),
                                 c->scattered_count};
    *w = (struct cuda_cluster){.average = c->average,
                               .count = c->count,
                               .positions = copied(s, c->positions, c->count * sizeof(uint32_t)),
                               .times = copied(s, c->times, c->count * sizeof(float)),
                               .threshold = c->threshold,
                               .size_min = c->size_min};
    s->memory = take(s, cuda_cluster_layout(c->dimension, NULL, w));
    cuda_cluster_layout(c->dimension, s->memory, w);
    w->state = take(s, sizeof *w->state);
    w->window = take(s, STEPS * sizeof *w->window);
    s->merges = calloc(c->count, sizeof *s->merges);
    if (c->average) {
        w->cosines = s->cosines = take(s, (uint64_t)PAIR_SOME * c->count * sizeof(float));
        return;
    }
    w->found_ids = s->found_ids = take(s, found * sizeof(uint64_t));
    w->found_scores = s->found_scores = take(s, found * sizeof(float));
    w->found_counts = s->found_counts = take(s, NEAR_SOME * sizeof(uint32_t));
    if (!s->device) return;
    s->scratch_bytes = cuda_topk_scratch_best(NEAR_SOME, CUDA_CLUSTER_FOUND, c->count);
    s->scratch = take(s, s->scratch_bytes);
}

static void close_side(struct side *s)
{
    give(s, (void *)s->rows.rows), give(s, (void *)s->rows.norms);
    give(s, (void *)s->work.positions), give(s, (void *)s->work.times);
    give(s, s->memory), give(s, s->work.state), give(s, s->work.window);
    give(s, s->cosines), give(s, s->found_ids), give(s, s->found_scores);
    give(s, s->found_counts), give(s, s->scratch);
    free(s->merges);
}

static void differs(const char *what, uint64_t name, uint64_t at)
{
    if (differing++ < SHOWN)
        printf("DIFFERS %llu: %s %llu\n", (unsigned long long)name, what, (unsigned long long)at);
}

static void compare_merges(const struct side *a, const struct side *b, uint64_t name)
{
    compared += b->state.merges + 3;
    if (a->state.merges != b->state.merges) differs("merges", name, a->state.merges);
    if (!a->work.average && a->state.scans != b->state.scans)
        differs("scans", name, a->state.scans);
    if (a->state.live != b->state.live) differs("clusters left", name, a->state.live);
    for (uint32_t i = 0; i < a->state.merges && i < b->state.merges; i++)
        if (memcmp(&a->merges[i], &b->merges[i], sizeof a->merges[i]) != 0)
            differs("merge", name, i);
}

/* Of what is left the centroids, by id. */
static void compare_centroids(const struct side *a, const struct side *b, uint64_t name)
{
    const uint64_t stride = vector_stride(a->rows.dimension), n = a->work.count;
    uint32_t *at = malloc(n * sizeof *at);
    float *row = malloc(stride * sizeof *row), norm;
    if (!at || !row) abort();
    read_back(a, at, a->work.at, n * sizeof *at);
    for (uint32_t slot = 0; slot < b->state.live; slot++) {
        const uint32_t id = b->work.ids[slot];
        if (at[id] >= n) {
            differs("slot", name, id);
            continue;
        }
        read_back(a, row, a->work.rows + at[id] * stride, stride * sizeof *row);
        read_back(a, &norm, a->work.norms + at[id], sizeof norm);
        compared += stride + 1;
        if (memcmp(row, b->work.rows + slot * stride, stride * sizeof *row) != 0)
            differs("centroid", name, id);
        if (memcmp(&norm, &b->work.norms[slot], sizeof norm) != 0) differs("norm", name, id);
    }
    free(at), free(row);
}

static void check(const struct instance *c, uint64_t name)
{
    struct side there = {.device = true}, here = {0};
    open_side(&there, c);
    open_side(&here, c);
    cluster(&there, c->second);
    cluster(&here, c->second);
    compare_merges(&there, &here, name);
    if (!c->average && there.state.live == here.state.live) compare_centroids(&there, &here, name);
    close_side(&there);
    close_side(&here);
}

/* Rows of an instance among others, and norms of all. */
static void scatter(const float *data, struct instance *c, float *rows, float *norms,
                    uint32_t *positions, uint64_t seed)
{
    const uint64_t stride = vector_stride(c->dimension);
    const struct vector_kernels *kernels = vectors_choose("auto");
    const uint32_t most = c->scattered_count;
    memset(rows, 0, most * stride * sizeof *rows);
    for (uint32_t i = 0; i < c->count; i++)
        positions[i] = i + most - c->count;
    for (uint32_t i = c->count; i-- > 1;) {
        const uint32_t k = (uint32_t)(sample_random(&seed) % (i + 1)), was = positions[i];
        positions[i] = positions[k], positions[k] = was;
    }
    for (uint32_t i = 0; i < c->count; i++)
        memcpy(rows + positions[i] * stride, data + (uint64_t)i * c->dimension,
               c->dimension * sizeof *rows);
    kernels->norms(c->dimension, rows, most, norms);
}

static void check_case(enum cluster_shape shape, uint32_t count, uint32_t dimension, uint32_t size,
                       uint64_t seed)
{
    const uint32_t most = count + 5;
    float *data = cluster_make(shape, count, dimension, size, (unsigned)seed);
    float *rows = samples_allocate(most * vector_stride(dimension)),
          *norms = samples_allocate(most);
    float *times = samples_allocate(count);
    uint32_t *positions = malloc(count * sizeof *positions);
    if (!positions) abort();
    for (uint32_t i = 0; i < count; i++)
        times[i] = (float)(sample_random(&seed) % 50);
    struct instance c = {.count = count,
                         .dimension = dimension,
                         .rows = rows,
                         .norms = norms,
                         .scattered_count = most,
                         .positions = positions,
                         .threshold = 0.8f,
                         .second = 0.9f,
                         .size_min = 3};
    scatter(data, &c, rows, norms, positions, seed);
    check(&c, seed);
    c.threshold = 0.9f, c.second = 0.7f;
    check(&c, seed);
    c.threshold = -1.0f, c.second = 1.0f;
    check(&c, seed);
    c.average = true, c.threshold = 0.55f;
    check(&c, seed);
    c.times = times;
    check(&c, seed);
    free(data), free(positions);
    samples_free(rows), samples_free(norms), samples_free(times);
}

static void check_all(bool small, bool tiny, uint64_t seed)
{
    static const struct {
        uint32_t count, dimension, size;
    } cases[] = {{2, 1, 1},    {3, 4, 2},     {40, 24, 5},     {61, 33, 6},    {130, 7, 9},
                 {300, 64, 8}, {700, 40, 20}, {200, 1100, 10}, {1500, 24, 40}, {2600, 16, 300}};
    const size_t all = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < (tiny ? 3 : small ? 6 : all); i++)
        for (int shape = 0; shape < CLUSTER_SHAPES; shape++)
            check_case((enum cluster_shape)shape, cases[i].count, cases[i].dimension, cases[i].size,
                       seed + 100 * i + (uint64_t)shape);
}

/* ---- times ---- */

static float normal(uint64_t *seed)
{
    float sum = 0.0f;
    for (int i = 0; i < 6; i++)
        sum += sample_uniform(seed);
    return sum * 0.7071f;
}

/* planted: rows about centres, `size` each on average; else a star (size 0), whose rows are all
 * about one centre, or a chain (size 1), each near the last. */
static void fill(float *rows, uint32_t count, uint32_t d, uint32_t size, uint64_t seed)
{
    const uint32_t centres = size > 1 ? count / size : 1;
    float *centre = malloc((uint64_t)centres * d * sizeof *centre);
    if (!centre) abort();
    for (uint64_t i = 0; i < (uint64_t)centres * d; i++)
        centre[i] = normal(&seed);
    for (uint32_t i = 0; i < count; i++) {
        float *row = rows + (uint64_t)i * d;
        const float *from = size == 1 && i ? row - d : centre + sample_random(&seed) % centres * d;
        const float near = size == 1 ? 0.9f : 1.0f;
        for (uint32_t k = 0; k < d; k++)
            row[k] = near * from[k] + 0.44f * normal(&seed);
    }
    free(centre);
}

static void bench(const char *what, uint32_t count, uint32_t size, bool average, double asked_s)
{
    enum { D = 768 };
    float *rows = samples_allocate((uint64_t)count * D), *norms = samples_allocate(count);
    fill(rows, count, D, size, count + size);
    vectors_choose("auto")->norms(D, rows, count, norms);
    const struct instance c = {.count = count,
                               .dimension = D,
                               .rows = rows,
                               .norms = norms,
                               .scattered_count = count,
                               .average = average,
                               .threshold = average ? 0.55f : 0.8f,
                               .second = 0.9f,
                               .size_min = 3};
    struct side s = {.device = true};
    cudaEvent_t at[3];
    float ms = 0.0f, begun = 0.0f;
    for (int i = 0; i < 3; i++)
        DEVICE(cudaEventCreate(&at[i]));
    open_side(&s, &c);
    s.work.live = count;
    DEVICE(cudaDeviceSynchronize());
    DEVICE(cudaEventRecord(at[0], NULL));
    run(&s, CUDA_CLUSTER_BEGIN);
    read_back(&s, &s.state, s.work.state, sizeof s.state);
    if (average)
        pair_all(&s);
    else
        find_all(&s);
    DEVICE(cudaEventRecord(at[1], NULL));
    merge_all(&s);
    DEVICE(cudaEventRecord(at[2], NULL));
    DEVICE(cudaEventSynchronize(at[2]));
    DEVICE(cudaEventElapsedTime(&begun, at[0], at[1]));
    DEVICE(cudaEventElapsedTime(&ms, at[0], at[2]));
    printf("cluster: %s, %s, %u x %d: %.3f s (asked %.1f), of which all against all %.3f s; "
           "%u merges, %.2f us each, %.2f scans a merge\n",
           average ? "average" : "centroid", what, count, (int)D, ms / 1e3, asked_s, begun / 1e3,
           s.state.merges, 1e3 * (ms - begun) / (s.state.merges ? s.state.merges : 1),
           (double)s.state.scans / (s.state.merges ? s.state.merges : 1));
    fflush(stdout);
    close_side(&s);
    for (int i = 0; i < 3; i++)
        cudaEventDestroy(at[i]);
    if (count <= 2000) check(&c, count);
    samples_free(rows), samples_free(norms);
}

static void bench_all(uint64_t most, const char *data)
{
    static const struct {
        const char *what;
        uint32_t count, size;
        bool average;
        double asked_s;
    } rows[] = {
        {"planted", 1000, 20, false, 0.5},  {"planted", 5000, 20, false, 0.5},
        {"chain", 5000, 1, false, 5},       {"star", 5000, 0, false, 5},
        {"planted", 20000, 20, false, 2.5}, {"chain", 20000, 1, false, 25},
        {"star", 20000, 0, false, 25},      {"planted", 1000, 20, true, 1},
        {"planted", 5000, 20, true, 1},     {"chain", 5000, 1, true, 1},
        {"star", 5000, 0, true, 1},         {"planted", 100000, 20, false, 20},
        {"chain", 100000, 1, false, 200},   {"star", 100000, 0, false, 200},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].count <= most && (!data || strcmp(data, rows[i].what) == 0))
            bench(rows[i].what, rows[i].count, rows[i].size, rows[i].average, rows[i].asked_s);
}

int main(int argc, char **argv)
{
    bool small = false, tiny = false, benches = false;
    uint64_t seed = 1, most = UINT64_MAX;
    const char *data = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            small = true;
        else if (strcmp(argv[i], "--tiny") == 0)
            tiny = true;
        else if (strcmp(argv[i], "--bench") == 0)
            benches = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            most = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            data = argv[++i];
        else
            seed = strtoull(argv[i], NULL, 0);
    }
    device_open();
    check_all(small, tiny, seed);
    printf("cluster: %llu numbers, %llu differ: %s\n", (unsigned long long)compared,
           (unsigned long long)differing, differing ? "FAIL" : "ok");
    fflush(stdout);
    if (benches) bench_all(most, data);
    if (differing) printf("cluster: %llu differ: FAIL\n", (unsigned long long)differing);
    return differing != 0;
}
