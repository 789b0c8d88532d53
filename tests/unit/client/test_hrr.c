/* Holographic calls: what they ask, what becomes of the answers, and replies that lie. */
#include <stdlib.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(hrr, .timeout = 60);

static const uint64_t ids[4] = {10, 20, 30, 40};
static const float values[16] = {1, 2, 3, 4};

static const ea_operand four = {.rows = values, .count = 4}, one = {.rows = values, .count = 1},
                        stored = {.collection = "roles", .ids = ids, .count = 4};
static const ea_into kept = {.collection = "bound", .ids = ids};

static const ea_bind_question inline_pairs = {.a = &four, .b = &four, .dimension = 4};

Test(hrr, binds)
{
    begin_served();
    ea_hrr_result r = {0};
    OK(ea_bind(client, &inline_pairs, &r));
    cr_assert(r.rows == 4 && r.columns == 4 && r.vectors[15] == 0.5F && r.meta->version == 7);
    cr_assert(!r.into_rows && !r.a_version && !r.b_version);
    ea_bind_question q = {.a = &one, .b = &stored, .dimension = 4, .normalize = true};
    OK(ea_bind(client, &q, &r));
    cr_assert(r.rows == 4 && r.columns == 4 && r.b_version == 6);
    q = (ea_bind_question){.a = &stored, .b = &stored};
    OK(ea_bind(client, &q, &r)); /* the answer has the collections' dimension */
    cr_assert(r.rows == 4 && r.columns == 4 && r.a_version == 5 && r.b_version == 6);
    q.into = &kept;
    OK(ea_bind(client, &q, &r));
    cr_assert(!r.vectors && !r.rows && r.inserted == 3 && r.replaced == 1 && r.into_rows == 9);
    cr_assert(r.into_version == 7 && r.meta->version == 7);
    ea_hrr_result_free(&r);
    cr_assert(!r.memory && !r.meta);
    ea_hrr_result_free(NULL);
    end();
}

Test(hrr, lists_and_rows)
{
    begin_served();
    static const uint64_t offsets[3] = {0, 1, 4};
    static const float weights[4] = {1, -1, 2, 0};
    ea_hrr_result r = {0};
    ea_bind_question pairs = {.a = &four, .b = &one, .dimension = 4, .exact = true};
    OK(ea_unbind(client, &pairs, &r));
    cr_assert(r.rows == 4 && r.columns == 4);
    ea_list_question lists = {.a = &four, .dimension = 4, .offsets = offsets, .lists = 2};
    OK(ea_bind_many(client, &lists, &r));
    cr_assert(r.rows == 2 && r.columns == 4);
    lists.weights = weights;
    OK(ea_superpose(client, &lists, &r));
    cr_assert_eq(r.rows, 2);
    lists = (ea_list_question){.a = &stored, .into = &kept, .normalize = true};
    OK(ea_superpose(client, &lists, &r));
    cr_assert(r.a_version == 5 && r.into_version == 7 && !r.vectors);
    OK(ea_permute(client, &(ea_permute_question){.a = &stored, .shift = -3}, &r));
    cr_assert(r.rows == 4 && r.a_version == 5);
    const ea_random_question random = {.seed = 9, .first = 3, .count = 5, .dimension = 4};
    OK(ea_random(client, &random, &r));
    cr_assert(r.rows == 5 && r.columns == 4 && !r.a_version);
    ea_hrr_result_free(&r);
    end();
}

Test(hrr, cleans_up)
{
    begin_served();
    static const float least = 0.25F;
    ea_result r = {0};
    ea_cleanup_question q = {
        .a = &one, .b = &stored, .dimension = 4, .codebook = "words", .k = 2, .threshold = &least};
    OK(ea_cleanup(client, &q, &r));
    cr_assert(r.rows == 4 && r.columns == 2 && r.ids[1] == 1 && r.scores[7] == 0.5F);
    cr_assert(r.counts[3] == 1 && r.meta->version == 7);
    cr_assert(!r.a_version && r.b_version == 6, "of the one that was named");
    q.exact = true;
    q.a = &stored;
    OK(ea_cleanup(client, &q, &r));
    cr_assert(r.a_version == 5 && r.b_version == 6);
    const ea_knn_question knn = {
        .collection = "words", .queries = one.rows, .query_count = 1, .dimension = 4, .k = 1};
    OK(ea_knn(client, &knn, &r));
    cr_assert(!r.a_version && !r.b_version, "nothing is left of another answer");
    ea_result_free(&r);
    q.k = 0;
    BAD(ea_cleanup(client, &q, &r));
    q.codebook = NULL;
    BAD(ea_cleanup(client, &q, &r));
    q.a = NULL;
    BAD(ea_cleanup(client, &q, &r));
    BAD(ea_cleanup(client, NULL, &r));
    BAD(ea_cleanup(client, &q, NULL));
    cr_assert_eq(ea_cleanup(NULL, &q, &r), EA_INVALID_ARGUMENT);
    end();
}

