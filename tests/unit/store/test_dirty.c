/* Dirty rows against a model that keeps one flag a block, and a collection against a copy that is
 * told only what is dirty. */
#include "daemon/store/dirty.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/collection.h"
#include "tests/support/reference.h"

enum { ROW_BYTES = 4096, SHIFT = 6, BLOCK = 1 << SHIFT, BLOCKS_MAX = 300 };

Test(dirty, a_block_is_256_kib_or_64_rows)
{
    struct dirty d;
    dirty_init(&d, 128);
    cr_assert_eq(d.shift, 11);
    dirty_init(&d, 3072);
    cr_assert_eq(d.shift, 6);
    dirty_init(&d, 65536);
    cr_assert_eq(d.shift, 6);
}

Test(dirty, without_a_bitmap_everything_is)
{
    struct dirty d;
    uint64_t first, count;
    dirty_init(&d, ROW_BYTES);
    cr_assert_not(dirty_next(&d, 0, 0, &first, &count));
    cr_assert(dirty_next(&d, 0, 1000, &first, &count));
    cr_assert_eq(first, 0);
    cr_assert_eq(count, 1000);
    cr_assert_not(dirty_next(&d, 1000, 1000, &first, &count));
    dirty_mark(&d, 3, 5);
    dirty_clean(&d, 0, 1000);
    cr_assert_eq(dirty_rows(&d, 1000), 1000);
    cr_assert_null(d.words, "marking and cleaning take no memory");
}

Test(dirty, no_memory_leaves_everything_dirty)
{
    struct dirty d;
    dirty_init(&d, ROW_BYTES);
    fault_arm(1);
    cr_assert_not(dirty_track(&d, 1000));
    fault_arm(0);
    cr_assert_eq(dirty_rows(&d, 1000), 1000);
    cr_assert(dirty_track(&d, 1000));
    dirty_clean(&d, 0, 1000);
    cr_assert_eq(dirty_rows(&d, 1000), 0);
    /* Past the blocks that were told all is dirty. */
    cr_assert_eq(dirty_rows(&d, 1000000), 1000000 - 1024);
    dirty_forget(&d);
    cr_assert_eq(dirty_rows(&d, 1000), 1000);
}

struct model {
    bool dirty[BLOCKS_MAX];
};

static void check(const struct dirty *d, const struct model *m, uint64_t rows)
{
    uint64_t from = 0, first, count, total = 0;
    uint64_t blocks = (rows + BLOCK - 1) / BLOCK;
    bool said[BLOCKS_MAX] = {0};
    while (dirty_next(d, from, rows, &first, &count)) {
        cr_assert(first >= from && count && first + count <= rows && first % BLOCK == 0);
        cr_assert((first + count) % BLOCK == 0 || first + count == rows);
        for (uint64_t b = first / BLOCK; b * BLOCK < first + count; b++)
            said[b] = true;
        total += count;
        from = first + count;
    }
    cr_assert_eq(total, dirty_rows(d, rows));
    for (uint64_t b = 0; b < blocks; b++)
        cr_assert_eq(said[b], m->dirty[b], "block %lu of %lu", b, blocks);
}

Test(dirty, matches_the_model)
{
    struct dirty d;
    struct model m;
    srand(7);
    dirty_init(&d, ROW_BYTES);
    memset(&m, 1, sizeof m);
    for (int step = 0; step < 20000; step++) {
        uint64_t rows = (uint64_t)rand() % (BLOCKS_MAX * BLOCK) + 1, first, count;
        uint64_t a = (uint64_t)rand() % rows, n = (uint64_t)rand() % (rows - a) + 1;
        switch (rand() % 8) {
        case 0: /* the bitmap grows; what is new was dirty */
            cr_assert(dirty_track(&d, rows));
            break;
        case 1:
            dirty_mark(&d, a, n);
            for (uint64_t b = a / BLOCK; b <= (a + n - 1) / BLOCK; b++)
                m.dirty[b] = true;
            break;
        case 2: dirty_mark(&d, a, 0); break;
        case 3:
            dirty_mark(&d, a, 1);
            m.dirty[a / BLOCK] = true;
            break;
        case 4:
            if (rand() % 50) break;
            dirty_forget(&d);
            memset(&m, 1, sizeof m);
            break;
        default:
            cr_assert(dirty_track(&d, rows));
            uint64_t from = (uint64_t)rand() % rows / BLOCK * BLOCK;
            if (!dirty_next(&d, from, rows, &first, &count)) break;
            dirty_clean(&d, first, count);
            for (uint64_t b = first / BLOCK; b * BLOCK < first + count; b++)
                m.dirty[b] = false;
        }
        check(&d, &m, rows);
    }
    dirty_forget(&d);
}

