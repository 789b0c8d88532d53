/* Rows of a request that a collection keeps where they lie, in a block that it shares with the
 * request's body. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/heap/shared_block.h"
#include "daemon/store/collection.h"

/* Segments have 2,048 rows; the last one is not full. */
enum { D = 256, SEGMENT = 2048, SEGMENTS = 12, ROWS = SEGMENTS * SEGMENT + 100, BATCH = 1024 };

static struct heap *heap;
static struct store *store;
static struct space *space;
static struct collection *c;
static uint64_t *ids;

static struct collection *make(const char *name, uint32_t dimension)
{
    struct failure f;
    struct collection *made;
    cr_assert_eq(store_collection_create(store, space, name, dimension, METRIC_DOT, &f, &made),
                 STATUS_OK);
    return made;
}

static void begin(void)
{
    cr_assert_eq(heap_create(256 << 20, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_choose("auto"), &store), STATUS_OK);
    store_limit_collections(store, 10);
    cr_assert_eq(store_space(store, "alpha", &space), STATUS_OK);
    c = make("rows", D);
    ids = malloc(ROWS * sizeof *ids);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i * 3;
}

static void end(void)
{
    free(ids);
    store_destroy(store);
    cr_assert_eq(heap_usage(heap).blocks, 0);
    heap_destroy(heap);
}

TestSuite(kept_rows, .init = begin, .fini = end);

/* A request's body: ids, then rows. */
struct request {
    struct heap_block block;
    struct shared_block *shared;
    struct upsert_rows what;
};

static struct request request_of(const uint64_t *of_ids, uint64_t n, uint64_t d, float value)
{
    struct request r;
    uint64_t head = (n * sizeof *of_ids + 63) / 64 * 64;
    cr_assert_eq(heap_take(heap, head + n * d * sizeof(float), space->number, &r.block), STATUS_OK);
    r.shared = shared_block_make(heap, &r.block);
    float *rows = (float *)((char *)r.block.data + head);
    memcpy(r.block.data, of_ids, n * sizeof *of_ids);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t x = 0; x < d; x++)
            rows[i * d + x] = value + (float)(of_ids[i] % 64);
    r.what = (struct upsert_rows){r.block.data, rows, n, r.shared};
    return r;
}

/* Writes it; its body goes, and what older editions had. */
static enum status answer(struct collection *to, struct request *r)
{
    struct failure f;
    struct upsert_counts counts;
    collection_expect_write(to);
    enum status st = collection_write_rows(to, &r->what, &counts, &f);
    collection_publish(to);
    gone_free(heap, collection_take_gone(to));
    shared_block_end(r->shared, &r->block);
    return st;
}

static void write_all(float value)
{
    struct request r = request_of(ids, ROWS, D, value);
    cr_assert_eq(answer(c, &r), STATUS_OK);
}

static void is_whole(const struct edition *e, float value)
{
    cr_assert_eq(collection_rows(e), ROWS);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t row = collection_find_row(e, ids[i]);
        float expected = value + (float)(ids[i] % 64);
        cr_assert_eq(collection_id(e, row), ids[i]);
        cr_assert(collection_row(e, row)[0] == expected &&
                      collection_row(e, row)[D - 1] == expected,
                  "row %u", row);
        cr_assert_eq(collection_norm(e, row), 16 * expected);
    }
}

static uint64_t used(void)
{
    struct heap_usage usage = heap_usage(heap);
    return usage.bytes_used - usage.bytes_outside;
}

Test(kept_rows, a_collection_is_written_anew_without_a_copy)
{
    write_all(1);
    uint64_t alone = used(), all = heap_usage(heap).bytes_used;
    struct edition *e = collection_pin(c);
    uint64_t body = 0;
    for (int i = 2; i < 8; i++) {
        struct request r = request_of(ids, ROWS, D, (float)i);
        const float *third = r.what.rows + (uint64_t)2 * SEGMENT * D;
        body = r.block.bytes;
        cr_assert_eq(answer(c, &r), STATUS_OK);
        is_whole(collection_now(c), (float)i);
        cr_assert_eq(collection_row(collection_now(c), 2 * SEGMENT), third);
        cr_assert_leq(used(), alone * 21 / 10);
        cr_assert_leq(heap_usage(heap).bytes_peak - body, all * 21 / 10);
    }
    is_whole(e, 1);
    collection_unpin(e);
    is_whole(collection_now(c), 7);
    cr_assert_leq(used(), alone + alone / 20);
}

