/* Frames that are wrong before anyone looks at what they say: magic, version, lengths, truncation,
 * noise. Each test: a precise error or a clean close, the witness served, everything given back. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/scene.h"

/* A request header as bytes, to be bent. */
static void header_bytes(uint8_t out[FRAME_ALIGN], uint8_t kind, uint64_t request_id)
{
    struct frame_header h = {.kind = kind, .request_id = request_id};
    memset(out, 0, FRAME_ALIGN);
    frame_write(&h, out);
}

/* Sends the bent header after Hello; the error must name the request, then the daemon closes. */
static void expect_framing_error(struct scene *s, const uint8_t header[FRAME_ALIGN],
                                 uint64_t request_id, uint32_t code, uint32_t detail,
                                 const char *word)
{
    int fd = scene_connect(s);
    cr_assert(raw_send(fd, header, FRAME_ALIGN));
    expect_error(fd, request_id, code, detail, word);
    scene_check(s);
    expect_closed(fd);
    close(fd);
}

Test(hostile, wrong_magic)
{
    struct scene s;
    scene_open(&s, NULL);
    uint8_t header[FRAME_ALIGN];
    header_bytes(header, OPERATION_PING, 5);
    memcpy(header, "GET ", 4);
    expect_framing_error(&s, header, 0, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MAGIC, "magic");
    int fd = raw_connect(&s.daemon); /* before Hello too */
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    cr_assert(raw_send(fd, http, sizeof http - 1));
    expect_error(fd, 0, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MAGIC, "magic");
    expect_closed(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile, wrong_version)
{
    struct scene s;
    scene_open(&s, NULL);
    uint8_t header[FRAME_ALIGN];
    for (int version = 0; version < 256; version += 51) {
        if (version == FRAME_VERSION) continue;
        header_bytes(header, OPERATION_PING, 5);
        header[4] = (uint8_t)version;
        expect_framing_error(&s, header, 0, STATUS_INVALID_ARGUMENT, DETAIL_BAD_VERSION, "version");
    }
    scene_close(&s);
}

Test(hostile, flags_in_a_request)
{
    struct scene s;
    scene_open(&s, NULL);
    uint8_t header[FRAME_ALIGN];
    for (int bit = 0; bit < 16; bit++) {
        header_bytes(header, OPERATION_PING, 6);
        header[6] = (uint8_t)(1 << bit & 0xff);
        header[7] = (uint8_t)(1 << bit >> 8);
        if (1 << bit == FRAME_FLAG_PROGRESS) continue;
        expect_framing_error(&s, header, 6, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FLAGS, "flags");
    }
    scene_close(&s);
}

Test(hostile, message_past_64_kib)
{
    struct scene s;
    scene_open(&s, NULL);
    uint8_t header[FRAME_ALIGN];
    static const uint32_t lengths[] = {65537, 1 << 20, UINT32_MAX - 63, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        header_bytes(header, OPERATION_KNN, 7);
        memcpy(header + 16, &lengths[i], 4);
        expect_framing_error(&s, header, 7, STATUS_RESOURCE_EXHAUSTED, DETAIL_MESSAGE_TOO_LARGE,
                             "message");
    }
    scene_close(&s);
}

/* The largest legal message is taken (and found to be no message). */
Test(hostile, message_of_64_kib_is_read)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    static uint8_t noise[FRAME_MESSAGE_BYTES_MAX];
    memset(noise, 0xff, sizeof noise);
    cr_assert(raw_send_frame(fd, OPERATION_KNN, 8, noise, sizeof noise, NULL, 0));
    expect_error(fd, 8, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, "message");
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

Test(hostile, body_past_the_limit)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.request_body_mib=1", NULL});
    uint8_t header[FRAME_ALIGN];
    static const uint64_t lengths[] = {(1 << 20) + 64, 1ull << 40, 1ull << 63, UINT64_MAX - 63,
                                       UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        header_bytes(header, OPERATION_UPSERT, 9);
        memcpy(header + 24, &lengths[i], 8);
        expect_framing_error(&s, header, 9, STATUS_RESOURCE_EXHAUSTED, DETAIL_BODY_TOO_LARGE,
                             "body");
    }
    scene_close(&s);
}

Test(hostile, body_not_a_multiple_of_64)
{
    struct scene s;
    scene_open(&s, NULL);
    uint8_t header[FRAME_ALIGN];
    static const uint64_t lengths[] = {1, 63, 65, 127, 1000001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        header_bytes(header, OPERATION_UPSERT, 10);
        memcpy(header + 24, &lengths[i], 8);
        expect_framing_error(&s, header, 10, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH, "body");
    }
    scene_close(&s);
}

