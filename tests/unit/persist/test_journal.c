/* What a journal has, and what becomes of it if it is cut, damaged, or was not all synced. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/persist/journal_inside.h"
#include "tests/support/journal_house.h"
#include "tests/support/sweep.h"

static const struct journal_base nothing;
#define FIRST "journal-000000000001"

/* A journal of the first `count` writes, ended in order, and the store that they made. */
static void make(struct journal_house *h, char path[64], bool always, uint32_t count)
{
    struct failure f;
    struct journal_counters counters;
    uint64_t last = 0;
    persist_house_folder(path);
    journal_house_open(h, path);
    cr_assert_eq(journal_house_start(h, always, &f), STATUS_OK, "%s", f.text);
    for (uint32_t i = 0; i < count; i++)
        last = journal_house_write(h, i);
    journal_house_wait(h, last, &counters);
    cr_assert_eq(counters.synced, count);
    journal_house_stop(h);
    cr_assert_eq(h->given, count);
    folder_close(&h->folder);
    h->folder.fd = h->folder.lock = -1;
}

Test(journal, all_kinds_of_writes_are_done_again)
{
    char path[64];
    for (int always = 0; always < 2; always++) {
        struct journal_house h;
        struct journal_end end;
        struct failure f = {0};
        make(&h, path, always, JOURNAL_HOUSE_WRITES);
        cr_assert_eq(journal_house_replay(path, &nothing, false, &h, &end, &f), STATUS_OK, "%s",
                     f.text);
        cr_assert_eq(end.files, 1);
        cr_assert_eq(end.writes, JOURNAL_HOUSE_WRITES);
        cr_assert_eq(end.sequence, JOURNAL_HOUSE_WRITES + 1);
        cr_assert_eq(end.last.always, always);
        cr_assert_eq(end.last.instance, 77);
        journal_house_close(&h);
        persist_house_remove(path);
    }
}

/* What is hidden when the daemon ends goes, and so does a collection that was made of it. */
Test(journal, what_is_hidden_goes)
{
    char path[64];
    struct journal_house h;
    struct journal_end end;
    struct failure f = {0};
    make(&h, path, true, 18);
    struct replay r = {.store = h.in.store, .heap = h.in.heap, .kernels = vectors_variant(0)};
    replay_end(&r);
    cr_assert_eq(journal_house_replay(path, &nothing, false, &h, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_eq(persist_house_count(&h.in), 3);
    journal_house_close(&h);
    persist_house_remove(path);
}

/* Gives the file these bytes, of which the first `kept` stay. Nothing is cut that is written again:
 * file systems sync such files. */
static void put(const char *path, const char *data, size_t bytes, size_t kept)
{
    char name[128];
    snprintf(name, sizeof name, "%s/" FIRST, path);
    int fd = open(name, O_WRONLY);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, data, bytes, 0), (ssize_t)bytes);
    cr_assert_eq(ftruncate(fd, (off_t)kept), 0);
    close(fd);
}

static enum status read_all(const char *path, struct journal_end *end, struct failure *f)
{
    struct folder folder;
    memset(f, 0, sizeof *f);
    cr_assert_eq(folder_open(path, &folder, f), STATUS_OK);
    enum status st = journal_chain_replay(&folder, &nothing, NULL, false, end, f);
    folder_close(&folder);
    return st;
}

Test(journal, cut_anywhere_it_has_what_was_whole)
{
    char path[64];
    struct journal_house h;
    struct journal_end end;
    struct failure f;
    size_t bytes;
    make(&h, path, true, 3);
    journal_house_close(&h);
    char *file = persist_house_read(path, FIRST, &bytes);
    uint64_t most = 0;
    for (size_t n = 0; n <= bytes; n++) {
        put(path, file, n, n);
        enum status st = read_all(path, &end, &f);
        if (n < JOURNAL_HEAD_BYTES) {
            cr_assert_eq(st, STATUS_DATA_LOSS);
            continue;
        }
        cr_assert_eq(st, STATUS_OK, "%zu: %s", n, f.text);
        cr_assert(end.writes == most || end.writes == most + 1);
        most = end.writes;
    }
    cr_assert_eq(most, 3);
    free(file);
    persist_house_remove(path);
}

