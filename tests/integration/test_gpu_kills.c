/* The GPU process killed, stopped, and killed again: under load, while it starts, during an upload,
 * while the daemon stops. Nobody notices but by the time it takes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/hrr.h"
#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

/* ---------------------------------------------------------------- busy clients */

enum { BUSY = 8, D = 40, ROWS = 150, QUERIES = 3, K = 8, BOUND = 20 };

struct busy {
    const struct gpu_scene *scene;
    unsigned number;
    atomic_bool *stop;
    float rows[ROWS * D], queries[QUERIES * D];
    uint64_t ids[ROWS];
    uint64_t asked, failed, wrong, on_gpu, bound_on_gpu, cleaned_on_gpu, seed;
    char error[200];
};

static void note_failure(struct busy *b, ea_client *c, const char *what)
{
    b->failed++;
    snprintf(b->error, sizeof b->error, "%s: %s", what, ea_error_text(c));
}

static void write_some(struct busy *b, ea_client *c)
{
    uint64_t first = b->seed * 13 % (ROWS - 10);
    reference_fill(++b->seed, b->rows + first * D, (size_t)10 * D);
    if (ea_upsert(c,
                  &(ea_rows){.collection = "own",
                             .ids = b->ids + first,
                             .rows = b->rows + first * D,
                             .count = 10,
                             .dimension = D},
                  NULL))
        note_failure(b, c, "upsert");
}

static void ask_knn(struct busy *b, ea_client *c, ea_result *r)
{
    struct reference_rows all = {D, REFERENCE_COSINE, ROWS, b->rows, b->ids};
    uint64_t ids[K];
    float scores[K];
    b->asked++;
    if (ea_knn(c,
               &(ea_knn_question){.collection = "own",
                                  .queries = b->queries,
                                  .query_count = QUERIES,
                                  .dimension = D,
                                  .k = K},
               r)) {
        note_failure(b, c, "knn");
        return;
    }
    b->on_gpu += r->meta->backend == EA_BACKEND_GPU;
    for (size_t q = 0; q < QUERIES; q++) {
        reference_knn(&all, b->queries + q * D, K, NULL, NULL, ids, scores);
        b->wrong += r->counts[q] != K || memcmp(r->ids + q * K, ids, sizeof ids) != 0 ||
                    memcmp(r->scores + q * K, scores, sizeof scores) != 0;
    }
}

static void ask_similarity(struct busy *b, ea_client *c, ea_result *r)
{
    b->asked++;
    if (ea_similarity(
            c,
            &(ea_similarity_question){
                .collection = "own", .queries = b->queries, .query_count = 1, .dimension = D},
            r)) {
        note_failure(b, c, "similarity");
        return;
    }
    b->on_gpu += r->meta->backend == EA_BACKEND_GPU;
    if (r->columns != ROWS) {
        b->wrong++;
        return;
    }
    for (size_t i = 0; i < ROWS; i++)
        b->wrong += r->ids[i] != b->ids[i] ||
                    !reference_same(r->scores[i], reference_score(REFERENCE_COSINE, D, b->queries,
                                                                  b->rows + i * D));
}

/* Rows `first` on of "own", each bound to the one behind it, or unbound from that. */
static void bind_rows(const struct busy *b, enum hrr_form form, uint64_t first, float *out)
{
    void *memory = aligned_alloc(64, hrr_plan_bytes(D));
    void *scratch = aligned_alloc(64, hrr_scratch_bytes(D));
    const float *left[BOUND], *right[BOUND];
    for (size_t i = 0; i < BOUND; i++) {
        left[i] = b->rows + (first + i) * D;
        right[i] = left[i] + D;
    }
    struct hrr_pairs pairs = {.plan = hrr_plan_make(D, memory),
                              .scratch = scratch,
                              .form = form,
                              .a = left,
                              .b = right,
                              .count = BOUND,
                              .out = out,
                              .out_step = D};
    hrr_scalar.pairs(&pairs);
    free(memory);
    free(scratch);
}

/* They are stored, and what is stored is looked at. */
static void ask_bind(struct busy *b, ea_client *c, ea_result *r)
{
    float want[BOUND * D];
    uint64_t first = b->asked * 7 % (ROWS - BOUND - 1);
    ea_hrr_result bound = {0};
    const ea_operand left = {.collection = "own", .ids = b->ids + first, .count = BOUND};
    const ea_operand right = {.collection = "own", .ids = b->ids + first + 1, .count = BOUND};
    const ea_into into = {.collection = "bound", .ids = b->ids};
    b->asked++;
    if (ea_bind(c, &(ea_bind_question){.a = &left, .b = &right, .into = &into}, &bound) ||
        ea_fetch(c, "bound", b->ids, BOUND, r)) {
        note_failure(b, c, "bind");
        return;
    }
    b->bound_on_gpu += bound.meta->backend == EA_BACKEND_GPU;
    bind_rows(b, HRR_BIND, first, want);
    b->wrong += r->rows != BOUND || memcmp(r->vectors, want, sizeof want) != 0;
    ea_hrr_result_free(&bound);
}

