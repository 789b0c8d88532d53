/* sched_slow: a stream of equal requests, and a backend that becomes ten times slower under way:
 * how many requests until they go elsewhere, and until they return. All times are the daemon's own:
 * the replies of long requests take the socket longer than that. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_hogs.h"
#include "tests/support/sched_stream.h"

enum {
    FACTOR = 10,
    SIM_FACTOR = 4, /* of the simulated device while nothing is slow */
    LONG_US = 3000, /* a card is shared in slices of about 2 ms: what is shorter waits 100 times
                            as long as it takes for its first one */
    GPU_STEP = 3,   /* hogs */
    RECOVER = 30,   /* forced to the fast backend, so that the search for FACTOR is forgotten */
    BEFORE = 100,
    SLOW = 150,
    AFTER = 400,
    TARGET = 50,
    PHASE_S = 8,
    SLOW_S = 100,
    QUESTIONS_MAX = 48,
};

struct scene {
    struct sched_bench *bench;
    struct sched_daemon daemon;
    char slow_file[64];
    struct sched_hogs gpu_hogs, cpu_hogs;
    bool gpu_crowd; /* there are hogs for the card */
    double end_s;
    struct stream_question all[QUESTIONS_MAX]; /* long ones, short ones, those for the CPU */
    unsigned long_count, short_count, count;
};

/* ---------------------------------------------------------------- questions */

static void add(struct scene *s, enum stream_operation operation, uint64_t rows, uint32_t queries,
                uint32_t dimension)
{
    if (s->count == QUESTIONS_MAX) bench_fail("slow", "too many questions");
    s->all[s->count++] = (struct stream_question){
        .operation = operation, .rows = rows, .queries = queries, .dimension = dimension};
}

/* Of which some are a few times faster on one backend, on any machine. */
static void draw(struct scene *s)
{
    static const struct {
        uint64_t rows;
        uint32_t queries;
    } long_ones[] = {{100000, 32}, {100000, 64}, {300000, 4},  {300000, 8}, {300000, 16},
                     {300000, 24}, {1000000, 2}, {1000000, 4}, {1000000, 8}};
    static const uint64_t short_ones[] = {600, 1000, 2000, 4000, 8000, 16000, 32000};
    const struct sched_bench *b = s->bench;
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones && !b->simulated; i++)
        if (long_ones[i].rows <= b->rows_max)
            add(s, STREAM_SIMILARITY, long_ones[i].rows, long_ones[i].queries, b->dimension);
    s->long_count = s->count;
    for (size_t i = 0; i < (b->simulated ? 4 : sizeof short_ones / sizeof *short_ones); i++)
        for (uint32_t q = 1; q <= 8; q *= 8)
            add(s, STREAM_KNN, short_ones[i], q, b->dimension);
    s->short_count = s->count - s->long_count;
    if (b->simulated) return;
    /* Few bytes of arithmetic to a request, or rows that the card must fetch first. */
    for (uint64_t rows = 1024; rows <= 16384; rows *= 4)
        for (uint32_t q = 1; q <= 8; q *= 8)
            add(s, STREAM_KNN, rows, q, 32);
    for (uint64_t rows = 512; rows <= STREAM_ROWS_MAX; rows *= 4)
        for (uint32_t q = 1; q <= 4; q *= 4)
            add(s, STREAM_INLINE, rows, q, b->dimension);
}

static void load(struct scene *s)
{
    uint64_t loaded[QUESTIONS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < s->count; i++) {
        const struct stream_question *q = &s->all[i];
        bool there = q->operation == STREAM_INLINE;
        for (unsigned n = 0; n < count; n++)
            there |= loaded[n] == q->rows;
        if (there) continue;
        s->daemon.dimension = q->dimension;
        sched_load(&s->daemon, q->rows);
        if (!sched_warm_replica(&s->daemon, q->rows)) bench_fail("slow", "a replica is missing");
        loaded[count++] = q->rows;
    }
}

