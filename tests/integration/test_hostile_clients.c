/* Clients that behave badly in time: too many, too slow, deaf, vanishing, killed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pb_encode.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

/* ---------------------------------------------------------------- many */

static void allow_descriptors(rlim_t count)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < count)
        cr_skip_test("SKIP: only %lu descriptors may be open", limit.rlim_max);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(hostile_clients, a_thousand_connections)
{
    enum { COUNT = 1000 };
    allow_descriptors(COUNT + 100);
    struct scene s;
    scene_open(&s, NULL);
    scene_make_rows(&s);
    static int fds[COUNT];
    for (int i = 0; i < COUNT; i++)
        fds[i] = scene_connect(&s);
    struct sample knn;
    sample_find("knn", &knn);
    for (int i = 0; i < COUNT; i++)
        send_sample(fds[i], &knn, (uint64_t)i);
    for (int i = 0; i < COUNT; i++)
        expect_reply(fds[i], (uint64_t)i);
    scene_check(&s);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    /* Neither the job pool was ever so full before, 1.8 KiB each, kept, nor the ring of decisions,
     * nor what the scheduler has learnt. */
    s.resident_kib += 5120;
    scene_close(&s);
}

Test(hostile_clients, one_connection_too_many)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.connections=8", NULL});
    int fds[7]; /* the witness has one */
    for (int i = 0; i < 7; i++)
        fds[i] = scene_connect(&s);
    for (int round = 0; round < 20; round++) {
        int fd = raw_connect(&s.daemon);
        struct wire_error e = receive_error(fd);
        cr_assert_eq(e.code, STATUS_RESOURCE_EXHAUSTED);
        cr_assert_eq(e.detail, DETAIL_CONNECTIONS);
        cr_assert(e.retryable);
        cr_assert(e.retry_after_ms > 0);
        cr_assert(strstr(e.text, "limits.connections"));
        expect_closed(fd);
        close(fd);
    }
    ea_client *client = NULL; /* the library hands the refusal on, though it spoke first */
    cr_assert_eq(ea_open(&(ea_options){.socket_path = s.daemon.socket_path}, &client), EA_OK);
    cr_assert_eq(ea_ping(client), EA_RESOURCE_EXHAUSTED, "%s", ea_error_text(client));
    cr_assert_eq(ea_error_detail(client), DETAIL_CONNECTIONS);
    cr_assert(ea_error_retry_after_ms(client) > 0);
    scene_check(&s);
    for (int i = 0; i < 7; i++) {
        expect_alive(fds[i]);
        close(fds[i]);
    }
    int64_t until = give_up_ms();
    while (ea_ping(client) != EA_OK) {
        cr_assert(now_ms() < until, "places that became free are given out again");
        wait_ms(10);
    }
    ea_close(client);
    scene_close(&s);
}

/* The daemon may not open another descriptor: it must go on, and recover. */
Test(hostile_clients, no_descriptors_left)
{
    struct scene s;
    scene_open(&s, NULL);
    struct rlimit before, tight;
    cr_assert_eq(prlimit(s.daemon.pid, RLIMIT_NOFILE, NULL, &before), 0);
    tight = before;
    tight.rlim_cur = s.descriptors + 3;
    cr_assert_eq(prlimit(s.daemon.pid, RLIMIT_NOFILE, &tight, NULL), 0);
    int fds[40];
    for (int i = 0; i < 40; i++)
        fds[i] = raw_connect(&s.daemon);
    scene_check(&s);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    cr_assert_eq(prlimit(s.daemon.pid, RLIMIT_NOFILE, &before, NULL), 0);
    int fd = scene_connect(&s);
    expect_alive(fd);
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- slow */

static const char *const impatient[] = {"limits.handshake_ms=400", "limits.stall_ms=400", NULL};

/* Sends bytes one by one, far apart, until the daemon closes. start: before the daemon can have
 * begun to count. A slow machine only makes it later: it cannot be too early for that. */
static void drip(struct scene *s, int fd, const uint8_t *bytes, size_t count, int64_t start)
{
    int64_t until = give_up_ms();
    for (size_t i = 0; i < count; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (!raw_send(fd, bytes + i, 1)) break;
        if (poll(&p, 1, 60) == 1) break;
        scene_check(s);
        cr_assert(now_ms() < until, "still connected");
    }
    expect_closed(fd);
    cr_assert(now_ms() - start >= 399, "closed too early: after %lld ms",
              (long long)(now_ms() - start));
}

static uint64_t dropped(struct scene *s)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(s->witness, &stats), EA_OK);
    return stats.connections_dropped;
}

