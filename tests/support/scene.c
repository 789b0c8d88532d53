#include "tests/support/scene.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/reference.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(ENGRAM_COVERAGE)
enum { SLOWER = 6 };
#else
enum { SLOWER = 1 };
#endif

int scaled_ms(int ms)
{
    return ms * SLOWER;
}

void wait_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t give_up_ms(void)
{
    return now_ms() + GIVE_UP_MS;
}

void wait_logged(const struct daemon_process *d, const char *text)
{
    int64_t until = give_up_ms();
    while (!daemon_logged(d, text)) {
        cr_assert(now_ms() < until, "'%s' is never logged", text);
        wait_ms(5);
    }
}

/* ---------------------------------------------------------------- the witness */

static uint64_t memory_used(struct scene *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->witness, &stats), EA_OK, "%s", ea_error_text(s->witness));
    return stats.memory_bytes_used;
}

void scene_open(struct scene *s, const char *const *settings)
{
    const char *all[48] = {"memory.cache_mib=1", "workers.count=2", "workers.pin=false"};
    size_t count = 3;
    for (size_t i = 0; settings && settings[i]; i++)
        all[count++] = settings[i];
    memset(s, 0, sizeof *s);
    daemon_start(&s->daemon, all);
    ea_options options = {.socket_path = s->daemon.socket_path,
                          .space = "witness",
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &s->witness), EA_OK);
    reference_fill(1, s->rows, WITNESS_ROWS * WITNESS_DIMENSION);
    for (uint64_t i = 0; i < WITNESS_ROWS; i++)
        s->ids[i] = 1000 - 7 * i;
    cr_assert_eq(ea_collection_create(s->witness, "facts", WITNESS_DIMENSION, EA_COSINE, NULL),
                 EA_OK, "%s", ea_error_text(s->witness));
    cr_assert_eq(ea_upsert(s->witness,
                           &(ea_rows){.collection = "facts",
                                      .ids = s->ids,
                                      .rows = s->rows,
                                      .count = WITNESS_ROWS,
                                      .dimension = WITNESS_DIMENSION},
                           NULL),
                 EA_OK, "%s", ea_error_text(s->witness));
    scene_check(s);
    int fd = raw_connect(&s->daemon); /* so that pools have their first members */
    raw_hello(fd, "hostile");
    close(fd);
    int64_t until = give_up_ms();
    for (ea_stats stats = {0}; stats.connections_open != 1; wait_ms(1)) { /* it has seen that */
        cr_assert_eq(ea_get_stats(s->witness, &stats), EA_OK, "%s", ea_error_text(s->witness));
        cr_assert(now_ms() < until, "%llu connections", (unsigned long long)stats.connections_open);
    }
    s->memory_used = memory_used(s);
    s->descriptors = process_descriptors(s->daemon.pid);
    s->resident_kib = process_resident_kib(s->daemon.pid);
}

void scene_check(struct scene *s)
{
    enum { K = 9 };
    float query[WITNESS_DIMENSION], scores[K];
    uint64_t ids[K];
    static uint64_t seed = 100;
    reference_fill(seed++, query, WITNESS_DIMENSION);
    struct reference_rows all = {WITNESS_DIMENSION, REFERENCE_COSINE, WITNESS_ROWS, s->rows,
                                 s->ids};
    size_t want = reference_knn(&all, query, K, NULL, NULL, ids, scores);
    ea_result r = {0};
    cr_assert_eq(ea_knn(s->witness,
                        &(ea_knn_question){.collection = "facts",
                                           .queries = query,
                                           .query_count = 1,
                                           .dimension = WITNESS_DIMENSION,
                                           .k = K},
                        &r),
                 EA_OK, "the witness: %s", ea_error_text(s->witness));
    cr_assert_eq(r.rows, 1);
    cr_assert_eq(r.columns, K);
    cr_assert_eq(r.counts[0], want);
    for (size_t i = 0; i < want; i++) {
        cr_assert_eq(r.ids[i], ids[i]);
        cr_assert(reference_same(r.scores[i], scores[i]));
    }
    ea_result_free(&r);
}

/* A sanitizer's own memory says nothing about the daemon's. */
static bool settled(const struct scene *s, uint64_t used, size_t descriptors, size_t resident)
{
    return used <= s->memory_used + DAEMON_OWN_BYTES && descriptors == s->descriptors &&
           (SLOWER > 1 || resident <= s->resident_kib + SCENE_GROWTH_KIB);
}

