/* Spreads over the simulated GPU, against a daemon without one: the same bits in both modes, for
 * many sets and after changes, which are told alone; evictions, quotas, kills: right answers and no
 * errors. */
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

static void make(ea_client *c, const char *name, uint64_t seed, uint64_t nodes)
{
    cr_assert_eq(ea_graph_create(c, name, NULL), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(web_set_nodes(c, name, 0, nodes), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(web_add_edges(c, name, seed, 0, nodes), EA_OK, "%s", ea_error_text(c));
}

static struct web_answer ask(ea_client *c, const char *name, uint64_t number)
{
    struct web_answer a;
    cr_assert_eq(web_ask(c, name, number, &a), EA_OK, "%s", ea_error_text(c));
    return a;
}

/* A daemon without a GPU. */
static void open_plain(struct gpu_scene *s)
{
    memset(s, 0, sizeof *s);
    daemon_start(&s->daemon, (const char *[]){"gpu.devices=none", "workers.count=2",
                                              "workers.pin=false", NULL});
    s->a = gpu_scene_client(s, "alpha");
    s->b = gpu_scene_client(s, "beta");
}

static void await_gpu(ea_client *c, const char *name)
{
    int64_t until = give_up_ms();
    for (struct web_answer a; (a = ask(c, name, 0)).backend != EA_BACKEND_GPU; wait_ms(5))
        cr_assert(now_ms() < until, "the GPU does not answer: %s", ea_reason_name(a.reason));
}

static void expect_same(ea_client *c, ea_client *plain, const char *name, uint64_t number,
                        bool on_gpu)
{
    struct web_answer got = ask(c, name, number), want = ask(plain, name, number);
    cr_assert_eq(got.digest, want.digest, "question %u: another answer (%s, %s)", (unsigned)number,
                 ea_backend_name(got.backend), ea_reason_name(got.reason));
    cr_assert_eq(got.version, want.version);
    cr_assert_gt(want.entries, 0);
    cr_assert(!on_gpu || got.backend == EA_BACKEND_GPU, "question %u: %s", (unsigned)number,
              ea_reason_name(got.reason));
}

Test(gpu_spread, same_bits_through_changes, .timeout = 900)
{
    struct gpu_scene s, plain;
    gpu_scene_open(&s, NULL, NULL);
    open_plain(&plain);
    uint64_t nodes = 3000;
    make(s.a, "g", 1, nodes);
    make(plain.a, "g", 1, nodes);
    await_gpu(s.a, "g");
    for (uint64_t round = 0; round < 6; round++) {
        for (uint64_t i = 0; i < 3 * WEB_QUESTIONS; i++)
            expect_same(s.a, plain.a, "g", i, true);
        uint64_t gone[5] = {7 + 3 * (round * 100 + 1500), 7 + 3 * 1999, 8, 7 + 3 * 2500, 7};
        for (int i = 0; i < 2; i++) {
            ea_client *c = i ? plain.a : s.a;
            if (round % 3 == 0) cr_assert_eq(web_add_edges(c, "g", round + 5, nodes, 500), EA_OK);
            if (round % 3 == 1) cr_assert_eq(web_set_nodes(c, "g", round * 7, 30), EA_OK);
            if (round % 3 == 2) cr_assert_eq(ea_graph_remove_nodes(c, "g", gone, 4, NULL), EA_OK);
        }
        nodes += round % 3 == 0 ? 500 : 0;
    }
    ea_graph_info info;
    await_gpu(s.a, "g");
    cr_assert_eq(ea_graph_describe(s.a, "g", &info), EA_OK);
    cr_assert(info.vram_bytes > 0 && info.vram_version == info.version);
    cr_assert_eq(ea_graph_drop(s.a, "g"), EA_OK);
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}

/* Of a graph of some MiB, a few pages. */
Test(gpu_spread, tells_changes_alone, .timeout = 900)
{
    struct gpu_scene s, plain;
    gpu_scene_open(&s, NULL, NULL);
    open_plain(&plain);
    make(s.a, "g", 1, 60000);
    make(plain.a, "g", 1, 60000);
    await_gpu(s.a, "g");
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(s.a, "g", &info), EA_OK);
    uint64_t before = gpu_scene_stats(s.a).upload_bytes;
    cr_assert_geq(before, info.edge_bytes / 2);
    expect_same(s.a, plain.a, "g", 1, true);
    cr_assert_eq(gpu_scene_stats(s.a).upload_bytes, before, "nothing changed");
    for (int i = 0; i < 5; i++) {
        uint64_t source = 7 + 3 * (uint64_t)i, target = 7 + 3 * 100;
        float weight = 0.75f;
        for (int k = 0; k < 2; k++)
            cr_assert_eq(ea_graph_add_edges(k ? plain.a : s.a, "g",
                                            &(ea_graph_edges){.sources = &source,
                                                              .targets = &target,
                                                              .weights = &weight,
                                                              .count = 1},
                                            NULL),
                         EA_OK);
        expect_same(s.a, plain.a, "g", 1, true);
        uint64_t now = gpu_scene_stats(s.a).upload_bytes;
        /* A list on each side, and the edges of both, perhaps moved: pages of 64 KiB. */
        cr_assert(now > before && now - before <= 8 * 65536, "%llu bytes",
                  (unsigned long long)(now - before));
        before = now;
    }
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}

/* More graphs than VRAM holds: each is the CPU's while it is out, and comes back. */
Test(gpu_spread, graphs_make_way, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU has room for all of it");
    enum { GRAPHS = 5 };
    struct gpu_scene s, plain;
    gpu_scene_open(&s, "vram_mib=12", NULL);
    open_plain(&plain);
    char name[8];
    for (int i = 0; i < GRAPHS; i++) {
        snprintf(name, sizeof name, "g%d", i);
        make(i % 2 ? s.b : s.a, name, (uint64_t)i, 30000);
        make(i % 2 ? plain.b : plain.a, name, (uint64_t)i, 30000);
    }
    int64_t until = give_up_ms();
    bool seen[GRAPHS] = {false};
    for (uint64_t n = 0, all = 0; all < GRAPHS; n++) {
        int i = (int)(n / 8 % GRAPHS);
        snprintf(name, sizeof name, "g%d", i);
        uint64_t question = n % 8 == 7 ? 3 : 7; /* what is bounded needs little room */
        struct web_answer got = ask(i % 2 ? s.b : s.a, name, question);
        struct web_answer want = ask(i % 2 ? plain.b : plain.a, name, question);
        cr_assert_eq(got.digest, want.digest);
        all += got.backend == EA_BACKEND_GPU && !seen[i];
        seen[i] |= got.backend == EA_BACKEND_GPU;
        cr_assert(now_ms() < until, "not every graph had its turn");
    }
    cr_assert_gt(gpu_scene_stats(s.a).evictions, 0);
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}

/* ---------------------------------------------------------------- many sets */

enum { SETS = 256, SEEDS = 3 };

/* Set by set, what it answers alone. */
static void expect_as_alone(ea_client *plain, const ea_spread_options *options,
                            const uint64_t *seeds, const ea_spread_result *all)
{
    ea_spread_result one = {0};
    cr_assert_eq(all->sets, SETS);
    for (uint32_t set = 0; set < SETS; set++) {
        cr_assert_eq(ea_spread(plain, "g", options,
                               &(ea_seeds){.sets = 1, .ids = seeds + set * SEEDS, .count = SEEDS},
                               &one),
                     EA_OK, "%s", ea_error_text(plain));
        uint64_t at = all->offsets[set], count = all->offsets[set + 1] - at;
        cr_assert(count > 0 && count == one.count, "set %u: %u entries, alone %u", set,
                  (unsigned)count, (unsigned)one.count);
        cr_assert(!memcmp(all->ids + at, one.ids, count * sizeof *one.ids) &&
                      !memcmp(all->activations + at, one.activations, count * sizeof(float)) &&
                      !memcmp(all->confidences + at, one.confidences, count * sizeof(float)) &&
                      !memcmp(all->visits + at, one.visits, count * sizeof *one.visits) &&
                      !memcmp(all->depths + at, one.depths, count * sizeof *one.depths) &&
                      !memcmp(all->tier_sums + 3 * set, one.tier_sums, 3 * sizeof(float)) &&
                      all->touched[set] == one.touched[0] && all->cycles[set] == one.cycles[0] &&
                      all->truncated[set] == one.truncated[0],
                  "set %u", set);
    }
    ea_spread_result_free(&one);
}

static void ask_many(struct gpu_scene *s, struct gpu_scene *plain, uint64_t nodes,
                     ea_spread_options options, bool too_much)
{
    uint64_t seeds[SETS * SEEDS], offsets[SETS + 1], touched = 0;
    for (uint64_t i = 0; i <= SETS; i++)
        offsets[i] = i * SEEDS;
    for (uint64_t i = 0; i < SETS * SEEDS; i++)
        seeds[i] = 7 + 3 * (i * 7919 % nodes);
    ea_spread_result all = {0};
    cr_assert_eq(
        ea_spread(
            s->a, "g", &options,
            &(ea_seeds){.offsets = offsets, .sets = SETS, .ids = seeds, .count = SETS * SEEDS},
            &all),
        EA_OK, "%s", ea_error_text(s->a));
    cr_assert_eq(all.meta->backend, EA_BACKEND_GPU, "%s", ea_reason_name(all.meta->reason));
    for (uint32_t i = 0; i < SETS; i++)
        touched += all.touched[i];
    cr_assert((touched > 2 << 20) == too_much, "%llu touched", (unsigned long long)touched);
    expect_as_alone(plain->a, &options, seeds, &all);
    ea_spread_result_free(&all);
}

/* A large graph, of which each set touches little: room for their records is shared. In the end
 * they touch more than that: some are the CPU's. */
Test(gpu_spread, many_sets_are_each_as_alone, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP: for a real GPU, gpu_spread and bench_graph");
    enum { NODES = 12000 };
    static const float all_of_it = 0;
    struct gpu_scene s, plain;
    gpu_scene_open(&s, "vram_mib=1024", NULL);
    open_plain(&plain);
    make(s.a, "g", 1, NODES);
    make(plain.a, "g", 1, NODES);
    await_gpu(s.a, "g");
    for (uint32_t hops = 1; hops <= 4; hops++) {
        ask_many(&s, &plain, NODES, (ea_spread_options){.mode = EA_LINEAR, .hops = hops, .k = 10},
                 false);
        ask_many(&s, &plain, NODES, (ea_spread_options){.mode = EA_ENGRAM, .hops = hops, .k = 10},
                 false);
    }
    ask_many(&s, &plain, NODES,
             (ea_spread_options){.mode = EA_LINEAR, .hops = 7, .k = 5, .threshold = &all_of_it},
             true);
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}

/* Records for every node of every set at once: too many for the VRAM for requests. */
Test(gpu_spread, what_never_fits_is_the_cpus, .timeout = 900)
{
    if (gpu_scene_is_real()) cr_skip_test("SKIP: a real GPU has room for all of it");
    struct gpu_scene s, plain;
    gpu_scene_open(&s, "vram_mib=64", NULL); /* 6 MiB for requests */
    open_plain(&plain);
    make(s.a, "g", 1, 30000);
    make(plain.a, "g", 1, 30000);
    await_gpu(s.a, "g");
    struct web_answer got = ask(s.a, "g", 5), want = ask(plain.a, "g", 5); /* 26 sets */
    cr_assert_eq(got.digest, want.digest);
    cr_assert_eq(got.backend, EA_BACKEND_CPU);
    cr_assert_str_eq(ea_reason_name(got.reason), "vram_pressure");
    expect_same(s.a, plain.a, "g", 7, true); /* as many, bounded */
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}

Test(gpu_spread, a_quota_keeps_the_cpu_at_it, .timeout = 900)
{
    struct gpu_scene s, plain;
    char path[64], option[96];
    snprintf(path, sizeof path, "/tmp/engram-gpu-spread.%d.json", getpid());
    snprintf(option, sizeof option, "--config=%s", path);
    for (int mib = 15; mib <= 16; mib++) { /* eight parts, 2 MiB each */
        FILE *f = fopen(path, "w");
        cr_assert(f);
        fprintf(f, "{\"spaces\": {\"alpha\": {\"vram_mib\": %d}}, \"gpu\": {\"force\": \"gpu\"}}",
                mib);
        fclose(f);
        gpu_scene_open(&s, NULL, (const char *[]){option, NULL});
        open_plain(&plain);
        gpu_scene_await(&s, EA_GPU_READY);
        for (int i = 0; i < 2; i++) {
            make(i ? plain.a : s.a, "g", 1, 4000);
            make(i ? plain.b : s.b, "g", 1, 4000);
        }
        await_gpu(s.b, "g");
        if (mib == 16) await_gpu(s.a, "g");
        for (uint64_t i = 0; i < WEB_QUESTIONS; i++) {
            expect_same(s.b, plain.b, "g", i, true);
            expect_same(s.a, plain.a, "g", i, mib == 16);
            struct web_answer a = ask(s.a, "g", i);
            if (mib == 15) cr_assert_str_eq(ea_reason_name(a.reason), "vram_pressure");
        }
        gpu_scene_close(&s);
        gpu_scene_close(&plain);
    }
    unlink(path);
}

/* Floors: a spread that is likely to touch few nodes is not sent. */
Test(gpu_spread, few_nodes_stay, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open(&s, NULL,
                   (const char *[]){"gpu.force=none", "sched.predict=false", "gpu.min_nodes=100",
                                    "sched.calibrate=false", NULL});
    make(s.a, "g", 1, 3000);
    await_gpu(s.a, "g");
    ea_spread_options one = {.mode = EA_LINEAR, .hops = 1};
    uint64_t seed = 7;
    ea_spread_result r = {0};
    cr_assert_eq(ea_spread(s.a, "g", &one, &(ea_seeds){.ids = &seed, .count = 1}, &r), EA_OK);
    cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
    cr_assert_str_eq(ea_reason_name(r.meta->reason), "below_min_batch");
    ea_spread_result_free(&r);
    cr_assert_eq(ask(s.a, "g", 1).backend, EA_BACKEND_GPU);
    gpu_scene_close(&s);
}

/* ---------------------------------------------------------------- under fire */

enum { CLIENTS = 4 };

struct caller {
    const struct gpu_scene *scene;
    const uint64_t *want; /* digests, by version and question */
    unsigned number;
    atomic_bool *stop;
    _Atomic uint64_t *on_gpu; /* answers of the GPU, of all callers */
    uint64_t asked, wrong, failed;
    char error[200];
};

/* Versions that the graph goes through, and what is right then. */
enum { CHANGES = 6, FIRE_NODES = 2000 };

static ea_status change(ea_client *c, const char *name, uint64_t n)
{
    return web_add_edges(c, name, 10 + n, n * 50, 20);
}

static void *call(void *argument)
{
    struct caller *k = argument;
    char space[32];
    snprintf(space, sizeof space, "caller-%u", k->number);
    ea_client *c = gpu_scene_client(k->scene, space);
    for (uint64_t n = 0; !k->failed && !k->wrong && !atomic_load(k->stop); n++) {
        uint64_t at = n % (CHANGES + 1);
        ea_status st = EA_OK;
        if (at == 0) {
            st = n ? ea_graph_drop(c, "g") : EA_OK;
            if (!st) st = ea_graph_create(c, "g", NULL);
            if (!st) st = web_set_nodes(c, "g", 0, FIRE_NODES);
            if (!st) st = web_add_edges(c, "g", 1, 0, FIRE_NODES);
        } else {
            st = change(c, "g", at);
        }
        for (uint64_t i = 0; i < WEB_QUESTIONS && !st; i++) {
            struct web_answer a;
            st = web_ask(c, "g", i, &a);
            k->asked++;
            if (a.backend == EA_BACKEND_GPU) atomic_fetch_add(k->on_gpu, 1);
            k->wrong += !st && a.digest != k->want[at * WEB_QUESTIONS + i];
        }
        if (st && !k->failed++) snprintf(k->error, sizeof k->error, "%s", ea_error_text(c));
    }
    ea_close(c);
    return NULL;
}

static void right_answers(uint64_t *want)
{
    struct gpu_scene plain;
    open_plain(&plain);
    make(plain.a, "g", 1, FIRE_NODES);
    for (uint64_t at = 0; at <= CHANGES; at++) {
        if (at) cr_assert_eq(change(plain.a, "g", at), EA_OK);
        for (uint64_t i = 0; i < WEB_QUESTIONS; i++)
            want[at * WEB_QUESTIONS + i] = ask(plain.a, "g", i).digest;
    }
    gpu_scene_close(&plain);
}

/* The process dies of the signal, or is killed because it hangs, and another is started. */
static void strike(const struct gpu_scene *s, int number)
{
    uint64_t before = gpu_scene_stats(s->a).restarts;
    pid_t pid = gpu_process_of(s->daemon.pid);
    if (pid) kill(pid, number);
    for (int64_t until = give_up_ms(); gpu_scene_stats(s->a).restarts == before; wait_ms(5))
        cr_assert(now_ms() < until, "no other process was started");
}

static void under_fire(const char *sim, int number, int times)
{
    uint64_t want[(CHANGES + 1) * WEB_QUESTIONS], asked = 0;
    _Atomic uint64_t on_gpu = 0;
    struct gpu_scene s;
    struct caller callers[CLIENTS];
    pthread_t threads[CLIENTS];
    atomic_bool stop = false;
    right_answers(want);
    gpu_scene_open(&s, sim, (const char *[]){"gpu.heartbeat_ms=2000", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    for (unsigned i = 0; i < CLIENTS; i++) {
        callers[i] = (struct caller){
            .scene = &s, .want = want, .number = i, .stop = &stop, .on_gpu = &on_gpu};
        cr_assert_eq(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < times; i++) {
        gpu_scene_await(&s, EA_GPU_READY);
        wait_ms(40 + i * 37 % 200);
        strike(&s, number);
    }
    gpu_scene_await(&s, EA_GPU_READY);
    uint64_t before = atomic_load(&on_gpu);
    for (int64_t until = give_up_ms(); atomic_load(&on_gpu) == before; wait_ms(5))
        cr_assert(now_ms() < until, "the GPU does not answer again");
    atomic_store(&stop, true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(callers[i].failed, 0, "client %u: %s", i, callers[i].error);
        cr_assert_eq(callers[i].wrong, 0, "client %u, after %llu", i,
                     (unsigned long long)callers[i].asked);
        asked += callers[i].asked;
    }
    fprintf(stderr, "%llu answers, %llu of the GPU's, %llu restarts\n", (unsigned long long)asked,
            (unsigned long long)atomic_load(&on_gpu),
            (unsigned long long)gpu_scene_stats(s.a).restarts);
    gpu_scene_close(&s);
}

Test(gpu_spread, killed_again_and_again, .timeout = 900)
{
    under_fire(NULL, SIGKILL, 12);
}

Test(gpu_spread, stopped_in_the_middle, .timeout = 900)
{
    under_fire(NULL, SIGSTOP, 3);
}

/* The device never returns from a spread: the process is killed, the CPU answers. */
Test(gpu_spread, a_spread_that_hangs, .timeout = 900)
{
    struct gpu_scene s, plain;
    gpu_scene_open_counting(&s, "fail=2:hang@spread", NULL);
    open_plain(&plain);
    make(s.a, "g", 1, 2000);
    make(plain.a, "g", 1, 2000);
    await_gpu(s.a, "g");
    expect_same(s.a, plain.a, "g", 1, false);
    cr_assert_geq(gpu_scene_stats(s.a).restarts, 1);
    await_gpu(s.a, "g");
    for (uint64_t i = 0; i < WEB_QUESTIONS; i++)
        expect_same(s.a, plain.a, "g", i, true);
    gpu_scene_close(&s);
    gpu_scene_close(&plain);
}
