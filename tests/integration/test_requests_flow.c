/* Requests in time: many at once, answered in any order, cancelled, too late, deserted. */
#include <criterion/criterion.h>
#include <pb_encode.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/sets.h"

/* A tenth of a second or more on one worker, in many parts: q x n x d products. */
enum { SLOW_ROWS = 20000, SLOW_DIMENSION = 512 };
#define SLOW_QUERIES ((uint64_t)(500 / scaled_ms(1)))

struct slow {
    float *rows, *queries;
    uint64_t *ids;
};

static void slow_make(struct slow *w, ea_client *c)
{
    w->rows = malloc((size_t)SLOW_ROWS * SLOW_DIMENSION * 4);
    w->queries = malloc((size_t)SLOW_QUERIES * SLOW_DIMENSION * 4);
    w->ids = malloc(SLOW_ROWS * 8);
    reference_fill(1, w->rows, (size_t)SLOW_ROWS * SLOW_DIMENSION);
    reference_fill(2, w->queries, (size_t)SLOW_QUERIES * SLOW_DIMENSION);
    for (uint64_t i = 0; i < SLOW_ROWS; i++)
        w->ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "slow", SLOW_DIMENSION, EA_SQUARED_EUCLIDEAN, NULL),
                 EA_OK);
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "slow",
                                      .ids = w->ids,
                                      .rows = w->rows,
                                      .count = SLOW_ROWS,
                                      .dimension = SLOW_DIMENSION},
                           NULL),
                 EA_OK, "%s", ea_error_text(c));
}

static void slow_free(struct slow *w, ea_client *c)
{
    cr_assert_eq(ea_collection_drop(c, "slow"), EA_OK, "%s", ea_error_text(c));
    free(w->rows);
    free(w->queries);
    free(w->ids);
}

/* What became of one request. */
struct ending {
    int times;
    ea_status status;
    int64_t at_ms;
    int order;
    char text[128];
};
static int endings;

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct ending *e = user;
    e->times++;
    e->status = answer->status;
    e->at_ms = now_ms();
    e->order = endings++;
    strncpy(e->text, answer->status ? ea_error_text(c) : "", sizeof e->text - 1);
}

static uint64_t ask_slow(ea_client *c, const struct slow *w, uint64_t queries, uint32_t timeout_ms,
                         struct ending *e)
{
    uint64_t id = 0;
    cr_assert_eq(ea_knn_send(c,
                             &(ea_knn_question){.collection = "slow",
                                                .queries = w->queries,
                                                .query_count = queries,
                                                .dimension = SLOW_DIMENSION,
                                                .k = 5},
                             &(ea_send_options){.callback = note,
                                                .user = e,
                                                .timeout_us = timeout_ms * UINT64_C(1000)},
                             &id),
                 EA_OK, "%s", ea_error_text(c));
    return id;
}

static void pump_until(ea_client *c, const struct ending *e)
{
    int64_t until = give_up_ms();
    while (!e->times) {
        cr_assert(now_ms() < until, "no answer");
        ea_pump(c, 100000);
    }
}

/* ---------------------------------------------------------------- order */

Test(requests_flow, replies_overtake)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    struct slow w;
    slow_make(&w, c);
    struct ending slow = {0}, quick[20] = {{0}};
    ask_slow(c, &w, SLOW_QUERIES, 0, &slow);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(ea_ping_send(c, &(ea_send_options){.callback = note, .user = &quick[i]}, NULL),
                     EA_OK);
    pump_until(c, &slow);
    for (int i = 0; i < 20; i++)
        cr_assert(quick[i].times == 1 && quick[i].order < slow.order, "a ping waited for a kNN");
    cr_assert_eq(slow.status, EA_OK, "%s", slow.text);
    slow_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

/* Hundreds at once on one connection, each answer right for its own question. */
struct question {
    const struct set *set;
    size_t query;
    int times;
};

static void compare(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct question *q = user;
    const struct reference_rows *all = &q->set->all;
    q->times++;
    cr_assert_eq(status, EA_OK, "%s", ea_error_text(c));
    uint64_t ids[8];
    float scores[8];
    uint32_t k = 1 + (uint32_t)(q->query % 8);
    cr_assert_eq(r->columns, k);
    size_t hits =
        reference_knn(all, q->set->queries + q->query * all->dimension, k, NULL, NULL, ids, scores);
    for (size_t i = 0; i < hits; i++) {
        cr_assert_eq(r->ids[i], ids[i]);
        cr_assert(reference_same(r->scores[i], scores[i]));
    }
}

