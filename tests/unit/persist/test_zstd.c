/* Snapshots whose files are compressed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/array_file.h"
#include "daemon/persist/zstd_frame.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

enum { NUMBERS = (5 << 20) + 3 }; /* 20 MiB: two pieces even where nothing becomes smaller */

static char path[] = "/tmp/engram-zstd-XXXXXX";
static int folder;
static float *numbers;

static void open_folder(void)
{
    log_set_level_name("error");
    cr_assert(mkdtemp(path));
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    numbers = malloc(NUMBERS * sizeof *numbers);
    cr_assert(folder >= 0 && numbers);
    uint32_t *bits = (uint32_t *)numbers, x = 1;
    for (int i = 0; i < NUMBERS; i++)
        bits[i] = x = x * 1664525 + 1013904223;
}

static void remove_folder(void)
{
    unlinkat(folder, "rows.npy.zst", 0);
    close(folder);
    cr_expect_eq(rmdir(path), 0);
    free(numbers);
}

TestSuite(zstd, .init = open_folder, .fini = remove_folder);

static struct array_entry entry_of(uint64_t count)
{
    return (struct array_entry){
        .name = "rows.npy.zst", .shape = {.type = NPY_FLOAT32, .rows = count}, .is_zstd = true};
}

static enum status write_array(struct array_entry *entry, int level, struct failure *f)
{
    struct array_file *a;
    uint64_t bytes = entry->shape.rows * sizeof *numbers, n;
    enum status st = array_create(folder, entry, level, &a, f);
    if (st) return st;
    for (uint64_t at = 0; !st && at < bytes; at += n) {
        n = bytes - at < 3000001 ? bytes - at : 3000001;
        st = array_write(a, (const char *)numbers + at, n, f);
    }
    if (!st) return array_end_write(a, f);
    array_abandon(a);
    return st;
}

static enum status read_array(const struct array_entry *entry, struct failure *f)
{
    struct array_file *a;
    uint64_t count = entry->shape.rows;
    float *back = malloc(count * sizeof *back + 1);
    cr_assert_not_null(back);
    enum status st = array_open(folder, entry, true, &a, f);
    if (!st) {
        st = array_read(a, back, count / 2 * sizeof *back, f);
        if (!st) st = array_read(a, back + count / 2, (count - count / 2) * sizeof *back, f);
        if (st)
            array_abandon(a);
        else
            st = array_end_read(a, f);
    }
    if (!st) cr_assert_eq(memcmp(back, numbers, count * sizeof *back), 0);
    free(back);
    return st;
}

/* A file of the folder as it is; from malloc. */
static char *file_of(const struct array_entry *entry, size_t *bytes)
{
    return persist_house_read(path, entry->name, bytes);
}

/* Any reader of zstd finds the array's file in it. */
static void check_plain(const struct array_entry *entry)
{
    size_t bytes;
    char *frame = file_of(entry, &bytes), head[NPY_HEAD_BYTES];
    uint64_t inside = npy_file_bytes(&entry->shape);
    cr_assert_eq(bytes, entry->zstd_bytes);
    cr_assert_eq(ZSTD_getFrameContentSize(frame, bytes), inside);
    char *array = malloc(inside);
    cr_assert_eq(ZSTD_decompress(array, inside, frame, bytes), inside);
    npy_write_head(&entry->shape, head);
    cr_assert_eq(memcmp(array, head, sizeof head), 0);
    cr_assert_eq(memcmp(array + sizeof head, numbers, inside - sizeof head), 0);
    free(array);
    free(frame);
}

