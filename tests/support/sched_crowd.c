/* sched_crowd: what batching brings to many connections, and costs one that is alone. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/sched_bench.h"

enum {
    CONNECTIONS = 64,
    THREADS_MAX = 8,
    K = 10,
    LATENCIES_MAX = 1 << 21,
    BATCH_QUERIES = 256,
    BATCH_S = 90,
    ALONE_S = 60,
    ALONE_US = 1,
    DECIDE_S = 30,
};

/* ---------------------------------------------------------------- many connections */

struct asker {
    struct crowd *crowd;
    ea_client *client;
    const float *query;
    const uint64_t *ids; /* the CPU's answer */
    const float *scores;
    double sent_s;
};

struct crowd {
    const struct sched_daemon *daemon;
    char name[SCHED_ROWS_NAME];
    struct asker askers[CONNECTIONS];
    unsigned threads;
    double from_s, until_s; /* what is answered in between counts */
    double *latencies_us;
    _Atomic uint64_t answers, wrong, on_gpu, together; /* together: batches of all, summed */
    ea_result expected;
};

static void ask(struct asker *a);

static void on_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct asker *a = user;
    struct crowd *w = a->crowd;
    double now = bench_now_s();
    bool right = !status && r->columns == w->expected.columns &&
                 memcmp(r->ids, a->ids, r->columns * sizeof *r->ids) == 0 &&
                 memcmp(r->scores, a->scores, r->columns * sizeof *r->scores) == 0;
    if (status && !atomic_load(&w->wrong)) fprintf(stderr, "bench: %s\n", ea_error_text(c));
    if (!right) {
        atomic_fetch_add(&w->wrong, 1);
    } else if (now >= w->from_s && now < w->until_s) {
        uint64_t n = atomic_fetch_add(&w->answers, 1);
        if (n < LATENCIES_MAX) w->latencies_us[n] = (now - a->sent_s) * 1e6;
        atomic_fetch_add(&w->on_gpu, r->meta->backend != EA_BACKEND_CPU);
        atomic_fetch_add(&w->together, r->meta->batch ? r->meta->batch : 1);
    }
    if (now < w->until_s && !status) ask(a);
}

static void ask(struct asker *a)
{
    a->sent_s = bench_now_s();
    sched_check(ea_knn_send(a->client,
                            &(ea_knn_question){.collection = a->crowd->name,
                                               .queries = a->query,
                                               .query_count = 1,
                                               .dimension = a->crowd->daemon->dimension,
                                               .k = K},
                            &(ea_send_options){.callback = on_answer, .user = a}, NULL),
                a->client, "ea_knn_send");
}

/* The askers of one thread: every crowd->threads-th. */
struct share {
    struct crowd *crowd;
    unsigned first;
};

static void *keep_asking(void *argument)
{
    struct share *s = argument;
    struct crowd *w = s->crowd;
    struct pollfd fds[CONNECTIONS];
    for (unsigned i = s->first; i < CONNECTIONS; i += w->threads)
        ask(&w->askers[i]);
    for (size_t pending = 1; pending;) {
        nfds_t count = 0;
        pending = 0;
        for (unsigned i = s->first; i < CONNECTIONS; i += w->threads) {
            ea_client *c = w->askers[i].client;
            sched_check(ea_pump(c, 0), c, "ea_pump");
            fds[count++] = (struct pollfd){.fd = ea_fd(c), .events = ea_events(c)};
            pending += ea_pending(c);
        }
        if (pending) poll(fds, count, 100);
    }
    return NULL;
}

/* Answers a second. */
static double crowd_run(struct crowd *w, const char *what, double warm_s, double seconds)
{
    struct share shares[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    w->answers = w->on_gpu = w->together = 0;
    w->from_s = bench_now_s() + warm_s;
    w->until_s = w->from_s + seconds;
    for (unsigned i = 0; i < w->threads; i++) {
        shares[i] = (struct share){w, i};
        if (pthread_create(&threads[i], NULL, keep_asking, &shares[i]))
            bench_fail("thread", "refused");
    }
    for (unsigned i = 0; i < w->threads; i++)
        pthread_join(threads[i], NULL);
    uint64_t n = w->answers, kept = n < LATENCIES_MAX ? n : LATENCIES_MAX;
    if (!n) bench_fail(what, w->wrong ? "wrong answers alone" : "no answer in time");
    printf("    %-24s %9.0f/s, p50 %9.0f us, p99 %9.0f us, %llu answers, %.0f %% by the GPU, "
           "%.1f ran as one\n",
           what, (double)n / seconds, bench_percentile(w->latencies_us, kept, 50),
           bench_percentile(w->latencies_us, kept, 99), (unsigned long long)n,
           100.0 * (double)w->on_gpu / (double)n, (double)w->together / (double)n);
    fflush(stdout);
    return (double)n / seconds;
}

static void crowd_open(struct crowd *w, struct sched_daemon *d, const float *queries, uint64_t rows)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    w->daemon = d;
    w->threads = processors >= 2 * THREADS_MAX ? THREADS_MAX : processors / 2 > 1 ? 2 : 1;
    sched_name(rows, w->name);
    w->latencies_us = malloc(LATENCIES_MAX * sizeof *w->latencies_us);
    if (!w->latencies_us) bench_fail("latencies", "no memory");
    sched_daemon_force(d, "cpu");
    sched_check(ea_knn(d->client,
                       &(ea_knn_question){.collection = w->name,
                                          .queries = queries,
                                          .query_count = CONNECTIONS,
                                          .dimension = d->dimension,
                                          .k = K},
                       &w->expected),
                d->client, "the CPU's answer");
    sched_daemon_force(d, "none");
    for (unsigned i = 0; i < CONNECTIONS; i++)
        w->askers[i] = (struct asker){
            .crowd = w,
            .client = sched_daemon_client(d),
            .query = queries + (uint64_t)i * d->dimension,
            .ids = w->expected.ids + i * w->expected.columns,
            .scores = w->expected.scores + i * w->expected.columns,
        };
}

