/* A graph changes while it is spread over, on GPU and CPU: a reply says which version it saw, and
 * it saw just that, to the bit what a daemon without a GPU answers for it; long spreads keep the
 * version that they began with while newer ones pass them, there or on the CPU. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/gpu_web.h"

enum { VERSIONS = 24, READERS = 3, QUESTIONS = 4, KILL_EVERY = 6, QUOTA_MIB = 16 };

/* What a real card is long busy with is too much for the simulated one. */
static uint64_t nodes(void)
{
    return gpu_scene_is_real() ? 400000 : 3000;
}

/* Two of many sets, which go in passes, and two of one. */
static ea_status question(ea_client *c, uint64_t number, struct web_answer *out)
{
    static const float low = 0.001f;
    static const ea_spread_options how[QUESTIONS] = {
        {.mode = EA_LINEAR, .hops = 3, .k = 10},
        {.mode = EA_LINEAR, .hops = 4, .threshold = &low, .paths = true, .k = 50},
        {.mode = EA_ENGRAM, .hops = 3, .paths = true, .k = 10},
        {.mode = EA_ENGRAM, .hops = 4, .k = 50},
    };
    uint64_t many = gpu_scene_is_real() ? 256 : 30;
    return web_ask_sets(c, "g", &how[number % QUESTIONS], number % 2 ? 1 : many, 3000, number, out);
}

static void make(ea_client *c)
{
    cr_assert_eq(ea_graph_create(c, "g", NULL), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(web_set_nodes(c, "g", 0, nodes()), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(web_add_edges(c, "g", 1, 0, nodes()), EA_OK, "%s", ea_error_text(c));
}

static uint64_t version_now(ea_client *c)
{
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "g", &info), EA_OK, "%s", ea_error_text(c));
    return info.version;
}

/* One request each, so one version: mostly an edge of a node that is asked about, at times more,
 * and all weights. */
static void change(ea_client *c, uint64_t number)
{
    uint64_t from = number * 7919 % 3000, source = 7 + 3 * from, target = 7 + 3 * (from / 2);
    float delta = 0.25f;
    ea_status st = number % 8 == 5   ? ea_graph_scale(c, "g", number % 16 == 5 ? 0.5f : 2.0f, NULL)
                   : number % 8 == 7 ? web_add_edges(c, "g", number, number * 10, 100)
                                     : ea_graph_add_weights(c, "g",
                                                            &(ea_graph_edges){.sources = &source,
                                                                              .targets = &target,
                                                                              .weights = &delta,
                                                                              .count = 1,
                                                                              .create = true},
                                                            NULL, NULL);
    cr_assert_eq(st, EA_OK, "change %llu: %s", (unsigned long long)number, ea_error_text(c));
}

/* ---------------------------------------------------------------- what is right */

struct right {
    uint64_t digests[VERSIONS + 1][QUESTIONS]; /* after so many changes */
};

static void find_right(struct right *r)
{
    struct gpu_scene s = {0};
    daemon_start(&s.daemon, (const char *[]){"gpu.devices=none", "workers.count=2",
                                             "workers.pin=false", NULL});
    s.a = gpu_scene_client(&s, "alpha");
    s.b = gpu_scene_client(&s, "beta");
    make(s.a);
    for (uint64_t v = 0; v <= VERSIONS; v++) {
        if (v) change(s.a, v);
        for (uint64_t q = 0; q < QUESTIONS; q++) {
            struct web_answer a;
            cr_assert_eq(question(s.a, q, &a), EA_OK, "%s", ea_error_text(s.a));
            cr_assert_gt(a.entries, 0);
            r->digests[v][q] = a.digest;
        }
    }
    gpu_scene_close(&s);
}

/* ---------------------------------------------------------------- readers */

struct stage {
    const struct gpu_scene *scene;
    const struct right *right;
    uint64_t made;            /* the version before all changes */
    _Atomic uint64_t latest;  /* how many changes are known to be applied */
    _Atomic uint64_t begun;   /* how many may be */
    _Atomic uint64_t answers; /* of all readers */
    _Atomic uint64_t on_gpu;
    atomic_bool stop;
};

struct reader {
    struct stage *stage;
    unsigned number;
    char wrong[200];
};

