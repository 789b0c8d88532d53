/* Which recalls run together on a card: those alone that ask the same in every respect, and no more
 * of them than one run may have. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/exec/batch.h"
#include "daemon/ops/recall_inside.h"
#include "tests/support/recall_job.h"
#include "tests/support/run_job.h"

enum { MEMBERS = 40 };

static struct recall_scene b;
static struct recall_asked asked;
static struct job carrier, members[MEMBERS];

static void begin(void)
{
    b = recall_job_open(300, 3000, 8, 200, 5);
    recall_job_ask(&b, &asked);
}

static void end(void)
{
    recall_job_free(&asked);
    recall_job_close(&b);
}

TestSuite(op_recall_batch, .init = begin, .fini = end);

static struct job one(void)
{
    struct job j = recall_job_of(&b, &asked);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    return j;
}

/* A carrier of the first `count` members. */
static void gather(uint32_t count)
{
    carrier = one();
    carrier.operation = OPERATION_RECALL_BATCH;
    carrier.ops = operation_find(OPERATION_RECALL_BATCH);
    for (uint32_t i = 0; i < count; i++)
        batch_add(&carrier, i ? &members[i - 1] : NULL, &members[i]);
}

static void scatter(void)
{
    enum batch_end ended;
    while (batch_take(&carrier, &ended))
        ;
    operation_drop_all(&carrier);
}

/* ---------------------------------------------------------------- the key */

static void change(struct job *j, uint32_t what)
{
    struct job_recall *r = &j->request.recall;
    struct job_spread *s = &j->request.spread;
    switch (what) {
    case 0: r->results++; break;
    case 1: r->width += 0.25F; break;
    case 2: r->activation_min += 0.125F; break;
    case 3: r->boost += 0.125F; break;
    case 4: r->ignore_embeddings = !r->ignore_embeddings; break;
    case 5: j->request.k++; break;
    case 6: j->request.threshold += 0.125F; break;
    case 7: s->mode = SPREAD_LINEAR; break;
    case 8: s->hops++; break;
    case 9: s->fan = SPREAD_FAN_SQRT; break;
    case 10: s->decay = DECAY_POWER; break;
    case 11: s->decay_parameter += 0.125F; break;
    case 12: s->thresholds[0] += 0.125F; break;
    case 13: s->thresholds[1] += 0.125F; break;
    case 14: s->thresholds[2] += 0.125F; break;
    case 15: s->touched_max--; break;
    case 16: s->paths = !s->paths; break;
    case 17: s->ignore_kinds = !s->ignore_kinds; break;
    case 18: s->last_hop = !s->last_hop; break;
    case 19: s->embeddings_at++; break;
    case 20: j->spread_us_max++; break;
    case 21: j->objects[0].graph = NULL; break;
    case 22: j->objects[2].collection = NULL; break;
    }
}
enum { CHANGES = 23 };

Test(op_recall_batch, the_key_tells_all_that_is_asked)
{
    struct job base = one(), same = one();
    float others[8] = {1, 2, 3};
    same.request.queries.data = others; /* cues are each member's own */
    cr_assert_eq(recall_batch_key(&same), recall_batch_key(&base));
    for (uint32_t what = 0; what < CHANGES; what++) {
        struct job j = one();
        change(&j, what);
        cr_assert_neq(recall_batch_key(&j), recall_batch_key(&base), "change %u", what);
    }
}

/* Keys are hashes, so who is not alike may come all the same. */
Test(op_recall_batch, who_is_not_alike_is_left_out)
{
    for (uint32_t what = 0; what < 21; what++) {
        for (uint32_t i = 0; i < 3; i++)
            members[i] = one();
        change(&members[1], what);
        gather(3);
        cr_assert_eq(carrier.ops->gpu_plan(&carrier), STATUS_OK, "%s", carrier.failure.text);
        cr_assert_eq(carrier.request.queries.rows, 2, "change %u", what);
        cr_assert_eq(members[1].gpu.gave_up, REASON_CHOSEN_FASTER, "change %u", what);
        cr_assert(!members[0].gpu.gave_up && !members[2].gpu.gave_up);
        scatter();
    }
}

/* ---------------------------------------------------------------- how many */

/* Too many to run as one are refused as one: each then runs by itself, on the card. */
Test(op_recall_batch, more_than_one_run_may_have)
{
    for (uint32_t count = 30; count <= MEMBERS; count += MEMBERS - 30) {
        for (uint32_t i = 0; i < count; i++) {
            asked.c.cue_count = 8; /* each a list */
            asked.c.results = 1024;
            members[i] = one();
            cr_assert(operation_batches(&members[i]));
        }
        gather(count);
        enum status st = carrier.ops->gpu_plan(&carrier);
        cr_assert_not(carrier.gpu.unfit);
        if (count == 30) {
            cr_assert_eq(st, STATUS_OK, "%s", carrier.failure.text);
            cr_assert_eq(carrier.request.offsets.rows, 8 * count + 1);
        } else {
            cr_assert_eq(st, STATUS_RESOURCE_EXHAUSTED);
            cr_assert_eq(carrier.failure.detail, DETAIL_MEMORY);
        }
        for (uint32_t i = 0; i < count; i++)
            cr_assert(!members[i].gpu.gave_up, "the CPU would run member %u", i);
        scatter();
    }
}
