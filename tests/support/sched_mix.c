#include "tests/support/sched_mix.h"

#include <unistd.h>
#include <math.h>
#include <string.h>

#include "tests/bench/bench.h"

enum {
    QUERIES_MAX = 1024,
    K_MAX = 100,
    POOL_ROWS = 2048,
    CANDIDATES = 1 << 20, /* of one request at most: 8 MiB */
    LIST_MAX = 10000,
    SCORES = 1 << 24, /* of one reply at most: 64 MiB */
    ROUNDS = 3,
    LONG_US = 500000, /* what takes longer runs once */
};

static uint64_t log_uniform(uint64_t *seed, uint64_t max)
{
    double unit = (double)(bench_random(seed) >> 11) * 0x1p-53;
    uint64_t n = (uint64_t)exp(unit * log((double)max + 1));
    return n < 1 ? 1 : n > max ? max : n;
}

static uint32_t at_most(uint32_t n, uint64_t max)
{
    return n < max ? n : max ? (uint32_t)max : 1;
}

static struct mix_request draw(const struct mix *m, uint64_t *seed)
{
    struct mix_request q = {
        .operation = (enum mix_operation)(bench_random(seed) % MIX_OPERATIONS),
        .rows = m->sets[bench_random(seed) % m->set_count],
        .queries = (uint32_t)log_uniform(seed, QUERIES_MAX),
        .k = 1 + (uint32_t)(bench_random(seed) % K_MAX),
        .first = (uint32_t)(bench_random(seed) % (POOL_ROWS - QUERIES_MAX)),
    };
    uint64_t listed = log_uniform(seed, q.rows < LIST_MAX ? q.rows : LIST_MAX);
    if (q.operation == MIX_SIMILARITY) q.queries = at_most(q.queries, SCORES / q.rows);
    if (q.operation != MIX_SCORE) return q;
    q.listed = (uint32_t)listed;
    q.queries = at_most(q.queries, CANDIDATES / listed);
    if (bench_random(seed) % 2) q.k = 0; /* all scores */
    return q;
}

void mix_init(struct mix *m, const struct sched_bench *b, uint64_t seed)
{
    *m = (struct mix){.count = b->requests, .dimension = b->dimension};
    for (int step = 0; m->set_count < MIX_SETS_MAX; step++) { /* 1, 3, 10, 32, 100 ... */
        uint64_t rows = (uint64_t)(pow(10, step / 2.0) + 0.5);
        if (rows > b->rows_max) break;
        m->sets[m->set_count++] = rows;
    }
    m->requests = calloc(m->count, sizeof *m->requests);
    m->decided = calloc(m->count, sizeof *m->decided);
    m->cpu = calloc(m->count, sizeof *m->cpu);
    m->gpu = calloc(m->count, sizeof *m->gpu);
    m->pool = sched_random_floats((uint64_t)POOL_ROWS * m->dimension, seed + 1);
    m->random = malloc(2 * CANDIDATES * sizeof *m->random);
    m->candidates = malloc(CANDIDATES * sizeof *m->candidates);
    m->offsets = malloc((QUERIES_MAX + 1) * sizeof *m->offsets);
    if (!m->requests || !m->decided || !m->cpu || !m->gpu || !m->random || !m->candidates ||
        !m->offsets)
        bench_fail("mix", "no memory");
    for (unsigned i = 0; i < 2 * CANDIDATES; i++)
        m->random[i] = bench_random(&seed);
    for (unsigned i = 0; i < m->count; i++)
        m->requests[i] = draw(m, &seed);
}

void mix_finish(struct mix *m)
{
    free(m->requests);
    free(m->decided);
    free(m->cpu);
    free(m->gpu);
    free(m->pool);
    free(m->random);
    free(m->candidates);
    free(m->offsets);
}

uint64_t mix_rows(const struct mix *m)
{
    uint64_t rows = 0;
    for (unsigned i = 0; i < m->set_count; i++)
        rows += m->sets[i];
    return rows;
}

void mix_load(const struct mix *m, const struct sched_daemon *d)
{
    double start = bench_now_s();
    for (unsigned i = 0; i < m->set_count; i++)
        sched_load(d, m->sets[i]);
    printf("  %u collections of 1 to %llu rows x %u loaded in %.1f s\n", m->set_count,
           (unsigned long long)m->sets[m->set_count - 1], m->dimension, bench_now_s() - start);
    fflush(stdout);
}

/* ---------------------------------------------------------------- asking */

static struct mix_time ask(struct mix *m, ea_client *c, const struct mix_request *q)
{
    char name[SCHED_ROWS_NAME];
    const float *queries = m->pool + (uint64_t)q->first * m->dimension;
    uint64_t listed = (uint64_t)q->listed * q->queries;
    ea_result r = {0};
    ea_status st = EA_OK;
    sched_name(q->rows, name);
    for (uint64_t i = 0; i < listed; i++)
        m->candidates[i] = m->random[i + q->first] % q->rows;
    for (uint32_t i = 0; i <= q->queries; i++)
        m->offsets[i] = (uint64_t)i * q->listed;
    double start = bench_now_s();
    switch (q->operation) {
    case MIX_KNN:
        st = ea_knn(c, name, queries, q->queries, m->dimension, q->k, NULL, NULL, &r);
        break;
    case MIX_SIMILARITY:
        st = ea_similarity(c, name, queries, q->queries, m->dimension, NULL, NULL, &r);
        break;
    case MIX_SCORE:
        st = ea_score(c, name, 0, queries, q->queries, m->dimension, m->offsets, m->candidates,
                      listed, q->k, &r);
        break;
    }
    double us = (bench_now_s() - start) * 1e6;
    sched_check(st, c, "a request of the mix");
    struct mix_time t = {
        .us = us,
        .daemon_us = (double)r.meta.total_ns / 1e3,
        .bytes = r.rows * r.columns * (sizeof *r.scores + (r.counts ? sizeof *r.ids : 0)),
        .meta = r.meta,
        .digest = sched_digest(&r),
    };
    ea_result_free(&r);
    return t;
}

