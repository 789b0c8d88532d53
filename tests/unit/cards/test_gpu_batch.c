/* Carriers and rooms of the GPU backend: what orders for batches say, what becomes of members, and
 * how much a card can take. */
#include <math.h>

#include "tests/unit/cards/gpu_house.h"
#include "daemon/exec/batch.h"
#include "tests/support/run_job.h"

enum { MEMBERS = 5 };

/* Member i has i + 1 queries, k 10 + i, and every other one a threshold. */
static struct job *make_carrier(struct house *h)
{
    struct job *c = make_job(h, OPERATION_KNN_BATCH), *last = NULL;
    reference_fill(8, h->queries, 64 * DIMENSION);
    for (uint32_t i = 0, first = 0; i < MEMBERS; first += ++i) {
        struct job *m = make_job(h, OPERATION_KNN);
        m->request.queries =
            (struct tensor){DTYPE_FLOAT32, i + 1, DIMENSION, h->queries + first * DIMENSION};
        m->request.k = 10 + i;
        m->request.has_threshold = i % 2;
        m->request.threshold = (float)i / 10;
        batch_add(c, last, m);
        last = m;
    }
    return c;
}

static struct job *member(struct job *c, int i)
{
    struct job *m = c->members;
    for (; i > 0; i--)
        m = m->member_next;
    return m;
}

/* Every member ended so; the carrier too. */
static void expect_ends(struct job *c, enum batch_end wanted)
{
    enum batch_end end;
    for (struct job *m; (m = batch_take(c, &end)); drop_job(m)) {
        cr_assert_eq(end, wanted, "%d", end);
        cr_assert_eq(m->failure.code, STATUS_OK);
        if (end != BATCH_DONE) cr_assert_null(m->result.block.data);
    }
    drop_job(c);
}

static const struct order_segment *segments_of(const struct house *h, const struct order *o)
{
    return at(h, o->run.segments);
}

static void check_segment(const struct house *h, const struct order_segment *s, const struct job *m)
{
    cr_assert_eq(s->query_count, m->request.queries.rows);
    cr_assert_eq(at(h, s->queries), m->request.queries.data);
    cr_assert(s->k == m->result.tensors[0].columns && s->k);
    cr_assert_eq(s->has_threshold, m->request.has_threshold);
    cr_assert(s->threshold == m->request.threshold);
    cr_assert_eq(at(h, s->out_ids), m->result.tensors[0].data);
    cr_assert_eq(at(h, s->out_scores), m->result.tensors[1].data);
    cr_assert_eq(at(h, s->out_counts), m->result.tensors[2].data);
}

/* A worker prepares filters; then the order is out. */
static struct order expect_prepared(struct house *h, struct played_card *p)
{
    for (int i = 0; i < 3000000; i++, usleep(100)) {
        struct job *done = done_take(&h->done);
        if (!done) continue;
        cr_assert(cards_resume(h->gpu, done));
        return expect_run(p, RUN_KNN);
    }
    cr_assert_fail("it was never prepared");
    return (struct order){0};
}

Test(gpu_batch, one_order_with_a_segment_each)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    cr_assert_eq(operation_gpu_pairs(c), 15 * ROWS);
    submit(&h, c);
    cr_assert_eq(cards_in_flight(h.gpu), 1);
    cr_assert_eq(c->gpu.pairs, 15 * ROWS);
    struct order o = expect_run(processes[0], RUN_KNN);
    cr_assert(o.run.segment_count == MEMBERS && o.run.query_count == 15 && o.run.k == 14);
    cr_assert_eq(o.run.metric, METRIC_COSINE);
    for (int i = 0; i < MEMBERS; i++) {
        check_segment(&h, &segments_of(&h, &o)[i], member(c, i));
        cr_assert_eq(segments_of(&h, &o)[i].allowed, PLACE_NONE);
    }
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, c);
    cr_assert_null(c->plan.scratch.data);
    enum batch_end end;
    struct job *m = batch_take(c, &end);
    cr_assert(end == BATCH_DONE && m->result.block.data && m->finished_ns == c->finished_ns);
    cr_assert(m->result.version == collection_version(collection_now(h.collection)) &&
              m->result.rows == ROWS);
    drop_job(m);
    expect_ends(c, BATCH_DONE);
    close_house(&h);
}

