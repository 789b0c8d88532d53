#include "tests/support/story_consolidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/covariance_reference.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/reference.h"
#include "tests/support/story_check.h"
#include "tests/support/story_draft.h"

enum { LISTED_MAX = 30, SENT_MAX = 24 };

/* ---------------------------------------------------------------- what is asked */

/* All rows of a collection, some, or some that are sent. */
static void choose_rows(struct story *s, struct story_request *r)
{
    uint64_t what = story_random(s, 3);
    if (what == 1) draft_ids_there(s, r, 2 + story_random(s, LISTED_MAX - 1));
    if (what == 0 || r->id_count >= 2) return;
    r->id_count = 0;
    r->ids = NULL;
    r->name = STORY_NAMES;
    r->row_count = 2 + story_random(s, SENT_MAX - 1);
    r->rows = draft_floats(s, r->row_count * r->dimension);
}

static uint64_t rows_sent(const struct story_request *r)
{
    return r->name == STORY_NAMES ? r->row_count : r->id_count;
}

#define PUT_ROWS(d, m, r)                                                              \
    do {                                                                               \
        if ((r)->name == STORY_NAMES)                                                  \
            PUT(d, m, rows, DTYPE_FLOAT32, (r)->row_count, (r)->dimension, (r)->rows); \
        else                                                                           \
            strcpy((m)->collection, story_name((r)->name));                            \
        if ((r)->ids) PUT(d, m, ids, DTYPE_UINT64, (r)->id_count, 1, (r)->ids);        \
    } while (0)

/* r->with_edges: rule average; r->scalar: the threshold, if r->create. */
struct draft *story_cluster(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_CLUSTER, engram_accel_v1_ClusterRequest_fields);
    engram_accel_v1_ClusterRequest *m = &d->sample.message.cluster;
    choose_rows(s, r);
    PUT_ROWS(d, m, r);
    r->with_edges = story_chance(s, 500);
    r->create = story_chance(s, 500);
    r->scalar = (float)story_random(s, 100) / 100;
    m->rule = r->with_edges ? engram_accel_v1_ClusterRule_CLUSTER_RULE_AVERAGE
                            : engram_accel_v1_ClusterRule_CLUSTER_RULE_CENTROID;
    m->has_threshold = r->create;
    m->threshold = r->scalar;
    m->has_size_min = true;
    m->size_min = r->k = 1 + (uint32_t)story_random(s, 3);
    if (!r->with_edges || !rows_sent(r) || story_chance(s, 500)) return d;
    r->weights = draft_floats(s, rows_sent(r)); /* times */
    PUT(d, m, times, DTYPE_FLOAT32, rows_sent(r), 1, r->weights);
    return d;
}

struct draft *story_covariance(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_COVARIANCE, engram_accel_v1_CovarianceRequest_fields);
    engram_accel_v1_CovarianceRequest *m = &d->sample.message.covariance;
    choose_rows(s, r);
    PUT_ROWS(d, m, r);
    if (!rows_sent(r) || story_chance(s, 500)) return d;
    r->weights = draft_floats(s, rows_sent(r));
    for (uint64_t i = 0; i < rows_sent(r); i++)
        r->weights[i] = fabsf(r->weights[i]) + 0.125F;
    PUT(d, m, weights, DTYPE_FLOAT32, rows_sent(r), 1, r->weights);
    return d;
}

/* ---------------------------------------------------------------- what may come of it */

bool story_few_rows_may(const struct story_request *r, enum status code)
{
    bool clusters = r->operation == OPERATION_CLUSTER && code == STATUS_INVALID_ARGUMENT;
    bool covers = r->operation == OPERATION_COVARIANCE && code == STATUS_FAILED_PRECONDITION;
    if ((!clusters && !covers) || !r->resident || r->ids) return false;
    for (const struct story_state *at = r->resident->last; at; at = at->before)
        if (at->count < 2 && story_may_see(r, at)) return true;
    return false;
}