/* 0: as wanted, some three times faster on `fast`, where it takes min_us at least. */
static double misfit(const struct stream_question *q, ea_backend fast, double min_us)
{
    double here = fast == EA_BACKEND_GPU ? q->gpu_us : q->cpu_us;
    double other = fast == EA_BACKEND_GPU ? q->cpu_us : q->gpu_us;
    if (!(here > 0) || !(other > 0)) return INFINITY;
    return fabs(log(other / here / sqrt(FACTOR))) + (here < min_us ? 2 * log(min_us / here) : 0);
}

static const struct stream_question *pick(const struct stream_question *all, unsigned count,
                                          ea_backend fast, double min_us)
{
    const struct stream_question *best = all;
    for (unsigned i = 1; i < count; i++)
        if (misfit(&all[i], fast, min_us) < misfit(best, fast, min_us)) best = &all[i];
    return best;
}

/* ---------------------------------------------------------------- slower and faster */

static void write_factor(const char *path, unsigned factor)
{
    char fresh[128];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "w");
    if (!f || fprintf(f, "%u\n", factor) < 0 || fclose(f) || rename(fresh, path))
        bench_fail(path, strerror(errno));
    usleep(30000); /* it is read every 10 ms */
}

struct trial {
    struct stream_question question;
    ea_backend fast;         /* where it belongs while nothing is slow */
    const char *away, *back; /* NULL: for information, without targets */
    unsigned hogs_min;       /* where the search begins */
};

static const struct sched_hogs *hogs_of(const struct scene *s, const struct trial *t)
{
    return t->fast == EA_BACKEND_GPU ? &s->gpu_hogs : &s->cpu_hogs;
}

/* hogs 0: as it was. */
static void crowd(const struct scene *s, const struct trial *t, unsigned hogs)
{
    if (s->bench->simulated && t->fast == EA_BACKEND_GPU)
        write_factor(s->slow_file, hogs ? FACTOR * SIM_FACTOR : SIM_FACTOR);
    else
        sched_hogs_run(hogs_of(s, t), hogs);
}

struct crowding {
    unsigned hogs;
    double slow_us, other_us; /* forced, while they run */
};

/* More and more hogs until it is FACTOR times slower, or there are no more. They pause then. */
static struct crowding search(struct scene *s, struct trial *t)
{
    struct stream_question *q = &t->question;
    struct crowding c = {.hogs = 0};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = hogs_of(s, t)->count;
    unsigned step = t->fast == EA_BACKEND_GPU ? GPU_STEP : (unsigned)processors;
    ea_backend other = t->fast == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    double alone_us = stream_forced(&s->daemon, q, t->fast);
    do {
        unsigned next = c.hogs || t->hogs_min < step ? c.hogs + step : t->hogs_min;
        c.hogs = count && next > count ? count : next;
        crowd(s, t, c.hogs);
        c.slow_us = stream_forced(&s->daemon, q, t->fast);
        c.other_us = stream_forced(&s->daemon, q, other);
        printf("    %u %s: %.0f us in place of %.0f, %.1f x; %.0f us on the %s\n",
               count ? c.hogs : FACTOR, count ? "hogs" : "times slower by the simulation",
               c.slow_us, alone_us, c.slow_us / alone_us, c.other_us, ea_backend_name(other));
    } while (c.slow_us < FACTOR * alone_us && c.hogs < count && bench_now_s() < s->end_s);
    crowd(s, t, 0);
    return c;
}

/* ---------------------------------------------------------------- trials */

static double left_s(const struct scene *s)
{
    double left = s->end_s - bench_now_s();
    return left < PHASE_S ? left : PHASE_S;
}

static void run_trial(struct scene *s, struct trial *t)
{
    static struct stream p;
    struct sched_daemon *d = &s->daemon;
    const struct stream_question *q = &t->question;
    ea_backend other = t->fast == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    stream_print(q);
    struct crowding c = search(s, t);
    t->hogs_min = c.hogs;
    sched_daemon_force(d, ea_backend_name(t->fast));
    stream_run(s->bench, d, q, t->fast, RECOVER, left_s(s), &p);
    sched_daemon_force(d, "none");
    stream_run(s->bench, d, q, t->fast, BEFORE, left_s(s), &p);
    stream_report(&p, "before", t->fast);
    crowd(s, t, c.hogs);
    stream_run(s->bench, d, q, other, SLOW, left_s(s), &p);
    crowd(s, t, 0);
    stream_report(&p, "slow", other);
    if (t->away && c.slow_us > c.other_us)
        sched_verdict(s->bench, t->away, stream_settled(&p), "requests", false, TARGET);
    else if (t->away)
        printf("    no target: even so it is not slower there than on the %s\n",
               ea_backend_name(other));
    stream_run(s->bench, d, q, t->fast, AFTER, left_s(s), &p);
    stream_report(&p, "after", t->fast);
    if (t->back) sched_verdict(s->bench, t->back, stream_settled(&p), "requests", false, TARGET);
}

