/* Completion by an attractor on a GPU: one that is forced to answer it gives the CPU's bits, also
 * after it has learned; what is wrong has the CPU's words; and calls that fail and a process that
 * is killed meanwhile cost nobody an answer. */
/* test-run: timeout=900 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS_MAX = 3000, D_MAX = 1100, CUES_MAX = 300, NUMBERS = 400000 };

static float *rows, *cues;
static uint64_t ids[ROWS_MAX];
static uint8_t *marks; /* a line for each cue */

static void take_numbers(void)
{
    rows = calloc(NUMBERS, sizeof *rows);
    cues = calloc(NUMBERS, sizeof *cues);
    marks = calloc(NUMBERS, 1);
    cr_assert(rows && cues && marks);
}

static void open_cpu(struct gpu_pair *p)
{
    gpu_pair_open_cpu(p);
    take_numbers();
}

static void open_pair(struct gpu_pair *p, const char *sim)
{
    gpu_pair_open(p, sim);
    take_numbers();
}

static void close_pair(struct gpu_pair *p)
{
    gpu_pair_close(p);
    free(rows), free(cues), free(marks);
}

#define BOTH(p, call)                                        \
    for (int k = 0; k < 2; k++) {                            \
        ea_client *c = gpu_pair_of(p, k);                    \
        cr_assert_eq((call), EA_OK, "%s", ea_error_text(c)); \
    }

/* An attractor and a collection of that dimension, with ids that neither rise nor fall. Two thirds
 * of the numbers are known; what is not is no number. */
static void make(struct gpu_pair *p, uint32_t d, uint64_t stored, uint64_t count)
{
    reference_fill(d + 1, rows, (size_t)stored * d);
    reference_fill(d + 2, cues, (size_t)count * d);
    for (uint64_t i = 0; i < stored; i++)
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = 0; i < count * d; i++)
        marks[i] = i % d == 0 || i % d % 3 != i / d % 2;
    ea_rows all = {.collection = "c", .ids = ids, .rows = rows, .count = stored, .dimension = d};
    BOTH(p, ea_collection_create(c, "c", d, EA_COSINE, NULL));
    if (stored) BOTH(p, ea_upsert(c, &all, NULL));
    BOTH(p, ea_attractor_create(c, "w", &(ea_attractor_shape){.dimension = d}, NULL));
}

static void learn(struct gpu_pair *p, uint32_t d, uint64_t first, uint64_t count)
{
    ea_learn_question q = {
        .attractor = "w", .rows = rows + first * d, .count = count, .dimension = d};
    BOTH(p, ea_attractor_learn(c, &q, NULL));
}

static void drop(struct gpu_pair *p)
{
    BOTH(p, ea_attractor_drop(c, "w"));
    BOTH(p, ea_collection_drop(c, "c"));
}

static void expect_same_numbers(const ea_engine_completed *got, const ea_engine_completed *want)
{
    uint64_t n = want->rows;
    cr_assert(got->rows == n && got->columns == want->columns);
    cr_assert_eq(memcmp(got->states, want->states, n * want->columns * sizeof(float)), 0);
    cr_assert_eq(memcmp(got->rounds, want->rounds, n * sizeof *want->rounds), 0);
    cr_assert_eq(memcmp(got->confidences, want->confidences, n * sizeof(float)), 0);
    cr_assert_eq(memcmp(got->converged, want->converged, n), 0);
    cr_assert_eq(!got->ids, !want->ids);
    if (!want->ids) return;
    cr_assert_eq(memcmp(got->ids, want->ids, n * sizeof *want->ids), 0);
    cr_assert_eq(memcmp(got->cosines, want->cosines, n * sizeof *want->cosines), 0);
    cr_assert_eq(memcmp(got->passes, want->passes, n), 0);
}

/* Both say the same; on that backend, unless it is NONE. */
static void expect_same(struct gpu_pair *p, const ea_engine_question *q, ea_backend backend)
{
    ea_engine_completed got = {0}, want = {0};
    ea_status a = ea_complete_engine(p->gpu.a, q, &got), b = ea_complete_engine(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
    } else {
        if (backend)
            cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
        expect_same_numbers(&got, &want);
    }
    ea_engine_completed_free(&got);
    ea_engine_completed_free(&want);
}

static ea_engine_question ask(uint32_t d, uint64_t count, bool stored)
{
    return (ea_engine_question){.attractor = "w",
                                .cues = cues,
                                .count = count,
                                .dimension = d,
                                .collection = stored ? "c" : NULL};
}

/* What is not known may be anything. */
static void spoil_unknown(uint32_t d, uint64_t count)
{
    for (uint64_t i = 0; i < count * d; i++)
        if (!marks[i]) cues[i] = i % 2 ? NAN : INFINITY;
}

static void ask_all(struct gpu_pair *p, uint32_t d, uint64_t count)
{
    for (int stored = 0; stored < 2; stored++) {
        ea_engine_question q = ask(d, 1, stored);
        q.mask = marks;
        q.mask_rows = 1;
        expect_same(p, &q, EA_BACKEND_GPU);
        q.count = q.mask_rows = count;
        expect_same(p, &q, EA_BACKEND_GPU);
    }
}

