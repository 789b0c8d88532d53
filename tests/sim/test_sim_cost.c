/* The learning half of the scheduler on a simulated machine: one CPU of 16 workers and one GPU
 * whose true times are not affine in anything, with noise, one request after the other. From a
 * printed seed: ENGRAM_SEED=N runs that one alone. */
#include "daemon/sched/choose_backend.h"
#include "daemon/sched/probes.h"
#include "daemon/sched/work.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 2000, WARM = 200, SEEDS = 24, SAMPLES = 12, OPERATIONS = 3 };

static const uint32_t operations[OPERATIONS] = {OPERATION_KNN, OPERATION_SIMILARITY,
                                                OPERATION_SCORE_CANDIDATES};

/* ---------------------------------------------------------------- chance */

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double random_part(uint64_t *state) /* (0, 1) */
{
    return ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double random_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(random_part(state)));
    return radius * cos(6.283185307179586 * random_part(state));
}

static uint64_t random_size(uint64_t *state, double most) /* log-uniform, 1..most */
{
    return (uint64_t)exp(random_part(state) * log(most + 0.999));
}

/* ---------------------------------------------------------------- the machine */

struct machine {
    uint64_t chance;
    double noise;       /* sigma of the logarithm */
    double slow[2];     /* [0] CPU, [1] GPU: times its true time */
    double gpu_failing; /* share of runs */
};

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* 16 workers: parts of at least 256 KiB of pairs; caches of 1 MiB each and 32 MiB for all, then
 * memory that a dozen saturate; rows read again for every 128 queries; selection and writing. */
static double cpu_true_ns(const struct work *w)
{
    double bytes = work_row_bytes(w, BACKEND_CPU), flops = 2 * work_products(w, BACKEND_CPU);
    double more =
        1 + 0.4 * work_screen_on(w, BACKEND_CPU).asked; /* than the same bytes of floats */
    bool brief = work_is_brief(w); /* run where it was received: nobody is woken */
    double parts = brief ? 1 : most(1, least(16, floor((double)w->pairs * w->stride * 4 / 262144)));
    double rate = bytes / parts < 1e6 ? 40 * parts
                  : bytes < 32e6      ? 20 * parts
                                      : least(11 * parts, 150);
    if (w->listed) rate *= 0.6;
    double memory = bytes / rate * floor((double)(w->queries + 127) / 128);
    double core = w->listed || w->queries < 2 ? 28 : w->queries < 4 ? 55 : 85;
    double compute = flops / (core * parts);
    double moved = (double)(w->bytes_in + w->bytes_out) / least(8 * parts, 20);
    double chosen = w->k ? (double)w->queries * (300 + (double)w->k * 12) * most(1, parts / 8) : 0;
    double found = w->listed ? (double)w->rows * 6 / parts : 0;
    return (brief ? 3e3 : 20e3 + 1.7e3 * parts) +
           more * (most(memory, compute) + 0.25 * least(memory, compute)) + moved +
           chosen / least(parts, 8) + found;
}

/* A floor for the way there and back and for each kernel; a scan at 4.3 TB/s that small ones do not
 * reach; for many queries of kNN tensor cores, which small work does not fill; exact tiles
 * elsewhere; the bus; ids of lists are looked up on a CPU core. */
static double gpu_true_ns(const struct work *w)
{
    double bytes = work_row_bytes(w, BACKEND_GPU), flops = 2 * work_products(w, BACKEND_GPU);
    double asked = work_screen_on(w, BACKEND_GPU).asked; /* a pass more, which is no scan */
    double scan = most(4e3, bytes / 4300);
    double kernel;
    if (w->listed)
        kernel = most(6e3, bytes / 1900);
    else if (!w->k)
        kernel = most(scan, flops / 22.8e3);
    else if (w->queries > 8)
        kernel = 25e3 + most(scan * 1.3, flops / 160e3) + flops / 700e3;
    else if (w->queries > 1)
        kernel = 9e3 + scan * 1.35;
    else
        kernel = 5e3 + scan;
    double moved = (double)(w->bytes_in + w->bytes_out) / 42;
    double copied = w->k ? 0 : (double)w->bytes_out / 30;
    double found = w->listed ? (double)w->rows * 3.5 : 0;
    return 24e3 + asked * 8e3 + kernel * (1 + 0.2 * asked) + moved + copied + found;
}