static void check(struct reader *me, uint64_t number, const struct web_answer *a, uint64_t from)
{
    struct stage *st = me->stage;
    uint64_t to = atomic_load(&st->begun), version = a->version - st->made;
    atomic_fetch_add(&st->answers, 1);
    if (a->backend == EA_BACKEND_GPU) atomic_fetch_add(&st->on_gpu, 1);
    bool current = version >= from && version <= to;
    if (current && a->digest == st->right->digests[version][number % QUESTIONS]) return;
    snprintf(me->wrong, sizeof me->wrong, "question %llu by %s (%s): version %llu of %llu..%llu%s",
             (unsigned long long)number, ea_backend_name(a->backend), ea_reason_name(a->reason),
             (unsigned long long)version, (unsigned long long)from, (unsigned long long)to,
             current ? ", other numbers" : "");
}

/* The questions' numbers that it asks differ by QUESTIONS only in what right was found for. */
static void *read_on(void *argument)
{
    struct reader *me = argument;
    ea_client *c = gpu_scene_client(me->stage->scene, "alpha");
    for (uint64_t i = 0; !me->wrong[0] && !atomic_load(&me->stage->stop); i++) {
        struct web_answer a;
        uint64_t from = atomic_load(&me->stage->latest), number = (i + me->number) % QUESTIONS;
        if (question(c, number, &a))
            snprintf(me->wrong, sizeof me->wrong, "%s", ea_error_text(c));
        else
            check(me, number, &a, from);
    }
    ea_close(c);
    return NULL;
}

/* ---------------------------------------------------------------- together */

static void await_more(const _Atomic uint64_t *count, uint64_t more, const char *what)
{
    uint64_t before = atomic_load(count);
    for (int64_t until = give_up_ms(); atomic_load(count) - before < more; wait_ms(1))
        cr_assert(now_ms() < until, "%s", what);
}

static void await_gpu(ea_client *c)
{
    struct web_answer a = {0};
    for (int64_t until = give_up_ms(); a.backend != EA_BACKEND_GPU; wait_ms(5)) {
        cr_assert_eq(question(c, 1, &a), EA_OK, "%s", ea_error_text(c));
        cr_assert(now_ms() < until, "the GPU does not answer: %s", ea_reason_name(a.reason));
    }
}

static void play(const struct right *right, const char *sim, const char *const *settings,
                 bool kills)
{
    struct gpu_scene s;
    struct reader readers[READERS];
    pthread_t threads[READERS];
    gpu_scene_open(&s, sim, settings);
    gpu_scene_await(&s, EA_GPU_READY);
    make(s.a);
    await_gpu(s.a);
    struct stage st = {.scene = &s, .right = right, .made = version_now(s.a)};
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.stage = &st, .number = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    for (uint64_t v = 1; v <= VERSIONS; v++) {
        atomic_store(&st.begun, v);
        change(s.a, v);
        atomic_store(&st.latest, v);
        pid_t pid = kills && v % KILL_EVERY == 0 ? gpu_process_of(s.daemon.pid) : 0;
        if (pid) kill(pid, SIGKILL);
        if (v % 3) await_more(&st.answers, v % 3, "nobody answers");
    }
    await_more(&st.on_gpu, READERS, "the GPU answers no more");
    atomic_store(&st.stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(!readers[i].wrong[0], "%s: %s", sim ? sim : "", readers[i].wrong);
    }
    fprintf(stderr, "%s: %llu answers, %llu of the GPU's\n", sim ? sim : "",
            (unsigned long long)atomic_load(&st.answers),
            (unsigned long long)atomic_load(&st.on_gpu));
    cr_assert_eq(ea_graph_drop(s.a, "g"), EA_OK);
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
}

Test(gpu_spread_versions, each_sees_one, .timeout = 900)
{
    static struct right right;
    find_right(&right);
    play(&right, "multiply_adds=1 pass_sets=4 latency_us=1000", NULL, false);
    if (gpu_scene_is_real()) return;
    play(&right, "multiply_adds=1 pass_sets=4 latency_us=500 vmm=0", NULL, false);
    play(&right, "multiply_adds=100000000 pass_sets=9 latency_us=200", NULL, false);
}

Test(gpu_spread_versions, while_the_process_is_killed, .timeout = 900)
{
    static struct right right;
    find_right(&right);
    play(&right, "multiply_adds=1 pass_sets=2 latency_us=1000", NULL, true);
}

/* No second version fits the space's quota, and none the card: newer readers are the CPU's as long
 * as an older one is under way. */
