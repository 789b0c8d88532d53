/* Cancels by another thread, and connections that are made while nobody waits for them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <pb_decode.h>

#include "client/engram_accel.h"
#include "proto/engram_accel.pb.h"
#include "tests/support/fake_daemon.h"

TestSuite(cancel, .timeout = 120);

#define OK(call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(client))

static struct fake_daemon daemon_;
static ea_client *client;
static const float matrix[40] = {1, 2, 3, 4};
static const ea_knn_question question = {
    .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4, .k = 3};

static void begin(void (*script)(struct fake_daemon *d, int fd))
{
    fake_start(&daemon_, script);
    ea_options o = {.socket_path = daemon_.path, .timeout_us = EA_NO_TIMEOUT};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static void end(void)
{
    ea_close(client);
    fake_stop(&daemon_);
}

enum { WAITING_MAX = 32 };

/* Pings are answered; kNN is not, until it is cancelled. */
static void serve_cancels(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    static uint8_t frame[4096];
    uint64_t waiting[WAITING_MAX] = {0};
    const struct failure f = {.code = STATUS_CANCELLED, .detail = DETAIL_CANCELLED_BY_CLIENT};
    bool good = fake_hello(d, fd);
    while (good && fake_read(fd, r)) {
        if (r->header.kind == OPERATION_KNN) {
            waiting[r->header.request_id % WAITING_MAX] = r->header.request_id;
            continue;
        }
        good = fake_write(fd, frame, fake_answer(r, frame, sizeof frame));
        if (r->header.kind != OPERATION_CANCEL) continue;
        engram_accel_v1_CancelRequest m;
        pb_istream_t in = pb_istream_from_buffer(r->message, r->header.message_bytes);
        cr_assert(pb_decode(&in, engram_accel_v1_CancelRequest_fields, &m));
        uint64_t *place = &waiting[m.request_id % WAITING_MAX];
        if (*place != m.request_id) continue;
        *place = 0;
        good = fake_write(fd, frame, encode_error(OPERATION_KNN, m.request_id, &f, frame));
    }
    free(r->body);
    free(r);
}

/* ---- a blocking call ---- */

static atomic_bool over;

/* Again and again: what comes before the call has begun is not for it. */
static void *cancel_calls(void *user)
{
    while (!atomic_load(&over)) {
        ea_status st = ea_cancel_from_thread(client, 0);
        cr_assert(st == EA_OK || st == EA_RESOURCE_EXHAUSTED);
        usleep(100);
    }
    return user;
}

static ea_status cancelled_call(ea_status (*call)(void))
{
    pthread_t thread;
    atomic_store(&over, false);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_calls, NULL), 0);
    ea_status st = call();
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return st;
}

static ea_status ask(void)
{
    ea_result r = {0};
    ea_status st = ea_knn(client, &question, &r);
    cr_assert(!r.memory && ea_error_detail(client) == EA_DETAIL_CANCELLED_BY_CLIENT);
    return st;
}

Test(cancel, of_a_blocking_call)
{
    begin(serve_cancels);
    OK(ea_connect(client));
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(cancelled_call(ask), EA_CANCELLED);
    OK(ea_ping(client));
    OK(ea_cancel_from_thread(client, 0)); /* nothing is under way: the next call is not touched */
    OK(ea_ping(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    end();
    cr_assert_eq(ea_cancel_from_thread(NULL, 0), EA_INVALID_ARGUMENT);
}

/* ---- a daemon that accepts nobody ---- */

static int listener, fillers[64];
static unsigned filler_count;

/* A socket whose backlog is full. */
static void fill_backlog(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "/tmp/ea-cancel-%d", (int)getpid());
    unlink(a.sun_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(listener, 0), 0);
    for (filler_count = 0; filler_count < 64; filler_count++) {
        fillers[filler_count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fillers[filler_count], (struct sockaddr *)&a, sizeof a)) break;
    }
    cr_assert_eq(errno, EAGAIN);
    close(fillers[filler_count]);
    ea_options o = {.socket_path = a.sun_path,
                    .timeout_us = EA_NO_TIMEOUT,
                    .connect_timeout_us = EA_NO_TIMEOUT};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static void empty_backlog(void)
{
    for (unsigned i = 0; i < filler_count; i++) {
        close(accept(listener, NULL, NULL));
        close(fillers[i]);
    }
}

static ea_status ping(void)
{
    return ea_ping(client);
}

Test(cancel, of_a_call_that_connects)
{
    fill_backlog();
    cr_assert_eq(cancelled_call(ping), EA_CANCELLED);
    empty_backlog();
    ea_close(client);
    close(listener);
}

static unsigned answered;
static ea_status answer_status;

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    answered++;
    answer_status = answer->status;
    cr_assert_eq(c, client);
    cr_assert(!answer->result && !answer->nodes && !answer->stats);
}

