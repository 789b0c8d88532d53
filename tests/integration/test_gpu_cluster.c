/* Clusterings on a GPU: one that is forced to answer them gives the CPU's bits, whatever the
 * instance; what is wrong has the CPU's words; cancelling ends it; and a process that is killed
 * meanwhile costs nobody an answer, nor what it had merged. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/gpu_scene.h"

enum { ROWS_MAX = 2000 };

static float *rows, *times;
static uint64_t *ids;

struct pair {
    struct gpu_scene gpu, cpu;
};

static ea_client *of(struct pair *p, int i)
{
    return i ? p->cpu.a : p->gpu.a;
}

static void open_pair(struct pair *p, const char *sim)
{
    gpu_scene_open(&p->gpu, sim, (const char *[]){"gpu.heartbeat_ms=10000", NULL});
    gpu_scene_open(&p->cpu, NULL, (const char *[]){"gpu.devices=none", NULL});
    gpu_scene_await(&p->gpu, EA_GPU_READY);
    times = calloc(ROWS_MAX, sizeof *times);
    ids = calloc(ROWS_MAX, sizeof *ids);
    cr_assert(times && ids);
}

static void close_pair(struct pair *p)
{
    gpu_scene_close(&p->gpu);
    gpu_scene_close(&p->cpu);
    free(times), free(ids);
}

/* Ids that neither rise nor fall, unless they are `ordered`. */
static void make(struct pair *p, enum cluster_shape shape, uint32_t d, uint64_t count, bool ordered)
{
    cr_assert(count <= ROWS_MAX);
    rows = cluster_make(shape, (uint32_t)count, d, 8, (unsigned)(d + count));
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = ordered ? 2 * i : i * UINT64_C(0x9e3779b97f4a7c15);
        times[i] = (float)(i % 9);
    }
    ea_rows all = {.collection = "c", .ids = ids, .rows = rows, .count = count, .dimension = d};
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(ea_collection_create(of(p, k), "c", d, EA_DOT, NULL), EA_OK);
        cr_assert_eq(ea_upsert(of(p, k), &all, NULL), EA_OK);
    }
}

static void drop(struct pair *p)
{
    for (int k = 0; k < 2; k++)
        cr_assert_eq(ea_collection_drop(of(p, k), "c"), EA_OK);
    free(rows);
}

static bool same(const ea_clusters *a, const ea_clusters *b)
{
    return a->rows == b->rows && a->count == b->count && a->merges == b->merges &&
           a->dimension == b->dimension && !a->ids == !b->ids &&
           memcmp(a->labels, b->labels, a->rows * sizeof *a->labels) == 0 &&
           memcmp(a->sizes, b->sizes, a->count * sizeof *a->sizes) == 0 &&
           memcmp(a->scores, b->scores, a->count * sizeof *a->scores) == 0 &&
           memcmp(a->centroids, b->centroids, a->count * a->dimension * sizeof(float)) == 0 &&
           (!a->ids || memcmp(a->ids, b->ids, a->rows * sizeof *a->ids) == 0);
}

/* Both say the same. */
static void expect_same(struct pair *p, const ea_cluster_question *q, ea_backend backend)
{
    ea_clusters got = {0}, want = {0};
    ea_status a = ea_cluster(p->gpu.a, q, &got), b = ea_cluster(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
        return;
    }
    if (backend) cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(same(&got, &want), "%d clusters of %d, %d merges for %d", (int)got.count,
              (int)want.count, (int)got.merges, (int)want.merges);
    ea_clusters_free(&got);
    ea_clusters_free(&want);
}

