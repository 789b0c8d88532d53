/* Frames that say how far a request is: what the client asks for, whom it calls back, and what it
 * does with such frames that are wrong. */
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <pb_encode.h>

#include "client/engram_accel.h"
#include "proto/engram_accel.pb.h"
#include "tests/support/fake_daemon.h"

TestSuite(progress, .timeout = 120);

static struct fake_daemon daemon_;
static ea_client *client;
static const float matrix[4] = {1, 2, 3, 4};
static const ea_knn_question question = {
    .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4, .k = 3};
static atomic_uint heard, flags;
static ea_progress_report last;

static void begin(void (*script)(struct fake_daemon *d, int fd), unsigned argument,
                  uint64_t features)
{
    daemon_ = (struct fake_daemon){.features = features, .argument = argument};
    fake_start(&daemon_, script);
    ea_options o = {.socket_path = daemon_.path, .timeout_us = EA_NO_TIMEOUT};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static void end(void)
{
    ea_close(client);
    fake_stop(&daemon_);
}

static bool hear(ea_client *c, const ea_progress_report *report, void *user)
{
    cr_assert(c == client);
    last = *report;
    atomic_fetch_add(&heard, 1);
    return user == NULL;
}

static bool tell(int fd, const struct fake_request *r, uint64_t id, uint64_t done, uint64_t total)
{
    const struct wire_progress said = {.view = {PROGRESS_MERGES, done, total},
                                       .elapsed_ns = 2000000,
                                       .foreseen_ns = 3000000,
                                       .backend = BACKEND_CPU};
    uint8_t frame[ENCODE_PROGRESS_BYTES];
    return fake_write(fd, frame, encode_progress(r->header.kind, id, &said, frame));
}

static void wait_heard(unsigned count)
{
    while (atomic_load(&heard) < count && !atomic_load(&daemon_.stopping))
        usleep(100);
}

/* Frames about nobody, then two about the request, each after the last one was heard of; then the
 * answer, and one frame too late. */
static void tell_twice(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[4096];
    if (!fake_hello(d, fd)) return;
    while (fake_read(fd, &r)) {
        atomic_store(&flags, r.header.flags);
        uint64_t id = r.header.request_id;
        tell(fd, &r, id + 1, 1, 10);
        tell(fd, &r, 0, 1, 10);
        if (r.header.flags) {
            unsigned before = atomic_load(&heard);
            tell(fd, &r, id, 1, 10);
            wait_heard(before + 1);
            tell(fd, &r, id, 5, 0);
            wait_heard(before + 2);
        } else {
            tell(fd, &r, id, 1, 10); /* it did not ask */
        }
        fake_write(fd, frame, fake_answer(&r, frame, sizeof frame));
        tell(fd, &r, id, 9, 10);
    }
}

Test(progress, of_blocking_calls)
{
    begin(tell_twice, 0, FEATURE_PROGRESS);
    ea_result result = {0};
    cr_assert_eq(ea_knn(client, &question, &result), EA_OK, "%s", ea_error_text(client));
    cr_assert(atomic_load(&flags) == 0 && atomic_load(&heard) == 0);
    cr_assert_eq(ea_on_progress(client, hear, NULL), EA_OK);
    cr_assert_eq(ea_knn(client, &question, &result), EA_OK, "%s", ea_error_text(client));
    cr_assert(atomic_load(&flags) == FRAME_FLAG_PROGRESS && atomic_load(&heard) == 2);
    cr_assert(last.phase == EA_PHASE_MERGES && last.done == 5 && last.total == 0);
    cr_assert(last.elapsed_us == 2000 && last.foreseen_us == 3000);
    cr_assert_str_eq(last.operation, "knn");
    cr_assert_str_eq(ea_phase_name(last.phase), "merges");
    cr_assert_eq(last.backend, EA_BACKEND_CPU);
    ea_on_progress(client, NULL, NULL);
    cr_assert_eq(ea_knn(client, &question, &result), EA_OK, "%s", ea_error_text(client));
    cr_assert(atomic_load(&flags) == 0 && atomic_load(&heard) == 2);
    ea_result_free(&result);
    end();
}

static void answered(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert(c == client && user == NULL && answer->status == EA_OK);
}

Test(progress, of_requests_that_are_sent)
{
    begin(tell_twice, 0, FEATURE_PROGRESS);
    cr_assert_eq(ea_connect(client), EA_OK);
    const ea_send_options how = {.callback = answered, .progress = hear};
    cr_assert_eq(ea_knn_send(client, &question, &how, NULL), EA_OK);
    while (ea_pending(client))
        cr_assert_eq(ea_pump(client, -1), EA_OK, "%s", ea_error_text(client));
    cr_assert(atomic_load(&heard) == 2 && last.done == 5);
    end();
}

Test(progress, an_old_daemon_is_not_asked)
{
    begin(tell_twice, 0, 0);
    ea_result result = {0};
    ea_on_progress(client, hear, NULL);
    cr_assert_eq(ea_knn(client, &question, &result), EA_OK, "%s", ea_error_text(client));
    cr_assert_eq(atomic_load(&flags), 0);
    ea_result_free(&result);
    end();
}

/* Answers a request only when it is cancelled. */
static void until_cancelled(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[4096];
    const struct failure f = {.code = STATUS_CANCELLED, .detail = DETAIL_CANCELLED_BY_CLIENT};
    if (!fake_hello(d, fd) || !fake_read(fd, &r)) return;
    uint64_t id = r.header.request_id;
    tell(fd, &r, id, 1, 10);
    if (!fake_read(fd, &r) || r.header.kind != OPERATION_CANCEL) return;
    fake_write(fd, frame, fake_answer(&r, frame, sizeof frame));
    fake_write(fd, frame, encode_error(OPERATION_KNN, id, &f, frame));
    while (fake_read(fd, &r)) {
    }
}

Test(progress, a_callback_may_end_it)
{
    begin(until_cancelled, 0, FEATURE_PROGRESS);
    ea_result result = {0};
    ea_on_progress(client, hear, &result);
    cr_assert_eq(ea_knn(client, &question, &result), EA_CANCELLED);
    cr_assert_eq(atomic_load(&heard), 1);
    end();
}

/* The first connection's frames are bent as `argument` says. */
static void bend(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[4096];
    if (atomic_load(&d->connections) > 1) {
        fake_serve(d, fd);
        return;
    }
    if (!fake_hello(d, fd) || !fake_read(fd, &r)) return;
    struct wire_progress said = {.view = {PROGRESS_MERGES, 3, 10}};
    if (d->argument == 0) said.view.done = 11;
    size_t n = encode_progress(r.header.kind, r.header.request_id, &said, frame);
    if (d->argument == 1) memset(frame + FRAME_HEADER_BYTES, 0xff, 4); /* no message */
    if (d->argument == 2) frame[24] = 64;                              /* a body */
    if (d->argument == 3) frame[6] |= FRAME_FLAG_ERROR;
    if (d->argument == 4) frame[5]++; /* another kind: of nobody's request */
    if (d->argument == 5) frame[6] = FRAME_FLAG_PROGRESS;
    fake_write(fd, frame, n);
    do
        fake_write(fd, frame, fake_answer(&r, frame, sizeof frame));
    while (fake_read(fd, &r));
}

Test(progress, frames_that_are_wrong)
{
    for (unsigned i = 0; i <= 5; i++) {
        ea_result result = {0};
        begin(bend, i, FEATURE_PROGRESS);
        ea_on_progress(client, hear, NULL);
        ea_status st = ea_knn(client, &question, &result);
        cr_assert_eq(st, i == 4 ? EA_OK : EA_DATA_LOSS, "%u: %s", i, ea_error_text(client));
        cr_assert_eq(atomic_load(&heard), 0);
        cr_assert_eq(ea_knn(client, &question, &result), EA_OK);
        ea_result_free(&result);
        end();
    }
}
