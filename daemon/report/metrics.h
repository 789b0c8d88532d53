/* metrics: what Prometheus is told. The loop copies the counters (metrics_look), and whoever serves
 * them makes text of the copy (metrics_render), so that the loop is not kept by it.
 * Owner:  whoever asks has the copy.
 * Thread: metrics_look: the loop. metrics_render: any.
 * Errors: metrics_render: false, no memory. */
#ifndef ENGRAM_REPORT_METRICS_H
#define ENGRAM_REPORT_METRICS_H

#include <stddef.h>

#include "daemon/report/cards_report.h"
#include "daemon/report/metrics_text.h"
#include "daemon/report/sources.h"
#include "daemon/report/space_counts.h"

enum { METRICS_SPACES_MAX = SPACES_COUNTED_MAX, METRICS_TIMED_MAX = 256 };

struct metrics_space {
    struct space_counts counts;
    uint64_t host_bytes, vram_bytes, queue_depth, connections;
};

struct metrics_timed {
    enum operation operation;
    enum backend_id backend;
    struct durations took;
};

struct metrics_card {
    struct wire_gpu_stats now;
    struct card_totals totals;
    uint64_t memory_bytes; /* of the card; 0: it was never ready */
};

struct metrics_view {
    uint64_t looked_ns, uptime_ns, frames, error_replies, cancelled, deadline_exceeded, slow;
    struct {
        uint64_t requests, errors;
    } operations[OPERATION_MAX];
    struct duration_bounds bounds;
    struct durations decided;
    uint64_t routes[4][REASON_MAX];
    uint32_t timed_count, space_count, card_count;
    struct metrics_timed timed[METRICS_TIMED_MAX]; /* combinations that occurred */
    struct metrics_card cards[WIRE_GPUS_MAX];
    struct net_counters net;
    struct heap_usage heap;
    struct wire_scheduler_stats scheduler;
    struct wire_pressure pressure;
    uint64_t queue_depth, jobs_in_flight;
    uint32_t workers;
    bool observed;
    uint64_t shadow_bytes, reloads, reloads_refused;
    struct wire_journal journal;     /* without its text, */
    struct wire_snapshots snapshots; /* as these: it is another thread that renders */
    struct screen_counts screens[SCREENS];
    struct metrics_space spaces[METRICS_SPACES_MAX + 1]; /* [0]: the others */
};

/* As labels say them. */
const char *metrics_backend_name(enum backend_id backend);
const char *metrics_reason_name(enum reason reason);

void metrics_look(const struct report_sources *from, const struct spaces_counted *spaces,
                  const struct store *store, struct metrics_view *out);
bool metrics_render(const struct metrics_view *v, struct metrics_text *out);
/* Appends what NVML says of the cards: families with a card that has it. */
void metrics_render_sensors(const struct metrics_view *v, struct metrics_text *out);
/* Appends pools of memory, rows in int8, reloads, lines of the log that were lost. */
void metrics_render_memory(const struct metrics_view *v, struct metrics_text *out);
/* Appends what is on the disk: snapshots and the journal. */
void metrics_render_kept(const struct metrics_view *v, struct metrics_text *out);
/* Appends what the system says of this process. */
void metrics_render_process(struct metrics_text *out);

#endif