/* The daemon has time to read its file, and everything in it to fall asleep: so it is before each
 * request of every pass, whoever is to answer it. */
static struct mix_time ask_forced(struct mix *m, struct sched_daemon *d, unsigned i,
                                  const char *force)
{
    enum { TRIES = 3, PAUSE_US = 1500 };
    struct mix_time t = {0};
    bool gpu = strcmp(force, "gpu") == 0, free = strcmp(force, "none") == 0;
    for (int n = 0; n < TRIES; n++) {
        sched_daemon_tell(d, force);
        usleep(PAUSE_US);
        t = ask(m, d->client, &m->requests[i]);
        if (free || t.meta.backend == (gpu ? EA_BACKEND_GPU : EA_BACKEND_CPU)) break;
    }
    return t;
}

void mix_decide(struct mix *m, struct sched_daemon *d)
{
    for (unsigned i = 0; i < m->count; i++) {
        m->decided[i] = ask_forced(m, d, i, "none");
        if ((i + 1) % 500 == 0) {
            printf("  decided %u of %u\n", i + 1, m->count);
            fflush(stdout);
        }
    }
}

/* ---------------------------------------------------------------- both backends */

/* What one request took, round by round. */
struct series {
    double us[ROUNDS], daemon_us[ROUNDS];
    unsigned count, elsewhere; /* elsewhere: times that it ran on neither alone */
};

static void shuffle(unsigned *values, unsigned count, uint64_t *seed)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)(bench_random(seed) % i), kept = values[i - 1];
        values[i - 1] = values[j];
        values[j] = kept;
    }
}

static void measure(struct mix *m, struct sched_daemon *d, unsigned i, ea_backend where,
                    struct series *s)
{
    if (s->count && s->us[0] > LONG_US) return;
    struct mix_time t = ask_forced(m, d, i, ea_backend_name(where));
    s->us[s->count] = t.us;
    s->daemon_us[s->count++] = t.daemon_us;
    s->elsewhere += t.meta.backend != where;
    *(where == EA_BACKEND_GPU ? &m->gpu[i] : &m->cpu[i]) = t;
}

static bool settle(const struct series *s, struct mix_time *out)
{
    double us[ROUNDS], daemon_us[ROUNDS];
    memcpy(us, s->us, sizeof us);
    memcpy(daemon_us, s->daemon_us, sizeof daemon_us);
    out->us = s->elsewhere ? 0 : bench_percentile(us, s->count, 50);
    out->daemon_us = s->elsewhere ? 0 : bench_percentile(daemon_us, s->count, 50);
    out->least_us = out->most_us = s->daemon_us[0];
    for (unsigned n = 1; n < s->count; n++) {
        if (s->daemon_us[n] < out->least_us) out->least_us = s->daemon_us[n];
        if (s->daemon_us[n] > out->most_us) out->most_us = s->daemon_us[n];
    }
    return !s->elsewhere;
}

/* Both in turn for each request, each time after the same pause: what was asked over and over finds
 * threads awake and caches full, which it does not when the daemon decides. */
void mix_measure(struct mix *m, struct sched_daemon *d, unsigned seconds_max)
{
    double start = bench_now_s();
    unsigned done = 0, not_there = 0, why = 0;
    uint64_t seed = m->count;
    unsigned *order = malloc(m->count * sizeof *order);
    if (!order) bench_fail("mix", "no memory");
    for (unsigned i = 0; i < m->count; i++)
        order[i] = i;
    shuffle(order, m->count, &seed);
    for (; done < m->count && bench_now_s() < start + seconds_max; done++) {
        struct series cpu = {0}, gpu = {0};
        unsigned i = order[done];
        for (int round = 0; round < ROUNDS; round++) {
            measure(m, d, i, EA_BACKEND_CPU, &cpu);
            measure(m, d, i, EA_BACKEND_GPU, &gpu);
        }
        settle(&cpu, &m->cpu[i]);
        if (!settle(&gpu, &m->gpu[i])) {
            why = m->gpu[i].meta.reason;
            not_there++;
        }
        if ((done + 1) % 500 == 0) printf("  measured %u of %u\n", done + 1, m->count);
        fflush(stdout);
    }
    free(order);
    sched_daemon_force(d, "none");
    printf(
        "  measured %u of %u on both in turn, %d times, in %.0f s; forced to the GPU, %u of them "
        "did not run there (last: %s)\n",
        done, m->count, ROUNDS, bench_now_s() - start, not_there, ea_reason_name(why));
    fflush(stdout);
}