static double true_ns(const struct machine *m, enum backend_id b, const struct work *w)
{
    return b == BACKEND_GPU ? gpu_true_ns(w) * m->slow[1] : cpu_true_ns(w) * m->slow[0];
}

static uint64_t run_ns(struct machine *m, enum backend_id b, const struct work *w)
{
    return (uint64_t)(true_ns(m, b, w) * exp(m->noise * random_normal(&m->chance)));
}

static struct work shape(uint32_t operation, uint64_t rows, uint64_t queries, uint32_t stride)
{
    struct work w = {.operation = operation, .stride = stride, .gpu_able = true};
    w.listed = operation == OPERATION_SCORE_CANDIDATES;
    w.k = operation == OPERATION_KNN ? 10 : 0;
    if (w.listed && queries > rows) queries = rows;
    if (operation == OPERATION_SIMILARITY) /* a reply has an end */
        while (rows * queries > UINT64_C(64) << 20)
            queries /= 2;
    w.rows = rows;
    w.queries = queries;
    w.pairs = w.listed ? rows : rows * queries;
    w.bytes_in = queries * stride * 4 + (w.listed ? rows * 8 : 0);
    w.bytes_out = w.k ? queries * w.k * 12 : w.pairs * 4;
    return w;
}

static struct work random_work(uint64_t *chance)
{
    static const uint32_t strides[] = {384, 768, 768, 1536};
    uint32_t operation = operations[random_next(chance) % OPERATIONS];
    uint64_t rows = random_size(chance, 1e6), queries = random_size(chance, 1024);
    return shape(operation, rows, queries, strides[random_next(chance) % 4]);
}

/* ---------------------------------------------------------------- the scheduler's half */

struct mind {
    struct cost_model model;
    struct probes probes;
    uint64_t trace; /* hash of everything that was decided and seen */
};

struct told {
    enum backend_id ran, faster;
    enum reason reason;
    double true_ns, best_ns; /* without noise; of both tries when the GPU failed */
    double predicted_ns;
};

static void trace_add(struct mind *s, uint64_t value)
{
    for (uint32_t i = 0; i < 8; i++)
        s->trace = (s->trace ^ (value >> 8 * i & 0xff)) * UINT64_C(0x100000001b3);
}

static void learn(struct mind *s, struct machine *m, enum backend_id b, const struct work *w,
                  const struct work *is, bool probe)
{
    struct work ran = *w;
    if (w->screen[0].asked > 0 || w->screen[1].asked > 0) /* the blind are not told afterwards */
        ran.screen[b == BACKEND_GPU] = is->screen[b == BACKEND_GPU];
    uint64_t ns = run_ns(m, b, is), predicted = cost_predict(&s->model, b, &ran).ns;
    cost_observe(&s->model, b, &ran, ns, ns);
    cost_outcome(&s->model, b, w->operation, true);
    probes_saw(&s->probes, b, w->operation, predicted, ns, probe);
    trace_add(s, ns);
}

/* w is what is expected of it, `is` what it turns out to be. */
static struct told serve(struct mind *s, struct machine *m, const struct work *w,
                         const struct work *is)
{
    struct pick_input in = {
        .replica_ready = true,
        .pairs = w->pairs,
        .pairs_min = 1, /* floors are the operator's: none here */
        .cpu = cost_predict(&s->model, BACKEND_CPU, w),
        .gpu = cost_predict(&s->model, BACKEND_GPU, w),
        .speedup_min = 1.5,
        .success_rate = cost_success_rate(&s->model, BACKEND_GPU, w->operation),
        .success_min = 0.95,
    };
    struct pick pick = pick_backend(&in);
    bool to_gpu = pick.backend == BACKEND_GPU;
    if (pick.open && probes_due(&s->probes, to_gpu ? BACKEND_CPU : BACKEND_GPU, w->operation,
                                to_gpu ? in.gpu.ns : in.cpu.ns, to_gpu ? in.cpu.ns : in.gpu.ns)) {
        pick.backend = to_gpu ? BACKEND_CPU : BACKEND_GPU;
        pick.reason = REASON_PROBE;
    }
    trace_add(s, in.cpu.ns);
    trace_add(s, in.gpu.ns);
    trace_add(s, (uint64_t)pick.backend << 8 | pick.reason);

    double cpu = true_ns(m, BACKEND_CPU, is), gpu = true_ns(m, BACKEND_GPU, is);
    struct told t = {.ran = pick.backend, .reason = pick.reason, .best_ns = least(cpu, gpu)};
    t.faster = gpu < cpu ? BACKEND_GPU : BACKEND_CPU;
    t.true_ns = t.ran == BACKEND_GPU ? gpu : cpu;
    t.predicted_ns = (double)(t.ran == BACKEND_GPU ? in.gpu.ns : in.cpu.ns);
    if (t.ran == BACKEND_GPU && random_part(&m->chance) < m->gpu_failing) {
        cost_outcome(&s->model, BACKEND_GPU, w->operation, false);
        t.true_ns += cpu;
        learn(s, m, BACKEND_CPU, w, is, false);
    } else {
        learn(s, m, t.ran, w, is, t.reason == REASON_PROBE);
    }
    return t;
}

