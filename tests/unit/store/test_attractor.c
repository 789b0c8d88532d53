/* Attractors in the store: their editions and memory, and every failure of every change in turn. */
#include "daemon/store/attractor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/store/collection.h"
#include "daemon/store/dentate.h"
#include "tests/support/attractor_reference.h"

#define MIB (UINT64_C(1) << 20)
enum { D = 37, PATTERNS = 5 };

struct house {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct attractor *attractor;
    float patterns[PATTERNS * D];
    float w[D * D]; /* as it should be, row by row */
};

static const struct attractor_shape shape = {D, 0.05f, 0.5f};

static const struct attractor_kernels *kernels(void)
{
    return attractor_choose(vectors_variant(0)->name);
}

static void make_tables(struct attractor *a)
{
    struct dentate *d = attractor_dentate(a);
    if (!d->made) dentate_make(d, kernels(), 0, dentate_rows(d));
    d->made = true;
    attractor_make(a, kernels(), 0, d->dimension);
    attractor_open(a);
}

static void open_house(struct house *h)
{
    struct failure f = {0};
    memset(h, 0, sizeof *h);
    cr_assert_eq(heap_create(16 * MIB, &h->heap), STATUS_OK);
    cr_assert_eq(store_create(h->heap, vectors_variant(0), &h->store), STATUS_OK);
    cr_assert_eq(store_space(h->store, "test", &h->space), STATUS_OK);
    cr_assert_eq(store_attractor_create(h->store, h->space, "a", &shape, &f, &h->attractor),
                 STATUS_OK, "%s", f.text);
    make_tables(h->attractor);
    float *w = reference_weights(D);
    memcpy(h->w, w, sizeof h->w);
    free(w);
    for (int i = 0; i < PATTERNS * D; i++)
        h->patterns[i] = (float)((i * 7919) % 23) / 8 - 1.25f;
}

static void close_house(struct house *h)
{
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).bytes_used, 0);
    heap_destroy(h->heap);
}

static bool goes_on(void *owner)
{
    uint32_t *left = owner;
    return !left || (*left)-- > 0;
}

static enum status learn(struct house *h, uint32_t *looks, bool *stopped, struct failure *f)
{
    const struct attractor_patterns p = {.rows = h->patterns, .n = PATTERNS};
    struct attractor_wish wish = {.goes_on = goes_on, .owner = looks};
    attractor_expect_write(h->attractor);
    enum status st = attractor_learn(h->attractor, vectors_variant(0), &p, &wish, f);
    attractor_publish(h->attractor);
    *stopped = wish.stopped;
    return st;
}

static enum status set(struct house *h, uint32_t *looks, bool *stopped, struct failure *f)
{
    float rows[D * D];
    for (int i = 0; i < D * D; i++)
        rows[i] = (float)(i % 11) / 16 - 0.25f;
    struct attractor_wish wish = {.goes_on = goes_on, .owner = looks};
    attractor_expect_write(h->attractor);
    enum status st = attractor_set(h->attractor, rows, &wish, f);
    attractor_publish(h->attractor);
    *stopped = wish.stopped;
    if (!st && !wish.stopped) memcpy(h->w, rows, sizeof rows);
    return st;
}

static void learned(struct house *h)
{
    for (int i = 0; i < PATTERNS; i++)
        reference_learn(D, shape.rate, h->patterns + i * D, h->w);
}

static void free_gone(struct house *h)
{
    struct resident *r = attractor_resident(h->attractor);
    r->ops->free_gone(h->heap, r->ops->take_gone(r));
}

static void expect_weights(const struct attractor_edition *e, const float *w)
{
    const float *columns = attractor_columns(e);
    for (uint32_t i = 0; i < D; i++)
        for (uint32_t j = 0; j < D; j++)
            cr_assert_eq(columns[j * vector_stride(D) + i], w[i * D + j], "row %u, column %u", i,
                         j);
}

static const struct attractor_edition *newest(struct house *h)
{
    struct job j = {0};
    struct resident *r = attractor_resident(h->attractor);
    r->ops->lend(r, &j);
    return j.attractor;
}

/* ---- editions ---- */

