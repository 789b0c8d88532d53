/* Which writes one sync of the journal is for. */
#include <criterion/criterion.h>

#include "daemon/persist/journal_inside.h"
#include "tests/support/journal_house.h"

static const struct journal_base nothing;

/* Writes of clients that were answered by one sync are synced together again: the first of them
 * wait for the others, a quarter of a sync at most. */
Test(journal_groups, who_was_answered_together_is_waited_for, .timeout = 60)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c = {0};
    struct failure f = {0};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    h.journal->hoped = 3;
    h.journal->sync_ns = UINT64_C(4 * 3600) * 1000000000;
    h.journal->hope_ns_max = UINT64_MAX;
    for (uint64_t n = 1; n <= 2; n++) {
        cr_assert_eq(journal_house_write(&h, n == 1 ? 0 : 1), n);
        while (c.written < n)
            cr_assert_null(journal_poll(h.journal, &c)); /* given back with the sync */
        cr_assert_eq(c.synced, 0);
        cr_assert_gt(c.oldest_ns, 0);
    }
    cr_assert_eq(journal_house_write(&h, 1), 3);
    journal_house_wait(&h, 3, &c);
    cr_assert_eq(c.syncs, 1);
    cr_assert_eq(c.group_last, 3);
    journal_house_stop(&h);
    journal_house_close(&h);
    persist_house_remove(path);
}

/* Of those that do not come, nobody waits for ever; a file that ends is synced at once. */
Test(journal_groups, who_does_not_come_is_not_waited_for, .timeout = 60)
{
    char path[64];
    struct journal_house h;
    struct journal_counters c = {0};
    struct failure f = {0};
    struct journal_turn turn = {.snapshot = 4, .instance = 77, .generation = 1};
    persist_house_folder(path);
    journal_house_open(&h, path);
    cr_assert_eq(journal_house_start(&h, true, &f), STATUS_OK);
    h.journal->hoped = 100;
    h.journal->sync_ns = UINT64_C(3600) * 1000000000; /* a disk that was held up */
    journal_house_wait(&h, journal_house_write(&h, 0), &c);
    cr_assert_eq(c.group_last, 1);
    h.journal->hoped = 100; /* the thread sleeps: nothing is queued */
    h.journal->sync_ns = UINT64_C(4 * 3600) * 1000000000;
    h.journal->hope_ns_max = UINT64_MAX;
    cr_assert_eq(journal_house_write(&h, 1), 2);
    cr_assert_eq(journal_begin_file(h.journal, &turn, &f), STATUS_OK);
    cr_assert_eq(journal_wait_file(h.journal, &f), STATUS_OK, "%s", f.text);
    journal_house_wait(&h, 2, &c);
    h.journal->hoped = 100;
    cr_assert_eq(journal_house_write(&h, 1), 3);
    journal_house_stop(&h); /* so is one that stops */
    journal_house_close(&h);
    struct journal_end end;
    cr_assert_eq(journal_house_replay(path, &nothing, false, NULL, &end, &f), STATUS_OK, "%s",
                 f.text);
    cr_assert_eq(end.writes, 3);
    persist_house_remove(path);
}
