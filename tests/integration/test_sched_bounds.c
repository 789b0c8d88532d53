/* Bounds under a crowd: a line that is full, memory that is not there. What cannot be had is told,
 * with a hint; everything else is answered right, and nothing stays behind. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "daemon/base/status.h"
#include "tests/support/asks.h"
#include "tests/support/endless.h"

enum { CLIENTS = 8 };

static uint64_t refused(const struct asks *a, uint32_t detail)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a->count; i++) {
        const struct ask *q = &a->list[i];
        cr_assert_eq(q->times, 1);
        if (q->right) continue;
        cr_assert_eq(q->status, EA_RESOURCE_EXHAUSTED, "%zu: %s", i, q->text);
        cr_assert_eq(q->detail, detail, "%zu: %s", i, q->text);
        cr_assert(q->retry_after_ms > 0 && q->retry_after_ms < 60000, "%u", q->retry_after_ms);
        n++;
    }
    return n;
}

/* ---------------------------------------------------------------- a line that is full */

Test(sched_bounds, a_full_line_is_told_so_and_others_are_not, .timeout = 900)
{
    enum { ASKS = 200, QUEUE = 10, ROWS = 4000, D = 128 };
    struct scene s;
    struct set t;
    ea_client *many[CLIENTS], *others[CLIENTS], *maker, *other;
    scene_open(&s, (const char *[]){"spaces.small.queue=10", "workers.count=1", NULL});
    asks_set(&t, D, REFERENCE_COSINE, ROWS);
    maker = scene_client(&s, "small");
    other = scene_client(&s, "other");
    set_send(&t, maker);
    set_send(&t, other);
    struct asks *a = asks_make_plain(&t, ASKS, 4, 10), *b = asks_make_plain(&t, ASKS, 4, 10);
    asks_alone(a, maker, 20);
    asks_alone(b, other, 20);
    asks_connect(&s.daemon, "small", many, CLIENTS);
    asks_connect(&s.daemon, "other", others, CLIENTS);
    for (int round = 0; round < 3; round++) {
        asks_again(a);
        asks_again(b);
        kill(s.daemon.pid, SIGSTOP);
        asks_send(a, many, CLIENTS);
        asks_send(b, others, CLIENTS);
        kill(s.daemon.pid, SIGCONT);
        asks_collect(many, CLIENTS);
        asks_collect(others, CLIENTS);
        asks_expect(b, "the other space");
        uint64_t no = refused(a, DETAIL_QUEUE_FULL);
        cr_assert_gt(no, 0, "the line is never full");
        cr_assert_gt(ASKS - no, QUEUE - 1, "fewer than fit were answered");
        fprintf(stderr, "%llu refused\n", (unsigned long long)no);
    }
    ea_stats stats;
    cr_assert_eq(ea_get_stats(maker, &stats), EA_OK);
    cr_assert_gt(stats.space.refused_queue, 0);
    cr_assert_eq(stats.space.queue_depth, 0);
    cr_assert_eq(ea_get_stats(other, &stats), EA_OK);
    cr_assert_eq(stats.space.refused_queue, 0);
    asks_disconnect(many, CLIENTS);
    asks_disconnect(others, CLIENTS);
    cr_assert_eq(ea_collection_drop(maker, t.name), EA_OK);
    cr_assert_eq(ea_collection_drop(other, t.name), EA_OK);
    ea_close(maker);
    ea_close(other);
    asks_free(a);
    asks_free(b);
    set_free(&t);
    scene_close(&s);
}

static uint64_t ran_on_the_cpu(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    return stats.backend_requests[EA_BACKEND_CPU];
}

enum { LATE_QUERIES = ENDLESS_QUERIES / 80 }; /* too many for a short job */

static void ignore(ea_client *c, const ea_answer *answer, void *user) {}

/* Two that do not end by themselves are all that the CPU has at once, so that those behind them do
 * not get their turn on any machine, however fast. */
Test(sched_bounds, who_has_no_time_does_not_run, .timeout = 900)
{
    enum { AHEAD = 2, LATE = 50 };
    struct scene s;
    struct endless e;
    scene_open(&s, (const char *[]){"workers.count=1", ENDLESS_BODIES, NULL});
    ea_client *c = scene_client(&s, "hostile"), *observer = scene_client(&s, "observer");
    endless_make(&e, c);
    for (int i = 0; i < AHEAD; i++)
        endless_ask(&e, c, ignore, NULL, 0);
    cr_assert_eq(endless_arrive(c), AHEAD);
    int fd = scene_connect(&s);
    uint64_t before = ran_on_the_cpu(observer);
    for (uint64_t id = 1; id <= LATE; id++) {
        endless_ask_raw(&e, fd, id, LATE_QUERIES, 1);
        expect_error(fd, id, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE, "deadline");
    }
    cr_assert_eq(ran_on_the_cpu(observer), before, "some of them ran");
    cr_assert_eq(endless_arrive(observer), AHEAD, "the others were not endless");
    close(fd);
    ea_close(c); /* cancels what is ahead */
    c = scene_client(&s, "hostile");
    endless_free(&e, c);
    ea_close(c);
    ea_close(observer);
    scene_close(&s);
}

/* ---------------------------------------------------------------- memory that is not there */

/* Results of 16 queries x 1,000 rows, so many at once that they have not room together. */
static void without_memory(const char *memory, uint64_t queries, uint32_t k)
{
    enum { ASKS = 64, ROWS = 3000, D = 32 };
    struct scene s;
    struct set t;
    ea_client *many[CLIENTS], *maker;
    scene_open(&s, (const char *[]){memory, NULL});
    asks_set(&t, D, REFERENCE_DOT, ROWS);
    maker = scene_client(&s, "small");
    set_send(&t, maker);
    struct asks *a = asks_make_plain(&t, ASKS, queries, k);
    asks_alone(a, maker, 40);
    asks_connect(&s.daemon, "small", many, CLIENTS);
    uint64_t no = 0;
    for (int round = 0; round < 4; round++) {
        asks_again(a);
        if (round % 2)
            asks_send(a, many, CLIENTS);
        else
            asks_send_at_once(a, &s.daemon, many, CLIENTS);
        asks_collect(many, CLIENTS);
        no += refused(a, DETAIL_MEMORY);
        scene_check(&s);
    }
    fprintf(stderr, "%s: %llu of %d refused\n", memory, (unsigned long long)no, 4 * ASKS);
    asks_disconnect(many, CLIENTS);
    asks_again(a);
    for (size_t i = 0; i < 8; i++) { /* alone there is room */
        ea_result r = {0};
        const struct ask *q = &a->list[i];
        cr_assert_eq(ea_knn(maker,
                            &(ea_knn_question){.collection = t.name,
                                               .queries = q->queries,
                                               .query_count = queries,
                                               .dimension = D,
                                               .k = k},
                            &r),
                     EA_OK, "%s", ea_error_text(maker));
        ea_result_free(&r);
    }
    cr_assert_eq(ea_collection_drop(maker, t.name), EA_OK);
    ea_close(maker);
    asks_free(a);
    set_free(&t);
    scene_close(&s);
}

Test(sched_bounds, results_that_have_no_room_together, .timeout = 900)
{
    without_memory("memory.max_mib=16", 60, 1000);
}

Test(sched_bounds, batches_that_have_no_room, .timeout = 900)
{
    without_memory("memory.max_mib=4", 4, 1000);
}
