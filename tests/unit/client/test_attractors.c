/* Attractor calls: what they ask, what becomes of the answers, and replies that lie. */
#include <stdlib.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(attractors, .timeout = 60);

static const uint64_t ids[4] = {10, 20, 30, 40};
static const float values[16] = {1, 2, 3, 4};
static const uint8_t mask[8] = {1, 1, 0, 1, 1, 0, 1, 1};

static const ea_engine_question two_cues = {.attractor = "traces",
                                            .cues = values,
                                            .count = 2,
                                            .dimension = 4,
                                            .mask = mask,
                                            .mask_rows = 2};

Test(attractors, are_made_described_and_listed)
{
    begin_served();
    ea_attractor_info info, *list;
    size_t count;
    const float half = 0.5F;
    OK(ea_attractor_create(client, "traces",
                           &(ea_attractor_shape){.dimension = 4, .sparsity = &half}, &info));
    cr_assert(strcmp(info.name, "traces") == 0 && info.dimension == 4 && info.kept == 2);
    cr_assert(info.sparsity == 0.5F && info.rate == 0.25F && info.patterns == 6);
    cr_assert(info.weight_bytes == 64 && info.dentate_bytes == 640 && info.version == 5);
    OK(ea_attractor_describe(client, "traces", &info));
    OK(ea_attractor_drop(client, "traces"));
    OK(ea_attractor_list(client, &list, &count));
    cr_assert_eq(count, 150);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(atoi(list[i].name + 1), (int)i);
    ea_attractor_list_free(list);
    end();
}

Test(attractors, learn_and_complete)
{
    begin_served();
    ea_learned learned;
    ea_learn_question learn = {.attractor = "traces", .collection = "rows", .ids = ids, .count = 4};
    OK(ea_attractor_learn(client, &learn, &learned));
    cr_assert(learned.learned == 4 && learned.patterns == 6 && learned.version == 7);
    cr_assert_eq(learned.collection_version, 5);
    ea_result w = {0};
    OK(ea_attractor_fetch(client, "traces", &w));
    cr_assert(w.rows == 4 && w.columns == 4 && w.vectors);
    ea_result_free(&w);
    OK(ea_attractor_set(client, "traces", values, 4, &learned));
    ea_engine_completed r = {0};
    ea_engine_question q = two_cues;
    OK(ea_complete_engine(client, &q, &r));
    cr_assert(r.rows == 2 && r.columns == 4 && r.states && r.rounds && !r.ids && !r.passes);
    q.collection = "rows";
    OK(ea_complete_engine(client, &q, &r));
    cr_assert(r.ids && r.cosines && r.passes && r.attractor_version == 7);
    cr_assert_eq(r.collection_version, 5);
    ea_engine_completed_free(&r);
    cr_assert(!r.memory && !r.states);
    ea_engine_completed_free(NULL);
    end();
}

Test(attractors, refuse_what_they_can_see_is_wrong)
{
    begin_served();
    ea_engine_completed r = {0};
    ea_result w = {0};
    ea_learned learned;
    BAD(ea_complete_engine(NULL, &two_cues, &r));
    BAD(ea_complete_engine(client, NULL, &r));
    BAD(ea_complete_engine(client, &two_cues, NULL));
    BAD(ea_attractor_fetch(client, NULL, &w));
    BAD(ea_attractor_fetch(client, "traces", NULL));
    BAD(ea_attractor_create(client, "traces", NULL, NULL));
    BAD(ea_attractor_create(client, NULL, &(ea_attractor_shape){.dimension = 3}, NULL));
    BAD(ea_attractor_learn(client, NULL, &learned));
    BAD(ea_attractor_list(client, NULL, NULL));
    BAD(ea_attractor_set(client, "traces", NULL, 4, &learned));
    BAD(ea_attractor_set(client, "traces", values, 0, &learned));
    const ea_learn_question both = {.attractor = "traces",
                                    .rows = values,
                                    .collection = "rows",
                                    .ids = ids,
                                    .count = 1,
                                    .dimension = 4},
                            nameless = {.attractor = "traces", .ids = ids, .count = 1},
                            null = {.attractor = "traces", .count = 2, .dimension = 4};
    BAD(ea_attractor_learn(client, &both, &learned));
    BAD(ea_attractor_learn(client, &nameless, &learned));
    BAD(ea_attractor_learn(client, &null, &learned));
    ea_engine_question q = two_cues;
    q.cues = NULL;
    BAD(ea_complete_engine(client, &q, &r));
    q = two_cues;
    q.mask_rows = 3;
    uint8_t longer[12] = {0};
    q.mask = longer;
    BAD(ea_complete_engine(client, &q, &r));
    cr_assert_eq(ea_error_detail(client), EA_DETAIL_BAD_MASK, "%s", ea_error_text(client));
    OK(ea_complete_engine(client, &two_cues, &r));
    ea_engine_completed_free(&r);
    end();
}

/* ---- repeating ---- */

static void lose_first(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    if (atomic_load(&d->connections) > 1) {
        fake_serve(d, fd);
        return;
    }
    if (fake_hello(d, fd)) fake_read(fd, &r);
}