static void crowd_close(struct crowd *w)
{
    for (unsigned i = 0; i < CONNECTIONS; i++)
        ea_close(w->askers[i].client);
    ea_result_free(&w->expected);
    free(w->latencies_us);
}

double sched_crowd(struct sched_daemon *d, uint64_t rows, const char *force, double seconds)
{
    static struct crowd w;
    char what[48];
    w = (struct crowd){.threads = 1};
    float *queries = sched_random_floats((uint64_t)CONNECTIONS * d->dimension, 21);
    crowd_open(&w, d, queries, rows);
    sched_daemon_force(d, force);
    snprintf(what, sizeof what, "force %s, batched", force);
    double rate = crowd_run(&w, what, 1, seconds);
    if (w.wrong) bench_fail("crowd", "wrong answers");
    crowd_close(&w);
    free(queries);
    return rate;
}

/* Both ways on one daemon, since batch.queries is live. The ratio. */
static double compare(struct sched_bench *b, struct crowd *w, struct sched_daemon *d,
                      const char *force)
{
    double seconds = b->quick ? 2 : 5;
    char what[48];
    sched_daemon_set(d, (struct sched_live){force, 1});
    snprintf(what, sizeof what, "force %s, alone", force);
    double alone = crowd_run(w, what, 1, seconds);
    sched_daemon_set(d, (struct sched_live){force, BATCH_QUERIES});
    snprintf(what, sizeof what, "force %s, batched", force);
    double batched = crowd_run(w, what, 1, seconds);
    return batched / alone;
}

void sched_batch(struct sched_bench *b)
{
    struct sched_daemon d;
    static struct crowd w;
    uint64_t rows = b->rows_max;
    w = (struct crowd){.threads = 1};
    sched_title("batch", "64 connections of one query each, kNN k=10 over the largest collection",
                BATCH_S);
    sched_daemon_start(&d, b, rows, NULL);
    float *queries = sched_random_floats(CONNECTIONS * b->dimension, 21);
    sched_daemon_calibrated(&d, b);
    sched_load(&d, rows);
    printf("  %llu rows x %u, every answer compared with the CPU's\n", (unsigned long long)rows,
           b->dimension);
    crowd_open(&w, &d, queries, rows);
    if (b->has_gpu) {
        if (!sched_warm_replica(&d, rows)) bench_fail("batch", "the replica is missing");
        double ratio = compare(b, &w, &d, "none");
        sched_verdict(b, "batched / alone, as the daemon decides", ratio, "x", true, 10);
    }
    double ratio = compare(b, &w, &d, "cpu");
    printf("  batched / alone on the CPU: %.2f x\n", ratio);
    b->wrong += (unsigned)atomic_load(&w.wrong);
    sched_print_scheduler(&d);
    crowd_close(&w);
    sched_daemon_stop(&d);
    free(queries);
}

/* ---------------------------------------------------------------- alone */

static double p50_us(const struct sched_daemon *d, const char *name, const float *query,
                     unsigned samples, unsigned *on_gpu)
{
    double *times = malloc(samples * sizeof *times);
    if (!times) bench_fail("times", "no memory");
    ea_result r = {0};
    for (unsigned i = 0; i < samples; i++) {
        double start = bench_now_s();
        sched_check(ea_knn(d->client,
                           &(ea_knn_question){.collection = name,
                                              .queries = query,
                                              .query_count = 1,
                                              .dimension = d->dimension,
                                              .k = K},
                           &r),
                    d->client, "kNN");
        times[i] = (bench_now_s() - start) * 1e6;
        *on_gpu += r.meta->backend == EA_BACKEND_GPU;
    }
    ea_result_free(&r);
    double p50 = bench_percentile(times, samples, 50);
    free(times);
    return p50;
}

