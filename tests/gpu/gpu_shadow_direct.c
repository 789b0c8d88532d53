/* gpu_shadow_direct [--small|--tiny|--time]: one query that travels with the launch, through rows
 * in int8 (cuda_shadow_direct), beside cuda_topk's answers, bit for bit, over scratch full of
 * garbage. Exit 1 if one differs. --small is for compute-sanitizer, --tiny for its racecheck.
 * --time: how long it takes from the host, beside cuda_direct, with and without codes fetched
 * ahead. */
#include <time.h>

#include "daemon/gpu/device_cells.h"
#include "kernels/topk.h"
#include "tests/gpu/shadow_kinds.h"

enum { QUERIES = 32, K_MAX = CUDA_DIRECT_K_MAX, REPEATS = 1000, WARM = 50 };

/* Places on the device and on the host, and the question. */
struct asker {
    const struct scene *scene;
    struct cuda_queries one;
    struct cuda_topk exact;
    struct cuda_direct direct;
    uint64_t *row_ids, *cells;
    float *query, threshold;
    uint64_t questions, differ, scored;
};

static uint32_t last_tag;

static struct asker asker_create(const struct scene *s)
{
    const uint64_t rows = s->rows.count;
    struct asker a = {.scene = s, .query = samples_allocate(vector_stride(s->dimension))};
    uint64_t *ids = malloc(rows * sizeof *ids);
    if (!ids) abort();
    for (uint64_t r = 0; r < rows; r++)
        ids[r] = r * 0x9e3779b97f4a7c15u;
    a.row_ids = device_copy_of(ids, rows * sizeof *ids);
    free(ids);
    a.exact.scratch_bytes = cuda_topk_scratch_best(1, K_MAX, rows);
    a.exact.scratch = device_allocate(a.exact.scratch_bytes);
    a.exact.out_ids = device_allocate(K_MAX * sizeof *a.exact.out_ids);
    a.exact.out_scores = device_allocate(K_MAX * sizeof *a.exact.out_scores);
    a.exact.out_counts = device_allocate(sizeof *a.exact.out_counts);
    a.direct.scratch_bytes = cuda_shadow_direct_scratch(rows);
    if (a.direct.scratch_bytes < cuda_direct_scratch_best(K_MAX))
        a.direct.scratch_bytes = cuda_direct_scratch_best(K_MAX);
    a.direct.scratch = device_allocate(a.direct.scratch_bytes);
    DEVICE(cudaHostAlloc((void **)&a.cells, cells_count_shadow(K_MAX) * sizeof *a.cells,
                         cudaHostAllocDefault));
    a.direct.cells = a.cells;
    a.direct.query = a.query;
    return a;
}

static void asker_destroy(struct asker *a)
{
    cudaFree(a->row_ids), cudaFree(a->exact.scratch), cudaFree(a->exact.out_ids);
    cudaFree(a->exact.out_scores), cudaFree(a->exact.out_counts), cudaFree(a->direct.scratch);
    cudaFreeHost(a->cells);
    samples_free(a->query);
}

static void choose_query(struct asker *a, uint64_t query)
{
    const struct scene *s = a->scene;
    size_t stride = vector_stride(s->dimension);
    a->one.rows = s->queries.rows + query * stride;
    a->one.norms = s->queries.norms + query;
    a->one.count = 1;
    device_read(a->query, a->one.rows, stride * sizeof(float));
    device_read(&a->direct.query_norm, a->one.norms, sizeof(float));
}

/* Launches, and waits until all cells have come; a launch that is over must have filled them. */
static struct cells ask(struct asker *a, enum metric metric, uint32_t k, bool watch)
{
    struct cells c;
    a->direct.k = k;
    a->direct.tag = ++last_tag;
    cells_init(&c, a->cells, (uint32_t)cells_count_shadow(k), last_tag);
    DEVICE(cuda_shadow_direct(metric, &a->scene->rows, &a->scene->shadow, &a->direct, NULL));
    if (!watch) DEVICE(cudaDeviceSynchronize());
    while (!cells_came(&c))
        if (cudaStreamQuery(NULL) != cudaErrorNotReady && !cells_came(&c)) {
            printf("FAIL: %u of %u cells have come: %s\n", c.seen, c.count,
                   cudaGetErrorString(cudaGetLastError()));
            exit(1);
        }
    return c;
}

