/* Recalls within the quota of their space, in graphs of their own. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/store/collection.h"
#include "tests/support/recall_job.h"
#include "tests/support/run_job.h"

/* With more and more of it: a refusal, the ranked seeds, marked, or the right answer. A graph keeps
 * the workspaces that it had once, so each has its own. */
Test(op_recall_quota, memory_that_is_short, .timeout = 900)
{
    unsigned answered = 0, seeds = 0, refused_count = 0;
    for (uint64_t cues = 1; cues <= 4; cues += 3) {
        struct recall_scene large = recall_job_open(20000, 100000, 8, 200, 6);
        struct recall_asked a;
        recall_job_ask(&large, &a);
        a.c.cue_count = cues;
        uint32_t owner = large.spread.space->number;
        uint64_t has = heap_owner_bytes(large.spread.heap, owner);
        for (uint64_t more = 1 << 14; more <= UINT64_C(64) << 20; more += more / 6) {
            cr_assert_eq(heap_quota(large.spread.heap, owner, has + more), STATUS_OK);
            struct job f = recall_job_of(&large, &a);
            if (run_job(&f, 1) == STATUS_OK) {
                struct recall_reply r = recall_job_reply(&f);
                uint64_t alone = 0;
                for (uint64_t list = 0; list < r.lists; list++)
                    alone += recall_only_seeds(&r, list);
                const char *wrong = alone ? NULL : recall_reply_wrong(&a.c, &r);
                cr_assert_null(wrong, "%s", wrong);
                *(alone ? &seeds : &answered) += 1;
            } else {
                cr_assert_eq(f.failure.code, STATUS_RESOURCE_EXHAUSTED);
                cr_assert_eq(f.failure.detail, DETAIL_QUOTA, "%s", f.failure.text);
                refused_count++;
            }
            run_job_reset(&f);
        }
        heap_quota(large.spread.heap, owner, 0);
        recall_job_free(&a);
        recall_job_close(&large);
    }
    cr_assert(answered >= 2 && seeds >= 2 && refused_count >= 2,
              "%u answered, %u seeds, %u refused", answered, seeds, refused_count);
}

/* How a recall ends within a quota, from little memory to enough. */
enum ending { NO_SCRATCH, NO_RANKING, NO_REPLY, SEEDS_ALONE, WHOLE, ENDINGS };

/* The space may have so many pages more than it has. A graph keeps the workspaces that it had once,
 * so each recall has its own. */
static enum ending end_within(uint64_t pages, uint64_t cues)
{
    struct recall_scene own = recall_job_open(2000, 10000, 8, 200, 6);
    struct recall_asked a;
    uint32_t owner = own.spread.space->number;
    uint64_t has = heap_owner_bytes(own.spread.heap, owner), alone = 0;
    enum ending ended = NO_SCRATCH;
    recall_job_ask(&own, &a);
    a.c.cue_count = cues;
    struct job f = recall_job_of(&own, &a);
    f.worker_count = 1;
    cr_assert_eq(heap_quota(own.spread.heap, owner, has + 4096 * pages), STATUS_OK);
    if (run_job(&f, 1) != STATUS_OK) {
        cr_assert_eq(f.failure.detail, DETAIL_QUOTA, "%lu: %s", pages, f.failure.text);
        if (strstr(f.failure.text, "for a recall")) ended = NO_RANKING;
        if (strstr(f.failure.text, "bytes of reply")) ended = NO_REPLY;
    } else {
        struct recall_reply r = recall_job_reply(&f);
        for (uint64_t list = 0; list < r.lists; list++)
            alone += recall_only_seeds(&r, list);
        const char *wrong = alone ? NULL : recall_reply_wrong(&a.c, &r);
        cr_assert_null(wrong, "%lu: %s", pages, wrong);
        cr_assert(!alone || alone == r.lists, "%lu", pages);
        ended = alone ? SEEDS_ALONE : WHOLE;
    }
    run_job_reset(&f);
    recall_job_free(&a);
    recall_job_close(&own);
    return ended;
}

/* With a page more each time it ends in each of these ways. Some are refused when they rank the
 * seeds of a spread that found no memory to begin: that is the quota's doing, too. */
Test(op_recall_quota, a_spread_has_no_room)
{
    enum { CUES = 15 };
    unsigned endings[ENDINGS] = {0};
    for (uint64_t pages = 0; !endings[WHOLE]; pages++) {
        cr_assert_lt(pages, 1000);
        endings[end_within(pages, CUES)]++;
    }
    for (int i = 0; i < ENDINGS; i++)
        cr_assert_gt(endings[i], 0, "no ending of kind %d", i);
}
