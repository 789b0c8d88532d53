/* fair_soak: a long time of everything: many spaces, operations, sizes, batches, changes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/fair_bench.h"
#include "tests/support/fair_changer.h"
#include "tests/support/fair_memory.h"

enum {
    SPACES = 12,
    CHANGERS = 4, /* connections that change rows; with the askers, 16 */
    SIZES = 3,
    MIXED = 60,  /* questions of each space */
    SINGLE = 64, /* over the largest collection, most of one query: for batches */
    MIXED_DEPTH = 48,
    SINGLE_DEPTH = 192,
    SOAK_S = 600,
    QUICK_S = 20,
    PHASES = 24,
    SIMILARITY_ROWS = 10000,
    RATE = 10000,
    BUSY_PERCENT = 70,
    GROWTH_PERCENT = 2, /* or: */
    GROWTH_MIB = 16,
    GROWTH_REST_MIB = 4,
};

struct soak {
    struct sched_daemon daemon;
    struct crowd crowd;
    struct crowd_question *questions[SPACES];
    struct changer *changers[CHANGERS];
    uint64_t rows[SIZES];
    double busy_s, batch_s; /* of the GPU, in batch phases */
    uint64_t answers;
    double seconds;
};

/* The small sizes more often, as each costs a hundredth. */
static struct crowd_question mixed_question(const struct soak *s, const struct fair_bench *b,
                                            unsigned space, unsigned i)
{
    static const uint8_t sizes[] = {0, 0, 1, 0, 1, 2, 0, 1, 0, 1};
    uint64_t rows = s->rows[sizes[i % 10]], seed = space * 1000 + i;
    uint32_t queries = i % 3 ? 1 : 1 + (uint32_t)(bench_random(&seed) % 16);
    uint32_t k = 1 + (uint32_t)(bench_random(&seed) % 100), listed = 0;
    enum crowd_operation operation = CROWD_KNN;
    char name[SCHED_ROWS_NAME];
    if (i / 10 == 4) {
        operation = CROWD_SIMILARITY;
        if (rows > SIMILARITY_ROWS) rows = s->rows[0];
        queries = 1 + queries % 4;
    } else if (i / 10 == 1 || i / 10 == 3) {
        operation = CROWD_SCORE;
        listed = 20 + (uint32_t)(bench_random(&seed) % 300);
        if (i % 2) k = 0; /* all scores */
    }
    sched_name(rows, name);
    uint64_t first = bench_random(&seed) % (FAIR_POOL_ROWS - 16);
    return crowd_question(operation, name, b->pool + first * b->run.dimension, queries,
                          b->run.dimension, k, listed, rows);
}

static void join_space(struct soak *s, const struct fair_bench *b, ea_client *c, unsigned space)
{
    char name[SCHED_ROWS_NAME];
    struct crowd_question *q = calloc(MIXED + SINGLE, sizeof *q);
    if (!q) bench_fail("questions", "no memory");
    sched_name(s->rows[SIZES - 1], name);
    for (unsigned i = 0; i < MIXED; i++)
        q[i] = mixed_question(s, b, space, i);
    for (unsigned i = 0; i < SINGLE; i++) {
        const float *from = b->pool + (uint64_t)(space * 200 + i * 3) * b->run.dimension;
        uint32_t queries = i % 4 == 3 ? b->batch_queries : 1;
        q[MIXED + i] = crowd_question(CROWD_KNN, name, from, queries, b->run.dimension, 10, 0, 0);
    }
    s->questions[space] = q;
    struct crowd_asker *a = crowd_join(&s->crowd, c, q, MIXED + SINGLE);
    a->habits[0] = (struct crowd_habit){0, MIXED, MIXED_DEPTH};
    a->habits[1] = (struct crowd_habit){MIXED, SINGLE, SINGLE_DEPTH};
}

static void soak_open(struct soak *s, const struct fair_bench *b)
{
    uint64_t all = 0;
    *s = (struct soak){.rows = {b->run.rows_max / 100, b->run.rows_max / 10, b->run.rows_max}};
    for (unsigned i = 0; i < SIZES; i++)
        all += s->rows[i] * SPACES;
    fair_daemon_start(&s->daemon, b, all, NULL);
    ea_client *clients[SPACES];
    struct fair_rows each[SIZES];
    for (unsigned i = 0; i < SIZES; i++) {
        each[i].rows = s->rows[i];
        sched_name(s->rows[i], each[i].name);
    }
    for (unsigned i = 0; i < SPACES; i++)
        clients[i] = fair_client(&s->daemon, i);
    fair_load(clients, SPACES, each, SIZES, b->run.dimension);
    for (unsigned i = 0; i < SPACES; i++)
        join_space(s, b, clients[i], i);
    double loaded = bench_now_s();
    sched_daemon_force(&s->daemon, "cpu");
    crowd_learn(&s->crowd);
    for (unsigned i = 0; i < CHANGERS; i++)
        s->changers[i] =
            changer_create(fair_client(&s->daemon, i), &s->crowd, b->pool, b->run.dimension);
    sched_daemon_force(&s->daemon, "none");
    printf("  their answers known after %.1f s\n", bench_now_s() - loaded);
    fflush(stdout);
}

