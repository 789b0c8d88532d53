/* Several GPUs: collections spread over them; one that fails takes only its own replicas with
 * it. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { GPUS = 3, COLLECTIONS = 9, D = 256, ROWS = 1500, K = 5 };

static float rows[COLLECTIONS][ROWS * D];
static uint64_t want_ids[COLLECTIONS][K];
static float want[COLLECTIONS][K];

static const char *name_of(int i)
{
    static char name[16];
    snprintf(name, sizeof name, "rows-%d", i);
    return name;
}

static void make_collections(ea_client *c)
{
    static uint64_t ids[ROWS];
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    for (int i = 0; i < COLLECTIONS; i++) {
        reference_fill((uint64_t)i, rows[i], (size_t)ROWS * D);
        struct reference_rows all = {D, REFERENCE_COSINE, ROWS, rows[i], ids};
        reference_knn(&all, rows[i], K, NULL, NULL, want_ids[i], want[i]);
        cr_assert_eq(ea_collection_create(c, name_of(i), D, EA_COSINE, NULL), EA_OK);
        cr_assert_eq(ea_upsert(c,
                               &(ea_rows){.collection = name_of(i),
                                          .ids = ids,
                                          .rows = rows[i],
                                          .count = ROWS,
                                          .dimension = D},
                               NULL),
                     EA_OK);
    }
}

/* How many of one round the GPUs answered. */
static int ask_all(ea_client *c)
{
    ea_result r = {0};
    int on_gpu = 0;
    for (int i = 0; i < COLLECTIONS; i++) {
        cr_assert_eq(ea_knn(c,
                            &(ea_knn_question){.collection = name_of(i),
                                               .queries = rows[i],
                                               .query_count = 1,
                                               .dimension = D,
                                               .k = K},
                            &r),
                     EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(memcmp(r.ids, want_ids[i], sizeof want_ids[i]), 0);
        cr_assert_eq(memcmp(r.scores, want[i], sizeof want[i]), 0);
        on_gpu += r.meta->backend == EA_BACKEND_GPU;
    }
    ea_result_free(&r);
    return on_gpu;
}

static void await_all(ea_client *c)
{
    int64_t until = give_up_ms();
    while (ask_all(c) < COLLECTIONS)
        cr_assert(now_ms() < until, "the GPUs do not answer all of it");
}

static void await_ready(ea_client *c, uint32_t count)
{
    static ea_info info;
    int64_t until = give_up_ms();
    for (uint32_t ready = 0; ready != count;) {
        cr_assert_eq(ea_get_info(c, &info), EA_OK);
        cr_assert_eq(info.gpu_count, GPUS);
        ready = 0;
        for (uint32_t i = 0; i < GPUS; i++)
            ready += info.gpus[i].state == EA_GPU_READY;
        cr_assert(now_ms() < until, "%u ready: %s", ready, info.gpu);
        wait_ms(2);
    }
}

static uint64_t restarts_of(ea_client *c)
{
    ea_stats stats;
    uint64_t restarts = 0;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    for (uint32_t i = 0; i < GPUS; i++)
        restarts += stats.gpus[i].restarts;
    return restarts;
}

Test(gpu_several, spread_and_fail_alone, .timeout = 900)
{
    struct gpu_scene s;
    ea_stats before;
    gpu_scene_open_counting(
        &s, "vram_mib=16",
        (const char *[]){"gpu.devices=sim,sim, sim", "gpu.heartbeat_ms=20000", NULL});
    await_ready(s.a, GPUS);
    make_collections(s.a); /* 15 MiB, of 33 */
    await_all(s.a);
    int64_t until = give_up_ms();
    for (uint32_t i = 0; i < GPUS; i++) /* they count now and then */
        do {
            cr_assert_eq(ea_get_stats(s.a, &before), EA_OK);
            cr_assert(now_ms() < until, "GPU %u has %llu", i,
                      (unsigned long long)before.gpus[i].replicas);
        } while (before.gpus[i].replicas != COLLECTIONS / GPUS);
    for (int round = 0; round < 6; round++) {
        kill(gpu_process_of(s.daemon.pid), round % 3 == 2 ? SIGSTOP : SIGKILL);
        int least = COLLECTIONS;
        for (int i = 0; i < 3; i++) {
            int now = ask_all(s.a);
            if (now < least) least = now;
        }
        cr_assert_geq(least, COLLECTIONS - 2 * COLLECTIONS / GPUS, "others failed too");
        while (restarts_of(s.a) == (uint64_t)round) /* one that stands looks ready for a while */
            wait_ms(10);
        await_ready(s.a, GPUS);
        await_all(s.a);
    }
    cr_assert_eq(restarts_of(s.a), 6);
    for (int i = 0; i < COLLECTIONS; i++)
        cr_assert_eq(ea_collection_drop(s.a, name_of(i)), EA_OK);
    gpu_scene_close(&s);
}

/* The calls are counted over all: one of them is the one whose device fails. */
Test(gpu_several, the_script_with_one_that_fails, .timeout = 900)
{
    static const char *const kinds[] = {"crash", "sticky", "error", "hang"};
    static struct transcript expected, got;
    script_reference(&expected);
    for (int i = 0; i < 4; i++) {
        struct gpu_scene s;
        char sim[64];
        snprintf(sim, sizeof sim, "fail=5:%s@topk", kinds[i]);
        gpu_scene_open_counting(&s, sim, (const char *[]){"gpu.devices=sim,sim,sim", NULL});
        await_ready(s.a, GPUS);
        got.count = 0;
        script_run(s.a, s.b, &got);
        script_end(s.a, s.b, &got);
        transcript_compare(&got, &expected, sim);
        cr_assert_gt(transcript_on_gpu(&got), 0);
        gpu_scene_close(&s);
    }
}
