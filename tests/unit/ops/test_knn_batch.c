/* Batches of random kNN requests: each member gets, byte for byte, what it gets alone. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/exec/batch.h"
#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "kernels/topk.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

enum { MEMBERS_MAX = 64 };

struct room {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct collection *collection;
    uint32_t dimension;
    uint64_t rows;
    unsigned seed;
};

struct batch {
    struct job carrier;
    struct job members[MEMBERS_MAX];
    struct job alone[MEMBERS_MAX]; /* the same requests, done one by one */
    uint32_t count;
};

static unsigned below(struct room *r, unsigned end)
{
    return (unsigned)rand_r(&r->seed) % end;
}

static float *make_floats(struct room *r, uint64_t count)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 64) / 64 * 64);
    for (uint64_t i = 0; i < count; i++)
        p[i] = (float)((int)below(r, 61) - 30) / 16.0F;
    return p;
}

static struct room open_room(uint32_t dimension, uint64_t rows, enum metric metric, unsigned seed)
{
    struct room r = {.dimension = dimension, .rows = rows, .seed = seed};
    cr_assert_eq(heap_create(UINT64_C(1) << 30, &r.heap), STATUS_OK);
    cr_assert_eq(store_create(r.heap, vectors_choose("auto"), &r.store), STATUS_OK);
    cr_assert_eq(store_space(r.store, "test", &r.space), STATUS_OK);
    cr_assert_eq(
        store_collection_create(r.store, r.space, "c", dimension, metric, NULL, &r.collection),
        STATUS_OK);
    float *data = make_floats(&r, rows * dimension);
    uint64_t *ids = calloc(rows + 1, sizeof *ids);
    for (uint64_t i = 0; i < rows; i++) {
        ids[i] = 500 + i * 1009 % (rows * 2 + 1);
        if (i % 17 == 3) memcpy(data + i * dimension, data + i / 2 * dimension, dimension * 4);
    }
    for (uint64_t i = 0; i < rows; i++)
        ids[i] = 500 + i * 3;
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(r.collection, ids, data, rows, &counts, NULL), STATUS_OK);
    free(data);
    free(ids);
    return r;
}

static void close_room(struct room *r)
{
    store_destroy(r->store);
    cr_assert_eq(heap_usage(r->heap).blocks, 0);
    heap_destroy(r->heap);
}

static struct job make_job(struct room *r, enum operation operation, uint32_t workers)
{
    return (struct job){.operation = operation,
                        .space = r->space,
                        .resident = collection_resident(r->collection),
                        .collection = collection_now(r->collection),
                        .heap = r->heap,
                        .kernels = vectors_choose("auto"),
                        .worker_count = workers,
                        .reply_bytes_max = UINT64_C(1) << 20};
}

static void add_filter(struct room *r, struct job_request *q, bool bitmap)
{
    uint64_t share = below(r, 5) * 250, span = r->rows * 3 + 40;
    if (bitmap) {
        uint8_t *bits = calloc(span / 8 + 1, 1);
        for (uint64_t i = 0; i < span; i++)
            if (below(r, 1000) < share) bits[i / 8] |= (uint8_t)(1U << i % 8);
        q->filter_bitmap = (struct tensor){DTYPE_UINT8, span / 8 + 1, 1, bits};
        q->filter_bitmap_first = 480;
        return;
    }
    uint64_t *ids = malloc((span + 1) * sizeof *ids), count = 0;
    for (uint64_t i = 0; i < span; i++)
        if (below(r, 1000) < share) ids[count++] = 480 + (i * 7 + below(r, 3)) % span;
    q->filter_ids = (struct tensor){DTYPE_UINT64, count, 1, ids};
}

/* Something wrong with it, by its shape or in a query. */
static void spoil(struct room *r, struct job_request *q)
{
    float *queries = q->queries.data;
    uint64_t at = below(r, (unsigned)(q->queries.rows * r->dimension));
    switch (below(r, 8)) {
    case 0: q->k = 0; break;
    case 1: q->k = TOPK_K_MAX + 1; break;
    case 2: q->queries.columns++; break;
    case 3:
        q->has_threshold = true;
        q->threshold = NAN;
        break;
    case 4: queries[at] = INFINITY; break;
    case 5: queries[at] = 1e30F; break;
    case 6:
        if (q->filter_ids.dtype || q->filter_bitmap.dtype) break;
        add_filter(r, q, true);
        add_filter(r, q, false);
        break;
    default: queries[at] = NAN;
    }
}

static void make_request(struct room *r, struct job_request *q, uint32_t k_max)
{
    uint64_t queries = 1 + below(r, below(r, 4) ? 3 : 70);
    float *data = make_floats(r, queries * (r->dimension + 1));
    q->queries = (struct tensor){DTYPE_FLOAT32, queries, r->dimension, data};
    q->k = 1 + below(r, below(r, 2) ? 20 : k_max);
    if (!below(r, 3)) {
        q->has_threshold = true;
        q->threshold = (float)((int)below(r, 80) - 20) / 10.0F;
    }
    if (!below(r, 3)) add_filter(r, q, below(r, 2));
    if (!below(r, 8)) spoil(r, q);
}

