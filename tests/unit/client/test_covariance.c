/* ea_covariance: what it asks, what becomes of the answer, and replies that lie. */
#include <stdlib.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(covariance, .timeout = 60);

static const float values[12] = {1, 2, 3, 4};
static const uint64_t ids[3] = {5, 6, 7};

static const ea_covariance_question of_rows = {.rows = values, .count = 4, .dimension = 3};
static const ea_covariance_question of_ids = {
    .collection = "rows", .ids = ids, .weights = values, .count = 3};
static const ea_covariance_question of_all = {.collection = "rows"};

Test(covariance, forms)
{
    begin_served();
    ea_covariance_result r = {0};
    OK(ea_covariance(client, &of_rows, &r));
    cr_assert(r.rows == 4 && r.dimension == 3 && r.total == 5 && r.divisor == 4);
    cr_assert(r.mean && r.covariance && r.meta && r.memory);
    OK(ea_covariance(client, &of_ids, &r));
    cr_assert(r.rows == 3 && r.dimension == 4);
    OK(ea_covariance(client, &of_all, &r));
    cr_assert_eq(r.dimension, 4);
    ea_covariance_question weighed = of_all;
    weighed.weights = values, weighed.count = 2;
    OK(ea_covariance(client, &weighed, &r));
    ea_covariance_result_free(&r);
    cr_assert(!r.memory && !r.meta);
    ea_covariance_result_free(NULL);
    end();
}

static void keep(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    cr_assert(answer->covariance && !answer->result && !answer->completed);
    *(ea_covariance_result *)user = *answer->covariance;
    *answer->covariance = (ea_covariance_result){0};
}

Test(covariance, sent_and_kept)
{
    begin_served();
    ea_covariance_result r = {0};
    OK(ea_covariance_send(client, &of_rows, &(ea_send_options){.callback = keep, .user = &r},
                          NULL));
    OK(ea_covariance_send(client, &of_ids, NULL, NULL)); /* nobody keeps it */
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(r.rows == 4 && r.dimension == 3);
    ea_covariance_result_free(&r);
    end();
}

Test(covariance, refuses_what_it_can_see_is_wrong)
{
    begin_served();
    ea_covariance_result r = {0};
    cr_assert_eq(ea_covariance(NULL, &of_all, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_covariance_send(NULL, &of_all, NULL, NULL), EA_INVALID_ARGUMENT);
    BAD(ea_covariance(client, NULL, &r));
    BAD(ea_covariance(client, &of_all, NULL));
    BAD(ea_covariance_send(client, NULL, NULL, NULL));
    ea_covariance_question cases[6] = {of_rows, of_rows, of_rows, of_ids, of_all, of_rows};
    static const char *const texts[] = {"rows: NULL",   "dimension: 0",      "ids are of a",
                                        "ids are of a", "number of weights", "dimension: 16385"};
    cases[0].rows = NULL;
    cases[1].dimension = 0;
    cases[2].ids = ids;
    cases[3].rows = values;
    cases[4].count = 3;
    cases[5].dimension = 16385;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BAD(ea_covariance(client, &cases[i], &r));
        cr_assert(strstr(ea_error_text(client), texts[i]), "case %zu: %s", i,
                  ea_error_text(client));
        cr_assert(!r.memory && !r.mean);
    }
    end();
}

/* ---- replies that lie ---- */

static struct client_request request;
static struct note note;
static ea_covariance_result answer;

static ea_status parse(const engram_accel_v1_CovarianceReply *m, uint32_t dimension,
                       uint64_t body_bytes)
{
    uint8_t message[512];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, engram_accel_v1_CovarianceReply_fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_COVARIANCE,
                                      .expect = {.dimension = dimension},
                                      .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

Test(covariance, shapes_that_do_not_fit)
{
    const engram_accel_v1_CovarianceReply good = {
        .rows = 9,
        .has_mean = true,
        .mean = {(engram_accel_v1_Dtype)5, 1, 4},
        .has_covariance = true,
        .covariance = {(engram_accel_v1_Dtype)5, 4, 4},
    };
    engram_accel_v1_CovarianceReply m[8];
    for (int i = 0; i < 8; i++)
        m[i] = good;
    m[0].has_mean = false;
    m[1].has_covariance = false;
    m[2].mean.rows = 2;
    m[3].mean.columns = 0;
    m[4].mean.columns = 5;
    m[5].covariance.columns = 3;
    m[6].covariance.dtype = (engram_accel_v1_Dtype)1;
    m[7].covariance.rows = UINT64_MAX / 4;
    for (uint32_t d = 0; d <= 4; d += 4) {
        cr_assert_eq(parse(&good, d, 192), EA_OK, "%s", note.text);
        cr_assert(answer.dimension == 4 && answer.rows == 9);
        cr_assert_eq(parse(&good, d, 256), EA_DATA_LOSS);
        for (int i = 0; i < 8; i++)
            cr_assert_eq(parse(&m[i], d, 192), EA_DATA_LOSS, "case %d", i);
    }
    cr_assert_eq(parse(&good, 3, 192), EA_DATA_LOSS);
    request =
        (struct client_request){.kind = engram_accel_v1_Kind_KIND_COVARIANCE, .answer = &answer};
    static const uint8_t bad[] = {0x0a, 0x7f};
    cr_assert_eq(ea_reply_parse(&request, bad, 2, 0, &note), EA_DATA_LOSS);
    cr_assert_null(request.result.memory);
}
