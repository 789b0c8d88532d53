/* fair_shares: what each space gets of a backend that all want: equal spaces of which one asks far
 * more, and spaces of different weights. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/fair_bench.h"

enum {
    MODEST = FAIR_SPACES - 1, /* the last space is the greedy one */
    MODEST_DEPTH = 2,
    GREEDY = 100,    /* times as many in flight */
    GREEDY_FOR = 10, /* times the queries */
    QUESTIONS = 8,
    QUERIES_MAX = 8,
    ENOUGH_US = 400, /* of a modest request: with fewer it could not use its turns */
    K = 10,
    SETTLE_US = 1000000, /* before anything counts */
    FAIR_S = 70,
    WEIGHTED = 3,
    WEIGHTED_DEPTH = 128,
    WEIGHTED_SIZES = 4,
    BATCH_QUERIES = 256,  /* that run as one, by default */
    BATCH_US_MAX = 20000, /* of one run, so that there are many */
    WEIGHTED_QUERIES = 16,
    WEIGHTS_S = 40,
};

struct spaces {
    struct sched_daemon daemon;
    ea_client *stats[FAIR_SPACES]; /* for questions while nothing else goes on */
    struct crowd crowd;
    struct crowd_question *questions[FAIR_SPACES];
    unsigned count;
};

static void open_spaces(struct spaces *s, const struct fair_bench *b, unsigned count,
                        const struct fair_rows *each, unsigned each_count,
                        const char *const *settings)
{
    uint64_t rows = 0;
    *s = (struct spaces){.count = count};
    for (unsigned i = 0; i < each_count; i++)
        rows += each[i].rows * count;
    fair_daemon_start(&s->daemon, b, rows, settings);
    for (unsigned i = 0; i < count; i++)
        s->stats[i] = fair_client(&s->daemon, i);
    fair_load(s->stats, count, each, each_count, b->run.dimension);
}

static void close_spaces(struct spaces *s)
{
    for (unsigned i = 0; i < s->count; i++)
        ea_close(s->stats[i]);
    sched_daemon_stop(&s->daemon);
}

static void join_space(struct spaces *s, const struct fair_bench *b, const char *collection,
                       unsigned space, uint32_t queries, unsigned depth)
{
    struct crowd_question *q = calloc(QUESTIONS, sizeof *q);
    if (!q) bench_fail("questions", "no memory");
    uint32_t dimension = b->run.dimension;
    for (unsigned i = 0; i < QUESTIONS; i++) {
        uint64_t first = (space * 131u + i * 17u) % (FAIR_POOL_ROWS - queries);
        q[i] = crowd_question(CROWD_KNN, collection, b->pool + first * dimension, queries,
                              dimension, K, 0, 0);
    }
    s->questions[space] = q;
    struct crowd_asker *a = crowd_join(&s->crowd, fair_client(&s->daemon, space), q, QUESTIONS);
    a->habits[0] = (struct crowd_habit){0, QUESTIONS, depth};
    a->habits[1] = a->habits[0];
}

static void leave_all(struct spaces *s)
{
    for (unsigned i = 0; i < s->crowd.asker_count; i++) {
        ea_close(s->crowd.askers[i].client);
        crowd_questions_free(s->questions[i], QUESTIONS);
    }
    memset(&s->crowd, 0, sizeof s->crowd);
}

/* Answers known from the CPU, replicas there where the backend is the GPU. */
static void prepare(struct spaces *s, const char *backend)
{
    double start = bench_now_s();
    sched_daemon_force(&s->daemon, "cpu");
    crowd_learn(&s->crowd);
    sched_daemon_force(&s->daemon, backend);
    for (unsigned i = 0; strcmp(backend, "gpu") == 0 && i < s->count; i++)
        if (!fair_warm(s->stats[i], s->questions[i])) bench_fail("fair", "a replica is missing");
    printf("    answers known after %.1f s\n", bench_now_s() - start);
    fflush(stdout);
}

/* What a request keeps its backend for, of space 0; p50. */
static double run_us(struct spaces *s, const struct fair_bench *b, const char *collection,
                     uint32_t queries)
{
    double times[5];
    ea_meta meta;
    struct crowd_question q =
        crowd_question(CROWD_KNN, collection, b->pool, queries, b->run.dimension, K, 0, 0);
    for (unsigned i = 0; i < 5; i++) {
        crowd_ask(s->stats[0], &q, &meta);
        times[i] = (double)meta.run_ns / 1e3;
    }
    return bench_percentile(times, 5, 50);
}

