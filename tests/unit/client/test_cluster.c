/* ea_cluster: what it asks, what becomes of the answer, and replies that lie. */
#include <stdlib.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(cluster, .timeout = 60);

static const float values[12] = {1, 2, 3, 4}, half = 0.5F;
static const uint64_t ids[3] = {5, 6, 7};
static const uint32_t two = 2;

static const ea_cluster_question of_rows = {
    .rows = values, .count = 4, .dimension = 3, .threshold = &half, .clusters_max = &two};
static const ea_cluster_question of_ids = {.collection = "rows",
                                           .ids = ids,
                                           .count = 3,
                                           .times = values,
                                           .time_count = 3,
                                           .rule = EA_CLUSTER_AVERAGE};
static const ea_cluster_question of_all = {.collection = "rows"};

Test(cluster, forms)
{
    begin_served();
    ea_clusters r = {0};
    OK(ea_cluster(client, &of_rows, &r));
    cr_assert(r.rows == 4 && r.dimension == 3 && r.count == 2 && r.merges == 6 && r.scans == 7);
    cr_assert(r.labels && r.sizes && r.scores && r.centroids && !r.ids && r.meta && r.memory);
    OK(ea_cluster(client, &of_ids, &r));
    cr_assert(r.rows == 3 && r.dimension == 4 && !r.ids);
    OK(ea_cluster(client, &of_all, &r));
    cr_assert(r.rows == 4 && r.ids);
    ea_clusters_free(&r);
    cr_assert(!r.memory && !r.meta);
    ea_clusters_free(NULL);
    end();
}

static void keep(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    cr_assert(answer->clusters && !answer->result && !answer->covariance);
    *(ea_clusters *)user = *answer->clusters;
    *answer->clusters = (ea_clusters){0};
}

Test(cluster, sent_and_kept)
{
    begin_served();
    ea_clusters r = {0};
    OK(ea_cluster_send(client, &of_rows, &(ea_send_options){.callback = keep, .user = &r}, NULL));
    OK(ea_cluster_send(client, &of_ids, NULL, NULL)); /* nobody keeps it */
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(r.rows == 4 && r.dimension == 3);
    ea_clusters_free(&r);
    end();
}

Test(cluster, refuses_what_it_can_see_is_wrong)
{
    begin_served();
    ea_clusters r = {0};
    cr_assert_eq(ea_cluster(NULL, &of_all, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_cluster_send(NULL, &of_all, NULL, NULL), EA_INVALID_ARGUMENT);
    BAD(ea_cluster(client, NULL, &r));
    BAD(ea_cluster(client, &of_all, NULL));
    BAD(ea_cluster_send(client, NULL, NULL, NULL));
    ea_cluster_question cases[5] = {of_rows, of_rows, of_rows, of_ids, of_rows};
    static const char *const texts[] = {"rows: NULL", "dimension: 0", "ids are of a",
                                        "ids are of a", "dimension: 16385"};
    cases[0].rows = NULL;
    cases[1].dimension = 0;
    cases[2].ids = ids;
    cases[3].rows = values;
    cases[4].dimension = 16385;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BAD(ea_cluster(client, &cases[i], &r));
        cr_assert(strstr(ea_error_text(client), texts[i]), "case %zu: %s", i,
                  ea_error_text(client));
        cr_assert(!r.memory && !r.labels);
    }
    end();
}

/* ---- replies that lie ---- */

static struct client_request request;
static struct note note;
static ea_clusters answer;

static ea_status parse(const engram_accel_v1_ClusterReply *m, bool all, uint64_t body_bytes)
{
    uint8_t message[512];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, engram_accel_v1_ClusterReply_fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_CLUSTER,
                                      .expect = {.rows = all ? 0 : 5, .by_position = all},
                                      .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

Test(cluster, shapes_that_do_not_fit)
{
    const engram_accel_v1_ClusterReply good = {
        .has_labels = true,
        .labels = {(engram_accel_v1_Dtype)3, 5, 1},
        .has_sizes = true,
        .sizes = {(engram_accel_v1_Dtype)3, 2, 1},
        .has_scores = true,
        .scores = {(engram_accel_v1_Dtype)1, 2, 1},
        .has_centroids = true,
        .centroids = {(engram_accel_v1_Dtype)1, 2, 4},
    };
    engram_accel_v1_ClusterReply m[9], none = good;
    for (int i = 0; i < 9; i++)
        m[i] = good;
    m[0].has_labels = false;
    m[1].has_scores = false;
    m[2].labels.rows = 6;
    m[3].sizes.columns = 2;
    m[4].sizes.rows = 6;
    m[5].scores.rows = 1;
    m[6].centroids.rows = 3;
    m[7].centroids.columns = UINT64_MAX / 4;
    m[8].has_ids = true;
    m[8].ids = (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)2, 5, 1};
    cr_assert_eq(parse(&good, false, 256), EA_OK, "%s", note.text);
    cr_assert(answer.rows == 5 && answer.count == 2 && answer.dimension == 4);
    cr_assert_eq(parse(&good, false, 192), EA_DATA_LOSS);
    for (int i = 0; i < 9; i++)
        cr_assert_eq(parse(&m[i], false, i == 8 ? 320 : 256), EA_DATA_LOSS, "case %d", i);
    cr_assert_eq(parse(&m[8], true, 320), EA_OK, "%s", note.text);
    cr_assert_eq(parse(&good, true, 256), EA_DATA_LOSS);
    none.has_sizes = none.has_scores = none.has_centroids = false;
    cr_assert_eq(parse(&none, false, 64), EA_OK, "%s", note.text);
    cr_assert_eq(answer.count, 0);
}

Test(cluster, labels_of_no_cluster)
{
    uint32_t labels[3] = {0, EA_NO_CLUSTER, 1};
    answer = (ea_clusters){.rows = 3, .count = 2, .labels = labels};
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_CLUSTER, .answer = &answer};
    cr_assert_eq(ea_reply_check_clusters(&request, &note), EA_OK);
    labels[2] = 2;
    cr_assert_eq(ea_reply_check_clusters(&request, &note), EA_DATA_LOSS);
}