/* Returns whether the answer differs from cuda_topk's. */
static bool compare(struct asker *a, enum metric metric, uint32_t k, bool ids, bool threshold)
{
    uint64_t want_ids[K_MAX], wrong = 0;
    float want_scores[K_MAX];
    uint32_t count;
    a->exact.k = k;
    a->exact.ids = a->direct.ids = ids ? a->row_ids : NULL;
    a->exact.threshold = a->direct.threshold = threshold ? &a->threshold : NULL;
    DEVICE(cuda_topk(metric, &a->one, &a->scene->rows, &a->exact, NULL));
    device_read(&count, a->exact.out_counts, sizeof count);
    device_read(want_ids, a->exact.out_ids, k * sizeof *want_ids);
    device_read(want_scores, a->exact.out_scores, k * sizeof *want_scores);
    if (a->questions % 5 == 0) DEVICE(cudaMemset(a->direct.scratch, 0xdb, a->direct.scratch_bytes));
    struct cells c = ask(a, metric, k, a->questions % 2);
    wrong += cells_number(&c, 0) != count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = cells_number(&c, 1 + 2 * k + i);
        uint64_t id = cells_number(&c, 1 + i) | (uint64_t)cells_number(&c, 1 + k + i) << 32;
        wrong += id != want_ids[i] || memcmp(&bits, &want_scores[i], sizeof bits) != 0;
    }
    a->questions++;
    a->scored += cells_number(&c, 1 + 3 * k);
    a->differ += wrong > 0;
    if (wrong)
        printf("DIFFERS %-10s %5u x %llu %-9s k %2u%s%s: %llu of %u\n", a->scene->name,
               a->scene->dimension, (unsigned long long)a->scene->rows.count, metric_names[metric],
               k, ids ? " ids" : "", threshold ? " threshold" : "", (unsigned long long)wrong,
               count);
    return wrong > 0;
}

static void check_scene(const struct scene *s, uint64_t queries, struct asker *all)
{
    static const uint32_t ks[] = {10, 1, K_MAX};
    struct asker a = asker_create(s);
    for (uint64_t q = 0; q < queries; q++) {
        choose_query(&a, q);
        for (int m = METRIC_COSINE; m <= METRIC_SQUARED_EUCLIDEAN; m++)
            for (size_t n = 0; n < 2 * sizeof ks / sizeof *ks; n++) {
                a.threshold = m == METRIC_COSINE ? 0.05f : 1.5f;
                cuda_shadow_direct_ahead((q + n) % 3 != 0);
                compare(&a, (enum metric)m, ks[n / 2], (q + n) % 3 == 0, n % 2);
            }
    }
    printf("%-10s %5u x %7llu: %5llu questions, scored %9.1f rows of each, %llu differ%s\n",
           s->name, s->dimension, (unsigned long long)s->rows.count,
           (unsigned long long)a.questions, (double)a.scored / (double)a.questions,
           (unsigned long long)a.differ, a.differ ? "  FAIL" : "");
    fflush(stdout);
    all->questions += a.questions, all->differ += a.differ;
    asker_destroy(&a);
}

static void check_random(uint32_t dimension, size_t rows, uint64_t queries, struct asker *all)
{
    struct scene s = scene_random(dimension, rows, queries);
    check_scene(&s, queries, all);
    scene_destroy(&s);
}

