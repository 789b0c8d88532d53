/* The pools of memory, rows in int8, and what the daemon says of itself, as Prometheus reads it. */
#include <stdio.h>

#include "daemon/base/log_queue.h"
#include "daemon/report/metrics.h"

enum { LABEL_BYTES = 64 };

/* Which part of what is free cannot be had as one block, in billionths. */
static uint64_t fragmentation_of(uint64_t largest, uint64_t unused)
{
    if (!unused || largest >= unused) return 0;
    return (uint64_t)((1.0 - (double)largest / (double)unused) * 1e9);
}

static void gauge(struct metrics_text *t, const char *name, uint64_t value, const char *help)
{
    metrics_text_family(t, name, "gauge", help);
    metrics_text_count(t, NULL, value);
}

static void render_heap(const struct metrics_view *v, struct metrics_text *t)
{
    const struct heap_usage *u = &v->heap;
    gauge(t, "engram_accel_memory_asked_bytes", u->bytes_asked,
          "Of what is used: as it was asked for.");
    gauge(t, "engram_accel_memory_free_bytes", u->bytes_free,
          "Of the bound: not used, what is kept for reuse included.");
    gauge(t, "engram_accel_memory_largest_free_bytes", u->bytes_largest,
          "The largest block that could be had.");
    metrics_text_family(t, "engram_accel_memory_fragmentation_ratio", "gauge",
                        "Which part of what is free cannot be had as one block.");
    metrics_text_seconds(t, NULL, fragmentation_of(u->bytes_largest, u->bytes_free));
}

static uint64_t free_of(const struct wire_gpu_stats *g)
{
    return g->slab_bytes > g->request_bytes ? g->slab_bytes - g->request_bytes : 0;
}

static void render_slabs(const struct metrics_view *v, struct metrics_text *t)
{
    char labels[LABEL_BYTES];
    if (!v->card_count) return;
    metrics_text_family(t, "engram_accel_gpu_request_asked_bytes", "gauge",
                        "Of the VRAM handed out to requests: as it was asked for.");
    for (uint32_t i = 0; i < v->card_count; i++) {
        snprintf(labels, sizeof labels, "gpu=\"%u\"", i);
        metrics_text_count(t, labels, v->cards[i].now.asked_bytes);
    }
    metrics_text_family(t, "engram_accel_gpu_slab_largest_free_bytes", "gauge",
                        "The largest block that a request could get.");
    for (uint32_t i = 0; i < v->card_count; i++) {
        snprintf(labels, sizeof labels, "gpu=\"%u\"", i);
        metrics_text_count(t, labels, v->cards[i].now.largest_bytes);
    }
    metrics_text_family(t, "engram_accel_gpu_slab_fragmentation_ratio", "gauge",
                        "Which part of what is free for requests cannot be had as one block.");
    for (uint32_t i = 0; i < v->card_count; i++) {
        const struct wire_gpu_stats *g = &v->cards[i].now;
        snprintf(labels, sizeof labels, "gpu=\"%u\"", i);
        metrics_text_seconds(t, labels, fragmentation_of(g->largest_bytes, free_of(g)));
    }
}

static void render_screens(const struct metrics_view *v, struct metrics_text *t)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } series[] = {
        {"engram_accel_screen_searches_total", "Searches that asked rows in int8.",
         offsetof(struct screen_counts, searches)},
        {"engram_accel_screen_pairs_total",
         "Pairs of a query and a row that they compared in int8.",
         offsetof(struct screen_counts, screened)},
        {"engram_accel_screen_survivors_total", "Pairs of them that were scored exactly.",
         offsetof(struct screen_counts, survived)},
        {"engram_accel_screen_useless_total", "Searches that too many pairs survived.",
         offsetof(struct screen_counts, useless)},
        {"engram_accel_screen_rested_total", "Searches that did without for that reason.",
         offsetof(struct screen_counts, rested)},
    };
    gauge(t, "engram_accel_shadow_bytes", v->shadow_bytes, "Rows in int8, in the host.");
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        metrics_text_family(t, series[i].name, "counter", series[i].help);
        for (int where = 0; where < SCREENS; where++)
            metrics_text_count(
                t, where == SCREENS_GPU ? "backend=\"gpu\"" : "backend=\"cpu\"",
                *(const uint64_t *)((const char *)&v->screens[where] + series[i].offset));
    }
}

void metrics_render_memory(const struct metrics_view *v, struct metrics_text *out)
{
    render_heap(v, out);
    render_slabs(v, out);
    render_screens(v, out);
    metrics_text_family(out, "engram_accel_config_reloads_total", "counter",
                        "Times that the settings' file was read again.");
    metrics_text_count(out, "result=\"taken\"", v->reloads);
    metrics_text_count(out, "result=\"refused\"", v->reloads_refused);
    metrics_text_family(out, "engram_accel_log_lines_lost_total", "counter",
                        "Lines of the log that nobody could take.");
    metrics_text_count(out, NULL, log_queue_lost());
}