static void mind_init(struct mind *s)
{
    cost_init(&s->model, 16);
    probes_init(&s->probes, 0.02);
    s->trace = UINT64_C(0xcbf29ce484222325);
}

/* What a calibration at start would measure: corners and the middle. */
static void calibrate(struct mind *s, struct machine *m)
{
    static const uint64_t shapes[SAMPLES][2] = {
        {64, 1},      {1000, 1},  {10000, 1},  {100000, 1},  {1000, 16},  {10000, 16},
        {100000, 16}, {256, 128}, {4000, 128}, {32000, 128}, {2000, 512}, {16000, 512},
    };
    for (uint32_t o = 0; o < OPERATIONS; o++)
        for (uint32_t b = 0; b < 2; b++) {
            enum backend_id id = b ? BACKEND_GPU : BACKEND_CPU;
            struct cost_sample samples[SAMPLES];
            for (uint32_t i = 0; i < SAMPLES; i++) {
                samples[i].work = shape(operations[o], shapes[i][0], shapes[i][1], 768);
                samples[i].ns = run_ns(m, id, &samples[i].work);
            }
            cost_fit(&s->model, id, operations[o], samples, SAMPLES);
        }
}

/* ---------------------------------------------------------------- scenarios */

struct tally {
    uint32_t requests, right, probes, gpu;
    double spent, best;
};

static void count(struct tally *a, const struct told *t)
{
    a->requests++;
    a->right += t->ran == t->faster;
    a->probes += t->reason == REASON_PROBE;
    a->gpu += t->ran == BACKEND_GPU;
    a->spent += t->true_ns;
    a->best += t->best_ns;
}

static double right_of(const struct tally *a)
{
    return 100.0 * a->right / a->requests;
}

static uint64_t one_seed(void)
{
    const char *text = getenv("ENGRAM_SEED");
    return text ? strtoull(text, NULL, 0) : 0;
}

static uint64_t mix(uint64_t seed, bool calibrated, struct tally *after)
{
    struct machine m = {.chance = seed, .noise = 0.05 + 0.05 * (double)(seed % 2), .slow = {1, 1}};
    uint64_t chance = seed ^ 0x5eed;
    struct mind *s = malloc(sizeof *s);
    mind_init(s);
    if (calibrated) calibrate(s, &m);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct work w = random_work(&chance);
        struct told t = serve(s, &m, &w, &w);
        if (i >= WARM) count(after, &t);
    }
    uint64_t trace = s->trace;
    free(s);
    return trace;
}

Test(sim_cost, one_seed_is_one_story)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct tally first = {0}, again = {0}, other = {0};
        uint64_t trace = mix(seed, true, &first);
        cr_assert_eq(mix(seed, true, &again), trace);
        cr_assert_neq(mix(seed + 100, true, &other), trace);
    }
}