static struct batch *make_batch(struct room *r, uint32_t count, uint32_t k_max, uint32_t workers)
{
    struct batch *b = calloc(1, sizeof *b);
    b->count = count;
    b->carrier = make_job(r, OPERATION_KNN_BATCH, workers);
    for (uint32_t i = 0; i < count; i++) {
        b->members[i] = make_job(r, OPERATION_KNN, workers);
        make_request(r, &b->members[i].request, k_max);
        batch_add(&b->carrier, i ? &b->members[i - 1] : NULL, &b->members[i]);
        b->alone[i] = make_job(r, OPERATION_KNN, workers);
        b->alone[i].request = b->members[i].request;
        run_job(&b->alone[i], i);
    }
    return b;
}

static void free_batch(struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        run_job_reset(&b->alone[i]);
        run_job_reset(&b->members[i]);
        free(b->members[i].request.queries.data);
        free(b->members[i].request.filter_ids.data);
        free(b->members[i].request.filter_bitmap.data);
    }
    free(b);
}

/* Failures have words, results have bytes. */
static void check_same(const struct job *is, const struct job *wanted, const char *where)
{
    const struct job_result *a = &is->result, *b = &wanted->result;
    cr_assert_eq(is->failure.code, wanted->failure.code, "%s: %s / %s", where, is->failure.text,
                 wanted->failure.text);
    cr_assert_eq(is->failure.detail, wanted->failure.detail, "%s", where);
    cr_assert_str_eq(is->failure.text, wanted->failure.text, "%s", where);
    cr_assert_eq(a->body_bytes, b->body_bytes, "%s", where);
    for (int i = 0; i < JOB_TENSORS_MAX; i++) {
        const struct tensor *t = &a->tensors[i], *u = &b->tensors[i];
        cr_assert(t->dtype == u->dtype && t->rows == u->rows && t->columns == u->columns, "%s",
                  where);
        if (t->dtype)
            cr_assert_eq((char *)t->data - (char *)a->block.data,
                         (char *)u->data - (char *)b->block.data, "%s", where);
    }
    if (a->body_bytes)
        cr_assert_eq(memcmp(a->block.data, b->block.data, a->body_bytes), 0, "%s", where);
    if (is->failure.code) return;
    cr_assert(a->version == b->version && a->rows == b->rows, "%s", where);
}

static void check_batch(struct batch *b, const char *where)
{
    char text[128];
    for (uint32_t i = 0; i < b->count; i++) {
        enum batch_end end;
        struct job *m = batch_take(&b->carrier, &end);
        cr_assert(m == &b->members[i] && end == BATCH_DONE && !m->carrier && !m->member_next);
        snprintf(text, sizeof text, "%s, member %u", where, i);
        if (atomic_load(&m->cancelled))
            cr_assert_null(m->result.block.data, "%s", text);
        else
            check_same(m, &b->alone[i], text);
    }
    cr_assert_null(b->carrier.members);
}

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

Test(knn_batch, equals_each_alone)
{
    const struct {
        uint32_t dimension;
        uint64_t rows;
        uint32_t k_max;
    } cases[] = {{5, 3000, 1000}, {32, 2000, 1000}, {40, 700, 200}, {768, 600, 300},
                 {1100, 150, 60}, {64, 1, 5},       {33, 0, 5},     {1, 900, 1000}};
    const uint32_t workers[] = {1, 2, 3, 16};
    for (unsigned seed = 0; seed < 96; seed += sweep_stride(5)) {
        size_t at = seed % 8;
        struct room r = open_room(cases[at].dimension, cases[at].rows, metrics[seed / 8 % 3], seed);
        uint32_t count = 1 + below(&r, MEMBERS_MAX);
        struct batch *b = make_batch(&r, count, cases[at].k_max, workers[seed / 2 % 4]);
        for (uint32_t i = 0; i < count; i++)
            if (!below(&r, 20)) atomic_store(&b->members[i].cancelled, true);
        char where[64];
        snprintf(where, sizeof where, "seed %u", seed);
        cr_assert_eq(run_job(&b->carrier, seed), STATUS_OK, "%s", where);
        cr_assert_null(b->carrier.result.block.data);
        check_batch(b, where);
        free_batch(b);
        close_room(&r);
    }
}

