#include "daemon/sched/forecast.h"

#include "daemon/sched/fair.h"
#include "daemon/sched/work.h"

enum {
    ADDED_PART_MIN = 64, /* a joining ticket adds at least this part of what it takes alone */
    /* both halves of a split are multiples of it: kernels take this many queries at once */
    SPLIT_QUERIES = 4,
    SPLIT_GAIN_PERCENT = 115,
    SPLIT_STEPS = 2,
};

struct prediction forecast_work(const struct scheduler *s, uint32_t server, const struct work *w)
{
    return cost_time(&s->model, forecast_backend(server), w);
}

/* How long the work in flight has had the server, but at most the charge of the oldest dispatch:
 * only that one may be late. */
static uint64_t elapsed_ns(const struct server *sv, uint64_t most_ns, uint64_t now_ns)
{
    uint64_t since = sv->started_ns > sv->finished_ns ? sv->started_ns : sv->finished_ns;
    uint64_t elapsed = now_ns > since ? now_ns - since : 0;
    return elapsed < most_ns ? elapsed : most_ns;
}

uint64_t forecast_backlog_ns(const struct server *sv, uint64_t now_ns)
{
    if (!sv->oldest) return 0;
    return sv->charged_ns - elapsed_ns(sv, sv->oldest->charge_ns, now_ns);
}

uint64_t forecast_window_ns(const struct server *sv, uint64_t now_ns)
{
    if (!sv->oldest) return 0;
    return sv->window_ns - elapsed_ns(sv, sv->oldest->window_ns, now_ns);
}

/* Only the oldest has had the server, but a run that lets others in between does so again and
 * again. */
static uint64_t passes_ns(const struct server *sv, uint64_t now_ns)
{
    const struct ticket *oldest = sv->oldest;
    uint64_t left_ns = oldest->charge_ns - elapsed_ns(sv, oldest->charge_ns, now_ns);
    if (left_ns > oldest->ahead_ns) left_ns = oldest->ahead_ns;
    return sv->ahead_ns - oldest->ahead_ns + left_ns;
}

uint64_t forecast_ahead_ns(const struct scheduler *s, const struct server *sv, uint64_t now_ns)
{
    if (!sv->oldest) return 0;
    bool goes_beside =
        sv->in_flight < IN_FLIGHT_MIN || forecast_window_ns(sv, now_ns) < s->settings.window_ns;
    return goes_beside ? passes_ns(sv, now_ns) : forecast_backlog_ns(sv, now_ns);
}

uint64_t forecast_wait_ns(const struct scheduler *s, const struct ticket *t, uint32_t server,
                          uint64_t own_ns, uint64_t charge_ns, uint64_t now_ns)
{
    const struct server *sv = &s->servers[server];
    return forecast_ahead_ns(s, sv, now_ns) +
           fair_ahead_ns(sv, &t->tenancy->flows[server], own_ns, charge_ns);
}

uint64_t forecast_added_ns(const struct scheduler *s, const struct ticket *t, uint32_t server,
                           uint64_t busy_ns)
{
    if (!ticket_joins(t, server) || !t->work.queries) return busy_ns;
    struct ticket like = {.batch_key = t->batch_key, .tenancy = t->tenancy, .server = server};
    uint64_t waiting = batch_groups_queries(&s->waiting, &like);
    uint64_t most = s->settings.batch_queries_max;
    if (most) waiting %= most; /* those before fill batches of their own */
    if (!waiting || waiting + t->work.queries > most) return busy_ns;
    struct work before = work_part(&t->work, waiting), with = before;
    work_merge(&with, &t->work);
    uint64_t without_ns = forecast_work(s, server, &before).busy_ns;
    uint64_t with_ns = forecast_work(s, server, &with).busy_ns;
    uint64_t added = with_ns > without_ns ? with_ns - without_ns : 0;
    if (added < busy_ns / ADDED_PART_MIN) added = busy_ns / ADDED_PART_MIN;
    return added < busy_ns ? added : busy_ns;
}

uint64_t forecast_split(const struct scheduler *s, const struct ticket *t)
{
    const struct work *w = &t->work;
    double cpu_ns = (double)t->cpu_ns, gpu_ns = (double)t->gpu_ns;
    double alone = cpu_ns < gpu_ns ? cpu_ns : gpu_ns, best = alone;
    double cpu_rate = 1 / cpu_ns, gpu_rate = 1 / gpu_ns; /* wholes per nanosecond */
    uint64_t chosen = 0;
    for (int step = 0; step < SPLIT_STEPS; step++) {
        double part = gpu_rate / (gpu_rate + cpu_rate);
        uint64_t queries = (uint64_t)(part * (double)w->queries) / SPLIT_QUERIES * SPLIT_QUERIES;
        if (!queries || queries >= w->queries) break;
        struct work first = work_part(w, queries), rest = work_part(w, w->queries - queries);
        double on_gpu = (double)(forecast_work(s, SERVER_GPU, &first).ns + t->upload_ns);
        double on_cpu = (double)forecast_work(s, SERVER_CPU, &rest).ns;
        double took = on_gpu > on_cpu ? on_gpu : on_cpu;
        if (took < best) {
            best = took;
            chosen = queries;
        }
        gpu_rate = (double)first.queries / on_gpu;
        cpu_rate = (double)rest.queries / on_cpu;
    }
    return alone * 100 > best * SPLIT_GAIN_PERCENT ? chosen : 0;
}
