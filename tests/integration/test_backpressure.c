/* What a connection may and may not do while the daemon makes it wait: before Hello, at its bound
 * on requests in flight, and while its output is not read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/endless.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

enum { ROWS = 20000, DIMENSION = 256 };

/* Makes collection "work". */
static void fill(ea_client *c)
{
    float *rows = malloc((size_t)ROWS * DIMENSION * 4);
    uint64_t *ids = malloc((size_t)ROWS * 8);
    reference_fill(1, rows, (size_t)ROWS * DIMENSION);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "work", DIMENSION, EA_DOT, NULL), EA_OK);
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "work",
                                      .ids = ids,
                                      .rows = rows,
                                      .count = ROWS,
                                      .dimension = DIMENSION},
                           NULL),
                 EA_OK);
    free(ids);
    free(rows);
}

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    *(ea_status *)user = answer->status;
}

static void send_head(int fd, uint8_t kind, uint64_t id, const void *message, uint32_t bytes,
                      uint64_t body_bytes)
{
    uint8_t head[512] = {0};
    struct frame_header h = {
        .kind = kind, .request_id = id, .message_bytes = bytes, .body_bytes = body_bytes};
    frame_write(&h, head);
    if (bytes) memcpy(head + FRAME_HEADER_BYTES, message, bytes);
    cr_assert(raw_send(fd, head, frame_body_offset(&h)));
}

/* Who has not said Hello gets no memory for a body, and an answer before the body comes. */
Test(backpressure, a_body_before_hello_takes_no_memory)
{
    enum { COUNT = 8 };
    struct scene s;
    scene_open(&s, NULL);
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = raw_connect(&s.daemon);
        send_head(fds[i], i % 2 ? OPERATION_HELLO : OPERATION_NORMS, 7, NULL, 0, 60 << 20);
    }
    ea_info info;
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(ea_get_info(s.witness, &info), EA_OK);
        cr_assert(info.memory_bytes_used < 8 << 20, "%llu bytes for nobody",
                  (unsigned long long)info.memory_bytes_used);
        wait_ms(5);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 2)
            expect_error(fds[i], 7, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH, "body");
        else
            expect_error(fds[i], 7, STATUS_FAILED_PRECONDITION, DETAIL_HELLO_REQUIRED, "Hello");
        expect_closed(fds[i]);
        close(fds[i]);
    }
    scene_close(&s);
}

/* As many in flight as allowed: what may still come is the cancel of one of them. */
Test(backpressure, a_cancel_passes_the_bound_on_requests_in_flight)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", "limits.requests_in_flight=1", NULL});
    ea_client *c = scene_client(&s, "asker");
    struct endless w;
    endless_make(&w, c);
    ea_status status = EA_UNKNOWN;
    uint64_t id = endless_ask(&w, c, note, &status, 0);
    cr_assert_eq(ea_cancel(c, id), EA_OK);
    while (ea_pending(c))
        ea_pump(c, -1);
    cr_assert_eq(status, EA_CANCELLED, "the cancel waited for what it should cancel");
    endless_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

/* A connection that goes on when one of its requests ends must not wait for those of others. */
Test(backpressure, a_resumed_connection_runs_beside_others)
{
    enum { SMALL = 60, LARGE = 2 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=2", "limits.requests_in_flight=2", NULL});
    scene_make_rows(&s);
    ea_client *c[LARGE] = {scene_client(&s, "asker"), scene_client(&s, "asker")};
    ea_client *observer = scene_client(&s, "observer");
    struct endless w;
    endless_make(&w, c[0]);
    ea_status status[LARGE] = {EA_UNKNOWN, EA_UNKNOWN};
    uint64_t ids[LARGE];
    for (int i = 0; i < LARGE; i++) {
        ids[i] = endless_ask(&w, c[i], note, &status[i], 0);
        endless_arrive(c[i]);
    }
    int fd = scene_connect(&s);
    struct sample knn;
    sample_find("knn", &knn);
    for (uint64_t id = 1; id <= SMALL; id++)
        send_sample(fd, &knn, id);
    for (int i = 0; i < SMALL; i++) {
        struct frame_header h;
        static uint8_t message[65536];
        void *body = NULL;
        cr_assert(raw_receive_frame(fd, &h, message, &body));
        cr_assert_eq(h.flags, FRAME_FLAG_REPLY);
        free(body);
    }
    cr_assert_eq(endless_arrive(observer), LARGE, "they ran after the others, not beside them");
    close(fd);
    for (int i = 0; i < LARGE; i++) {
        cr_assert_eq(ea_cancel(c[i], ids[i]), EA_OK);
        while (ea_pending(c[i]))
            ea_pump(c[i], -1);
        cr_assert_eq(status[i], EA_CANCELLED);
    }
    endless_free(&w, c[0]);
    ea_close(c[0]);
    ea_close(c[1]);
    ea_close(observer);
    scene_close(&s);
}

/* One reply may be larger than what a client may leave unread: it is what the client asked for. */
Test(backpressure, one_large_reply_is_no_pile)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.output_mib=1", NULL});
    ea_client *c = scene_client(&s, "hostile");
    fill(c); /* 20 MB */
    int fd = scene_connect(&s);
    struct sample fetch;
    sample_find("fetch_range", &fetch);
    strcpy(fetch.message.fetch.collection, "work");
    fetch.message.fetch.offset = 0;
    fetch.message.fetch.limit = ROWS;
    send_sample(fd, &fetch, 1);
    wait_ms(400); /* several looks at the clock */
    expect_reply(fd, 1);
    expect_alive(fd);
    close(fd);
    cr_assert_eq(ea_collection_drop(c, "work"), EA_OK);
    ea_close(c);
    scene_close(&s);
}
