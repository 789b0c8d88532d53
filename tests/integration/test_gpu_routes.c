/* Where a request runs and why: gpu.force changed by SIGHUP, and every reason, in the reply and in
 * the counts of stats. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 24, ROWS = 200 };

static float rows[ROWS * D];

static void make_rows(const struct gpu_scene *s, const char *name, uint64_t count, uint32_t d)
{
    uint64_t *ids = malloc(count * sizeof *ids);
    float *values = malloc(count * d * sizeof *values);
    reference_fill(8, rows, (size_t)ROWS * D);
    reference_fill(8, values, count * d);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(s->a, name, d, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            s->a,
            &(ea_rows){
                .collection = name, .ids = ids, .rows = values, .count = count, .dimension = d},
            NULL),
        EA_OK);
    free(ids);
    free(values);
}

static ea_meta ask(const struct gpu_scene *s, const char *collection, uint64_t queries, uint32_t d)
{
    ea_result r = {0};
    static float values[64 * 512];
    reference_fill(9, values, 64 * 512);
    cr_assert_eq(ea_knn(s->a,
                        &(ea_knn_question){.collection = collection,
                                           .queries = values,
                                           .query_count = queries,
                                           .dimension = d,
                                           .k = 3},
                        &r),
                 EA_OK, "%s", ea_error_text(s->a));
    ea_meta meta = *r.meta;
    ea_result_free(&r);
    return meta;
}

static uint64_t counted(const struct gpu_scene *s, ea_backend backend, const char *reason)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->a, &stats), EA_OK);
    uint64_t sum[EA_BACKENDS] = {0}, found = 0;
    for (uint32_t i = 0; i < stats.route_count; i++) {
        const ea_route_stats *r = &stats.routes[i];
        sum[r->backend] += r->requests;
        if (r->backend == backend && strcmp(ea_reason_name(r->reason), reason) == 0)
            found = r->requests;
    }
    for (int i = 0; i < EA_BACKENDS; i++)
        cr_assert_eq(sum[i], stats.backend_requests[i]);
    return found;
}

static void expect_route(const struct gpu_scene *s, ea_meta meta, ea_backend backend,
                         const char *reason)
{
    cr_assert(meta.backend == backend && strcmp(ea_reason_name(meta.reason), reason) == 0,
              "%s, %s; wanted %s, %s", ea_backend_name(meta.backend), ea_reason_name(meta.reason),
              ea_backend_name(backend), reason);
}

/* One request, that route, and counted as such. */
static void expect(const struct gpu_scene *s, uint64_t queries, ea_backend backend,
                   const char *reason)
{
    uint64_t before = counted(s, backend, reason);
    expect_route(s, ask(s, "rows", queries, D), backend, reason);
    cr_assert_eq(counted(s, backend, reason), before + 1);
}

/* ---------------------------------------------------------------- SIGHUP */

static char path[] = "/tmp/engram-routes-XXXXXX";

static void write_force(const char *force, unsigned pairs_min)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "{\"gpu\": {\"force\": \"%s\", \"min_pairs\": %u}}", force, pairs_min);
    fclose(f);
}

/* Until what is asked goes there. */
static void change(const struct gpu_scene *s, const char *force, ea_backend backend,
                   const char *reason)
{
    write_force(force, 1);
    kill(s->daemon.pid, SIGHUP);
    int64_t until = give_up_ms();
    ea_meta meta;
    do {
        meta = ask(s, "rows", 4, D);
        if (meta.backend == backend && strcmp(ea_reason_name(meta.reason), reason) == 0) break;
        wait_ms(2);
    } while (now_ms() < until);
    expect(s, 4, backend, reason);
}

