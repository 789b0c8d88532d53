/* Collections whose rows have no room on a card, but what codes them has: they are built without
 * rows, and a kNN is told where those are in the heap. */
#include "tests/unit/cards/gpu_house.h"

#define ROW_BYTES (STRIDE * UINT64_C(4))
/* Less than the rows take, and more than their codes do. */
#define SMALL (ROWS * ROW_BYTES / 2)

static struct resident *it(struct house *h)
{
    return collection_resident(h->collection);
}

static void open_small(struct house *h)
{
    open_house(h, "0");
    processes[0]->share->device.budget_bytes = SMALL;
}

/* As `upload`, and whether it came without rows. */
static bool builds_without_rows(struct house *h)
{
    struct job *j = make_job(h, OPERATION_UPLOAD);
    bool without = false;
    submit(h, j);
    for (struct order o; (o = next_order(processes[0])).kind;) {
        if (o.kind == ORDER_UPLOAD) {
            check_upload(h, &o);
            without = o.upload.shadow_only;
        }
        answer(processes[0], &o, RESULT_OK, SMALL);
    }
    expect_back(h, j);
    cr_assert_not(cards_gave_up(j));
    drop_job(j);
    cr_assert(replica_is_ready(h->gpu, it(h)));
    return without;
}

static void check_places(const struct house *h, const struct order *o)
{
    const struct edition *e = collection_now(h->collection);
    uint64_t each = o->run.host_segment_rows, rows = collection_rows(e);
    cr_assert_eq(each, collection_segment_rows(e));
    const uint64_t *places = at(h, o->run.host_rows);
    for (uint64_t first = 0; first < rows; first += each)
        cr_assert_eq(at(h, places[first / each]), collection_row(e, (uint32_t)first));
}

static struct order expect_knn(struct house *h, struct job **out)
{
    struct job *j = *out = make_knn(h);
    cr_assert(replica_is_shadow_only(h->gpu, j));
    submit(h, j);
    struct order o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_RUN);
    check_places(h, &o);
    return o;
}

static void end(struct house *h, struct job *j, const struct order *o)
{
    answer(processes[0], o, RESULT_OK, 0);
    expect_back(h, j);
    cr_assert_not(cards_gave_up(j));
    drop_job(j);
}

/* What calibration measures with has no codes here, and none on a card. */
Test(gpu_shadow_only, is_not_of_rows_that_are_scored_exactly)
{
    struct house h;
    for (int barred = 0; barred < 2; barred++) {
        open_house(&h, "0");
        if (barred) collection_shadow_never(h.collection);
        struct job *j = make_job(&h, OPERATION_UPLOAD);
        submit(&h, j);
        for (struct order o; (o = next_order(processes[0])).kind;) {
            if (o.kind == ORDER_UPLOAD) cr_assert_eq((int)o.upload.exact, barred);
            answer(processes[0], &o, RESULT_OK, SMALL);
        }
        expect_back(&h, j);
        drop_job(j);
        close_house(&h);
    }
}

Test(gpu_shadow_only, a_knn_is_told_where_the_rows_are)
{
    struct house h;
    struct job *first, *second;
    open_small(&h);
    cr_assert(builds_without_rows(&h));
    struct order o = expect_knn(&h, &first), again = expect_knn(&h, &second);
    cr_assert_eq(o.run.host_rows, again.run.host_rows, "one table for both");
    end(&h, first, &o);
    upsert(&h, ROWS, 700); /* others are told of another; this one is still used */
    cr_assert(builds_without_rows(&h));
    struct order newer = expect_knn(&h, &first);
    cr_assert_neq(newer.run.host_rows, again.run.host_rows);
    end(&h, second, &again);
    end(&h, first, &newer);
    close_house(&h);
}

Test(gpu_shadow_only, a_table_ends_with_its_card)
{
    struct house h;
    struct job *j;
    open_small(&h);
    cr_assert(builds_without_rows(&h));
    expect_knn(&h, &j);
    die(processes[0]);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

Test(gpu_shadow_only, other_requests_are_the_cpus)
{
    struct house h;
    open_small(&h);
    struct job *j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    struct job_replicas known = replicas_of_job(h.gpu, j);
    cr_assert(known.refused, "there would be no rows");
    cr_assert(builds_without_rows(&h));
    known = replicas_of_job(h.gpu, j);
    cr_assert(known.refused);
    drop_job(j);
    j = make_knn(&h);
    known = replicas_of_job(h.gpu, j);
    cr_assert(known.ready && !known.refused);
    drop_job(j);
    j = make_job(&h, OPERATION_WEIGHTED_AVERAGE);
    j->reason = REASON_FORCED;
    j->request.ids = (struct tensor){DTYPE_UINT64, 3, 1, h.ids};
    j->request.weights = (struct tensor){DTYPE_FLOAT32, 3, 1, h.weights};
    for (int i = 0; i < 3; i++)
        h.ids[i] = 7 + (uint64_t)i * 3, h.weights[i] = 1;
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE);
    drop_job(j);
    cr_assert_eq(next_order(processes[0]).kind, 0);
    close_house(&h);
}