Test(attractor, a_reader_keeps_its_weights)
{
    struct house h;
    struct failure f = {0};
    bool stopped;
    float before[D * D];
    open_house(&h);
    memcpy(before, h.w, sizeof before);
    struct resident *r = attractor_resident(h.attractor);
    struct job_object reader = {.resident = r};
    cr_assert(r->ops->begin(&reader));
    uint64_t version = attractor_version(reader.attractor), used = heap_usage(h.heap).bytes_used;
    cr_assert_eq(learn(&h, NULL, &stopped, &f), STATUS_OK, "%s", f.text);
    learned(&h);
    cr_assert(attractor_info(h.attractor).version > version);
    cr_assert_eq(attractor_info(h.attractor).patterns, PATTERNS);
    cr_assert_eq(attractor_version(reader.attractor), version);
    expect_weights(reader.attractor, before);
    expect_weights(newest(&h), h.w);
    cr_assert(heap_usage(h.heap).bytes_used > used, "both are there");
    r->ops->end(&reader);
    free_gone(&h);
    cr_assert_eq(heap_usage(h.heap).bytes_used, used, "one of them again");
    close_house(&h);
}

/* While its tables are made nobody reads it. */
Test(attractor, is_closed_at_first)
{
    struct house h;
    struct failure f = {0};
    struct attractor *b;
    open_house(&h);
    uint64_t used = heap_usage(h.heap).bytes_used;
    cr_assert_eq(store_attractor_create(h.store, h.space, "b", &shape, &f, &b), STATUS_OK);
    cr_assert_eq(attractor_dentate(b), attractor_dentate(h.attractor));
    cr_assert(heap_usage(h.heap).bytes_used - used < dentate_bytes(D), "its matrix is shared");
    struct resident *r = attractor_resident(b);
    struct job_object reader = {.resident = r};
    cr_assert_not(r->ops->begin(&reader));
    make_tables(b);
    cr_assert(r->ops->begin(&reader));
    expect_weights(reader.attractor, h.w);
    r->ops->end(&reader);
    store_attractor_unlink(h.store, h.space, b);
    attractor_destroy(b);
    cr_assert_eq(heap_usage(h.heap).bytes_used, used);
    struct attractor_totals sum = store_attractor_totals(h.space);
    cr_assert_eq(sum.attractors, 1);
    cr_assert_eq(sum.bytes, D * vector_stride(D) * 4 * 11);
    close_house(&h);
}

/* ---- what fails, or is stopped, changes nothing ---- */

static void expect_unchanged(struct house *h, uint64_t version, uint64_t used)
{
    free_gone(h);
    cr_assert_eq(attractor_info(h->attractor).version, version);
    cr_assert_eq(heap_usage(h->heap).bytes_used, used);
    expect_weights(newest(h), h->w);
}

typedef enum status change(struct house *h, uint32_t *looks, bool *stopped, struct failure *f);
static change *const changes[] = {learn, set};

Test(attractor, every_failure_leaves_it_as_it_was)
{
    for (int k = 0; k < 2; k++) {
        for (uint32_t nth = 1;; nth++) {
            struct house h;
            struct failure f = {0};
            bool stopped;
            open_house(&h);
            uint64_t version = attractor_info(h.attractor).version;
            uint64_t used = heap_usage(h.heap).bytes_used;
            fault_arm(nth);
            enum status st = changes[k](&h, NULL, &stopped, &f);
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
            if (fired)
                cr_assert(f.detail == DETAIL_MEMORY && strstr(f.text, "no memory for"), "%s",
                          f.text);
            else if (k == 0)
                learned(&h);
            if (fired)
                expect_unchanged(&h, version, used);
            else
                expect_weights(newest(&h), h.w);
            close_house(&h);
            if (!fired) break;
            cr_assert(nth < 100);
        }
    }
}

/* Wherever it looks whether it is still wanted. */
Test(attractor, what_is_stopped_leaves_it_as_it_was)
{
    for (int k = 0; k < 2; k++) {
        bool stopped = true;
        for (uint32_t looks = 0; stopped; looks++) {
            struct house h;
            struct failure f = {0};
            uint32_t left = looks;
            open_house(&h);
            uint64_t version = attractor_info(h.attractor).version;
            uint64_t used = heap_usage(h.heap).bytes_used;
            cr_assert_eq(changes[k](&h, &left, &stopped, &f), STATUS_OK);
            if (stopped) expect_unchanged(&h, version, used);
            close_house(&h);
            cr_assert(looks < 100);
        }
    }
}

