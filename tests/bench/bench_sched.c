/* bench_sched: what a decision costs the loop: into line, out of it, and learning from the end,
 * with so many tenants that all have something in line. */
#include <string.h>

#include "daemon/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/support/sched_scene.h"

enum { DEPTH = 32, MEASURED = 1000000 };

static const char keys[SCENE_TENANTS];

/* Runs as many as were measured through; *next_ns and *finish_ns of a dispatch. */
struct times {
    double *decide, *finish; /* ns; decide: enqueue and next of one request */
    size_t decided, finished;
};

static void enqueue(struct sched_scene *c, struct ticket *t, bool batches)
{
    uint32_t tenant = (uint32_t)(t - c->tickets) % SCENE_TENANTS;
    t->batch_key = batches ? &keys[tenant] : NULL;
    t->arrived_ns = c->now_ns;
    sched_scene_enqueue(c, t);
}

static void run(uint32_t tenants, bool batches, struct times *times)
{
    struct sched_scene c = sched_scene_open(true);
    sched_scene_costs(c.s, BACKEND_CPU, (struct scene_cost){2e3, 0, 1});
    sched_scene_costs(c.s, BACKEND_GPU, (struct scene_cost){30e3, 50, 0.01});
    c.s->probes.share = 0.02;
    struct ticket *idle[SCENE_TICKETS], *flying[64];
    uint32_t idle_count = 0, flying_count = 0;
    for (uint32_t i = 0; i < tenants * DEPTH; i++)
        enqueue(&c, sched_scene_ticket(&c, i % tenants, 1 + i * 7 % 100), batches);
    double clock = (double)clock_now_ns();
    for (int i = 0; i < 1000; i++)
        clock_now_ns();
    clock = ((double)clock_now_ns() - clock) / 1001;
    while (times->decided < MEASURED) {
        c.now_ns += 3000;
        if (idle_count) {
            struct ticket *t = idle[--idle_count];
            double from = (double)clock_now_ns();
            enqueue(&c, t, batches);
            struct ticket *first = sched_scene_next(&c);
            times->decide[times->decided++] = (double)clock_now_ns() - from - clock;
            if (first) flying[flying_count++] = first;
        } else {
            struct ticket *first = sched_scene_next(&c);
            if (first) flying[flying_count++] = first;
        }
        if (flying_count < 12 && idle_count) continue;
        if (!flying_count) continue;
        struct ticket *first = flying[0];
        memmove(flying, flying + 1, --flying_count * sizeof *flying);
        double from = (double)clock_now_ns();
        sched_scene_finish(&c, first);
        if (times->finished < MEASURED)
            times->finish[times->finished++] = (double)clock_now_ns() - from - clock;
        for (struct ticket *t = first; t; t = t->next)
            idle[idle_count++] = t;
    }
    free(c.tickets);
    free(c.s);
}

int main(int argc, char **argv)
{
    struct times times = {.decide = malloc(MEASURED * sizeof(double)),
                          .finish = malloc(MEASURED * sizeof(double))};
    if (!times.decide || !times.finish) bench_fail("sched", "no memory");
    printf("\nthe scheduler, ns a request (enqueue and next; finish of a dispatch)\n");
    bool met = true;
    for (uint32_t tenants = 1; tenants <= SCENE_TENANTS; tenants *= 2) {
        if (tenants != 1 && tenants < 16) continue;
        for (int batches = 0; batches < 2; batches++) {
            times.decided = times.finished = 0;
            run(tenants, batches, &times);
            double p50 = bench_percentile(times.decide, times.decided, 50);
            double p99 = bench_percentile(times.decide, times.decided, 99);
            printf(
                "  %2u tenants, %-10s decide p50 %5.0f p99 %5.0f   finish p50 %5.0f p99 %5.0f%s\n",
                tenants, batches ? "batches" : "no batches", p50, p99,
                bench_percentile(times.finish, times.finished, 50),
                bench_percentile(times.finish, times.finished, 99),
                tenants != 16 ? ""
                : p99 <= 1000 ? "   <= 1000 ok"
                              : "   <= 1000 MISSED");
            met &= tenants != 16 || p99 <= 1000;
        }
    }
    free(times.decide);
    free(times.finish);
    return met ? 0 : 1;
}
