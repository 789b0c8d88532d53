/* Long requests that are cancelled at a look at what others wait for (base/yield.h), at 200 of them
 * each, or 20 in a part: how often they look up again until they have ended, which a stopwatch need
 * not say, and that all memory comes back. bench_long tells the same in time. */
#include <stdio.h>

#include "daemon/base/yield.h"
#include "daemon/exec/workers.h"
#include "daemon/ops/cluster_inside.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/sweep.h"
#include "tests/unit/ops/ops_bench.h"

enum { ROWS = 1200, D = 64 };

/* A thread that cancels what it runs after so many looks. */
struct canceller {
    struct yielder yielder;
    struct job *job;
    uint64_t looks, cancel_at, after; /* cancel_at 0: never */
};

static void look(struct yielder *y)
{
    struct canceller *c = (struct canceller *)y;
    c->after += atomic_load(&c->job->cancelled);
    if (++c->looks == c->cancel_at) atomic_store(&c->job->cancelled, true);
}

/* Runs j on this thread alone. */
static struct canceller run(struct job *j, uint64_t cancel_at)
{
    struct canceller c = {.yielder = {.check = look}, .job = j, .cancel_at = cancel_at};
    cr_assert_eq(operation_check(j), STATUS_OK, "%s", j->failure.text);
    yield_now = &c.yielder;
    (void)workers_run_now(j);
    yield_now = NULL;
    return c;
}

/* most: looks after the one at which it was cancelled. */
static void try_all(struct job j, const char *what, uint64_t most)
{
    unsigned seed = 5, times = 200 / sweep_stride(10);
    uint64_t worst = 0, cancelled = 0;
    struct job whole = j;
    struct canceller c = run(&whole, 0);
    cr_assert(!whole.failure.code && whole.result.body_bytes, "%s: %s", what, whole.failure.text);
    run_job_reset(&whole);
    struct heap_usage before = heap_usage(j.heap);
    for (unsigned i = 0; i < times; i++) {
        struct job one = j;
        uint64_t at = 1 + (uint64_t)rand_r(&seed) % c.looks;
        struct canceller seen = run(&one, at);
        struct heap_usage after = heap_usage(j.heap);
        cr_assert(atomic_load(&one.cancelled) && !one.failure.code, "%s at %llu", what,
                  (unsigned long long)at);
        if (!one.result.body_bytes) {
            cancelled++;
            cr_assert(after.blocks == before.blocks && after.bytes_used == before.bytes_used,
                      "%s at %llu of %llu", what, (unsigned long long)at,
                      (unsigned long long)c.looks);
        }
        if (seen.after > worst) worst = seen.after;
        run_job_reset(&one);
    }
    printf("%s: %llu looks, at most %llu after a cancel; %llu of %u were cancelled\n", what,
           (unsigned long long)c.looks, (unsigned long long)worst, (unsigned long long)cancelled,
           times);
    cr_assert_leq(worst, most, "%s", what);
    cr_assert_geq(c.looks, 5 * most, "%s looks up too seldom for that to mean anything", what);
    cr_assert_geq(cancelled, times * 9 / 10, "%s", what);
}

/* What is linear in rows, a look for 256 of them, goes to its end: lists of members, the order of
 * clusters. */
static void try_clusters(bool average, bool in_line, uint64_t most)
{
    struct bench b = open_bench(D, in_line ? 10 : ROWS);
    float *data = cluster_make(CLUSTER_PLANTED, ROWS, D, 60, 3);
    struct job j = make_job(&b, OPERATION_CLUSTER, in_line);
    j.ops = operation_find(OPERATION_CLUSTER);
    j.cluster_rows_max[0] = j.cluster_rows_max[1] = ROWS;
    if (in_line)
        j.request.rows = floats(data, ROWS, D);
    else
        strcpy(j.request.names[0], "c");
    j.request.has_threshold = !in_line && !average; /* the bench's rows are not alike */
    j.request.threshold = 0.2f;
    j.request.cluster.rule = average ? CLUSTER_AVERAGE : CLUSTER_CENTROID;
    try_all(j, average ? "average" : "centroid", most);
    free(data);
    close_bench(&b);
}

Test(cancel, clusters_by_centroids, .timeout = 300)
{
    try_clusters(false, true, 40);
    try_clusters(false, false, 40);
}

Test(cancel, clusters_by_average, .timeout = 300)
{
    try_clusters(true, true, 40);
}

Test(cancel, covariances, .timeout = 300)
{
    struct bench b = open_bench(128, 20000);
    struct job j = make_job(&b, OPERATION_COVARIANCE, false);
    j.ops = operation_find(OPERATION_COVARIANCE);
    strcpy(j.request.names[0], "c");
    try_all(j, "covariance", 16);
    close_bench(&b);
}
