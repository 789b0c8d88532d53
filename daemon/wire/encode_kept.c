/* What Stats says of snapshots and of the journal. */
#include "daemon/wire/encode_inside.h"

void encode_kept(const struct wire_stats *s, engram_accel_v1_StatsReply *m)
{
    const struct wire_journal *j = &s->journal;
    const struct wire_snapshots *k = &s->snapshots;
    if (!k->kept) return;
    m->has_journal = m->has_snapshots = true;
    m->journal = (engram_accel_v1_JournalStats){
        .mode = (engram_accel_v1_JournalMode)j->mode,
        .state = (engram_accel_v1_JournalState)j->state,
        .files = j->files,
        .file_bytes = j->file_bytes,
        .records = j->records,
        .bytes = j->bytes,
        .syncs = j->syncs,
        .group_records = j->group_last,
        .queued_bytes = j->queued_bytes,
        .lag_ns = j->lag_ns,
    };
    COPY_TEXT(m->journal.why, j->why);
    m->snapshots = (engram_accel_v1_SnapshotStats){
        .number = k->number,
        .age_ns = k->age_ns,
        .bytes = k->bytes,
        .duration_ns = k->duration_ns,
        .done = k->done,
        .failed = k->failed,
        .given_up = k->given_up,
        .written_bytes = k->written_bytes,
        .lag_ns = k->lag_ns,
        .every_ns = k->every_ns,
        .failing = k->failing,
    };
    COPY_TEXT(m->snapshots.error, k->error);
}
