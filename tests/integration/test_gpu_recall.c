/* Recalls over the simulated GPU, or a real one, against the slow reference: between writes of
 * graph and rows, with every device call failing once, beside kills of the GPU process, and with
 * little memory: right answers and no errors. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_recall.h"
#include "tests/support/gpu_scene.h"

Test(gpu_recall, same_bits_through_changes, .timeout = 900)
{
    struct gpu_scene s;
    struct gpu_recall w;
    gpu_scene_open(&s, "shadow_rows=24", NULL);
    static const uint32_t dimensions[] = {4, 33, 1100};
    for (uint64_t i = 0; i < 3; i++) {
        gpu_recall_make(&w, s.a, 150, 3000, 130, dimensions[i], i + 1);
        for (uint32_t round = 0; round < 6; round++) {
            if (round % 3 == 1) gpu_recall_write(&w, s.a, 5, 20);
            if (round % 3 == 2) twin_add_edges(&w.twin, s.a, 30, round, true);
            if (round == 5) twin_remove_nodes(&w.twin, s.a, 3);
            for (int k = 0; k < 25; k++) {
                struct gpu_recall_question q;
                gpu_recall_ask(&w, &q);
                gpu_recall_expect_gpu(&w, s.a, &q);
                gpu_recall_free(&q);
            }
        }
        gpu_recall_drop(&w, s.a);
        gpu_scene_await_empty(&s);
    }
    gpu_scene_close(&s);
}

/* What the card cannot do is the CPU's, and the reply says why. */
Test(gpu_recall, the_cpus_questions, .timeout = 300)
{
    struct gpu_scene s;
    struct gpu_recall w;
    struct gpu_recall_question q;
    gpu_scene_open(&s, "shadow_rows=24", NULL);
    gpu_recall_make(&w, s.a, 60, 500, 50, 8, 3);
    gpu_recall_ask(&w, &q);
    gpu_recall_expect_gpu(&w, s.a, &q);
    q.question.results = 3000;
    q.question.k = 10;
    gpu_recall_expect(&w, s.a, &q);
    cr_assert_eq(w.backend, EA_BACKEND_CPU);
    cr_assert_eq(w.reason, EA_REASON_CHOSEN_FASTER, "%s", ea_reason_name(w.reason));
    gpu_recall_free(&q);
    gpu_recall_drop(&w, s.a);
    gpu_scene_close(&s);
}

/* A budget that is over when the run begins: the seeds alone, marked truncated. */
Test(gpu_recall, a_budget_ends_the_spread, .timeout = 300)
{
    static const uint64_t soon_us = 1;
    struct gpu_scene s;
    struct gpu_recall w;
    gpu_scene_open(&s, "shadow_rows=24", NULL);
    gpu_recall_make(&w, s.a, 60, 900, 50, 8, 4);
    for (int mode = EA_LINEAR; mode <= EA_ENGRAM; mode++) {
        const ea_spread_options how = {.mode = (ea_spread_mode)mode};
        ea_recall_question q = {.collection = "rows",
                                .graph = "g",
                                .cues = w.data,
                                .cue_count = 5,
                                .dimension = 8,
                                .spread = &how};
        ea_recall_result whole = {0}, cut = {0};
        const int64_t until = give_up_ms();
        do {
            cr_assert_eq(ea_recall(s.a, &q, &whole), EA_OK, "%s", ea_error_text(s.a));
            cr_assert(now_ms() < until, "the GPU does not answer");
        } while (whole.meta->backend != EA_BACKEND_GPU);
        q.time_max_us = &soon_us;
        cr_assert_eq(ea_recall(s.a, &q, &cut), EA_OK, "%s", ea_error_text(s.a));
        cr_assert_eq(cut.meta->backend, EA_BACKEND_GPU);
        cr_assert_lt(cut.count, whole.count);
        for (uint64_t list = 0; list < 5; list++) {
            cr_assert(cut.seeds[2 * list] == whole.seeds[2 * list] && cut.seeds[2 * list]);
            cr_assert_eq(cut.offsets[list + 1] - cut.offsets[list], cut.seeds[2 * list]);
            cr_assert(!whole.truncated[list] && cut.truncated[list]);
        }
        for (uint64_t i = 0; i < cut.count; i++)
            cr_assert(cut.marks[i] & EA_RECALL_SEED && cut.depths[i] == 0);
        ea_recall_result_free(&whole);
        ea_recall_result_free(&cut);
    }
    gpu_recall_drop(&w, s.a);
    gpu_scene_close(&s);
}

