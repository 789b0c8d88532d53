/* Editions of a collection: what a reader has pinned stays as it was, whatever writers do; and
 * what it costs goes with it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/collection.h"

enum { D = 256, ROWS = 60000, BATCH = 1000, TIMES = 20 };

static struct heap *heap;
static struct store *store;
static struct space *space;
static struct collection *c;
static float *values;
static uint64_t *ids;

static void begin(void)
{
    struct failure f;
    cr_assert_eq(heap_create(256 << 20, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_choose("auto"), &store), STATUS_OK);
    cr_assert_eq(store_space(store, "alpha", &space), STATUS_OK);
    cr_assert_eq(store_collection_create(store, space, "rows", D, METRIC_DOT, &f, &c), STATUS_OK);
    values = aligned_alloc(64, (size_t)BATCH * D * sizeof *values);
    ids = malloc(ROWS * sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i * 3;
}

static void end(void)
{
    free(values);
    free(ids);
    store_destroy(store);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    heap_destroy(heap);
}

TestSuite(editions, .init = begin, .fini = end);

/* Rows [first, first + count), each of them `value` everywhere. */
static enum status put(uint64_t first, uint64_t count, float value, struct failure *f)
{
    struct upsert_counts counts;
    for (uint64_t i = 0; i < count * D; i++)
        values[i] = value;
    return collection_upsert(c, ids + first, values, count, &counts, f);
}

static void put_all(float value)
{
    struct failure f = {0};
    for (uint64_t first = 0; first < ROWS; first += BATCH)
        cr_assert_eq(put(first, BATCH, value, &f), STATUS_OK, "%s", f.text);
}

/* All rows of the first put_all are there, and no others. */
static void is_whole(const struct edition *e, float value)
{
    cr_assert_eq(collection_rows(e), ROWS);
    for (uint64_t i = 0; i < ROWS; i += 7) {
        uint32_t row = collection_find_row(e, ids[i]);
        cr_assert_neq(row, COLLECTION_NO_ROW, "id %llu", (unsigned long long)ids[i]);
        cr_assert_eq(collection_id(e, row), ids[i]);
        cr_assert(collection_row(e, row)[0] == value && collection_row(e, row)[D - 1] == value);
        cr_assert_eq(collection_norm(e, row), value * 16);
    }
    cr_assert_eq(collection_find_row(e, 1), COLLECTION_NO_ROW);
}

Test(editions, a_pinned_one_stays_as_it_was)
{
    struct failure f;
    uint64_t deleted, missing, odd[BATCH];
    put_all(1);
    struct edition *e = collection_pin(c);
    uint64_t version = collection_version(e);
    cr_assert_eq(put(500, 1, 2, &f), STATUS_OK);
    cr_assert_neq(collection_now(c), e);
    cr_assert_eq(collection_row(collection_now(c), 500)[0], 2);
    is_whole(e, 1);
    collection_delete(c, ids, BATCH, &deleted, &missing);
    cr_assert_eq(deleted, BATCH);
    for (uint64_t i = 0; i < BATCH; i++)
        odd[i] = 3 * i + 1;
    struct upsert_counts counts;
    for (uint64_t i = 0; i < (uint64_t)BATCH * D; i++)
        values[i] = 5;
    cr_assert_eq(collection_upsert(c, odd, values, BATCH, &counts, &f), STATUS_OK);
    cr_assert_eq(counts.inserted, BATCH, "where an older edition has rows");
    cr_assert_eq(put(0, BATCH, 3, &f), STATUS_OK);
    is_whole(e, 1);
    cr_assert_eq(collection_version(e), version);
    cr_assert_eq(collection_rows(collection_now(c)), ROWS + BATCH);
    collection_unpin(e);
    uint32_t row = collection_find_row(collection_now(c), 1);
    cr_assert_eq(collection_row(collection_now(c), row)[0], 5);
    cr_assert_eq(collection_find_row(collection_now(c), ids[ROWS - 1] + 3), COLLECTION_NO_ROW);
}

Test(editions, readers_of_several_have_each_their_own)
{
    struct edition *pinned[4];
    for (int i = 0; i < 4; i++) {
        put_all((float)(i + 1));
        pinned[i] = collection_pin(c);
    }
    uint64_t all = heap_usage(heap).bytes_used;
    is_whole(pinned[1], 2);
    collection_unpin(pinned[1]);
    cr_assert_lt(heap_usage(heap).bytes_used, all);
    is_whole(pinned[0], 1);
    is_whole(pinned[2], 3);
    collection_unpin(pinned[3]);
    collection_unpin(pinned[0]);
    is_whole(pinned[2], 3);
    is_whole(collection_now(c), 4);
    collection_unpin(pinned[2]);
    is_whole(collection_now(c), 4);
}