/* Whatever byte is another one, it is found, and named; or it is one that says nothing of a write,
 * and all writes are there. */
Test(journal, a_wrong_byte_is_found_wherever_it_is)
{
    char path[64];
    struct journal_house h;
    struct journal_end end;
    struct failure f;
    size_t bytes;
    uint32_t found = 0;
    make(&h, path, true, 3);
    journal_house_close(&h);
    char *file = persist_house_read(path, FIRST, &bytes);
    for (size_t i = 0; i < bytes; i += sweep_stride(7)) {
        file[i] ^= (char)(1 << i % 8);
        put(path, file, bytes, bytes);
        file[i] ^= (char)(1 << i % 8);
        enum status st = read_all(path, &end, &f);
        if (!st) {
            cr_assert_eq(end.writes, 3, "byte %zu", i);
            cr_assert_geq(i + 2 * JOURNAL_RECORD_BYTES, bytes);
            continue;
        }
        found++;
        cr_assert_eq(st, STATUS_DATA_LOSS);
        cr_assert_eq(f.detail, DETAIL_DAMAGED);
        const char *named = strstr(f.text, FIRST ": byte ");
        cr_assert_not_null(named, "%s", f.text);
        cr_assert_null(strstr(named + sizeof FIRST + 2, "byte "), "%s", f.text);
    }
    cr_assert_gt(found, bytes / sweep_stride(7) / 2);
    free(file);
    persist_house_remove(path);
}

