/* Clusters through the socket: what the definition gives, wherever the rows are and whatever the
 * collection's history; centroids that are stored; cancelling; what bad input gets. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cancels.h"
#include "tests/support/client_expect.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/sets.h"

enum { D = 40, ROWS = 400 };

static struct scene scene;
static ea_client *c;
static float *rows, times[ROWS];
static uint64_t ids[ROWS];

/* Sent from the last row to the first, and others before that are deleted again, so that rows do
 * not lie in the order of their ids. */
static void begin(const char *const *settings)
{
    scene_open(&scene, settings);
    c = scene_client(&scene, "facts");
    rows = cluster_make(CLUSTER_PLANTED, ROWS, D, 8, 5);
    OK(ea_collection_create(c, "rows", D, EA_DOT, NULL));
    for (uint64_t i = 0; i < ROWS; i++) {
        ids[i] = 3 * i + 1;
        times[i] = (float)(i % 9);
        uint64_t gone = 3 * i + 2;
        const ea_rows there = {
            .collection = "rows", .ids = &gone, .rows = rows + i * D, .count = 1, .dimension = D};
        OK(ea_upsert(c, &there, NULL));
    }
    for (uint64_t i = ROWS; i-- > 0;) {
        const ea_rows there = {
            .collection = "rows", .ids = ids + i, .rows = rows + i * D, .count = 1, .dimension = D};
        uint64_t gone = 3 * i + 2;
        OK(ea_upsert(c, &there, NULL));
        OK(ea_delete(c, "rows", &gone, 1, NULL));
    }
}

static void end(void)
{
    OK(ea_collection_drop(c, "rows"));
    ea_close(c);
    scene_close(&scene);
    free(rows);
}

static struct cluster_answer expected(bool average, bool timed)
{
    return cluster_reference(&(struct cluster_instance){
        .rows = ROWS,
        .dimension = D,
        .data = rows,
        .times = timed ? times : NULL,
        .average = average,
        .threshold = average ? 0.55F : 0.8F,
        .threshold_second = 0.9F,
        .score_min = average ? 0.65F : -1.0F,
        .size_min = 3,
        .clusters_max = average ? UINT32_MAX : 100,
    });
}

static void assert_same(const ea_clusters *r, const struct cluster_answer *a)
{
    cr_assert(r->rows == ROWS && r->dimension == D && r->meta);
    cr_assert_eq(r->count, a->count, "%d clusters for %d", (int)r->count, (int)a->count);
    cr_assert_eq(r->merges, a->merges);
    cr_assert_eq(memcmp(r->labels, a->labels, ROWS * sizeof *r->labels), 0);
    cr_assert_eq(memcmp(r->sizes, a->sizes, a->count * sizeof *r->sizes), 0);
    cr_assert_eq(memcmp(r->scores, a->scores, a->count * sizeof *r->scores), 0);
    cr_assert_eq(memcmp(r->centroids, a->centroids, a->count * D * sizeof(float)), 0);
}

Test(cluster, has_the_bits_of_the_definition, .timeout = 120)
{
    begin((const char *const[]){"workers.count=2", NULL});
    for (int average = 0; average < 2; average++) {
        struct cluster_answer a = expected(average, average);
        ea_cluster_question q = {.collection = "rows",
                                 .rule = average ? EA_CLUSTER_AVERAGE : 0,
                                 .times = average ? times : NULL,
                                 .time_count = average ? ROWS : 0};
        ea_clusters r = {0};
        cr_assert(a.count > 10);
        OK(ea_cluster(c, &q, &r));
        assert_same(&r, &a);
        cr_assert_eq(memcmp(r.ids, ids, sizeof ids), 0);
        cr_assert_eq(r.collection_version, r.meta->version);
        q.ids = ids, q.count = ROWS;
        OK(ea_cluster(c, &q, &r));
        assert_same(&r, &a);
        cr_assert_null(r.ids);
        q.collection = NULL, q.ids = NULL, q.rows = rows, q.dimension = D;
        OK(ea_cluster(c, &q, &r));
        assert_same(&r, &a);
        ea_clusters_free(&r);
        cluster_answer_free(&a);
    }
    end();
}

/* As kNN finds them there; a repetition replaces them. */
Test(cluster, stores_its_centroids)
{
    begin(NULL);
    const uint64_t first = 1000;
    ea_clusters r = {0};
    ea_result there = {0};
    OK(ea_collection_create(c, "themes", D, EA_COSINE, NULL));
    const ea_cluster_question q = {.collection = "rows", .into = "themes", .into_first = first};
    OK(ea_cluster(c, &q, &r));
    cr_assert(r.count > 10 && r.inserted == r.count && !r.replaced && r.into_version);
    const ea_knn_question knn = {.collection = "themes",
                                 .queries = r.centroids,
                                 .query_count = r.count,
                                 .dimension = D,
                                 .k = 1};
    OK(ea_knn(c, &knn, &there));
    for (uint64_t i = 0; i < r.count; i++)
        cr_assert_eq(there.ids[i], first + i);
    OK(ea_cluster(c, &q, &r));
    cr_assert(!r.inserted && r.replaced == r.count);
    ea_result_free(&there);
    ea_clusters_free(&r);
    OK(ea_collection_drop(c, "themes"));
    end();
}