static void mix_of_all(bool calibrated)
{
    double worst_right = 100, worst_time = 0;
    uint64_t alone = one_seed();
    for (uint64_t seed = alone ? alone : 1; seed <= (alone ? alone : SEEDS); seed++) {
        struct tally a = {0};
        uint64_t trace = mix(seed, calibrated, &a);
        double time = a.spent / a.best;
        printf("mix %s seed %lu: %.2f %% right, time %.4f, probes %u, on the GPU %.1f %%, trace "
               "%016lx\n",
               calibrated ? "calibrated" : "cold", (unsigned long)seed, right_of(&a), time,
               a.probes, 100.0 * a.gpu / a.requests, (unsigned long)trace);
        worst_right = least(worst_right, right_of(&a));
        worst_time = most(worst_time, time);
        cr_expect(right_of(&a) >= 95, "seed %lu", (unsigned long)seed);
        cr_expect(time <= 1.05, "seed %lu", (unsigned long)seed);
    }
    printf("mix %s: at worst %.2f %% right, time %.4f\n", calibrated ? "calibrated" : "cold",
           worst_right, worst_time);
}

Test(sim_cost, a_cold_model_finds_the_faster_backend)
{
    mix_of_all(false);
}

Test(sim_cost, a_calibrated_model_finds_the_faster_backend)
{
    mix_of_all(true);
}

/* A kNN whose rows are coded in the heap, on the card, on both or nowhere; how much passes differs
 * from what was expected. */
static struct work screened_work(uint64_t *chance, struct work *expected)
{
    uint64_t rows = random_size(chance, 1e6), where = random_next(chance);
    struct work w = *expected = shape(OPERATION_KNN, rows, random_size(chance, 1024), 768);
    for (int b = 0; b < 2 && rows > 4096; b++) {
        if (!(where >> b & 1)) continue;
        float passed = 1e-4F * (float)exp(random_part(chance) * log(1000));
        w.screen[b] = expected->screen[b] = (struct work_screen){1, passed};
        expected->screen[b].passed *= (float)exp(random_normal(chance) * 0.5);
    }
    return w;
}

/* A card that reads little faster than the CPU, so that int8 decides. blind: the model is not told
 * of it. Returns how many of the predictions were off by more than a quarter. */
static uint32_t mix_screened(uint64_t seed, bool blind, struct tally *after)
{
    struct machine m = {.chance = seed, .noise = 0.05, .slow = {1, 15}};
    uint64_t chance = seed ^ 0x1278;
    uint32_t off = 0;
    struct mind *s = malloc(sizeof *s);
    mind_init(s);
    calibrate(s, &m);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct work expected, w = screened_work(&chance, &expected);
        if (blind) memset(expected.screen, 0, sizeof expected.screen);
        struct told t = serve(s, &m, &expected, &w);
        if (i < WARM) continue;
        count(after, &t);
        off += fabs(log(t.predicted_ns / t.true_ns)) > log(1.25);
    }
    free(s);
    return off;
}

Test(sim_cost, rows_in_int8_are_priced)
{
    for (uint64_t seed = 1; seed <= SEEDS / 3; seed++) {
        struct tally told = {0}, blind = {0};
        uint32_t off = mix_screened(seed, false, &told),
                 blind_off = mix_screened(seed, true, &blind);
        double time = told.spent / told.best, blind_time = blind.spent / blind.best;
        printf("int8 seed %lu: %.2f %% right, time %.4f, %u far off; blind %.2f %%, %.4f, %u\n",
               (unsigned long)seed, right_of(&told), time, off, right_of(&blind), blind_time,
               blind_off);
        cr_expect(right_of(&told) >= 95 && time <= 1.05, "seed %lu", (unsigned long)seed);
        cr_expect(off * 2 < blind_off, "seed %lu", (unsigned long)seed);
        cr_expect(time - 1 < (blind_time - 1) / 2, "seed %lu", (unsigned long)seed);
    }
}

/* How many requests after a change until, of the next 50, at least 45 go right. */
enum { PHASE = 1000, LOOK = 50, LOOK_RIGHT = 45 };

static uint32_t settled_after(const bool right[PHASE])
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < PHASE; i++) {
        good += right[i];
        if (i >= LOOK) good -= right[i - LOOK];
        if (i + 1 >= LOOK && good >= LOOK_RIGHT) return i + 1 - LOOK;
    }
    return PHASE;
}