Test(gpu_shadow_only, is_a_rung_of_the_quota_too)
{
    struct house h;
    open_house(&h, "0");
    upsert(&h, ROWS, 40000 - ROWS);
    h.space->vram_bytes_max = UINT64_C(14) << 20; /* rows take ten, norms two and ids two */
    cr_assert_not(builds_without_rows(&h));
    close_house(&h);
    open_house(&h, "0");
    upsert(&h, ROWS, 100000 - ROWS);
    h.space->vram_bytes_max = UINT64_C(20) << 20;
    cr_assert(builds_without_rows(&h));
    close_house(&h);
}

Test(gpu_shadow_only, is_not_where_it_is_not_wanted)
{
    struct house h;
    for (int i = 0; i < 2; i++) {
        open_small(&h);
        snprintf(h.config.screen_memory, sizeof h.config.screen_memory, i ? "cpu" : "off");
        struct job *j = make_job(&h, OPERATION_UPLOAD);
        cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
        cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE);
        drop_job(j);
        close_house(&h);
    }
}

/* Where the budget has room for the rows, but the card has not. */
Test(gpu_shadow_only, comes_after_an_upload_that_found_no_memory)
{
    struct house h;
    open_house(&h, "0");
    h.stopped_ns = clock_now_ns();
    for (int round = 0; round < 2; round++) {
        struct job *j = make_job(&h, OPERATION_UPLOAD);
        submit(&h, j);
        struct order o = next_order(processes[0]);
        cr_assert_not(o.upload.shadow_only, "with rows again, as the last one was without");
        answer(processes[0], &o, RESULT_NO_MEMORY, 0);
        expect_back(&h, j);
        drop_job(j);
        o = next_order(processes[0]);
        cr_assert_eq(o.kind, ORDER_FORGET);
        answer(processes[0], &o, RESULT_OK, 0);
        cards_poll(h.gpu);
        h.stopped_ns += UINT64_C(20000000000);
        cr_assert(builds_without_rows(&h));
        upsert(&h, ROWS + (uint64_t)round * 10, 10);
        cr_assert(builds_without_rows(&h), "it stays so");
        die(processes[0]);
        live(processes[0]);
    }
    close_house(&h);
}

Test(gpu_shadow_only, rows_that_fit_again_come_back)
{
    struct house h;
    struct job *j;
    open_small(&h);
    cr_assert(builds_without_rows(&h));
    processes[0]->share->device.budget_bytes = ROWS * (ROW_BYTES + 16);
    upsert(&h, ROWS, 1);
    cr_assert(builds_without_rows(&h), "with hardly any room left");
    processes[0]->share->device.budget_bytes = 4 * ROWS * ROW_BYTES;
    j = make_knn(&h);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_PREDICTED_SLOWER, "it does not wait for the rows");
    drop_job(j);
    cr_assert_not(builds_without_rows(&h));
    j = make_knn(&h);
    cr_assert_not(replica_is_shadow_only(h.gpu, j));
    drop_job(j);
    close_house(&h);
}

/* Of the house's two collections the other one: h->collection is whose turn it is. */
static void turn_to(struct house *h, struct collection *c)
{
    h->collection = c;
}

static struct collection *make_rival(struct house *h)
{
    struct collection *first = h->collection, *rival;
    cr_assert_eq(store_collection_create(h->store, h->space, "rival", DIMENSION, METRIC_COSINE,
                                         NULL, &rival),
                 STATUS_OK);
    turn_to(h, rival);
    upsert(h, 0, ROWS);
    turn_to(h, first);
    return rival;
}

static enum reason ask_in_vain(struct house *h)
{
    struct job *j = make_knn(h);
    cr_assert_eq(h->gpu->ops->submit(h->gpu, j), STATUS_UNAVAILABLE);
    enum reason why = j->gpu.gave_up;
    drop_job(j);
    return why;
}

