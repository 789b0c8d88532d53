/* sched_slow: a stream of equal requests, and a backend that becomes ten times slower under way:
 * how many requests until the others go elsewhere, and until they return. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum {
    STREAM_MAX = 1000, /* requests of one phase */
    AHEAD = 100,       /* the next ones, of which 95 % must go there */
    HOGS_MAX = 1024,
    FACTOR = 10,
    SIM_FACTOR = 4, /* of the simulated device while nothing is slow */
    GPU_HOGS_MAX = 64,
    PHASE_S = 12,
    SLOW_S = 120,
    HOG_S = 60, /* they end by themselves */
    RUNS = 15,
    K = 10,
};

/* ---------------------------------------------------------------- the request */

struct question {
    uint64_t rows;
    uint32_t queries;
    double cpu_us, gpu_us;
    uint64_t digest;
};

static const float *pool;

static double ask(const struct sched_daemon *d, const struct question *q, ea_result *r)
{
    char name[SCHED_ROWS_NAME];
    sched_name(q->rows, name);
    double start = bench_now_s();
    sched_check(ea_knn(d->client, name, pool, q->queries, d->dimension, K, NULL, NULL, r),
                d->client, "kNN");
    return (bench_now_s() - start) * 1e6;
}

static double forced(struct sched_daemon *d, struct question *q)
{
    double times[RUNS];
    ea_result r = {0};
    for (int i = 0; i < RUNS; i++)
        times[i] = ask(d, q, &r);
    q->digest = sched_digest(&r);
    ea_result_free(&r);
    return bench_percentile(times, RUNS, 50);
}

static void measure(struct sched_daemon *d, struct question *all, unsigned count)
{
    sched_daemon_force(d, "cpu");
    for (unsigned i = 0; i < count; i++)
        all[i].cpu_us = forced(d, &all[i]);
    sched_daemon_force(d, "gpu");
    for (unsigned i = 0; i < count; i++)
        all[i].gpu_us = forced(d, &all[i]);
    sched_daemon_force(d, "none");
}

/* That whose CPU time is nearest to `times` its GPU time. */
static const struct question *nearest(const struct question *all, unsigned count, double times)
{
    const struct question *best = all;
    for (unsigned i = 1; i < count; i++)
        if (fabs(log(all[i].cpu_us / all[i].gpu_us / times)) <
            fabs(log(best->cpu_us / best->gpu_us / times)))
            best = &all[i];
    return best;
}

/* ---------------------------------------------------------------- the stream */

struct phase {
    unsigned count;
    bool there[STREAM_MAX];        /* on the backend that is asked about */
    double there_us, elsewhere_us; /* p50; 0: none */
};

static double middle(double *times, unsigned count)
{
    return count ? bench_percentile(times, count, 50) : 0;
}

static void stream(struct sched_bench *b, struct sched_daemon *d, const struct question *q,
                   ea_backend where, unsigned count, struct phase *out)
{
    static double there[STREAM_MAX], elsewhere[STREAM_MAX];
    unsigned there_count = 0, elsewhere_count = 0;
    double end = bench_now_s() + PHASE_S;
    ea_result r = {0};
    out->count = 0;
    while (out->count < count && bench_now_s() < end) {
        double us = ask(d, q, &r);
        bool is_there = r.meta.backend == where;
        out->there[out->count++] = is_there;
        if (is_there)
            there[there_count++] = us;
        else
            elsewhere[elsewhere_count++] = us;
        b->wrong += sched_digest(&r) != q->digest;
    }
    ea_result_free(&r);
    out->there_us = middle(there, there_count);
    out->elsewhere_us = middle(elsewhere, elsewhere_count);
}

/* The first request from which on 95 % of the next AHEAD are there; p->count: never. */
static unsigned settled(const struct phase *p)
{
    for (unsigned first = 0; first + AHEAD <= p->count; first++) {
        unsigned there = 0;
        for (unsigned i = first; i < first + AHEAD; i++)
            there += p->there[i];
        if (there * 100 >= AHEAD * 95) return first;
    }
    return p->count;
}

/* there: the name of the backend that is asked about. */
static void phase_print(const struct phase *p, const char *when, ea_backend there)
{
    ea_backend elsewhere = there == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    unsigned at = settled(p);
    printf("    %s: p50 %.0f us on the %s, %.0f us on the %s (0: none there); ", when, p->there_us,
           ea_backend_name(there), p->elsewhere_us, ea_backend_name(elsewhere));
    if (at < p->count)
        printf("on the %s from request %u on\n", ea_backend_name(there), at);
    else
        printf("not on the %s for good within %u\n", ea_backend_name(there), p->count);
    fflush(stdout);
}

/* ---------------------------------------------------------------- hogs */

struct hogs {
    pid_t pids[HOGS_MAX];
    unsigned count;
};

/* Runs a program, or, without arguments, burns processor time. Says a byte on what is returned once
 * it is at it; closes it without a byte when it cannot. */
static int hog_start(struct hogs *h, char *const *arguments)
{
    int said[2];
    if (h->count == HOGS_MAX || pipe2(said, O_CLOEXEC)) bench_fail("hog", strerror(errno));
    pid_t pid = fork();
    if (pid < 0) bench_fail("hog", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(HOG_S);
        dup2(said[1], 1);
        if (arguments) {
            execv(arguments[0], arguments);
            _exit(127);
        }
        if (write(1, "\n", 1) != 1) _exit(1);
        for (volatile uint64_t n = 0;; n = n + 1)
            ;
    }
    close(said[1]);
    h->pids[h->count++] = pid;
    return said[0];
}

static bool hog_await(int said)
{
    char first;
    bool up = read(said, &first, 1) == 1;
    close(said);
    return up;
}