static const struct {
    uint32_t dimension;
    uint64_t rows, cues;
} cases[] = {{1, 40, 5},    {2, 9, 300},   {7, 1, 300},   {33, 3000, 90},
             {40, 500, 70}, {130, 60, 40}, {1024, 20, 9}, {1100, 30, 5}};

Test(gpu_attractor, states_as_the_cpu, .timeout = 900)
{
    struct gpu_pair p;
    open_pair(&p, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t d = cases[i].dimension;
        uint64_t n = cases[i].cues;
        make(&p, d, cases[i].rows, n);
        ea_engine_question q = ask(d, n, true);
        expect_same(&p, &q, EA_BACKEND_GPU); /* all known */
        spoil_unknown(d, n);
        ask_all(&p, d, n);
        learn(&p, d, 0, cases[i].rows < 5 ? cases[i].rows : 5);
        ask_all(&p, d, n);
        drop(&p);
    }
    gpu_scene_await_empty(&p.gpu);
    cr_assert_eq(gpu_scene_stats(p.gpu.a).restarts, 0);
    close_pair(&p);
}

/* One mask for many cues: what it does not know is not multiplied. Half is known, the first
 * numbers, those of a few partials, or one number in three, or all but one. */
Test(gpu_attractor, one_mask_for_all, .timeout = 900)
{
    static const uint32_t dimensions[] = {33, 130, 1000, 1100};
    struct gpu_pair p;
    open_pair(&p, NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        uint64_t n = d < 1000 ? 200 : 70;
        make(&p, d, 20, n);
        learn(&p, d, 0, 5);
        for (int kind = 0; kind < 5; kind++) {
            for (uint32_t c = 0; c < d; c++)
                marks[c] = kind == 0   ? c % 2 == 0
                           : kind == 1 ? c < d / 2
                           : kind == 2 ? c % 32 < 15
                           : kind == 3 ? c % 3 == 0
                                       : c != 7;
            ea_engine_question q = ask(d, n, true);
            q.mask = marks;
            q.mask_rows = 1;
            expect_same(&p, &q, EA_BACKEND_GPU);
        }
        drop(&p);
    }
    close_pair(&p);
}

/* What is learned is uploaded, without the dentate matrix, which is ten times as large. */
Test(gpu_attractor, learning_uploads_the_weights_alone, .timeout = 900)
{
    enum { D = 130, STRIDE = 160 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, 60, 10);
    ea_engine_question q = ask(D, 10, false);
    expect_same(&p, &q, EA_BACKEND_GPU);
    uint64_t before = gpu_scene_stats(p.gpu.a).upload_bytes;
    cr_assert_geq(before, (uint64_t)11 * D * STRIDE * sizeof(float));
    learn(&p, D, 0, 5);
    expect_same(&p, &q, EA_BACKEND_GPU);
    uint64_t after = gpu_scene_stats(p.gpu.a).upload_bytes;
    cr_assert_eq(after - before, (uint64_t)D * STRIDE * sizeof(float));
    drop(&p);
    gpu_scene_await_empty(&p.gpu);
    close_pair(&p);
}

/* Sums that tie, at the bound and everywhere: cues of zeros, weights that are all the same. */
Test(gpu_attractor, ties_go_to_the_lowest, .timeout = 900)
{
    enum { D = 40 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, 30, 20);
    for (int i = 0; i < 10 * D; i++)
        cues[i] = i / D % 2 ? 0.0F : -0.0F;
    float *w = calloc((size_t)D * D, sizeof *w);
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < D * D; i++)
            w[i] = kind == 0 ? 0.0F : kind == 1 ? -0.25F : i % D % 2 ? 1.0F : -1048576.0F;
        BOTH(&p, ea_attractor_set(c, "w", w, D, NULL));
        ea_engine_question q = ask(D, 20, true);
        expect_same(&p, &q, EA_BACKEND_GPU);
        q.count = 1;
        expect_same(&p, &q, EA_BACKEND_GPU);
    }
    free(w);
    drop(&p);
    close_pair(&p);
}

/* A card without room for many cues takes fewer at once; none at all: the CPU. */
Test(gpu_attractor, little_memory, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    struct gpu_pair p;
    open_pair(&p, "vram_mib=16");
    make(&p, 130, 200, CUES_MAX);
    ea_engine_question q = ask(130, CUES_MAX, true);
    expect_same(&p, &q, EA_BACKEND_GPU);
    drop(&p);
    make(&p, 1100, 10, 2); /* 51 MiB */
    q = ask(1100, 2, true);
    expect_same(&p, &q, EA_BACKEND_CPU);
    drop(&p);
    close_pair(&p);
}