/* One after the other: defaults, two passes that both merge, everything. */
static void expect_all(struct pair *p, uint64_t n, uint32_t d, ea_backend backend)
{
    static const float high = 0.9F, low = 0.6F, none = -1, zero = 0;
    static const uint32_t two = 2;
    for (int i = 0; i < 6; i++) {
        bool average = i >= 3;
        ea_cluster_question q = {.collection = "c",
                                 .rule = average ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID};
        if (i == 1) q.threshold = &high, q.threshold_second = &low, q.size_min = &two;
        if (i == 2) q.threshold = &none;
        if (i == 4) q.times = times, q.time_count = n;
        if (i == 5) q.threshold = &zero;
        expect_same(p, &q, backend);
        q.ids = ids, q.count = n - n / 3;
        q.time_count = q.times ? q.count : 0;
        expect_same(p, &q, backend);
        q.collection = NULL, q.ids = NULL;
        q.rows = rows, q.dimension = d;
        expect_same(p, &q, backend);
    }
}

Test(gpu_cluster, has_the_cpus_bits, .timeout = 900)
{
    static const struct {
        uint32_t dimension;
        uint64_t rows;
    } sizes[] = {{1, 3}, {24, 400}, {33, 150}, {1100, 40}};
    struct pair p;
    open_pair(&p, "multiply_adds=1000");
    for (int shape = 0; shape < CLUSTER_SHAPES; shape++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            make(&p, (enum cluster_shape)shape, sizes[i].dimension, sizes[i].rows, i % 2);
            expect_all(&p, sizes[i].rows, sizes[i].dimension, EA_BACKEND_GPU);
            drop(&p);
        }
    gpu_scene_await_empty(&p.gpu);
    cr_assert_eq(gpu_scene_stats(p.gpu.a).restarts, 0);
    close_pair(&p);
}

/* Centroids go into a collection, which both daemons then have alike. */
Test(gpu_cluster, stores_its_centroids, .timeout = 900)
{
    struct pair p;
    open_pair(&p, NULL);
    make(&p, CLUSTER_PLANTED, 24, 400, false);
    for (int k = 0; k < 2; k++)
        cr_assert_eq(ea_collection_create(of(&p, k), "themes", 24, EA_COSINE, NULL), EA_OK);
    expect_same(&p, &(ea_cluster_question){.collection = "c", .into = "themes", .into_first = 7},
                EA_BACKEND_GPU);
    ea_result got = {0}, want = {0};
    const ea_knn_question q = {
        .collection = "themes", .queries = rows, .query_count = 5, .dimension = 24, .k = 9};
    cr_assert_eq(ea_knn(p.gpu.a, &q, &got), EA_OK);
    cr_assert_eq(ea_knn(p.cpu.a, &q, &want), EA_OK);
    cr_assert_eq(memcmp(got.ids, want.ids, 45 * sizeof *got.ids), 0);
    cr_assert_eq(memcmp(got.scores, want.scores, 45 * sizeof *got.scores), 0);
    ea_result_free(&got);
    ea_result_free(&want);
    for (int k = 0; k < 2; k++)
        cr_assert_eq(ea_collection_drop(of(&p, k), "themes"), EA_OK);
    drop(&p);
    close_pair(&p);
}

/* Without room for the pairs, or the lists: the CPU, which says why. */
Test(gpu_cluster, little_memory, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    struct pair p;
    open_pair(&p, "vram_mib=16");
    make(&p, CLUSTER_PLANTED, 8, ROWS_MAX, true);
    for (int average = 0; average < 2; average++) {
        ea_cluster_question q = {.collection = "c",
                                 .rule = average ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID};
        ea_clusters got = {0};
        cr_assert_eq(ea_cluster(p.gpu.a, &q, &got), EA_OK);
        cr_assert(got.meta->backend == EA_BACKEND_CPU &&
                      got.meta->reason == EA_REASON_VRAM_PRESSURE,
                  "%s", ea_reason_name(got.meta->reason));
        ea_clusters_free(&got);
        expect_same(&p, &q, EA_BACKEND_CPU);
    }
    drop(&p);
    close_pair(&p);
}

