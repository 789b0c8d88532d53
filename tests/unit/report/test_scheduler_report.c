/* What stats say of the scheduler, over numbers that the test sets. */
#include "daemon/report/scheduler_report.h"

#include <string.h>

#include <criterion/criterion.h>

static struct scheduler scheduler;
static struct stats counted;
static struct wire_stats stats;
static struct cards_seen seen;

static void begin(void)
{
    memset(&scheduler, 0, sizeof scheduler);
    memset(&counted, 0, sizeof counted);
    memset(&stats, 0, sizeof stats);
    memset(&seen, 0, sizeof seen);
    cost_init(&scheduler.model, 2);
}

TestSuite(scheduler_report, .init = begin);

Test(scheduler_report, a_space_without_a_tenant)
{
    struct space space = {.number = 7};
    scheduler_report_space(&space, 107, &stats.space);
    cr_assert_eq(stats.space.host_bytes, 107);
    cr_assert(!stats.space.weight && !stats.space.queue_max && !stats.space.use[0].requests);
}

Test(scheduler_report, a_space_against_its_bounds)
{
    struct tenant tenant = {.quotas = {.host_bytes = 1,
                                       .vram_bytes = 2,
                                       .queue_max = 3,
                                       .connections_max = 4,
                                       .weight = 5},
                            .queued = 6,
                            .connections = 7,
                            .busy_ns = {8, 9},
                            .requests = {10, 11},
                            .batches = {12, 13},
                            .batched_requests = {14, 15},
                            .refused_queue = 16,
                            .refused_connections = 17};
    struct space space = {.number = 7, .tenant = &tenant};
    scheduler_report_space(&space, 107, &stats.space);
    const struct wire_space_stats *s = &stats.space;
    cr_assert(s->host_bytes == 107 && s->host_bytes_max == 1 && s->vram_bytes_max == 2);
    cr_assert(s->queue_max == 3 && s->connections_max == 4 && s->weight == 5);
    cr_assert(s->queue_depth == 6 && s->connections == 7);
    cr_assert(s->use[0].busy_ns == 8 && s->use[1].busy_ns == 9);
    cr_assert(s->use[0].requests == 10 && s->use[1].requests == 11);
    cr_assert(s->use[0].batches == 12 && s->use[1].batches == 13);
    cr_assert(s->use[0].batched_requests == 14 && s->use[1].batched_requests == 15);
    cr_assert(s->refused_queue == 16 && s->refused_connections == 17);
}

Test(scheduler_report, counters_and_success)
{
    scheduler.counters = (struct scheduler_counters){.decisions = 1,
                                                     .batches = 2,
                                                     .batched_requests = 3,
                                                     .shrunk_batches = 4,
                                                     .splits = 5,
                                                     .steals = 6,
                                                     .probes = 7,
                                                     .aged = 8,
                                                     .passes = 9};
    for (uint64_t i = 1; i <= 100; i++)
        histogram_add(&counted.decide, i);
    scheduler_report_counters(&scheduler, &counted, &stats.scheduler);
    const struct wire_scheduler_stats *s = &stats.scheduler;
    cr_assert(s->decisions == 1 && s->batches == 2 && s->batched_requests == 3);
    cr_assert(s->splits == 5 && s->steals == 6 && s->probes == 7 && s->aged == 8);
    cr_assert(s->passes == 9 && !s->calibrated);
    cr_assert(s->decide_p50_ns >= 50 && s->decide_p50_ns < 55);
    cr_assert(s->decide_p99_ns >= 99 && s->decide_max_ns == 100);
    cr_assert_eq(s->gpu_success_permille, 1000);
    for (int i = 0; i < 40; i++) {
        cost_outcome(&scheduler.model, BACKEND_GPU, OPERATION_KNN, i % 2);
        cost_outcome(&scheduler.model, BACKEND_CPU, OPERATION_SIMILARITY, false);
    }
    scheduler.model.calibrated = true;
    scheduler_report_counters(&scheduler, &counted, &stats.scheduler);
    double rate = cost_success_rate(&scheduler.model, BACKEND_GPU, OPERATION_KNN);
    cr_assert(rate >= 0.5 && rate < 0.8);
    cr_assert_eq(s->gpu_success_permille, (uint32_t)(1000 * rate + 0.5),
                 "of what GPUs fare worst with; the CPU is not one");
    cr_assert(s->calibrated);
}

Test(scheduler_report, pressure)
{
    scheduler.counters.shrunk_batches = 4;
    counted.routes[BACKEND_CPU][REASON_VRAM_PRESSURE] = 5;
    stats.gpu_count = 2;
    stats.gpus[0] = (struct wire_gpu_stats){.shrunk = 1, .split = 2, .evictions = 3};
    stats.gpus[1] = (struct wire_gpu_stats){.shrunk = 10, .split = 20, .evictions = 30};
    seen.cards[0].room = (struct cards_room){.ready = false, .low = true};
    scheduler_report_pressure(&scheduler, &counted, &seen, &stats);
    const struct wire_pressure *p = &stats.pressure;
    cr_assert(p->shrunk_batches == 4 && p->cpu == 5);
    cr_assert(p->shrunk_runs == 11 && p->split_runs == 22 && p->evictions == 33);
    cr_assert(!p->low, "one that does not serve has no VRAM to be short of");
    seen.cards[1].room = (struct cards_room){.ready = true, .low = true};
    scheduler_report_pressure(&scheduler, &counted, &seen, &stats);
    cr_assert(p->low);
}