Test(kept_rows, their_pages_go_one_piece_after_the_other)
{
    write_all(1);
    uint64_t alone = used();
    write_all(2);
    for (uint64_t first = 0; first < ROWS; first += BATCH) {
        uint64_t n = ROWS - first < BATCH ? ROWS - first : BATCH;
        struct request r = request_of(ids + first, n, D, 3);
        struct edition *e = collection_pin(c); /* so that it is not changed in place */
        cr_assert_eq(answer(c, &r), STATUS_OK);
        collection_unpin(e);
        cr_assert_leq(used(), alone + alone / 20, "at row %llu", (unsigned long long)first);
    }
    is_whole(collection_now(c), 3);
    cr_assert_eq(used(), alone);
}

Test(kept_rows, change_and_go_as_others_do)
{
    struct failure f;
    uint64_t deleted, missing;
    write_all(1);
    write_all(2);
    struct edition *e = collection_pin(c);
    const uint64_t some[] = {ids[5], ids[SEGMENT + 1]};
    struct request r = request_of(some, 2, D, 9);
    cr_assert_eq(answer(c, &r), STATUS_OK);
    is_whole(e, 2);
    cr_assert_eq(collection_row(collection_now(c), 5)[0], 9 + (float)(ids[5] % 64));
    collection_unpin(e);
    r = request_of(some, 2, D, 2);
    cr_assert_eq(answer(c, &r), STATUS_OK, "in place");
    is_whole(collection_now(c), 2);
    collection_delete(c, ids, ROWS, &deleted, &missing);
    cr_assert_eq(deleted, ROWS);
    cr_assert_eq(used(), 0);
    struct upsert_counts counts;
    float one[D] __attribute__((aligned(64))) = {1};
    cr_assert_eq(collection_upsert(c, ids, one, 1, &counts, &f), STATUS_OK);
}

/* Rows here and there, of another order, or that need padding, are copied. */
Test(kept_rows, are_whole_segments_in_order)
{
    write_all(1);
    uint64_t alone = used(), *turned = malloc(ROWS * sizeof *turned);
    for (uint64_t i = 0; i < ROWS; i++)
        turned[i] = ids[ROWS - 1 - i];
    struct request r = request_of(turned, ROWS, D, 2);
    cr_assert_eq(answer(c, &r), STATUS_OK);
    is_whole(collection_now(c), 2);
    cr_assert_eq(used(), alone, "nothing of the body is left");
    free(turned);

    struct collection *padded = make("padded", 100);
    for (int i = 0; i < 2; i++) {
        r = request_of(ids, ROWS, 100, 1);
        cr_assert_eq(answer(padded, &r), STATUS_OK);
    }
    cr_assert_eq(collection_row(collection_now(padded), 7)[99], 1 + (float)(ids[7] % 64));
    cr_assert_eq(collection_row(collection_now(padded), 7)[100], 0);
}

Test(kept_rows, a_bad_row_leaves_the_collection_as_it_was)
{
    write_all(1);
    uint64_t alone = used();
    struct request r = request_of(ids, ROWS, D, 2);
    ((float *)r.what.rows)[ROWS * D - 1] = NAN;
    cr_assert_eq(answer(c, &r), STATUS_INVALID_ARGUMENT);
    is_whole(collection_now(c), 1);
    cr_assert_eq(used(), alone);
}

/* Every take of memory fails once; where none is left for a next edition, rows are copied. */
Test(kept_rows, do_without_memory)
{
    write_all(1);
    uint64_t refused = 0;
    float value = 1;
    for (uint32_t nth = 1;; nth++) {
        struct request r = request_of(ids, ROWS, D, value + 1);
        fault_arm(nth);
        enum status st = answer(c, &r);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        value += st == STATUS_OK;
        refused += st != STATUS_OK;
        is_whole(collection_now(c), value);
        if (!fired) break;
    }
    cr_assert_gt(refused, 0);
}
