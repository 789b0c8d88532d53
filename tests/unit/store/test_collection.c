/* Collections against a naive model, their memory bounds, and every failure in turn. */
#include "daemon/store/collection.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/store/space.h"
#include "tests/support/sweep.h"

#define MIB (UINT64_C(1) << 20)

struct house {
    struct heap *heap;
    struct store *store;
    struct space *space;
};

static struct house open_house(uint64_t bytes_max)
{
    struct house h = {0};
    cr_assert_eq(heap_create(bytes_max, &h.heap), STATUS_OK);
    cr_assert_eq(store_create(h.heap, vectors_variant(0), &h.store), STATUS_OK);
    cr_assert_eq(store_space(h.store, "test", &h.space), STATUS_OK);
    return h;
}

static void close_house(struct house *h)
{
    store_destroy(h->store);
    cr_assert_eq(heap_usage(h->heap).blocks, 0);
    heap_destroy(h->heap);
}

static struct collection *make(struct house *h, const char *name, uint32_t dimension)
{
    struct collection *c = NULL;
    cr_assert_eq(store_collection_create(h->store, h->space, name, dimension, METRIC_DOT, NULL, &c),
                 STATUS_OK);
    return c;
}

/* ---- the model: the same rows in the same order, found by walking ---- */

enum { MODEL_MAX = 4000 };
struct model {
    uint32_t dimension;
    uint64_t rows, version;
    uint64_t ids[MODEL_MAX];
    float *data;
};

static uint64_t model_find(const struct model *m, uint64_t id)
{
    for (uint64_t i = 0; i < m->rows; i++)
        if (m->ids[i] == id) return i;
    return UINT64_MAX;
}

static void model_put(struct model *m, uint64_t id, const float *row)
{
    uint64_t at = model_find(m, id);
    if (at == UINT64_MAX) at = m->rows++;
    m->ids[at] = id;
    memcpy(m->data + at * m->dimension, row, m->dimension * sizeof *row);
}

static bool model_delete(struct model *m, uint64_t id)
{
    uint64_t at = model_find(m, id), d = m->dimension;
    if (at == UINT64_MAX) return false;
    m->rows--;
    m->ids[at] = m->ids[m->rows];
    memmove(m->data + at * d, m->data + m->rows * d, d * sizeof(float));
    return true;
}

static void check_row(const struct model *m, const struct collection *c, uint32_t row)
{
    uint32_t d = m->dimension;
    const float *stored = collection_row(collection_now(c), row);
    cr_assert_eq(memcmp(stored, m->data + (size_t)row * d, d * sizeof *stored), 0);
    for (size_t i = d; i < vector_stride(d); i++) {
        uint32_t bits;
        memcpy(&bits, &stored[i], 4);
        cr_assert_eq(bits, 0);
    }
    float norm;
    vectors_variant(0)->norms(d, stored, 1, &norm);
    cr_assert(norm == collection_norm(collection_now(c), row));
}

static void check(const struct model *m, const struct collection *c)
{
    cr_assert_eq(collection_rows(collection_now(c)), m->rows);
    cr_assert_eq(collection_version(collection_now(c)),
                 m->version + 1); /* the first is its making */
    struct collection_info info = collection_info(c);
    cr_assert_eq(info.row_bytes, m->rows * vector_stride(m->dimension) * 4);
    cr_assert_eq(space_row_count(collection_space(c)), m->rows);
    for (uint32_t row = 0; row < m->rows; row++) {
        cr_assert_eq(collection_id(collection_now(c), row), m->ids[row]);
        cr_assert_eq(collection_find_row(collection_now(c), m->ids[row]), row);
        check_row(m, c, row);
    }
    size_t step = collection_segment_rows(collection_now(c));
    for (uint64_t first = 0; first < m->rows; first += step) {
        const uint64_t *ids;
        size_t count = m->rows - first < step ? m->rows - first : step;
        struct row_block b = collection_block(collection_now(c), first, count, &ids);
        cr_assert_eq(b.rows, collection_row(collection_now(c), (uint32_t)first));
        cr_assert_eq(memcmp(ids, m->ids + first, count * 8), 0);
    }
}