Test(requests_flow, many_at_once)
{
    enum { COUNT = 600 };
    struct scene s;
    scene_open(&s, (const char *[]){"limits.requests_in_flight=64", NULL});
    ea_client *c = scene_client(&s, "asker");
    struct set t;
    set_make(&t, 64, EA_COSINE, 400, COUNT);
    set_send(&t, c);
    static struct question questions[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        questions[i] = (struct question){&t, i, 0};
        cr_assert_eq(ea_knn_send(c,
                                 &(ea_knn_question){.collection = t.name,
                                                    .queries = t.queries + i * 64,
                                                    .query_count = 1,
                                                    .dimension = 64,
                                                    .k = 1 + (uint32_t)(i % 8)},
                                 &(ea_send_options){.callback = compare, .user = &questions[i]},
                                 NULL),
                     EA_OK, "%s", ea_error_text(c));
    }
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(questions[i].times, 1);
    set_free(&t);
    ea_close(c);
    scene_close(&s);
}

/* Upserts and questions on one connection pass in order: each answer knows what came before. */
static void expect_version(ea_client *c, const ea_answer *answer, void *user)
{
    const ea_result *r = answer->result;
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    const uint64_t *want = user;
    cr_assert_eq(r->meta->version, *want);
    cr_assert_eq(r->ids[0], *want, "the newest row is the nearest");
}