/* A bad cue is refused as the CPU refuses it. */
Test(gpu_recall, bad_cues, .timeout = 300)
{
    struct gpu_scene s;
    struct gpu_recall w;
    struct gpu_recall_question q;
    ea_recall_result r = {0};
    gpu_scene_open(&s, "shadow_rows=24", NULL);
    gpu_recall_make(&w, s.a, 60, 500, 50, 8, 3);
    do {
        gpu_recall_ask(&w, &q);
    } while (q.question.cue_ids || q.question.cue_count < 3);
    gpu_recall_expect_gpu(&w, s.a, &q);
    q.cues[2 * 8 + 5] = 1.0F / 0.0F;
    cr_assert_eq(ea_recall(s.a, &q.question, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(s.a), EA_DETAIL_NOT_FINITE, "%s", ea_error_text(s.a));
    cr_assert(strstr(ea_error_text(s.a), "cue 2"), "%s", ea_error_text(s.a));
    const uint64_t nobody = UINT64_C(1) << 60;
    q.question.cues = NULL, q.question.cue_ids = &nobody, q.question.cue_count = 1;
    q.question.cue_offsets = NULL, q.question.lists = 0;
    cr_assert_eq(ea_recall(s.a, &q.question, &r), EA_NOT_FOUND);
    cr_assert_eq(ea_error_detail(s.a), EA_DETAIL_UNKNOWN_ID, "%s", ea_error_text(s.a));
    ea_recall_result_free(&r);
    gpu_recall_free(&q);
    gpu_recall_drop(&w, s.a);
    gpu_scene_close(&s);
}

struct sent {
    const struct gpu_recall *scene;
    const struct gpu_recall_question *question;
    int right, together;
};

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    struct sent *s = user;
    (void)c;
    cr_assert_eq(answer->status, EA_OK);
    gpu_recall_compare(s->scene, s->question, answer->recalled);
    s->right++;
    s->together += answer->recalled->meta->batch > 1;
}

/* What may run with others: no node set, and f(d) that is no table. by_id: its cues are ids. */
static void ask_for_company(struct gpu_recall *w, struct gpu_recall_question *q, bool by_id)
{
    gpu_recall_ask(w, q);
    while (!q->question.cue_ids == by_id || q->spread.options.within ||
           q->spread.options.decay == EA_DECAY_TABLE) {
        gpu_recall_free(q);
        gpu_recall_ask(w, q);
    }
}

/* A call of the device fails once: each of them in a long run, otherwise some. */
Test(gpu_recall, calls_fail, .timeout = 7200)
{
    enum { SENT = 8 };
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU makes no faults");
    static const char *const kinds[] = {"error", "crash", "memory", "sticky"};
    struct gpu_recall w;
    uint64_t calls = 0;
    for (uint64_t nth = 0; nth <= calls; nth += nth && !gpu_scene_long() ? 1 + calls / 16 : 1) {
        struct gpu_scene s;
        struct gpu_recall_question q;
        char fault[64] = "";
        if (nth) snprintf(fault, sizeof fault, "fail=%u:%s", (unsigned)nth, kinds[nth % 4]);
        gpu_scene_open_counting(&s, fault, NULL);
        gpu_recall_make(&w, s.a, 80, 900, 70, 8, 3);
        for (int i = 0; i < 5; i++) {
            gpu_recall_ask(&w, &q);
            gpu_recall_expect(&w, s.a, &q);
            if (i == 4) gpu_recall_expect_gpu(&w, s.a, &q);
            gpu_recall_free(&q);
        }
        ask_for_company(&w, &q, nth % 2);
        struct sent sent = {.scene = &w, .question = &q};
        const ea_send_options how = {.callback = compare, .user = &sent};
        for (int k = 0; k < SENT; k++)
            cr_assert_eq(ea_recall_send(s.a, &q.question, &how, NULL), EA_OK);
        while (ea_pending(s.a))
            cr_assert_eq(ea_pump(s.a, -1), EA_OK);
        cr_assert_eq(sent.right, SENT);
        gpu_recall_free(&q);
        if (!nth) calls = gpu_scene_calls(&s);
        gpu_recall_drop(&w, s.a);
        gpu_scene_close(&s);
    }
    cr_assert_gt(calls, 20);
}