static float random_value(unsigned *seed)
{
    float v = (float)(rand_r(seed) % 2001 - 1000) / 128.0f;
    return v == 0 && rand_r(seed) % 2 ? -0.0f : v;
}

/* count different ids out of [0, range), rising or shuffled. */
static void draw_ids(uint64_t *ids, uint64_t count, uint64_t range, bool rising, unsigned *seed)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < range && at < count; i++)
        if ((uint64_t)rand_r(seed) % (range - i) < count - at) ids[at++] = i * 977;
    for (uint64_t i = count; !rising && i > 1; i--) {
        uint64_t j = (uint64_t)rand_r(seed) % i, t = ids[j];
        ids[j] = ids[i - 1];
        ids[i - 1] = t;
    }
}

static void upsert_step(struct model *m, struct collection *c, unsigned *seed, uint64_t range)
{
    uint64_t n = 1 + (uint64_t)rand_r(seed) % (range / 4), d = m->dimension;
    uint64_t *ids = calloc(n, sizeof *ids);
    float *rows = calloc(n * d, sizeof *rows);
    draw_ids(ids, n, range, rand_r(seed) % 2, seed);
    for (uint64_t i = 0; i < n * d; i++)
        rows[i] = random_value(seed);

    struct upsert_counts counts = {0};
    struct failure f = {0};
    switch (rand_r(seed) % 6) {
    case 0: /* not finite: nothing happens */
        rows[(uint64_t)rand_r(seed) % (n * d)] = rand_r(seed) % 2 ? NAN : -INFINITY;
        cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_NOT_FINITE);
        break;
    case 1: /* overflowing square */
        rows[(uint64_t)rand_r(seed) % (n * d)] = 3e19f;
        cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_NORM_OVERFLOW);
        break;
    case 2: /* the same id twice; 2^64 - 1, which fills places in results */
        ids[n - 1] = UINT64_MAX;
        cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(f.detail, DETAIL_BAD_ID);
        if (n > 1) {
            ids[n - 1] = ids[(uint64_t)rand_r(seed) % (n - 1)];
            cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_INVALID_ARGUMENT);
            cr_assert_eq(f.detail, DETAIL_DUPLICATE_ID);
        }
        break;
    default: {
        uint64_t before = m->rows;
        for (uint64_t i = 0; i < n; i++)
            model_put(m, ids[i], rows + i * d);
        m->version++;
        cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_OK);
        cr_assert_eq(counts.inserted, m->rows - before);
        cr_assert_eq(counts.replaced, n - counts.inserted);
    }
    }
    free(ids);
    free(rows);
}

static void delete_step(struct model *m, struct collection *c, unsigned *seed, uint64_t range)
{
    uint64_t n = 1 + (uint64_t)rand_r(seed) % (range / 4), expected = 0;
    if (rand_r(seed) % 8 == 0) n = range * 2;
    uint64_t *ids = calloc(n, sizeof *ids);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = n > range ? i * 977 : (uint64_t)rand_r(seed) % range * 977;
    for (uint64_t i = 0; i < n; i++)
        expected += model_delete(m, ids[i]);
    m->version += expected > 0;
    uint64_t deleted, missing;
    collection_delete(c, ids, n, &deleted, &missing);
    cr_assert_eq(deleted, expected);
    cr_assert_eq(missing, n - expected);
    free(ids);
}

