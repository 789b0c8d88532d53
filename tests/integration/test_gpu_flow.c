/* Requests that end early while the GPU has them, clients that go away, and thousands at once. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 24, ROWS = 100, K = 4, QUERIES = 16 };

#define PATIENT "gpu.heartbeat_ms=60000", "gpu.job_ms=300000"
/* None waits for company, or for others to end. */
#define ALL_AT_ONCE "batch.queries=1", "sched.window_us=0"

static float rows[ROWS * D];
static uint64_t want_ids[QUERIES][K];
static float want[QUERIES][K];

static void open_scene(struct gpu_scene *s, const char *sim, const char *setting)
{
    uint64_t ids[ROWS];
    reference_fill(8, rows, (size_t)ROWS * D);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    struct reference_rows all = {D, REFERENCE_COSINE, ROWS, rows, ids};
    for (int q = 0; q < QUERIES; q++)
        reference_knn(&all, rows + q * D, K, NULL, NULL, want_ids[q], want[q]);
    gpu_scene_open(s, sim, (const char *[]){PATIENT, ALL_AT_ONCE, setting, NULL});
    gpu_scene_await(s, EA_GPU_READY);
    cr_assert_eq(ea_collection_create(s->a, "rows", D, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            s->a,
            &(ea_rows){
                .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
            NULL),
        EA_OK);
    gpu_scene_await_answer(s->a, "rows", D);
    cr_assert_eq(ea_ping(s->b), EA_OK); /* connected */
}

static void close_scene(struct gpu_scene *s)
{
    cr_assert_eq(ea_collection_drop(s->a, "rows"), EA_OK, "%s", ea_error_text(s->a));
    gpu_scene_await_empty(s);
    cr_assert_eq(gpu_scene_stats(s->a).restarts, 0);
    gpu_scene_close(s);
}

struct answers {
    int right, wrong, on_gpu, by_status[17];
};

/* The query is the one whose row is nearest: the first hit. */
static void on_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct answers *a = user;
    a->by_status[status]++;
    if (status) return;
    uint64_t q = r->columns == K ? r->ids[0] : QUERIES;
    bool right = q < QUERIES && memcmp(r->ids, want_ids[q], sizeof want_ids[q]) == 0 &&
                 memcmp(r->scores, want[q], sizeof want[q]) == 0;
    a->right += right;
    a->wrong += !right;
    a->on_gpu += r->meta->backend == EA_BACKEND_GPU;
}

static void ask(ea_client *c, struct answers *a, int count, uint32_t timeout_ms, uint64_t *ids)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(ea_knn_send(c,
                                 &(ea_knn_question){.collection = "rows",
                                                    .queries = rows + i % QUERIES * D,
                                                    .query_count = 1,
                                                    .dimension = D,
                                                    .k = K},
                                 &(ea_send_options){.callback = on_answer,
                                                    .user = a,
                                                    .timeout_us = timeout_ms * UINT64_C(1000)},
                                 ids ? &ids[i] : NULL),
                     EA_OK);
    ea_pump(c, 0);
}

static void finish(ea_client *c)
{
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, 10000000), EA_OK);
}

static void wait_in_flight(const struct gpu_scene *s, uint64_t count)
{
    int64_t until = give_up_ms();
    while (gpu_scene_stats(s->b).jobs_in_flight < count)
        cr_assert(now_ms() < until);
}

/* But for the question for it. */
static void wait_none_in_flight(const struct gpu_scene *s)
{
    ea_stats stats;
    int64_t until = give_up_ms();
    do {
        cr_assert(now_ms() < until, "requests stay in flight");
        cr_assert_eq(ea_get_stats(s->b, &stats), EA_OK);
        wait_ms(2);
    } while (stats.jobs_in_flight > 1 || stats.gpus[0].jobs_in_flight ||
             stats.gpus[0].request_bytes);
}

static void needs_slow_device(void)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU is too fast to be interrupted");
}

/* ---------------------------------------------------------------- ending early */

Test(gpu_flow, cancelled_on_the_gpu, .timeout = 900)
{
    needs_slow_device();
    enum { ASKED = 40 };
    struct gpu_scene s;
    struct answers a = {0};
    uint64_t ids[ASKED];
    open_scene(&s, "latency_us=150000", NULL);
    pid_t gpu = gpu_process_of(s.daemon.pid);
    process_pause(gpu); /* so that it answers none before all are cancelled that will be */
    ask(s.a, &a, ASKED, 0, ids);
    wait_in_flight(&s, ASKED);
    for (int i = 0; i < ASKED; i += 2)
        cr_assert_eq(ea_cancel(s.a, ids[i]), EA_OK);
    cr_assert_eq(ea_ping(s.a), EA_OK); /* which the daemon reads behind that */
    kill(gpu, SIGCONT);
    finish(s.a);
    cr_assert_eq(a.wrong, 0);
    cr_assert_eq(a.right, ASKED / 2, "%d", a.right);
    cr_assert_eq(a.by_status[EA_CANCELLED], ASKED / 2);
    wait_none_in_flight(&s);
    close_scene(&s);
}

