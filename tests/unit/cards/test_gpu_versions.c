/* The GPU backend when there is no VRAM for a second version of a replica: newer jobs are for the
 * CPU until one that reads the first has ended, and what was not uploaded then is. */
#include "tests/unit/cards/gpu_house.h"

static bool is_ready(struct house *h)
{
    return replica_is_ready(h->gpu, collection_resident(h->collection));
}

static bool wants_upload(struct house *h)
{
    return replica_wants_upload(h->gpu, collection_resident(h->collection));
}

/* A job on the newest rows, whose uploads, `count` of them, are answered so, and its run like the
 * last. Returns the round that they were of. */
static uint32_t ask(struct house *h, const enum order_result *results, uint32_t count)
{
    struct played_card *p = processes[0];
    struct job *j = make_knn(h);
    struct order orders[4];
    cr_assert(is_ready(h));
    submit(h, j);
    for (uint32_t i = 0; i <= count; i++) {
        orders[i] = next_order(p);
        cr_assert_eq(orders[i].kind, i < count ? ORDER_UPLOAD : ORDER_RUN);
        if (i < count) check_upload(h, &orders[i]);
        cr_assert(i == count || orders[i].upload.round == orders[0].upload.round);
    }
    uint32_t round = orders[0].upload.round;
    for (uint32_t i = 0; i < count; i++)
        answer(p, &orders[i], results[i], 0);
    answer(p, &orders[count], results[count - 1], 0);
    if (results[count - 1] == RESULT_OK) {
        expect_back(h, j);
        drop_job(j);
    } else {
        expect_gave_up(h, j, REASON_VRAM_PRESSURE);
    }
    return round;
}

Test(gpu_versions, newer_jobs_are_for_the_cpu_until_an_older_has_ended)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *older = make_knn(&h);
    submit(&h, older);
    struct order run = expect_run(p, RUN_KNN);
    upsert(&h, 100, 3);
    enum order_result none[] = {RESULT_NO_VERSION}, well[] = {RESULT_OK};
    uint32_t round = ask(&h, none, 1);
    cr_assert_not(is_ready(&h));
    cr_assert_not(wants_upload(&h));
    cr_assert_eq(p->process->failures, 1, "it is no failure");
    struct job *forced = make_knn(&h);
    forced->reason = REASON_FORCED;
    cr_assert_eq(h.gpu->ops->submit(h.gpu, forced), STATUS_UNAVAILABLE);
    cr_assert_eq(forced->gpu.gave_up, REASON_VRAM_PRESSURE);
    drop_job(forced);
    cr_assert_eq(next_order(p).kind, 0, "nothing is sent meanwhile");
    answer(p, &run, RESULT_OK, 0);
    expect_back(&h, older);
    drop_job(older);
    cr_assert(is_ready(&h) && wants_upload(&h));
    cr_assert_gt(ask(&h, well, 1), round);
    cr_assert_not(wants_upload(&h));
    close_house(&h);
}

/* Where the uploads of a round differ, only what was refused is uploaded again. */
Test(gpu_versions, what_was_refused_is_uploaded_again)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    uint64_t all = resident_bytes(collection_resident(h.collection));
    upsert(&h, 0, 3);
    upsert(&h, ROWS - 3, 3);
    uint64_t dirty = resident_dirty_bytes(collection_resident(h.collection));
    enum order_result half[] = {RESULT_OK, RESULT_NO_VERSION}, well[] = {RESULT_OK};
    uint32_t round = ask(&h, half, 2);
    /* No older job is under way: nothing is to be waited for. */
    cr_assert(is_ready(&h) && wants_upload(&h));
    uint64_t left = resident_dirty_bytes(collection_resident(h.collection));
    cr_assert(left > 0 && left < dirty && dirty < all);
    cr_assert_eq(ask(&h, well, 1), round + 1);
    cr_assert_eq(resident_dirty_bytes(collection_resident(h.collection)), 0);
    close_house(&h);
}

Test(gpu_versions, a_new_process_starts_anew)
{
    struct house h;
    open_house(&h, "sim");
    struct played_card *p = processes[0];
    upload(&h, p);
    struct job *older = make_knn(&h);
    submit(&h, older);
    expect_run(p, RUN_KNN);
    upsert(&h, 100, 3);
    enum order_result none[] = {RESULT_NO_VERSION};
    ask(&h, none, 1);
    die(p);
    expect_gave_up(&h, older, REASON_FALLBACK_AFTER_ERROR);
    live(p);
    cr_assert(wants_upload(&h));
    upload(&h, p);
    cr_assert(is_ready(&h) && !wants_upload(&h));
    close_house(&h);
}