Test(attractor, a_create_fails_whole)
{
    for (uint32_t nth = 1;; nth++) {
        struct house h;
        struct failure f = {0};
        struct attractor *b = NULL;
        struct attractor_shape other = {D + 1, 0.05f, 0.5f};
        open_house(&h);
        uint64_t used = heap_usage(h.heap).bytes_used;
        fault_arm(nth);
        enum status st = store_attractor_create(h.store, h.space, "b", &other, &f, &b);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        cr_assert_eq(h.space->attractor_count, fired ? 1 : 2);
        if (fired) {
            cr_assert(f.detail == DETAIL_MEMORY && !b, "%s", f.text);
            cr_assert_eq(heap_usage(h.heap).bytes_used, used);
        }
        close_house(&h);
        if (!fired) break;
        cr_assert(nth < 100);
    }
}

/* The dentate matrix is as much of a space's memory as its weights. */
Test(attractor, a_full_quota_is_told)
{
    struct house h;
    struct failure f = {0};
    struct attractor *b;
    struct attractor_shape large = {256, 0.05f, 0.5f};
    bool stopped;
    open_house(&h);
    cr_assert_eq(heap_quota(h.heap, h.space->number, 2 * MIB), STATUS_OK);
    uint64_t used = heap_usage(h.heap).bytes_used;
    cr_assert_eq(store_attractor_create(h.store, h.space, "b", &large, &f, &b),
                 STATUS_RESOURCE_EXHAUSTED);
    cr_assert(f.detail == DETAIL_QUOTA && strstr(f.text, "dentate"), "%s", f.text);
    cr_assert_eq(heap_usage(h.heap).bytes_used, used);
    cr_assert_eq(heap_quota(h.heap, h.space->number, heap_owner_bytes(h.heap, h.space->number)),
                 STATUS_OK);
    uint64_t version = attractor_info(h.attractor).version;
    cr_assert_eq(learn(&h, NULL, &stopped, &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert(f.detail == DETAIL_QUOTA && strstr(f.text, "weights"), "%s", f.text);
    expect_unchanged(&h, version, used);
    close_house(&h);
}

/* Patterns of a collection, in the order of their ids; an unknown one is told before anything is
 * seen of the others. */
Test(attractor, learns_rows_of_a_collection)
{
    struct house h;
    struct failure f = {0};
    struct collection *c;
    const uint64_t stored[PATTERNS] = {9, 8, 7, 6, 5}, order[] = {7, 9, 7}, unknown[] = {9, 4};
    struct attractor_wish wish = {.goes_on = goes_on};
    open_house(&h);
    cr_assert_eq(store_collection_create(h.store, h.space, "c", D, METRIC_DOT, &f, &c), STATUS_OK);
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(c, stored, h.patterns, PATTERNS, &counts, &f), STATUS_OK);
    struct attractor_patterns p = {.ids = unknown, .collection = collection_now(c), .n = 2};
    uint64_t version = attractor_info(h.attractor).version, used = heap_usage(h.heap).bytes_used;
    attractor_expect_write(h.attractor);
    cr_assert_eq(attractor_learn(h.attractor, vectors_variant(0), &p, &wish, &f), STATUS_NOT_FOUND);
    attractor_publish(h.attractor);
    cr_assert(strstr(f.text, "no id 4 (pattern 1)"), "%s", f.text);
    expect_unchanged(&h, version, used);
    p.ids = order;
    p.n = 3;
    attractor_expect_write(h.attractor);
    cr_assert_eq(attractor_learn(h.attractor, vectors_variant(0), &p, &wish, &f), STATUS_OK);
    attractor_publish(h.attractor);
    for (int i = 0; i < 3; i++)
        reference_learn(D, shape.rate, h.patterns + (9 - order[i]) * D, h.w);
    expect_weights(newest(&h), h.w);
    close_house(&h);
}
