/* array_file: large writes are summed up by a second thread, or by their own if there is none. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/persist/array_file.h"

enum { ROWS = 9000, COLUMNS = 1024, NUMBERS = ROWS * COLUMNS }; /* 35 MiB: three pieces */

static char folder_path[] = "/tmp/engram-array-XXXXXX";
static int folder;
static float *numbers;

static void open_folder(void)
{
    cr_assert(mkdtemp(folder_path));
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    numbers = malloc(NUMBERS * sizeof *numbers);
    cr_assert(folder >= 0 && numbers);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (float)(i % 997) * 0.5f;
}

static void remove_folder(void)
{
    unlinkat(folder, "rows.npy", 0);
    close(folder);
    cr_expect_eq(rmdir(folder_path), 0);
    free(numbers);
}

TestSuite(array_file, .init = open_folder, .fini = remove_folder);

static struct array_entry entry_of(void)
{
    return (struct array_entry){.name = "rows.npy",
                                .shape = {.type = NPY_FLOAT32, .rows = ROWS, .columns = COLUMNS}};
}

/* In parts of so many bytes, and synced later or at once. */
static enum status write_in_parts(struct array_entry *entry, uint64_t part, struct array_late *late,
                                  struct failure *f)
{
    struct array_file *a;
    uint64_t bytes = NUMBERS * sizeof *numbers;
    enum status st = array_create(folder, entry, 0, &a, f);
    if (st) return st;
    for (uint64_t at = 0, n; !st && at < bytes; at += n) {
        n = bytes - at < part ? bytes - at : part;
        st = at / part % 3 ? array_write_kept(a, (const char *)numbers + at, n, f)
                           : array_write(a, (const char *)numbers + at, n, f);
    }
    if (!st) return late ? array_end_write_late(a, late, f) : array_end_write(a, f);
    array_abandon(a);
    return st;
}

static void read_back(const struct array_entry *entry)
{
    struct array_file *a;
    struct failure f = {0};
    float *back = malloc(NUMBERS * sizeof *back);
    cr_assert(back);
    cr_assert_eq(array_open(folder, entry, true, &a, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(array_read(a, back, NUMBERS * sizeof *back, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(array_end_read(a, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(memcmp(back, numbers, NUMBERS * sizeof *back), 0);
    free(back);
}

Test(array_file, sums_are_the_same_whoever_makes_them)
{
    static const uint64_t parts[] = {4 << 20, 1000, (1 << 20) + 4, 300 << 10, 40 << 20};
    struct array_entry first = {0};
    struct failure f = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct array_entry entry = entry_of();
        cr_assert_eq(write_in_parts(&entry, parts[i], NULL, &f), STATUS_OK, "%s", f.text);
        read_back(&entry);
        cr_assert_eq(unlinkat(folder, entry.name, 0), 0);
        if (i == 0) {
            first = entry;
            continue;
        }
        cr_assert_eq(entry.piece_count, first.piece_count);
        cr_assert_eq(memcmp(entry.pieces, first.pieces, first.piece_count * sizeof *first.pieces),
                     0, "parts of %lu", (unsigned long)parts[i]);
        cr_assert_eq(memcmp(entry.sha256, first.sha256, sizeof first.sha256), 0);
        array_entry_free(&entry);
    }
    array_entry_free(&first);
}

/* Every call that can fail, in turn; without a second thread all is as with one. */
Test(array_file, ends_whatever_fails)
{
    bool went_on = false;
    for (uint32_t nth = 1;; nth++) {
        struct array_entry entry = entry_of();
        struct failure f = {0};
        fault_arm(nth);
        struct array_late late = {.count = 0};
        enum status st = write_in_parts(&entry, 9 << 20, nth % 2 ? &late : NULL, &f);
        enum status synced = array_sync_late(&late, &f);
        if (!st) st = synced;
        const char *site = fault_fired();
        fault_arm(0);
        if (!st) read_back(&entry);
        array_entry_free(&entry);
        unlinkat(folder, entry.name, 0);
        if (!site) break;
        went_on |= !st && strcmp(site, "second thread") == 0;
        cr_assert(st || strcmp(site, "second thread") == 0, "%s", site);
    }
    cr_assert(went_on);
}

/* More files than may wait: none is left open, and each is whole. */
Test(array_file, some_are_synced_when_too_many_wait)
{
    enum { FILES = ARRAY_LATE_MAX + 5 };
    struct array_entry entries[FILES];
    struct array_late late = {.count = 0};
    struct failure f = {0};
    for (int i = 0; i < FILES; i++) {
        struct array_file *a;
        entries[i] = (struct array_entry){.shape = {.type = NPY_FLOAT32, .rows = 3, .columns = 2}};
        snprintf(entries[i].name, sizeof entries[i].name, "%d.npy", i);
        cr_assert_eq(array_create(folder, &entries[i], 0, &a, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(array_write(a, numbers, 6 * sizeof *numbers, &f), STATUS_OK);
        cr_assert_eq(array_end_write_late(a, &late, &f), STATUS_OK, "%s", f.text);
        cr_assert_leq(late.count, ARRAY_LATE_MAX);
    }
    cr_assert_eq(array_sync_late(&late, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(late.count, 0);
    for (int i = 0; i < FILES; i++) {
        struct array_file *a;
        float back[6];
        cr_assert_eq(array_open(folder, &entries[i], true, &a, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(array_read(a, back, sizeof back, &f), STATUS_OK);
        cr_assert_eq(array_end_read(a, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(memcmp(back, numbers, sizeof back), 0);
        array_entry_free(&entries[i]);
        unlinkat(folder, entries[i].name, 0);
    }
}