/* Each fits alone, both do not: the second one's rows would cost the first one its own. */
Test(gpu_shadow_only, leaves_rows_that_are_in_use)
{
    struct house h;
    open_house(&h, "0");
    h.stopped_ns = clock_now_ns();
    struct collection *first = h.collection, *rival = make_rival(&h);
    processes[0]->share->device.budget_bytes = ROWS * ROW_BYTES * 3 / 2;
    cr_assert_not(builds_without_rows(&h));
    turn_to(&h, rival);
    cr_assert(builds_without_rows(&h), "the first one is in use");
    for (int i = 0; i < 5; i++) {
        h.stopped_ns += UINT64_C(3000000000);
        for (int of = 0; of < 2; of++) {
            turn_to(&h, of ? rival : first);
            struct job *j = make_knn(&h);
            cr_assert_eq(replica_is_shadow_only(h.gpu, j), of == 1, "both stay as they are");
            submit(&h, j);
            struct order o = next_order(processes[0]);
            cr_assert_eq(o.kind, ORDER_RUN);
            end(&h, j, &o);
        }
    }
    /* Nobody asks the first one any more. */
    h.stopped_ns += UINT64_C(11000000000);
    turn_to(&h, rival);
    cr_assert_eq(ask_in_vain(&h), REASON_PREDICTED_SLOWER);
    cr_assert_not(builds_without_rows(&h));
    close_house(&h);
}

/* What cannot be answered from codes gets the rows, and who loses its own for that has codes. */
Test(gpu_shadow_only, gives_way_to_who_needs_rows)
{
    struct house h;
    open_house(&h, "0");
    h.stopped_ns = clock_now_ns();
    struct collection *rival = make_rival(&h);
    processes[0]->share->device.budget_bytes = ROWS * ROW_BYTES * 3 / 2;
    cr_assert_not(builds_without_rows(&h));
    turn_to(&h, rival);
    cr_assert(builds_without_rows(&h));
    struct job *j = make_knn(&h); /* which codes answer */
    replicas_miss_rows(h.gpu, j);
    cr_assert(replica_is_shadow_only(h.gpu, j));
    drop_job(j);
    j = make_job(&h, OPERATION_SIMILARITY);
    cr_assert(replicas_of_job(h.gpu, j).refused);
    replicas_miss_rows(h.gpu, j);
    cr_assert_not(replicas_of_job(h.gpu, j).refused);
    drop_job(j);
    cr_assert_not(builds_without_rows(&h));
    close_house(&h);
}

/* Codes for which a card has no use, as of too few rows, are not tried again at once. */
Test(gpu_shadow_only, is_of_no_use_there)
{
    struct house h;
    open_house(&h, "0");
    h.stopped_ns = clock_now_ns();
    struct collection *rival = make_rival(&h);
    processes[0]->share->device.budget_bytes = ROWS * ROW_BYTES * 3 / 2;
    cr_assert_not(builds_without_rows(&h));
    turn_to(&h, rival);
    struct job *j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    struct order o = next_order(processes[0]);
    cr_assert(o.kind == ORDER_UPLOAD && o.upload.shadow_only);
    answer(processes[0], &o, RESULT_NO_MEMORY, 0);
    expect_back(&h, j);
    drop_job(j);
    o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_FORGET);
    answer(processes[0], &o, RESULT_OK, 0);
    cards_poll(h.gpu);
    h.stopped_ns += UINT64_C(6000000000);
    cr_assert_not(builds_without_rows(&h));
    close_house(&h);
}

/* In pieces so large that codes, in seven ranges, take as much as rows in three. */
Test(gpu_shadow_only, is_not_where_it_saves_nothing)
{
    struct house h;
    open_house(&h, "0");
    struct collection *rival = make_rival(&h);
    processes[0]->share->device.budget_bytes = ROWS * ROW_BYTES * 3 / 2;
    processes[0]->share->device.piece_bytes = 1 << 20;
    cr_assert_not(builds_without_rows(&h));
    turn_to(&h, rival);
    cr_assert_not(builds_without_rows(&h));
    close_house(&h);
}

Test(gpu_shadow_only, no_memory_for_a_table)
{
    struct house h;
    bool seen = false, fired = true;
    open_small(&h);
    cr_assert(builds_without_rows(&h));
    for (uint32_t nth = 1; fired; nth++) {
        struct job *j = make_knn(&h);
        upsert(&h, ROWS, 1); /* for which there is no table yet */
        it(&h)->ops->lend(it(&h), j);
        fault_arm(nth);
        enum status st = h.gpu->ops->submit(h.gpu, j);
        fired = fault_fired() != NULL;
        seen |= fired && strcmp(fault_fired(), "cards: row places") == 0;
        fault_arm(0);
        for (struct order o; (o = next_order(processes[0])).kind;)
            answer(processes[0], &o, RESULT_OK, SMALL);
        if (!st) expect_back(&h, j);
        cr_assert_eq(fired, st || cards_gave_up(j));
        drop_job(j);
    }
    cr_assert(seen);
    close_house(&h);
}