/* The rows in input order, which the caller frees. */
static float *gather(const struct story_request *r, uint64_t *count)
{
    const struct story_state *seen = r->name == STORY_NAMES ? NULL : story_seen(r);
    uint64_t d = r->dimension, n = rows_sent(r) ? rows_sent(r) : seen->count;
    float *rows = malloc((n * d + 1) * sizeof *rows);
    if (!rows) abort();
    for (uint64_t i = 0; i < n; i++) {
        const float *from =
            !seen ? r->rows + i * d : seen->rows + (r->ids ? story_place(seen, r->ids[i]) : i) * d;
        memcpy(rows + i * d, from, d * sizeof *rows);
    }
    *count = n;
    return rows;
}

static void check_same(struct cursor *c, const char *what, const void *got, const void *want,
                       uint64_t bytes)
{
    if (bytes && memcmp(got, want, bytes) != 0) WRONG(c->s, c->r, "%s", what);
}

void story_check_cluster(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_ClusterReply m = engram_accel_v1_ClusterReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_ClusterReply_fields, &m);
    check_see(c, m.collection_version);
    c->s->by_backend[m.meta.backend % 4]++;
    uint64_t n;
    float *rows = gather(r, &n);
    const struct cluster_instance what = {.rows = (uint32_t)n,
                                          .dimension = r->dimension,
                                          .data = rows,
                                          .times = r->weights,
                                          .average = r->with_edges,
                                          .threshold = r->create       ? r->scalar
                                                       : r->with_edges ? 0.55F
                                                                       : 0.8F,
                                          .threshold_second = 0.9F,
                                          .score_min = r->with_edges ? 0.65F : -1.0F,
                                          .size_min = r->k,
                                          .clusters_max = r->with_edges ? UINT32_MAX : 100};
    struct cluster_answer a = cluster_reference(&what);
    if (m.merges != a.merges) WRONG(c->s, r, "merges");
    check_same(c, "labels", NEXT(c, &m, labels, DTYPE_UINT32, n, 1), a.labels, n * 4);
    check_same(c, "sizes", NEXT(c, &m, sizes, DTYPE_UINT32, a.count, 1), a.sizes, a.count * 4ull);
    check_same(c, "scores", NEXT(c, &m, scores, DTYPE_FLOAT32, a.count, 1), a.scores,
               a.count * 4ull);
    check_same(c, "centroids", NEXT(c, &m, centroids, DTYPE_FLOAT32, a.count, r->dimension),
               a.centroids, (uint64_t)a.count * r->dimension * 4);
    if (r->name != STORY_NAMES && !r->ids)
        check_same(c, "ids", NEXT(c, &m, ids, DTYPE_UINT64, n, 1), story_seen(r)->ids, n * 8);
    c->s->clustered += n;
    cluster_answer_free(&a);
    free(rows);
}

void story_check_covariance(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CovarianceReply m = engram_accel_v1_CovarianceReply_init_zero;
    const struct story_request *r = c->r;
    uint64_t n, d = r->dimension;
    check_decode(c->s, r, reply, engram_accel_v1_CovarianceReply_fields, &m);
    check_see(c, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    float *rows = gather(r, &n);
    const struct covariance_input in = {rows, r->weights, d, n, (uint32_t)d};
    struct covariance_expected e = covariance_expect(&in);
    if (m.rows != n || m.total != e.total || m.divisor != e.divisor)
        WRONG(c->s, r, "what is said of it");
    check_same(c, "the mean", NEXT(c, &m, mean, DTYPE_FLOAT64, 1, d), e.mean, d * 8);
    check_same(c, "the covariance", NEXT(c, &m, covariance, DTYPE_FLOAT64, d, d), e.covariance,
               d * d * 8);
    c->s->clustered += n;
    covariance_expected_destroy(&e);
    free(rows);
}
