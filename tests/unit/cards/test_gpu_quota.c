/* A space's quota of VRAM: who has too much gets the CPU; nobody else notices. */
#include "tests/unit/cards/gpu_house.h"

/* What the house's collection takes: its rows, norms and ids, 2 MiB each. */
#define WANTED (UINT64_C(6) << 20)

/* In h's space or another; the house speaks of it from now on. */
static struct collection *add_collection(struct house *h, const char *space, const char *name)
{
    cr_assert_eq(store_space(h->store, space, &h->space), STATUS_OK);
    cr_assert_eq(store_collection_create(h->store, h->space, name, DIMENSION, METRIC_COSINE, NULL,
                                         &h->collection),
                 STATUS_OK);
    upsert(h, 0, ROWS);
    return h->collection;
}

static void speak_of(struct house *h, struct collection *c)
{
    h->collection = c;
    h->space = collection_space(c);
}

static void expect_refused(struct house *h, enum operation operation)
{
    struct job *j = operation == OPERATION_KNN ? make_knn(h) : make_job(h, operation);
    cr_assert_eq(h->gpu->ops->submit(h->gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE, "%d", j->gpu.gave_up);
    cr_assert_eq(j->failure.code, STATUS_OK, "the CPU answers");
    drop_job(j);
    cr_assert(replica_was_refused(h->gpu, collection_resident(h->collection)));
    cr_assert_not(replica_is_ready(h->gpu, collection_resident(h->collection)));
    cr_assert_not(replica_wants_upload(h->gpu, collection_resident(h->collection)),
                  "not again at once");
}

static void expect_nothing_said(void)
{
    cr_assert_eq(next_order(processes[0]).kind, 0);
}

static void expect_forgotten(uint64_t replica)
{
    struct order o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_FORGET, "%u", o.kind);
    cr_assert_eq(o.replica, replica);
    answer(processes[0], &o, RESULT_OK, 0);
}

Test(gpu_quota, what_is_too_large_is_not_built_and_is_tried_again)
{
    struct house h;
    open_house(&h, "0");
    h.space->vram_bytes_max = WANTED - 1;
    expect_refused(&h, OPERATION_UPLOAD);
    expect_refused(&h, OPERATION_KNN);
    expect_nothing_said();
    cr_assert_eq(replicas_space_bytes(h.gpu, h.space), 0);
    h.space->vram_bytes_max = WANTED;
    for (int i = 0; i < 30000 && !replica_wants_upload(h.gpu, collection_resident(h.collection));
         i++)
        usleep(10000);
    cr_assert(replica_wants_upload(h.gpu, collection_resident(h.collection)),
              "it is tried again after a while");
    upload(&h, processes[0]);
    close_house(&h);
}

Test(gpu_quota, a_replica_that_grows_past_it_goes)
{
    enum { MORE = 6000 }; /* 9,000 rows of 256 bytes are more than 2 MiB */
    struct house h;
    open_house(&h, "0");
    h.space->vram_bytes_max = WANTED;
    uint64_t replica = upload(&h, processes[0]);
    upsert(&h, ROWS, 100);
    cr_assert_eq(upload(&h, processes[0]), replica, "as long as it fits it grows");
    upsert(&h, ROWS + 100, MORE);
    expect_refused(&h, OPERATION_UPLOAD);
    expect_forgotten(replica);
    expect_nothing_said();
    cr_assert_eq(replicas_space_bytes(h.gpu, h.space), 0);
    close_house(&h);
}

Test(gpu_quota, a_quota_that_sinks_takes_a_replica_at_its_next_change)
{
    struct house h;
    open_house(&h, "0");
    uint64_t replica = upload(&h, processes[0]);
    h.space->vram_bytes_max = WANTED - 1;
    cr_assert(replica_is_ready(h.gpu, collection_resident(h.collection)));
    upsert(&h, ROWS, 10);
    expect_refused(&h, OPERATION_KNN);
    expect_forgotten(replica);
    close_house(&h);
}

Test(gpu_quota, the_spaces_own_make_way_the_least_recently_used_first)
{
    struct house h;
    open_house(&h, "0");
    struct collection *first = h.collection;
    upload(&h, processes[0]);
    struct collection *others = add_collection(&h, "other", "c");
    upload(&h, processes[0]);
    struct collection *second = add_collection(&h, "test", "d");
    uint64_t second_replica = upload(&h, processes[0]);
    struct collection *third = add_collection(&h, "test", "e");
    h.space->vram_bytes_max = 2 * WANTED;

    /* The first is used once more, so the second is the one to go. */
    speak_of(&h, first);
    struct job *j = make_knn(&h);
    submit(&h, j);
    struct order o = next_order(processes[0]);
    cr_assert_eq(o.kind, ORDER_RUN);
    answer(processes[0], &o, RESULT_NO_MEMORY, 0);
    expect_gave_up(&h, j, REASON_VRAM_PRESSURE);

    speak_of(&h, third);
    j = make_job(&h, OPERATION_UPLOAD);
    submit(&h, j);
    expect_forgotten(second_replica);
    o = next_order(processes[0]);
    check_upload(&h, &o);
    cr_assert_eq(o.upload.space_bytes_max, 2 * WANTED, "a second version, too, is within it");
    answer(processes[0], &o, RESULT_OK, WANTED);
    expect_back(&h, j);
    drop_job(j);
    cr_assert(replica_is_ready(h.gpu, collection_resident(first)));
    cr_assert(replica_is_ready(h.gpu, collection_resident(third)));
    cr_assert(replica_is_ready(h.gpu, collection_resident(others)), "nobody else's");
    cr_assert_not(replica_is_ready(h.gpu, collection_resident(second)));
    cr_assert(replica_was_refused(h.gpu, collection_resident(second)));

    /* What could not fit even alone makes nobody go. */
    add_collection(&h, "test", "large");
    upsert(&h, ROWS, 40000);
    h.space->vram_bytes_max = 2 * WANTED;
    expect_refused(&h, OPERATION_UPLOAD);
    expect_nothing_said();
    cr_assert(replica_is_ready(h.gpu, collection_resident(first)));
    close_house(&h);
}

Test(gpu_quota, other_spaces_have_their_own)
{
    struct house h;
    open_house(&h, "0");
    h.space->vram_bytes_max = WANTED;
    upload(&h, processes[0]);
    add_collection(&h, "other", "c");
    h.space->vram_bytes_max = WANTED;
    upload(&h, processes[0]);
    add_collection(&h, "third", "c");
    upload(&h, processes[0]);
    close_house(&h);
}
