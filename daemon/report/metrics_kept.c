/* Snapshots and the journal, as Prometheus reads them. */
#include "daemon/report/metrics.h"

static void gauge(struct metrics_text *t, const char *name, uint64_t value, const char *help)
{
    metrics_text_family(t, name, "gauge", help);
    metrics_text_count(t, NULL, value);
}

static void counter(struct metrics_text *t, const char *name, uint64_t value, const char *help)
{
    metrics_text_family(t, name, "counter", help);
    metrics_text_count(t, NULL, value);
}

static void seconds(struct metrics_text *t, const char *name, uint64_t ns, const char *help)
{
    metrics_text_family(t, name, "gauge", help);
    metrics_text_seconds(t, NULL, ns);
}

static void render_snapshots(const struct wire_snapshots *s, struct metrics_text *t)
{
    metrics_text_family(t, "engram_accel_snapshots_total", "counter",
                        "Snapshots into persist.dir, by how they ended.");
    metrics_text_count(t, "result=\"done\"", s->done);
    metrics_text_count(t, "result=\"failed\"", s->failed);
    metrics_text_count(t, "result=\"given_up\"", s->given_up);
    gauge(t, "engram_accel_snapshot_failing", s->failing,
          "1: the last one failed, and the one before it is the newest.");
    gauge(t, "engram_accel_snapshot_number", s->number, "Of the newest; 0: there is none.");
    gauge(t, "engram_accel_snapshot_timestamp_seconds", s->saved_s,
          "When the newest began, in seconds since 1970; 0: there is none.");
    gauge(t, "engram_accel_snapshot_bytes", s->bytes, "Bytes of all objects in the newest.");
    seconds(t, "engram_accel_snapshot_duration_seconds", s->duration_ns,
            "Of the last that ended well.");
    counter(t, "engram_accel_snapshot_written_bytes_total", s->written_bytes,
            "Bytes written to snapshots, unchanged files, which are linked, left out.");
    seconds(t, "engram_accel_snapshot_lag_seconds", s->lag_ns,
            "Since when there may be something that the newest does not have.");
    seconds(t, "engram_accel_snapshot_every_seconds", s->every_ns, "persist.every_s.");
}

static void render_journal(const struct wire_journal *j, struct metrics_text *t)
{
    gauge(t, "engram_accel_journal_refusing", j->state != WIRE_JOURNAL_SOUND,
          "1: writes are refused, since the journal cannot be written.");
    counter(t, "engram_accel_journal_records_total", j->records, "Writes that the journal has.");
    counter(t, "engram_accel_journal_bytes_total", j->bytes, "Bytes written to the journal.");
    counter(t, "engram_accel_journal_syncs_total", j->syncs, "Syncs of the journal.");
    gauge(t, "engram_accel_journal_group_records", j->group_last,
          "Writes that the last sync was for.");
    gauge(t, "engram_accel_journal_files", j->files, "Files of the journal.");
    gauge(t, "engram_accel_journal_file_bytes", j->file_bytes,
          "Bytes of the journal since the last snapshot.");
    gauge(t, "engram_accel_journal_queued_bytes", j->queued_bytes,
          "Bytes on their way to the journal.");
    seconds(t, "engram_accel_journal_lag_seconds", j->lag_ns,
            "For how long the oldest write that is not synced has been done.");
}

void metrics_render_kept(const struct metrics_view *v, struct metrics_text *out)
{
    if (v->snapshots.kept) render_snapshots(&v->snapshots, out);
    if (v->journal.state != WIRE_JOURNAL_NONE) render_journal(&v->journal, out);
}
