/* What stats tell of snapshots and of the journal.
 * test-run: timeout=120 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/journal_keeper.h"

TestSuite(kept, .timeout = 100);

enum { STEP_US = 5000, SMALL_FILE = 65536 };

static ea_stats stats_of(const struct journal_keeper *k)
{
    ea_stats s;
    journal_keeper_need(k, ea_get_stats(k->client, &s), "stats");
    return s;
}

static void set_largest_file(const struct journal_keeper *k, rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    cr_assert_eq(prlimit(k->daemon.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static ea_status save(const struct journal_keeper *k)
{
    return ea_save(k->client, NULL, NULL);
}

Test(kept, snapshots_and_the_journal_are_counted)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.journal=always");
    ea_stats s = stats_of(&k);
    cr_expect(s.journal.mode == EA_JOURNAL_ALWAYS && s.journal.state == EA_JOURNAL_SOUND);
    cr_expect(s.journal.files == 1 && s.journal.records == 0 && s.journal.lag_ns == 0);
    cr_expect(s.snapshots.number == 0 && s.snapshots.age_ns == 0 && s.snapshots.done == 0);
    cr_expect_eq(s.snapshots.every_ns, UINT64_C(3600000000000));
    journal_keeper_create(&k, "rows");
    journal_keeper_put(&k, "rows", 0, 3000);
    s = stats_of(&k);
    cr_expect(s.journal.records == 2 && s.journal.syncs >= 1 && s.journal.group_last >= 1);
    cr_expect(s.journal.bytes > 3000 * KEEPER_D * 4 && s.journal.file_bytes > s.journal.bytes);
    cr_expect_eq(s.journal.lag_ns, 0, "what was acknowledged is synced");
    cr_assert_eq(save(&k), EA_OK);
    s = stats_of(&k);
    cr_expect(s.snapshots.number == 1 && s.snapshots.done == 1 && s.snapshots.failed == 0);
    cr_expect(s.snapshots.bytes > 3000 * KEEPER_D * 4 && s.snapshots.duration_ns);
    cr_expect_eq(s.snapshots.written_bytes, s.snapshots.bytes);
    cr_expect(!s.snapshots.failing && !s.snapshots.error[0]);
    for (s = stats_of(&k); s.journal.files != 1; s = stats_of(&k))
        usleep(STEP_US); /* the file before it goes */
    journal_keeper_close(&k);
}

/* What a daemon that starts with a snapshot tells of it. */
Test(kept, the_newest_is_known_after_a_start)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.journal=always");
    journal_keeper_create(&k, "rows");
    journal_keeper_put(&k, "rows", 0, 100);
    cr_assert_eq(save(&k), EA_OK);
    uint64_t bytes = stats_of(&k).snapshots.bytes;
    journal_keeper_kill(&k);
    ea_stats s = stats_of(&k);
    cr_expect(s.snapshots.number == 1 && s.snapshots.bytes == bytes && bytes);
    cr_expect(s.snapshots.done == 0 && s.snapshots.duration_ns == 0);
    cr_expect_geq(s.journal.files, 2, "the one that was replayed, and its own");
    journal_keeper_close(&k);
}

/* Neither a snapshot nor the journal has room for more than the first 64 KiB of a file. */
Test(kept, a_failure_is_told_until_there_is_a_snapshot)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.journal=always");
    journal_keeper_create(&k, "rows");
    set_largest_file(&k, SMALL_FILE);
    const ea_rows rows = {
        .collection = "rows", .ids = k.ids, .rows = k.rows, .count = 3000, .dimension = KEEPER_D};
    cr_assert_neq(ea_upsert(k.client, &rows, NULL), EA_OK);
    ea_stats s = stats_of(&k);
    cr_expect_eq(s.journal.state, EA_JOURNAL_FAILED);
    cr_expect_not_null(strstr(s.journal.why, "journal-"), "%s", s.journal.why);
    cr_expect_gt(s.journal.lag_ns, 0, "it is done, and not synced");
    cr_assert_neq(save(&k), EA_OK);
    s = stats_of(&k);
    cr_expect(s.snapshots.failed >= 1 && s.snapshots.done == 0 && s.snapshots.number == 0);
    cr_expect(s.snapshots.failing && s.snapshots.error[0], "%s", s.snapshots.error);
    set_largest_file(&k, RLIM_INFINITY);
    cr_assert_eq(save(&k), EA_OK);
    for (s = stats_of(&k); s.journal.state != EA_JOURNAL_SOUND; s = stats_of(&k))
        usleep(STEP_US);
    cr_expect(s.snapshots.done >= 1 && s.snapshots.number >= 1);
    cr_expect(!s.snapshots.failing && !s.snapshots.error[0] && !s.journal.why[0]);
    cr_expect_eq(s.journal.lag_ns, 0);
    journal_keeper_close(&k);
}

/* Where nothing changes no snapshot is saved, and the newest has everything nevertheless. */
Test(kept, a_daemon_in_which_nothing_changes_is_not_late)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.every_s=1");
    journal_keeper_create(&k, "rows");
    ea_stats s = stats_of(&k);
    cr_expect(s.journal.mode == EA_JOURNAL_OFF && s.journal.state == EA_JOURNAL_NONE);
    for (; !s.snapshots.done; s = stats_of(&k))
        usleep(STEP_US);
    for (uint64_t lag_ns = 0; s.snapshots.lag_ns >= lag_ns; s = stats_of(&k)) {
        lag_ns = s.snapshots.lag_ns;
        usleep(STEP_US);
    }
    cr_expect_eq(s.snapshots.done, 1, "it was seen that there is nothing to save");
    journal_keeper_close(&k);
}
