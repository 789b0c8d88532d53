/* fair_vram: more rows than VRAM: of twelve spaces together, of one collection alone, and because
 * another process takes the card's memory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/fair_bench.h"

enum {
    SPACES = 12,
    BUDGET_MIB = 2048,
    SIM_BUDGET_MIB = 128,
    TIMES = 3, /* the budget, of all collections together */
    DEPTH = 4,
    QUESTIONS = 10,
    VRAM_S = 90,
    GRAB_SPACES = 6,
    GRAB_TAKES = 2,
    GRAB_S = 40,
    LARGER_MIB = 512,
    SIM_LARGER_MIB = 32,
    LARGER_S = 20,
    SIMILARITY_SCORES = 400000,
};

struct scene {
    struct sched_daemon daemon;
    struct crowd crowd;
    struct crowd_question *questions[SPACES];
    unsigned count;
};

/* Of one as the daemon keeps it: padded, its norm and id beside it. */
static uint64_t row_bytes(const struct fair_bench *b)
{
    return (b->run.dimension + 31) / 32 * 128 + 16;
}

static struct crowd_question *make_questions(const struct fair_bench *b, const char *name,
                                             uint64_t rows, unsigned space)
{
    static const uint32_t queries[] = {1, 4, 16, 1, 2};
    struct crowd_question *q = calloc(QUESTIONS, sizeof *q);
    if (!q) bench_fail("questions", "no memory");
    for (unsigned i = 0; i < QUESTIONS; i++) {
        enum crowd_operation operation = i % 5 < 3    ? CROWD_KNN
                                         : i % 5 == 3 ? CROWD_SCORE
                                                      : CROWD_SIMILARITY;
        uint32_t n = queries[i % 5];
        if (operation == CROWD_SIMILARITY && n * rows > SIMILARITY_SCORES) operation = CROWD_KNN;
        const float *from = b->pool + (uint64_t)(space * 97 + i * 29) * b->run.dimension;
        q[i] = crowd_question(operation, name, from, n, b->run.dimension, 1 + i * 9,
                              operation == CROWD_SCORE ? 2000 : 0, rows);
    }
    return q;
}

static void scene_open(struct scene *s, const struct fair_bench *b, unsigned count, uint64_t rows,
                       const char *const *settings)
{
    *s = (struct scene){.count = count};
    fair_daemon_start(&s->daemon, b, count * rows, settings);
    ea_client *clients[SPACES];
    for (unsigned i = 0; i < count; i++)
        clients[i] = fair_client(&s->daemon, i);
    struct fair_rows each = {"rows", rows};
    fair_load(clients, count, &each, 1, b->run.dimension);
    for (unsigned i = 0; i < count; i++) {
        s->questions[i] = make_questions(b, "rows", rows, i);
        struct crowd_asker *a = crowd_join(&s->crowd, clients[i], s->questions[i], QUESTIONS);
        a->habits[0] = (struct crowd_habit){0, QUESTIONS, DEPTH};
        a->habits[1] = a->habits[2] = a->habits[0];
    }
    double loaded = bench_now_s();
    sched_daemon_force(&s->daemon, "cpu");
    crowd_learn(&s->crowd);
    printf("  their answers known after %.1f s\n", bench_now_s() - loaded);
    fflush(stdout);
}

static void scene_close(struct scene *s, struct sched_bench *b)
{
    crowd_settle(b, &s->crowd);
    for (unsigned i = 0; i < s->count; i++) {
        ea_close(s->crowd.askers[i].client);
        crowd_questions_free(s->questions[i], QUESTIONS);
    }
    sched_daemon_stop(&s->daemon);
}

static void count_part(struct scene *s, const char *what, double seconds)
{
    crowd_count(&s->crowd, seconds);
    double answers = (double)s->crowd.answers;
    printf("    %-26s %4.0f s: %8.0f/s, %3.0f %% with the GPU\n", what, seconds, answers / seconds,
           answers > 0 ? 100 * (double)s->crowd.on_gpu / answers : 0);
    fflush(stdout);
}

/* ---------------------------------------------------------------- vram */

void fair_vram(struct fair_bench *b)
{
    static struct scene s;
    uint64_t mib = b->run.simulated ? SIM_BUDGET_MIB : BUDGET_MIB;
    uint64_t rows = (mib << 20) * TIMES / SPACES / row_bytes(b) + 1;
    double seconds = b->run.quick ? 6 : 30;
    if (b->seconds && b->seconds < seconds) seconds = b->seconds;
    char memory[40];
    snprintf(memory, sizeof memory, "gpu.memory_mib=%llu", (unsigned long long)mib);
    const char *const settings[] = {memory, NULL};
    sched_title("vram", "12 spaces, whose collections together are 3 x the VRAM budget", VRAM_S);
    if (!fair_needs_gpu(b)) return;
    scene_open(&s, b, SPACES, rows, settings);
    sched_daemon_force(&s.daemon, "gpu");
    crowd_start(&s.crowd);
    count_part(&s, "forced to the GPU", seconds / 2);
    sched_daemon_force(&s.daemon, "none");
    count_part(&s, "as the daemon decides", seconds / 2);
    crowd_stop(&s.crowd);
    uint64_t evictions = fair_print_pressure(s.daemon.client);
    sched_verdict(&b->run, "evictions counted", (double)evictions, "", true, 1);
    scene_close(&s, &b->run);
}

