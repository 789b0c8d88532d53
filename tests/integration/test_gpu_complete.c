/* Completion on a GPU: one that is forced to answer it gives the CPU's bits, what is wrong has the
 * CPU's words, and a process that is killed meanwhile costs nobody an answer. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS_MAX = 5000, D_MAX = 1100, CUES_MAX = 300 };

static float *rows, *cues;
static uint64_t ids[ROWS_MAX];
static uint8_t marks[CUES_MAX * 64];

static void take_numbers(void)
{
    rows = calloc((size_t)ROWS_MAX * 128 + (size_t)64 * D_MAX, sizeof *rows);
    cues = calloc((size_t)CUES_MAX * D_MAX, sizeof *cues);
    cr_assert(rows && cues);
}

static void open_pair(struct gpu_pair *p, const char *sim)
{
    gpu_pair_open(p, sim);
    take_numbers();
}

static void close_pair(struct gpu_pair *p)
{
    gpu_pair_close(p);
    free(rows), free(cues);
}

/* Ids that neither rise nor fall; cues that are rows of which some numbers are others'. */
static void make(struct gpu_pair *p, uint32_t d, uint64_t count)
{
    reference_fill(d + 1, rows, (size_t)count * d);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = 0; i < CUES_MAX * (uint64_t)d; i++)
        cues[i] = rows[(i + i % 3 * d) % (count * d)];
    for (uint64_t i = 0; i < sizeof marks; i++)
        marks[i] = (uint8_t)(i * 7 % 3);
    ea_rows all = {.collection = "c", .ids = ids, .rows = rows, .count = count, .dimension = d};
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(ea_collection_create(gpu_pair_of(p, k), "c", d, EA_COSINE, NULL), EA_OK);
        cr_assert_eq(ea_upsert(gpu_pair_of(p, k), &all, NULL), EA_OK);
    }
}

static void drop(struct gpu_pair *p)
{
    for (int k = 0; k < 2; k++)
        cr_assert_eq(ea_collection_drop(gpu_pair_of(p, k), "c"), EA_OK);
}

static ea_backend answered; /* who answered last */

/* Both say the same. */
static void expect_same(struct gpu_pair *p, const ea_complete_question *q, ea_backend backend)
{
    ea_completed got = {0}, want = {0};
    ea_status a = ea_complete(p->gpu.a, q, &got), b = ea_complete(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
        return;
    }
    uint64_t n = want.rows;
    answered = got.meta->backend;
    if (backend) cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(got.rows == n && got.columns == want.columns);
    cr_assert_eq(memcmp(got.states, want.states, n * want.columns * sizeof(float)), 0);
    cr_assert_eq(memcmp(got.rounds, want.rounds, n * sizeof *want.rounds), 0);
    cr_assert_eq(memcmp(got.converged, want.converged, n), 0);
    cr_assert_eq(memcmp(got.energies, want.energies, n * sizeof *want.energies), 0);
    cr_assert_eq(memcmp(got.ids, want.ids, n * sizeof *want.ids), 0);
    cr_assert_eq(memcmp(got.cosines, want.cosines, n * sizeof *want.cosines), 0);
    ea_completed_free(&got);
    ea_completed_free(&want);
}

static ea_complete_question ask(uint32_t d, uint64_t count, bool unit, uint32_t rounds)
{
    return (ea_complete_question){.collection = "c",
                                  .states = cues,
                                  .state_count = count,
                                  .dimension = d,
                                  .beta = unit ? 20.0F : 0.2F,
                                  .rounds = rounds,
                                  .unit = unit};
}

Test(gpu_complete, states_as_the_cpu, .timeout = 900)
{
    static const struct {
        uint32_t dimension;
        uint64_t rows;
    } cases[] = {{1, 40}, {7, 1}, {64, 1024}, {33, 5000}, {128, 1500}, {1100, 60}};
    struct gpu_pair p;
    open_pair(&p, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t d = cases[i].dimension;
        make(&p, d, cases[i].rows);
        for (int unit = 0; unit < 2; unit++)
            for (uint32_t rounds = 1; rounds <= 100; rounds = rounds * 3 + 1) {
                ea_complete_question q = ask(d, 1, unit, rounds);
                expect_same(&p, &q, EA_BACKEND_GPU);
                q.state_count = rounds == 1 ? CUES_MAX : 11;
                expect_same(&p, &q, EA_BACKEND_GPU);
                if (d > 64) continue;
                q.mask = marks;
                q.mask_rows = rounds == 1 ? CUES_MAX : 1;
                expect_same(&p, &q, EA_BACKEND_GPU);
            }
        drop(&p);
    }
    gpu_scene_await_empty(&p.gpu);
    cr_assert_eq(gpu_scene_stats(p.gpu.a).restarts, 0);
    close_pair(&p);
}

/* A card without room for many states' sums takes fewer at once; none at all: the CPU. */
Test(gpu_complete, little_memory, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    struct gpu_pair p;
    open_pair(&p, "vram_mib=16");
    make(&p, 128, ROWS_MAX);
    ea_complete_question q = ask(128, CUES_MAX, true, 3);
    expect_same(&p, &q, EA_BACKEND_NONE);
    q.state_count = 2;
    expect_same(&p, &q, EA_BACKEND_NONE);
    drop(&p);
    close_pair(&p);
}