Test(requests_flow, writes_and_reads_keep_their_order)
{
    enum { ROUNDS = 100, D = 8 };
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    ea_collection_info info;
    cr_assert_eq(ea_collection_create(c, "log", D, EA_DOT, &info), EA_OK);
    static float rows[ROUNDS][D], query[D] = {1};
    static uint64_t ids[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ids[i] = info.version + 1 + (uint64_t)i;
        rows[i][0] = (float)i + 1;
        cr_assert_eq(ea_upsert_send(c,
                                    &(ea_rows){.collection = "log",
                                               .ids = &ids[i],
                                               .rows = rows[i],
                                               .count = 1,
                                               .dimension = D},
                                    NULL, NULL),
                     EA_OK);
        for (int k = 0; k < 3; k++)
            cr_assert_eq(
                ea_knn_send(c,
                            &(ea_knn_question){.collection = "log",
                                               .queries = query,
                                               .query_count = 1,
                                               .dimension = D,
                                               .k = 1},
                            &(ea_send_options){.callback = expect_version, .user = &ids[i]}, NULL),
                EA_OK);
    }
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    cr_assert_eq(ea_collection_drop(c, "log"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- cancel */

Test(requests_flow, cancel)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", NULL});
    ea_client *c = scene_client(&s, "asker");
    struct slow w;
    slow_make(&w, c);
    struct ending whole = {0}, running = {0}, queued[30] = {{0}};
    int64_t start = now_ms();
    ask_slow(c, &w, SLOW_QUERIES, 0, &whole);
    pump_until(c, &whole);
    int64_t whole_ms = now_ms() - start;
    uint64_t ids[31];
    ids[30] = ask_slow(c, &w, SLOW_QUERIES, 0, &running);
    for (int i = 0; i < 30; i++)
        ids[i] = ask_slow(c, &w, SLOW_QUERIES, 0, &queued[i]);
    ea_stats stats; /* answered at once, but behind them on the wire: all are at the daemon */
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    cr_assert_eq(stats.jobs_in_flight, 32);
    start = now_ms();
    for (int i = 0; i < 31; i++)
        cr_assert_eq(ea_cancel(c, ids[i]), EA_OK, "%s", ea_error_text(c));
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    int64_t took = now_ms() - start;
    cr_assert_eq(running.status, EA_CANCELLED, "%s", running.text);
    for (int i = 0; i < 30; i++)
        cr_assert(queued[i].times == 1 && queued[i].status == EA_CANCELLED);
    cr_assert(took < 10 * whole_ms, "31 cancelled requests took %lld ms, one whole one %lld",
              (long long)took, (long long)whole_ms);
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    cr_assert_eq(stats.cancelled_total, 31);
    slow_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- deadlines */

static void send_with_deadline(int fd, const struct sample *s, uint64_t id, uint32_t deadline_us)
{
    uint8_t bytes[SAMPLE_BYTES_MAX];
    size_t count = sample_frame(s, id, bytes);
    memcpy(bytes + 20, &deadline_us, 4);
    cr_assert(raw_send(fd, bytes, count));
}

/* The daemon's own deadlines, without the library's. */
Test(requests_flow, deadlines)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", NULL});
    scene_make_rows(&s);
    ea_client *c = scene_client(&s, "asker");
    struct slow w;
    slow_make(&w, c);
    struct ending slow[12] = {{0}};
    int fd = scene_connect(&s);
    struct sample knn;
    sample_find("knn", &knn);
    send_with_deadline(fd, &knn, 1, 30000000); /* half a minute: in time */
    expect_reply(fd, 1);
    for (int i = 0; i < 12; i++)
        ask_slow(c, &w, SLOW_QUERIES, 0, &slow[i]);
    ea_pump(c, 20000);
    send_with_deadline(fd, &knn, 2, 1); /* over before it is its turn */
    send_with_deadline(fd, &knn, 3, 2);
    expect_error(fd, 2, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    expect_error(fd, 3, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    ea_close(c); /* cancels the slow ones */
    c = scene_client(&s, "asker");
    struct ending late = {0};
    int64_t start = now_ms();
    ask_slow(c, &w, SLOW_QUERIES, 60, &late); /* while running */
    pump_until(c, &late);
    cr_assert_eq(late.status, EA_DEADLINE_EXCEEDED, "%s", late.text);
    cr_assert(late.at_ms - start < scaled_ms(1000));
    cr_assert_eq(ea_ping(c), EA_OK);
    slow_free(&w, c);
    close(fd);
    ea_close(c);
    scene_close(&s);
}

/* A deadline that ends a running request: the daemon itself stops it, at the next part. */
Test(requests_flow, a_deadline_stops_running_work)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", NULL});
    ea_client *c = scene_client(&s, "hostile");
    struct slow w;
    slow_make(&w, c);
    int fd = scene_connect(&s);
    engram_accel_v1_KnnRequest m = {.k = 5, .has_queries = true};
    strcpy(m.collection, "slow");
    m.queries = sample_tensor(DTYPE_FLOAT32, SLOW_QUERIES, SLOW_DIMENSION);
    uint8_t message[256], head[FRAME_ALIGN * 8] = {0};
    pb_ostream_t out = pb_ostream_from_buffer(message, sizeof message);
    cr_assert(pb_encode(&out, engram_accel_v1_KnnRequest_fields, &m));
    struct frame_header h = {.kind = OPERATION_KNN,
                             .request_id = 5,
                             .message_bytes = (uint32_t)out.bytes_written,
                             .deadline_us = 40000,
                             .body_bytes = (uint64_t)SLOW_QUERIES * SLOW_DIMENSION * 4};
    frame_write(&h, head);
    memcpy(head + FRAME_HEADER_BYTES, message, h.message_bytes);
    cr_assert(raw_send(fd, head, frame_body_offset(&h)));
    cr_assert(raw_send(fd, w.queries, h.body_bytes));
    expect_error(fd, 5, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    close(fd);
    slow_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- deserted */

Test(requests_flow, a_disconnect_cancels)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", NULL});
    ea_client *c = scene_client(&s, "asker");
    struct slow w;
    slow_make(&w, c);
    struct ending whole = {0}, deserted[20] = {{0}};
    int64_t start = now_ms();
    ask_slow(c, &w, SLOW_QUERIES, 0, &whole);
    pump_until(c, &whole);
    int64_t whole_ms = now_ms() - start;
    for (int i = 0; i < 20; i++)
        ask_slow(c, &w, SLOW_QUERIES, 0, &deserted[i]);
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    cr_assert_eq(stats.jobs_in_flight, 21);
    ea_close(c);
    for (int i = 0; i < 20; i++)
        cr_assert(deserted[i].times == 1 && deserted[i].status == EA_CANCELLED);
    start = now_ms();
    scene_check(&s);
    cr_assert(now_ms() - start < 6 * whole_ms + 50,
              "the witness waited %lld ms behind a deserted queue; one request takes %lld",
              (long long)(now_ms() - start), (long long)whole_ms);
    c = scene_client(&s, "asker");
    slow_free(&w, c);
    ea_close(c);
    scene_close(&s);
}
