/* What explain says of a model and of decisions that the test makes. */
#include "daemon/report/explain.h"

#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

static struct scheduler scheduler;
static struct wire_explain out;

static void begin(void)
{
    memset(&scheduler, 0, sizeof scheduler);
    memset(&out, 0xff, sizeof out);
    cost_init(&scheduler.model, 4);
    probes_init(&scheduler.probes, 0.02);
}

TestSuite(explain, .init = begin);

static const struct wire_operation_cost *cost_of(enum operation operation)
{
    for (uint32_t i = 0; i < out.cost_count; i++)
        if (out.costs[i].operation == operation) return &out.costs[i];
    cr_assert_fail("operation %d is not told", operation);
    return NULL;
}

Test(explain, settings_in_force)
{
    scheduler.settings = (struct scheduler_settings){.force = FORCE_GPU,
                                                     .speedup_min = 1.5,
                                                     .success_min = 0.95,
                                                     .pairs_min = 64,
                                                     .candidates_min = 1024,
                                                     .nodes_min = 512,
                                                     .window_ns = 1,
                                                     .quantum_ns = 2,
                                                     .age_ns = 3,
                                                     .batch_wait_ns = 4,
                                                     .batch_queries_max = 5,
                                                     .batch_requests_max = 6,
                                                     .split = true};
    explain_report(&scheduler, 1, 10, 1000, &out);
    const struct wire_scheduler_settings *s = &out.settings;
    cr_assert(s->force == BACKEND_GPU && s->split);
    cr_assert(s->speedup_percent == 150 && s->success_percent == 95 && s->probe_percent == 2);
    cr_assert(s->pairs_min == 64 && s->candidates_min == 1024 && s->nodes_min == 512);
    cr_assert(s->window_ns == 1 && s->quantum_ns == 2 && s->age_ns == 3);
    cr_assert(s->batch_wait_ns == 4 && s->batch_queries_max == 5 && s->batch_requests_max == 6);
    cr_assert(out.workers == 4 && !out.calibrated);
    cr_assert_eq(out.upload_ns, scheduler.model.upload_ns);
    cr_assert_eq(out.upload_byte_ns, scheduler.model.upload_ns_per_byte);
    scheduler.settings.force_split = true;
    explain_report(&scheduler, 1, 10, 1000, &out);
    cr_assert_eq(out.settings.force, BACKEND_BOTH);
    scheduler.settings.force_split = false;
    scheduler.settings.force = FORCE_CPU;
    scheduler.model.calibrated = true;
    explain_report(&scheduler, 1, 10, 1000, &out);
    cr_assert(out.settings.force == BACKEND_CPU && out.calibrated);
}

Test(explain, what_a_line_has_learnt)
{
    uint32_t at = cost_line_of(OPERATION_SIMILARITY);
    struct cost_line *l = &scheduler.model.lines[1][at];
    for (uint32_t i = 0; i < COST_FEATURES; i++)
        l->coefficients[i] = i + 1;
    l->drift = logf(1.5F);
    l->spread = 0.25F;
    l->seen = 70;
    for (int i = 0; i < 40; i++)
        cost_outcome(&scheduler.model, BACKEND_GPU, OPERATION_SIMILARITY, i % 4 != 0);
    scheduler.probes.lines[1][at].probes = 8;
    scheduler.probes.lines[1][at].surprising = 3;
    explain_report(&scheduler, 1, 0, 0, &out);
    const struct wire_operation_cost *o = cost_of(OPERATION_SIMILARITY);
    const struct wire_backend_cost *b = &o->backends[1];
    cr_assert(b->fixed_ns == 1 && b->row_byte_ns == 2 && b->product_ns == 3 && b->query_ns == 4);
    cr_assert(b->moved_byte_ns == 5 && b->pair_ns == 6 && b->handed_ns == 7);
    cr_assert_float_eq(b->drift, 1.5F, 1e-6F);
    cr_assert(b->spread == 0.25F && b->seen == 70 && b->outcomes == 40);
    double rate = cost_success_rate(&scheduler.model, BACKEND_GPU, OPERATION_SIMILARITY);
    cr_assert(rate >= 0.75 && rate < 1);
    cr_assert_eq(b->success_permille, (uint32_t)(1000 * rate + 0.5));
    cr_assert(b->probes == 8 && b->surprises == 3);
    cr_assert(b->confidence >= 0 && b->confidence <= 1);
    cr_assert(o->backends[0].seen == 0 && o->backends[0].success_permille == 1000);
    cr_assert_neq(cost_of(OPERATION_KNN)->backends[1].seen, 70, "others have their own");
}

