#include "daemon/report/stats.h"

#include <string.h>

void stats_init(struct stats *s)
{
    memset(s, 0, sizeof *s);
}

void stats_add(struct stats *s, enum operation operation, uint64_t total_ns, enum status code)
{
    if (code == STATUS_CANCELLED) s->cancelled_total++;
    if (code == STATUS_DEADLINE_EXCEEDED) s->deadline_exceeded_total++;
    if ((unsigned)operation >= OPERATION_MAX) return;
    struct operation_stats *o = &s->operations[operation];
    o->requests++;
    if (code) o->errors++;
    o->total_ns += total_ns;
    histogram_add(&o->latency, total_ns);
}

void stats_decided(struct stats *s, uint64_t ns)
{
    histogram_add(&s->decide, ns);
}

void stats_route(struct stats *s, enum backend_id backend, enum reason reason)
{
    s->routes[backend & 3][(unsigned)reason < REASON_MAX ? reason : REASON_NONE]++;
}
