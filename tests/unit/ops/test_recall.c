/* Recalls as jobs, against the slow reference: any cues, rules and spreads, however many workers;
 * what bad input gets. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/store/collection.h"
#include "tests/support/recall_job.h"
#include "tests/support/run_job.h"
#include "tests/support/sweep.h"

static void expect_right(struct recall_scene *b, const struct recall_asked *a)
{
    for (uint32_t workers = 1; workers <= 7; workers += 3) {
        struct job j = recall_job_of(b, a);
        j.worker_count = workers;
        cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
        j.ticket.work = operation_work(&j);
        cr_assert_eq(run_job(&j, workers), STATUS_OK, "%s", j.failure.text);
        struct recall_reply r = recall_job_reply(&j);
        const char *wrong = recall_reply_wrong(&a->c, &r);
        cr_assert_null(wrong, "%s (%u workers)", wrong, workers);
        cr_assert_eq(j.result.versions[0], resident_version(graph_resident(b->spread.graph)));
        cr_assert_eq(j.result.versions[2], resident_version(collection_resident(b->collection)));
        run_job_reset(&j);
    }
}

Test(op_recall, random_questions, .timeout = 900)
{
    for (uint64_t seed = 1; seed <= 8; seed += sweep_stride(4)) {
        static const uint32_t dimensions[] = {3, 5, 32, 8};
        struct recall_scene b = recall_job_open(20 + 60 * (uint32_t)seed, 300 * seed,
                                                dimensions[seed % 4], 30 + 50 * seed, seed);
        for (int i = 0; i < 70; i++) {
            struct recall_asked a;
            recall_job_ask_randomly(&b, &a);
            expect_right(&b, &a);
            recall_job_free(&a);
        }
        recall_job_close(&b);
    }
}
