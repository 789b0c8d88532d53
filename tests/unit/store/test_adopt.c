/* What a store holds, told and adopted where it lies; and catalogues that are damaged or lie. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"
#include "daemon/heap/adopt.h"
#include "daemon/store/adopt.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

enum { MIB = 1 << 20, D = 32 };

/* ---- help ---- */

/* Rows that stay where they lie in a block, as in the body of a request; a later write gives up the
 * pages of some. */
static void add_kept_rows(struct persist_house *h, uint64_t n)
{
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    struct heap_block rows = {0};
    uint64_t *ids = malloc(n * sizeof *ids);
    cr_assert_eq(store_space(h->store, "kept", &space), STATUS_OK);
    cr_assert_eq(store_collection_create(h->store, space, "rows", D, METRIC_DOT, NULL, &c),
                 STATUS_OK);
    uint32_t owner = space->number;
    cr_assert_eq(heap_take(h->heap, n * D * sizeof(float), owner, &rows), STATUS_OK);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = i + 5;
    for (uint64_t i = 0; i < n * D; i++)
        ((float *)rows.data)[i] = (float)(i % 101) - 50.0f;
    struct shared_block *shared = shared_block_make(h->heap, &rows);
    struct upsert_rows what = {ids, rows.data, n, shared};
    collection_expect_write(c);
    cr_assert_eq(collection_write_rows(c, &what, &counts, NULL), STATUS_OK);
    collection_publish(c);
    gone_free(h->heap, collection_take_gone(c));
    shared_block_end(shared, &rows);
    uint64_t each = collection_segment_rows(collection_now(c));
    float *own = aligned_alloc(64, each * D * sizeof *own);
    for (uint64_t i = 0; i < each * D; i++)
        own[i] = 1.5f;
    cr_assert_eq(collection_upsert(c, ids, own, each, &counts, NULL), STATUS_OK);
    store_space_release(h->store, space);
    free(own);
    free(ids);
}

