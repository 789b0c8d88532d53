/* ScoreCandidates with so many candidates that workers share what the GPU is told and what is made
 * of its answer: the same bits, ids and errors as from the CPU. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 24, ROWS = 3000, LISTS = 300, CANDIDATES = 90000 };

static float rows[ROWS * D];
static uint64_t ids[ROWS], offsets[LISTS + 1], candidates[CANDIDATES];

static void make_request(void)
{
    unsigned seed = 9;
    reference_fill(8, rows, (size_t)ROWS * D);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = 0; i < CANDIDATES; i++)
        candidates[i] = ids[(uint64_t)rand_r(&seed) % ROWS];
    for (uint64_t q = 1; q < LISTS; q++) {
        offsets[q] = offsets[q - 1] + (q % 5 ? (uint64_t)rand_r(&seed) % 600 : 0);
        if (offsets[q] > CANDIDATES) offsets[q] = CANDIDATES;
    }
    offsets[LISTS] = CANDIDATES;
}

static void open_scene(struct gpu_scene *s, const char *setting)
{
    gpu_scene_open(s, NULL, (const char *[]){setting, NULL});
    cr_assert_eq(ea_collection_create(s->a, "rows", D, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            s->a,
            &(ea_rows){
                .collection = "rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
            NULL),
        EA_OK);
}

static ea_status ask(struct gpu_scene *s, uint32_t k, ea_result *r)
{
    return ea_score(s->a,
                    &(ea_score_question){.collection = "rows",
                                         .queries = rows,
                                         .query_count = LISTS,
                                         .dimension = D,
                                         .offsets = offsets,
                                         .ids = candidates,
                                         .count = CANDIDATES,
                                         .k = k},
                    r);
}

static void compare(struct gpu_scene *gpu, struct gpu_scene *cpu, uint32_t k)
{
    ea_result got = {0}, want = {0};
    cr_assert_eq(ask(cpu, k, &want), EA_OK, "%s", ea_error_text(cpu->a));
    cr_assert_eq(ask(gpu, k, &got), EA_OK, "%s", ea_error_text(gpu->a));
    cr_assert_eq(got.meta->backend, EA_BACKEND_GPU);
    cr_assert_eq(want.meta->backend, EA_BACKEND_CPU);
    cr_assert(got.rows == want.rows && got.columns == want.columns);
    uint64_t count = want.rows * want.columns;
    cr_assert_eq(memcmp(got.scores, want.scores, count * sizeof(float)), 0, "k %u", k);
    if (k) {
        cr_assert_eq(memcmp(got.ids, want.ids, count * sizeof(uint64_t)), 0, "k %u", k);
        cr_assert_eq(memcmp(got.counts, want.counts, LISTS * sizeof(uint32_t)), 0, "k %u", k);
    }
    ea_result_free(&got);
    ea_result_free(&want);
}

Test(gpu_score, as_the_cpu, .timeout = 900)
{
    struct gpu_scene gpu, cpu;
    char text[256];
    make_request();
    open_scene(&gpu, NULL);
    open_scene(&cpu, "gpu.devices=none");
    gpu_scene_await_answer(gpu.a, "rows", D);
    compare(&gpu, &cpu, 0);
    compare(&gpu, &cpu, 1);
    compare(&gpu, &cpu, 20);

    ea_result r = {0};
    candidates[CANDIDATES - 3] = candidates[70000] = 12345;
    cr_assert_eq(ask(&cpu, 20, &r), EA_NOT_FOUND);
    snprintf(text, sizeof text, "%s", ea_error_text(cpu.a));
    cr_assert(strstr(text, "candidate 70000"), "%s", text);
    cr_assert_eq(ask(&gpu, 20, &r), EA_NOT_FOUND);
    cr_assert_str_eq(ea_error_text(gpu.a), text);
    candidates[CANDIDATES - 3] = candidates[70000] = ids[0];
    offsets[200] = offsets[201] + 1;
    cr_assert_eq(ask(&cpu, 20, &r), EA_INVALID_ARGUMENT);
    snprintf(text, sizeof text, "%s", ea_error_text(cpu.a));
    cr_assert_eq(ask(&gpu, 20, &r), EA_INVALID_ARGUMENT);
    cr_assert_str_eq(ea_error_text(gpu.a), text);
    offsets[200] = offsets[199];
    compare(&gpu, &cpu, 20);
    ea_result_free(&r);
    gpu_scene_close(&gpu);
    gpu_scene_close(&cpu);
}

struct answers {
    int ok, cancelled, other;
};

static void on_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    struct answers *a = user;
    a->ok += status == EA_OK;
    a->cancelled += status == EA_CANCELLED;
    a->other += status != EA_OK && status != EA_CANCELLED;
}

enum { ASKED = 24 };

/* Two of three are cancelled, at once or a little later: NOT_FOUND says that it has its answer. */
static void ask_and_cancel(struct gpu_scene *s, struct answers *a)
{
    for (int i = 0; i < ASKED; i++) {
        uint64_t id;
        cr_assert_eq(ea_score_send(s->a,
                                   &(ea_score_question){.collection = "rows",
                                                        .queries = rows,
                                                        .query_count = LISTS,
                                                        .dimension = D,
                                                        .offsets = offsets,
                                                        .ids = candidates,
                                                        .count = CANDIDATES,
                                                        .k = 10},
                                   &(ea_send_options){.callback = on_answer, .user = a}, &id),
                     EA_OK);
        ea_pump(s->a, 0);
        if (i % 4) wait_ms(i % 4 - 1);
        ea_status st = i % 3 ? ea_cancel(s->a, id) : EA_OK;
        cr_assert(st == EA_OK || st == EA_NOT_FOUND, "%s", ea_error_text(s->a));
    }
    while (ea_pending(s->a))
        cr_assert_eq(ea_pump(s->a, 10000000), EA_OK);
}

Test(gpu_score, cancelled_meanwhile, .timeout = 900)
{
    struct gpu_scene s;
    struct answers a = {0};
    make_request();
    open_scene(&s, NULL);
    gpu_scene_await_answer(s.a, "rows", D);
    int64_t until = give_up_ms();
    do {
        a = (struct answers){0};
        ask_and_cancel(&s, &a);
        cr_assert_eq(a.other, 0);
        cr_assert_geq(a.ok, ASKED / 3);
        cr_assert_eq(a.ok + a.cancelled, ASKED);
        cr_assert(now_ms() < until, "all were answered before they could be cancelled");
    } while (!a.cancelled);
    cr_assert_eq(ea_collection_drop(s.a, "rows"), EA_OK);
    gpu_scene_await_empty(&s);
    cr_assert_eq(gpu_scene_stats(s.a).restarts, 0);
    gpu_scene_close(&s);
}