/* Every other of the first 1,500 rows. */
static void add_filter(struct house *h, struct job *m, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        h->ids[i] = 7 + i * 6;
    m->request.filter_ids = (struct tensor){DTYPE_UINT64, count, 1, h->ids};
}

Test(gpu_batch, filters_are_bitmaps_and_the_unfit_are_left_out)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    add_filter(&h, member(c, 1), 750);
    uint8_t *bits = (uint8_t *)(h.ids + 4000);
    memset(bits, 0, 1000);
    bits[3] = 1; /* nearly nobody */
    member(c, 2)->request.filter_bitmap = (struct tensor){DTYPE_UINT8, 1000, 1, bits};
    member(c, 3)->request.k = 0; /* the CPU has the words for it */
    member(c, 4)->reply_bytes_max = 10;
    submit(&h, c);
    cr_assert(c->gpu.prepare_is_long);
    struct order o = expect_prepared(&h, processes[0]);
    cr_assert(o.run.segment_count == 2 && o.run.query_count == 3 && o.run.k == 11);
    cr_assert_eq(c->gpu.pairs, 3 * ROWS);
    check_segment(&h, &segments_of(&h, &o)[0], member(c, 0));
    check_segment(&h, &segments_of(&h, &o)[1], member(c, 1));
    const uint64_t *allowed = at(&h, segments_of(&h, &o)[1].allowed);
    for (uint32_t row = 0; row < ROWS; row++)
        cr_assert_eq(allowed[row / 64] >> row % 64 & 1, row % 2 == 0 && row < 1500, "%u", row);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, c);
    enum batch_end end;
    for (int i = 0; i < 2; i++) {
        struct job *m = batch_take(c, &end);
        cr_assert(end == BATCH_DONE && m->result.block.data);
        drop_job(m);
    }
    cr_assert_eq(c->members->gpu.gave_up, REASON_CHOSEN_FASTER);
    expect_ends(c, BATCH_FALL_BACK);
    close_house(&h);
}

Test(gpu_batch, nobody_left_is_for_the_cpu)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    for (int i = 0; i < MEMBERS; i++)
        member(c, i)->request.threshold = i % 2 ? NAN : 0;
    for (int i = 0; i < MEMBERS; i += 2)
        member(c, i)->request.k = 0;
    cr_assert_eq(h.gpu->ops->submit(h.gpu, c), STATUS_UNAVAILABLE);
    cr_assert_eq(c->gpu.gave_up, REASON_CHOSEN_FASTER);
    expect_ends(c, BATCH_FALL_BACK);
    close_house(&h);
}

Test(gpu_batch, a_bad_query_is_its_members_and_the_others_run_again)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    member(c, 1)->request.k = 0; /* left out: its two queries do not count */
    ((float *)member(c, 3)->request.queries.data)[2 * DIMENSION + 7] = NAN;
    submit(&h, c);
    struct order o = expect_run(processes[0], RUN_KNN);
    cr_assert_eq(o.run.query_count, 13);
    answer(processes[0], &o, RESULT_BAD_QUERY, 1 + 3 + 2);
    expect_back(&h, c);
    cr_assert(!cards_gave_up(c) && c->gpu.again && !c->failure.code);
    static const enum batch_end ends[] = {BATCH_AGAIN, BATCH_FALL_BACK, BATCH_AGAIN, BATCH_DONE,
                                          BATCH_AGAIN};
    for (int i = 0; i < MEMBERS; i++) {
        enum batch_end end;
        struct job *m = batch_take(c, &end);
        cr_assert_eq(end, ends[i], "%d", i);
        cr_assert_null(m->result.block.data);
        if (i == 3)
            cr_assert_str_eq(m->failure.text, "query 2: column 7 is not a finite number");
        else
            cr_assert_eq(m->failure.code, STATUS_OK);
        drop_job(m);
    }
    drop_job(c);

    c = make_carrier(&h);
    submit(&h, c);
    o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_BAD_QUERY, 15); /* there is no such query */
    expect_back(&h, c);
    cr_assert_eq(c->gpu.gave_up, REASON_FALLBACK_AFTER_ERROR);
    expect_ends(c, BATCH_FALL_BACK);
    close_house(&h);
}