static void check_all(bool small, bool tiny, struct asker *all)
{
    static const uint32_t dimensions[] = {33, 768, 1000};
    const uint64_t queries = tiny ? 1 : small ? 2 : QUERIES;
    for (size_t kind = 0; kind < KINDS; kind += tiny ? KINDS : small ? 4 : 1)
        for (size_t d = 0; d < (tiny ? 1 : small ? 2 : 3); d++) {
            if (!cuda_shadow_direct_suits(dimensions[d], 1, 8000)) continue;
            size_t rows = tiny ? 4096 : 7001 + 128 * d + kind;
            struct scene s = scene_create((enum kind)kind, dimensions[d], rows, QUERIES);
            check_scene(&s, queries, all);
            scene_destroy(&s);
        }
    if (small || tiny) return;
    check_random(1, 5000, 8, all);
    check_random(256, 100001, QUERIES, all);
    check_random(512, 100000, QUERIES, all);
    check_random(768, 300007, QUERIES, all);
    struct scene equal = scene_create(EQUAL, 64, 200007, QUERIES); /* the list overflows a rank */
    check_scene(&equal, 4, all);
    scene_destroy(&equal);
    struct scene tight = scene_create(TIGHT, 64, 200007, QUERIES);
    check_scene(&tight, 4, all);
    scene_destroy(&tight);
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

/* how: 0 cuda_direct; 1 through the shadow; 2 that with codes fetched ahead. */
static void ask_how(struct asker *a, int how, uint32_t k)
{
    struct cells c;
    uint64_t count = how ? cells_count_shadow(k) : cells_count(k, 0);
    a->direct.k = k;
    a->direct.tag = ++last_tag;
    cells_init(&c, a->cells, (uint32_t)count, last_tag);
    cuda_shadow_direct_ahead(how == 2);
    DEVICE(how ? cuda_shadow_direct(METRIC_COSINE, &a->scene->rows, &a->scene->shadow, &a->direct,
                                    NULL)
               : cuda_direct(METRIC_COSINE, &a->scene->rows, &a->direct, NULL));
    while (!cells_came(&c))
        continue;
}

static void measure_scene(const struct scene *s, uint32_t k)
{
    static const char *const hows[] = {"without", "shadow", "shadow, ahead"};
    static double times[REPEATS];
    struct asker a = asker_create(s);
    choose_query(&a, 0);
    a.direct.ids = a.row_ids;
    printf("%-7s x %4u, %7llu rows, k = %2u, p50 (p99) us:", s->name, s->dimension,
           (unsigned long long)s->rows.count, k);
    for (int how = 0; how < 3; how++) {
        for (int i = -WARM; i < REPEATS; i++) {
            double start = now_us();
            ask_how(&a, how, k);
            if (i >= 0) times[i] = now_us() - start;
        }
        qsort(times, REPEATS, sizeof *times, rising);
        printf(" %s %.1f (%.1f)%s", hows[how], times[REPEATS / 2], times[REPEATS * 99 / 100],
               how < 2 ? "," : "\n");
    }
    fflush(stdout);
    asker_destroy(&a);
}

static void measure(uint32_t dimension, size_t rows, uint32_t k)
{
    struct scene s = scene_random(dimension, rows, QUERIES);
    measure_scene(&s, k);
    scene_destroy(&s);
}

/* Rows that a shadow does not tell apart: all are scored. */
static void measure_kind(enum kind kind)
{
    struct scene s = scene_create(kind, 768, 100000, QUERIES);
    measure_scene(&s, 10);
    scene_destroy(&s);
}

static void measure_all(void)
{
    static const size_t counts[] = {5000, 10000, 16000, 20000, 30000, 50000, 100000, 1000000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        measure(768, counts[i], 10);
    measure_kind(EQUAL);
    measure_kind(TIGHT);
    measure(768, 100000, K_MAX);
    measure(384, 100000, 10);
    measure(384, 20000, 10);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct asker all = {0};
    device_open();
    if (!cuda_shadow_direct_suits(768, 10, 100000)) {
        printf("SKIP: the device starts no blocks together\n");
        return SKIPPED;
    }
    if (!strcmp(how, "--time")) {
        measure_all();
        return 0;
    }
    check_all(!strcmp(how, "--small"), !strcmp(how, "--tiny"), &all);
    printf("shadow, direct: %llu questions, %llu differ: %s\n", (unsigned long long)all.questions,
           (unsigned long long)all.differ, all.differ ? "FAIL" : "ok");
    return all.differ != 0;
}