static void hogs_stop(struct hogs *h)
{
    for (unsigned i = 0; i < h->count; i++)
        kill(h->pids[i], SIGKILL);
    for (unsigned i = 0; i < h->count; i++)
        waitpid(h->pids[i], NULL, 0);
    h->count = 0;
}

/* All at once: a card that is busy starts processes slowly. */
static bool crowd_gpu(struct hogs *h, unsigned count)
{
    int said[GPU_HOGS_MAX];
    char path[4200], seconds[16], busy[] = "busy";
    bool all = true;
    build_path("tests/gpu/gpu_hog", path, sizeof path);
    snprintf(seconds, sizeof seconds, "%d", HOG_S);
    char *const arguments[] = {path, busy, seconds, NULL};
    if (count > GPU_HOGS_MAX) count = GPU_HOGS_MAX;
    for (unsigned i = 0; i < count; i++)
        said[i] = hog_start(h, arguments);
    for (unsigned i = 0; i < count; i++)
        all &= hog_await(said[i]);
    return all;
}

static void crowd_cpu(struct hogs *h)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < processors * (FACTOR - 1) && h->count < HOGS_MAX; i++)
        hog_await(hog_start(h, NULL));
}

/* ---------------------------------------------------------------- sections */

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
    const struct question *question;
    ea_backend fast; /* where it belongs while nothing is slow */
    const char *away, *back;
    const char *slow_file; /* of the simulated device; NULL: hogs */
};

static bool slow_down(const struct sched_bench *b, const struct trial *t, struct hogs *h)
{
    if (t->slow_file)
        write_factor(t->slow_file, FACTOR * SIM_FACTOR);
    else if (t->fast == EA_BACKEND_GPU)
        return crowd_gpu(h, b->hogs);
    else
        crowd_cpu(h);
    return true;
}

static void run_trial(struct sched_bench *b, struct sched_daemon *d, const struct trial *t)
{
    static struct phase p;
    struct hogs hogs = {.count = 0};
    const struct question *q = t->question;
    ea_backend other = t->fast == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    unsigned count = b->quick ? STREAM_MAX / 2 : STREAM_MAX;
    printf("  kNN k=%d, %u queries, %llu rows: CPU %.0f us, GPU %.0f us\n", K, q->queries,
           (unsigned long long)q->rows, q->cpu_us, q->gpu_us);
    stream(b, d, q, t->fast, count / 2, &p);
    phase_print(&p, "before", t->fast);
    if (slow_down(b, t, &hogs)) {
        stream(b, d, q, other, count / 2, &p);
        phase_print(&p, "slow", other);
        sched_verdict(b, t->away, settled(&p), "requests", false, 50);
    } else {
        printf("    SKIP: no tests/gpu/gpu_hog in this build, or no memory for it\n");
    }
    if (t->slow_file) write_factor(t->slow_file, SIM_FACTOR);
    hogs_stop(&hogs);
    stream(b, d, q, t->fast, count, &p);
    phase_print(&p, "after", t->fast);
    sched_verdict(b, t->back, settled(&p), "requests", false, 50);
}

/* Rows and queries of which some are a few times faster on one backend, on any machine. */
static unsigned questions(struct question *out, bool simulated)
{
    static const uint64_t rows[] = {600, 1000, 2000, 4000, 8000, 16000, 32000};
    unsigned count = 0;
    for (unsigned i = 0; i < (simulated ? 4 : sizeof rows / sizeof *rows); i++)
        for (uint32_t q = 1; q <= 8; q *= 8)
            out[count++] = (struct question){.rows = rows[i], .queries = q};
    return count;
}

void sched_slow(struct sched_bench *b)
{
    struct sched_daemon d;
    struct question all[16];
    unsigned count = questions(all, b->simulated);
    char slow_file[64] = "/tmp/engram-slow-XXXXXX", sim[128];
    sched_title("slow", "a backend becomes ten times slower half-way, and recovers", SLOW_S);
    int fd = mkstemp(slow_file);
    if (fd < 0) bench_fail("mkstemp", strerror(errno));
    close(fd);
    write_factor(slow_file, SIM_FACTOR);
    snprintf(sim, sizeof sim, "gpu.sim=vram_mib=4096 slow_file=%s", slow_file);
    /* The simulated device computes with one thread and the best kernels: the CPU must be worse, by
     * about half of the way (in logarithms) to FACTOR. */
    const char *const settings[] = {sim, "workers.count=1", "kernels=scalar", NULL};
    sched_daemon_start(&d, b, 100000, b->simulated ? settings : NULL);
    sched_daemon_calibrated(&d, b);
    float *queries = sched_random_floats(8ull * b->dimension, 11);
    pool = queries;
    for (unsigned i = 0; i < count; i += 2) {
        sched_load(&d, all[i].rows);
        if (!sched_warm_replica(&d, all[i].rows)) bench_fail("slow", "a replica is missing");
    }
    measure(&d, all, count);
    double between = sqrt(FACTOR);
    struct trial gpu = {nearest(all, count, between), EA_BACKEND_GPU,
                        "GPU slower: requests until 95 % go to the CPU",
                        "GPU itself again: until 95 % return", b->simulated ? slow_file : NULL};
    run_trial(b, &d, &gpu);
    if (!b->simulated) {
        struct trial cpu = {nearest(all, count, 1 / between), EA_BACKEND_CPU,
                            "CPU crowded: requests until 95 % go to the GPU",
                            "CPU free again: until 95 % return", NULL};
        run_trial(b, &d, &cpu);
    }
    sched_print_scheduler(&d);
    sched_daemon_stop(&d);
    unlink(slow_file);
    free(queries);
}
