#include "tests/support/sched_stream.h"

#include "tests/bench/bench.h"

enum { RUNS = 7, RUNS_S = 1, K = 10 };

static const float *pool;

void stream_pool(const float *values)
{
    pool = values;
}

static double ask(const struct sched_daemon *d, const struct stream_question *q, ea_result *r)
{
    char name[SCHED_ROWS_NAME];
    ea_status st = EA_OK;
    sched_name(q->rows, name);
    switch (q->operation) {
    case STREAM_KNN:
        st = ea_knn(d->client,
                    &(ea_knn_question){.collection = name,
                                       .queries = pool,
                                       .query_count = q->queries,
                                       .dimension = q->dimension,
                                       .k = K},
                    r);
        break;
    case STREAM_SIMILARITY:
        st = ea_similarity(d->client,
                           &(ea_similarity_question){.collection = name,
                                                     .queries = pool,
                                                     .query_count = q->queries,
                                                     .dimension = q->dimension},
                           r);
        break;
    case STREAM_INLINE:
        st = ea_similarity(d->client,
                           &(ea_similarity_question){.metric = EA_COSINE,
                                                     .queries = pool,
                                                     .query_count = q->queries,
                                                     .rows = pool,
                                                     .row_count = q->rows,
                                                     .dimension = q->dimension},
                           r);
        break;
    }
    sched_check(st, d->client, "a request of the stream");
    return (double)(r->meta->queue_ns + r->meta->run_ns) / 1e3;
}

void stream_print(const struct stream_question *q)
{
    static const char *const names[] = {"kNN k=10", "similarity", "similarity, rows sent along"};
    printf("  %s, %u queries, %llu rows x %u: CPU %.0f us, GPU %.0f us of the daemon's time\n",
           names[q->operation], q->queries, (unsigned long long)q->rows, q->dimension, q->cpu_us,
           q->gpu_us);
    fflush(stdout);
}

double stream_forced(struct sched_daemon *d, struct stream_question *q, ea_backend where)
{
    double times[RUNS];
    unsigned count = 0;
    bool there = true;
    ea_result r = {0};
    sched_daemon_force(d, ea_backend_name(where));
    double end = bench_now_s() + RUNS_S;
    while (!count || (count < RUNS && bench_now_s() < end)) {
        times[count++] = ask(d, q, &r);
        there &= r.meta->backend == where;
    }
    q->digest = sched_digest(&r);
    ea_result_free(&r);
    sched_daemon_force(d, "none");
    return there ? bench_percentile(times, count, 50) : 0;
}

void stream_measure(struct sched_daemon *d, struct stream_question *all, unsigned count,
                    double end_s)
{
    for (unsigned i = 0; i < count && bench_now_s() < end_s; i++) {
        all[i].gpu_us = stream_forced(d, &all[i], EA_BACKEND_GPU);
        all[i].cpu_us = stream_forced(d, &all[i], EA_BACKEND_CPU);
    }
}

static double middle(double *times, unsigned count)
{
    return count ? bench_percentile(times, count, 50) : 0;
}

void stream_run(struct sched_bench *b, struct sched_daemon *d, const struct stream_question *q,
                ea_backend where, unsigned count, double seconds, struct stream *out)
{
    static double there[STREAM_MAX], elsewhere[STREAM_MAX];
    unsigned there_count = 0, elsewhere_count = 0;
    double end = bench_now_s() + seconds;
    ea_result r = {0};
    out->count = 0;
    while (out->count < count && bench_now_s() < end) {
        double us = ask(d, q, &r);
        bool is_there = r.meta->backend == where;
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

unsigned stream_settled(const struct stream *s)
{
    for (unsigned first = 0; first + STREAM_AHEAD <= s->count; first++) {
        unsigned there = 0;
        for (unsigned i = first; i < first + STREAM_AHEAD; i++)
            there += s->there[i];
        if (there * 100 >= STREAM_AHEAD * 95) return first;
    }
    return STREAM_MAX;
}

void stream_report(const struct stream *s, const char *when, ea_backend where)
{
    ea_backend elsewhere = where == EA_BACKEND_GPU ? EA_BACKEND_CPU : EA_BACKEND_GPU;
    unsigned at = stream_settled(s), there = 0;
    for (unsigned i = 0; i < s->count; i++)
        there += s->there[i];
    printf("    %s: %u of %u on the %s, p50 %.0f us there, %.0f us on the %s (0: none); ", when,
           there, s->count, ea_backend_name(where), s->there_us, s->elsewhere_us,
           ea_backend_name(elsewhere));
    if (at < STREAM_MAX)
        printf("19 of the next 20 from request %u on\n", at);
    else
        printf("never 19 of 20\n");
    fflush(stdout);
}
