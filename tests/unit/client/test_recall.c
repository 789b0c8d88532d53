/* Replies to recalls that lie: in their shapes, and in their offsets and paths. */
#include <string.h>

#include <pb_encode.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(recall, .timeout = 60);

static struct client_request request;
static struct note note;
static ea_recall_result answer;

enum { LISTS = 2, ENTRIES = 3, STEPS = 4 };

static ea_status parse(const engram_accel_v1_RecallReply *m, uint64_t body_bytes, bool paths)
{
    uint8_t message[1024];
    pb_ostream_t stream = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&stream, engram_accel_v1_RecallReply_fields, m));
    ea_result_free(&request.result);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_RECALL,
                                      .expect = {.queries = LISTS, .paths = paths},
                                      .answer = &answer};
    return ea_reply_parse(&request, message, (uint32_t)stream.bytes_written, body_bytes, &note);
}

static engram_accel_v1_Tensor tensor(int dtype, uint64_t rows, uint32_t columns)
{
    return (engram_accel_v1_Tensor){(engram_accel_v1_Dtype)dtype, rows, columns};
}

static engram_accel_v1_RecallReply good_reply(void)
{
    return (engram_accel_v1_RecallReply){
        .has_offsets = true,
        .offsets = tensor(2, LISTS + 1, 1),
        .has_ids = true,
        .ids = tensor(2, ENTRIES, 1),
        .has_activations = true,
        .activations = tensor(1, ENTRIES, 1),
        .has_scores = true,
        .scores = tensor(1, ENTRIES, 1),
        .has_marks = true,
        .marks = tensor(4, ENTRIES, 1),
        .has_depths = true,
        .depths = tensor(3, ENTRIES, 1),
        .has_seeds = true,
        .seeds = tensor(3, LISTS, 2),
        .has_hops = true,
        .hops = tensor(3, LISTS, 1),
        .has_touched = true,
        .touched = tensor(2, LISTS, 1),
        .has_truncated = true,
        .truncated = tensor(4, LISTS, 1),
        .has_path_offsets = true,
        .path_offsets = tensor(2, ENTRIES + 1, 1),
        .has_path_ids = true,
        .path_ids = tensor(2, STEPS, 1),
    };
}

Test(recall, shapes_that_do_not_fit)
{
    const engram_accel_v1_RecallReply good = good_reply();
    cr_assert_eq(parse(&good, 12 * 64, true), EA_OK, "%s", note.text);
    cr_assert(answer.lists == LISTS && answer.count == ENTRIES && answer.path_ids);
    cr_assert_eq(parse(&good, 13 * 64, true), EA_DATA_LOSS);
    cr_assert_eq(parse(&good, 12 * 64, false), EA_DATA_LOSS, "nobody asked for paths");
    engram_accel_v1_RecallReply m[7];
    for (int i = 0; i < 7; i++)
        m[i] = good;
    m[0].has_offsets = false;
    m[1].offsets.rows = LISTS;
    m[2].seeds.columns = 1;
    m[3].scores.dtype = (engram_accel_v1_Dtype)2;
    m[4].marks.rows = ENTRIES + 1;
    m[5].path_offsets.rows = ENTRIES;
    m[6].ids.rows = UINT64_MAX / 4;
    for (int i = 0; i < 7; i++)
        cr_assert_eq(parse(&m[i], 12 * 64, true), EA_DATA_LOSS, "case %d", i);
    ea_result_free(&request.result);
    request = (struct client_request){.kind = engram_accel_v1_Kind_KIND_RECALL, .answer = &answer};
    static const uint8_t bad[] = {0x0a, 0x7f};
    cr_assert_eq(ea_reply_parse(&request, bad, 2, 0, &note), EA_DATA_LOSS);
    cr_assert_null(request.result.memory);
}

Test(recall, offsets_and_paths_that_do_not_fit)
{
    static const struct {
        uint64_t offsets[LISTS + 1], path_offsets[ENTRIES + 1], last;
        const char *wrong; /* NULL: nothing is */
    } cases[] = {
        {{0, 1, 3}, {0, 1, 2, 4}, 9, NULL},
        {{0, 2, 1}, {0, 1, 2, 4}, 9, "offsets do not rise"},
        {{1, 2, 3}, {0, 1, 2, 4}, 9, "offsets do not rise"},
        {{0, 1, 2}, {0, 1, 2, 4}, 9, "offsets do not rise"},
        {{0, 0, 3}, {0, 1, 2, 4}, 9, "offsets do not rise"}, /* more than were asked for */
        {{0, 1, 3}, {0, 1, 1, 4}, 9, "path_offsets do not rise"},
        {{0, 1, 3}, {0, 1, 2, 3}, 9, "path_offsets do not rise"},
        {{0, 1, 3}, {0, 1, 2, 4}, 8, "a path that ends at another node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t ids[ENTRIES] = {5, 6, 9}, path_ids[STEPS] = {5, 6, 5, cases[i].last};
        answer = (ea_recall_result){.lists = LISTS,
                                    .count = ENTRIES,
                                    .offsets = cases[i].offsets,
                                    .ids = ids,
                                    .path_offsets = cases[i].path_offsets,
                                    .path_ids = path_ids};
        request =
            (struct client_request){.expect = {.columns_max = 2, .paths = true}, .answer = &answer};
        request.result.columns = STEPS;
        ea_status st = ea_reply_check_recall(&request, &note);
        cr_assert_eq(st, cases[i].wrong ? EA_DATA_LOSS : EA_OK, "case %zu", i);
        cr_assert(!cases[i].wrong || strstr(note.text, cases[i].wrong), "case %zu: %s", i,
                  note.text);
    }
}