/* A bad frame takes its own connection down, but what was accepted before it is answered. */
Test(hostile, a_bad_frame_behind_good_ones)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    uint8_t bytes[3 * FRAME_ALIGN];
    header_bytes(bytes, OPERATION_PING, 1);
    header_bytes(bytes + FRAME_ALIGN, OPERATION_PING, 2);
    memset(bytes + 2 * FRAME_ALIGN, 'x', FRAME_ALIGN);
    cr_assert(raw_send(fd, bytes, sizeof bytes));
    expect_reply(fd, 1);
    expect_reply(fd, 2);
    expect_error(fd, 0, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MAGIC, "magic");
    expect_closed(fd);
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- truncation */

static void truncate_at_every_byte(struct scene *s, const struct sample *sample, bool greeted)
{
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    size_t count = sample_frame(sample, 3, bytes);
    for (size_t cut = 0; cut < count; cut++) {
        int fd = greeted ? scene_connect(s) : raw_connect(&s->daemon);
        cr_assert(raw_send(fd, bytes, cut));
        if (cut % 2) {
            shutdown(fd, SHUT_WR); /* half closed: nothing more will come */
            expect_closed(fd);
        }
        close(fd);
        if (cut % 64 == 0) scene_check(s);
    }
}

Test(hostile, truncated_at_every_byte)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    scene_settle(&s);
    struct sample sample;
    sample_find("hello", &sample);
    truncate_at_every_byte(&s, &sample, false);
    static const char *const names[] = {"upsert", "knn", "score", "create"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sample_find(names[i], &sample);
        truncate_at_every_byte(&s, &sample, true);
    }
    scene_close(&s);
}

/* The same frames, cut at every byte into two pieces that both arrive: nothing is wrong. */
Test(hostile, split_at_every_byte)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    int fd = scene_connect(&s);
    static const char *const names[] = {"upsert", "knn", "fetch"};
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sample sample;
        sample_find(names[i], &sample);
        size_t count = sample_frame(&sample, 4, bytes);
        for (size_t cut = 1; cut < count; cut++) {
            cr_assert(raw_send(fd, bytes, cut));
            if (cut % 8 == 0) scene_check(&s); /* so that the pieces arrive apart */
            cr_assert(raw_send(fd, bytes + cut, count - cut));
            expect_reply(fd, 4);
        }
    }
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- noise */

/* Sends bytes and says no more; the daemon must close, whatever they were. */
static void send_noise(struct scene *s, const uint8_t *bytes, size_t count, bool greeted)
{
    int fd = greeted ? scene_connect(s) : raw_connect(&s->daemon);
    raw_send(fd, bytes, count); /* it may close before the last byte */
    shutdown(fd, SHUT_WR);
    expect_closed(fd);
    close(fd);
}

static unsigned noise_seed(void)
{
    const char *text = getenv("HOSTILE_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 0) : (unsigned)now_ms();
    fprintf(stderr, "HOSTILE_SEED=%u\n", seed);
    return seed;
}

Test(hostile, random_bytes)
{
    struct scene s;
    scene_open(&s, NULL);
    unsigned seed = noise_seed();
    static uint8_t bytes[4096];
    for (int round = 0; round < 400; round++) {
        size_t count = 1 + (size_t)rand_r(&seed) % sizeof bytes;
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)(rand_r(&seed) >> 8);
        if (round % 2) { /* a header that is taken seriously */
            struct frame_header h = {
                .kind = (uint8_t)rand_r(&seed),
                .request_id = (uint64_t)rand_r(&seed),
                .message_bytes = (uint32_t)rand_r(&seed) % 512,
                .body_bytes = (uint64_t)rand_r(&seed) % 32 * 64,
            };
            frame_write(&h, bytes);
            if (count < FRAME_HEADER_BYTES) count = FRAME_HEADER_BYTES;
        }
        send_noise(&s, bytes, count, round % 4 < 2);
        if (round % 40 == 0) scene_check(&s);
    }
    scene_close(&s);
}

/* Valid requests with a few bits flipped: the replies do not matter, the daemon's health does. */
Test(hostile, flipped_bits)
{
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    unsigned seed = noise_seed();
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sample_count(); i++) {
            struct sample sample;
            sample_get(i, &sample);
            size_t count = sample_frame(&sample, (uint64_t)round, bytes);
            int flips = 1 + rand_r(&seed) % 4;
            for (int f = 0; f < flips; f++) /* mostly in header and message */
                bytes[(size_t)rand_r(&seed) % (f % 2 ? count : 96)] ^=
                    (uint8_t)(1 << rand_r(&seed) % 8);
            send_noise(&s, bytes, count, sample.kind != OPERATION_HELLO);
        }
    scene_check(&s);
    int fd = scene_connect(&s); /* a flipped name may have been created or dropped */
    struct sample drop;
    sample_find("drop", &drop);
    send_sample(fd, &drop, 1);
    close(fd);
    scene_check(&s);
    ea_close(s.witness);
    cr_assert_eq(daemon_stop(&s.daemon), 0);
}