/* The process is killed again and again, in the middle of what was sent; whatever it had is then
 * the CPU's. */
Test(gpu_recall, kills, .timeout = 900)
{
    enum { KILLS = 4, SENT = 12 };
    struct gpu_scene s;
    struct gpu_recall w;
    gpu_scene_open(&s, "latency_us=2000 shadow_rows=24", NULL);
    gpu_recall_make(&w, s.a, 100, 1500, 90, 12, 5);
    for (int i = 0; i < KILLS; i++) {
        struct gpu_recall_question q;
        gpu_recall_ask(&w, &q);
        gpu_recall_expect_gpu(&w, s.a, &q);
        struct sent sent = {.scene = &w, .question = &q};
        const ea_send_options how = {.callback = compare, .user = &sent};
        for (int k = 0; k < SENT; k++)
            cr_assert_eq(ea_recall_send(s.a, &q.question, &how, NULL), EA_OK);
        pid_t pid = gpu_process_of(s.daemon.pid);
        cr_assert(pid > 0 && kill(pid, SIGKILL) == 0);
        while (ea_pending(s.a))
            cr_assert_eq(ea_pump(s.a, -1), EA_OK);
        cr_assert_eq(sent.right, SENT);
        gpu_recall_free(&q);
    }
    gpu_recall_drop(&w, s.a);
    gpu_scene_close(&s);
}

static unsigned refused;

/* Of ids of which one is no row's. */
static void is_refused(ea_client *c, const ea_answer *answer, void *user)
{
    (void)user;
    refused += answer->status == EA_NOT_FOUND && strstr(ea_error_text(c), "there is no id") != NULL;
}

/* Recalls that ask the same run together, beside others that ask something else, each answered as
 * if it were alone; one of them names a row that is not there. */
Test(gpu_recall, several_as_one, .timeout = 300)
{
    enum { QUESTIONS = 3, SENT = 40 };
    struct gpu_scene s;
    struct gpu_recall w;
    struct gpu_recall_question q[QUESTIONS];
    struct sent sent[QUESTIONS] = {0};
    gpu_scene_open(&s, gpu_scene_is_real() ? NULL : "latency_us=3000", NULL);
    gpu_recall_make(&w, s.a, 100, 1500, 90, 12, 9);
    for (int i = 0; i < QUESTIONS; i++) {
        ask_for_company(&w, &q[i], i == 1);
        gpu_recall_expect_gpu(&w, s.a, &q[i]);
        sent[i] = (struct sent){.scene = &w, .question = &q[i]};
    }
    const int64_t until = give_up_ms();
    do {
        for (int i = 0; i < QUESTIONS; i++)
            sent[i].right = 0;
        ea_recall_question none = q[1].question;
        uint64_t unknown[GPU_RECALL_CUES];
        for (uint64_t i = 0; i < none.cue_count; i++)
            unknown[i] = i + 1 < none.cue_count ? none.cue_ids[i] : UINT64_C(1) << 50;
        none.cue_ids = unknown;
        refused = 0;
        for (int k = 0; k < SENT; k++) {
            if (k == SENT / 2)
                cr_assert_eq(
                    ea_recall_send(s.a, &none, &(ea_send_options){.callback = is_refused}, NULL),
                    EA_OK);
            const ea_send_options how = {.callback = compare, .user = &sent[k % QUESTIONS]};
            cr_assert_eq(ea_recall_send(s.a, &q[k % QUESTIONS].question, &how, NULL), EA_OK);
        }
        while (ea_pending(s.a))
            cr_assert_eq(ea_pump(s.a, -1), EA_OK);
        cr_assert_eq(sent[0].right + sent[1].right + sent[2].right, SENT);
        cr_assert_eq(refused, 1);
        cr_assert(now_ms() < until, "they always run alone");
    } while (!sent[0].together || !sent[1].together || !sent[2].together);
    for (int i = 0; i < QUESTIONS; i++)
        gpu_recall_free(&q[i]);
    gpu_recall_drop(&w, s.a);
    gpu_scene_close(&s);
}