Test(gpu_routes, force_changes_at_once, .timeout = 900)
{
    struct gpu_scene s;
    char config[64];
    close(mkstemp(path));
    write_force("cpu", 1);
    snprintf(config, sizeof config, "--config=%s", path);
    gpu_scene_open(&s, NULL, (const char *[]){config, NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    make_rows(&s, "rows", ROWS, D);
    expect(&s, 4, EA_BACKEND_CPU, "forced");
    cr_assert_eq(gpu_scene_stats(s.a).uploads, 0, "nothing is uploaded for the CPU");
    change(&s, "none", EA_BACKEND_GPU, "chosen_faster");
    cr_assert_gt(counted(&s, EA_BACKEND_CPU, "predicted_slower"), 0, "while it was uploaded");
    for (int i = 0; i < 3; i++) {
        change(&s, "cpu", EA_BACKEND_CPU, "forced");
        change(&s, "gpu", EA_BACKEND_GPU, "forced");
        change(&s, "none", EA_BACKEND_GPU, "chosen_faster");
    }
    gpu_scene_close(&s);
    unlink(path);
}

/* ---------------------------------------------------------------- reasons */

Test(gpu_routes, below_the_smallest_batch, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open(&s, NULL, (const char *[]){"gpu.force=none", "gpu.min_pairs=801", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    make_rows(&s, "rows", ROWS, D);
    for (int i = 0; i < 3; i++)
        expect(&s, 4, EA_BACKEND_CPU, "below_min_batch");
    cr_assert_eq(gpu_scene_stats(s.a).uploads, 0);
    expect(&s, 5, EA_BACKEND_CPU, "predicted_slower");
    int64_t until = give_up_ms();
    while (ask(&s, "rows", 5, D).backend != EA_BACKEND_GPU)
        cr_assert(now_ms() < until);
    expect(&s, 5, EA_BACKEND_GPU, "chosen_faster");
    expect(&s, 4, EA_BACKEND_CPU, "below_min_batch");
    gpu_scene_close(&s);
}

Test(gpu_routes, absent, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open_counting(&s, "devices=0", NULL);
    gpu_scene_await(&s, EA_GPU_ABSENT);
    make_rows(&s, "rows", ROWS, D);
    expect(&s, 4, EA_BACKEND_CPU, "gpu_absent");
    gpu_scene_close(&s);
}

Test(gpu_routes, down, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open_counting(&s, "fail=1:hang@open", NULL); /* counts as starting for 30 s */
    make_rows(&s, "rows", ROWS, D);
    expect(&s, 4, EA_BACKEND_CPU, "gpu_down");
    gpu_scene_close(&s);
}

/* A collection that no VRAM of this device can hold. */
Test(gpu_routes, vram_pressure, .timeout = 900)
{
    static const char *const forces[] = {"gpu.force=gpu", "gpu.force=none"};
    for (int i = 0; i < 2; i++) {
        struct gpu_scene s;
        gpu_scene_open_counting(&s, "vram_mib=8", (const char *[]){forces[i], NULL});
        gpu_scene_await(&s, EA_GPU_READY);
        make_rows(&s, "large", 70000, 32); /* nor what codes its rows */
        int64_t until = give_up_ms();
        while (strcmp(ea_reason_name(ask(&s, "large", 2, 32).reason), "vram_pressure") != 0)
            cr_assert(now_ms() < until);
        uint64_t before = counted(&s, EA_BACKEND_CPU, "vram_pressure");
        expect_route(&s, ask(&s, "large", 2, 32), EA_BACKEND_CPU, "vram_pressure");
        cr_assert_eq(counted(&s, EA_BACKEND_CPU, "vram_pressure"), before + 1);
        make_rows(&s, "rows", ROWS, D); /* others are not hindered */
        gpu_scene_await_answer(s.a, "rows", D);
        gpu_scene_close(&s);
    }
}

Test(gpu_routes, fallback_after_error, .timeout = 900)
{
    static const char *const kinds[] = {"error", "sticky", "crash", "hang"};
    for (int i = 0; i < 4; i++) {
        struct gpu_scene s;
        char sim[64];
        snprintf(sim, sizeof sim, "fail=1:%s@topk", kinds[i]);
        gpu_scene_open_counting(&s, sim, NULL);
        gpu_scene_await(&s, EA_GPU_READY);
        make_rows(&s, "rows", ROWS, D);
        expect(&s, 4, EA_BACKEND_CPU, "fallback_after_error");
        gpu_scene_await(&s, EA_GPU_READY);
        expect(&s, 4, EA_BACKEND_GPU, "forced");
        gpu_scene_close(&s);
    }
}

static void on_meta(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    uint32_t *counts = user; /* by reason, 0: errors */
    counts[status ? 0 : r->meta->reason]++;
}

/* More at once than it takes; all are answered. */
Test(gpu_routes, queue_full, .timeout = 900)
{
    enum { ASKED = 900 };
    struct gpu_scene s;
    gpu_scene_open_counting(&s, "latency_us=100000",
                            (const char *[]){"gpu.job_ms=20000", "batch.queries=1",
                                             "sched.window_us=0", "quotas.queue=100000", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    make_rows(&s, "rows", ROWS, D);
    uint32_t counts[16] = {0};
    for (int i = 0; i < ASKED; i++) {
        cr_assert_eq(ea_knn_send(s.a,
                                 &(ea_knn_question){.collection = "rows",
                                                    .queries = rows,
                                                    .query_count = 1,
                                                    .dimension = D,
                                                    .k = 3},
                                 &(ea_send_options){.callback = on_meta, .user = counts}, NULL),
                     EA_OK);
        /* Those that come while it takes more wait for it; the others come when it is full. */
        while (i == ASKED / 2 && gpu_scene_stats(s.b).jobs_in_flight < 256)
            cr_assert_eq(ea_pump(s.a, 0), EA_OK);
    }
    while (ea_pending(s.a))
        cr_assert_eq(ea_pump(s.a, -1), EA_OK);
    uint32_t full = 0, forced = 0;
    for (uint32_t i = 1; i < 16; i++) {
        if (strcmp(ea_reason_name(i), "queue_full") == 0) full = counts[i];
        if (strcmp(ea_reason_name(i), "forced") == 0) forced = counts[i];
    }
    cr_assert_eq(counts[0], 0);
    cr_assert_gt(full, 0);
    cr_assert_gt(forced, 0);
    cr_assert_eq(full + forced, ASKED);
    cr_assert_eq(counted(&s, EA_BACKEND_CPU, "queue_full"), full);
    cr_assert_eq(counted(&s, EA_BACKEND_GPU, "forced"), forced);
    gpu_scene_close(&s);
}