/* It waits its turn and is checked like any, and nothing comes of it. */
Test(cluster, a_dry_run_predicts)
{
    static const uint64_t unknown[] = {1, 2, 3};
    begin(NULL);
    ea_clusters r = {0};
    OK(ea_collection_create(c, "themes", D, EA_COSINE, NULL));
    ea_cluster_question q = {.collection = "rows", .into = "themes", .dry_run = true};
    for (int i = 0; i < 3; i++) {
        q.rule = i == 1 ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID;
        OK(ea_cluster(c, &q, &r));
        cr_assert(!r.rows && !r.count && !r.labels && !r.merges && !r.inserted);
        cr_assert(r.meta && r.meta->predicted_ns > 0 && r.collection_version);
    }
    ea_collection_info info = {0};
    OK(ea_collection_describe(c, "themes", &info));
    cr_assert_eq(info.rows, 0);
    q = (ea_cluster_question){.collection = "rows", .ids = unknown, .count = 1, .dry_run = true};
    FAILS(ea_cluster(c, &q, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "rows: 1, at least 2");
    OK(ea_collection_drop(c, "themes"));
    ea_clusters_free(&r);
    end();
}

static ea_status send_either(ea_client *client, unsigned i, const ea_send_options *how,
                             uint64_t *id)
{
    const ea_cluster_question q = {.collection = "rows",
                                   .rule = i % 2 ? EA_CLUSTER_AVERAGE : EA_CLUSTER_CENTROID};
    return ea_cluster_send(client, &q, how, id);
}

/* Whenever it is cancelled, it is answered once, and its memory comes back (scene_close). */
Test(cluster, cancelled_at_any_time, .timeout = 120)
{
    begin((const char *const[]){"workers.count=2", NULL});
    cancels_expect(c, 200, send_either);
    struct cluster_answer a = expected(false, false);
    const ea_cluster_question q = {.collection = "rows"};
    ea_clusters r = {0};
    OK(ea_cluster(c, &q, &r));
    assert_same(&r, &a);
    cluster_answer_free(&a);
    ea_clusters_free(&r);
    end();
}

static void bad_numbers(ea_clusters *r)
{
    static const float beyond[] = {-1.5F, 1.001F, NAN, INFINITY}, half = 0.5F;
    static const uint32_t zero;
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        ea_cluster_question q = {.collection = "rows", .threshold = &beyond[i]};
        FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_THRESHOLD, "threshold: ");
        q.threshold = NULL, q.threshold_second = &beyond[i];
        FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_THRESHOLD,
              "threshold_second: ");
        q.threshold_second = NULL, q.score_min = &beyond[i];
        FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_THRESHOLD, "score_min: ");
    }
    ea_cluster_question q = {.collection = "rows", .rule = (ea_cluster_rule)3};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_RULE, "rule: 3");
    q.rule = EA_CLUSTER_AVERAGE, q.threshold_second = &half;
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_THRESHOLD, "average has none");
    q = (ea_cluster_question){.collection = "rows", .size_min = &zero};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SIZE, "size_min: 0");
    q = (ea_cluster_question){.collection = "rows", .clusters_max = &zero};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SIZE, "clusters_max: 0");
}

static void bad_times(ea_clusters *r)
{
    float odd[ROWS] = {0};
    ea_cluster_question q = {.collection = "rows", .times = odd, .time_count = ROWS};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_TIMES, "centroid has none");
    q.rule = EA_CLUSTER_AVERAGE, q.time_count = ROWS - 1;
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
          "times: 399 for 400 rows");
    q.time_count = ROWS, odd[7] = INFINITY;
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_TIMES, "number 7");
    odd[7] = NAN;
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_TIMES, "number 7");
}

static void bad_rows(ea_clusters *r)
{
    static const uint64_t unknown[] = {1, 2};
    static const float bad[] = {1, 2, NAN, 4};
    ea_cluster_question q = {.collection = "nothing"};
    FAILS(ea_cluster(c, &q, r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION, "nothing");
    q = (ea_cluster_question){.collection = "rows", .ids = unknown, .count = 2};
    FAILS(ea_cluster(c, &q, r), EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ID, "no id 2 (row 1)");
    q.count = 1;
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "rows: 1, at least 2");
    q = (ea_cluster_question){.rows = bad, .count = 2, .dimension = 2};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_NOT_FINITE, "row 1: column 0");
    OK(ea_collection_create(c, "empty", 2, EA_COSINE, NULL));
    q = (ea_cluster_question){.collection = "empty"};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "rows: 0, at least 2");
    q = (ea_cluster_question){.collection = "rows", .into = "empty"};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_DIMENSION,
          "centroids have 40 dimensions, empty has 2");
    q = (ea_cluster_question){.collection = "rows", .into_first = 1};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME, "into: empty");
    q = (ea_cluster_question){.collection = "rows", .into = "rows", .into_first = UINT64_MAX};
    FAILS(ea_cluster(c, &q, r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "into_first");
    OK(ea_collection_drop(c, "empty"));
}

Test(cluster, bad_input)
{
    begin(NULL);
    ea_clusters r = {0};
    bad_numbers(&r);
    bad_times(&r);
    bad_rows(&r);
    cr_assert_null(r.memory);
    end();
}

Test(cluster, more_rows_than_the_limits_allow)
{
    begin((const char *const[]){"limits.cluster_rows=399", "limits.cluster_average_rows=9", NULL});
    ea_clusters r = {0};
    ea_cluster_question q = {.collection = "rows"};
    FAILS(ea_cluster(c, &q, &r), EA_RESOURCE_EXHAUSTED, EA_DETAIL_TOO_MANY_ROWS,
          "the limit is 399 (limits.cluster_rows)");
    q.rule = EA_CLUSTER_AVERAGE;
    FAILS(ea_cluster(c, &q, &r), EA_RESOURCE_EXHAUSTED, EA_DETAIL_TOO_MANY_ROWS,
          "400 rows would take some");
    q = (ea_cluster_question){.collection = "rows", .ids = ids, .count = 399};
    OK(ea_cluster(c, &q, &r));
    ea_clusters_free(&r);
    end();
}
