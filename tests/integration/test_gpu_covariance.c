/* Covariances on a GPU: one that is forced to answer them gives the CPU's bits, what is wrong has
 * the CPU's words, and a process that is killed meanwhile costs nobody an answer. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS_MAX = 14000, NUMBERS_MAX = 600000 };

static float *rows, *weights;
static uint64_t *ids;

static void open_pair(struct gpu_pair *p, const char *sim)
{
    gpu_pair_open(p, sim);
    rows = calloc(NUMBERS_MAX, sizeof *rows);
    weights = calloc(ROWS_MAX, sizeof *weights);
    ids = calloc(ROWS_MAX, sizeof *ids);
    cr_assert(rows && weights && ids);
}

static void close_pair(struct gpu_pair *p)
{
    gpu_pair_close(p);
    free(rows), free(weights), free(ids);
}

/* Ids that neither rise nor fall, unless they are `ordered`. */
static void make(struct gpu_pair *p, uint32_t d, uint64_t count, bool ordered)
{
    cr_assert(count <= ROWS_MAX && count * d <= NUMBERS_MAX);
    reference_fill(d + 1, rows, (size_t)count * d);
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = ordered ? 2 * i : i * UINT64_C(0x9e3779b97f4a7c15);
        weights[i] = (float)(i % 9) / 8.0F;
    }
    ea_rows all = {.collection = "c", .ids = ids, .rows = rows, .count = count, .dimension = d};
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(ea_collection_create(gpu_pair_of(p, k), "c", d, EA_DOT, NULL), EA_OK);
        cr_assert_eq(ea_upsert(gpu_pair_of(p, k), &all, NULL), EA_OK);
    }
}

static void drop(struct gpu_pair *p)
{
    for (int k = 0; k < 2; k++)
        cr_assert_eq(ea_collection_drop(gpu_pair_of(p, k), "c"), EA_OK);
}

/* Both say the same. */
static void expect_same(struct gpu_pair *p, const ea_covariance_question *q, ea_backend backend)
{
    ea_covariance_result got = {0}, want = {0};
    ea_status a = ea_covariance(p->gpu.a, q, &got), b = ea_covariance(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
        return;
    }
    uint64_t d = want.dimension;
    if (backend) cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(got.rows == want.rows && got.dimension == d);
    cr_assert(got.total == want.total && got.divisor == want.divisor);
    cr_assert_eq(memcmp(got.mean, want.mean, d * sizeof(double)), 0);
    cr_assert_eq(memcmp(got.covariance, want.covariance, d * d * sizeof(double)), 0);
    ea_covariance_result_free(&got);
    ea_covariance_result_free(&want);
}

Test(gpu_covariance, has_the_cpus_bits, .timeout = 900)
{
    static const struct {
        uint32_t dimension;
        uint64_t rows;
    } cases[] = {{1, 40}, {64, 300}, {33, ROWS_MAX}, {130, 4500}, {700, 60}};
    struct gpu_pair p;
    open_pair(&p, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t d = cases[i].dimension;
        uint64_t n = cases[i].rows;
        make(&p, d, n, i % 2);
        for (int weighted = 0; weighted < 2; weighted++) {
            const float *w = weighted ? weights : NULL;
            ea_covariance_question q = {.collection = "c", .weights = w, .count = weighted ? n : 0};
            expect_same(&p, &q, EA_BACKEND_GPU);
            q.ids = ids, q.count = n / 2 + 1;
            expect_same(&p, &q, EA_BACKEND_GPU);
            q = (ea_covariance_question){.rows = rows, .count = n, .dimension = d, .weights = w};
            expect_same(&p, &q, EA_BACKEND_GPU);
        }
        drop(&p);
    }
    gpu_scene_await_empty(&p.gpu);
    cr_assert_eq(gpu_scene_stats(p.gpu.a).restarts, 0);
    close_pair(&p);
}

/* It says where it would run, and needs no card for that. */
Test(gpu_covariance, a_dry_run_predicts, .timeout = 900)
{
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, 64, 300, false);
    expect_same(&p, &(ea_covariance_question){.collection = "c"}, EA_BACKEND_GPU);
    ea_covariance_result got = {0};
    const ea_covariance_question q = {.collection = "c", .dry_run = true};
    for (int i = 0; i < 2; i++) {
        ea_client *c = i ? p.cpu.a : p.gpu.a;
        cr_assert_eq(ea_covariance(c, &q, &got), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(got.meta->backend, i ? EA_BACKEND_CPU : EA_BACKEND_GPU);
        cr_assert(got.meta->predicted_ns > 0 && !got.rows && !got.covariance);
    }
    ea_covariance_result_free(&got);
    drop(&p);
    close_pair(&p);
}