Test(hostile_clients, a_byte_at_a_time)
{
    struct scene s;
    scene_open(&s, impatient);
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    struct sample sample;
    uint64_t before = dropped(&s);
    sample_find("hello", &sample);
    size_t count = sample_frame(&sample, 1, bytes);
    int64_t start = now_ms();
    int fd = raw_connect(&s.daemon);
    drip(&s, fd, bytes, count, start);
    close(fd);
    sample_find("upsert", &sample);
    count = sample_frame(&sample, 2, bytes);
    fd = scene_connect(&s);
    drip(&s, fd, bytes, count, now_ms());
    close(fd);
    cr_assert_eq(dropped(&s), before + 2);
    wait_logged(&s.daemon, "limits.handshake_ms");
    wait_logged(&s.daemon, "limits.stall_ms");
    scene_close(&s);
}

Test(hostile_clients, silent_ones)
{
    struct scene s;
    /* Who came after the idle one's last word is dropped for its silence, so by then the idle one
     * would have been, too: its limit is the shorter. */
    scene_open(&s, (const char *[]){"limits.handshake_ms=400", "limits.stall_ms=100", NULL});
    int idle = scene_connect(&s), mute = raw_connect(&s.daemon);
    expect_closed(mute);
    expect_alive(idle); /* between requests a client may think as long as it likes */
    close(mute);
    close(idle);
    scene_close(&s);
}

/* ---------------------------------------------------------------- deaf */

/* A collection whose whole content is megabytes. */
static void make_large(const struct scene *s, uint64_t rows)
{
    enum { DIMENSION = 1024 };
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path, .space = "hostile"};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    cr_assert_eq(ea_collection_create(c, "large", DIMENSION, EA_DOT, NULL), EA_OK);
    float *data = malloc(rows * DIMENSION * sizeof *data);
    uint64_t *ids = malloc(rows * sizeof *ids);
    reference_fill(5, data, rows * DIMENSION);
    for (uint64_t i = 0; i < rows; i++)
        ids[i] = i;
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "large",
                                      .ids = ids,
                                      .rows = data,
                                      .count = rows,
                                      .dimension = DIMENSION},
                           NULL),
                 EA_OK, "%s", ea_error_text(c));
    free(data);
    free(ids);
    ea_close(c);
}

static void drop_large(const struct scene *s)
{
    ea_client *c = NULL;
    ea_options options = {.socket_path = s->daemon.socket_path, .space = "hostile"};
    cr_assert_eq(ea_open(&options, &c), EA_OK);
    cr_assert_eq(ea_collection_drop(c, "large"), EA_OK, "%s", ea_error_text(c));
    ea_close(c);
}

static void ask_for_rows(int fd, uint64_t request_id, uint64_t limit)
{
    engram_accel_v1_FetchRequest m = {.limit = limit};
    uint8_t message[256];
    strcpy(m.collection, "large");
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&out, engram_accel_v1_FetchRequest_fields, &m));
    /* False: dropped already, which is what such a client deserves. */
    raw_send_frame(fd, OPERATION_FETCH, request_id, message, (uint32_t)out.bytes_written, NULL, 0);
}

Test(hostile_clients, one_that_never_reads)
{
    struct scene s;
    /* What is kept for reuse is not the client's doing. */
    scene_open(&s, (const char *[]){"limits.stall_ms=600", "limits.output_mib=32",
                                    "memory.cache_mib=8", NULL});
    make_large(&s, 2048); /* 8 MiB a fetch */
    size_t loaded = process_resident_kib(s.daemon.pid), worst = 0;
    uint64_t before = dropped(&s);
    int fd = scene_connect(&s);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (uint64_t i = 0; i < 500; i++) /* 4 GiB of replies, if all were made */
        ask_for_rows(fd, i, 2048);
    int64_t until = give_up_ms();
    while (dropped(&s) == before) {
        scene_check(&s);
        size_t resident = process_resident_kib(s.daemon.pid);
        if (resident > worst) worst = resident;
        cr_assert(now_ms() < until, "a deaf client is never dropped");
        wait_ms(20);
    }
    cr_assert(worst < loaded + 128 * 1024, "%zu KiB for one deaf client", worst - loaded);
    expect_closed(fd);
    close(fd);
    drop_large(&s);
    scene_close(&s);
}

/* Asks a million times for little and never reads: reading must stop. */
Test(hostile_clients, one_that_only_pings)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.stall_ms=500", NULL});
    int fd = scene_connect(&s);
    static uint8_t frames[1024 * FRAME_ALIGN];
    for (int i = 0; i < 1024; i++)
        frame_write(&(struct frame_header){.kind = OPERATION_PING, .request_id = (uint64_t)i},
                    frames + i * FRAME_ALIGN);
    uint64_t sent = 0;
    int64_t until = give_up_ms();
    for (;;) {
        ssize_t n = send(fd, frames, sizeof frames, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (uint64_t)n;
            cr_assert(sent < 64u << 20, "64 MiB of requests were taken without an answer read");
        } else if (errno != EAGAIN) {
            break;
        } else {
            scene_check(&s);
            wait_ms(10);
        }
        cr_assert(now_ms() < until, "never dropped");
    }
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- vanishing */