/* With built-in figures more queries need fewer rows, and what is told agrees with predictions. */
Test(explain, crossovers)
{
    explain_report(&scheduler, 1, 0, 0, &out);
    cr_assert_eq(out.cost_count, 11);
    const struct wire_operation_cost *o = cost_of(OPERATION_KNN);
    static const uint32_t queries[] = {1, 8, 64, 512};
    cr_assert_eq(o->crossover_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct wire_crossover *x = &o->crossovers[i];
        cr_assert_eq(x->queries, queries[i]);
        cr_assert_gt(x->rows, 0);
        cr_assert_lt(x->gpu_ns, x->cpu_ns);
        if (i) cr_assert_leq(x->rows, o->crossovers[i - 1].rows);
    }
    cr_assert_eq(cost_of(OPERATION_WEIGHTED_AVERAGE)->crossover_count, 1);
    const struct wire_operation_cost *bind = cost_of(OPERATION_BIND);
    cr_assert_eq(bind->crossover_count, 1);
    cr_assert_gt(bind->crossovers[0].rows, 0, "the card begins to win at some number of pairs");
    cr_assert_lt(bind->crossovers[0].gpu_ns, bind->crossovers[0].cpu_ns);
    o = cost_of(OPERATION_COMPLETE);
    cr_assert_eq(o->crossover_count, 4);
    cr_assert_gt(o->crossovers[0].rows, 0);
    o = cost_of(OPERATION_COMPLETE_ENGINE);
    cr_assert_eq(o->crossover_count, 4);
    cr_assert_gt(o->crossovers[0].rows, 0);
    o = cost_of(OPERATION_COVARIANCE);
    cr_assert_eq(o->crossover_count, 1);
    cr_assert_gt(o->crossovers[0].rows, 0);
    cr_assert_lt(o->crossovers[0].gpu_ns, o->crossovers[0].cpu_ns);
    o = cost_of(OPERATION_SPREAD_ENGRAM);
    cr_assert_eq(o->crossover_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_gt(o->crossovers[i].rows, 0);
        cr_assert_lt(o->crossovers[i].gpu_ns, o->crossovers[i].cpu_ns);
    }
    cr_assert_eq(cost_of(OPERATION_SCORE_CANDIDATES)->crossover_count, 4);

    struct cost_line *l = &scheduler.model.lines[1][cost_line_of(OPERATION_KNN)];
    for (uint32_t i = 0; i < COST_FEATURES; i++) /* a GPU that is slower at everything */
        l->coefficients[i] = 2 * scheduler.model.lines[0][0].coefficients[i];
    explain_report(&scheduler, 1, 0, 0, &out);
    o = cost_of(OPERATION_KNN);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(o->crossovers[i].rows, 0);
        cr_assert_gt(o->crossovers[i].gpu_ns, o->crossovers[i].cpu_ns);
    }
    cr_assert_gt(cost_of(OPERATION_SIMILARITY)->crossovers[0].rows, 0);
}

static void decide(uint32_t space, uint64_t ended_ns)
{
    const struct decision d = {.space = space,
                               .server = SERVER_GPU + 1,
                               .reason = REASON_PROBE,
                               .members = 3,
                               .work = {.operation = OPERATION_KNN_BATCH,
                                        .stride = 768,
                                        .rows = 1000,
                                        .screen = {[1] = {1, 0}},
                                        .queries = ended_ns},
                               .cpu_ns = 10,
                               .gpu_ns = 11,
                               .wait_ns = 12,
                               .took_ns = 13,
                               .ended_ns = ended_ns,
                               .well = true};
    decisions_add(&scheduler.decisions, &d);
}

/* Another space's decisions are nobody's business, however many are asked for. */
Test(explain, decisions_of_one_space)
{
    for (uint64_t i = 1; i <= 200; i++)
        decide(i % 2 ? 1 : 2, i);
    explain_report(&scheduler, 1, 5, 150, &out);
    cr_assert_eq(out.decisions_total, 200);
    cr_assert_eq(out.decision_count, 5);
    for (uint32_t i = 0; i < 5; i++)
        cr_assert_eq(out.decisions[i].work.queries, 199 - 2 * i, "the newest first, odd ones only");
    const struct wire_decision *d = &out.decisions[0];
    cr_assert_eq(d->ago_ns, 0, "it ended later than now: another thread's clock");
    cr_assert_eq(d->work.operation, OPERATION_KNN, "how it ran is not a kind of request");
    cr_assert(d->server == SERVER_GPU + 1 && d->reason == REASON_PROBE && d->members == 3);
    cr_assert(d->cpu_ns == 10 && d->gpu_ns == 11 && d->wait_ns == 12 && d->took_ns == 13);
    cr_assert(d->well);
    cr_assert_eq(d->cpu_row_bytes, 3072000, "all rows");
    cr_assert(d->gpu_row_bytes > 768000 && d->gpu_row_bytes < 790000, "their codes");
    explain_report(&scheduler, 1, 5, 1199, &out);
    cr_assert_eq(out.decisions[0].ago_ns, 1000);
    explain_report(&scheduler, 1, 1000, 150, &out);
    cr_assert_eq(out.decision_count, WIRE_DECISIONS_MAX);
    explain_report(&scheduler, 1, 0, 150, &out);
    cr_assert_eq(out.decision_count, 0);
    explain_report(&scheduler, 3, 64, 150, &out);
    cr_assert_eq(out.decision_count, 0);
}