static void gpu_trials(struct scene *s)
{
    struct sched_bench *b = s->bench;
    if (!b->simulated && !sched_hogs_start_gpu(&s->gpu_hogs, b->hogs)) {
        printf("    SKIP: no tests/gpu/gpu_hog in this build, or no memory for it\n");
        return;
    }
    const struct stream_question *shorts = s->all + s->long_count;
    struct trial t = {.question = s->long_count
                                      ? *pick(s->all, s->long_count, EA_BACKEND_GPU, LONG_US)
                                      : *pick(shorts, s->short_count, EA_BACKEND_GPU, 0),
                      .fast = EA_BACKEND_GPU,
                      .away = "GPU slower: requests until 95 % go to the CPU",
                      .back = "GPU itself again: until 95 % return"};
    run_trial(s, &t);
    if (!s->long_count) return;
    printf("  for information, without targets: a request much shorter than a slice of the card\n");
    t.question = *pick(shorts, s->short_count, EA_BACKEND_GPU, 0);
    t.away = t.back = NULL;
    run_trial(s, &t);
}

static void cpu_trial(struct scene *s)
{
    struct trial t = {
        .question = *pick(s->all + s->long_count, s->count - s->long_count, EA_BACKEND_CPU, 0),
        .fast = EA_BACKEND_CPU,
        .away = "CPU crowded: requests until 95 % go to the GPU",
        .back = "CPU free again: until 95 % return"};
    if (t.question.cpu_us >= t.question.gpu_us) {
        stream_print(&t.question);
        printf("    SKIP: nothing that we ask is faster on this CPU\n");
        return;
    }
    sched_hogs_start_cpu(&s->cpu_hogs, HOGS_MAX);
    run_trial(s, &t);
}

void sched_slow(struct sched_bench *b)
{
    static struct scene s;
    char sim[128];
    s = (struct scene){.bench = b, .slow_file = "/tmp/engram-slow-XXXXXX"};
    sched_title("slow", "a backend becomes ten times slower half-way, and recovers", SLOW_S);
    s.end_s = bench_now_s() + SLOW_S;
    int fd = mkstemp(s.slow_file);
    if (fd < 0) bench_fail("mkstemp", strerror(errno));
    close(fd);
    write_factor(s.slow_file, SIM_FACTOR);
    snprintf(sim, sizeof sim, "gpu.sim=vram_mib=4096 slow_file=%s", s.slow_file);
    /* The simulated device computes with one thread and the best kernels: the CPU must be worse, by
     * about half of the way (in logarithms) to FACTOR. Halves of one request on both backends would
     * be neither here nor there. */
    const char *const simulated[] = {sim, "workers.count=1", "kernels=scalar", "sched.split=false",
                                     NULL};
    const char *const real[] = {"sched.split=false", NULL};
    sched_daemon_start(&s.daemon, b, b->simulated ? 100000 : b->rows_max * 3 / 2,
                       b->simulated ? simulated : real);
    sched_daemon_calibrated(&s.daemon, b);
    float *values = sched_random_floats((uint64_t)STREAM_ROWS_MAX * b->dimension, 11);
    stream_pool(values);
    draw(&s);
    load(&s);
    stream_measure(&s.daemon, s.all, s.count);
    if (!b->simulated) cpu_trial(&s);
    sched_hogs_stop(&s.cpu_hogs);
    gpu_trials(&s);
    sched_hogs_stop(&s.gpu_hogs);
    sched_print_scheduler(&s.daemon);
    sched_daemon_stop(&s.daemon);
    unlink(s.slow_file);
    free(values);
}