/* The best row of "own" for each of some that are unbound from those behind them. */
static void ask_cleanup(struct busy *b, ea_client *c, ea_result *r)
{
    float unbound[BOUND * D];
    uint64_t first = b->asked * 5 % (ROWS - BOUND - 1);
    const ea_operand left = {.collection = "own", .ids = b->ids + first, .count = BOUND};
    const ea_operand right = {.collection = "own", .ids = b->ids + first + 1, .count = BOUND};
    b->asked++;
    if (ea_cleanup(c, &(ea_cleanup_question){.a = &left, .b = &right, .codebook = "own", .k = 1},
                   r)) {
        note_failure(b, c, "cleanup");
        return;
    }
    b->cleaned_on_gpu += r->meta->backend == EA_BACKEND_GPU;
    bind_rows(b, HRR_UNBIND, first, unbound);
    for (size_t i = 0; i < BOUND; i++) {
        float best = -2;
        for (size_t n = 0; n < ROWS; n++) {
            float score = reference_score(REFERENCE_COSINE, D, unbound + i * D, b->rows + n * D);
            if (score > best) best = score;
        }
        b->wrong += !reference_same(r->scores[i], best);
    }
}

static void *be_busy(void *argument)
{
    struct busy *b = argument;
    char space[32];
    ea_result r = {0};
    snprintf(space, sizeof space, "busy-%u", b->number);
    ea_client *c = gpu_scene_client(b->scene, space);
    if (ea_collection_create(c, "own", D, EA_COSINE, NULL) ||
        ea_collection_create(c, "bound", D, EA_COSINE, NULL) ||
        ea_upsert(
            c,
            &(ea_rows){
                .collection = "own", .ids = b->ids, .rows = b->rows, .count = ROWS, .dimension = D},
            NULL))
        note_failure(b, c, "create");
    for (unsigned i = 0; !b->failed && !atomic_load(b->stop); i++) {
        if (i % 4 == 3) write_some(b, c);
        ask_knn(b, c, &r);
        ask_similarity(b, c, &r);
        ask_bind(b, c, &r);
        ask_cleanup(b, c, &r);
    }
    if (!b->failed && (ea_collection_drop(c, "own") || ea_collection_drop(c, "bound")))
        note_failure(b, c, "drop");
    ea_result_free(&r);
    ea_close(c);
    return NULL;
}

struct load {
    atomic_bool stop;
    struct busy busy[BUSY];
    pthread_t threads[BUSY];
};

static struct load *load_start(const struct gpu_scene *s)
{
    struct load *l = calloc(1, sizeof *l);
    for (unsigned i = 0; i < BUSY; i++) {
        struct busy *b = &l->busy[i];
        b->scene = s;
        b->number = i;
        b->stop = &l->stop;
        b->seed = i * 1000;
        reference_fill(i, b->rows, (size_t)ROWS * D);
        reference_fill(i + 50, b->queries, (size_t)QUERIES * D);
        for (uint64_t k = 0; k < ROWS; k++)
            b->ids[k] = 5 + k * 3;
        cr_assert_eq(pthread_create(&l->threads[i], NULL, be_busy, b), 0);
    }
    return l;
}

static void load_end(struct load *l)
{
    uint64_t asked = 0, on_gpu = 0, bound_on_gpu = 0, cleaned_on_gpu = 0;
    atomic_store(&l->stop, true);
    for (unsigned i = 0; i < BUSY; i++)
        pthread_join(l->threads[i], NULL);
    for (unsigned i = 0; i < BUSY; i++) {
        struct busy *b = &l->busy[i];
        cr_assert_eq(b->failed, 0, "client %u: %s", i, b->error);
        cr_assert_eq(b->wrong, 0, "client %u: %llu wrong", i, (unsigned long long)b->wrong);
        cr_assert_gt(b->asked, 0);
        asked += b->asked;
        on_gpu += b->on_gpu;
        bound_on_gpu += b->bound_on_gpu;
        cleaned_on_gpu += b->cleaned_on_gpu;
    }
    cr_assert_gt(on_gpu, 0);
    cr_assert_gt(bound_on_gpu, 0);
    cr_assert_gt(cleaned_on_gpu, 0);
    fprintf(stderr, "%llu answers, %llu of the GPU's, and %llu binds\n", (unsigned long long)asked,
            (unsigned long long)on_gpu, (unsigned long long)bound_on_gpu);
    free(l);
}

