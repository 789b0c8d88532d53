/* The folder of snapshots when one daemon takes another's place: whatever the settings of either,
 * and wherever one of them fails, a start from the disk has all that a journal promises, and takes
 * another instance where it has not all that was seen. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/store/restore.h"
#include "tests/support/journal_house.h"
#include "tests/support/sweep.h"

struct daemon_seat {
    struct journal_house h; /* its store outlives the daemons that have it one after the other */
    struct persist *p;
    uint64_t instance, generation;
    int told; /* what the last one told */
};

static void nobody(void *owner) {}

static enum status open_as(struct daemon_seat *d, const char *path, const char *journal,
                           struct failure *f)
{
    struct config *c = &d->h.in.config;
    strcpy(c->persist_dir, path);
    strcpy(c->persist_journal, journal);
    memset(f, 0, sizeof *f);
    const struct persist_options options = {.config = c,
                                            .heap = d->h.in.heap,
                                            .store = d->h.in.store,
                                            .kernels = vectors_variant(0),
                                            .wake = nobody};
    return persist_create(&options, &d->p, f);
}

/* The first daemon, of an empty folder. */
static void begin(struct daemon_seat *d, const char *path, const char *journal)
{
    struct failure f;
    memset(d, 0, sizeof *d);
    d->told = -1;
    persist_house_open(&d->h.in, path);
    cr_assert_eq(open_as(d, path, journal, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(persist_load(d->p, &f), STATUS_OK, "%s", f.text);
    d->h.journal = persist_journal(d->p);
    d->instance = persist_instance(d->p);
    d->generation = persist_generation(d->p);
}

static void write_some(struct daemon_seat *d, uint32_t from, uint32_t to)
{
    struct journal_counters counters;
    uint64_t last = 0;
    for (; from < to; from++)
        if (d->h.journal)
            last = journal_house_write(&d->h, from);
        else
            journal_house_do(&d->h, from);
    if (d->h.journal) journal_house_wait(&d->h, last, &counters);
    if (d->h.journal) cr_assert_eq(counters.health, JOURNAL_SOUND, "%s", counters.why);
}

/* Ends, and tells its successor. */
static void leave(struct daemon_seat *d)
{
    struct catalogue_writer *w;
    struct journal_counters counters;
    if (d->told >= 0) close(d->told);
    if (d->h.journal) persist_close_journal(d->p, journal_house_give, &counters, &d->h);
    d->h.journal = NULL;
    cr_assert_eq(catalogue_begin(&w), STATUS_OK);
    persist_tell(d->p, w);
    cr_assert_eq(catalogue_end(w, &d->told), STATUS_OK);
    persist_destroy(d->p);
    d->p = NULL;
}

/* fails: at the nth place where it can; 0: nowhere. *fired: there was such a place. */
static enum status try_adopt(struct daemon_seat *d, const char *path, const char *journal,
                             uint32_t fails, bool *fired, struct failure *f)
{
    struct catalogue_reader r;
    cr_assert_eq(catalogue_open(d->told, &r, f), STATUS_OK, "%s", f->text);
    fault_arm(fails);
    enum status st = open_as(d, path, journal, f);
    if (!st) st = persist_adopt(d->p, d->instance, d->generation, &r, f);
    *fired = fails && fault_hits() >= fails;
    fault_arm(0);
    catalogue_close(&r);
    if (!st) d->h.journal = persist_journal(d->p);
    return st;
}

static void adopt(struct daemon_seat *d, const char *path, const char *journal)
{
    struct failure f;
    bool fired;
    cr_assert_eq(try_adopt(d, path, journal, 0, &fired, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(persist_instance(d->p), d->instance);
    cr_assert_eq(persist_generation(d->p), d->generation);
}

static void end(struct daemon_seat *d)
{
    struct journal_counters counters;
    if (d->h.journal) persist_close_journal(d->p, journal_house_give, &counters, &d->h);
    persist_destroy(d->p);
    persist_house_close(&d->h.in);
    if (d->told >= 0) close(d->told);
}

static bool is_sound(struct daemon_seat *d)
{
    struct journal_counters counters;
    cr_assert_null(journal_poll(d->h.journal, &counters));
    return counters.health == JOURNAL_SOUND;
}

/* Starts with what a crash at this moment would leave, and compares it with the store of `same`, if
 * that is not NULL. True: the instance is this daemon's. */
static bool crash(const struct daemon_seat *d, const char *path, const struct daemon_seat *same)
{
    char copy[64], command[192];
    struct daemon_seat after;
    persist_house_folder(copy);
    snprintf(command, sizeof command, "cp -r %s/. %s", path, copy);
    cr_assert_eq(system(command), 0);
    begin(&after, copy, "always");
    if (same) {
        store_restore_version(after.h.in.store, store_last_version(same->h.in.store));
        persist_house_compare(&same->h.in, &after.h.in);
    }
    bool stays = after.instance == d->instance;
    if (stays) cr_assert_geq(after.generation, d->generation);
    end(&after);
    persist_house_remove(copy);
    return stays;
}

Test(adopted, a_journal_goes_on)
{
    static const char *const kinds[] = {"always", "second"};
    char path[64];
    struct daemon_seat d;
    log_set_level_name("error");
    for (int i = 0; i < 2; i++) {
        persist_house_folder(path);
        begin(&d, path, kinds[i]);
        write_some(&d, 0, 3);
        leave(&d);
        cr_assert(crash(&d, path, &d), "it ended in order");
        for (uint32_t n = 3; n < 9; n += 3) {
            adopt(&d, path, kinds[i]);
            write_some(&d, n, n + 3);
            cr_assert_eq(crash(&d, path, &d), i == 0);
            leave(&d);
        }
        adopt(&d, path, "always");
        write_some(&d, 9, 12);
        cr_assert(crash(&d, path, &d));
        end(&d);
        persist_house_remove(path);
    }
}

static void save(struct daemon_seat *d, bool complete)
{
    struct failure f = {0};
    cr_assert_eq(persist_save(d->p, complete, &f), STATUS_OK, "%s", f.text);
}

static uint64_t file_bytes(const struct daemon_seat *d)
{
    struct journal_counters counters;
    cr_assert_null(journal_poll(d->h.journal, &counters));
    return counters.file_bytes;
}

/* persist.journal_mib bounds all files, also those of daemons before. */
Test(adopted, what_was_written_before_counts_to_the_next_snapshot)
{
    char path[64];
    struct daemon_seat d, after;
    log_set_level_name("error");
    persist_house_folder(path);
    begin(&d, path, "always");
    write_some(&d, 0, 6);
    uint64_t bytes = file_bytes(&d);
    cr_assert_gt(bytes, 0);
    leave(&d);
    adopt(&d, path, "always");
    cr_assert_geq(file_bytes(&d), bytes);
    write_some(&d, 6, 7);
    cr_assert_gt(file_bytes(&d), bytes);
    end(&d);
    begin(&after, path, "always");
    cr_assert_geq(file_bytes(&after), bytes);
    end(&after);
    persist_house_remove(path);
}

/* A stop saves a snapshot, and no file of the journal stays: the one that `state` names is not
 * missed, also where the folder is left for another. */
Test(adopted, no_file_is_missed_beside_a_stop_s_snapshot)
{
    char path[64], other[64];
    struct daemon_seat d;
    struct journal_counters counters;
    log_set_level_name("error");
    persist_house_folder(path);
    persist_house_folder(other);
    begin(&d, path, "always");
    write_some(&d, 0, 3);
    persist_close_journal(d.p, journal_house_give, &counters, &d.h);
    d.h.journal = NULL;
    save(&d, true);
    cr_assert(crash(&d, path, &d));
    leave(&d);
    adopt(&d, other, "always");
    cr_assert_not(crash(&d, path, NULL));
    end(&d);
    persist_house_remove(path);
    persist_house_remove(other);
}

/* What was not in a journal can be in one only behind a snapshot; before it is there, nothing is
 * written, and a start has what was on the disk before: another instance. */
Test(adopted, a_journal_that_is_turned_on_begins_with_a_snapshot)
{
    char path[64];
    struct daemon_seat d;
    log_set_level_name("error");
    for (int saved = 0; saved < 2; saved++) {
        persist_house_folder(path);
        begin(&d, path, "off");
        write_some(&d, 0, 3);
        if (saved) save(&d, false);
        write_some(&d, 3, 5);
        leave(&d);
        adopt(&d, path, "always");
        cr_assert_not(is_sound(&d));
        cr_assert_not(crash(&d, path, NULL));
        save(&d, false);
        struct journal_counters counters;
        journal_house_wait_sound(&d.h, &counters);
        write_some(&d, 5, 8);
        cr_assert(crash(&d, path, &d));
        leave(&d);
        adopt(&d, path, "always");
        write_some(&d, 8, 9);
        cr_assert(crash(&d, path, &d));
        end(&d);
        persist_house_remove(path);
    }
}

/* A snapshot that fails may leave a file of the journal, which says nothing without it. */
Test(adopted, the_first_snapshot_fails_anywhere, .timeout = 300)
{
    struct failure f;
    uint32_t failed = 0;
    log_set_level_name("error");
    for (uint32_t nth = 1;; nth += sweep_stride(4)) {
        char path[64];
        struct daemon_seat d;
        struct journal_counters counters;
        persist_house_folder(path);
        begin(&d, path, "off");
        write_some(&d, 0, 3);
        leave(&d);
        adopt(&d, path, "always");
        fault_arm(nth);
        enum status st = persist_save(d.p, false, &f);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        if (st) {
            failed++;
            (void)journal_wait_file(d.h.journal, &f); /* which may still be made */
            cr_assert_not(crash(&d, path, NULL));
            save(&d, false);
        }
        journal_house_wait_sound(&d.h, &counters);
        write_some(&d, 3, 4);
        cr_assert(crash(&d, path, &d));
        end(&d);
        persist_house_remove(path);
        if (!fired) break;
    }
    cr_assert_gt(failed, 5);
    fprintf(stderr, "adopted: %u first snapshots that failed\n", failed);
}

/* As at a restart under a service manager: the snapshot of the stop is just what is in memory. */
Test(adopted, a_journal_begins_at_the_snapshot_of_a_stop)
{
    char path[64];
    struct daemon_seat d;
    log_set_level_name("error");
    persist_house_folder(path);
    begin(&d, path, "off");
    write_some(&d, 0, 3);
    save(&d, true);
    leave(&d);
    adopt(&d, path, "always");
    cr_assert(is_sound(&d));
    write_some(&d, 3, 6);
    cr_assert(crash(&d, path, &d));
    save(&d, false); /* which links what it had */
    write_some(&d, 6, 9);
    cr_assert(crash(&d, path, &d));
    end(&d);
    persist_house_remove(path);
}

/* The files that are there do not have what comes: a start with them is another instance. */
Test(adopted, a_journal_that_is_turned_off)
{
    char path[64];
    struct daemon_seat d;
    log_set_level_name("error");
    persist_house_folder(path);
    begin(&d, path, "always");
    write_some(&d, 0, 3);
    leave(&d);
    for (uint32_t n = 3; n < 5; n++) {
        adopt(&d, path, "off");
        cr_assert_not(crash(&d, path, &d));
        write_some(&d, n, n + 1);
        cr_assert_not(crash(&d, path, NULL));
        leave(&d);
    }
    adopt(&d, path, "off");
    save(&d, true);
    leave(&d);
    adopt(&d, path, "always"); /* it begins at that snapshot */
    write_some(&d, 5, 7);
    cr_assert(crash(&d, path, &d));
    end(&d);
    persist_house_remove(path);
}

/* What stays in the other folder is not the newest any more, also if that has a whole journal, or
 * the snapshot of a stop. */
Test(adopted, another_folder)
{
    char one[64], two[64];
    struct daemon_seat d;
    log_set_level_name("error");
    for (int saved = 0; saved < 2; saved++) {
        persist_house_folder(one);
        persist_house_folder(two);
        begin(&d, one, saved ? "off" : "always");
        write_some(&d, 0, 3);
        if (saved) save(&d, true);
        leave(&d);
        cr_assert(crash(&d, one, &d) || saved);
        adopt(&d, two, "always");
        cr_assert_not(is_sound(&d));
        cr_assert_not(crash(&d, one, &d));
        save(&d, false);
        struct journal_counters counters;
        journal_house_wait_sound(&d.h, &counters);
        write_some(&d, 3, 5);
        cr_assert(crash(&d, two, &d));
        leave(&d);
        adopt(&d, one, "always"); /* and back */
        cr_assert_not(crash(&d, one, NULL));
        cr_assert_not(crash(&d, two, NULL));
        save(&d, false);
        journal_house_wait_sound(&d.h, &counters);
        write_some(&d, 5, 6);
        cr_assert(crash(&d, one, &d));
        end(&d);
        persist_house_remove(one);
        persist_house_remove(two);
    }
}

/* The successor fails wherever it can; then the daemon itself goes on, or ends, too. */
Test(adopted, a_successor_that_fails_anywhere, .timeout = 300)
{
    static const char *const kinds[] = {"always", "second", "off"};
    struct failure f;
    uint32_t tried = 0;
    log_set_level_name("error");
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t nth = 1;; nth += sweep_stride(4)) {
            char path[64];
            struct daemon_seat d;
            persist_house_folder(path);
            begin(&d, path, "always");
            write_some(&d, 0, 3);
            leave(&d);
            bool fired;
            enum status st = try_adopt(&d, path, kinds[i], nth, &fired, &f);
            d.h.journal = NULL;
            persist_destroy(d.p);
            bool stays = crash(&d, path, &d);
            if (!st) cr_assert(i == 2 ? !stays : stays);
            adopt(&d, path, "always");
            if (is_sound(&d)) write_some(&d, 3, 6);
            if (is_sound(&d)) cr_assert(crash(&d, path, &d));
            end(&d);
            persist_house_remove(path);
            tried++;
            if (!fired) break;
        }
    fprintf(stderr, "adopted: %u successors that failed\n", tried);
}
