/* The GPU backend and requests that read two collections: both replicas, each with its version, on
 * one card; what is withheld when the second cannot be had. */
#include "tests/unit/cards/gpu_house.h"

enum { PAIRS = 20 };

/* "other", which is h->collection from now on; returns what that was. */
static struct collection *add_other(struct house *h)
{
    struct collection *first = h->collection;
    cr_assert_eq(store_collection_create(h->store, h->space, "other", DIMENSION, METRIC_COSINE,
                                         NULL, &h->collection),
                 STATUS_OK);
    upsert(h, 0, ROWS);
    return first;
}

static struct job *make_bind(struct house *h, struct collection *a, struct collection *b)
{
    struct job other = {0};
    h->collection = b;
    collection_resident(b)->ops->lend(collection_resident(b), &other);
    h->collection = a;
    struct job *j = make_job(h, OPERATION_BIND);
    j->objects[1] = other.objects[0];
    for (uint64_t i = 0; i < PAIRS; i++)
        h->ids[i] = 7 + i * 30;
    j->request.ids = j->request.other_ids = (struct tensor){DTYPE_UINT64, PAIRS, 1, h->ids};
    return j;
}

static void expect_withheld(struct house *h, struct job *j, enum reason why)
{
    expect_gave_up(h, j, why);
    cr_assert_eq(cards_in_flight(h->gpu), 0);
}

/* Answers what a job has ordered on the way; returns its run, or kind 0. */
static struct order answer_uploads(struct played_card *p, unsigned *uploads)
{
    struct order o;
    *uploads = 0;
    while ((o = next_order(p)).kind && o.kind != ORDER_RUN) {
        *uploads += o.kind == ORDER_UPLOAD;
        answer(p, &o, RESULT_OK, 0);
    }
    return o;
}

static void expect_places(struct house *h, const struct order *o, struct collection *a,
                          struct collection *b)
{
    cr_assert(o->version == collection_version(collection_now(a)) &&
              o->other_version == collection_version(collection_now(b)));
    const uint32_t *left = at(h, o->run.positions), *right = at(h, o->run.other.positions);
    for (uint64_t i = 0; i < PAIRS; i++)
        cr_assert(collection_id(collection_now(a), left[i]) == h->ids[i] &&
                  collection_id(collection_now(b), right[i]) == h->ids[i]);
}

Test(gpu_operands, an_order_names_both_replicas)
{
    struct house h;
    open_house(&h, "0");
    struct collection *a = add_other(&h), *b = h.collection;
    uint64_t there = upload(&h, processes[0]);
    struct job *j = make_bind(&h, a, b);
    j->reason = REASON_FORCED; /* it brings the other replica along */
    submit(&h, j);
    unsigned uploads;
    struct order o = answer_uploads(processes[0], &uploads);
    cr_assert_eq(uploads, 1);
    cr_assert(o.kind == ORDER_RUN && o.run.operation == RUN_BIND);
    cr_assert(o.replica && o.replica != there && o.other_replica == there);
    expect_places(&h, &o, a, b);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(!cards_gave_up(j) && j->result.versions[0] && j->result.versions[1]);
    drop_job(j);

    j = make_bind(&h, a, a); /* one replica, twice */
    submit(&h, j);
    o = answer_uploads(processes[0], &uploads);
    cr_assert(!uploads && o.kind == ORDER_RUN && o.replica == o.other_replica);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    drop_job(j);
    close_house(&h);
}

Test(gpu_operands, the_replica_that_is_missing_is_lost)
{
    struct house h;
    open_house(&h, "0");
    struct collection *a = h.collection;
    upload(&h, processes[0]);
    add_other(&h);
    struct collection *b = h.collection;
    upload(&h, processes[0]);
    for (uint64_t operand = 0; operand < 2; operand++) {
        struct job *j = make_bind(&h, a, b);
        submit(&h, j);
        struct order o = next_order(processes[0]);
        cr_assert_eq(o.kind, ORDER_RUN);
        answer(processes[0], &o, RESULT_NO_REPLICA, operand);
        expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
        struct order forget = next_order(processes[0]);
        cr_assert_eq(forget.kind, ORDER_FORGET);
        cr_assert_eq(forget.replica, operand ? o.other_replica : o.replica);
        answer(processes[0], &forget, RESULT_OK, 0);
        take_back(&h);
        if (operand) break;
        cr_assert_not(replica_is_ready(h.gpu, collection_resident(a)));
        cr_assert(replica_is_ready(h.gpu, collection_resident(b)), "that was there");
        h.stopped_ns = clock_now_ns() + UINT64_C(20000000000); /* it may be built again */
        h.collection = a;
        upload(&h, processes[0]);
    }
    close_house(&h);
}