/* One backend is as it should be, then 10 x slower, then as before. */
static void slow_and_back(uint64_t seed, uint32_t b, uint32_t settled[3])
{
    struct machine m = {.chance = seed, .noise = 0.08, .slow = {1, 1}};
    uint64_t chance = seed ^ 0x510e;
    struct mind *s = malloc(sizeof *s);
    mind_init(s);
    calibrate(s, &m);
    for (uint32_t phase = 0; phase < 3; phase++) {
        bool right[PHASE];
        m.slow[b] = phase == 1 ? 10 : 1;
        for (uint32_t i = 0; i < PHASE; i++) {
            struct work w = random_work(&chance);
            struct told t = serve(s, &m, &w, &w);
            right[i] = t.ran == t.faster || t.reason == REASON_PROBE;
        }
        settled[phase] = settled_after(right);
    }
    free(s);
}

static void slow_of_all(uint32_t b)
{
    uint32_t worst[3] = {0};
    uint64_t alone = one_seed();
    for (uint64_t seed = alone ? alone : 1; seed <= (alone ? alone : SEEDS); seed++) {
        uint32_t settled[3];
        slow_and_back(seed, b, settled);
        for (uint32_t i = 0; i < 3; i++)
            worst[i] = worst[i] > settled[i] ? worst[i] : settled[i];
        printf("slow %s seed %lu: right again after %u requests, back after %u\n",
               b ? "GPU" : "CPU", (unsigned long)seed, settled[1], settled[2]);
        cr_expect_leq(settled[1], 50, "seed %lu", (unsigned long)seed);
        cr_expect_leq(settled[2], 500, "seed %lu", (unsigned long)seed);
    }
    printf("slow %s: at worst after %u, back after %u\n", b ? "GPU" : "CPU", worst[1], worst[2]);
}

Test(sim_cost, a_gpu_ten_times_slower_is_left_then_found_again)
{
    slow_of_all(1);
}

Test(sim_cost, a_cpu_ten_times_slower_is_left_then_found_again)
{
    slow_of_all(0);
}

/* ---------------------------------------------------------------- failures */

/* Of the requests that the GPU does sooner, in percent: how many it got. */
static double gpu_got(struct mind *s, struct machine *m, uint64_t *chance, uint32_t requests)
{
    uint32_t meant = 0, got = 0;
    for (uint32_t i = 0; i < requests; i++) {
        struct work w = random_work(chance);
        struct told t = serve(s, m, &w, &w);
        meant += t.faster == BACKEND_GPU;
        got += t.faster == BACKEND_GPU && t.ran == BACKEND_GPU;
    }
    return 100.0 * got / meant;
}

Test(sim_cost, failures_bar_the_gpu_while_they_last)
{
    uint64_t alone = one_seed();
    double few_of_all = 0;
    for (uint64_t seed = alone ? alone : 1; seed <= (alone ? alone : SEEDS); seed++) {
        struct machine m = {.chance = seed, .noise = 0.08, .slow = {1, 1}, .gpu_failing = 1};
        uint64_t chance = seed ^ 0xfa11;
        struct mind *s = malloc(sizeof *s);
        mind_init(s);
        calibrate(s, &m);
        gpu_got(s, &m, &chance, 15); /* the first ones fail, as when a driver warms up */
        m.gpu_failing = 0;
        gpu_got(s, &m, &chance, 100);
        double early = gpu_got(s, &m, &chance, 300);
        m.gpu_failing = 0.05;
        double few = gpu_got(s, &m, &chance, 2000);
        m.gpu_failing = 0.5;
        gpu_got(s, &m, &chance, 300); /* to find out */
        double many = gpu_got(s, &m, &chance, 1000);
        m.gpu_failing = 0;
        uint32_t back = 0;
        for (double got = 0; got < 90 && back < 2000; back += 50)
            got = gpu_got(s, &m, &chance, 50);
        printf(
            "failing seed %lu: the GPU got %.1f %% of what is for it after early failures, %.1f %% "
            "at 5 %% failing, %.1f %% at 50 %%, 90 %% again after %u requests\n",
            (unsigned long)seed, early, few, many, back);
        cr_expect_geq(early, 90, "seed %lu", (unsigned long)seed);
        cr_expect_geq(few, 70, "seed %lu", (unsigned long)seed);
        cr_expect_leq(many, 15, "seed %lu", (unsigned long)seed);
        cr_expect_leq(back, 1000, "seed %lu", (unsigned long)seed);
        few_of_all += few / (alone ? 1 : SEEDS);
        free(s);
    }
    cr_expect_geq(few_of_all, alone ? 70 : 90);
}