/* Forced to one backend: two that take turns would hide what batching adds. */
static void alone_over(struct sched_bench *b, struct sched_daemon *d, uint64_t rows,
                       const char *force)
{
    enum { ROUNDS_MAX = 60 };
    double on[ROUNDS_MAX], off[ROUNDS_MAX], apart[ROUNDS_MAX];
    unsigned samples = 300, on_gpu = 0;
    char name[SCHED_ROWS_NAME], what[64];
    float *query = sched_random_floats(d->dimension, 31);
    sched_name(rows, name);
    p50_us(d, name, query, samples, &on_gpu);
    on_gpu = 0;
    double end = bench_now_s() + (b->quick ? ALONE_S / 20.0 : ALONE_S / 5.0);
    unsigned rounds = 0;
    while (rounds < ROUNDS_MAX && bench_now_s() < end) {
        unsigned i = rounds++;
        for (unsigned half = 0; half < 2; half++) {
            bool batching = (i + half) % 2; /* who comes first changes from round to round */
            sched_daemon_set(d, (struct sched_live){force, batching ? BATCH_QUERIES : 1});
            *(batching ? &on[i] : &off[i]) = p50_us(d, name, query, samples, &on_gpu);
        }
        apart[i] = on[i] - off[i];
    }
    double middle = bench_percentile(apart, rounds, 50);
    /* Of a median: 1.25 times a mean's, whose spread is a quartile range / 1.35. */
    double noise = (bench_percentile(apart, rounds, 75) - bench_percentile(apart, rounds, 25)) /
                   1.35 * 1.25 / sqrt(rounds);
    printf("    %llu rows, force %s: p50 with batching %.2f us, without %.2f us, %u rounds in "
           "turn; the difference is known to %.2f us%s; %.0f %% by the GPU\n",
           (unsigned long long)rows, force, bench_percentile(on, rounds, 50),
           bench_percentile(off, rounds, 50), rounds, noise,
           noise > ALONE_US ? " (too noisy to tell)" : "",
           100.0 * on_gpu / (2.0 * rounds * samples));
    snprintf(what, sizeof what, "batching adds to one alone, %llu rows, %s",
             (unsigned long long)rows, force);
    sched_verdict(b, what, middle, "us", false, ALONE_US);
    free(query);
}

void sched_alone(struct sched_bench *b)
{
    static const uint64_t rows[] = {1000, 10000};
    struct sched_daemon d;
    sched_title("alone", "one connection, one query at a time, kNN k=10: batching on and off",
                ALONE_S);
    sched_daemon_start(&d, b, 11000, NULL);
    sched_daemon_calibrated(&d, b);
    for (int i = 0; i < 2; i++) {
        sched_load(&d, rows[i]);
        if (b->has_gpu && !sched_warm_replica(&d, rows[i]))
            bench_fail("alone", "a replica is missing");
        alone_over(b, &d, rows[i], "cpu");
        if (b->has_gpu) alone_over(b, &d, rows[i], "gpu");
    }
    sched_daemon_stop(&d);
}

/* ---------------------------------------------------------------- deciding */

static double mean_us(const struct sched_daemon *d, const char *name, const float *query,
                      unsigned samples)
{
    ea_result r = {0};
    double start = bench_now_s();
    for (unsigned i = 0; i < samples; i++)
        sched_check(ea_knn(d->client,
                           &(ea_knn_question){.collection = name,
                                              .queries = query,
                                              .query_count = 1,
                                              .dimension = d->dimension,
                                              .k = K},
                           &r),
                    d->client, "kNN");
    double mean = (bench_now_s() - start) * 1e6 / samples;
    ea_result_free(&r);
    return mean;
}

void sched_decide(struct sched_bench *b)
{
    static const uint64_t rows[] = {1000, 10000};
    struct sched_daemon d;
    double sum_us = 0;
    unsigned samples = b->quick ? 1000 : 5000;
    sched_title("decide", "what deciding takes, and of what: one query at a time, kNN k=10",
                DECIDE_S);
    sched_daemon_start(&d, b, 11000, NULL);
    sched_daemon_calibrated(&d, b);
    float *query = sched_random_floats(d.dimension, 41);
    for (int i = 0; i < 2; i++) {
        char name[SCHED_ROWS_NAME];
        sched_name(rows[i], name);
        sched_load(&d, rows[i]);
        if (b->has_gpu && !sched_warm_replica(&d, rows[i]))
            bench_fail("decide", "a replica is missing");
        double us = mean_us(&d, name, query, samples);
        printf("    %u requests over %llu rows, %.1f us each\n", samples,
               (unsigned long long)rows[i], us);
        sum_us += us;
    }
    struct sched_deciding took = sched_print_scheduler(&d);
    if (took.p50_us > 0) {
        double mean = sum_us / 2; /* of the section, as both percentiles are */
        printf("    deciding: p50 %.3f us, p99 %.3f us; a request: %.1f us\n", took.p50_us,
               took.p99_us, mean);
        sched_verdict(b, "deciding, p99", took.p99_us, "us", false, 1);
        sched_verdict(b, "p50 of deciding / mean of a request", 100 * took.p50_us / mean, "%",
                      false, 1);
        sched_verdict(b, "p99 of deciding / mean of a request", 100 * took.p99_us / mean, "%",
                      false, 1);
    }
    sched_daemon_stop(&d);
    free(query);
}
