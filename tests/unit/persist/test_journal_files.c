/* Files of a journal of which one is not there, or ends otherwise than it did. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/support/journal_house.h"

static void be_quiet(void)
{
    log_set_level_name("none");
}

TestSuite(journal_files, .init = be_quiet);

#define FIRST  "journal-000000000001"
#define SECOND "journal-000000000002"

static const struct journal_base nothing;

static void cut(const char *path, size_t bytes)
{
    char name[128];
    snprintf(name, sizeof name, "%s/" FIRST, path);
    cr_assert_eq(truncate(name, (off_t)bytes), 0);
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

/* A record that is sound, and whose write cannot have been done, is left out with all behind it; so
 * what is written from then on has its number. */
Test(journal_files, salvage_goes_on_behind_a_write_that_cannot_have_been_done)
{
    char path[64];
    struct journal_house h;
    struct journal_end end;
    struct journal_counters c;
    struct failure f = {0};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK, "%s", f.text);
    journal_house_add(&h, 0);
    journal_house_wait(&h, journal_house_add(&h, 10), &c); /* of a graph that is not there */
    journal_house_stop(&h);
    journal_house_close(&h);
    cr_assert_eq(journal_house_replay(path, &nothing, true, NULL, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert(end.lost);
    cr_assert_eq(end.writes, 1);
    cr_assert_eq(end.sequence, 2);
    persist_house_remove(path);
}

/* Two files, of which the second began with a snapshot that is not there. */
static void make_two(const char *path)
{
    struct journal_house h;
    struct journal_counters c;
    struct failure f = {0};
    const struct journal_turn turn = {1, 77, 1};
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK, "%s", f.text);
    journal_house_wait(&h, journal_house_write(&h, 0), &c);
    cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
    journal_house_wait(&h, journal_house_write(&h, 1), &c);
    journal_house_stop(&h);
    journal_house_close(&h);
}

/* The file before it says that there was one. */
Test(journal_files, a_newest_file_that_is_gone_is_missed)
{
    char path[64], name[128];
    struct journal_end end;
    struct failure f = {0};
    persist_house_folder(path);
    make_two(path);
    cr_assert_eq(read_all(path, &end, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(end.writes, 2);
    snprintf(name, sizeof name, "%s/" SECOND, path);
    cr_assert_eq(unlink(name), 0);
    cr_assert_eq(read_all(path, &end, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, SECOND ": byte 0: missing"), "%s", f.text);
    cr_assert_eq(journal_house_replay(path, &nothing, true, NULL, &end, &f), STATUS_OK);
    cr_assert(end.lost && !end.ended);
    cr_assert_eq(end.writes, 1);
    persist_house_remove(path);
}

/* It says so when the second is there: power may go meanwhile. */
Test(journal_files, an_end_that_is_torn_is_none)
{
    char path[64];
    struct journal_end end;
    struct failure f = {0};
    size_t bytes;
    persist_house_folder(path);
    make_two(path);
    free(persist_house_read(path, FIRST, &bytes));
    for (size_t less = 0; less <= JOURNAL_RECORD_BYTES; less += 16) {
        cut(path, bytes - less);
        cr_assert_eq(read_all(path, &end, &f), STATUS_OK, "%zu: %s", less, f.text);
        cr_assert_eq(end.writes, 2);
    }
    cut(path, bytes - 3 * JOURNAL_RECORD_BYTES); /* some of the write */
    cr_assert_eq(read_all(path, &end, &f), STATUS_DATA_LOSS);
    persist_house_remove(path);
}