static void keep(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    cr_assert(answer->holographic && !answer->result && !answer->upserted);
    *(ea_hrr_result *)user = *answer->holographic;
    *answer->holographic = (ea_hrr_result){0};
}

Test(hrr, sent_and_kept)
{
    begin_served();
    ea_hrr_result r[3] = {0};
    const ea_bind_question into = {.a = &one, .b = &four, .dimension = 4, .into = &kept};
    for (int i = 0; i < 3; i++)
        OK(ea_bind_send(client, i == 1 ? &into : &inline_pairs,
                        &(ea_send_options){.callback = keep, .user = &r[i]}, NULL));
    OK(ea_bind_send(client, &inline_pairs, NULL, NULL)); /* nobody keeps it */
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(r[0].rows == 4 && r[2].vectors[0] == 0.5F && r[0].memory != r[2].memory);
    cr_assert(!r[1].vectors && r[1].into_rows == 9);
    for (int i = 0; i < 3; i++)
        ea_hrr_result_free(&r[i]);
    end();
}

Test(hrr, refuses_what_it_can_see_is_wrong)
{
    begin_served();
    ea_hrr_result r = {0};
    cr_assert_eq(ea_bind(NULL, &inline_pairs, &r), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_bind_send(NULL, &inline_pairs, NULL, NULL), EA_INVALID_ARGUMENT);
    BAD(ea_bind(client, NULL, &r));
    BAD(ea_bind(client, &inline_pairs, NULL));
    BAD(ea_bind_send(client, NULL, NULL, NULL));
    const ea_operand both = {.rows = values, .collection = "roles", .count = 1},
                     nameless = {.ids = ids, .count = 4}, null = {.count = 2},
                     none = {.rows = values}, endless = {.rows = values, .count = UINT64_MAX / 8},
                     long_name = {.collection =
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                  .ids = ids,
                                  .count = 4};
    const ea_into unnamed = {.ids = ids}, without_ids = {.collection = "bound"};
    const struct {
        ea_bind_question question;
        const char *text;
    } cases[] = {
        {{.b = &four, .dimension = 4}, "a: NULL"},
        {{.a = &four, .dimension = 4}, "b: NULL"},
        {{.a = &both, .b = &four, .dimension = 4}, "a: ids are of a collection"},
        {{.a = &four, .b = &nameless, .dimension = 4}, "b: ids are of a collection"},
        {{.a = &four, .b = &null, .dimension = 4}, "b: NULL for 2 rows"},
        {{.a = &none, .b = &four, .dimension = 4}, "a: no rows"},
        {{.a = &endless, .b = &one, .dimension = 4}, "a: "},
        {{.a = &long_name, .b = &four, .dimension = 4}, "a: a name has at most 64 bytes"},
        {{.a = &four, .b = &stored}, "dimension: 0"},
        {{.a = &four, .b = &four, .dimension = 16385}, "dimension: 16385"},
        {{.a = &four, .b = &four, .dimension = 4, .into = &unnamed}, "into: no name given"},
        {{.a = &four, .b = &four, .dimension = 4, .into = &without_ids}, "into_ids: NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        BAD(ea_bind(client, &cases[i].question, &r));
        cr_assert(strstr(ea_error_text(client), cases[i].text), "case %zu: %s", i,
                  ea_error_text(client));
        cr_assert(!r.memory && !r.vectors);
    }
    ea_bind_question exact = inline_pairs;
    exact.exact = true;
    BAD(ea_bind(client, &exact, &r));
    BAD(ea_unbind(client, NULL, &r));
    BAD(ea_superpose(client, NULL, &r));
    BAD(ea_permute(client, NULL, &r));
    BAD(ea_random(client, NULL, &r));
    BAD(ea_random(client, &(ea_random_question){.count = 3}, &r));
    BAD(ea_random(client, &(ea_random_question){.dimension = 3}, &r));
    BAD(ea_permute(client, &(ea_permute_question){.dimension = 3}, &r));
    const uint64_t offsets[2] = {0, 4}, falling[3] = {0, 4, 2};
    const ea_list_question lists[] = {
        {.dimension = 4},
        {.a = &four, .dimension = 4, .lists = 2},
        {.a = &four, .dimension = 4, .offsets = offsets},
        {.a = &four, .dimension = 4, .offsets = offsets, .lists = UINT64_MAX},
        {.a = &four, .dimension = 4, .offsets = falling, .lists = 2},
        {.a = &four, .dimension = 4, .offsets = falling + 1, .lists = 1},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        BAD(ea_superpose(client, &lists[i], &r));
        BAD(ea_bind_many(client, &lists[i], &r));
    }
    BAD(ea_bind_many(client, &(ea_list_question){.a = &four, .dimension = 4, .weights = values},
                     &r));
    OK(ea_bind(client, &inline_pairs, &r));
    ea_hrr_result_free(&r);
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

Test(hrr, what_is_repeated_and_what_is_not)
{
    const ea_write token = {.token = {1}};
    const ea_into onto = {.collection = "roles", .ids = ids},
                  once = {.collection = "roles", .ids = ids, .write = &token};
    const struct {
        ea_bind_question question;
        bool repeated;
    } cases[] = {
        {inline_pairs, true},
        {{.a = &stored, .b = &stored, .into = &kept}, true},
        {{.a = &stored, .b = &one, .dimension = 4, .into = &onto}, false},
        {{.a = &one, .b = &stored, .dimension = 4, .into = &onto}, false},
        {{.a = &stored, .b = &stored, .into = &once}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(lose_first);
        OK(ea_connect(client));
        ea_hrr_result r = {0};
        ea_status st = ea_bind(client, &cases[i].question, &r);
        cr_assert_eq(st, cases[i].repeated ? EA_OK : EA_UNAVAILABLE, "case %zu: %s", i,
                     ea_error_text(client));
        ea_hrr_result_free(&r);
        end();
    }
}

/* ---- replies that lie ---- */

static struct client_request request;
static struct note note;
static ea_hrr_result answer;

static ea_status parse(struct expectation e, const engram_accel_v1_HolographicReply *m,
                       uint64_t body_bytes)
{
    uint8_t message[1024];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, engram_accel_v1_HolographicReply_fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){
        .kind = engram_accel_v1_Kind_KIND_BIND, .expect = e, .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

static engram_accel_v1_HolographicReply reply(int dtype, uint64_t rows, uint64_t columns)
{
    return (engram_accel_v1_HolographicReply){
        .has_rows = true, .rows = {(engram_accel_v1_Dtype)dtype, rows, columns}};
}

Test(hrr, shapes_that_do_not_fit)
{
    const struct expectation three = {.rows = 3, .dimension = 4}, any = {.rows = 3},
                             into = {.rows = 3, .dimension = 4, .stored = true};
    const struct {
        struct expectation expect;
        engram_accel_v1_HolographicReply reply;
        uint64_t body_bytes;
        ea_status want;
    } cases[] = {
        {three, reply(1, 3, 4), 64, EA_OK},
        {any, reply(1, 3, 4), 64, EA_OK},
        {into, {0}, 0, EA_OK},
        {three, reply(1, 4, 4), 64, EA_DATA_LOSS},
        {three, reply(1, 3, 5), 64, EA_DATA_LOSS},
        {three, reply(2, 3, 4), 128, EA_DATA_LOSS},
        {three, reply(1, 3, 4), 128, EA_DATA_LOSS},
        {three, {0}, 0, EA_DATA_LOSS},
        {any, reply(1, 2, 4), 64, EA_DATA_LOSS},
        {any, reply(1, 3, 0), 0, EA_DATA_LOSS},
        {any, reply(1, 3, 16385), 196672, EA_DATA_LOSS},
        {any, reply(1, 3, UINT64_MAX / 2), 64, EA_DATA_LOSS},
        {into, reply(1, 3, 4), 64, EA_DATA_LOSS},
        {into, {0}, 64, EA_DATA_LOSS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(parse(cases[i].expect, &cases[i].reply, cases[i].body_bytes), cases[i].want,
                     "case %zu: %s", i, note.text);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_BIND, .answer = &answer};
    static const uint8_t bad[] = {0x0a, 0x7f};
    cr_assert_eq(ea_reply_parse(&request, bad, 2, 0, &note), EA_DATA_LOSS);
    cr_assert_null(request.result.memory);
}