/* What was ordered for the first operand is waited for. */
Test(gpu_operands, a_run_whose_second_upload_fails_is_withheld)
{
    struct house h;
    open_house(&h, "0");
    struct collection *a = add_other(&h), *b = h.collection;
    /* Room for one of them in the space's quota. */
    h.space->vram_bytes_max = UINT64_C(6) << 20;
    struct job *j = make_bind(&h, a, b);
    j->reason = REASON_FORCED;
    submit(&h, j);
    expect_none_back(&h);
    cr_assert_eq(cards_in_flight(h.gpu), 1);
    unsigned uploads;
    struct order o = answer_uploads(processes[0], &uploads);
    cr_assert(uploads > 0 && !o.kind, "%u uploads, then %u", uploads, o.kind);
    expect_withheld(&h, j, REASON_VRAM_PRESSURE);
    close_house(&h);
}

/* Two cards: what is asked for together comes to one; what is apart already stays. */
Test(gpu_operands, are_on_one_card)
{
    for (int apart = 0; apart < 2; apart++) {
        struct house h;
        open_house(&h, "sim,sim");
        struct collection *a = h.collection;
        uint64_t budget = processes[0]->share->device.budget_bytes;
        if (apart) upload(&h, processes[0]);
        add_other(&h);
        struct collection *b = h.collection;
        processes[0]->share->device.budget_bytes = apart ? 1000 : budget;
        if (apart) upload(&h, processes[1]);
        processes[0]->share->device.budget_bytes = budget;
        struct job *j = make_bind(&h, a, b);
        struct job_replicas known = replicas_of_job(h.gpu, j);
        cr_assert(!known.ready && !known.refused);
        j->reason = REASON_FORCED;
        if (apart) {
            cr_assert_neq(h.gpu->ops->submit(h.gpu, j), STATUS_OK);
            cr_assert_eq(j->gpu.gave_up, REASON_PREDICTED_SLOWER);
            drop_job(j);
            close_house(&h);
            continue;
        }
        submit(&h, j);
        struct played_card *p = processes[known.card];
        unsigned uploads;
        struct order o = answer_uploads(p, &uploads);
        cr_assert(uploads == 2 && o.kind == ORDER_RUN);
        cr_assert_eq(next_order(processes[!known.card]).kind, 0, "nothing comes to the other");
        answer(p, &o, RESULT_OK, 0);
        expect_back(&h, j);
        cr_assert(replicas_of_job(h.gpu, j).ready);
        drop_job(j);
        close_house(&h);
    }
}

/* The process dies while a run is withheld, or runs. */
Test(gpu_operands, come_back_from_a_card_that_is_lost)
{
    for (int held = 0; held < 2; held++) {
        struct house h;
        open_house(&h, "0");
        struct collection *a = add_other(&h), *b = h.collection;
        if (held) h.space->vram_bytes_max = UINT64_C(6) << 20;
        struct job *j = make_bind(&h, a, b);
        j->reason = REASON_FORCED;
        submit(&h, j);
        die(processes[0]);
        expect_withheld(&h, j, held ? REASON_VRAM_PRESSURE : REASON_FALLBACK_AFTER_ERROR);
        close_house(&h);
    }
}

/* Each would end the other for its own room, and be ended by it. */
Test(gpu_operands, two_that_do_not_fit_together_are_not_built)
{
    struct house h;
    open_house(&h, "0");
    struct collection *a = add_other(&h), *b = h.collection;
    struct job *j = make_bind(&h, a, b), *twice = make_bind(&h, a, a);
    cr_assert_not(replicas_of_job(h.gpu, j).refused);
    h.space->vram_bytes_max = UINT64_C(6) << 20; /* room for one */
    cr_assert(replicas_of_job(h.gpu, j).refused);
    cr_assert_not(replicas_of_job(h.gpu, twice).refused);
    h.space->vram_bytes_max = UINT64_C(12) << 20;
    cr_assert_not(replicas_of_job(h.gpu, j).refused);
    drop_job(j);
    drop_job(twice);
    close_house(&h);
}