static int tell(struct persist_house *h)
{
    struct catalogue_writer *w = NULL;
    struct failure f = {0};
    int fd = -1;
    cr_assert_eq(catalogue_begin(&w), STATUS_OK);
    cr_assert_eq(store_tell(h->store, w, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(catalogue_end(w, &fd), STATUS_OK);
    return fd;
}

/* Adopts without making the pages its own. After a failure nothing is open. */
static enum status adopt(int heap_fd, int fd, struct persist_house *out, struct failure *f)
{
    struct catalogue_reader r = {0};
    uint64_t count = 0;
    memset(out, 0, sizeof *out);
    enum status st = catalogue_open(fd, &r, f);
    if (!st) st = heap_adopt(UINT64_C(256) * MIB, heap_fd, &out->heap, f);
    if (!st) st = store_create(out->heap, vectors_variant(0), &out->store);
    if (!st) st = store_adopt(out->store, &r, &count, f);
    if (!st) st = heap_adopt_check(out->heap, f);
    if (st && out->store) store_destroy(out->store);
    if (st) heap_destroy(out->heap);
    if (!st) cr_assert_eq(count, persist_house_count(out));
    catalogue_close(&r);
    return st;
}

/* The whole file, from malloc; and a sealed one of such bytes. */
static char *read_all(int fd, size_t *bytes)
{
    *bytes = (size_t)lseek(fd, 0, SEEK_END);
    char *data = malloc(*bytes);
    cr_assert_eq(pread(fd, data, *bytes, 0), (ssize_t)*bytes);
    return data;
}

static int make_file(const char *data, size_t bytes)
{
    int fd = memory_file_begin("test");
    cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
    cr_assert(memory_file_end(fd));
    return fd;
}

struct head {
    uint64_t magic, format, bytes, sum, head_sum;
};

/* Makes the sums right again. */
static void sign(char *data, size_t bytes)
{
    struct head h;
    memcpy(&h, data, sizeof h);
    h.bytes = bytes - sizeof h;
    h.sum = XXH3_64bits(data + sizeof h, bytes - sizeof h);
    h.head_sum = XXH3_64bits(&h, offsetof(struct head, head_sum));
    memcpy(data, &h, sizeof h);
}

/* ---- what is whole ---- */

static void hand_over(bool large)
{
    struct persist_house a, b;
    struct failure f = {0};
    persist_house_open(&a, "");
    persist_house_fill(&a, large);
    add_kept_rows(&a, 100000);
    int fd = tell(&a);
    cr_assert_eq(adopt(heap_fd(a.heap), fd, &b, &f), STATUS_OK, "%s", f.text);
    persist_house_compare(&a, &b);
    persist_house_compare(&b, &a);
    struct heap_usage before = heap_usage(a.heap), after = heap_usage(b.heap);
    /* a spare segment stays behind */
    cr_assert(after.blocks == before.blocks || (large && after.blocks + 1 == before.blocks));
    if (!large)
        cr_assert_eq(after.bytes_used - after.bytes_outside,
                     before.bytes_used - before.bytes_outside);
    if (!large)
        cr_assert_eq(after.bytes_asked - after.bytes_outside,
                     before.bytes_asked - before.bytes_outside);
    close(fd);

    /* from now on it is the successor's: what the other gives back stays */
    heap_leave(a.heap);
    heap_adopt_end(b.heap);
    fd = tell(&b);
    persist_house_close(&a);
    struct persist_house c;
    int own = dup(heap_fd(b.heap));
    cr_assert_eq(adopt(own, fd, &c, &f), STATUS_OK, "%s", f.text);
    persist_house_compare(&b, &c);
    heap_leave(b.heap);
    heap_adopt_end(c.heap);
    persist_house_close(&b);
    persist_house_close(&c);
    close(own);
    close(fd);
}

Test(adopt, what_one_store_had_another_has)
{
    hand_over(false);
}

Test(adopt, of_many_segments_and_pages)
{
    hand_over(true);
}

Test(adopt, an_empty_store)
{
    struct persist_house a, b;
    struct failure f = {0};
    persist_house_open(&a, "");
    int fd = tell(&a);
    cr_assert_eq(adopt(heap_fd(a.heap), fd, &b, &f), STATUS_OK, "%s", f.text);
    persist_house_close(&b);
    persist_house_close(&a);
    close(fd);
}

Test(adopt, what_was_adopted_is_written_on)
{
    struct persist_house a, b;
    struct failure f = {0};
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    struct heap_block free_block = {0};
    persist_house_open(&a, "");
    /* pages that a request used, and nobody has any more */
    cr_assert_eq(heap_take(a.heap, 8 * MIB, 7, &free_block), STATUS_OK);
    memset(free_block.data, 0x5a, 8 * MIB);
    uint64_t at = free_block.offset;
    add_kept_rows(&a, 100000);
    int fd = tell(&a);
    cr_assert_eq(adopt(heap_fd(a.heap), fd, &b, &f), STATUS_OK, "%s", f.text);
    heap_leave(a.heap);
    heap_adopt_end(b.heap);
    heap_give(a.heap, &free_block);
    persist_house_close(&a);

    struct heap_block all[8] = {0};
    bool found = false;
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(heap_take(b.heap, 8 * MIB, 9, &all[i]), STATUS_OK);
        const uint64_t *words = all[i].data;
        for (size_t k = 0; k < 8 * MIB / sizeof *words; k++)
            cr_assert_eq(words[k], 0);
        found |= all[i].offset == at;
    }
    cr_assert(found);
    for (int i = 0; i < 8; i++)
        heap_give(b.heap, &all[i]);

    uint64_t deleted, missing, ids[2] = {5, 100004};
    float *rows = aligned_alloc(64, 2 * D * sizeof *rows);
    for (int i = 0; i < 2 * D; i++)
        rows[i] = 3.0f;
    cr_assert_eq(store_space(b.store, "kept", &space), STATUS_OK);
    cr_assert_eq(store_collection_find(b.store, space, "rows", NULL, &c), STATUS_OK);
    uint64_t version = collection_info(c).version;
    cr_assert_eq(collection_upsert(c, ids, rows, 2, &counts, NULL), STATUS_OK);
    cr_assert_eq(counts.replaced, 2);
    cr_assert_gt(collection_info(c).version, version);
    collection_delete(c, ids, 1, &deleted, &missing);
    cr_assert_eq(deleted, 1);
    cr_assert_eq(collection_rows(collection_now(c)), 99999);
    cr_assert_eq(collection_find_row(collection_now(c), 5), COLLECTION_NO_ROW);
    store_space_release(b.store, space);
    free(rows);
    persist_house_close(&b);
    close(fd);
}

/* ---- what is not ---- */

struct scene {
    struct persist_house a;
    int fd;
    char *data;
    size_t bytes;
};

static void open_scene(struct scene *s)
{
    persist_house_open(&s->a, "");
    persist_house_fill(&s->a, false);
    add_kept_rows(&s->a, 33000);
    s->fd = tell(&s->a);
    s->data = read_all(s->fd, &s->bytes);
}

static void close_scene(struct scene *s)
{
    free(s->data);
    close(s->fd);
    persist_house_close(&s->a);
}

static enum status adopt_bytes(const struct scene *s, size_t bytes, struct failure *f)
{
    struct persist_house b;
    int fd = make_file(s->data, bytes);
    enum status st = adopt(heap_fd(s->a.heap), fd, &b, f);
    if (!st) {
        heap_leave(b.heap);
        persist_house_close(&b);
    }
    close(fd);
    return st;
}

Test(adopt, every_flipped_byte_is_found)
{
    struct scene s;
    struct failure f = {0};
    uint64_t seed = 1;
    open_scene(&s);
    size_t step = 1;
    for (size_t at = 0; at < s.bytes; at += step) {
        char was = s.data[at];
        s.data[at] = (char)(was ^ (1 << (seed++ % 8)));
        enum status st = adopt_bytes(&s, s.bytes, &f);
        cr_assert(st == STATUS_DATA_LOSS || st == STATUS_FAILED_PRECONDITION, "byte %zu: %d", at,
                  st);
        s.data[at] = was;
        if (at > 2048) step = s.bytes / 500; /* ids and norms */
    }
    cr_assert_eq(adopt_bytes(&s, s.bytes, &f), STATUS_OK, "%s", f.text);
    close_scene(&s);
}

Test(adopt, a_cut_one_is_found)
{
    struct scene s;
    struct failure f = {0};
    open_scene(&s);
    for (size_t bytes = 0; bytes < s.bytes; bytes += 1 + bytes / 16) {
        cr_assert_eq(adopt_bytes(&s, bytes, &f), STATUS_DATA_LOSS, "%zu", bytes);
        char head[sizeof(struct head)];
        memcpy(head, s.data, sizeof head);
        if (bytes > sizeof head) { /* and where the sums are right */
            sign(s.data, bytes);
            cr_assert_eq(adopt_bytes(&s, bytes, &f), STATUS_DATA_LOSS, "%zu", bytes);
            memcpy(s.data, head, sizeof head);
        }
    }
    close_scene(&s);
}

Test(adopt, another_format_is_refused)
{
    struct scene s;
    struct failure f = {0};
    open_scene(&s);
    s.data[8]++;
    sign(s.data, s.bytes);
    cr_assert_eq(adopt_bytes(&s, s.bytes, &f), STATUS_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(f.text, "format"), "%s", f.text);
    close_scene(&s);
}

Test(adopt, files_that_may_change_are_refused)
{
    struct scene s;
    struct failure f = {0};
    struct persist_house b;
    struct heap *h = NULL;
    open_scene(&s);
    int fd = memory_file_begin("test");
    cr_assert_eq(write(fd, s.data, s.bytes), (ssize_t)s.bytes);
    cr_assert_eq(adopt(heap_fd(s.a.heap), fd, &b, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "sealed"), "%s", f.text);
    cr_assert_eq(heap_adopt(64 * MIB, fd, &h, &f), STATUS_DATA_LOSS);
    cr_assert_eq(heap_adopt(64 * MIB, 0, &h, &f), STATUS_DATA_LOSS);
    cr_assert_eq(heap_adopt(UINT64_C(1) << 43, heap_fd(s.a.heap), &h, &f),
                 STATUS_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(f.text, "memory.max_mib"), "%s", f.text);
    /* a bound that what is there passes */
    cr_assert_eq(heap_adopt(MIB, heap_fd(s.a.heap), &b.heap, &f), STATUS_OK, "%s", f.text);
    struct catalogue_reader r;
    uint64_t count;
    cr_assert_eq(catalogue_open(s.fd, &r, &f), STATUS_OK);
    cr_assert_eq(store_create(b.heap, vectors_variant(0), &b.store), STATUS_OK);
    cr_assert_eq(store_adopt(b.store, &r, &count, &f), STATUS_RESOURCE_EXHAUSTED);
    store_destroy(b.store);
    heap_destroy(b.heap);
    catalogue_close(&r);
    close(fd);
    close_scene(&s);
}

/* Whatever it says, with sums that are right, it is adopted or refused, and no page changes. */
Test(adopt, lies_are_harmless)
{
    struct scene s;
    struct failure f = {0};
    const char *wish = getenv("ADOPT_LIES");
    long rounds = wish ? strtol(wish, NULL, 10) : 600, refused = 0;
    uint64_t seed = 7;
    open_scene(&s);
    /* what is told of the small objects comes first */
    size_t told = s.bytes < 6000 ? s.bytes : 6000;
    for (long i = 0; i < rounds; i++) {
        char before[8];
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t at = sizeof(struct head) + (seed >> 33) % ((told - sizeof(struct head)) / 8) * 8;
        uint64_t now;
        memcpy(before, s.data + at, 8);
        memcpy(&now, before, 8);
        switch (seed >> 61) {
        case 0: now = 0; break;
        case 1: now = UINT64_MAX; break;
        case 2: now++; break;
        case 3: now--; break;
        case 4: now ^= UINT64_C(1) << (seed >> 55 & 63); break;
        case 5: now += 65536; break;
        case 6: now *= 2; break;
        default: now = seed; break;
        }
        memcpy(s.data + at, &now, 8);
        sign(s.data, s.bytes);
        refused += adopt_bytes(&s, s.bytes, &f) != STATUS_OK;
        memcpy(s.data + at, before, 8);
    }
    printf("%ld of %ld refused\n", refused, rounds);
    cr_assert_gt(refused, rounds / 10);
    sign(s.data, s.bytes);
    struct persist_house b;
    int fd = make_file(s.data, s.bytes);
    cr_assert_eq(adopt(heap_fd(s.a.heap), fd, &b, &f), STATUS_OK, "%s", f.text);
    persist_house_compare(&s.a, &b);
    heap_leave(b.heap);
    persist_house_close(&b);
    close(fd);
    close_scene(&s);
}

Test(adopt, every_failure_on_the_way)
{
    struct scene s;
    struct failure f = {0};
    open_scene(&s);
    for (uint32_t nth = 1;; nth++) {
        struct persist_house b;
        fault_arm(nth);
        enum status st = adopt(heap_fd(s.a.heap), s.fd, &b, &f);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(st == STATUS_OK, !fired, "site %u: %d", nth, st);
        if (fired) continue;
        heap_leave(b.heap);
        persist_house_close(&b);
        break;
    }
    for (uint32_t nth = 1;; nth++) {
        struct catalogue_writer *w = NULL;
        int fd = -1;
        fault_arm(nth);
        enum status st = catalogue_begin(&w);
        if (!st && (st = store_tell(s.a.store, w, &f)))
            catalogue_abandon(w);
        else if (!st)
            st = catalogue_end(w, &fd);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(st == STATUS_OK, !fired, "site %u: %d", nth, st);
        if (fired) continue;
        close(fd);
        break;
    }
    close_scene(&s);
}
