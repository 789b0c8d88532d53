#include "daemon/report/stats.h"

#include <string.h>

void stats_init(struct stats *s, const char *buckets)
{
    memset(s, 0, sizeof *s);
    durations_parse(buckets[0] ? buckets : STATS_BUCKETS_US, &s->bounds);
}

void stats_add(struct stats *s, enum operation operation, enum backend_id backend,
               uint64_t total_ns, enum status code)
{
    if (code == STATUS_CANCELLED) s->cancelled_total++;
    if (code == STATUS_DEADLINE_EXCEEDED) s->deadline_exceeded_total++;
    if ((unsigned)operation >= OPERATION_MAX) return;
    struct operation_stats *o = &s->operations[operation];
    o->requests++;
    if (code) o->errors++;
    o->total_ns += total_ns;
    histogram_add(&o->latency, total_ns);
    durations_add(&s->durations[operation][backend & 3], &s->bounds, total_ns);
}

void stats_decided(struct stats *s, uint64_t ns)
{
    histogram_add(&s->decide, ns);
    durations_add(&s->decided, &s->bounds, ns);
}

void stats_route(struct stats *s, enum backend_id backend, enum reason reason)
{
    s->routes[backend & 3][(unsigned)reason < REASON_MAX ? reason : REASON_NONE]++;
}