/* From here on all goes there; space 0 has its replica, if it needs one. */
static void force(struct spaces *s, const struct fair_bench *b, const char *backend,
                  const char *collection)
{
    sched_daemon_force(&s->daemon, backend);
    struct crowd_question q =
        crowd_question(CROWD_KNN, collection, b->pool, 64, b->run.dimension, K, 0, 0);
    if (strcmp(backend, "gpu") == 0 && !fair_warm(s->stats[0], &q))
        bench_fail(collection, "a replica is missing");
}

/* So many that one request keeps the backend for ENOUGH_US. */
static uint32_t enough_queries(struct spaces *s, const struct fair_bench *b)
{
    uint32_t queries = 1;
    double us = run_us(s, b, "rows", queries);
    while (us < ENOUGH_US && queries < QUERIES_MAX)
        us = run_us(s, b, "rows", queries *= 2);
    printf("    %u queries each, which take %.0f us; the greedy one has %u\n", queries, us,
           queries * GREEDY_FOR);
    return queries;
}

/* What each space had so far. */
static void busy_of(struct spaces *s, uint64_t *out)
{
    for (unsigned i = 0; i < s->count; i++)
        out[i] = fair_busy_ns(s->stats[i]);
}

static double jain(const uint64_t *before, const uint64_t *after, unsigned count)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < count; i++) {
        double x = (double)(after[i] - before[i]);
        sum += x;
        squares += x * x;
    }
    return squares > 0 ? sum * sum / (count * squares) : 0;
}

/* One backend: alone first, then with the greedy one. */
static void fair_on(struct fair_bench *b, struct spaces *s, const char *backend)
{
    uint64_t before[FAIR_SPACES], after[FAIR_SPACES];
    double seconds = b->run.quick ? 3 : 8;
    char what[64];
    printf("  on the %s:\n", backend);
    force(s, b, backend, "rows");
    uint32_t queries = enough_queries(s, b);
    for (unsigned i = 0; i < MODEST; i++)
        join_space(s, b, "rows", i, queries, MODEST_DEPTH);
    join_space(s, b, "rows", MODEST, queries * GREEDY_FOR, 0);
    s->crowd.askers[MODEST].habits[1].depth = MODEST_DEPTH * GREEDY;
    prepare(s, backend);

    crowd_start(&s->crowd);
    usleep(SETTLE_US);
    crowd_count(&s->crowd, seconds);
    uint64_t alone = s->crowd.answers;
    atomic_store(&s->crowd.mode, 1);
    usleep(SETTLE_US);
    busy_of(s, before);
    crowd_count(&s->crowd, seconds);
    busy_of(s, after);
    uint64_t with = s->crowd.answers;
    crowd_stop(&s->crowd);

    double alone_us = crowd_percentile_us(&s->crowd, 0, MODEST, 0, 99);
    double with_us = crowd_percentile_us(&s->crowd, 0, MODEST, 1, 99);
    double worst = 0, least = INFINITY, most = 0;
    for (unsigned i = 0; i < MODEST; i++) {
        double ratio = crowd_percentile_us(&s->crowd, i, i + 1, 1, 99) /
                       crowd_percentile_us(&s->crowd, i, i + 1, 0, 99);
        double ns = (double)(after[i] - before[i]);
        if (ratio > worst) worst = ratio;
        if (ns < least) least = ns;
        if (ns > most) most = ns;
    }
    printf("    15 alone %.0f answers/s, p50 %.0f us, p99 %.0f us; with the greedy one %.0f/s of "
           "all, p50 %.0f us, p99 %.0f us; the worst space's p99 %.2f x\n",
           (double)alone / seconds, crowd_percentile_us(&s->crowd, 0, MODEST, 0, 50), alone_us,
           (double)with / seconds, crowd_percentile_us(&s->crowd, 0, MODEST, 1, 50), with_us,
           worst);
    printf("    device time in %.0f s: the 15 from %.0f to %.0f ms, the greedy one %.0f ms\n",
           seconds, least / 1e6, most / 1e6, (double)(after[MODEST] - before[MODEST]) / 1e6);
    snprintf(what, sizeof what, "%s: Jain index of device time", backend);
    sched_verdict(&b->run, what, jain(before, after, FAIR_SPACES), "", true, 0.95);
    snprintf(what, sizeof what, "%s: the others' p99, with / without", backend);
    sched_verdict(&b->run, what, with_us / alone_us, "x", false, 2);
    crowd_settle(&b->run, &s->crowd);
    leave_all(s);
}

