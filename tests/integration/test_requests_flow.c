/* Requests in time: many at once, answered in any order, cancelled, too late, deserted. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/endless.h"
#include "tests/support/sets.h"

/* What became of one request. */
struct ending {
    int times;
    ea_status status;
    char text[128];
};

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct ending *e = user;
    e->times++;
    e->status = answer->status;
    strncpy(e->text, answer->status ? ea_error_text(c) : "", sizeof e->text - 1);
}

static void cancel_and_take(ea_client *c, uint64_t id, const struct ending *e)
{
    cr_assert_eq(ea_cancel(c, id), EA_OK, "%s", ea_error_text(c));
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    cr_assert_eq(e->times, 1);
    cr_assert_eq(e->status, EA_CANCELLED, "%s", e->text);
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
    struct endless w;
    endless_make(&w, c);
    struct ending slow = {0}, quick[20] = {{0}};
    uint64_t id = endless_ask(&w, c, note, &slow, 0);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(ea_ping_send(c, &(ea_send_options){.callback = note, .user = &quick[i]}, NULL),
                     EA_OK);
    for (int i = 0; i < 20; i++)
        pump_until(c, &quick[i]);
    cr_assert_eq(slow.times, 0);
    cancel_and_take(c, id, &slow);
    endless_free(&w, c);
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
    enum { ASKED = 11 }; /* one runs, the others wait */
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "asker");
    struct endless w;
    endless_make(&w, c);
    struct ending endings[ASKED] = {{0}};
    uint64_t ids[ASKED];
    for (int i = 0; i < ASKED; i++)
        ids[i] = endless_ask(&w, c, note, &endings[i], 0);
    cr_assert_eq(endless_arrive(c), ASKED);
    for (int i = 0; i < ASKED; i++)
        cr_assert_eq(ea_cancel(c, ids[i]), EA_OK, "%s", ea_error_text(c));
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    for (int i = 0; i < ASKED; i++)
        cr_assert(endings[i].times == 1 && endings[i].status == EA_CANCELLED, "%d: %s", i,
                  endings[i].text);
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    cr_assert_eq(stats.cancelled_total, ASKED);
    endless_free(&w, c);
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
    enum { AHEAD = 4, LATE_QUERIES = ENDLESS_QUERIES / 80 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    scene_make_rows(&s);
    ea_client *c = scene_client(&s, "hostile"); /* whose requests wait for each other */
    struct endless w;
    endless_make(&w, c);
    struct ending slow[AHEAD] = {{0}};
    int fd = scene_connect(&s);
    struct sample knn;
    sample_find("knn", &knn);
    send_with_deadline(fd, &knn, 1, GIVE_UP_MS * 1000u); /* in time */
    expect_reply(fd, 1);
    for (int i = 0; i < AHEAD; i++)
        endless_ask(&w, c, note, &slow[i], 0);
    cr_assert_eq(endless_arrive(c), AHEAD);
    /* Over before it is their turn; and if they had it, none could be done in the time. */
    endless_ask_raw(&w, fd, 2, LATE_QUERIES, 1);
    endless_ask_raw(&w, fd, 3, LATE_QUERIES, 2);
    expect_error(fd, 2, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    expect_error(fd, 3, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    ea_close(c); /* cancels the slow ones */
    c = scene_client(&s, "hostile");
    struct ending late = {0};
    endless_ask(&w, c, note, &late, 60000); /* while running */
    pump_until(c, &late);
    cr_assert_eq(late.status, EA_DEADLINE_EXCEEDED, "%s", late.text);
    cr_assert_eq(ea_ping(c), EA_OK);
    endless_free(&w, c);
    close(fd);
    ea_close(c);
    scene_close(&s);
}

/* A deadline that ends a running request: the daemon itself stops it, at the next part. */
Test(requests_flow, a_deadline_stops_running_work)
{
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "hostile");
    struct endless w;
    endless_make(&w, c);
    int fd = scene_connect(&s);
    endless_ask_raw(&w, fd, 5, ENDLESS_QUERIES, 40000);
    expect_error(fd, 5, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    close(fd);
    endless_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- deserted */

Test(requests_flow, a_disconnect_cancels)
{
    enum { ASKED = 10 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "asker");
    struct endless w;
    endless_make(&w, c);
    struct ending deserted[ASKED] = {{0}};
    for (int i = 0; i < ASKED; i++)
        endless_ask(&w, c, note, &deserted[i], 0);
    cr_assert_eq(endless_arrive(c), ASKED);
    ea_close(c);
    for (int i = 0; i < ASKED; i++)
        cr_assert(deserted[i].times == 1 && deserted[i].status == EA_CANCELLED);
    scene_check(&s);
    c = scene_client(&s, "asker");
    int64_t until = give_up_ms();
    while (endless_arrive(c)) /* none of them is worked on any more */
        cr_assert(now_ms() < until);
    endless_free(&w, c);
    ea_close(c);
    scene_close(&s);
}