Test(gpu_flow, too_late_on_the_gpu, .timeout = 900)
{
    needs_slow_device();
    enum { ASKED = 30 };
    struct gpu_scene s;
    struct answers a = {0}, in_time = {0};
    open_scene(&s, "latency_us=250000", NULL);
    ask(s.a, &a, ASKED, 60, NULL);
    ask(s.b, &in_time, 0, 0, NULL);
    ask(s.a, &in_time, ASKED, GIVE_UP_MS, NULL);
    finish(s.a);
    cr_assert_eq(a.by_status[EA_DEADLINE_EXCEEDED], ASKED);
    cr_assert_eq(in_time.right, ASKED);
    wait_none_in_flight(&s);
    close_scene(&s);
}

/* Its rows may be dropped and written meanwhile. */
Test(gpu_flow, gone_while_the_gpu_works, .timeout = 900)
{
    needs_slow_device();
    struct gpu_scene s;
    open_scene(&s, "latency_us=60000", NULL);
    size_t descriptors = process_descriptors(s.daemon.pid);
    for (int round = 0; round < 6; round++) {
        struct answers a = {0};
        ea_client *c = gpu_scene_client(&s, "alpha");
        cr_assert_eq(ea_connect(c), EA_OK); /* so that all are sent at once */
        ask(c, &a, 30, 0, NULL);
        wait_in_flight(&s, 30);
        ea_close(c);
        cr_assert_eq(a.by_status[EA_CANCELLED], 30);
        if (round % 2) {
            cr_assert_eq(ea_upsert(s.a,
                                   &(ea_rows){.collection = "rows",
                                              .ids = &(uint64_t){7},
                                              .rows = rows + 7 * D,
                                              .count = 1,
                                              .dimension = D},
                                   NULL),
                         EA_OK);
        }
    }
    wait_none_in_flight(&s);
    struct answers a = {0};
    ask(s.a, &a, QUERIES, 0, NULL);
    finish(s.a);
    cr_assert_eq(a.right, QUERIES);
    int64_t until = give_up_ms();
    while (process_descriptors(s.daemon.pid) != descriptors) {
        cr_assert(now_ms() < until, "descriptors: %zu, before %zu",
                  process_descriptors(s.daemon.pid), descriptors);
        wait_ms(5);
    }
    close_scene(&s);
}

/* A drop waits for those before it, and nothing of the collection stays. */
Test(gpu_flow, dropped_while_the_gpu_works, .timeout = 900)
{
    needs_slow_device();
    struct gpu_scene s;
    struct answers a = {0};
    open_scene(&s, "latency_us=50000", NULL);
    for (int round = 0; round < 5; round++) {
        a = (struct answers){0};
        ask(s.a, &a, 40, 0, NULL);
        wait_in_flight(&s, 1);
        cr_assert_eq(ea_collection_drop(s.a, "rows"), EA_OK, "%s", ea_error_text(s.a));
        finish(s.a);
        cr_assert_eq(a.right + a.by_status[EA_NOT_FOUND], 40, "%d right, %d not found", a.right,
                     a.by_status[EA_NOT_FOUND]);
        gpu_scene_await_empty(&s);
        uint64_t ids[ROWS];
        for (uint64_t i = 0; i < ROWS; i++)
            ids[i] = i;
        cr_assert_eq(ea_collection_create(s.a, "rows", D, EA_COSINE, NULL), EA_OK);
        cr_assert_eq(
            ea_upsert(
                s.a,
                &(ea_rows){
                    .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
                NULL),
            EA_OK);
    }
    close_scene(&s);
}

/* ---------------------------------------------------------------- many */

static void thousands(const char *force, const char *sim)
{
    enum { ASKED = 4000 };
    struct gpu_scene s;
    struct answers a = {0}, b = {0};
    open_scene(&s, sim, force);
    ea_client *other = gpu_scene_client(&s, "alpha");
    for (int i = 0; i < ASKED; i += 500) {
        ask(s.a, &a, 500, 0, NULL);
        ask(other, &b, 500, 0, NULL);
    }
    finish(s.a);
    finish(other);
    cr_assert_eq(a.wrong + b.wrong, 0);
    cr_assert_eq(a.right + a.by_status[EA_RESOURCE_EXHAUSTED], ASKED);
    cr_assert_eq(b.right + b.by_status[EA_RESOURCE_EXHAUSTED], ASKED);
    cr_assert_gt(a.on_gpu + b.on_gpu, 0);
    fprintf(stderr, "%s: %d right, %d of the GPU's, %d refused\n", force, a.right + b.right,
            a.on_gpu + b.on_gpu,
            a.by_status[EA_RESOURCE_EXHAUSTED] + b.by_status[EA_RESOURCE_EXHAUSTED]);
    ea_close(other);
    wait_none_in_flight(&s);
    close_scene(&s);
}

Test(gpu_flow, thousands_at_once, .timeout = 900)
{
    thousands("gpu.force=gpu", "");
    thousands("gpu.force=none", "");
}

Test(gpu_flow, thousands_on_a_slow_device, .timeout = 900)
{
    needs_slow_device();
    thousands("gpu.force=gpu", "latency_us=5000");
}
