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
    LONG_US = 3000, /* slices of a card or a processor are 2 to 3 ms: what is shorter waits many
                       times what it takes for its first one, or fits into one and never waits */
    GPU_STEP = 3,   /* hogs */
    RECOVER = 30,   /* forced to the fast backend, so that the search for FACTOR is forgotten */
    BEFORE = 100,
    SLOW = 150,
    AFTER = 400,
    TARGET = 50,
    PHASE_S = 8,
    SLOW_S = 100,
    MEASURE_S = 40,           /* of it, until what is not measured is not asked */
    INLINE_FLOATS = 15 << 20, /* of a request at most: the daemon takes 64 MiB */
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
    /* For the CPU: little arithmetic for what must cross the bus, or rows sent along, all of which
     * must. */
    for (uint64_t rows = 1024; rows <= 262144; rows *= 16)
        for (uint32_t q = 1; q <= STREAM_QUERIES_MAX; q *= 8)
            add(s, q == 1 ? STREAM_KNN : STREAM_SIMILARITY, rows, q, 32);
    for (uint64_t rows = 256; rows <= STREAM_ROWS_MAX && rows * b->dimension <= INLINE_FLOATS;
         rows *= 4)
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

/* 0: as wanted, some three times faster on `fast`, where it takes min_us at least. Infinite: not
 * clearly faster there. */
static double misfit(const struct stream_question *q, ea_backend fast, double min_us)
{
    double here = fast == EA_BACKEND_GPU ? q->gpu_us : q->cpu_us;
    double other = fast == EA_BACKEND_GPU ? q->cpu_us : q->gpu_us;
    if (!(here > 0) || !(other > 1.3 * here)) return INFINITY;
    return fabs(log(other / here / sqrt(FACTOR))) + (here < min_us ? 2 * log(min_us / here) : 0);
}

/* NULL: says so; nothing that was measured is clearly faster there. */
static const struct stream_question *pick(const struct stream_question *all, unsigned count,
                                          ea_backend fast, double min_us)
{
    const struct stream_question *best = NULL;
    double least = INFINITY;
    for (unsigned i = 0; i < count; i++) {
        double m = misfit(&all[i], fast, min_us);
        if (m < least) best = &all[i];
        if (m < least) least = m;
    }
    if (!best)
        printf("  SKIP: nothing that we had time to ask is clearly faster on the %s\n",
               ea_backend_name(fast));
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
    unsigned hogs_first;     /* where the search begins; 0: at the fewest */
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

/* Hogs of a card: 1, 2, 3, 6, 9 ...; of the processors: one each, two each ... */
static unsigned more(const struct trial *t, unsigned hogs)
{
    if (t->fast == EA_BACKEND_CPU) return hogs + (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    return hogs + (hogs < GPU_STEP ? 1 : GPU_STEP);
}

/* More and more hogs until it is FACTOR times slower, or there are no more. They pause then. */
static struct crowding search(struct scene *s, struct trial *t)
{
    struct stream_question *q = &t->question;
    struct crowding c = {.hogs = 0};
    unsigned count = hogs_of(s, t)->count;
    ea_backend other = t->fast == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    double alone_us = stream_forced(&s->daemon, q, t->fast);
    do {
        unsigned next = c.hogs || !t->hogs_first ? more(t, c.hogs) : t->hogs_first;
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
    t->hogs_first = c.hogs;
    sched_daemon_force(d, ea_backend_name(t->fast));
    stream_run(s->bench, d, q, t->fast, RECOVER, left_s(s), &p);
    sched_daemon_force(d, "none");
    stream_run(s->bench, d, q, t->fast, BEFORE, left_s(s), &p);
    stream_report(&p, "before", t->fast);
    crowd(s, t, c.hogs);
    stream_run(s->bench, d, q, other, SLOW, left_s(s), &p);
    crowd(s, t, 0);
    stream_report(&p, "slow", other);
    /* A crowd may leave gaps: what was asked forced waited, the stream did not. */
    bool slower = c.slow_us > c.other_us &&
                  (!(p.there_us > 0) || !(p.elsewhere_us > 0) || p.elsewhere_us > p.there_us);
    bool judged = t->away && slower;
    if (judged)
        sched_verdict(s->bench, t->away, stream_settled(&p), "requests", false, TARGET);
    else if (t->away)
        printf("    no targets: even so it is not slower there than on the %s\n",
               ea_backend_name(other));
    stream_run(s->bench, d, q, t->fast, AFTER, left_s(s), &p);
    stream_report(&p, "after", t->fast);
    if (judged) sched_verdict(s->bench, t->back, stream_settled(&p), "requests", false, TARGET);
}

static void gpu_trials(struct scene *s)
{
    struct sched_bench *b = s->bench;
    if (!b->simulated && !sched_hogs_start_gpu(&s->gpu_hogs, b->hogs)) {
        printf("    SKIP: no tests/gpu/gpu_hog in this build, or no memory for it\n");
        return;
    }
    const struct stream_question *shorts = s->all + s->long_count;
    const struct stream_question *long_one =
        s->long_count ? pick(s->all, s->long_count, EA_BACKEND_GPU, LONG_US)
                      : pick(shorts, s->short_count, EA_BACKEND_GPU, 0);
    struct trial t = {.fast = EA_BACKEND_GPU,
                      .away = "GPU slower: requests until 95 % go to the CPU",
                      .back = "GPU itself again: until 95 % return"};
    if (long_one) {
        t.question = *long_one;
        run_trial(s, &t);
    }
    if (!s->long_count) return;
    printf("  for information, without targets: a request much shorter than a slice of the card\n");
    const struct stream_question *short_one = pick(shorts, s->short_count, EA_BACKEND_GPU, 0);
    if (!short_one) return;
    t.question = *short_one;
    t.away = t.back = NULL;
    run_trial(s, &t);
}

static void cpu_trial(struct scene *s)
{
    const struct stream_question *q =
        pick(s->all + s->long_count, s->count - s->long_count, EA_BACKEND_CPU, LONG_US);
    if (!q) return;
    struct trial t = {.question = *q,
                      .fast = EA_BACKEND_CPU,
                      .away = "CPU crowded: requests until 95 % go to the GPU",
                      .back = "CPU free again: until 95 % return"};
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
    stream_measure(&s.daemon, s.all, s.count, s.end_s - SLOW_S + MEASURE_S);
    if (!b->simulated) cpu_trial(&s);
    sched_hogs_stop(&s.cpu_hogs);
    gpu_trials(&s);
    sched_hogs_stop(&s.gpu_hogs);
    sched_print_scheduler(&s.daemon);
    sched_daemon_stop(&s.daemon);
    unlink(s.slow_file);
    free(values);
}
