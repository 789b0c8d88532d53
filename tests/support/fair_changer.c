#include "tests/support/fair_changer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tests/bench/bench.h"
#include "tests/support/fair_bench.h"

/* The rows are those from BASE_ROWS on: near to the queries, so that their answers show them. */
enum state { WITHOUT, FIRST_ROWS, OTHER_ROWS, STATES };
enum {
    BASE_ROWS = 1000,
    CHANGED = 32,
    QUERIES = 8,
    K = 20,
    AVERAGED = 100,
    ASKED = 10, /* times after each change */
    SEED = 5000,
};

struct changer {
    ea_client *client;
    struct crowd *crowd;
    struct crowd_question question;
    uint32_t dimension;
    float *rows[STATES];
    float *average;
    float weights[AVERAGED];
    uint64_t changed[CHANGED], averaged[AVERAGED];
    uint64_t knn_digests[STATES], average_digests[STATES];
    enum state state;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint64_t answers;
};

static void note(struct changer *h, ea_status st, const char *what)
{
    if (!st) {
        atomic_fetch_add(&h->answers, 1);
        return;
    }
    atomic_fetch_add(&h->crowd->failed, 1);
    fprintf(stderr, "bench: %s: %s\n", what, ea_error_text(h->client));
    atomic_store(&h->stop, true);
}

static void change(struct changer *h, enum state to)
{
    if (to == WITHOUT)
        note(h, ea_delete(h->client, "changed", h->changed, CHANGED, NULL), "delete");
    else
        note(h,
             ea_upsert(h->client,
                       &(ea_rows){.collection = "changed",
                                  .ids = h->changed,
                                  .rows = h->rows[to],
                                  .count = CHANGED,
                                  .dimension = h->dimension},
                       NULL),
             "upsert");
    h->state = to;
}

/* Digests of both answers. False: a request failed. */
static bool ask(struct changer *h, uint64_t *knn, uint64_t *average)
{
    const struct crowd_question *q = &h->question;
    ea_result r = {0};
    ea_status st = ea_knn(h->client,
                          &(ea_knn_question){.collection = q->collection,
                                             .queries = q->from,
                                             .query_count = q->queries,
                                             .dimension = q->dimension,
                                             .k = q->k},
                          &r);
    if (!st) *knn = sched_digest(&r);
    ea_result_free(&r);
    note(h, st, "kNN of changed rows");
    if (st) return false;
    /* Half of the rows that change, where they are there. */
    uint64_t n = h->state == WITHOUT ? AVERAGED - CHANGED / 2 : AVERAGED;
    st = ea_weighted_average(h->client,
                             &(ea_average_question){.collection = q->collection,
                                                    .ids = h->averaged,
                                                    .weights = h->weights,
                                                    .count = n,
                                                    .dimension = h->dimension},
                             h->average);
    note(h, st, "weighted average");
    if (!st) *average = XXH3_64bits(h->average, h->dimension * sizeof *h->average);
    return !st;
}

static void check(struct changer *h)
{
    uint64_t knn = 0, average = 0;
    if (!ask(h, &knn, &average)) return;
    bool knn_right = knn == h->knn_digests[h->state];
    if (knn_right && average == h->average_digests[h->state]) return;
    atomic_fetch_add(&h->crowd->wrong, 1);
    fprintf(stderr, "bench: WRONG: %s after a change to state %d\n",
            knn_right ? "weighted average" : "kNN", (int)h->state);
}

static void *keep_changing(void *argument)
{
    struct changer *h = argument;
    uint64_t seed = (uintptr_t)h;
    while (!atomic_load(&h->stop)) {
        enum state to = (enum state)(bench_random(&seed) % STATES);
        if (to != WITHOUT || h->state != WITHOUT) change(h, to);
        for (unsigned i = 0; i < ASKED && !atomic_load(&h->stop); i++)
            check(h);
    }
    return NULL;
}

struct changer *changer_create(ea_client *c, struct crowd *w, const float *pool, uint32_t dimension)
{
    struct changer *h = calloc(1, sizeof *h);
    if (!h) bench_fail("changer", "no memory");
    h->client = c;
    h->crowd = w;
    h->dimension = dimension;
    h->question = crowd_question(CROWD_KNN, "changed", pool, QUERIES, dimension, K, 0, 0);
    h->average = malloc(dimension * sizeof *h->average);
    if (!h->average) bench_fail("changer", "no memory");
    for (unsigned i = 0; i < CHANGED; i++)
        h->changed[i] = BASE_ROWS + i;
    for (unsigned i = 0; i < AVERAGED; i++) {
        unsigned still = AVERAGED - CHANGED / 2;
        h->averaged[i] = i < still ? i * 7 % BASE_ROWS : BASE_ROWS + i - still;
        h->weights[i] = 1.0f / (float)(i + 1);
    }
    for (enum state s = FIRST_ROWS; s < STATES; s++) {
        h->rows[s] = sched_random_floats((uint64_t)CHANGED * dimension, SEED + s);
        for (uint64_t i = 0; i < (uint64_t)CHANGED * dimension; i++)
            h->rows[s][i] += pool[i % (QUERIES * (uint64_t)dimension)];
    }
    struct fair_rows base = {"changed", BASE_ROWS};
    fair_load(&c, 1, &base, 1, dimension);
    for (enum state s = WITHOUT; s < STATES; s++) {
        if (s != WITHOUT) change(h, s);
        if (!ask(h, &h->knn_digests[s], &h->average_digests[s]))
            bench_fail("changer", "no answer to learn");
    }
    change(h, WITHOUT);
    return h;
}

void changer_destroy(struct changer *h)
{
    if (!h) return;
    ea_close(h->client);
    for (enum state s = WITHOUT; s < STATES; s++)
        free(h->rows[s]);
    free(h->average);
    free(h);
}

void changer_start(struct changer *h)
{
    atomic_store(&h->stop, false);
    atomic_store(&h->answers, 0);
    if (pthread_create(&h->thread, NULL, keep_changing, h)) bench_fail("thread", "refused");
}

void changer_stop(struct changer *h)
{
    atomic_store(&h->stop, true);
    pthread_join(h->thread, NULL);
}

uint64_t changer_answers(const struct changer *h)
{
    return atomic_load(&h->answers);
}