/* A collection without rows has no replica: the CPU says so. */
Test(gpu_attractor, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 64 };
    struct gpu_pair p;
    open_pair(&p, NULL);
    make(&p, D, 0, 20);
    ea_engine_question q = ask(D, 20, true);
    expect_same(&p, &q, EA_BACKEND_CPU);
    q.count = 0;
    expect_same(&p, &q, EA_BACKEND_NONE);
    q = ask(D, 20, false);
    expect_same(&p, &q, EA_BACKEND_GPU);
    cues[7 * D + 3] = NAN;
    expect_same(&p, &q, EA_BACKEND_NONE);
    cues[6 * D] = 3e38F;
    expect_same(&p, &q, EA_BACKEND_NONE);
    memset(marks + 5 * D, 0, D - 20);
    q.mask = marks;
    q.mask_rows = 20;
    expect_same(&p, &q, EA_BACKEND_NONE);
    q.mask_rows = 3;
    expect_same(&p, &q, EA_BACKEND_NONE);
    q = ask(D / 2, 2, false);
    expect_same(&p, &q, EA_BACKEND_NONE);
    drop(&p);
    close_pair(&p);
}

/* Requests while a call fails, which comes once in whatever process; it was made. */
static void ask_beside(const char *fault, const char *call, const char *const *settings)
{
    struct gpu_pair p;
    char sim[64];
    snprintf(sim, sizeof sim, "fail=%s@%s", fault, call);
    gpu_scene_open_counting(&p.gpu, sim, settings);
    gpu_scene_await(&p.gpu, EA_GPU_READY);
    open_cpu(&p);
    make(&p, 40, 100, 30);
    for (int again = 0; again < 3; again++) {
        ea_engine_question q = ask(40, 30, true);
        expect_same(&p, &q, EA_BACKEND_NONE); /* the card or the CPU */
        q.count = 1;
        expect_same(&p, &q, EA_BACKEND_NONE);
        learn(&p, 40, (uint64_t)again * 3, 3);
    }
    cr_assert_geq(gpu_scene_calls(&p.gpu), 1, "%s: it was never called", sim);
    drop(&p);
    close_pair(&p);
}

/* Every call that such a request makes, failing once, later or for ever: right answers. */
Test(gpu_attractor, calls_may_fail, .timeout = 900)
{
    static const char *const calls[] = {
        "attractor",     "tile",         "scan",  "topk",         "copy_in",    "copy_out",
        "range_reserve", "range_resize", "clear", "event_record", "event_query"};
    static const char *const faults[] = {"1:error", "2:memory", "3:sticky", "2:crash", "3+:error"};
    const char *const settings[] = {"gpu.heartbeat_ms=10000", NULL};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
            ask_beside(faults[f], calls[i], settings);
}

/* Calls that take long, or never return: the process is killed. */
Test(gpu_attractor, calls_may_hang, .timeout = 900)
{
    static const char *const calls[] = {"attractor", "topk", "copy_out"};
    const char *const settings[] = {GPU_IMPATIENT, NULL};
    if (gpu_scene_is_real()) cr_skip_test("SKIP faults are the simulated device's");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ask_beside("1:hang", calls[i], settings);
        ask_beside("2:slow", calls[i], settings);
    }
}

/* A space that may have 4 MiB: a replica with its dentate matrix has its place, or is the CPU's. */
Test(gpu_attractor, within_the_quota, .timeout = 900)
{
    struct gpu_pair p;
    char path[64], option[96];
    snprintf(path, sizeof path, "/tmp/engram-gpu-attractor.%d.json", getpid());
    snprintf(option, sizeof option, "--config=%s", path);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fputs("{\"spaces\": {\"alpha\": {\"vram_mib\": 4}}, \"gpu\": {\"force\": \"gpu\","
          "\"min_pairs\": 1}}",
          f);
    fclose(f);
    gpu_scene_open(&p.gpu, NULL, (const char *[]){option, NULL});
    gpu_scene_await(&p.gpu, EA_GPU_READY);
    open_cpu(&p);
    make(&p, 130, 20, 10); /* 0.9 MiB */
    ea_engine_question q = ask(130, 10, false);
    expect_same(&p, &q, EA_BACKEND_GPU);
    drop(&p);
    make(&p, 300, 20, 10); /* 4.03 MiB */
    q = ask(300, 10, false);
    expect_same(&p, &q, EA_BACKEND_CPU);
    drop(&p);
    unlink(path);
    close_pair(&p);
}

static unsigned right;
static const ea_engine_completed *wanted;

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    (void)user;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    expect_same_numbers(answer->engine_completed, wanted);
    right++;
}

static void send(ea_client *c, const void *question)
{
    cr_assert_eq(
        ea_complete_engine_send(c, question, &(ea_send_options){.callback = compare}, NULL), EA_OK);
}

/* kill -9 while completions are under way. */
Test(gpu_attractor, killed_meanwhile, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card is not slowed down");
    struct gpu_pair p;
    open_pair(&p, "latency_us=2000");
    make(&p, 64, 1200, 40);
    ea_engine_completed want = {0};
    ea_engine_question q = ask(64, 40, true);
    cr_assert_eq(ea_complete_engine(p.cpu.a, &q, &want), EA_OK);
    wanted = &want;
    gpu_pair_kill_meanwhile(&p, 12, send, &q, &right);
    ea_engine_completed_free(&want);
    drop(&p);
    close_pair(&p);
}
