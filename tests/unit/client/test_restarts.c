/* The client and a daemon that is gone, or goes and comes back. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <criterion/criterion.h>

#include "tests/unit/client/faults_rig.h"

TestSuite(restarts, .timeout = 900);

Test(restarts, nobody_there)
{
    ea_options o = {.socket_path = "/tmp/engram-nobody.sock"};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    cr_assert(ea_error_retryable(client));
    cr_assert(strstr(ea_error_text(client), "/tmp/engram-nobody.sock"));
    cr_assert_eq(ea_ping_send(client, &(ea_send_options){.callback = note_callback}, NULL),
                 EA_UNAVAILABLE);
    cr_assert_eq(ea_pending(client), 0);
    ea_close(client);
    o = (ea_options){.tcp_host = "127.0.0.1", .tcp_port = 1};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    ea_close(client);
    o.tcp_host = "not a host";
    cr_assert_eq(ea_open(&o, &client), EA_OK);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    ea_close(client);
}

/* Serves `argument` requests, then closes. */
static void serve_some(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    if (fake_hello(d, fd))
        for (unsigned i = 0; i < d->argument && fake_read(fd, r); i++)
            if (!fake_write(fd, frame, fake_answer(r, frame, FRAME_MAX))) break;
    free(r->body);
    free(frame);
    free(r);
}

Test(restarts, a_restart_is_survived)
{
    daemon_.argument = 1;
    begin(serve_some, 300000);
    for (unsigned i = 0; i < 5; i++)
        OK(ea_ping(client)); /* each finds a dead connection */
    cr_assert_eq(atomic_load(&daemon_.connections), 5);
    cr_assert_eq(ea_instance(client), 1);
    fake_stop(&daemon_);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    daemon_.instance = 2;
    daemon_.argument = 2;
    fake_restart(&daemon_);
    OK(ea_ping(client));
    cr_assert_eq(ea_instance(client), 2);
    /* The connection has one request left; create is sent on it, drop on the next. */
    OK(ea_collection_create(client, "rows", 4, EA_DOT, NULL));
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    OK(ea_collection_drop(client, "rows"));
    end();
}

static void close_after_reading(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    if (fake_hello(d, fd)) fake_read(fd, r);
    free(r->body);
    free(r);
}

Test(restarts, what_cannot_be_repeated_is_not)
{
    begin(close_after_reading, 300000);
    cr_assert_eq(ea_collection_create(client, "rows", 4, EA_DOT, NULL), EA_UNAVAILABLE);
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE);
    cr_assert_eq(atomic_load(&daemon_.connections), 3, "a ping is repeated once, not for ever");
    callbacks = errors = 0;
    for (int i = 0; i < 4; i++)
        OK(ea_ping_send(client, &(ea_send_options){.callback = note_callback}, NULL));
    ea_status st = EA_OK;
    while (ea_pending(client))
        st = ea_pump(client, -1);
    cr_assert_eq(st, EA_UNAVAILABLE);
    cr_assert(callbacks == 4 && errors == 4);
    cr_assert_eq(last_status, EA_UNAVAILABLE);
    end();
}

static unsigned refusals; /* of each connection */

/* Says that another daemon takes its place, and then closes; later connections are that one's.
 * argument: for how many connections it says so. */
static void give_place(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(FRAME_MAX);
    struct failure f;
    failure_set(&f, STATUS_UNAVAILABLE, DETAIL_RESTARTING, "connect again");
    bool says = atomic_load(&d->connections) <= d->argument;
    unsigned left = refusals;
    for (bool good = fake_hello(d, fd); good && fake_read(fd, r);) {
        size_t n = says ? encode_error(r->header.kind, r->header.request_id, &f, frame)
                        : fake_answer(r, frame, FRAME_MAX);
        good = fake_write(fd, frame, n) && !(says && --left == 0);
    }
    free(r->body);
    free(r);
    free(frame);
}