Test(gpu_spread_versions, no_room_for_two, .timeout = 900)
{
    static struct right right;
    char path[64], option[96];
    snprintf(path, sizeof path, "/tmp/engram-gpu-spread-versions.%d.json", getpid());
    snprintf(option, sizeof option, "--config=%s", path);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "{\"spaces\": {\"alpha\": {\"vram_mib\": %d}}, \"gpu\": {\"force\": \"gpu\"}}",
            gpu_scene_is_real() ? 8 * QUOTA_MIB : QUOTA_MIB);
    fclose(f);
    find_right(&right);
    play(&right, "multiply_adds=1 pass_sets=4 latency_us=1000 granularity_kib=2048",
         (const char *[]){option, NULL}, false);
    unlink(path);
    if (gpu_scene_is_real()) return;
    play(&right, "multiply_adds=1 pass_sets=4 latency_us=1000 granularity_kib=2048 vram_mib=30",
         NULL, false);
}

/* ---------------------------------------------------------------- one after the other */

struct long_one {
    ea_client *c;
    struct web_answer answer;
    ea_status status;
    atomic_bool done;
};

static void *ask_long(void *argument)
{
    struct long_one *l = argument;
    l->status = question(l->c, 0, &l->answer);
    atomic_store(&l->done, true);
    return NULL;
}

/* A spread of 30 passes, of 50 ms each; edges change, and short spreads see that on the card before
 * the long one has ended, which still sees what it saw at first. */
Test(gpu_spread_versions, newer_ones_pass, .timeout = 900)
{
    static struct right right;
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU is faster than a test can ask");
    struct gpu_scene s;
    find_right(&right);
    gpu_scene_open(&s, "multiply_adds=1 pass_sets=1 latency_us=50000", NULL);
    gpu_scene_await(&s, EA_GPU_READY);
    make(s.a);
    await_gpu(s.a);
    uint64_t made = version_now(s.a), passed = 0;
    struct long_one l = {.c = gpu_scene_client(&s, "alpha")};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, ask_long, &l), 0);
    for (uint64_t v = 1; v < 5; v++) { /* before all weights change */
        struct web_answer a;
        change(s.a, v);
        cr_assert_eq(question(s.a, 3, &a), EA_OK, "%s", ea_error_text(s.a));
        cr_assert_eq(a.version, made + v);
        cr_assert_eq(a.digest, right.digests[v][3]);
        if (a.backend == EA_BACKEND_GPU && !atomic_load(&l.done)) passed = a.version;
    }
    pthread_join(thread, NULL);
    cr_assert_eq(l.status, EA_OK, "%s", ea_error_text(l.c));
    cr_assert_eq(l.answer.backend, EA_BACKEND_GPU, "%s", ea_reason_name(l.answer.reason));
    cr_assert_eq(l.answer.digest, right.digests[l.answer.version - made][0]);
    cr_assert_gt(passed, l.answer.version, "no newer spread passed the long one");
    ea_close(l.c);
    gpu_scene_close(&s);
}

/* The graph goes while it is spread over; who comes later is told so. */
Test(gpu_spread_versions, dropped_meanwhile, .timeout = 900)
{
    static struct right right;
    struct gpu_scene s;
    find_right(&right);
    gpu_scene_open(&s, "multiply_adds=1 pass_sets=2 latency_us=2000", NULL);
    gpu_scene_await(&s, EA_GPU_READY);
    for (int round = 0; round < 4; round++) {
        make(s.a);
        await_gpu(s.a);
        uint64_t made = version_now(s.a);
        struct long_one l = {.c = gpu_scene_client(&s, "alpha")};
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, ask_long, &l), 0);
        for (uint64_t v = 1; v <= (uint64_t)round; v++) {
            struct web_answer a;
            change(s.a, v);
            cr_assert_eq(question(s.a, 1, &a), EA_OK, "%s", ea_error_text(s.a));
            cr_assert_eq(a.digest, right.digests[v][1]);
        }
        cr_assert_eq(ea_graph_drop(s.a, "g"), EA_OK);
        pthread_join(thread, NULL);
        if (l.status)
            cr_assert_eq(l.status, EA_NOT_FOUND, "%s", ea_error_text(l.c));
        else
            cr_assert_eq(l.answer.digest, right.digests[l.answer.version - made][0]);
        ea_close(l.c);
    }
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
}