Test(collection, agrees_with_a_naive_model)
{
    static struct model m;
    const uint32_t dimensions[] = {1, 3, 32, 100, 768, 16384};
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct house h = open_house(64 * MIB);
        uint32_t d = dimensions[i];
        uint64_t range = d > 10000 ? 150 : d > 700 ? 2500 : 600;
        struct collection *c = make(&h, "c", d);
        m = (struct model){.dimension = d, .data = calloc((size_t)range * d, sizeof(float))};
        unsigned seed = 5 + d;
        for (int step = 0; step < 60; step += (int)sweep_stride(10)) {
            if (rand_r(&seed) % 3)
                upsert_step(&m, c, &seed, range);
            else
                delete_step(&m, c, &seed, range);
            if (step % 5 == 0 || m.rows < 50) check(&m, c);
        }
        check(&m, c);
        uint64_t none = 0;
        cr_assert_eq(collection_find_row(collection_now(c), 5), COLLECTION_NO_ROW);
        cr_assert_eq(collection_upsert(c, &none, NULL, 0, &(struct upsert_counts){0}, NULL),
                     STATUS_OK);
        cr_assert_eq(collection_version(collection_now(c)), m.version + 1);
        free(m.data);
        close_house(&h);
    }
}

Test(collection, names_the_row_that_is_wrong)
{
    struct house h = open_house(16 * MIB);
    struct collection *c = make(&h, "c", 3);
    uint64_t ids[4] = {70, 50, 60, 10};
    _Alignas(64) float rows[12] = {0};
    struct failure f = {0};
    struct upsert_counts counts;
    rows[7] = INFINITY;
    cr_assert_neq(collection_upsert(c, ids, rows, 4, &counts, &f), STATUS_OK);
    cr_assert_str_eq(f.text, "row 2 (id 60): column 1 is not a finite number");
    rows[7] = 1e30f;
    cr_assert_neq(collection_upsert(c, ids, rows, 4, &counts, &f), STATUS_OK);
    cr_assert_str_eq(f.text, "row 2 (id 60): its squared norm overflows float32");
    rows[7] = 1;
    ids[3] = 50;
    cr_assert_neq(collection_upsert(c, ids, rows, 4, &counts, &f), STATUS_OK);
    cr_assert_str_eq(f.text, "id 50 is given twice, in rows 1 and 3");
    cr_assert_eq(collection_rows(collection_now(c)), 0);
    cr_assert_eq(collection_version(collection_now(c)), 1);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);

    /* A bad row among replaced ones: none is overwritten. */
    ids[3] = 10;
    cr_assert_eq(collection_upsert(c, ids, rows, 4, &counts, &f), STATUS_OK);
    _Alignas(64) float other[12] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, NAN};
    cr_assert_neq(collection_upsert(c, ids, other, 4, &counts, &f), STATUS_OK);
    cr_assert_str_eq(f.text, "row 3 (id 10): column 2 is not a finite number");
    for (uint32_t row = 0; row < 4; row++)
        cr_assert_eq(memcmp(collection_row(collection_now(c), row), rows + row * 3, 12), 0);
    cr_assert_eq(collection_version(collection_now(c)), 2);
    close_house(&h);
}

/* Same-owner blocks come back with old bytes: pads must be written. */
Test(collection, pads_rows_even_in_reused_blocks)
{
    struct house h = open_house(16 * MIB);
    struct heap_block dirty;
    cr_assert_eq(heap_take(h.heap, 65536, h.space->number, &dirty), STATUS_OK);
    memset(dirty.data, 0x7f, dirty.bytes);
    heap_give(h.heap, &dirty);
    static struct model m;
    float one = 1;
    m = (struct model){.dimension = 1, .data = calloc(1, 4)};
    struct collection *c = make(&h, "c", 1);
    uint64_t id = 3;
    model_put(&m, id, &one);
    m.version = 1;
    struct upsert_counts counts;
    cr_assert_eq(collection_upsert(c, &id, &one, 1, &counts, NULL), STATUS_OK);
    check(&m, c);
    free(m.data);
    close_house(&h);
}

/* ---- memory ---- */

static bool measurable(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#endif
    const char *preload = getenv("LD_PRELOAD");
    return !(preload && strstr(preload, "valgrind"));
}

static uint64_t process_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%lu %lu", &total, &resident) == 2);
    fclose(file);
    return (uint64_t)resident * 4096;
}