/* A collection of the test's own, to see whether the GPU answers. */
static void make_probe(ea_client *c)
{
    float rows[20 * D];
    uint64_t ids[20];
    reference_fill(8, rows, (size_t)20 * D);
    for (uint64_t i = 0; i < 20; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "probe", D, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(c,
                  &(ea_rows){
                      .collection = "probe", .ids = ids, .rows = rows, .count = 20, .dimension = D},
                  NULL),
        EA_OK);
}

static pid_t wait_process(const struct gpu_scene *s, pid_t but)
{
    int64_t until = give_up_ms();
    for (;;) {
        pid_t pid = gpu_process_of(s->daemon.pid);
        if (pid && pid != but) return pid;
        cr_assert(now_ms() < until, "no GPU process");
        wait_ms(1);
    }
}

struct holdings {
    size_t descriptors;
    uint64_t memory_used;
};

static struct holdings holdings_of(const struct gpu_scene *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->a, &stats), EA_OK);
    return (struct holdings){process_descriptors(s->daemon.pid), stats.memory_bytes_used};
}

/* Waits for what is cached and lingers. */
static void expect_no_more(const struct gpu_scene *s, struct holdings before)
{
    int64_t until = give_up_ms();
    struct holdings now = holdings_of(s);
    while (now.descriptors > before.descriptors ||
           now.memory_used > before.memory_used + DAEMON_OWN_BYTES) {
        cr_assert(now_ms() < until, "%zu descriptors, before %zu; %llu bytes, before %llu",
                  now.descriptors, before.descriptors, (unsigned long long)now.memory_used,
                  (unsigned long long)before.memory_used);
        wait_ms(20);
        now = holdings_of(s);
    }
}

/* number: SIGKILL, or SIGSTOP, which the heartbeat finds out. */
static void under_load(int number, unsigned times)
{
    struct gpu_scene s;
    gpu_scene_open(&s, NULL,
                   (const char *[]){number == SIGSTOP ? "gpu.heartbeat_ms=2000" : NULL, NULL});
    make_probe(s.a);
    gpu_scene_await_answer(s.a, "probe", D);
    struct holdings before = holdings_of(&s);
    struct load *l = load_start(&s);
    int64_t worst = 0;
    for (unsigned i = 0; i < times; i++) {
        gpu_scene_await_answer(s.a, "probe", D);
        wait_ms((int)(i * 7 % 40));
        int64_t start = now_ms();
        pid_t pid = wait_process(&s, 0);
        kill(pid, number);
        wait_process(&s, pid);
        gpu_scene_await_answer(s.a, "probe", D);
        if (now_ms() - start > worst) worst = now_ms() - start;
    }
    load_end(l);
    ea_gpu_stats g = gpu_scene_stats(s.a);
    cr_assert_geq(g.restarts, times);
    fprintf(stderr, "worst: back after %lld ms\n", (long long)worst);
    expect_no_more(&s, before);
    cr_assert_eq(ea_collection_drop(s.a, "probe"), EA_OK);
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
}

Test(gpu_kills, under_load, .timeout = 900)
{
    under_load(SIGKILL, gpu_scene_long() ? 100 : 20);
}

Test(gpu_kills, stopped_under_load, .timeout = 900)
{
    under_load(SIGSTOP, gpu_scene_long() ? 20 : 4);
}