static void soak_close(struct soak *s)
{
    for (unsigned i = 0; i < CHANGERS; i++)
        changer_destroy(s->changers[i]);
    for (unsigned i = 0; i < SPACES; i++) {
        ea_close(s->crowd.askers[i].client);
        crowd_questions_free(s->questions[i], MIXED + SINGLE);
    }
    sched_daemon_stop(&s->daemon);
}

static uint64_t gpu_run_ns(const struct soak *s)
{
    static ea_stats stats;
    sched_check(ea_get_stats(s->daemon.client, &stats), s->daemon.client, "stats");
    return stats.gpu_count ? stats.gpus[0].run_ns : 0;
}

static double heap_mib(const struct soak *s)
{
    static ea_stats stats;
    sched_check(ea_get_stats(s->daemon.client, &stats), s->daemon.client, "stats");
    return (double)stats.memory_bytes_used / 1048576;
}

/* Every second, what memory is in use is noted. */
static void phase(struct soak *s, struct memory_watch *m, unsigned mode, double seconds)
{
    double start = bench_now_s(), together = 0, on_gpu = 0;
    uint64_t run_ns = gpu_run_ns(s), answers = 0, changes = 0;
    atomic_store(&s->crowd.mode, mode);
    for (unsigned i = 0; i < CHANGERS; i++)
        changes += changer_answers(s->changers[i]);
    while (bench_now_s() < start + seconds) {
        double left = start + seconds - bench_now_s();
        crowd_count(&s->crowd, left < 1 ? left : 1);
        answers += s->crowd.answers;
        together += (double)s->crowd.together;
        on_gpu += (double)s->crowd.on_gpu;
        memory_watch_look(m);
    }
    double took = bench_now_s() - start, busy = (double)(gpu_run_ns(s) - run_ns) / 1e9;
    for (unsigned i = 0; i < CHANGERS; i++)
        answers += changer_answers(s->changers[i]);
    answers -= changes;
    printf("    %-6s %5.1f s: %8.0f/s, %3.0f %% with the GPU, %5.1f ran as one, GPU %3.0f %% busy, "
           "MiB: heap %llu, daemon %llu, GPU's %llu; %llu wrong, %llu failed\n",
           mode ? "batch" : "mixed", took, (double)answers / took,
           answers ? 100 * on_gpu / (double)answers : 0, answers ? together / (double)answers : 0,
           100 * busy / took, (unsigned long long)memory_watch_now(m, MEMORY_HEAP) >> 20,
           (unsigned long long)memory_watch_now(m, MEMORY_DAEMON) >> 20,
           (unsigned long long)memory_watch_now(m, MEMORY_GPU_PROCESS) >> 20,
           (unsigned long long)s->crowd.wrong, (unsigned long long)s->crowd.failed);
    fflush(stdout);
    s->answers += answers;
    s->seconds += took;
    if (mode) {
        s->busy_s += busy;
        s->batch_s += took;
    }
}

void fair_soak(struct fair_bench *b)
{
    static struct soak s;
    static struct memory_watch m;
    unsigned seconds = b->seconds ? b->seconds : b->run.quick ? QUICK_S : SOAK_S;
    char what[80];
    snprintf(what, sizeof what, "12 spaces, 16 connections, everything for %u s", seconds);
    sched_title("soak", what, seconds + 60);
    soak_open(&s, b);
    memory_watch_init(&m, &s.daemon);
    double at_rest_mib = heap_mib(&s);
    crowd_start(&s.crowd);
    for (unsigned i = 0; i < CHANGERS; i++)
        changer_start(s.changers[i]);
    for (unsigned i = 0; i < PHASES && !atomic_load(&s.crowd.stop); i++)
        phase(&s, &m, i % 2, (double)seconds / PHASES);
    for (unsigned i = 0; i < CHANGERS; i++)
        changer_stop(s.changers[i]);
    crowd_stop(&s.crowd);

    for (unsigned mode = 0; mode < 2; mode++)
        printf("  %s: p50 %.0f us, p99 %.0f us\n", mode ? "batch" : "mixed",
               crowd_percentile_us(&s.crowd, 0, SPACES, mode, 50),
               crowd_percentile_us(&s.crowd, 0, SPACES, mode, 99));
    sched_print_scheduler(&s.daemon);
    fair_print_pressure(s.daemon.client);
    sched_verdict(&b->run, "requests answered", (double)s.answers / s.seconds, "/s", true, RATE);
    if (b->run.has_gpu)
        sched_verdict(&b->run, "GPU busy in batch phases", 100 * s.busy_s / s.batch_s, "%", true,
                      BUSY_PERCENT);
    for (unsigned i = 0; i < (b->run.has_gpu ? MEMORY_KINDS : MEMORY_GPU_PROCESS); i++) {
        struct memory_trend t = memory_watch_trend(&m, i);
        double bound = fmax(GROWTH_MIB, t.mean_mib * GROWTH_PERCENT / 100);
        if (t.mean_mib <= 0) continue;
        snprintf(what, sizeof what, "%s: %.0f MiB, %+.2f MiB/min: growth", t.name, t.mean_mib,
                 t.mib_per_minute);
        sched_verdict(&b->run, what, t.growth_mib, "MiB", false, bound);
    }
    sched_verdict(&b->run, "heap used at rest: growth", fmax(0, heap_mib(&s) - at_rest_mib), "MiB",
                  false, GROWTH_REST_MIB);
    crowd_settle(&b->run, &s.crowd);
    soak_close(&s);
}