/* Without room for the result: the CPU. */
Test(gpu_covariance, little_memory, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    struct gpu_pair p;
    open_pair(&p, "vram_mib=16");
    make(&p, 700, 60, true);
    expect_same(&p, &(ea_covariance_question){.collection = "c"}, EA_BACKEND_NONE);
    drop(&p);
    close_pair(&p);
}

Test(gpu_covariance, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 64, ROWS = 100 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, ROWS, false);
    uint64_t unknown[] = {ids[0], 5, ids[1]};
    ea_covariance_question q = {.collection = "c", .ids = unknown, .count = 3};
    expect_same(&p, &q, EA_BACKEND_GPU);
    q = (ea_covariance_question){.collection = "c", .weights = weights, .count = ROWS};
    weights[7] = -1;
    expect_same(&p, &q, EA_BACKEND_GPU);
    weights[7] = NAN;
    expect_same(&p, &q, EA_BACKEND_GPU);
    memset(weights, 0, ROWS * sizeof *weights);
    expect_same(&p, &q, EA_BACKEND_GPU);
    q.count = 3;
    expect_same(&p, &q, EA_BACKEND_GPU);
    rows[9 * D + 3] = INFINITY;
    q = (ea_covariance_question){.rows = rows, .count = ROWS, .dimension = D};
    expect_same(&p, &q, EA_BACKEND_GPU);
    q.count = 1;
    expect_same(&p, &q, EA_BACKEND_GPU);
    expect_same(&p, &(ea_covariance_question){.collection = "c"}, EA_BACKEND_GPU);
    drop(&p);
    close_pair(&p);
}

/* Kernels that fail, once or from then on, and memory that is not there: right answers. */
Test(gpu_covariance, kernels_may_fail, .timeout = 900)
{
    static const char *const faults[] = {
        "fail=1:error@covariance multiply_adds=1", "fail=4:error@covariance multiply_adds=1",
        "fail=2:sticky@covariance", "fail=3+:error@covariance", "fail=5:memory@covariance"};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct gpu_pair p;
        open_pair(&p, faults[i]);
        make(&p, 40, 9000, false);
        for (int again = 0; again < 3; again++)
            expect_same(&p, &(ea_covariance_question){.collection = "c"}, EA_BACKEND_NONE);
        drop(&p);
        close_pair(&p);
    }
}

static unsigned right, answered;
static const ea_covariance_result *wanted;

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    (void)user;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    uint64_t d = wanted->dimension;
    answered++;
    right +=
        memcmp(answer->covariance->covariance, wanted->covariance, d * d * sizeof(double)) == 0 &&
        memcmp(answer->covariance->mean, wanted->mean, d * sizeof(double)) == 0;
}

/* kill -9 while covariances are under way, a hundred times. */
Test(gpu_covariance, killed_meanwhile, .timeout = 900)
{
    enum { KILLS = 100, REQUESTS = 3 };
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card is not slowed down");
    struct gpu_pair p;
    open_pair(&p, "latency_us=500 multiply_adds=1");
    make(&p, 24, 9000, false);
    ea_covariance_result want = {0};
    const ea_covariance_question q = {.collection = "c"};
    unsigned killed = 0;
    cr_assert_eq(ea_covariance(p.cpu.a, &q, &want), EA_OK);
    wanted = &want;
    for (unsigned seed = 1; killed < KILLS; seed++) {
        unsigned random = seed, turns = (unsigned)rand_r(&random) % 6;
        gpu_scene_await(&p.gpu, EA_GPU_READY);
        expect_same(&p, &q, EA_BACKEND_NONE); /* one that answers is started again at once */
        right = answered = 0;
        for (int i = 0; i < REQUESTS; i++)
            cr_assert_eq(
                ea_covariance_send(p.gpu.a, &q, &(ea_send_options){.callback = compare}, NULL),
                EA_OK);
        for (; turns && ea_pending(p.gpu.a); turns--)
            cr_assert_eq(ea_pump(p.gpu.a, rand_r(&random) % 800), EA_OK);
        pid_t gpu = gpu_process_of(p.gpu.daemon.pid);
        if (gpu && ea_pending(p.gpu.a)) killed += kill(gpu, SIGKILL) == 0;
        while (ea_pending(p.gpu.a))
            cr_assert_eq(ea_pump(p.gpu.a, -1), EA_OK);
        cr_assert(answered == REQUESTS && right == REQUESTS, "%u of %u", right, answered);
    }
    ea_covariance_result_free(&want);
    drop(&p);
    close_pair(&p);
}