Test(gpu_cluster, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 24, ROWS = 100 };
    struct pair p;
    open_pair(&p, NULL);
    make(&p, CLUSTER_PLANTED, D, ROWS, false);
    uint64_t unknown[] = {ids[0], 5, ids[1]};
    ea_cluster_question q = {.collection = "c", .ids = unknown, .count = 3};
    expect_same(&p, &q, EA_BACKEND_NONE);
    q = (ea_cluster_question){
        .collection = "c", .rule = EA_CLUSTER_AVERAGE, .times = times, .time_count = ROWS};
    times[7] = NAN;
    expect_same(&p, &q, EA_BACKEND_NONE);
    q.time_count = 3;
    expect_same(&p, &q, EA_BACKEND_NONE);
    rows[9 * D + 3] = INFINITY;
    q = (ea_cluster_question){.rows = rows, .count = ROWS, .dimension = D};
    expect_same(&p, &q, EA_BACKEND_NONE);
    q.count = 1;
    expect_same(&p, &q, EA_BACKEND_NONE);
    expect_same(&p, &(ea_cluster_question){.collection = "c"}, EA_BACKEND_GPU);
    drop(&p);
    close_pair(&p);
}

/* Kernels that fail, once or from then on, and memory that is not there: right answers. */
Test(gpu_cluster, kernels_may_fail, .timeout = 900)
{
    static const char *const faults[] = {"fail=1:error@cluster multiply_adds=1",
                                         "fail=4:error@cluster multiply_adds=1",
                                         "fail=9:sticky@cluster multiply_adds=1",
                                         "fail=3+:error@cluster",
                                         "fail=5:memory@cluster",
                                         "fail=2:error@tile"};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct pair p;
        open_pair(&p, faults[i]);
        make(&p, CLUSTER_PLANTED, 16, 300, false);
        for (int again = 0; again < 2; again++)
            expect_all(&p, 300, 16, EA_BACKEND_NONE);
        drop(&p);
        close_pair(&p);
    }
}

static unsigned right, answered;
static const ea_clusters *wanted;

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    (void)user;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    answered++;
    right += same(answer->clusters, wanted);
}

/* kill -9 while clusterings are under way, a hundred times, of both rules: the CPU goes on from
 * what was merged. */
Test(gpu_cluster, killed_meanwhile, .timeout = 900)
{
    enum { KILLS = 100, REQUESTS = 2 };
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card is not slowed down");
    struct pair p;
    open_pair(&p, "latency_us=300");
    make(&p, CLUSTER_PLANTED, 16, 500, false);
    static const float high = 0.95F, low = 0.7F;
    unsigned killed = 0;
    for (unsigned seed = 1; killed < KILLS; seed++) {
        unsigned random = seed;
        ea_clusters want = {0};
        ea_cluster_question q = {.collection = "c",
                                 .rule = seed % 2 ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID};
        if (seed % 4 == 2) q.threshold = &high, q.threshold_second = &low;
        cr_assert_eq(ea_cluster(p.cpu.a, &q, &want), EA_OK);
        wanted = &want;
        gpu_scene_await(&p.gpu, EA_GPU_READY);
        uint64_t begun_ns = clock_now_ns(); /* one that answers is started again at once */
        expect_same(&p, &q, EA_BACKEND_NONE);
        uint64_t took_ns = clock_now_ns() - begun_ns, share = (unsigned)rand_r(&random) % 100;
        right = answered = 0;
        for (int i = 0; i < REQUESTS; i++)
            cr_assert_eq(
                ea_cluster_send(p.gpu.a, &q, &(ea_send_options){.callback = compare}, NULL), EA_OK);
        uint64_t until_ns = clock_now_ns() + took_ns * share / 100;
        for (uint64_t now; (now = clock_now_ns()) < until_ns && ea_pending(p.gpu.a);)
            cr_assert_eq(ea_pump(p.gpu.a, (int64_t)((until_ns - now) / 1000 + 1)), EA_OK);
        pid_t gpu = gpu_process_of(p.gpu.daemon.pid);
        if (gpu && ea_pending(p.gpu.a)) killed += kill(gpu, SIGKILL) == 0;
        while (ea_pending(p.gpu.a))
            cr_assert_eq(ea_pump(p.gpu.a, -1), EA_OK);
        cr_assert(answered == REQUESTS && right == REQUESTS, "%u of %u", right, answered);
        ea_clusters_free(&want);
    }
    drop(&p);
    close_pair(&p);
}
