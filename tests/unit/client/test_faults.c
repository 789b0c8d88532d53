/* The client against a daemon that is slow, broken, hostile or gone. */
#include "client/engram_accel.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "tests/unit/client/faults_rig.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

TestSuite(faults, .timeout = 900);

/* ---- order and pieces ---- */

Test(faults, replies_in_any_order)
{
    begin(fake_serve_backwards, 300000);
    uint64_t ids[3], order[3];
    callbacks = 0;
    for (int i = 0; i < 3; i++)
        OK(ea_knn_send(client,
                       &(ea_knn_question){.collection = "rows",
                                          .queries = matrix,
                                          .query_count = (uint64_t)i + 1,
                                          .dimension = 4,
                                          .k = 3},
                       &(ea_send_options){.callback = note_callback, .user = &order[i]}, &ids[i]));
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert_eq(callbacks, 3);
    cr_assert_arr_eq(order, ids, sizeof ids);
    end();
}

Test(faults, replies_cut_at_every_byte)
{
    begin(fake_serve_split, 300000);
    ea_result r = {0};
    for (unsigned i = 0; i < 400; i++) {
        OK(ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4, .k = 3},
            &r));
        cr_assert(r.rows == 2 && r.columns == 3 && r.ids[5] == 5 && r.scores[5] == 0.5F);
        OK(ea_ping(client));
    }
    ea_result_free(&r);
    end();
}

/* ---- time ---- */

/* Hello, and an answer to the first request: then the client is connected, and what a test gives it
 * little time for is not that. */
static bool greet(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    bool well = fake_hello(d, fd) && fake_read(fd, r) &&
                fake_write(fd, frame, fake_answer(r, frame, FRAME_MAX));
    free(r->body);
    free(frame);
    free(r);
    return well;
}

/* Starts a daemon whose script begins with greet; from now on there is so much time. */
static void begin_greeted(void (*script)(struct fake_daemon *d, int fd), uint32_t timeout_ms)
{
    begin(script, 300000);
    OK(ea_ping(client));
    ea_set_timeout(client, timeout_ms * UINT64_C(1000));
}

static void answer_nothing(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    bool first = atomic_load(&d->connections) == 1; /* whose first request is answered */
    if (d->argument == 0 || (first ? greet(d, fd) : fake_hello(d, fd)))
        while (fake_read(fd, r))
            if (r->header.kind == OPERATION_CANCEL) d->argument++;
    free(r->body);
    free(r);
}

Test(faults, nobody_answers)
{
    daemon_.argument = 1;
    begin_greeted(answer_nothing, 60);
    double start = now();
    cr_assert_eq(ea_ping(client), EA_DEADLINE_EXCEEDED);
    double took = now() - start;
    cr_assert(took > 0.05, "%f", took); /* longer on a slow machine, never shorter */
    cr_assert(ea_error_retryable(client));
    cr_assert_neq(ea_fd(client), -1, "the connection stays");
    callbacks = 0;
    OK(ea_knn_send(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4, .k = 1},
        &(ea_send_options){.callback = note_callback, .timeout_us = 30000}, NULL));
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert_eq(last_status, EA_DEADLINE_EXCEEDED);
    cr_assert_eq(callbacks, 1);
    ea_set_timeout(client, 5000);
    unsigned lost = 0;
    for (unsigned i = 0; i < 300; i++) { /* a daemon that never answers is given up at last */
        cr_assert_eq(ea_ping(client), EA_DEADLINE_EXCEEDED);
        lost += ea_fd(client) < 0;
    }
    cr_assert(lost >= 1);
    end();
    cr_assert(daemon_.argument > 2, "cancels were sent");
}

Test(faults, nobody_says_hello)
{
    daemon_.argument = 0;
    fake_start(&daemon_, answer_nothing);
    ea_options o = {.socket_path = daemon_.path, .connect_timeout_us = 50000};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    cr_assert(strstr(ea_error_text(client), "no Hello"));
    end();
}

/* Too late: the answer to request n comes with that to n + 1. */
static void answer_late(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(2, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    if (greet(d, fd) && fake_read(fd, &r[0]) && fake_read(fd, &r[1])) {
        /* r[1] is the Cancel. First its answer, then the late one. */
        fake_write(fd, frame, fake_answer(&r[1], frame, FRAME_MAX));
        fake_write(fd, frame, fake_answer(&r[0], frame, FRAME_MAX));
        while (fake_read(fd, &r[1]))
            if (!fake_write(fd, frame, fake_answer(&r[1], frame, FRAME_MAX))) break;
    }
    free(r[0].body);
    free(r[1].body);
    free(frame);
    free(r);
}

Test(faults, late_answers_are_dropped)
{
    begin_greeted(answer_late, 40);
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = matrix, .query_count = 5, .dimension = 4, .k = 3},
            &r),
        EA_DEADLINE_EXCEEDED);
    cr_assert_null(r.memory);
    ea_set_timeout(client, 300000000);
    OK(ea_ping(client));
    OK(ea_knn(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4, .k = 3},
        &r));
    cr_assert_eq(r.rows, 2);
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    ea_result_free(&r);
    end();
}