/* ---------------------------------------------------------------- a collection and its copy */

enum { DIMENSION = 96, ROWS_MAX = 60000, BATCH_MAX = 3000 };

struct copy {
    float *rows;
    uint64_t *ids;
};

/* Tells the copy what is dirty; returns how many rows that were. */
static uint64_t tell(struct collection *c, struct copy *to)
{
    uint64_t first, count, told = 0, rows = collection_rows(collection_now(c));
    size_t stride = vector_stride(DIMENSION);
    cr_assert(collection_track(c));
    uint64_t bytes = collection_dirty_bytes(c);
    for (uint64_t from = 0; collection_next_dirty(c, from, &first, &count); from = first + count) {
        const uint64_t *ids;
        size_t segment = collection_segment_rows(collection_now(c));
        cr_assert_eq(first / segment, (first + count - 1) / segment, "a run is in one segment");
        cr_assert_leq(first + count, rows);
        struct row_block b = collection_block(collection_now(c), first, (size_t)count, &ids);
        memcpy(to->rows + first * stride, b.rows, count * stride * sizeof(float));
        memcpy(to->ids + first, ids, count * sizeof *ids);
        collection_clean(c, first, count);
        told += count;
    }
    cr_assert_eq(bytes, told * stride * sizeof(float));
    cr_assert_eq(collection_dirty_bytes(c), 0);
    return told;
}

static void compare(const struct collection *c, const struct copy *to)
{
    size_t stride = vector_stride(DIMENSION);
    for (uint64_t i = 0; i < collection_rows(collection_now(c)); i++) {
        cr_assert_eq(to->ids[i], collection_id(collection_now(c), (uint32_t)i), "id of row %lu", i);
        cr_assert_eq(memcmp(to->rows + i * stride, collection_row(collection_now(c), (uint32_t)i),
                            stride * 4),
                     0, "row %lu", i);
    }
}

static void change(struct collection *c, float *rows, uint64_t *ids)
{
    uint64_t n = (uint64_t)rand() % (rand() % 3 ? 20 : BATCH_MAX) + 1,
             start = (uint64_t)rand() % ROWS_MAX;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = (start + i * (1 + start % 7)) % ROWS_MAX;
    if (rand() % 3) {
        struct upsert_counts counts;
        struct failure f = {0};
        reference_fill((unsigned)rand(), rows, n * DIMENSION);
        if (rand() % 10 == 0) rows[(n - 1) * DIMENSION] = 1.0f / 0.0f; /* refused: no change */
        (void)collection_upsert(c, ids, rows, n, &counts, &f);
    } else {
        uint64_t deleted, missing;
        collection_delete(c, ids, n, &deleted, &missing);
    }
}

Test(dirty, a_copy_that_is_told_is_the_same, .timeout = 900)
{
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *c;
    struct failure f;
    cr_assert_eq(heap_create(UINT64_C(256) << 20, &heap), STATUS_OK);
    cr_assert_eq(store_create(heap, vectors_choose("auto"), &store), STATUS_OK);
    cr_assert_eq(store_space(store, "copy", &space), STATUS_OK);
    cr_assert_eq(store_collection_create(store, space, "c", DIMENSION, METRIC_DOT, &f, &c),
                 STATUS_OK);
    size_t stride = vector_stride(DIMENSION);
    struct copy copy = {calloc(ROWS_MAX * stride, 4), calloc(ROWS_MAX, 8)};
    float *rows = aligned_alloc(64, BATCH_MAX * DIMENSION * sizeof *rows);
    uint64_t *ids = calloc(BATCH_MAX, 8), told = 0, all = 0;
    srand(11);
    for (int step = 0; step < 400; step++) {
        for (int n = rand() % 4; n >= 0; n--)
            change(c, rows, ids);
        if (step == 200) collection_soil(c);
        told += tell(c, &copy);
        all += collection_rows(collection_now(c));
        if (step % 20 == 0 || step == 200) compare(c, &copy);
    }
    compare(c, &copy);
    cr_assert_lt(told, all / 2, "only changes are told");
    cr_assert_null(collection_replica(c));
    collection_clear(c);
    cr_assert_eq(tell(c, &copy), 0);
    free(copy.rows);
    free(copy.ids);
    free(rows);
    free(ids);
    store_destroy(store);
    heap_destroy(heap);
}
