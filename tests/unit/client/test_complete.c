/* ea_complete: what it asks, what becomes of the answer, and replies that lie. */
#include <stdlib.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(complete, .timeout = 60);

static const float values[8] = {1, 2, 3, 4};
static const uint8_t known[8] = {1, 1};

static const ea_complete_question two = {.collection = "rows",
                                         .states = values,
                                         .state_count = 2,
                                         .dimension = 4,
                                         .mask = known,
                                         .mask_rows = 2,
                                         .beta = 8,
                                         .rounds = 3};

Test(complete, completes)
{
    begin_served();
    ea_completed r = {0};
    OK(ea_complete(client, &two, &r));
    cr_assert(r.rows == 2 && r.columns == 4 && r.states[7] == 0.5F && r.meta->version == 7);
    cr_assert(r.rounds && r.converged && r.energies && r.ids && r.cosines);
    ea_complete_question q = two;
    q.mask = NULL, q.mask_rows = 0, q.unit = true;
    OK(ea_complete(client, &q, &r));
    cr_assert_eq(r.rows, 2);
    ea_completed_free(&r);
    cr_assert(!r.memory && !r.meta);
    ea_completed_free(NULL);
    end();
}

static void keep(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    cr_assert(answer->completed && !answer->result && !answer->holographic);
    *(ea_completed *)user = *answer->completed;
    *answer->completed = (ea_completed){0};
}

Test(complete, sent_and_kept)
{
    begin_served();
    ea_completed r[2] = {0};
    for (int i = 0; i < 2; i++)
        OK(ea_complete_send(client, &two, &(ea_send_options){.callback = keep, .user = &r[i]},
                            NULL));
    OK(ea_complete_send(client, &two, NULL, NULL)); /* nobody keeps it */
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(r[0].rows == 2 && r[1].states[0] == 0.5F && r[0].memory != r[1].memory);
    ea_completed_free(&r[0]);
    ea_completed_free(&r[1]);
    end();
}

Test(complete, refuses_what_it_can_see_is_wrong)
{
    begin_served();
    ea_completed r = {0};
    cr_assert_eq(ea_complete(NULL, &two, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_complete_send(NULL, &two, NULL, NULL), EA_INVALID_ARGUMENT);
    BAD(ea_complete(client, NULL, &r));
    BAD(ea_complete(client, &two, NULL));
    BAD(ea_complete_send(client, NULL, NULL, NULL));
    ea_complete_question cases[5] = {two, two, two, two, two};
    static const char *const texts[] = {"collection: no name given", "states: NULL", "dimension: 0",
                                        "mask: NULL", "dimension: 16385"};
    cases[0].collection = NULL;
    cases[1].states = NULL;
    cases[2].dimension = 0;
    cases[3].mask = NULL;
    cases[4].dimension = 16385;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BAD(ea_complete(client, &cases[i], &r));
        cr_assert(strstr(ea_error_text(client), texts[i]), "case %zu: %s", i,
                  ea_error_text(client));
        cr_assert(!r.memory && !r.states);
    }
    end();
}

/* ---- replies that lie ---- */

static struct client_request request;
static struct note note;
static ea_completed answer;

static ea_status parse(const engram_accel_v1_CompleteReply *m, uint64_t body_bytes)
{
    uint8_t message[1024];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, engram_accel_v1_CompleteReply_fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_COMPLETE,
                                      .expect = {.rows = 3, .dimension = 4},
                                      .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

static engram_accel_v1_Tensor column(int dtype)
{
    return (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)dtype, 3, 1};
}

Test(complete, shapes_that_do_not_fit)
{
    const engram_accel_v1_CompleteReply good = {
        .has_states = true,
        .states = {(engram_accel_v1_Dtype)1, 3, 4},
        .has_rounds = true,
        .rounds = column(3),
        .has_converged = true,
        .converged = column(4),
        .has_energies = true,
        .energies = column(1),
        .has_ids = true,
        .ids = column(2),
        .has_cosines = true,
        .cosines = column(1),
    };
    engram_accel_v1_CompleteReply m[9];
    for (int i = 0; i < 9; i++)
        m[i] = good;
    m[0].has_states = false;
    m[1].states.rows = 4;
    m[2].states.columns = 5;
    m[3].has_rounds = false;
    m[4].converged.rows = 2;
    m[5].energies.columns = 2;
    m[6].has_ids = false;
    m[7].cosines.dtype = (engram_accel_v1_Dtype)2;
    m[8].ids.rows = UINT64_MAX / 4;
    cr_assert_eq(parse(&good, 384), EA_OK, "%s", note.text);
    cr_assert_eq(parse(&good, 448), EA_DATA_LOSS);
    for (int i = 0; i < 9; i++)
        cr_assert_eq(parse(&m[i], 384), EA_DATA_LOSS, "case %d", i);
    request =
        (struct client_request){.kind = engram_accel_v1_Kind_KIND_COMPLETE, .answer = &answer};
    static const uint8_t bad[] = {0x0a, 0x7f};
    cr_assert_eq(ea_reply_parse(&request, bad, 2, 0, &note), EA_DATA_LOSS);
    cr_assert_null(request.result.memory);
}
