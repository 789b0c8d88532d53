/* Nobody wants the answer any more: what a cancel or a deadline does to a request that runs, that
 * waits for a worker, or that waits for its collection. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/endless.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

enum { ROWS = 20000, DIMENSION = 256, QUERIES = 256, K = 5 };

/* Fewer under a sanitizer. */
static uint64_t query_count(void)
{
    return QUERIES / (uint64_t)scaled_ms(1);
}

struct late_work {
    float *rows, *queries;
    uint64_t *ids;
};

static void work_make(struct late_work *w, ea_client *c)
{
    w->rows = malloc((size_t)ROWS * DIMENSION * 4);
    w->queries = malloc((size_t)QUERIES * DIMENSION * 4);
    w->ids = malloc(ROWS * 8);
    reference_fill(1, w->rows, (size_t)ROWS * DIMENSION);
    reference_fill(2, w->queries, (size_t)QUERIES * DIMENSION);
    for (uint64_t i = 0; i < ROWS; i++)
        w->ids[i] = i;
    cr_assert_eq(ea_collection_create(c, "work", DIMENSION, EA_DOT, NULL), EA_OK);
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = "work",
                                      .ids = w->ids,
                                      .rows = w->rows,
                                      .count = ROWS,
                                      .dimension = DIMENSION},
                           NULL),
                 EA_OK);
}

static void work_free(struct late_work *w, ea_client *c)
{
    cr_assert_eq(ea_collection_drop(c, "work"), EA_OK, "%s", ea_error_text(c));
    free(w->rows);
    free(w->queries);
    free(w->ids);
}

struct ending {
    int times;
    ea_status status;
    ea_result result;
    char text[128];
};

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct ending *e = user;
    e->times++;
    e->status = answer->status;
    strncpy(e->text, answer->status ? ea_error_text(c) : "", sizeof e->text - 1);
    if (!answer->result) return;
    e->result = *answer->result;
    *answer->result = (ea_result){0};
}

static uint64_t ask(ea_client *c, const struct late_work *w, struct ending *e)
{
    uint64_t id = 0;
    cr_assert_eq(ea_knn_send(c,
                             &(ea_knn_question){.collection = "work",
                                                .queries = w->queries,
                                                .query_count = query_count(),
                                                .dimension = DIMENSION,
                                                .k = K},
                             &(ea_send_options){.callback = note, .user = e}, &id),
                 EA_OK, "%s", ea_error_text(c));
    return id;
}

static void pump(ea_client *c)
{
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK, "%s", ea_error_text(c));
}

/* Cancelled at any moment, also within its last part: CANCELLED, or the whole answer. Never a part
 * of it. */
Test(requests_late, a_cancel_leaves_the_whole_answer_or_none)
{
    enum { TRIALS = 60 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES,
                                    NULL}); /* then few and long parts */
    ea_client *c = scene_client(&s, "asker");
    struct late_work w;
    work_make(&w, c);
    struct ending whole = {0};
    int64_t start = now_ms();
    ask(c, &w, &whole);
    pump(c);
    int64_t whole_us = (now_ms() - start) * 1000 + 500;
    cr_assert_eq(whole.status, EA_OK, "%s", whole.text);
    for (int i = 0; i < TRIALS; i++) {
        struct ending e = {0};
        uint64_t id = ask(c, &w, &e);
        ea_pump(c, 0);
        usleep((useconds_t)(whole_us * i / TRIALS));
        cr_assert_eq(ea_cancel(c, id), EA_OK);
        pump(c);
        cr_assert_eq(e.times, 1);
        if (e.status == EA_CANCELLED) continue;
        cr_assert_eq(e.status, EA_OK, "%s", e.text);
        cr_assert_eq(e.result.rows, query_count());
        cr_assert_eq(e.result.columns, K);
        cr_assert_arr_eq(e.result.ids, whole.result.ids, query_count() * K * 8);
        cr_assert_arr_eq(e.result.scores, whole.result.scores, query_count() * K * 4);
        ea_result_free(&e.result);
    }
    ea_result_free(&whole.result);
    work_free(&w, c);
    ea_close(c);
    scene_close(&s);
}