/* However often all of it is written anew while one reader goes on. */
Test(editions, a_long_reader_costs_the_collection_once_more)
{
    put_all(1);
    uint64_t alone = heap_usage(heap).bytes_used;
    struct edition *e = collection_pin(c);
    for (int i = 0; i < TIMES; i++) {
        put_all((float)(2 + i));
        cr_assert_leq(heap_usage(heap).bytes_peak, alone * 21 / 10, "%llu after %d times, not %llu",
                      (unsigned long long)heap_usage(heap).bytes_peak, i + 1,
                      (unsigned long long)alone);
    }
    is_whole(e, 1);
    collection_unpin(e);
    cr_assert_eq(heap_usage(heap).bytes_used, alone);
    is_whole(collection_now(c), TIMES + 1);
}

/* The space may have a quarter more than there is. */
Test(editions, a_write_without_memory_is_refused_while_a_reader_goes_on)
{
    struct failure f = {0};
    put_all(1);
    uint64_t alone = heap_owner_bytes(heap, space->number);
    cr_assert_eq(heap_quota(heap, space->number, alone * 5 / 4), STATUS_OK);
    struct edition *e = collection_pin(c);
    enum status st = STATUS_OK;
    uint64_t first = 0;
    for (; !st && first < ROWS; first += BATCH)
        st = put(first, BATCH, 2, &f);
    cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
    cr_assert(f.detail == DETAIL_QUOTA && f.retry_after_ms, "%s", f.text);
    is_whole(e, 1);
    first -= BATCH; /* the one that was refused */
    cr_assert_eq(collection_row(collection_now(c), (uint32_t)first - 1)[0], 2);
    cr_assert_eq(collection_row(collection_now(c), (uint32_t)first)[0], 1, "all or nothing");
    collection_unpin(e);
    cr_assert_eq(heap_owner_bytes(heap, space->number), alone);
    put_all(3);
    is_whole(collection_now(c), 3);
}

Test(editions, a_small_write_that_nobody_sees_is_done_in_place)
{
    struct failure f;
    put_all(1);
    struct edition *e = collection_now(c);
    uint64_t blocks = heap_usage(heap).blocks;
    cr_assert_eq(put(5, 1, 2, &f), STATUS_OK);
    cr_assert_eq(collection_now(c), e);
    cr_assert_eq(heap_usage(heap).blocks, blocks);
    collection_expect_write(c);
    struct upsert_counts counts;
    const struct upsert_rows one = {.ids = ids, .rows = values, .n = 1};
    cr_assert_eq(collection_write_rows(c, &one, &counts, &f), STATUS_OK);
    cr_assert_null(collection_pin(c), "what it wrote is not told yet");
    collection_publish(c);
    cr_assert_eq(collection_pin(c), e);
    collection_unpin(e);
}

/* Writes `count` rows, each `step` after the one before, of which the last may be bad. Returns
 * whether readers could go on meanwhile. */
static bool goes_on_beside(uint64_t count, uint64_t step, float value, float last)
{
    struct failure f = {0};
    struct upsert_counts counts;
    float *many = aligned_alloc(64, count * D * sizeof *many);
    uint64_t *some = malloc(count * sizeof *some);
    for (uint64_t i = 0; i < count * D; i++)
        many[i] = i + 1 < count * D ? value : last;
    for (uint64_t i = 0; i < count; i++)
        some[i] = ids[i * step];
    collection_expect_write(c);
    const struct upsert_rows what = {.ids = some, .rows = many, .n = count};
    enum status st = collection_write_rows(c, &what, &counts, &f);
    cr_assert_eq(st, last == value ? STATUS_OK : STATUS_INVALID_ARGUMENT, "%s", f.text);
    struct edition *e = collection_pin(c);
    collection_publish(c);
    if (e) collection_unpin(e);
    gone_free(heap, collection_take_gone(c));
    free(many);
    free(some);
    return e != NULL;
}

/* Two segments are written whole; rows here and there would need copies of all segments. */
Test(editions, a_large_write_is_done_in_place_only_if_it_would_copy_much_more)
{
    enum { SEGMENTS = 2, SPARSE = 14 };
    put_all(1);
    uint64_t rows = SEGMENTS * collection_segment_rows(collection_now(c));
    uint64_t alone = heap_usage(heap).bytes_used;
    cr_assert(goes_on_beside(rows, 1, 2, 2));
    for (uint64_t row = 0; row < ROWS; row++)
        cr_assert_eq(collection_row(collection_now(c), (uint32_t)row)[0], row < rows ? 2 : 1);
    cr_assert(goes_on_beside(rows, 1, 3, INFINITY), "nothing was closed for it");
    cr_assert_eq(collection_row(collection_now(c), 0)[0], 2, "all or nothing");
    cr_assert_eq(collection_norm(collection_now(c), 0), 2 * 16);
    cr_assert_not(goes_on_beside(rows, SPARSE, 4, 4));
    for (uint64_t row = 0; row < ROWS; row++) {
        float old = row < rows ? 2 : 1;
        bool written = row % SPARSE == 0 && row / SPARSE < rows;
        cr_assert_eq(collection_row(collection_now(c), (uint32_t)row)[0], written ? 4 : old);
    }
    cr_assert_eq(heap_usage(heap).bytes_used, alone);
}
