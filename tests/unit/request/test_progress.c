/* Frames that say how far requests are, on a clock that the test sets: when they are sent, to whom,
 * and what they say. */
#include <criterion/criterion.h>
#include <pb_decode.h>

#include "daemon/request/cancel.h"
#include "daemon/request/pipeline_inside.h"
#include "proto/engram_accel.pb.h"
#include "tests/support/request_rig.h"

#define MS UINT64_C(1000000)

static struct request_rig rig;
static struct rig_space *one;
static struct pipeline *p;

static void begin(void)
{
    request_rig_open(&rig, (const char *[]){"batch.requests=1", NULL});
    one = request_rig_space(&rig, "one");
    p = rig.pipeline;
}

TestSuite(progress, .init = begin);

struct heard {
    uint32_t count; /* of progress frames; any other reply ends the list */
    uint64_t ids[8];
    engram_accel_v1_Progress said[8];
};

/* Takes what the client has been told since it was asked last. */
static struct heard take_heard(void)
{
    struct heard h = {0};
    net_flush(&rig.net);
    for (size_t at = 0; at < one->heard_bytes;) {
        struct frame_header header;
        const uint8_t *bytes = one->heard + at;
        uint16_t flags = (uint16_t)(bytes[6] | bytes[7] << 8);
        uint8_t head[FRAME_HEADER_BYTES];
        struct failure f;
        memcpy(head, bytes, sizeof head);
        head[6] = head[7] = 0;
        cr_assert_eq(frame_parse(head, UINT64_MAX, &header, &f), STATUS_OK);
        cr_assert_eq(flags, FRAME_FLAG_REPLY | FRAME_FLAG_PROGRESS);
        cr_assert(header.kind == OPERATION_KNN && !header.body_bytes && h.count < 8);
        pb_istream_t in = pb_istream_from_buffer(bytes + FRAME_HEADER_BYTES, header.message_bytes);
        h.said[h.count] = (engram_accel_v1_Progress)engram_accel_v1_Progress_init_zero;
        cr_assert(pb_decode(&in, engram_accel_v1_Progress_fields, &h.said[h.count]));
        h.ids[h.count++] = header.request_id;
        at += frame_body_offset(&header);
    }
    one->heard_bytes = 0;
    return h;
}

static void pass_ms(uint64_t ms)
{
    rig.now_ns += ms * MS;
    pipeline_tick(p);
}

static void end_all(void)
{
    while (rig.taken_count) {
        atomic_store(&rig.taken[0]->cancelled, true);
        request_rig_end(&rig, rig.taken[0], rig.now_ns);
    }
    net_flush(&rig.net);
    one->heard_bytes = 0;
    cr_assert_eq(p->job_count, 0);
    cr_assert_eq(pipeline_wake_ns(p), UINT64_MAX, "the loop would wake for nobody");
}

Test(progress, comes_five_times_a_second_to_who_asks)
{
    request_rig_ask_with(&rig, one, 7, FRAME_FLAG_PROGRESS);
    request_rig_ask_with(&rig, one, 8, 0);
    pipeline_tick(p);
    uint64_t start_ns = rig.now_ns;
    for (int turn = 1; turn <= 5; turn++) {
        cr_assert_eq(pipeline_wake_ns(p), start_ns + (uint64_t)turn * 200 * MS);
        pass_ms(199);
        cr_assert_eq(take_heard().count, 0, "before its time");
        pass_ms(1);
        struct heard h = take_heard();
        cr_assert(h.count == 1 && h.ids[0] == 7);
        cr_assert_eq(h.said[0].elapsed_us, (uint64_t)turn * 200000);
        pass_ms(0);
        cr_assert_eq(take_heard().count, 0, "once");
    }
    end_all();
}

Test(progress, nobody_asks_and_nobody_is_told)
{
    request_rig_ask_with(&rig, one, 8, 0);
    pipeline_tick(p);
    cr_assert_eq(pipeline_wake_ns(p), UINT64_MAX);
    pass_ms(10000);
    cr_assert_eq(take_heard().count, 0);
    end_all();
}

Test(progress, says_what_the_job_does)
{
    struct job *j = request_rig_ask_with(&rig, one, 7, FRAME_FLAG_PROGRESS);
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 4, 0);
    pipeline_tick(p);
    pass_ms(200);
    struct heard h = take_heard();
    cr_assert(h.count == 1 && (int)h.said[0].phase == PROGRESS_WAITING && !h.said[0].total);
    cr_assert_eq((int)h.said[0].backend, BACKEND_NONE);
    scheduler_set_server(&p->scheduler, SERVER_CPU, true, 4, 0);
    pipeline_tick(p);
    cr_assert_eq(rig.taken_count, 1);
    j->foreseen_ns = 3000 * MS;

    /* parts, as long as the operation says nothing */
    atomic_store(&j->progress.parts, 10);
    atomic_store(&j->parts_left, 4);
    pass_ms(200);
    h = take_heard();
    cr_assert(h.count == 1 && (int)h.said[0].phase == PROGRESS_RUNNING);
    cr_assert(h.said[0].done == 6 && h.said[0].total == 10);
    cr_assert(h.said[0].foreseen_us == 3000000 && (int)h.said[0].backend == BACKEND_CPU);

    progress_begin(&j->progress, PROGRESS_MERGES, 50);
    progress_add(&j->progress, 49);
    pass_ms(200);
    h = take_heard();
    cr_assert(h.count == 1 && (int)h.said[0].phase == PROGRESS_MERGES);
    cr_assert(h.said[0].done == 49 && h.said[0].total == 50);

    /* between two phases, never more than all */
    progress_add(&j->progress, 9);
    pass_ms(200);
    h = take_heard();
    cr_assert(h.said[0].done == 50 && h.said[0].total == 50);

    /* a step of parts in a phase of its own */
    progress_begin(&j->progress, PROGRESS_SCORES, 0);
    pass_ms(200);
    h = take_heard();
    cr_assert((int)h.said[0].phase == PROGRESS_SCORES && h.said[0].done == 6);
    end_all();
}

Test(progress, is_dropped_where_nobody_reads)
{
    request_rig_ask_with(&rig, one, 7, FRAME_FLAG_PROGRESS);
    pipeline_tick(p);
    for (int turn = 0; turn < 20; turn++) {
        rig.now_ns += 200 * MS;
        pipeline_tick(p); /* and nothing is written out */
    }
    cr_assert_eq(take_heard().count, 1, "one waits to be read, the others were dropped");
    pass_ms(200);
    cr_assert_eq(take_heard().count, 1);
    end_all();
}

Test(progress, ends_with_the_request_and_its_client)
{
    struct job *j = request_rig_ask_with(&rig, one, 7, FRAME_FLAG_PROGRESS);
    request_rig_ask_with(&rig, one, 8, FRAME_FLAG_PROGRESS);
    pipeline_tick(p);
    cr_assert_eq(p->telling, 2);
    pass_ms(200);
    cr_assert_eq(take_heard().count, 2);
    atomic_store(&j->cancelled, true);
    request_rig_end(&rig, j, rig.now_ns);
    net_flush(&rig.net);
    one->heard_bytes = 0;
    cr_assert_eq(p->telling, 1);
    pass_ms(200);
    struct heard h = take_heard();
    cr_assert(h.count == 1 && h.ids[0] == 8);
    connection_close(one->client);
    pass_ms(200);
    cr_assert_eq(one->heard_bytes, 0);
    request_rig_end(&rig, rig.taken[0], rig.now_ns);
    cr_assert(p->telling == 0 && p->job_count == 0);
}
