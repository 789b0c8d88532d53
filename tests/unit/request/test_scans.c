/* Cursors on a clock that the test sets: they end when nobody asks for 30 s, and wake the loop for
 * that. */
#include <criterion/criterion.h>

#include "daemon/request/scans.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/collection.h"
#include "tests/support/request_rig.h"

#define S UINT64_C(1000000000)

static struct request_rig rig;

/* A page that was read: of ten positions the first four. */
static struct job *read_page(struct rig_space *s, uint64_t cursor)
{
    struct job *j = request_rig_ask(&rig, s, 0, false);
    pipeline_tick(rig.pipeline);
    j->operation = OPERATION_FETCH;
    j->request.keep = !cursor;
    j->request.cursor = cursor;
    j->key.connection = 1;
    j->result.positions = 10;
    j->result.tensors[0].rows = 4;
    scans_end_page(rig.pipeline, j);
    return j;
}

static void end_page(struct job *j)
{
    j->operation = OPERATION_KNN;
    j->key.connection = 0;
    j->result.tensors[0].rows = 0;
    request_rig_end(&rig, j, rig.now_ns);
}

Test(scans, end_when_nobody_asks)
{
    request_rig_open(&rig, NULL);
    struct rig_space *s = request_rig_space(&rig, "one");
    struct pipeline *p = rig.pipeline;
    const struct turnstile *line = collection_turnstile(s->rows);
    cr_assert_eq(scans_wake_ns(p), UINT64_MAX);
    struct job *j = read_page(s, 0);
    uint64_t cursor = j->result.cursor;
    cr_assert(cursor && p->scans.count == 1);
    end_page(j);
    cr_assert_not(turnstile_idle(line), "it holds what it keeps");
    cr_assert_eq(scans_wake_ns(p), rig.now_ns + 30 * S);
    cr_assert(pipeline_wake_ns(p) <= rig.now_ns + 30 * S);

    /* Another page in time. */
    rig.now_ns += 29 * S;
    pipeline_tick(p);
    j = request_rig_ask(&rig, s, 0, false);
    j->operation = OPERATION_FETCH;
    j->key.connection = 1;
    j->request.cursor = cursor;
    cr_assert_eq(scans_begin(p, j), STATUS_OK);
    cr_assert_eq(scans_wake_ns(p), rig.now_ns + 30 * S);
    j->operation = OPERATION_KNN;
    j->key.connection = 0;
    j->request.cursor = 0;
    pipeline_tick(p);
    request_rig_end(&rig, j, rig.now_ns);
    rig.now_ns += 30 * S - 1;
    pipeline_tick(p);
    cr_assert_eq(p->scans.count, 1);
    rig.now_ns += 1;
    pipeline_tick(p);
    cr_assert_eq(p->scans.count, 0);
    cr_assert(turnstile_idle(line));
    j = request_rig_ask(&rig, s, 0, false);
    j->key.connection = 1;
    j->request.cursor = cursor;
    cr_assert_eq(scans_begin(p, j), STATUS_ABORTED);
    cr_assert_eq(j->failure.detail, DETAIL_CURSOR_ENDED);
    j->failure = (struct failure){0};
    j->request.cursor = 0;
    j->key.connection = 0;
    pipeline_tick(p);
    request_rig_end(&rig, j, rig.now_ns);
}

Test(scans, end_with_their_connection_and_a_drop)
{
    request_rig_open(&rig, NULL);
    struct rig_space *s = request_rig_space(&rig, "one");
    struct pipeline *p = rig.pipeline;
    const struct connection mine = {.id = 1}, other = {.id = 2};
    end_page(read_page(s, 0));
    scans_leave(p, &other);
    cr_assert_eq(p->scans.count, 1);
    scans_leave(p, &mine);
    cr_assert_eq(p->scans.count, 0);
    end_page(read_page(s, 0));
    scans_drop(p, collection_resident(s->rows));
    cr_assert_eq(p->scans.count, 0);
    end_page(read_page(s, 0));
    scans_finish(p);
    cr_assert_eq(p->scans.count, 0);
    cr_assert(turnstile_idle(collection_turnstile(s->rows)));
}