Test(zstd, arrays_are_read_as_they_were_written)
{
    static const struct {
        uint64_t count;
        int level;
    } cases[] = {{0, 1}, {1, 19}, {50000, 19}, {NUMBERS, 1}, {300000, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct array_entry entry = entry_of(cases[i].count);
        struct failure f = {0};
        cr_assert_eq(write_array(&entry, cases[i].level, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(entry.piece_count, array_piece_count(entry.zstd_bytes));
        check_plain(&entry);
        cr_assert_eq(read_array(&entry, &f), STATUS_OK, "%s", f.text);
        struct array_file *a; /* what nobody asks for is checked as well */
        cr_assert_eq(array_open(folder, &entry, true, &a, &f), STATUS_OK);
        cr_assert_eq(array_position(a), NPY_HEAD_BYTES);
        cr_assert_eq(array_end_read(a, &f), STATUS_OK, "%s", f.text);
        array_entry_free(&entry);
        unlinkat(folder, entry.name, 0);
    }
}

Test(zstd, ends_whatever_fails)
{
    for (int reads = 0; reads < 2; reads++)
        for (uint32_t nth = 1;; nth++) {
            struct array_entry entry = entry_of(700000);
            struct failure f = {0};
            if (!reads) fault_arm(nth);
            enum status st = write_array(&entry, 1, &f);
            if (reads) {
                cr_assert_eq(st, STATUS_OK);
                fault_arm(nth);
                st = read_array(&entry, &f);
            }
            const char *site = fault_fired();
            fault_arm(0);
            array_entry_free(&entry);
            unlinkat(folder, entry.name, 0);
            if (!site) break;
            cr_assert(st && f.text[0], "%s", site);
        }
}

/* A writer that gives fewer numbers than its shape has. */
Test(zstd, a_file_that_is_not_whole_is_no_file)
{
    struct array_entry entry = entry_of(10);
    struct array_file *a;
    struct failure f = {0};
    cr_assert_eq(array_create(folder, &entry, 1, &a, &f), STATUS_OK);
    cr_assert_eq(array_write(a, numbers, 36, &f), STATUS_OK);
    cr_assert_eq(array_end_write(a, &f), STATUS_INTERNAL);
    array_entry_free(&entry);
}

/* ---------------------------------------------------------------- foreign bytes */

/* Puts bytes in place of the file, and says of them what is so, but for the SHA-256. */
static void put(struct array_entry *entry, const void *data, size_t bytes)
{
    persist_house_write(path, entry->name, data, bytes);
    entry->zstd_bytes = bytes;
    entry->piece_count = bytes ? 1 : 0;
    cr_assert_lt(bytes, PERSIST_PIECE_BYTES);
    entry->pieces[0] = XXH3_64bits(data, bytes);
}

static void refused(struct array_entry *entry, const void *data, size_t bytes, const char *why)
{
    struct failure f = {0};
    put(entry, data, bytes);
    cr_assert_eq(read_array(entry, &f), STATUS_DATA_LOSS, "%s", why);
    cr_assert_not_null(strstr(f.text, entry->name), "%s", f.text);
    cr_assert_not_null(strstr(f.text, why), "%s: %s", why, f.text);
}

Test(zstd, a_frame_that_lies_is_damage)
{
    enum { COUNT = 100000 };
    struct array_entry entry = entry_of(COUNT);
    struct failure f = {0};
    size_t bytes, inside = NPY_HEAD_BYTES + COUNT * sizeof *numbers, room = 2 * inside;
    char *array = malloc(inside + 1), *frame = malloc(room);
    cr_assert_eq(write_array(&entry, 1, &f), STATUS_OK);
    npy_write_head(&entry.shape, array);
    memcpy(array + NPY_HEAD_BYTES, numbers, inside - NPY_HEAD_BYTES);
    array[inside] = 7;
    bytes = ZSTD_compress(frame, room, array, inside - 1, 1);
    refused(&entry, frame, bytes, "fewer bytes than the array");
    bytes = ZSTD_compress(frame, room, array, inside + 1, 1);
    refused(&entry, frame, bytes, "more bytes than the array");
    bytes = ZSTD_compress(frame, room, array, inside, 1);
    refused(&entry, frame, bytes - 1, "cut off");
    refused(&entry, frame, 0, "cut off");
    memcpy(frame + bytes, "\x50\x2a\x4d\x18\0\0\0\0", 8); /* a frame that is skipped */
    refused(&entry, frame, bytes + 8, "behind the zstd frame");
    frame[0] ^= 1;
    refused(&entry, frame, bytes, "frame");
    /* a window of 128 MiB, which a reader would have to keep */
    ZSTD_CCtx *large = ZSTD_createCCtx();
    ZSTD_inBuffer in = {array, inside, 0};
    ZSTD_outBuffer out = {frame, room, 0};
    ZSTD_CCtx_setParameter(large, ZSTD_c_windowLog, 27);
    while (ZSTD_compressStream2(large, &out, &in, in.pos < in.size ? ZSTD_e_continue : ZSTD_e_end))
        ;
    ZSTD_freeCCtx(large);
    refused(&entry, frame, out.pos, "memory"); /* zstd's own words */
    array_entry_free(&entry);
    free(array);
    free(frame);
}

/* Every bit of a small frame, with sums that fit: it is refused, or the SHA-256 tells. */
Test(zstd, no_changed_frame_is_taken)
{
    struct array_entry entry = entry_of(50);
    struct failure f = {0};
    size_t bytes;
    cr_assert_eq(write_array(&entry, 3, &f), STATUS_OK);
    char *frame = file_of(&entry, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        frame[bit / 8] ^= (char)(1 << bit % 8);
        put(&entry, frame, bytes);
        cr_assert_eq(read_array(&entry, &f), STATUS_DATA_LOSS, "bit %zu", bit);
        frame[bit / 8] ^= (char)(1 << bit % 8);
    }
    put(&entry, frame, bytes);
    cr_assert_eq(read_array(&entry, &f), STATUS_OK, "%s", f.text);
    free(frame);
    array_entry_free(&entry);
}

/* ---------------------------------------------------------------- snapshots */

static bool manifest_has(const char *where, const char *snapshot, const char *text)
{
    char name[64];
    size_t bytes;
    snprintf(name, sizeof name, "%s/manifest.json", snapshot);
    char *all = persist_house_read(where, name, &bytes);
    bool has = memmem(all, bytes, text, strlen(text));
    free(all);
    return has;
}

static nlink_t links_of(const char *where, const char *file)
{
    char name[192];
    struct stat is;
    snprintf(name, sizeof name, "%s/%s", where, file);
    return stat(name, &is) ? 0 : is.st_nlink;
}

static void change(struct persist_house *h)
{
    struct space *space = NULL;
    struct collection *c = NULL;
    struct upsert_counts counts;
    float row[16] __attribute__((aligned(64))) = {1, 2, 3};
    uint64_t id = 1;
    cr_assert_eq(store_space(h->store, "two", &space), STATUS_OK);
    cr_assert_eq(store_collection_find(h->store, space, "three", NULL, &c), STATUS_OK);
    cr_assert_eq(collection_upsert(c, &id, row, 1, &counts, NULL), STATUS_OK);
    store_space_release(h->store, space);
}

#define FIRST  "snapshot-000000000001"
#define SECOND "snapshot-000000000002"
#define THIRD  "snapshot-000000000003"

/* What has not changed is linked whatever the level is; what has is written as the level says. */
Test(zstd, snapshots_of_either_kind_are_loaded)
{
    char where[64];
    struct persist_house a, b;
    struct failure f = {0};
    persist_house_folder(where);
    persist_house_open(&a, where);
    a.config.persist_keep = 9;
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    cr_assert_eq(persist_save(p, false, &f), STATUS_OK, "%s", f.text);
    cr_assert(manifest_has(where, FIRST, "\"format_version\":\t1,"));
    cr_assert_not(manifest_has(where, FIRST, "zst"));
    a.config.persist_zstd = 19;
    change(&a);
    cr_assert_eq(persist_save(p, false, &f), STATUS_OK, "%s", f.text);
    cr_assert(manifest_has(where, SECOND, "\"format_version\":\t2,"));
    cr_assert_eq(links_of(where, SECOND "/000001-rows.npy"), 2);
    cr_assert(persist_house_verify(where, ""));
    a.config.persist_zstd = 0;
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    cr_assert(manifest_has(where, THIRD, "\"format_version\":\t2,"));
    persist_destroy(p);
    int zstd = 0, plain = 0;
    for (int i = 1; i <= 7; i++) {
        char name[128];
        snprintf(name, sizeof name, THIRD "/%06d-rows.npy.zst", i);
        zstd += links_of(where, name) == 2;
        snprintf(name, sizeof name, THIRD "/%06d-rows.npy", i);
        plain += links_of(where, name) == 3;
    }
    cr_assert(zstd == 1 && plain == 2, "%d and %d", zstd, plain);
    persist_house_open(&b, where);
    p = persist_house_start(&b);
    persist_house_compare(&a, &b);
    change(&b); /* all that is left of zstd is gone, and so is the format */
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    cr_assert(manifest_has(where, "snapshot-000000000004", "\"format_version\":\t1,"));
    persist_destroy(p);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(where);
}

/* A link that fails makes a new file of it, of the kind that is wished now. */
Test(zstd, what_cannot_be_linked_is_written)
{
    char where[64];
    struct persist_house a, b;
    struct failure f = {0};
    uint32_t stride = 4 + sweep_stride(5), written = 0;
    persist_house_folder(where);
    persist_house_open(&a, where);
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK);
    for (uint32_t nth = 1;; nth += stride) {
        a.config.persist_zstd = nth / stride % 2;
        fault_arm(nth);
        enum status st = persist_save(p, true, &f);
        const char *site = fault_fired();
        fault_arm(0);
        if (!site) break;
        written += !st && strncmp(site, "save: link", 10) == 0;
        if (!st) cr_assert(persist_house_verify(where, ""), "%s", site);
    }
    cr_assert_gt(written, 2);
    persist_destroy(p);
    persist_house_open(&b, where);
    persist_destroy(persist_house_start(&b));
    persist_house_compare(&a, &b);
    persist_house_close(&a);
    persist_house_close(&b);
    persist_house_remove(where);
}

/* Any byte of a compressed file: a start names the file, and a salvage has all but its object. */
Test(zstd, a_damaged_file_is_found_and_left_out)
{
    static const char *const files[] = {"000001-rows.npy.zst", "000002-ids.npy.zst",
                                        "000003-targets.npy.zst"};
    char where[64], name[64];
    struct persist_house a;
    struct failure f = {0};
    uint64_t objects;
    persist_house_folder(where);
    persist_house_open(&a, where);
    a.config.persist_zstd = 3;
    struct persist *p = persist_house_start(&a);
    persist_house_fill(&a, false);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK, "%s", f.text);
    persist_destroy(p);
    persist_house_close(&a);
    log_set_level_name("off");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t bytes;
        snprintf(name, sizeof name, FIRST "/%s", files[i]);
        char *data = persist_house_read(where, name, &bytes);
        for (size_t at = 0; at < bytes; at += 10 + sweep_stride(20)) {
            bool cut = at % 3 == 0;
            data[at] ^= 0x20;
            persist_house_write(where, name, data, cut ? at : bytes);
            data[at] ^= 0x20;
            cr_assert_eq(persist_house_try(where, "require", &objects, &f), STATUS_DATA_LOSS);
            cr_assert_not_null(strstr(f.text, files[i]), "%s", f.text);
            cr_assert_eq(persist_house_try(where, "salvage", &objects, &f), STATUS_OK, "%s",
                         f.text);
            cr_assert_eq(objects, 6);
            cr_assert_not(persist_house_verify(where, ""));
            persist_house_write(where, name, data, bytes);
        }
        free(data);
    }
    cr_assert_eq(persist_house_try(where, "require", &objects, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(objects, 7);
    persist_house_remove(where);
}