void fair_fair(struct fair_bench *b)
{
    static struct spaces s;
    sched_title("fair",
                "16 equal spaces, one connection each, kNN k=10; one has 100 x as many in flight, "
                "of 10 x the queries",
                FAIR_S);
    struct fair_rows each = {"rows", b->run.rows_max};
    open_spaces(&s, b, FAIR_SPACES, &each, 1, NULL);
    fair_on(b, &s, "cpu");
    if (b->run.has_gpu) fair_on(b, &s, "gpu");
    sched_print_scheduler(&s.daemon);
    close_spaces(&s);
}

/* ---------------------------------------------------------------- weights */

/* Over the largest collections with which there are enough batches to share. */
static void weights_on(struct fair_bench *b, struct spaces *s, const struct fair_rows *each,
                       const char *backend)
{
    static const double due[WEIGHTED] = {1 / 7.0, 2 / 7.0, 4 / 7.0};
    uint64_t before[WEIGHTED], after[WEIGHTED];
    double seconds = b->run.quick ? 3 : 6, total = 0;
    const char *name = NULL;
    double us = 0;
    for (unsigned i = 0; i < WEIGHTED_SIZES && (!name || us > BATCH_US_MAX); i++) {
        name = each[i].name;
        force(s, b, backend, name);
        us = run_us(s, b, name, BATCH_QUERIES);
    }
    printf("  on the %s, collection %s: a batch takes %.0f us\n", backend, name, us);
    for (unsigned i = 0; i < WEIGHTED; i++)
        join_space(s, b, name, i, WEIGHTED_QUERIES, WEIGHTED_DEPTH);
    prepare(s, backend);
    crowd_start(&s->crowd);
    usleep(SETTLE_US);
    busy_of(s, before);
    crowd_count(&s->crowd, seconds);
    busy_of(s, after);
    double together = (double)s->crowd.together / (double)(s->crowd.answers + !s->crowd.answers);
    uint64_t answers = s->crowd.answers;
    crowd_stop(&s->crowd);
    for (unsigned i = 0; i < WEIGHTED; i++)
        total += (double)(after[i] - before[i]);
    if (total <= 0) bench_fail("weights", "nobody had any device time");
    printf("    %.0f answers/s, %.1f ran as one\n", (double)answers / seconds, together);
    for (unsigned i = 0; i < WEIGHTED; i++) {
        double share = (double)(after[i] - before[i]) / total;
        char what[64];
        snprintf(what, sizeof what, "%s: weight %u: share %.4f, off %u/7 by", backend, 1u << i,
                 share, 1u << i);
        sched_verdict(&b->run, what, 100 * fabs(share / due[i] - 1), "%", false, 5);
    }
    crowd_settle(&b->run, &s->crowd);
    leave_all(s);
}

void fair_weights(struct fair_bench *b)
{
    static struct spaces s;
    static const char *const settings[] = {"spaces.space0.weight=1", "spaces.space1.weight=2",
                                           "spaces.space2.weight=4", NULL};
    sched_title("weights",
                "three spaces of weights 1 : 2 : 4, each with 128 requests of 16 queries",
                WEIGHTS_S);
    struct fair_rows each[WEIGHTED_SIZES] = {{"", b->run.rows_max * 3},
                                             {"", b->run.rows_max / 2},
                                             {"", b->run.rows_max / 10},
                                             {"", b->run.rows_max / 50}};
    for (unsigned i = 0; i < WEIGHTED_SIZES; i++)
        sched_name(each[i].rows, each[i].name);
    open_spaces(&s, b, WEIGHTED, each, WEIGHTED_SIZES, settings);
    weights_on(b, &s, each, "cpu");
    if (b->run.has_gpu) weights_on(b, &s, each, "gpu");
    sched_print_scheduler(&s.daemon);
    close_spaces(&s);
}