Test(hostile_clients, vanish_mid_body)
{
    struct scene s;
    scene_open(&s, NULL);
    uint64_t body_bytes = 16u << 20;
    uint8_t *half = calloc(1, body_bytes / 2);
    for (int round = 0; round < 20; round++) {
        int fd = scene_connect(&s);
        uint8_t header[FRAME_ALIGN] = {0};
        frame_write(&(struct frame_header){.kind = OPERATION_UPSERT, .body_bytes = body_bytes},
                    header);
        cr_assert(raw_send(fd, header, sizeof header));
        cr_assert(raw_send(fd, half, round % 2 ? body_bytes / 2 : 1000));
        if (round % 5 == 0) scene_check(&s);
        close(fd);
    }
    free(half);
    scene_close(&s);
}

Test(hostile_clients, vanish_with_requests_in_flight)
{
    struct scene s;
    scene_open(&s, NULL);
    make_large(&s, 2048);
    for (int round = 0; round < 50; round++) {
        int fd = scene_connect(&s);
        for (uint64_t i = 0; i < 30; i++)
            ask_for_rows(fd, i, 1 + i * 60);
        close(fd);
        if (round % 10 == 0) scene_check(&s);
    }
    drop_large(&s);
    scene_close(&s);
}

/* Descriptors sent along with bytes go nowhere. */
Test(hostile_clients, one_that_passes_descriptors)
{
    struct scene s;
    scene_open(&s, NULL);
    int fd = scene_connect(&s);
    uint8_t header[FRAME_ALIGN] = {0};
    frame_write(&(struct frame_header){.kind = OPERATION_PING, .request_id = 3}, header);
    for (int i = 0; i < 50; i++) {
        union {
            struct cmsghdr head;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec piece = {header, sizeof header};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &(int){2}, sizeof(int));
        cr_assert_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)sizeof header);
        expect_reply(fd, 3);
    }
    close(fd);
    scene_close(&s);
}

/* ---------------------------------------------------------------- killed */

/* Uploads and asks without end. */
static void load_for_ever(const char *socket_path)
{
    enum { ROWS = 2000, DIMENSION = 128 };
    ea_client *c;
    static float rows[ROWS * DIMENSION];
    static uint64_t ids[ROWS];
    reference_fill(9, rows, ROWS * DIMENSION);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    if (ea_open(&(ea_options){.socket_path = socket_path, .space = "killed"}, &c)) _exit(1);
    ea_collection_create(c, "load", DIMENSION, EA_COSINE, NULL);
    for (;;) {
        ea_result r = {0};
        if (ea_upsert_send(c,
                           &(ea_rows){.collection = "load",
                                      .ids = ids,
                                      .rows = rows,
                                      .count = ROWS,
                                      .dimension = DIMENSION},
                           NULL, NULL))
            _exit(2);
        for (int i = 0; i < 20; i++)
            if (ea_knn_send(c,
                            &(ea_knn_question){.collection = "load",
                                               .queries = rows,
                                               .query_count = 50,
                                               .dimension = DIMENSION,
                                               .k = 100},
                            NULL, NULL))
                _exit(3);
        if (ea_similarity(c,
                          &(ea_similarity_question){.collection = "load",
                                                    .queries = rows,
                                                    .query_count = 500,
                                                    .dimension = DIMENSION},
                          &r))
            _exit(4);
        ea_result_free(&r);
    }
}

Test(hostile_clients, killed_under_load)
{
    struct scene s;
    scene_open(&s, NULL);
    for (int round = 0; round < 6; round++) {
        pid_t child = fork();
        cr_assert(child >= 0);
        if (child == 0) {
            load_for_ever(s.daemon.socket_path);
            _exit(0);
        }
        for (int64_t until = now_ms() + 120 + 30 * round; now_ms() < until;)
            scene_check(&s);
        int status;
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "the load ended by itself: %x", status);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        scene_check(&s);
    }
    ea_client *c = NULL;
    cr_assert_eq(ea_open(&(ea_options){.socket_path = s.daemon.socket_path, .space = "killed"}, &c),
                 EA_OK);
    cr_assert_eq(ea_collection_drop(c, "load"), EA_OK, "%s", ea_error_text(c));
    ea_close(c);
    scene_close(&s);
}
