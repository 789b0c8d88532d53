/* bench_screen: kNN with the certified screen against the exact tile, same data and same threads,
 * through the operation alone (no socket): where it must win, and where it must not lose much. */
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "tests/bench/bench.h"
#include "tests/support/run_job.h"

enum data { UNIFORM, CLUSTERED, NEAR_DUPLICATE };

struct scene {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    float *queries;
};

static void fill(float *rows, uint64_t count, uint32_t dimension, enum data data, uint64_t seed)
{
    uint64_t centres = data == CLUSTERED ? 300 : 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t centre = 1000 + bench_random(&seed) % centres;
        for (uint32_t c = 0; c < dimension; c++) {
            float near = data == UNIFORM ? 0.0f : bench_random_float(&centre);
            float spread = data == UNIFORM ? 1.0f : data == CLUSTERED ? 0.3f : 1e-6f;
            rows[i * dimension + c] = near + spread * bench_random_float(&seed);
        }
    }
}

static struct scene open_scene(uint32_t dimension, uint64_t rows, uint64_t queries,
                               enum metric metric, enum data data)
{
    struct scene s;
    enum { CHUNK = 2000 };
    uint64_t ids[CHUNK];
    float *chunk = aligned_alloc(64, (uint64_t)CHUNK * dimension * sizeof *chunk);
    s.queries = aligned_alloc(64, (queries * dimension * sizeof *s.queries + 63) / 64 * 64);
    if (heap_create(UINT64_C(4) << 30, &s.heap) ||
        store_create(s.heap, vectors_choose("auto"), &s.store) ||
        store_space(s.store, "bench", &s.space) ||
        store_collection_create(s.store, s.space, "c", dimension, metric, NULL, &s.collection))
        bench_fail("bench_screen", "no collection");
    fill(s.queries, queries, dimension, data, 7);
    for (uint64_t first = 0; first < rows; first += CHUNK) {
        struct upsert_counts counts;
        fill(chunk, CHUNK, dimension, data, first + 100);
        for (uint64_t i = 0; i < CHUNK; i++)
            ids[i] = first + i;
        if (collection_upsert(s.collection, ids, chunk, CHUNK, &counts, NULL))
            bench_fail("bench_screen", "no rows");
    }
    free(chunk);
    return s;
}

static void close_scene(struct scene *s)
{
    store_destroy(s->store);
    heap_destroy(s->heap);
    free(s->queries);
}

static double run_s(struct job *j)
{
    run_job_reset(j);
    double start = bench_now_s();
    if (run_job(j, 1)) bench_fail("bench_screen", j->failure.text);
    return bench_now_s() - start;
}

static uint32_t threads = 1;
static bool quick;

static bool compare(const char *what, uint32_t dimension, uint64_t rows, uint64_t queries,
                    uint32_t k, enum metric metric, enum data data, double target)
{
    struct scene s = open_scene(dimension, rows, queries, metric, data);
    struct vector_kernels exact_only = *vectors_choose("auto");
    exact_only.screen = NULL;
    struct job j = {.operation = OPERATION_KNN,
                    .space = s.space,
                    .resident = collection_resident(s.collection),
                    .collection = collection_now(s.collection),
                    .heap = s.heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = threads,
                    .reply_bytes_max = UINT64_C(1) << 28};
    j.request.queries = (struct tensor){DTYPE_FLOAT32, queries, dimension, s.queries};
    j.request.k = k;
    struct job exact = j;
    exact.kernels = &exact_only;
    enum { RUNS_MAX = 7 };
    double screened_s[RUNS_MAX], exact_s[RUNS_MAX];
    size_t runs = quick ? 3 : RUNS_MAX;
    run_s(&j);
    for (size_t i = 0; i < runs; i++) {
        exact_s[i] = run_s(&exact);
        screened_s[i] = run_s(&j);
    }
    if (j.result.body_bytes != exact.result.body_bytes ||
        memcmp(j.result.block.data, exact.result.block.data, j.result.body_bytes))
        bench_fail(what, "the screen changed the result");
    double a = bench_percentile(screened_s, runs, 50), b = bench_percentile(exact_s, runs, 50);
    char title[96], ours[32], peer[32];
    snprintf(title, sizeof title, "%s, %lu x %u, %lu queries, k %u", what, rows, dimension, queries,
             k);
    snprintf(ours, sizeof ours, "%.1f ms", a * 1e3);
    snprintf(peer, sizeof peer, "%.1f ms", b * 1e3);
    bool met = bench_row(title, ours, peer, b / a, true, target);
    run_job_reset(&j);
    run_job_reset(&exact);
    close_scene(&s);
    return met;
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--quick")) quick = true;
        if (!strcmp(arguments[i], "--threads") && i + 1 < count)
            threads = (uint32_t)atoi(arguments[i + 1]);
    }
    const enum metric l2 = METRIC_SQUARED_EUCLIDEAN;
    bool met = true;
    bench_header("kNN with the certified screen; peer: the exact tile");
    met &= compare("Euclidean", 768, 40000, 8, 10, l2, UNIFORM, 1.0);
    met &= compare("Euclidean", 768, 40000, 16, 10, l2, UNIFORM, 1.0);
    met &= compare("Euclidean", 768, 40000, 256, 10, l2, UNIFORM, 1.3);
    met &= compare("Euclidean", 768, 40000, 256, 1000, l2, UNIFORM, 1.0);
    met &= compare("Euclidean", 64, 40000, 256, 10, l2, UNIFORM, 1.0);
    met &= compare("Euclidean, clustered", 768, 40000, 256, 10, l2, CLUSTERED, 1.2);
    met &= compare("Euclidean, near-duplicates", 768, 40000, 256, 10, l2, NEAR_DUPLICATE, 0.77);
    met &= compare("Euclidean", 1536, 20000, 128, 10, l2, UNIFORM, 2.0);
    met &= compare("dot", 1536, 20000, 128, 10, METRIC_DOT, UNIFORM, 2.0);
    met &= compare("cosine", 1536, 20000, 128, 10, METRIC_COSINE, UNIFORM, 2.0);
    met &= compare("cosine", 1536, 20000, 2, 10, METRIC_COSINE, UNIFORM, 1.0);
    met &= compare("cosine", 4096, 8000, 64, 10, METRIC_COSINE, UNIFORM, 2.0);
    met &= compare("cosine, clustered", 1536, 20000, 128, 10, METRIC_COSINE, CLUSTERED, 2.0);
    met &= compare("cosine, near-duplicates", 1536, 20000, 128, 10, METRIC_COSINE, NEAR_DUPLICATE,
                   0.77);
    return !met;
}