Test(gpu_complete, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 64 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, 100);
    ea_complete_question q = ask(D, 20, true, 5);
    expect_same(&p, &q, EA_BACKEND_GPU);
    cues[7 * D + 3] = NAN;
    cues[9 * D] = INFINITY;
    expect_same(&p, &q, EA_BACKEND_GPU);
    cues[6 * D] = 3e38F;
    expect_same(&p, &q, EA_BACKEND_GPU);
    q.beta = 0;
    expect_same(&p, &q, EA_BACKEND_GPU);
    q = ask(D, 2, true, 101);
    expect_same(&p, &q, EA_BACKEND_GPU);
    q = ask(D / 2, 2, true, 1);
    expect_same(&p, &q, EA_BACKEND_GPU);
    drop(&p);
    close_pair(&p);
}

/* What a mask leaves out may be anything; of what it names, both say the same. */
Test(gpu_complete, unknown_numbers_are_anything, .timeout = 900)
{
    enum { D = 64 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, 100);
    ea_complete_question q = ask(D, 20, true, 5);
    q.mask = marks;
    for (uint64_t lines = 1; lines <= 20; lines += 19) {
        q.mask_rows = lines;
        for (uint64_t i = 0; i < UINT64_C(20) * D; i++) {
            bool known = marks[lines == 1 ? i % D : i];
            cues[i] = known ? rows[i] : i % 2 ? NAN : 3e38F;
        }
        expect_same(&p, &q, EA_BACKEND_GPU);
    }
    uint64_t bad = 7 * D;
    while (!marks[bad])
        bad++;
    cues[bad] = INFINITY;
    expect_same(&p, &q, EA_BACKEND_GPU);
    ea_completed r = {0};
    char words[64];
    snprintf(words, sizeof words, "state 7: column %d ", (int)(bad - UINT64_C(7) * D));
    cr_assert_eq(ea_complete(p.gpu.a, &q, &r), EA_INVALID_ARGUMENT);
    cr_assert(strstr(ea_error_text(p.gpu.a), words), "%s", ea_error_text(p.gpu.a));
    drop(&p);
    close_pair(&p);
}

/* Kernels that fail, once or from then on, and work that is lost: right answers. */
Test(gpu_complete, kernels_may_fail, .timeout = 900)
{
    static const char *const faults[] = {"fail=1:error@complete", "fail=4:error@complete",
                                         "fail=2:sticky@complete", "fail=3+:error@complete",
                                         "fail=5:memory@complete"};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct gpu_pair p;
        open_pair(&p, faults[i]);
        make(&p, 64, 1200);
        for (int again = 0; again < 3; again++) {
            ea_complete_question q = ask(64, 40, true, 30);
            expect_same(&p, &q, EA_BACKEND_NONE); /* the card or the CPU */
        }
        drop(&p);
        close_pair(&p);
    }
}

/* A call of the device fails once: each of them in a long run, otherwise some. A pass is a round,
 * several groups have several: uploads, completions of one state, of few, and of many. */
Test(gpu_complete, calls_fail, .timeout = 7200)
{
    static const char *const kinds[] = {"error", "crash", "memory", "sticky"};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    uint64_t calls = 0;
    struct gpu_scene cpu;
    gpu_scene_open(&cpu, NULL, (const char *[]){"gpu.devices=none", NULL});
    for (uint64_t nth = 0; nth <= calls; nth += nth && !gpu_scene_long() ? 1 + calls / 12 : 1) {
        struct gpu_pair p = {.cpu = cpu};
        char fault[64] = "multiply_adds=1";
        if (nth)
            snprintf(fault, sizeof fault, "multiply_adds=1 fail=%u:%s", (unsigned)nth,
                     kinds[nth % 4]);
        gpu_scene_open_counting(&p.gpu, fault, NULL);
        take_numbers();
        make(&p, 64, 1200);
        ea_complete_question q = ask(64, 1, true, 3);
        expect_same(&p, &q, EA_BACKEND_NONE);
        q.state_count = 20, q.mask = marks, q.mask_rows = 20;
        expect_same(&p, &q, EA_BACKEND_NONE);
        q.state_count = CUES_MAX, q.mask_rows = 1;
        expect_same(&p, &q, EA_BACKEND_NONE);
        do { /* until it is back */
            gpu_scene_await(&p.gpu, EA_GPU_READY);
            expect_same(&p, &q, EA_BACKEND_NONE);
        } while (answered != EA_BACKEND_GPU);
        if (!nth) calls = gpu_scene_calls(&p.gpu);
        drop(&p);
        gpu_scene_close(&p.gpu);
        free(rows), free(cues);
    }
    cr_assert_gt(calls, 20);
    gpu_scene_close(&cpu);
}

static unsigned right;
static const ea_completed *wanted;

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    (void)user;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    uint64_t bytes = wanted->rows * wanted->columns * sizeof(float);
    right += memcmp(answer->completed->states, wanted->states, bytes) == 0;
}

static void send(ea_client *c, const void *question)
{
    cr_assert_eq(ea_complete_send(c, question, &(ea_send_options){.callback = compare}, NULL),
                 EA_OK);
}

/* kill -9 while completions are under way. */
Test(gpu_complete, killed_meanwhile, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card is not slowed down");
    struct gpu_pair p;
    open_pair(&p, "latency_us=2000");
    make(&p, 64, 1200);
    ea_completed want = {0};
    ea_complete_question q = ask(64, 40, true, 30);
    cr_assert_eq(ea_complete(p.cpu.a, &q, &want), EA_OK);
    wanted = &want;
    gpu_pair_kill_meanwhile(&p, 12, send, &q, &right);
    ea_completed_free(&want);
    drop(&p);
    close_pair(&p);
}