/* ---------------------------------------------------------------- grab */

/* gpu_hog's next line. False: it has ended. */
static bool hog_said(FILE *hog)
{
    char line[128];
    if (!fgets(line, sizeof line, hog)) return false;
    printf("    another process %s", line);
    fflush(stdout);
    return true;
}

/* Takes percent of the card's free memory for a few seconds; meanwhile more spaces want theirs. */
static void take_part(struct fair_bench *b, struct scene *s, unsigned percent, unsigned mode)
{
    char path[4200], command[4300];
    double seconds = b->run.quick ? 2 : 4;
    build_path("tests/gpu/gpu_hog", path, sizeof path);
    snprintf(command, sizeof command, "%s take %u %.0f", path, percent, seconds + 1);
    FILE *hog = popen(command, "r"); // NOLINT(cert-env33-c): our own path
    if (!hog || !hog_said(hog)) bench_fail("gpu_hog", "it does not start");
    atomic_store(&s->crowd.mode, mode);
    count_part(s, "while it has it", seconds);
    fair_print_pressure(s->daemon.client);
    while (hog_said(hog))
        ;
    if (pclose(hog)) bench_fail("gpu_hog", "it failed");
    count_part(s, "after", seconds);
}

void fair_grab(struct fair_bench *b)
{
    static struct scene s;
    static const unsigned percents[GRAB_TAKES] = {90, 99};
    char path[4200];
    sched_title("grab", "another process takes 90 % of the card, and 99 %, under load", GRAB_S);
    if (!fair_needs_gpu(b)) return;
    build_path("tests/gpu/gpu_hog", path, sizeof path);
    if (b->run.simulated || access(path, X_OK)) {
        printf("  SKIP: %s\n", b->run.simulated ? "nobody else can use the simulated device"
                                                : "no tests/gpu/gpu_hog in this build");
        return;
    }
    scene_open(&s, b, GRAB_SPACES, b->run.rows_max, NULL);
    for (unsigned i = 0; i < GRAB_SPACES;
         i++) /* a third from the start, a third with each taking */
        for (unsigned mode = 0; mode < i % (GRAB_TAKES + 1); mode++)
            s.crowd.askers[i].habits[mode].depth = 0;
    sched_daemon_force(&s.daemon, "gpu");
    crowd_start(&s.crowd);
    count_part(&s, "before", b->run.quick ? 2 : 3);
    for (unsigned i = 0; i < GRAB_TAKES; i++)
        take_part(b, &s, percents[i], i + 1);
    crowd_stop(&s.crowd);
    fair_print_pressure(s.daemon.client);
    scene_close(&s, &b->run);
}

/* ---------------------------------------------------------------- larger */

void fair_larger(struct fair_bench *b)
{
    static struct sched_daemon d;
    static const char *const forces[] = {"none", "gpu"};
    uint64_t mib = b->run.simulated ? SIM_LARGER_MIB : LARGER_MIB, expected[QUESTIONS];
    uint64_t rows = (mib << 20) * 5 / 4 / row_bytes(b);
    unsigned asked = 0, right = 0, named = 0;
    char memory[40];
    snprintf(memory, sizeof memory, "gpu.memory_mib=%llu", (unsigned long long)mib);
    const char *const settings[] = {memory, NULL};
    sched_title("larger", "one collection of 5/4 of the whole VRAM budget", LARGER_S);
    if (!fair_needs_gpu(b)) return;
    fair_daemon_start(&d, b, rows, settings);
    ea_client *c = fair_client(&d, 0);
    struct fair_rows one = {"rows", rows};
    fair_load(&c, 1, &one, 1, b->run.dimension);
    struct crowd_question *q = make_questions(b, "rows", rows, 0);
    sched_daemon_force(&d, "cpu");
    for (unsigned i = 0; i < QUESTIONS; i++)
        expected[i] = crowd_ask(c, &q[i], NULL);
    for (unsigned n = 0; n < 2 * QUESTIONS; n++) {
        unsigned i = n / 2;
        ea_meta meta;
        sched_daemon_force(&d, forces[n % 2]);
        right += crowd_ask(c, &q[i], &meta) == expected[i];
        bool on_both = meta.backend == EA_BACKEND_BOTH;
        bool pressed = strcmp(ea_reason_name(meta.reason), "vram_pressure") == 0;
        /* Left alone, the daemon may find the CPU faster anyway; a list needs no replica. */
        named += on_both || pressed || n % 2 == 0 || q[i].operation != CROWD_KNN;
        asked++;
        if (!on_both && !pressed)
            printf("    force %s, operation %d, %u queries: %s, %s\n", forces[n % 2],
                   (int)q[i].operation, q[i].queries, ea_backend_name(meta.backend),
                   ea_reason_name(meta.reason));
    }
    fair_print_pressure(c);
    sched_verdict(&b->run, "right answers", right, "", true, asked);
    sched_verdict(&b->run, "forced kNN on both, or for vram_pressure", named, "", true, asked);
    b->run.wrong += asked - right;
    ea_close(c);
    crowd_questions_free(q, QUESTIONS);
    sched_daemon_stop(&d);
}
