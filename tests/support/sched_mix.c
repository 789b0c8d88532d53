#include "tests/support/sched_mix.h"

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
    m->pool = sched_random_floats((uint64_t)POOL_ROWS * m->dimension, seed + 1);
    m->random = malloc(2 * CANDIDATES * sizeof *m->random);
    m->candidates = malloc(CANDIDATES * sizeof *m->candidates);
    m->offsets = malloc((QUERIES_MAX + 1) * sizeof *m->offsets);
    if (!m->requests || !m->random || !m->candidates || !m->offsets) bench_fail("mix", "no memory");
    for (unsigned i = 0; i < 2 * CANDIDATES; i++)
        m->random[i] = bench_random(&seed);
    for (unsigned i = 0; i < m->count; i++)
        m->requests[i] = draw(m, &seed);
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

void mix_warm(const struct mix *m, struct sched_daemon *d)
{
    for (unsigned i = 0; i < m->set_count; i++)
        if (!sched_warm_replica(d, m->sets[i])) bench_fail("mix", "a replica is missing");
}

/* ---------------------------------------------------------------- asking */

const char *mix_operation_name(enum mix_operation o)
{
    static const char *const names[MIX_OPERATIONS] = {"knn", "similarity", "score"};
    return names[o];
}

/* Candidates and where each query's begin. */
static void fill_lists(struct mix *m, const struct mix_request *q)
{
    uint64_t listed = (uint64_t)q->listed * q->queries;
    for (uint64_t i = 0; i < listed; i++)
        m->candidates[i] = m->random[i + q->first] % q->rows;
    for (uint32_t i = 0; i <= q->queries; i++)
        m->offsets[i] = (uint64_t)i * q->listed;
}

static void compare(struct mix *m, struct mix_request *q, uint64_t digest)
{
    if (!q->answered) q->digest = digest;
    q->answered = true;
    m->other_bits += q->digest != digest;
}

struct mix_answer mix_ask(struct mix *m, ea_client *c, unsigned i)
{
    struct mix_request *q = &m->requests[i];
    char name[SCHED_ROWS_NAME];
    const float *queries = m->pool + (uint64_t)q->first * m->dimension;
    uint64_t listed = (uint64_t)q->listed * q->queries;
    ea_result r = {0};
    ea_status st = EA_OK;
    sched_name(q->rows, name);
    fill_lists(m, q);
    double start = bench_now_s();
    switch (q->operation) {
    case MIX_KNN:
        st = ea_knn(c,
                    &(ea_knn_question){.collection = name,
                                       .queries = queries,
                                       .query_count = q->queries,
                                       .dimension = m->dimension,
                                       .k = q->k},
                    &r);
        break;
    case MIX_SIMILARITY:
        st = ea_similarity(c,
                           &(ea_similarity_question){.collection = name,
                                                     .queries = queries,
                                                     .query_count = q->queries,
                                                     .dimension = m->dimension},
                           &r);
        break;
    case MIX_SCORE:
        st = ea_score(c,
                      &(ea_score_question){.collection = name,
                                           .queries = queries,
                                           .query_count = q->queries,
                                           .dimension = m->dimension,
                                           .offsets = m->offsets,
                                           .ids = m->candidates,
                                           .count = listed,
                                           .k = q->k},
                      &r);
        break;
    }
    double us = (bench_now_s() - start) * 1e6;
    sched_check(st, c, "a request of the mix");
    struct mix_answer a = {
        .time = {us, (double)r.meta->total_ns / 1e3, (double)r.meta->run_ns / 1e3},
        .meta = *r.meta,
    };
    compare(m, q, sched_digest(&r));
    ea_result_free(&r);
    return a;
}