Test(gpu_batch, what_lets_it_down_lets_all_down)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    submit(&h, c);
    struct order o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_NO_MEMORY, 0);
    expect_back(&h, c);
    cr_assert_eq(c->gpu.gave_up, REASON_VRAM_PRESSURE);
    c->backend = BACKEND_CPU; /* as one it runs there */
    cr_assert_eq(run_job(c, 1), STATUS_OK);
    expect_ends(c, BATCH_DONE);

    c = make_carrier(&h);
    add_filter(&h, member(c, 0), 750);
    submit(&h, c);
    o = expect_prepared(&h, processes[0]);
    die(processes[0]);
    expect_back(&h, c);
    cr_assert_eq(member(c, 0)->gpu.gave_up, REASON_NONE);
    enum batch_end end;
    struct job *m = batch_take(c, &end);
    cr_assert_eq(m->gpu.gave_up, REASON_FALLBACK_AFTER_ERROR);
    drop_job(m);
    expect_ends(c, BATCH_FALL_BACK);
    close_house(&h);
}

Test(gpu_batch, a_cancelled_member_leaves_the_others_alone)
{
    struct house h;
    open_house(&h, "sim");
    upload(&h, processes[0]);
    struct job *c = make_carrier(&h);
    submit(&h, c);
    atomic_store(&member(c, 2)->cancelled, true);
    struct order o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, c);
    expect_ends(c, BATCH_DONE);

    c = make_carrier(&h); /* all of them, and so the carrier */
    submit(&h, c);
    atomic_store(&c->cancelled, true);
    for (int i = 0; i < MEMBERS; i++)
        atomic_store(&member(c, i)->cancelled, true);
    o = expect_run(processes[0], RUN_KNN);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, c);
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_null(member(c, i)->result.block.data);
    expect_ends(c, BATCH_DONE);
    close_house(&h);
}

Test(gpu_batch, every_want_of_memory)
{
    bool fired = true, whole = false, one = false;
    for (uint32_t nth = 1; fired; nth++) {
        struct house h;
        open_house(&h, "sim");
        upload(&h, processes[0]);
        struct job *c = make_carrier(&h);
        fault_arm(nth);
        enum status st = h.gpu->ops->submit(h.gpu, c);
        fired = fault_fired() != NULL;
        fault_arm(0);
        if (st) {
            whole = true;
            cr_assert_eq(c->gpu.gave_up, REASON_QUEUE_FULL);
            expect_ends(c, BATCH_FALL_BACK);
        } else {
            struct order o = expect_run(processes[0], RUN_KNN);
            cr_assert_eq(o.run.segment_count, fired ? MEMBERS - 1 : MEMBERS, "%u", nth);
            one |= fired;
            answer(processes[0], &o, RESULT_OK, 0);
            expect_back(&h, c);
            enum batch_end end;
            for (struct job *m; (m = batch_take(c, &end)); drop_job(m))
                cr_assert_eq(end == BATCH_FALL_BACK, m->gpu.gave_up == REASON_QUEUE_FULL);
            drop_job(c);
        }
        close_house(&h);
    }
    cr_assert(whole && one);
}

/* All of it counts: gpu.job_ms is for what cannot be foreseen. */
Test(gpu_batch, a_large_batch_is_given_its_time)
{
    struct house h;
    open_house(&h, "sim");
    h.config.gpu_job_ms = 50;
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *c = make_carrier(&h);
    member(c, 0)->body_bytes = UINT64_C(1) << 30; /* a second at 1 GB/s */
    submit(&h, c);
    uint64_t begun_ns = clock_now_ns(), now_ns = begun_ns;
    for (; !p->killed[0] && now_ns < begun_ns + UINT64_C(3000000000); now_ns += 100000000)
        cards_check(h.gpu, now_ns);
    cr_assert(p->killed[0] && now_ns > begun_ns + UINT64_C(1000000000));
    die(p);
    expect_back(&h, c);
    expect_ends(c, BATCH_FALL_BACK);
    close_house(&h);
}