/* What it ends by itself with, and what it does not mind. */
Test(gpu_kills, other_signals, .timeout = 900)
{
    static const int harmless[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    struct gpu_scene s;
    gpu_scene_open(&s, NULL, NULL);
    make_probe(s.a);
    gpu_scene_await_answer(s.a, "probe", D);
    pid_t pid = wait_process(&s, 0);
    for (int i = 0; i < 4; i++)
        kill(pid, harmless[i]);
    wait_ms(50);
    gpu_scene_await_answer(s.a, "probe", D);
    cr_assert_eq(wait_process(&s, 0), pid);
    kill(pid, SIGUSR1);
    wait_process(&s, pid);
    gpu_scene_await_answer(s.a, "probe", D);
    gpu_scene_close(&s);
}

/* ---------------------------------------------------------------- bad moments */

Test(gpu_kills, while_it_starts, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open(&s, NULL, NULL);
    make_probe(s.a);
    pid_t pid = 0;
    for (int i = 0; i < 4; i++) { /* 0, 100, 200 ms between; six in a row would open the breaker */
        pid = wait_process(&s, pid);
        kill(pid, SIGKILL);
        ea_result r = {0};
        float query[D] = {1};
        cr_assert_eq(ea_knn(s.a,
                            &(ea_knn_question){.collection = "probe",
                                               .queries = query,
                                               .query_count = 1,
                                               .dimension = D,
                                               .k = 3},
                            &r),
                     EA_OK);
        ea_result_free(&r);
    }
    gpu_scene_await_answer(s.a, "probe", D);
    cr_assert_geq(gpu_scene_stats(s.a).restarts, 4);
    gpu_scene_close(&s);
}

/* Large rows, and a slow device: pieces are under way for some 100 ms. */
Test(gpu_kills, during_an_upload, .timeout = 900)
{
    enum { WIDE = 1024, MANY = 6000 };
    struct gpu_scene s;
    gpu_scene_open(&s, "latency_us=20000", (const char *[]){"gpu.job_ms=5000", NULL});
    float *rows = malloc((size_t)MANY * WIDE * sizeof *rows);
    uint64_t *ids = malloc(MANY * sizeof *ids);
    reference_fill(1, rows, (size_t)MANY * WIDE);
    for (uint64_t i = 0; i < MANY; i++)
        ids[i] = i;
    struct reference_rows all = {WIDE, REFERENCE_COSINE, MANY, rows, ids};
    uint64_t want_ids[5];
    float want[5];
    reference_knn(&all, rows, 5, NULL, NULL, want_ids, want);
    cr_assert_eq(ea_collection_create(s.a, "wide", WIDE, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(
        ea_upsert(
            s.a,
            &(ea_rows){
                .collection = "wide", .ids = ids, .rows = rows, .count = MANY, .dimension = WIDE},
            NULL),
        EA_OK);
    for (int i = 0; i < 6; i++) {
        gpu_scene_await(&s, EA_GPU_READY);
        pid_t pid = wait_process(&s, 0), killer = fork();
        if (killer == 0) {
            wait_ms(4 + i * 11);
            kill(pid, SIGKILL);
            _exit(0);
        }
        ea_result r = {0};
        cr_assert_eq(ea_knn(s.a,
                            &(ea_knn_question){.collection = "wide",
                                               .queries = rows,
                                               .query_count = 1,
                                               .dimension = WIDE,
                                               .k = 5},
                            &r),
                     EA_OK, "%s", ea_error_text(s.a));
        cr_assert_eq(memcmp(r.ids, want_ids, sizeof want_ids), 0);
        cr_assert_eq(memcmp(r.scores, want, sizeof want), 0);
        ea_result_free(&r);
        waitpid(killer, NULL, 0);
        wait_process(&s, pid);
        gpu_scene_await_answer(s.a, "wide", WIDE); /* the replica is whole again */
    }
    free(rows);
    free(ids);
    cr_assert_eq(ea_collection_drop(s.a, "wide"), EA_OK);
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
}

/* A paused machine, container or terminal: afterwards all is as it was. (That who stood still is
 * not taken for dead: tests/unit/cards/test_gpu_failures.c, where the clock is the test's.) */
Test(gpu_kills, nobody_for_standing_still, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open(&s, NULL, NULL);
    make_probe(s.a);
    gpu_scene_await_answer(s.a, "probe", D);
    pid_t gpu = wait_process(&s, 0);
    for (int i = 0; i < 3; i++) {
        if (i != 1) process_pause(s.daemon.pid); /* daemon, process, both */
        if (i != 0) process_pause(gpu);
        kill(s.daemon.pid, SIGCONT);
        cr_assert_eq(ea_ping(s.a), EA_OK, "it goes on before the other does");
        kill(gpu, SIGCONT);
        gpu_scene_await_answer(s.a, "probe", D);
        cr_assert_eq(wait_process(&s, 0), gpu);
    }
    cr_assert_eq(gpu_scene_stats(s.a).restarts, 0); /* gpu.heartbeat_ms is a minute */
    gpu_scene_close(&s);
}

/* Nothing but the stop itself may end a paused process, so gpu.heartbeat_ms, gpu.job_ms and
 * limits.drain_ms are too long for that. */
Test(gpu_kills, while_the_daemon_stops, .timeout = 900)
{
    for (int i = 0; i < 12; i++) {
        struct gpu_scene s;
        gpu_scene_open(&s, NULL, (const char *[]){"limits.drain_ms=3600000", NULL});
        make_probe(s.a);
        gpu_scene_await_answer(s.a, "probe", D);
        pid_t pid = wait_process(&s, 0);
        if (i % 3 == 0) process_pause(pid);
        if (i % 3 == 1) kill(pid, SIGKILL);
        pid_t killer = i % 3 == 2 ? fork() : 0;
        if (i % 3 == 2 && killer == 0) {
            wait_ms(i / 3);
            kill(pid, SIGKILL);
            _exit(0);
        }
        gpu_scene_close(&s);
        if (killer) waitpid(killer, NULL, 0);
    }
}
