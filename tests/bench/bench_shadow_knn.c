/* bench_shadow_knn: kNN through rows in int8 against the exact one, same rows, same threads, the
 * operation alone (no socket): by queries, k and kinds of rows, once all rows are coded; and what a
 * search costs that finds its rows useless to screen. */
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "tests/bench/bench.h"
#include "tests/support/run_job.h"

enum { DIMENSION = 768, CHUNK = 2000, RUNS = 9, WARM = 14 };
enum data { UNIFORM, CLUSTERED, EQUAL };

static uint64_t row_count = 100000;
static uint32_t threads = 1;

static void fill(float *rows, uint64_t count, enum data data, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t centre = 1000 + bench_random(&seed) % 100;
        for (uint32_t c = 0; c < DIMENSION; c++) {
            float near = data == UNIFORM ? 0.0f : bench_random_float(&centre);
            float noise = bench_random_float(&seed);
            rows[i * DIMENSION + c] = data == EQUAL ? 0.5f : near + noise * (near != 0 ? 0.3f : 1);
        }
    }
}

struct place {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    float *queries;
};

static struct place place_open(enum data data, uint64_t queries)
{
    struct place p;
    uint64_t ids[CHUNK];
    float *chunk = aligned_alloc(64, (uint64_t)CHUNK * DIMENSION * sizeof *chunk);
    p.queries = aligned_alloc(64, queries * DIMENSION * sizeof *p.queries);
    if (heap_create(UINT64_C(4) << 30, &p.heap) ||
        store_create(p.heap, vectors_choose("auto"), &p.store) ||
        store_space(p.store, "bench", &p.space) ||
        store_collection_create(p.store, p.space, "c", DIMENSION, METRIC_COSINE, NULL,
                                &p.collection))
        bench_fail("bench_shadow_knn", "no collection");
    fill(p.queries, queries, data, 7);
    for (uint64_t first = 0; first < row_count; first += CHUNK) {
        struct upsert_counts counts;
        fill(chunk, CHUNK, data, first + 100);
        for (uint64_t i = 0; i < CHUNK; i++)
            ids[i] = first + i;
        if (collection_upsert(p.collection, ids, chunk, CHUNK, &counts, NULL))
            bench_fail("bench_shadow_knn", "no rows");
    }
    free(chunk);
    return p;
}

static double run_s(struct job *j)
{
    run_job_reset(j);
    double start = bench_now_s();
    if (run_job(j, 1)) bench_fail("bench_shadow_knn", j->failure.text);
    return bench_now_s() - start;
}

static void compare(const char *what, enum data data, uint64_t queries, uint32_t k, double target)
{
    struct place p = place_open(data, queries);
    struct shadows *shadows = store_shadows(p.store);
    struct job j = {.operation = OPERATION_KNN,
                    .space = p.space,
                    .resident = collection_resident(p.collection),
                    .collection = collection_now(p.collection),
                    .heap = p.heap,
                    .kernels = vectors_choose("auto"),
                    .worker_count = threads,
                    .reply_bytes_max = UINT64_C(1) << 30};
    double exact[RUNS], coded[RUNS];
    char ours[32], peer[32], title[80];
    j.request.queries = (struct tensor){DTYPE_FLOAT32, queries, DIMENSION, p.queries};
    j.request.k = k;
    run_s(&j);
    for (int i = 0; i < RUNS; i++)
        exact[i] = run_s(&j);
    shadows_allow(shadows, true);
    for (int i = 0; i < WARM; i++)
        run_s(&j);
    struct shadow_info before = collection_shadow_info(p.collection);
    for (int i = 0; i < RUNS; i++)
        coded[i] = run_s(&j);
    struct shadow_info after = collection_shadow_info(p.collection);
    double a = bench_percentile(coded, RUNS, 50), b = bench_percentile(exact, RUNS, 50);
    double pairs = (double)(after.screened - before.screened);
    snprintf(ours, sizeof ours, "%.2f ms", a * 1e3);
    snprintf(peer, sizeof peer, "%.2f ms", b * 1e3);
    snprintf(title, sizeof title, "%s, %lu queries, k %u (%.2f %% pass)", what, queries, k,
             pairs > 0 ? 100 * (double)(after.passed - before.passed) / pairs : 0.0);
    bench_row(title, ours, peer, b / a, true, target);
    run_job_reset(&j);
    store_destroy(p.store);
    heap_destroy(p.heap);
    free(p.queries);
}

int main(int count, char **arguments)
{
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--threads")) threads = (uint32_t)atoi(arguments[i + 1]);
        if (!strcmp(arguments[i], "--rows")) row_count = (uint64_t)atoll(arguments[i + 1]);
    }
    bench_header("kNN through int8, 768 dimensions, cosine; peer: the exact one");
    compare("uniform", UNIFORM, 1, 10, 2.5);
    compare("uniform", UNIFORM, 4, 10, 1.5);
    compare("uniform", UNIFORM, 16, 10, 2.0);
    compare("uniform", UNIFORM, 128, 10, 2.0);
    compare("uniform", UNIFORM, 1, 1000, 1.5);
    compare("clustered", CLUSTERED, 1, 10, 2.0);
    compare("clustered", CLUSTERED, 128, 10, 1.0);
    compare("all equal", EQUAL, 1, 10, 0.95);
    compare("all equal", EQUAL, 128, 10, 0.95);
    return 0;
}