/* ---------------------------------------------------------------- how much it takes */

Test(gpu_batch, rooms)
{
    struct house h;
    open_house(&h, "sim,sim");
    cr_assert_eq(cards_count(h.gpu), 2);
    cr_assert_not(cards_room_of(h.gpu, 2).ready);
    struct share *s = processes[1]->share;
    uint64_t gib = UINT64_C(1) << 30;
    s->device.memory_free_bytes = 10 * gib;
    s->usage.slab_bytes = gib;
    s->usage.free_bytes = 9 * gib;
    struct cards_room room = cards_room_of(h.gpu, 1);
    cr_assert(room.ready && room.jobs == GPU_JOBS_MAX && !room.low);
    cr_assert(room.bytes == gib && room.bytes_all == gib);
    s->usage.request_bytes = gib - gib / 5 + (1 << 20);
    room = cards_room_of(h.gpu, 1);
    cr_assert(room.low && room.bytes == gib / 5 - (1 << 20));
    s->usage.request_bytes = 2 * gib; /* it says what it likes */
    cr_assert_eq(cards_room_of(h.gpu, 1).bytes, 0);
    s->usage.request_bytes = 0;
    s->usage.replica_bytes = 8 * gib;
    s->usage.free_bytes = gib - gib / 4;
    cr_assert_not(cards_room_of(h.gpu, 1).low, "that is our own doing");
    s->usage.replica_bytes = 2 * gib;
    cr_assert(cards_room_of(h.gpu, 1).low, "others took it");
    s->usage.free_bytes = 2 * gib;
    cr_assert_not(cards_room_of(h.gpu, 1).low, "some, but a fifth is left");
    die(processes[1]);
    room = cards_room_of(h.gpu, 1);
    cr_assert(!room.ready && !room.jobs && !room.bytes && !room.low);
    close_house(&h);
}

Test(gpu_batch, jobs_and_uploads_ahead)
{
    struct house h;
    open_house(&h, "sim,sim");
    uint64_t all = (uint64_t)ROWS * (STRIDE * 4 + 4 + 8); /* with norms and ids */
    processes[0]->share->device.budget_bytes = 1000;      /* too small for it */
    cr_assert_eq(replica_card(h.gpu, collection_resident(h.collection)), 1);
    cr_assert_eq(replica_upload_bytes(h.gpu, collection_resident(h.collection)), all);
    upload(&h, processes[1]);
    processes[0]->share->device.budget_bytes = UINT64_C(1) << 40;
    cr_assert_eq(replica_card(h.gpu, collection_resident(h.collection)), 1, "there it is");
    cr_assert_eq(replica_upload_bytes(h.gpu, collection_resident(h.collection)), 0);
    upsert(&h, 100, 3);
    uint64_t bytes = replica_upload_bytes(h.gpu, collection_resident(h.collection));
    cr_assert(bytes >= 3 * STRIDE * 4 && bytes < all);
    struct job *j = make_knn(&h);
    submit(&h, j);
    cr_assert_eq(replica_upload_bytes(h.gpu, collection_resident(h.collection)), 0, "on its way");
    cr_assert_eq(cards_room_of(h.gpu, 1).jobs, GPU_JOBS_MAX - 1);
    for (struct order o; (o = next_order(processes[1])).kind;)
        answer(processes[1], &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    cr_assert_eq(cards_room_of(h.gpu, 0).jobs, GPU_JOBS_MAX);
    for (int i = 0; i < 2; i++)
        processes[i]->share->device.budget_bytes = 1000;
    replica_forget(h.gpu, collection_resident(h.collection));
    cr_assert_eq(replica_card(h.gpu, collection_resident(h.collection)), 0, "nowhere");
    close_house(&h);
}
