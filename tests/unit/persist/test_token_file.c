/* The writes that a snapshot remembers: what is written is read, and what no daemon writes is
 * found. */
#include "daemon/persist/token_file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/persist/load.h"
#include "tests/support/persist_house.h"

enum { HEAD = 32, WEIGHTS = 3 };

static struct token_record record_of(uint64_t token)
{
    struct token_record r = {.space = "one",
                             .token = {token, 7},
                             .digest = {token * 3, 9},
                             .operation = OPERATION_UPSERT,
                             .body_bytes = 640,
                             .result = {.counts = {1, 2}, .rows = 12, .version = token + 100}};
    return r;
}

static void fill(struct token_bytes *t)
{
    static const float weights[WEIGHTS] = {1, -2, 0.5f};
    struct token_record r = record_of(1);
    cr_assert_eq(token_bytes_add(t, &r), STATUS_OK);
    r = record_of(2);
    r.operation = OPERATION_GRAPH_ADD_WEIGHTS;
    r.weights = weights;
    r.weight_count = WEIGHTS;
    cr_assert_eq(token_bytes_add(t, &r), STATUS_OK);
    r = record_of(3);
    cr_assert_eq(token_bytes_add(t, &r), STATUS_OK);
}

Test(token_file, what_is_written_is_read)
{
    struct token_bytes t = {0};
    struct token_record r;
    struct failure f = {0};
    uint64_t at = 0;
    bool more;
    cr_assert_eq(token_bytes_check(&t, &f), STATUS_OK);
    cr_assert(token_bytes_are_ours(&t), "there is none");
    fill(&t);
    for (uint64_t i = 1; i <= 3; i++) {
        struct token_record was = record_of(i);
        cr_assert_eq(token_bytes_next(&t, &at, &r, &more, &f), STATUS_OK, "%s", f.text);
        cr_assert(more);
        cr_assert_str_eq(r.space, "one");
        cr_assert(r.token[0] == i && r.token[1] == 7 && r.digest[0] == 3 * i && r.digest[1] == 9);
        cr_assert_eq(r.body_bytes, 640);
        cr_assert_eq(memcmp(&r.result, &was.result, sizeof r.result), 0);
        cr_assert_eq(r.weight_count, i == 2 ? WEIGHTS : 0);
        cr_assert(i != 2 || (r.weights[0] == 1 && r.weights[1] == -2 && r.weights[2] == 0.5f));
        cr_assert_eq(r.operation, i == 2 ? OPERATION_GRAPH_ADD_WEIGHTS : OPERATION_UPSERT);
    }
    cr_assert_eq(token_bytes_next(&t, &at, &r, &more, &f), STATUS_OK);
    cr_assert_not(more);
    cr_assert(token_bytes_are_ours(&t));
    t.data[8] ^= 1; /* the version of the daemon */
    cr_assert_not(token_bytes_are_ours(&t));
    token_bytes_free(&t);
}

Test(token_file, no_memory_leaves_the_bytes_as_they_were)
{
    struct token_bytes t = {0};
    struct token_record r = record_of(1);
    fault_arm(1);
    cr_assert_eq(token_bytes_add(&t, &r), STATUS_RESOURCE_EXHAUSTED);
    fault_arm(0);
    cr_assert_eq(t.bytes, 0);
    fill(&t);
    token_bytes_free(&t);
}

static void expect_wrong(const struct token_bytes *t, uint64_t at, uint64_t value, const char *why)
{
    struct failure f = {0};
    struct token_bytes other = {malloc(t->bytes), t->bytes, t->bytes};
    memcpy(other.data, t->data, t->bytes);
    memcpy(other.data + at, &value, sizeof value);
    cr_assert_eq(token_bytes_check(&other, &f), STATUS_DATA_LOSS, "%s", why);
    cr_assert_not_null(strstr(f.text, why), "%s: %s", why, f.text);
    free(other.data);
}

Test(token_file, what_no_daemon_writes_is_found)
{
    struct token_bytes t = {0};
    struct failure f = {0};
    enum { SPACE = HEAD, TOKEN = SPACE + 72, OPERATION_AT = TOKEN + 32 };
    fill(&t);
    expect_wrong(&t, 0, 5, "not what a daemon writes");
    expect_wrong(&t, SPACE, UINT64_C(0x2f2e2e), "no space");
    expect_wrong(&t, SPACE, UINT64_MAX, "no space");
    expect_wrong(&t, SPACE + 64, 1, "no space");
    expect_wrong(&t, OPERATION_AT, 0, "no such operation");
    expect_wrong(&t, OPERATION_AT, 9999, "no such operation");
    struct token_bytes cut = t;
    uint64_t at = 0, whole[4] = {0, HEAD}, n = 1;
    struct token_record r;
    bool more = true;
    while (!token_bytes_next(&t, &at, &r, &more, &f) && more)
        whole[n++] = at;
    for (cut.bytes = 1; cut.bytes < t.bytes; cut.bytes++) {
        bool is_whole = false;
        for (uint64_t i = 0; i < n; i++)
            is_whole |= cut.bytes == whole[i] || cut.bytes == HEAD;
        cr_assert_eq(token_bytes_check(&cut, &f), is_whole ? STATUS_OK : STATUS_DATA_LOSS, "%zu",
                     (size_t)cut.bytes);
    }
    uint64_t weights_at = whole[1] - sizeof(uint64_t); /* the first record's number of weights */
    expect_wrong(&t, weights_at, 1, "such an answer has no weights");
    weights_at = whole[2] - sizeof(uint64_t) - 16;
    expect_wrong(&t, weights_at, 1 << 30, "more weights than there are");
    token_bytes_free(&t);
}

/* Whatever happens to the file, a start finds it. */
Test(token_file, a_snapshot_keeps_them_and_finds_what_is_damaged)
{
    char path[64];
    struct persist_house h;
    struct failure f = {0};
    struct token_bytes t = {0};
    uint64_t objects;
    size_t bytes;
    persist_house_folder(path);
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    persist_house_fill(&h, false);
    fill(&t);
    uint64_t wanted = t.bytes;
    persist_set_tokens(p, &t);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    persist_destroy(p);
    persist_house_close(&h);
    cr_assert(persist_house_verify(path, ""));
    persist_house_open(&h, path);
    p = persist_house_start(&h);
    t = persist_take_tokens(p);
    cr_assert_eq(t.bytes, wanted);
    cr_assert_eq(token_bytes_check(&t, &f), STATUS_OK);
    token_bytes_free(&t);
    persist_destroy(p);
    persist_house_close(&h);
    char *data = persist_house_read(path, "snapshot-000000000001/" TOKEN_FILE_NAME, &bytes);
    for (size_t at = 0; at < bytes; at += 97) {
        data[at] ^= 4;
        persist_house_write(path, "snapshot-000000000001/" TOKEN_FILE_NAME, data, bytes);
        cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_DATA_LOSS);
        cr_assert_not_null(strstr(f.text, TOKEN_FILE_NAME), "%s", f.text);
        data[at] ^= 4;
    }
    cr_assert_not(persist_house_verify(path, ""));
    data[40] ^= 4;
    persist_house_write(path, "snapshot-000000000001/" TOKEN_FILE_NAME, data, bytes);
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7, "the objects are whole");
    free(data);
    persist_house_remove(path);
}