/* A learning whose reply was lost may have been done; with a token it is known again. */
Test(attractors, a_learning_is_repeated_with_a_token_alone)
{
    const ea_write token = {.token = {1}};
    for (int known = 0; known < 2; known++) {
        ea_learned learned;
        begin(lose_first);
        OK(ea_connect(client));
        const ea_learn_question q = {.attractor = "traces",
                                     .rows = values,
                                     .count = 1,
                                     .dimension = 4,
                                     .write = known ? &token : NULL};
        cr_assert_eq(ea_attractor_learn(client, &q, &learned), known ? EA_OK : EA_UNAVAILABLE);
        end();
    }
}

/* ---- replies that lie ---- */

static struct client_request request;
static struct note note;
static ea_engine_completed answer;

static ea_status parse(uint8_t kind, struct expectation e, const pb_msgdesc_t *fields,
                       const void *m, uint64_t body_bytes)
{
    uint8_t message[1024];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){.kind = kind, .expect = e, .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

static engram_accel_v1_Tensor shaped_as(int dtype, uint64_t rows, uint64_t columns)
{
    return (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)dtype, rows, columns};
}

/* Of two cues of four numbers, compared with stored rows. */
static engram_accel_v1_CompleteEngineReply sound(void)
{
    return (engram_accel_v1_CompleteEngineReply){
        .has_states = true,
        .has_confidences = true,
        .has_rounds = true,
        .has_converged = true,
        .has_ids = true,
        .has_cosines = true,
        .has_passes = true,
        .states = shaped_as(1, 2, 4),
        .confidences = shaped_as(1, 2, 1),
        .rounds = shaped_as(3, 2, 1),
        .converged = shaped_as(4, 2, 1),
        .ids = shaped_as(2, 2, 1),
        .cosines = shaped_as(1, 2, 1),
        .passes = shaped_as(4, 2, 1),
    };
}

static ea_status parse_completed(bool stored, const engram_accel_v1_CompleteEngineReply *m,
                                 uint64_t body_bytes)
{
    return parse(engram_accel_v1_Kind_KIND_COMPLETE_ENGINE,
                 (struct expectation){.rows = 2, .dimension = 4, .stored = stored},
                 engram_accel_v1_CompleteEngineReply_fields, m, body_bytes);
}

Test(attractors, replies_must_have_the_shape_that_was_asked_for)
{
    engram_accel_v1_CompleteEngineReply m = sound();
    cr_assert_eq(parse_completed(true, &m, 7 * 64), EA_OK, "%s", note.text);
    cr_assert_eq(parse_completed(true, &m, 8 * 64), EA_DATA_LOSS);
    cr_assert_eq(parse_completed(false, &m, 7 * 64), EA_DATA_LOSS, "nothing was named");
    bool *const present[] = {&m.has_states, &m.has_confidences, &m.has_rounds, &m.has_converged,
                             &m.has_ids,    &m.has_cosines,     &m.has_passes};
    engram_accel_v1_Tensor *const tensors[] = {&m.states, &m.confidences, &m.rounds, &m.converged,
                                               &m.ids,    &m.cosines,     &m.passes};
    for (int i = 0; i < 7; i++) {
        m = sound();
        *present[i] = false;
        cr_assert_eq(parse_completed(true, &m, 6 * 64), EA_DATA_LOSS, "without tensor %d", i);
        m = sound();
        tensors[i]->rows = 3;
        cr_assert_eq(parse_completed(true, &m, 7 * 64), EA_DATA_LOSS, "rows of tensor %d", i);
        m = sound();
        tensors[i]->columns = 2;
        cr_assert_eq(parse_completed(true, &m, 7 * 64), EA_DATA_LOSS, "columns of tensor %d", i);
        m = sound();
        tensors[i]->dtype = (engram_accel_v1_Dtype)(tensors[i]->dtype == 1 ? 3 : 1);
        cr_assert_eq(parse_completed(true, &m, 7 * 64), EA_DATA_LOSS, "dtype of tensor %d", i);
    }
    ea_result_free(&request.result);
}

Test(attractors, weights_must_be_square)
{
    static const struct {
        uint64_t rows, columns, body_bytes;
        ea_status expected;
    } cases[] = {{4, 4, 64, EA_OK},
                 {4, 5, 128, EA_DATA_LOSS},
                 {0, 0, 0, EA_DATA_LOSS},
                 {2049, 2049, 0, EA_DATA_LOSS},
                 {4, 4, 0, EA_DATA_LOSS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engram_accel_v1_AttractorFetchReply m = {
            .has_weights = true, .weights = shaped_as(1, cases[i].rows, cases[i].columns)};
        cr_assert_eq(parse(engram_accel_v1_Kind_KIND_ATTRACTOR_FETCH, (struct expectation){0},
                           engram_accel_v1_AttractorFetchReply_fields, &m, cases[i].body_bytes),
                     cases[i].expected, "case %zu", i);
    }
    engram_accel_v1_AttractorDescribeReply nothing = {0};
    cr_assert_eq(parse(engram_accel_v1_Kind_KIND_ATTRACTOR_DESCRIBE, (struct expectation){0},
                       engram_accel_v1_AttractorDescribeReply_fields, &nothing, 0),
                 EA_DATA_LOSS);
    ea_result_free(&request.result);
}
