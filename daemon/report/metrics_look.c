#include <string.h>

#include "daemon/report/metrics.h"
#include "daemon/report/scheduler_report.h"
#include "daemon/sched/tenant.h"

static void look_at_stats(const struct stats *s, struct metrics_view *out)
{
    out->frames = s->requests_total;
    out->error_replies = s->errors_total;
    out->cancelled = s->cancelled_total;
    out->deadline_exceeded = s->deadline_exceeded_total;
    out->bounds = s->bounds;
    out->decided = s->decided;
    memcpy(out->routes, s->routes, sizeof out->routes);
    for (int i = 0; i < OPERATION_MAX; i++) {
        out->operations[i].requests = s->operations[i].requests;
        out->operations[i].errors = s->operations[i].errors;
        if (!s->operations[i].latency.count) continue;
        for (int b = BACKEND_NONE; b <= BACKEND_BOTH; b++) {
            const struct durations *d = &s->durations[i][b];
            uint64_t any = 0;
            for (uint32_t n = 0; n <= s->bounds.count; n++)
                any |= d->buckets[n];
            if (any && out->timed_count < METRICS_TIMED_MAX)
                out->timed[out->timed_count++] = (struct metrics_timed){i, b, *d};
        }
    }
}

static void look_at_cards(const struct report_sources *from, struct metrics_view *out)
{
    struct cards_seen seen;
    struct wire_stats said = {0};
    cards_look(from->gpu, &seen);
    cards_report_stats(&seen, from->in_flight, from->now_ns, &said);
    scheduler_report_pressure(from->scheduler, from->stats, &seen, &said);
    out->pressure = said.pressure;
    out->pressure.shrunk_runs = out->pressure.split_runs = out->pressure.evictions = 0;
    out->card_count = seen.count;
    for (uint32_t i = 0; i < seen.count; i++) {
        struct metrics_card *card = &out->cards[i];
        card->now = said.gpus[i];
        card->totals = seen.cards[i].totals;
        if (seen.cards[i].share) card->memory_bytes = seen.cards[i].share->device.memory_bytes;
        out->pressure.shrunk_runs += card_totals_of(&card->totals, TOTAL_SHRUNK);
        out->pressure.split_runs += card_totals_of(&card->totals, TOTAL_SPLIT);
        out->pressure.evictions += card_totals_of(&card->totals, TOTAL_EVICTIONS);
    }
}

static uint64_t rest_of(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

/* One walk over all replicas, whatever the number of spaces. What is being given back after a drop
 * is nobody's, and so the others'. */
static void add_replica(void *spaces, const struct space *s, uint32_t card, uint64_t bytes,
                        uint64_t needed)
{
    (void)card, (void)needed;
    if (s && s->counted_as) ((struct metrics_space *)spaces)[s->counted_as].vram_bytes += bytes;
}

/* What the spaces with a place do not have, the others have together. */
static void look_at_spaces(const struct report_sources *from, const struct spaces_counted *counted,
                           const struct store *store, struct metrics_view *out)
{
    struct metrics_space listed = {0};
    out->space_count = counted->count;
    for (uint32_t i = 0; i < counted->count; i++)
        out->spaces[i].counts = counted->rows[i];
    struct space *s = store_space_next(store, NULL);
    for (; s; s = store_space_next(store, s)) {
        if (!s->counted_as) continue;
        struct metrics_space *m = &out->spaces[s->counted_as];
        m->host_bytes = heap_owner_bytes(from->heap, s->number);
        if (s->tenant) m->queue_depth = s->tenant->queued;
        if (s->tenant) m->connections = s->tenant->connections;
        listed.host_bytes += m->host_bytes;
        listed.queue_depth += m->queue_depth;
        listed.connections += m->connections;
    }
    uint64_t vram_bytes = 0;
    if (from->gpu) replicas_count(from->gpu, add_replica, out->spaces);
    for (uint32_t i = 1; i < counted->count; i++)
        listed.vram_bytes += out->spaces[i].vram_bytes;
    for (uint32_t i = 0; i < out->card_count; i++)
        vram_bytes += out->cards[i].now.replica_bytes;
    out->spaces[0].host_bytes = rest_of(out->heap.bytes_used, listed.host_bytes);
    out->spaces[0].vram_bytes = rest_of(vram_bytes, listed.vram_bytes);
    out->spaces[0].queue_depth = rest_of(from->queue_depth, listed.queue_depth);
    out->spaces[0].connections = rest_of(from->net->open, listed.connections);
}

void metrics_look(const struct report_sources *from, const struct spaces_counted *spaces,
                  const struct store *store, struct metrics_view *out)
{
    memset(out, 0, offsetof(struct metrics_view, spaces));
    memset(out->spaces, 0, spaces->count * sizeof *out->spaces);
    out->looked_ns = from->now_ns;
    out->uptime_ns = from->now_ns - from->started_ns;
    out->net = *from->net;
    out->heap = heap_usage(from->heap);
    out->queue_depth = from->queue_depth;
    out->jobs_in_flight = from->jobs_in_flight;
    out->workers = from->workers;
    out->observed = from->observed;
    out->slow = from->slow;
    out->reloads = from->reloads ? from->reloads->taken : 0;
    out->journal = from->journal;
    out->snapshots = from->snapshots;
    out->journal.why = out->snapshots.error = NULL;
    out->reloads_refused = from->reloads ? from->reloads->refused : 0;
    out->shadow_bytes = shadows_bytes(store_shadows(store));
    for (int where = 0; where < SCREENS; where++)
        out->screens[where] = shadows_screens(store_shadows(store), where);
    look_at_stats(from->stats, out);
    scheduler_report_counters(from->scheduler, from->stats, &out->scheduler);
    look_at_cards(from, out);
    look_at_spaces(from, spaces, store, out);
}