/* More candidates than are kept at once: queries go group by group. */
Test(knn_batch, bounds_its_scratch)
{
    struct room r = open_room(4, 9000, METRIC_DOT, 3);
    struct batch *b = make_batch(&r, 40, 9000, 16);
    uint64_t queries = 0;
    for (uint32_t i = 0; i < b->count; i++) { /* large ones, but for one that tells them apart */
        struct job_request *q = &b->members[i].request;
        q->k = i == 7 ? 3 : 8000;
        q->threshold = 0;
        q->queries.columns = r.dimension;
        queries += q->queries.rows;
        run_job_reset(&b->alone[i]);
        b->alone[i].request = *q;
        b->alone[i].reply_bytes_max = b->members[i].reply_bytes_max = UINT64_C(1) << 28;
        run_job(&b->alone[i], i);
    }
    cr_assert_gt(queries * 16 * topk_bytes(8000), UINT64_C(256) << 20);
    cr_assert_eq(run_job(&b->carrier, 1), STATUS_OK);
    check_batch(b, "large k");
    free_batch(b);
    close_room(&r);
}

/* Gone while it runs: between its plan and its end. */
Test(knn_batch, members_may_be_cancelled_at_any_time)
{
    for (unsigned when = 0; when < 3; when++) {
        struct room r = open_room(40, 900, METRIC_COSINE, when);
        struct batch *b = make_batch(&r, 12, 50, 1);
        struct job *c = &b->carrier;
        cr_assert_eq(operation_find(c->operation)->plan(c), STATUS_OK);
        if (when == 0) atomic_store(&b->members[4].cancelled, true);
        cr_assert_eq(c->plan.prepare(c), STATUS_OK);
        for (uint32_t part = 0; part < c->plan.parts; part++) {
            c->plan.run_part(c, part, 0);
            if (when == 1) atomic_store(&b->members[4].cancelled, true);
        }
        if (when == 2)
            for (uint32_t i = 0; i < b->count; i++)
                atomic_store(&b->members[i].cancelled, true);
        if (when == 2) atomic_store(&c->cancelled, true);
        c->plan.finish(c);
        heap_give(c->heap, &c->plan.scratch);
        check_batch(b, "cancelled");
        free_batch(b);
        close_room(&r);
    }
}

/* Cancelled as a whole before it began: workers call nothing but finish. */
Test(knn_batch, one_that_never_began_leaves_nothing)
{
    struct room r = open_room(40, 900, METRIC_COSINE, 5);
    struct batch *b = make_batch(&r, 12, 50, 2);
    struct job *c = &b->carrier;
    cr_assert_eq(operation_find(c->operation)->plan(c), STATUS_OK);
    for (uint32_t i = 0; i < b->count; i++)
        atomic_store(&b->members[i].cancelled, true);
    atomic_store(&c->cancelled, true);
    c->plan.finish(c);
    heap_give(c->heap, &c->plan.scratch);
    check_batch(b, "never began");
    free_batch(b);
    close_room(&r);
}

/* Want of memory anywhere: the whole is refused as if it had not been asked, or one member is. */
Test(knn_batch, every_want_of_memory)
{
    bool fired = true, whole = false, one = false;
    for (uint32_t nth = 1; fired; nth++) {
        struct room r = open_room(40, 400, METRIC_COSINE, 11);
        struct batch *b = make_batch(&r, 10, 50, 2);
        uint32_t refused = 0;
        fault_arm(nth);
        enum status st = run_job(&b->carrier, nth);
        fired = fault_fired() != NULL;
        fault_arm(0);
        if (st) {
            whole = true;
            cr_assert(fired && b->carrier.failure.detail == DETAIL_MEMORY);
            enum batch_end end;
            for (struct job *m; (m = batch_take(&b->carrier, &end));)
                cr_assert(end == BATCH_AGAIN && !m->failure.code && !m->result.block.data);
        } else {
            for (uint32_t i = 0; i < b->count; i++) {
                struct job *m = &b->members[i];
                if (m->failure.detail != DETAIL_MEMORY) continue;
                cr_assert(!m->result.block.data && m->failure.retry_after_ms);
                refused++;
                run_job_reset(&b->alone[i]); /* this one is as refused, the others as alone */
                b->alone[i].failure = m->failure;
            }
            one |= refused;
            cr_assert_eq(refused, fired ? 1 : 0, "%u", nth);
            check_batch(b, "memory");
        }
        free_batch(b);
        close_room(&r);
    }
    cr_assert(whole && one);
}

Test(knn_batch, a_reply_that_is_too_large_is_its_members_alone)
{
    struct room r = open_room(40, 900, METRIC_COSINE, 5);
    struct batch *b = make_batch(&r, 6, 50, 2);
    b->members[2].reply_bytes_max = b->alone[2].reply_bytes_max = 64;
    run_job_reset(&b->alone[2]);
    cr_assert_eq(run_job(&b->alone[2], 1), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(run_job(&b->carrier, 1), STATUS_OK);
    check_batch(b, "too large");
    free_batch(b);
    close_room(&r);
}