void scene_settle(struct scene *s)
{
    int64_t until = give_up_ms();
    size_t descriptors, resident;
    uint64_t used;
    for (bool quiet = false;; quiet = !quiet) {
        used = memory_used(s);
        /* It gives most back when nobody has asked for a second or two. */
        for (int i = 0; i < (quiet ? 100 : 1); i++) {
            descriptors = process_descriptors(s->daemon.pid);
            resident = process_resident_kib(s->daemon.pid);
            if (settled(s, used, descriptors, resident)) {
                scene_check(s);
                return;
            }
            wait_ms(25);
        }
        cr_assert(now_ms() < until,
                  "descriptors %zu, before %zu; blocks %llu bytes, before %llu; resident %zu KiB, "
                  "before %zu",
                  descriptors, s->descriptors, (unsigned long long)used,
                  (unsigned long long)s->memory_used, resident, s->resident_kib);
    }
}

void scene_close(struct scene *s)
{
    scene_settle(s);
    ea_close(s->witness);
    cr_assert_eq(daemon_stop(&s->daemon), 0, "the daemon's exit code");
}

/* ---------------------------------------------------------------- raw connections */

int scene_connect(const struct scene *s)
{
    int fd = raw_connect(&s->daemon);
    raw_hello(fd, "hostile");
    return fd;
}

void expect_reply(int fd, uint64_t request_id)
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    cr_assert(raw_receive_frame(fd, &h, message, &body), "closed instead of a reply");
    cr_assert_eq(h.flags, FRAME_FLAG_REPLY, "an error instead of a reply");
    cr_assert_eq(h.request_id, request_id);
    free(body);
}

void scene_make_rows(const struct scene *s)
{
    int fd = scene_connect(s);
    struct sample create, upsert;
    sample_find("create", &create);
    send_sample(fd, &create, 1);
    expect_reply(fd, 1);
    sample_find("upsert", &upsert);
    send_sample(fd, &upsert, 2);
    expect_reply(fd, 2);
    close(fd);
}

struct wire_error receive_error(int fd)
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct frame_header h;
    void *body;
    cr_assert(raw_receive_frame(fd, &h, message, &body), "closed instead of an error");
    cr_assert_eq(h.flags, FRAME_FLAG_REPLY | FRAME_FLAG_ERROR, "a reply that is no error");
    cr_assert_eq(h.body_bytes, 0);
    engram_accel_v1_Error error = engram_accel_v1_Error_init_zero;
    pb_istream_t in = pb_istream_from_buffer(message, h.message_bytes);
    cr_assert(pb_decode(&in, engram_accel_v1_Error_fields, &error));
    struct wire_error e = {
        .kind = h.kind,
        .request_id = h.request_id,
        .code = error.code,
        .detail = error.detail,
        .retry_after_ms = error.retry_after_ms,
        .retryable = error.retryable,
    };
    snprintf(e.text, sizeof e.text, "%s", error.message);
    return e;
}

void expect_error(int fd, uint64_t request_id, uint32_t code, uint32_t detail, const char *word)
{
    struct wire_error e = receive_error(fd);
    cr_assert_eq(e.request_id, request_id, "answers request %llu, not %llu: %s",
                 (unsigned long long)e.request_id, (unsigned long long)request_id, e.text);
    cr_assert(e.code == code && e.detail == detail, "%s/%s wanted, got %s/%s: %s",
              status_name(code), detail_name(detail), status_name(e.code), detail_name(e.detail),
              e.text);
    cr_assert(strstr(e.text, word), "'%s' does not mention '%s'", e.text, word);
    bool hopeless = detail == DETAIL_MESSAGE_TOO_LARGE || detail == DETAIL_BODY_TOO_LARGE ||
                    detail == DETAIL_REPLY_TOO_LARGE || detail == DETAIL_TOO_MANY_ROWS;
    cr_assert_eq(e.retryable, status_retryable(e.code) && !hopeless);
}

void expect_alive(int fd)
{
    cr_assert(raw_send_frame(fd, OPERATION_PING, 987654321, NULL, 0, NULL, 0));
    expect_reply(fd, 987654321);
}

void expect_closed(int fd)
{
    int64_t until = give_up_ms();
    char scrap[65536];
    for (;;) {
        int left = (int)(until - now_ms());
        struct pollfd p = {.fd = fd, .events = POLLIN};
        cr_assert(left > 0 && poll(&p, 1, left) == 1, "never closed");
        ssize_t n = recv(fd, scrap, sizeof scrap, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
    }
}

void send_sample(int fd, const struct sample *s, uint64_t request_id)
{
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    size_t count = sample_frame(s, request_id, bytes);
    cr_assert(raw_send(fd, bytes, count), "%s: the daemon closed", s->name);
}