static uint64_t file_bytes(struct heap *h)
{
    struct stat st;
    cr_assert_eq(fstat(heap_fd(h), &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void insert_range(struct collection *c, uint64_t first, uint64_t count, uint64_t step)
{
    uint32_t d = collection_dimension(collection_now(c));
    uint64_t *ids = malloc(step * 8);
    float *rows = aligned_alloc(64, (step * d * 4 + 63) / 64 * 64);
    for (uint64_t i = 0; i < step * d; i++)
        rows[i] = (float)(i % 17);
    struct upsert_counts counts;
    for (uint64_t done = 0; done < count; done += step) {
        uint64_t n = count - done < step ? count - done : step;
        for (uint64_t i = 0; i < n; i++)
            ids[i] = (first + done + i) * UINT64_C(0x9e3779b97f4a7c15);
        cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, NULL), STATUS_OK);
        cr_assert_eq(counts.inserted, n);
    }
    free(ids);
    free(rows);
}

Test(collection, takes_at_most_48_bytes_a_row_beside_its_rows)
{
    /* Just before and just after the index doubles, and along the way. */
    const uint64_t targets[] = {98303, 98305, 100000};
    for (size_t t = 0; t < 3; t++) {
        struct house h = open_house(256 * MIB);
        struct collection *c = make(&h, "c", 32);
        uint64_t before = process_bytes();
        insert_range(c, 0, targets[t], 1000);
        uint64_t rows = collection_rows(collection_now(c));
        struct collection_info info = collection_info(c);
        cr_assert(info.index_bytes <= 48 * rows);
        cr_assert(file_bytes(h.heap) <= rows * 128 * 11 / 10);
        uint64_t grown = process_bytes() - before;
        cr_log_info("%lu rows: %.1f bytes a row beside the rows", rows,
                    ((double)grown - (double)rows * 128) / (double)rows);
        if (measurable()) cr_assert(grown <= rows * (128 + 48) + MIB, "%lu", grown / rows);
        close_house(&h);
    }
}

Test(collection, gives_memory_back)
{
    struct house h = open_house(256 * MIB);
    struct collection *warm = make(&h, "warm", 64);
    insert_range(warm, 0, 10, 10);
    uint64_t before = process_bytes(), file_before = file_bytes(h.heap);
    struct collection *c = make(&h, "c", 768);
    insert_range(c, 0, 20000, 1000);
    cr_assert(file_bytes(h.heap) - file_before >= UINT64_C(20000) * 3072);
    cr_assert(file_bytes(h.heap) - file_before <= UINT64_C(20000) * 3072 * 11 / 10);

    /* Deleting nine tenths returns the emptied segments. */
    uint64_t *ids = malloc(20000 * 8), deleted, missing;
    for (uint64_t i = 0; i < 20000; i++)
        ids[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    collection_delete(c, ids, 18000, &deleted, &missing);
    cr_assert_eq(deleted, 18000);
    heap_trim(h.heap, 0); /* what editions leave is kept for the next copies, as requests' blocks */
    cr_assert(file_bytes(h.heap) - file_before <= UINT64_C(2000) * 3072 + 8 * MIB);
    cr_assert(collection_info(c).index_bytes <= 48 * 2000);
    free(ids);

    store_collection_unlink(h.store, h.space, c);
    collection_destroy(c);
    cr_assert_eq(file_bytes(h.heap), file_before);
    cr_assert_eq(heap_usage(h.heap).blocks, 1);
    if (measurable()) cr_assert(process_bytes() <= before + MIB);
    cr_assert_eq(h.space->row_count, 10);

    collection_clear(warm);
    cr_assert_eq(collection_rows(collection_now(warm)), 0);
    cr_assert_eq(heap_usage(h.heap).blocks, 0);
    insert_range(warm, 0, 10, 10);
    cr_assert_eq(collection_rows(collection_now(warm)), 10);
    close_house(&h);
}

Test(collection, a_small_one_stays_small)
{
    struct house h = open_house(64 * MIB);
    struct collection *c = make(&h, "c", 768);
    insert_range(c, 0, 1, 1);
    cr_assert(heap_usage(h.heap).bytes_used - heap_usage(h.heap).bytes_outside <= 65536);
    cr_assert(file_bytes(h.heap) <= 4096);
    close_house(&h);
}

Test(collection, stops_at_the_memory_bound_unchanged)
{
    struct house h = open_house(8 * MIB);
    struct collection *c = make(&h, "c", 768);
    insert_range(c, 0, 1000, 500);
    uint64_t n = 3000, *ids = malloc(n * 8);
    float *rows = aligned_alloc(64, n * 3072);
    memset(rows, 0, n * 3072);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = i;
    struct failure f = {0};
    struct upsert_counts counts;
    uint64_t used = heap_usage(h.heap).bytes_used;
    cr_assert_eq(collection_upsert(c, ids, rows, n, &counts, &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_MEMORY);
    cr_assert_eq(collection_rows(collection_now(c)), 1000);
    cr_assert_eq(collection_version(collection_now(c)), 3);
    cr_assert(heap_usage(h.heap).bytes_used <= used + 3 * MIB); /* one spare segment */
    insert_range(c, 5000, 500, 500);
    free(ids);
    free(rows);
    close_house(&h);
}

/* ---- every failure ---- */

static void fill_rows(float *rows, uint64_t n, uint32_t d, float base)
{
    for (uint64_t i = 0; i < n * d; i++)
        rows[i] = base + (float)(i % 31);
}

/* One step of a story in which sites fail; the model follows only what succeeded. */
static enum status try_upsert(struct model *m, struct collection *c, uint64_t first, uint64_t n,
                              bool falling, float base)
{
    uint32_t d = m->dimension;
    uint64_t *ids = malloc(n * 8);
    float *rows = aligned_alloc(64, (n * d * 4 + 63) / 64 * 64);
    fill_rows(rows, n, d, base);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = first + (falling ? n - 1 - i : i);
    struct upsert_counts counts;
    struct failure f = {0};
    enum status st = collection_upsert(c, ids, rows, n, &counts, &f);
    if (st) {
        cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
        cr_assert_eq(f.detail, DETAIL_MEMORY);
    } else {
        for (uint64_t i = 0; i < n; i++)
            model_put(m, ids[i], rows + i * d);
        m->version++;
    }
    free(ids);
    free(rows);
    return st;
}

Test(collection, every_failure_leaves_it_unchanged)
{
    static struct model m;
    const uint32_t dimensions[] = {5, 768};
    for (size_t i = 0; i < 2; i++) {
        uint32_t d = dimensions[i];
        for (uint32_t nth = 1;; nth += sweep_stride(3)) {
            struct house h = open_house(64 * MIB);
            m = (struct model){.dimension = d, .data = calloc((size_t)MODEL_MAX * d, 4)};
            fault_arm(nth);
            struct collection *c = NULL;
            enum status st =
                store_collection_create(h.store, h.space, "c", d, METRIC_COSINE, NULL, &c);
            if (st) {
                cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
                cr_assert_null(c);
                cr_assert_eq(h.space->collection_count, 0);
            } else {
                try_upsert(&m, c, 0, 20, false, 0);
                try_upsert(&m, c, 10, 300, true, 1);     /* some exist, not rising */
                try_upsert(&m, c, 1000, 1500, false, 2); /* new segments, larger arrays */
                uint64_t some[3] = {5, 6, 1001}, deleted, missing;
                collection_delete(c, some, 3, &deleted, &missing);
                uint64_t expected = 0;
                for (int k = 0; k < 3; k++)
                    expected += model_delete(&m, some[k]);
                cr_assert_eq(deleted, expected);
                m.version += expected > 0;
                try_upsert(&m, c, 900, 300, false, 3);
                check(&m, c);
            }
            bool fired = fault_fired() != NULL;
            fault_arm(0);
            close_house(&h);
            free(m.data);
            if (!fired) break;
            cr_assert(nth < 200);
        }
    }
}
