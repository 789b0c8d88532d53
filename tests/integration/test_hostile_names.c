/* Names and introductions: spaces, collections, Hello, request ids. */
#include <criterion/criterion.h>
#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/scene.h"

/* A Hello with any bytes as its space. */
static void send_hello(int fd, uint64_t request_id, const void *space, size_t space_bytes)
{
    uint8_t message[600] = {1 << 3, 1, 2 << 3, 1}; /* versions 1 to 1 */
    size_t count = 4;
    message[count++] = 4 << 3 | 2;
    if (space_bytes > 127) message[count++] = (uint8_t)(space_bytes | 128);
    message[count++] = (uint8_t)(space_bytes > 127 ? space_bytes >> 7 : space_bytes);
    memcpy(message + count, space, space_bytes);
    count += space_bytes;
    cr_assert(raw_send_frame(fd, OPERATION_HELLO, request_id, message, (uint32_t)count, NULL, 0));
}

Test(hostile_names, spaces_out_of_rules)
{
    struct scene s;
    scene_open(&s, NULL);
    static const struct {
        const char *text;
        size_t bytes;
    } bad[] = {
        {"ab", 2},           {"a b", 3},     {"Upper", 5},  {"dot.dot", 7},
        {"../../etc", 9},    {"tab\tx", 5},  {"nul\0x", 5}, {"\xc3\xa9t\xc3\xa9", 5},
        {"\xff\xfe\xfd", 3}, {"a\nb\nc", 5}, {"%s%s%n", 6}, {"  ab  ", 6},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int fd = raw_connect(&s.daemon);
        send_hello(fd, 1, bad[i].text, bad[i].bytes);
        expect_error(fd, 1, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE, "space");
        expect_closed(fd);
        close(fd);
    }
    char longer[400];
    memset(longer, 'a', sizeof longer);
    static const size_t lengths[] = {65, 128, 129, 300};
    for (size_t i = 0; i < 4; i++) {
        int fd = raw_connect(&s.daemon);
        send_hello(fd, 2, longer, lengths[i]);
        expect_error(fd, 2, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE, "space");
        close(fd);
    }
    static const char *const good[] = {"", "abc", " abc ", "\tabc", "a-b_c-0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int fd = raw_connect(&s.daemon);
        send_hello(fd, 3, good[i], strlen(good[i]));
        expect_reply(fd, 3);
        close(fd);
    }
    int fd = raw_connect(&s.daemon);
    send_hello(fd, 4, longer, 64);
    expect_reply(fd, 4);
    close(fd);
    scene_close(&s);
}

Test(hostile_names, collections_out_of_rules)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    static const char *const bad[] = {"", "a b", "a/b", "..//", "\xc3\xa9", "a\n", "a%"};
    struct sample sample;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static const char *const kinds[] = {"create", "drop", "describe"};
        for (int k = 0; k < 3; k++) {
            sample_find(kinds[k], &sample);
            char *name = k == 0   ? sample.message.create.name
                         : k == 1 ? sample.message.drop.name
                                  : sample.message.describe.name;
            strcpy(name, bad[i]);
            send_sample(fd, &sample, 10);
            expect_error(fd, 10, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME, "name");
        }
    }
    sample_find("create", &sample);
    memset(sample.message.create.name, 'n', 65);
    send_sample(fd, &sample, 11);
    expect_error(fd, 11, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME, "name");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_names, unknown_collection)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    static const char *const names[] = {"drop", "describe",   "upsert", "delete",     "fetch",
                                        "knn",  "similarity", "score",  "average_ids"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sample sample;
        sample_find(names[i], &sample);
        send_sample(fd, &sample, 20 + i);
        expect_error(fd, 20 + i, STATUS_NOT_FOUND, DETAIL_UNKNOWN_COLLECTION, "rows");
    }
    struct sample sample; /* the witness's collection is not ours */
    sample_find("describe", &sample);
    strcpy(sample.message.describe.name, "facts");
    send_sample(fd, &sample, 40);
    expect_error(fd, 40, STATUS_NOT_FOUND, DETAIL_UNKNOWN_COLLECTION, "facts");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_names, a_collection_twice)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    struct sample sample;
    sample_find("create", &sample);
    send_sample(fd, &sample, 1);
    expect_error(fd, 1, STATUS_ALREADY_EXISTS, DETAIL_COLLECTION_EXISTS, "rows");
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- Hello */