static void begin_giving(unsigned times)
{
    daemon_ = (struct fake_daemon){.argument = times};
    refusals = 1;
    begin(give_place, 300000);
}

Test(restarts, what_can_be_repeated_waits_for_the_successor)
{
    ea_write w = {.token = {1}};
    begin_giving(1);
    OK(ea_ping(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
    begin_giving(1);
    ea_set_timeout(client, EA_NO_TIMEOUT);
    OK(ea_ping(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
    begin_giving(1);
    OK(ea_next_write(client, &w));
    OK(ea_collection_create(client, "rows", 4, EA_DOT, NULL));
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
    begin_giving(1);
    cr_assert_eq(ea_collection_create(client, "rows", 4, EA_DOT, NULL), EA_UNAVAILABLE);
    cr_assert_eq(ea_error_detail(client), EA_DETAIL_RESTARTING);
    cr_assert(ea_error_retryable(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    end();
    begin_giving(2);
    cr_assert_eq(ea_ping(client), EA_UNAVAILABLE); /* once */
    cr_assert_eq(ea_error_detail(client), EA_DETAIL_RESTARTING);
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
}

/* One that is a single request, and one of several, of which some are refused and others lost. */
Test(restarts, an_upload_waits_for_the_successor)
{
    enum { N = 40000, D = 256 };
    float *rows = calloc((size_t)N * D, 4);
    uint64_t *ids = calloc(N, 8);
    ea_rows all = {.collection = "rows", .ids = ids, .rows = rows, .count = 1, .dimension = D};
    ea_write w = {.token = {1}};
    begin_giving(1);
    OK(ea_upsert(client, &all, NULL));
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
    begin_giving(1);
    all.write = &w;
    OK(ea_upsert(client, &all, NULL));
    cr_assert_eq(atomic_load(&daemon_.connections), 2);
    end();
    all.write = NULL;
    for (unsigned told = 1; told <= 2; told++) {
        daemon_ = (struct fake_daemon){.argument = 1};
        refusals = told;
        begin(give_place, 20000);
        all.count = N;
        ea_upsert_counts counts;
        OK(ea_upsert(client, &all, &counts));
        cr_assert_eq(atomic_load(&daemon_.connections), 2);
        cr_assert_geq(counts.inserted, N);
        end();
    }
    begin_giving(2);
    all.count = 1;
    cr_assert_eq(ea_upsert(client, &all, NULL), EA_UNAVAILABLE); /* once */
    cr_assert_eq(ea_error_detail(client), EA_DETAIL_RESTARTING);
    end();
    free(rows);
    free(ids);
}

/* Answers two uploads, then restarts as somebody else. */
static void forget(struct fake_daemon *d, int fd)
{
    d->argument = 2;
    serve_some(d, fd);
    d->instance++;
}

Test(restarts, a_restart_within_an_upload_is_told)
{
    enum { N = 40000, D = 256 };
    begin(forget, 20000);
    float *rows = calloc((size_t)N * D, 4);
    uint64_t *ids = calloc(N, 8);
    ea_upsert_counts counts;
    cr_assert_eq(
        ea_upsert(
            client,
            &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = N, .dimension = D},
            &counts),
        EA_UNAVAILABLE);
    cr_assert(strstr(ea_error_text(client), "restarted"), "%s", ea_error_text(client));
    free(rows);
    free(ids);
    end();
}

/* Serves three requests a connection: an upload finds its way. */
Test(restarts, an_upload_survives_a_lost_connection)
{
    enum { N = 20000, D = 256 };
    daemon_.argument = 3;
    begin(serve_some, 20000);
    float *rows = calloc((size_t)N * D, 4);
    uint64_t *ids = calloc(N, 8);
    ea_upsert_counts counts;
    OK(ea_upsert(
        client,
        &(ea_rows){.collection = "rows", .ids = ids, .rows = rows, .count = N, .dimension = D},
        &counts));
    cr_assert(counts.inserted >= N);
    free(rows);
    free(ids);
    end();
}
