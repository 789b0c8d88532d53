/* Spreads with embeddings over the simulated GPU, against the slow reference: between writes of
 * graph and rows, every device call failing once, and beside kills of the GPU process: right
 * answers and no errors. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/graph_twin.h"

static void ask(struct twin *t, struct twin_question *q)
{
    twin_ask_randomly(t, q, EA_ENGRAM);
    q->options.embeddings = "embeddings";
    if (q->options.hops < 2) q->options.hops = 2;
}

static void make(struct twin *t, ea_client *c, uint32_t dimension, uint64_t seed)
{
    twin_make(t, c, "g", 200, seed);
    twin_embed(t, c, dimension);
    twin_add_edges(t, c, 5000, seed, false);
    twin_set_rows(t, c, 0, 1, seed);
}

/* Until it is answered by the GPU; every answer is right. */
static void expect_gpu(struct twin *t, ea_client *c, const struct twin_question *q)
{
    int64_t until = give_up_ms();
    while (twin_expect(t, c, q), t->backend != EA_BACKEND_GPU) {
        cr_assert(now_ms() < until, "the GPU does not answer: %s", ea_reason_name(t->reason));
        wait_ms(5);
    }
}

Test(gpu_similar, same_bits_through_changes, .timeout = 900)
{
    struct gpu_scene s;
    struct twin t;
    static struct twin_question q;
    gpu_scene_open(&s, NULL, NULL);
    static const uint32_t dimensions[] = {33, 1100};
    for (uint64_t i = 0; i < 2; i++) {
        make(&t, s.a, dimensions[i], i + 1);
        for (uint32_t round = 0; round < 8; round++) {
            if (round % 4 == 1) twin_set_rows(&t, s.a, round, 9, round);
            if (round % 4 == 2) twin_add_edges(&t, s.a, 30, round, true);
            if (round % 4 == 3) {
                twin_set_rows(&t, s.a, 3, 50, round);
                twin_add_edges(&t, s.a, 30, round, false);
            }
            for (int k = 0; k < 4; k++) {
                ask(&t, &q);
                expect_gpu(&t, s.a, &q);
            }
        }
        /* one without, of the same graph, and what has no row for some nodes */
        q.options.embeddings = NULL;
        expect_gpu(&t, s.a, &q);
        cr_assert_eq(ea_delete(s.a, "embeddings", t.ids, 3, NULL), EA_OK);
        uint64_t deleted, missing;
        collection_delete(t.embeddings, t.ids, 3, &deleted, &missing);
        for (int k = 0; k < 4; k++) {
            ask(&t, &q);
            expect_gpu(&t, s.a, &q);
        }
        twin_drop(&t, s.a);
        gpu_scene_await_empty(&s);
    }
    gpu_scene_close(&s);
}

/* Without any row there is nothing to upload. */
Test(gpu_similar, an_empty_collection_is_the_cpus, .timeout = 900)
{
    struct gpu_scene s;
    struct twin t;
    static struct twin_question q;
    gpu_scene_open(&s, NULL, NULL);
    twin_make(&t, s.a, "g", 100, 1);
    twin_embed(&t, s.a, 8);
    twin_add_edges(&t, s.a, 2000, 1, false);
    gpu_scene_await(&s, EA_GPU_READY);
    for (int i = 0; i < 5; i++) {
        ask(&t, &q);
        twin_expect(&t, s.a, &q);
        cr_assert_eq(t.backend, EA_BACKEND_CPU);
    }
    twin_drop(&t, s.a);
    gpu_scene_close(&s);
}

/* A call of the device fails once: each of them in a long run, otherwise some. */
Test(gpu_similar, calls_fail, .timeout = 7200)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU makes no faults");
    static const char *const kinds[] = {"error", "crash", "memory", "sticky"};
    struct twin t;
    static struct twin_question q;
    uint64_t calls = 0;
    for (uint64_t nth = 0; nth <= calls; nth += nth && !gpu_scene_long() ? 1 + calls / 12 : 1) {
        struct gpu_scene s;
        char fault[64] = "";
        if (nth) snprintf(fault, sizeof fault, "fail=%u:%s", (unsigned)nth, kinds[nth % 4]);
        gpu_scene_open_counting(&s, fault, NULL);
        make(&t, s.a, 40, 3);
        for (int i = 0; i < 4; i++) {
            ask(&t, &q);
            twin_expect(&t, s.a, &q);
        }
        expect_gpu(&t, s.a, &q);
        if (!nth) calls = gpu_scene_calls(&s);
        twin_drop(&t, s.a);
        gpu_scene_close(&s);
    }
    cr_assert_gt(calls, 20);
}

/* The process is killed again and again; whatever runs then is the CPU's. */
Test(gpu_similar, kills, .timeout = 900)
{
    enum { KILLS = 3 };
    struct gpu_scene s;
    struct twin t;
    static struct twin_question q;
    gpu_scene_open(&s, NULL, NULL);
    make(&t, s.a, 64, 5);
    for (int i = 0; i < KILLS; i++) {
        ask(&t, &q);
        expect_gpu(&t, s.a, &q);
        pid_t pid = gpu_process_of(s.daemon.pid);
        cr_assert(pid > 0 && kill(pid, SIGKILL) == 0);
        for (int k = 0; k < 10; k++) {
            ask(&t, &q);
            twin_expect(&t, s.a, &q);
        }
    }
    twin_drop(&t, s.a);
    gpu_scene_close(&s);
}