Test(hostile_names, no_hello_first)
{
    struct scene s;
    scene_open(&s, NULL);
    for (size_t i = 0; i < sample_count(); i++) {
        struct sample sample;
        sample_get(i, &sample);
        if (sample.kind == OPERATION_HELLO) continue;
        int fd = raw_connect(&s.daemon);
        send_sample(fd, &sample, 5);
        expect_error(fd, 5, STATUS_FAILED_PRECONDITION, DETAIL_HELLO_REQUIRED, "Hello");
        expect_closed(fd);
        close(fd);
    }
    scene_close(&s);
}

Test(hostile_names, a_second_hello)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    send_hello(fd, 6, "other", 5);
    struct wire_error e = receive_error(fd);
    cr_assert_eq(e.code, STATUS_FAILED_PRECONDITION);
    cr_assert_eq(e.detail, DETAIL_HELLO_REQUIRED);
    cr_assert_eq(e.request_id, 6);
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile_names, hello_of_another_version)
{
    struct scene s;
    scene_open(&s, NULL);
    static const uint32_t ranges[][2] = {{2, 3}, {0, 0}, {3, 2}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < 4; i++) {
        struct sample sample;
        sample_find("hello", &sample);
        sample.message.hello.version_min = ranges[i][0];
        sample.message.hello.version_max = ranges[i][1];
        int fd = raw_connect(&s.daemon);
        send_sample(fd, &sample, 7);
        struct wire_error e = receive_error(fd);
        cr_assert_eq(e.detail, DETAIL_BAD_VERSION, "%s", e.text);
        cr_assert(strstr(e.text, "version"));
        expect_closed(fd);
        close(fd);
    }
    struct sample sample; /* a range that holds ours is fine */
    sample_find("hello", &sample);
    sample.message.hello.version_min = 0;
    sample.message.hello.version_max = 9;
    int fd = raw_connect(&s.daemon);
    send_sample(fd, &sample, 8);
    expect_reply(fd, 8);
    close(fd);
    scene_close(&s);
}

/* A space lives while it has connections or collections: thousands of names leave nothing. */
Test(hostile_names, many_spaces_leave_nothing_behind)
{
    struct scene s;
    scene_open(&s, NULL);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        int n = snprintf(name, sizeof name, "space-%d", i);
        int fd = raw_connect(&s.daemon);
        send_hello(fd, 9, name, (size_t)n);
        expect_reply(fd, 9);
        close(fd);
    }
    scene_close(&s);
}

/* ---------------------------------------------------------------- request ids */

/* Both frames come in one read, so the first is surely in flight when the second is looked at. */
Test(hostile_names, request_id_in_flight_twice)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    static uint8_t bytes[2 * SAMPLE_BYTES_MAX];
    struct sample sample;
    sample_find("knn", &sample);
    size_t count = sample_frame(&sample, 31, bytes);
    memmove(bytes + count, bytes, count);
    for (int round = 0; round < 20; round++) {
        cr_assert(raw_send(fd, bytes, 2 * count));
        expect_error(fd, 31, STATUS_INVALID_ARGUMENT, DETAIL_REQUEST_ID_IN_USE, "id");
        expect_reply(fd, 31);
    }
    int other = scene_connect(&s); /* another connection may use the same number */
    cr_assert(raw_send(fd, bytes, count));
    cr_assert(raw_send(other, bytes, count));
    expect_reply(fd, 31);
    expect_reply(other, 31);
    close(fd);
    close(other);
    scene_close(&s);
}