Test(journal, salvage_keeps_what_stands_before_damage)
{
    char path[64];
    struct journal_house h;
    struct journal_end end;
    struct failure f = {0};
    size_t bytes;
    make(&h, path, true, 6);
    journal_house_close(&h);
    char *file = persist_house_read(path, FIRST, &bytes);
    file[bytes / 2] ^= 1;
    put(path, file, bytes, bytes);
    free(file);
    cr_assert_eq(journal_house_replay(path, &nothing, false, NULL, &end, &f), STATUS_DATA_LOSS);
    cr_assert_eq(journal_house_replay(path, &nothing, true, NULL, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_gt(end.writes, 0);
    cr_assert_lt(end.writes, 6);
    cr_assert_eq(end.sequence, end.writes + 1);
    cr_assert(end.lost);
    uint64_t kept = end.writes;
    cr_assert_eq(journal_house_replay(path, &nothing, false, NULL, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_eq(end.writes, kept);
    cr_assert_not(end.lost);
    persist_house_remove(path);
}

/* ---------------------------------------------------------------- power */

static uint32_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A file whose first 3 writes were synced, and 5 more were not; *synced: up to where. */
static void make_half_synced(const char *path, uint64_t *synced)
{
    static const uint64_t ids[40];
    struct folder folder;
    struct failure f;
    struct journal_file file;
    struct journal_entry e = {.write = {.kind = JOURNAL_DELETE, .version = 1}};
    strcpy(e.write.space, "alpha");
    strcpy(e.write.name, "rows");
    cr_assert_eq(folder_open(path, &folder, &f), STATUS_OK);
    const struct journal_options options = {
        .folder = folder.fd, .head = {.number = 1, .instance = 1, .generation = 1, .sequence = 1}};
    cr_assert_eq(journal_file_start(&file, &options, &f), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        e.write.tensors[JOURNAL_IDS] =
            (struct tensor){DTYPE_UINT64, 5 * i + 1, 1, (void *)(uintptr_t)ids};
        cr_assert_eq(journal_file_write(&file, &e, &f), STATUS_OK);
        if (i == 2) cr_assert_eq(journal_file_sync(&file, &f), STATUS_OK);
        if (i == 2) *synced = file.synced_at;
    }
    journal_file_finish(&file);
    folder_close(&folder);
}

/* What was not synced is there in pieces, in any order: what was is whole. */
Test(journal, a_loss_of_power_takes_only_what_was_not_synced)
{
    enum { SECTOR = 512 };
    char path[64];
    struct journal_end end;
    struct failure f;
    size_t bytes;
    uint64_t synced = 0, seed = 1, seen[9] = {0};
    persist_house_folder(path);
    make_half_synced(path, &synced);
    char *file = persist_house_read(path, FIRST, &bytes), *left = malloc(bytes);
    for (uint32_t trial = 0; trial < 400; trial++) {
        size_t kept = trial % 4 ? bytes : synced + draw(&seed) % (bytes - synced);
        memcpy(left, file, bytes);
        for (size_t at = synced; at < bytes; at = (at / SECTOR + 1) * SECTOR)
            if (draw(&seed) % 4 == 0)
                memset(left + at, 0,
                       (at / SECTOR + 1) * SECTOR < bytes ? (at / SECTOR + 1) * SECTOR - at
                                                          : bytes - at);
        put(path, left, bytes, kept);
        cr_assert_eq(read_all(path, &end, &f), STATUS_OK, "%u: %s", trial, f.text);
        cr_assert_geq(end.writes, 3);
        seen[end.writes]++;
    }
    cr_assert(seen[3] && seen[4] && seen[5] && seen[8]);
    free(left);
    free(file);
    persist_house_remove(path);
}

/* ---------------------------------------------------------------- a disk that fails */

Test(journal, whatever_fails_at_the_start_is_told)
{
    char path[64];
    struct journal_house h;
    struct failure f;
    persist_house_folder(path);
    journal_house_open(&h, path);
    for (uint32_t nth = 1;; nth++) {
        memset(&f, 0, sizeof f);
        fault_arm(nth);
        enum status st = journal_house_start(&h, true, &f);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert_eq(st != STATUS_OK, fired);
        if (!fired) break;
        cr_assert(f.text[0]);
    }
    journal_house_stop(&h);
    journal_house_close(&h);
    persist_house_remove(path);
}

static void fail_at(struct journal_house *h, const char *site, uint32_t nth)
{
    journal_house_do(h, 0);
    fault_arm(nth);
    uint64_t number = journal_house_add(h, 0);
    struct journal_counters c;
    journal_house_wait(h, number, &c);
    const char *fired = fault_fired();
    fault_arm(0);
    cr_assert_not_null(fired);
    cr_assert_str_eq(fired, site);
}

/* What comes while it waits for room is synced at once when there is some. */
Test(journal, a_full_disk_is_tried_again)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c;
    struct journal_end end;
    struct failure f = {0};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    fail_at(&h, "journal: no room", 1);
    for (uint64_t i = 2; i <= 16; i++)
        cr_assert_eq(journal_house_write(&h, 1), i);
    journal_house_wait_sound(&h, &c);
    journal_house_wait(&h, 16, &c);
    cr_assert_eq(c.syncs, 2);
    cr_assert_eq(c.group_last, 15);
    cr_assert_str_eq(c.why, "");
    journal_house_stop(&h);
    folder_close(&h.folder);
    cr_assert_eq(journal_house_replay(path, &nothing, false, &h, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_eq(end.writes, 16);
    h.folder.fd = h.folder.lock = -1;
    journal_house_close(&h);
    persist_house_remove(path);
}

/* A snapshot that begins does not wait for room: it has what waits, and may be what makes room. */
Test(journal, a_snapshot_does_not_wait_for_room, .timeout = 60)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c;
    struct failure f = {0};
    struct journal_turn turn = {.snapshot = 4, .instance = 77, .generation = 1};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    h.journal->retry_ns = UINT64_C(3600) * 1000000000;
    fail_at(&h, "journal: no room", 1);
    journal_house_wait(&h, UINT64_MAX, &c);
    cr_assert_gt(c.oldest_ns, 0, "what waits for room is not synced");
    cr_assert_eq(c.files, 1);
    cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
    cr_assert_eq(journal_wait_file(h.journal, &f), STATUS_OK, "%s", f.text);
    journal_house_wait(&h, UINT64_MAX, &c);
    cr_assert_eq(c.health, JOURNAL_FAILED);
    cr_assert_eq(c.synced, 0, "what was given up does not count");
    cr_assert_eq(c.files, 2);
    journal_snapshot_done(h.journal, 2);
    journal_house_wait_sound(&h, &c);
    cr_assert_eq(c.oldest_ns, 0);
    cr_assert_eq(c.files, 1);
    journal_house_stop(&h);
    journal_house_close(&h);
    persist_house_remove(path);
}

/* After a write or a sync that failed only a snapshot helps: until it is there, what is written is
 * of no use without it. */
Test(journal, after_a_failure_a_snapshot_makes_it_sound)
{
    static const char *const sites[] = {"journal: write", "journal: sync"};
    for (uint32_t i = 0; i < 2; i++) {
        char path[64];
        struct journal_house h;
        struct journal_counters c;
        struct journal_end end;
        struct failure f = {0};
        struct journal_turn turn = {.snapshot = 4, .instance = 77, .generation = 1};
        persist_house_folder(path);
        journal_house_open(&h, path);
        cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
        fail_at(&h, sites[i], 2 + i);
        journal_house_write(&h, 1);
        cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
        cr_assert_eq(journal_wait_file(h.journal, &f), STATUS_OK, "%s", f.text);
        cr_assert_eq(journal_file_now(h.journal), 2);
        uint64_t number = journal_house_write(&h, 2);
        journal_house_wait(&h, number, &c);
        cr_assert_eq(c.health, JOURNAL_FAILED);
        cr_assert(c.why[0]);
        /* Without the snapshot: what was sound. */
        folder_close(&h.folder);
        cr_assert_eq(read_all(path, &end, &f), STATUS_OK, "%s", f.text);
        cr_assert_leq(end.writes, 1);
        cr_assert_eq(folder_open(path, &h.folder, &f), STATUS_OK);
        journal_snapshot_done(h.journal, 2);
        journal_house_wait_sound(&h, &c);
        journal_house_stop(&h);
        journal_house_close(&h);
        persist_house_remove(path);
    }
}

/* What was made under a hidden name while the journal was not sound is in no file, and what is
 * written to it afterwards is; it cannot take a name. */
Test(journal, writes_to_what_is_hidden_and_was_never_made_are_passed_over)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c;
    struct journal_end end;
    struct failure f = {0};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    journal_house_write(&h, 0);
    journal_house_add(&h, 17);
    journal_house_wait(&h, journal_house_add(&h, 20), &c);
    journal_house_stop(&h);
    folder_close(&h.folder);
    cr_assert_eq(journal_house_replay(path, &nothing, false, NULL, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_eq(end.writes, 3);
    h.folder.fd = h.folder.lock = -1;
    journal_house_close(&h);
    persist_house_remove(path);
}

/* A file could not be made, and files before it stay for what is hidden: the one that follows does
 * not name it, and the next snapshot's is found all the same. */
Test(journal, a_file_that_could_not_be_made_is_not_missed)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c;
    struct journal_end end;
    struct failure f = {0};
    struct journal_turn turn = {.snapshot = 4, .instance = 77, .generation = 1};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    journal_house_wait(&h, journal_house_write(&h, 0), &c);
    fault_arm(2);
    cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
    cr_assert_neq(journal_wait_file(h.journal, &f), STATUS_OK);
    cr_assert_str_eq(fault_fired(), "journal: make");
    fault_arm(0);
    for (; turn.snapshot < 6; journal_snapshot_done(h.journal, 1)) {
        turn.snapshot++;
        cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
        cr_assert_eq(journal_wait_file(h.journal, &f), STATUS_OK, "%s", f.text);
    }
    journal_house_wait_sound(&h, &c);
    journal_house_stop(&h);
    folder_close(&h.folder);
    const struct journal_base base = {6, 77, 1};
    cr_assert_eq(journal_house_replay(path, &base, false, NULL, &end, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(end.number, 4);
    h.folder.fd = h.folder.lock = -1;
    journal_house_close(&h);
    persist_house_remove(path);
}