/* One thread is client and daemon: whatever waited would wait for ever. */
Test(cancel, send_does_not_wait_for_a_connection)
{
    fill_backlog();
    const ea_send_options how = {.callback = note};
    uint64_t ids[2];
    OK(ea_ping_send(client, &how, &ids[0]));
    OK(ea_ping_send(client, &how, &ids[1]));
    OK(ea_pump(client, 0));
    cr_assert_eq(ea_pending(client), 2);
    cr_assert_eq(ea_fd(client), -1);
    cr_assert(ea_wait_us(client) >= 0 && ea_wait_us(client) <= 2000, "another attempt");
    OK(ea_cancel(client, ids[1]));
    OK(ea_pump(client, -1));
    cr_assert(answered == 1 && answer_status == EA_CANCELLED);
    empty_backlog();
    while (ea_fd(client) < 0)
        OK(ea_pump(client, 1000));
    int fd = accept(listener, NULL, NULL);
    OK(ea_pump(client, 0));
    struct fake_daemon d = {.instance = 7, .body_bytes_max = 1 << 20, .in_flight_max = 4};
    cr_assert(fake_hello(&d, fd));
    OK(ea_pump(client, 0)); /* takes Hello's answer */
    OK(ea_pump(client, 0)); /* and sends what waited for it */
    struct fake_request *r = calloc(1, sizeof *r);
    static uint8_t frame[4096];
    cr_assert(fake_read(fd, r));
    cr_assert_eq(r->header.kind, OPERATION_PING);
    cr_assert(fake_write(fd, frame, fake_answer(r, frame, sizeof frame)));
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(answered == 2 && answer_status == EA_OK);
    cr_assert_eq(ea_wait_us(client), -1);
    free(r->body);
    free(r);
    close(fd);
    close(listener);
    ea_close(client);
}

Test(cancel, send_of_a_name_that_was_not_looked_up)
{
    ea_options o = {.tcp_host = "localhost", .tcp_port = 1};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    cr_assert_eq(ea_ping_send(client, NULL, NULL), EA_FAILED_PRECONDITION);
    cr_assert(strstr(ea_error_text(client), "ea_connect"));
    ea_close(client);
    o.tcp_host = "127.0.0.1"; /* nobody listens: found at once, or while pumping */
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    const ea_send_options how = {.callback = note};
    ea_status st = ea_ping_send(client, &how, NULL);
    if (st == EA_OK) {
        while (ea_pending(client))
            st = ea_pump(client, -1);
        cr_assert(answered == 1 && answer_status == EA_UNAVAILABLE);
    }
    cr_assert_eq(st, EA_UNAVAILABLE);
    ea_close(client);
}

/* ---- sent requests, many threads ---- */

static _Atomic uint64_t newest;

static void *cancel_some(void *user)
{
    uint64_t seed = (uint64_t)(uintptr_t)user;
    while (!atomic_load(&over)) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        uint64_t back = seed >> 60, id = atomic_load(&newest);
        (void)ea_cancel_from_thread(client, id > back ? id - back : id);
        usleep(10);
    }
    return NULL;
}

Test(cancel, of_sent_requests_by_many_threads)
{
    enum { THREADS = 3, ROUNDS = 200, EACH = 8 };
    begin(serve_cancels);
    pthread_t threads[THREADS];
    answered = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, cancel_some, (void *)(i + 1)), 0);
    const ea_send_options how = {.callback = note};
    for (unsigned i = 0; i < ROUNDS; i++) { /* no kNN is answered unless it is cancelled */
        for (unsigned j = 0; j < EACH; j++) {
            uint64_t id;
            OK(j % 2 ? ea_knn_send(client, &question, &how, &id) : ea_ping_send(client, &how, &id));
            atomic_store(&newest, id);
        }
        while (ea_pending(client))
            OK(ea_pump(client, -1));
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(answered, ROUNDS * EACH);
    end();
}