static void take_cancelled(ea_client *c, const uint64_t *ids, const struct ending *endings,
                           int count)
{
    for (int i = 0; i < count; i++) {
        cr_assert_eq(endings[i].times, 0, "it was not endless");
        cr_assert_eq(ea_cancel(c, ids[i]), EA_OK);
    }
    pump(c);
    for (int i = 0; i < count; i++)
        cr_assert(endings[i].times == 1 && endings[i].status == EA_CANCELLED, "%s",
                  endings[i].text);
}

/* One that waits behind two of the others, as it is no short one, though its body is: a deadline
 * within a body that is being sent would cost the client its connection. */
static void ask_late(ea_client *c, const struct endless *w, struct ending *e, uint64_t timeout_us)
{
    cr_assert_eq(
        ea_knn_send(c,
                    &(ea_knn_question){.collection = "endless",
                                       .queries = w->rows,
                                       .query_count = ENDLESS_QUERIES / 80,
                                       .dimension = ENDLESS_DIMENSION,
                                       .k = 1},
                    &(ea_send_options){.callback = note, .user = e, .timeout_us = timeout_us},
                    NULL),
        EA_OK, "%s", ea_error_text(c));
}

/* A request that has not started is answered when its time is up, not when its turn comes. */
Test(requests_late, a_deadline_is_told_while_the_workers_are_busy)
{
    enum { AHEAD = 4, DEADLINE_US = 500000 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "hostile"), *observer = scene_client(&s, "observer");
    struct endless w;
    endless_make(&w, c);
    static struct ending ahead[AHEAD], late[2];
    uint64_t ids[AHEAD];
    for (int i = 0; i < AHEAD; i++)
        ids[i] = endless_ask(&w, c, note, &ahead[i], 0);
    cr_assert_eq(endless_arrive(c), AHEAD);
    for (int i = 0; i < 2; i++) {
        ask_late(c, &w, &late[i], DEADLINE_US);
        endless_arrive(c); /* it is in line there, or its time is up already */
        while (!late[i].times)
            ea_pump(c, 100000);
        cr_assert_eq(late[i].status, EA_DEADLINE_EXCEEDED, "%s", late[i].text);
        int64_t until = give_up_ms();
        while (endless_arrive(observer) != AHEAD) /* which do not end by themselves */
            cr_assert(now_ms() < until, "what is late stays in line");
    }
    take_cancelled(c, ids, ahead, AHEAD);
    endless_free(&w, c);
    ea_close(observer);
    ea_close(c);
    scene_close(&s);
}

/* The same for a cancel and for a client that goes away: what it asked for is let go at once. */
Test(requests_late, what_has_not_started_is_let_go_at_once)
{
    enum { AHEAD = 4, LEFT = 6 };
    struct scene s;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "asker"), *observer = scene_client(&s, "observer");
    struct endless w;
    endless_make(&w, c);
    static struct ending ahead[AHEAD], late, left[LEFT];
    uint64_t ids[AHEAD];
    for (int i = 0; i < AHEAD; i++)
        ids[i] = endless_ask(&w, c, note, &ahead[i], 0);
    uint64_t id = endless_ask(&w, c, note, &late, 0);
    cr_assert_eq(endless_arrive(c), AHEAD + 1);
    cr_assert_eq(ea_cancel(c, id), EA_OK);
    while (!late.times)
        ea_pump(c, 100000);
    cr_assert_eq(late.status, EA_CANCELLED, "%s", late.text);
    cr_assert_eq(endless_arrive(observer), AHEAD, "told only after what was before it");

    ea_client *leaving = scene_client(&s, "asker");
    for (int i = 0; i < LEFT; i++)
        endless_ask(&w, leaving, note, &left[i], 0);
    cr_assert_eq(endless_arrive(leaving), AHEAD + LEFT);
    ea_close(leaving);
    int64_t until = give_up_ms();
    while (endless_arrive(observer) != AHEAD)
        cr_assert(now_ms() < until, "what nobody waits for stays in line");
    take_cancelled(c, ids, ahead, AHEAD);
    endless_free(&w, c);
    ea_close(observer);
    ea_close(c);
    scene_close(&s);
}