static void answer_half_a_body(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    if ((d->argument ? greet(d, fd) : fake_hello(d, fd)) && fake_read(fd, r)) {
        size_t n = fake_answer(r, frame, FRAME_MAX);
        fake_write(fd, frame, n - 64);
        struct fake_request cancel = {0};
        if (d->argument && fake_read(fd, &cancel)) { /* the rest when the client has given up */
            fake_write(fd, frame + n - 64, 64);
            fake_write(fd, frame, fake_answer(&cancel, frame, FRAME_MAX));
            while (fake_read(fd, r))
                if (!fake_write(fd, frame, fake_answer(r, frame, FRAME_MAX))) break;
        }
    }
    free(r->body);
    free(frame);
    free(r);
}

Test(faults, deadline_in_the_middle_of_a_body)
{
    daemon_.argument = 1;
    begin_greeted(answer_half_a_body, 40);
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = matrix, .query_count = 5, .dimension = 4, .k = 3},
            &r),
        EA_DEADLINE_EXCEEDED);
    ea_set_timeout(client, 300000000);
    OK(ea_knn(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4, .k = 3},
        &r));
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    ea_result_free(&r);
    end();
}

Test(faults, connection_lost_in_the_middle_of_a_body)
{
    begin(answer_half_a_body, 300000);
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = matrix, .query_count = 5, .dimension = 4, .k = 3},
            &r),
        EA_UNAVAILABLE);
    cr_assert(strstr(ea_error_text(client), "closed"));
    cr_assert_null(r.memory);
    cr_assert_eq(atomic_load(&daemon_.connections), 2, "it was repeated once");
    end();
}

/* Stops reading in the middle of a request. */
static void read_nothing(struct fake_daemon *d, int fd)
{
    if (greet(d, fd))
        while (!atomic_load(&d->stopping))
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

Test(faults, half_a_request_costs_the_connection)
{
    begin_greeted(read_nothing, 50);
    enum { N = 4000, D = 256 };
    float *rows = calloc((size_t)N * D, 4);
    callbacks = 0;
    OK(ea_ping_send(client, &(ea_send_options){.callback = note_callback}, NULL));
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(client,
               &(ea_knn_question){
                   .collection = "rows", .queries = rows, .query_count = N, .dimension = D, .k = 1},
               &r),
        EA_DEADLINE_EXCEEDED);
    cr_assert_eq(ea_fd(client), -1);
    ea_pump(client, 0);
    cr_assert_eq(callbacks, 1);
    free(rows);
    atomic_store(&daemon_.stopping, true);
    end();
}

/* Answers what it has not read to the end, and stops in the middle of that too. */
static void answer_half_a_request(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[FRAME_MAX];
    if (!greet(d, fd)) return;
    uint8_t bytes[4096];
    for (size_t got = 0; got < sizeof bytes;) {
        ssize_t n = recv(fd, bytes + got, sizeof bytes - got, 0);
        if (n <= 0) return;
        got += (size_t)n;
    }
    if (!frame_read(bytes, UINT64_MAX, &r.header)) return;
    memcpy(r.message, bytes + FRAME_HEADER_BYTES, r.header.message_bytes);
    size_t n = fake_answer(&r, frame, FRAME_MAX);
    fake_write(fd, frame, n - 64);
    while (!atomic_load(&d->stopping))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* The rest of the request must not be sent from arrays that are the caller's again. */
Test(faults, half_an_answer_to_half_a_request)
{
    begin_greeted(answer_half_a_request, 50);
    enum { N = 3000, D = 256 };
    float *queries = calloc((size_t)N * D, 4);
    ea_result r = {0};
    cr_assert_eq(
        ea_knn(
            client,
            &(ea_knn_question){
                .collection = "rows", .queries = queries, .query_count = N, .dimension = D, .k = 1},
            &r),
        EA_DEADLINE_EXCEEDED, "%s", ea_error_text(client));
    free(queries);
    cr_assert_eq(ea_fd(client), -1, "framing is lost with half a request out");
    cr_assert_eq(ea_pump(client, 0), EA_OK);
    atomic_store(&daemon_.stopping, true);
    end();
}

Test(faults, room_for_two)
{
    daemon_.in_flight_max = 2;
    begin(fake_serve, 300000);
    callbacks = errors = 0;
    for (int i = 0; i < 200; i++)
        OK(ea_ping_send(client, &(ea_send_options){.callback = note_callback}, NULL));
    while (ea_pending(client))
        OK(ea_pump(client, -1));
    cr_assert(callbacks == 200 && errors == 0);
    end();
}

/* ---- signals ---- */

static void on_alarm(int number) {}

Test(faults, signals_change_nothing)
{
    struct sigaction a = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &a, NULL);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, NULL);
    begin(fake_serve, 10000);
    float *rows = calloc(2000, 1024);
    uint64_t *ids = calloc(2000, 8);
    for (int i = 0; i < 20; i++) {
        OK(ea_upsert(
            client,
            &(ea_rows){
                .collection = "rows", .ids = ids, .rows = rows, .count = 2000, .dimension = 256},
            NULL));
        OK(ea_ping(client));
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    free(rows);
    free(ids);
    end();
}
