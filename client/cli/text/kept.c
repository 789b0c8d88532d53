#include "client/cli/text/kept.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/cli/text/format.h"

static const char *mode_name(ea_journal_mode mode)
{
    static const char *const names[] = {"off", "second", "always"};
    return (unsigned)mode < sizeof names / sizeof *names ? names[mode] : "?";
}

static const char *state_name(ea_journal_state state)
{
    static const char *const names[] = {"none", "sound", "no_room", "failed"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "?";
}

static bool any_snapshots(const ea_snapshot_stats *s)
{
    return s->number || s->done || s->failed || s->given_up || s->every_ns;
}

static void snapshots_print(const ea_snapshot_stats *s)
{
    struct text a, b;
    if (!any_snapshots(s)) return;
    printf("snapshots      ");
    if (s->number)
        printf("the newest is %" PRIu64 ", %s old, %s", s->number, format_ns(&a, s->age_ns),
               format_bytes(&b, s->bytes));
    else
        printf("none yet");
    if (s->duration_ns) printf(", saved in %s", format_ns(&a, s->duration_ns));
    printf("\n               %s saved, %s failed", format_count(&a, s->done),
           format_count(&b, s->failed));
    printf(", %s given up; %s written\n", format_count(&a, s->given_up),
           format_bytes(&b, s->written_bytes));
    if (s->failing)
        printf("               the last one FAILED%s%s\n", s->error[0] ? ": " : "", s->error);
}

static void journal_print(const ea_journal_stats *j)
{
    struct text a, b;
    if (j->state == EA_JOURNAL_NONE) return;
    printf("journal        %s: %s", mode_name(j->mode), format_many(&a, j->files, "file"));
    printf(", %s since the last snapshot; %s", format_bytes(&a, j->file_bytes),
           format_many(&b, j->records, "write"));
    printf(" of %s, %s\n", format_bytes(&a, j->bytes), format_many(&b, j->syncs, "sync"));
    if (j->state != EA_JOURNAL_SOUND)
        printf("               WRITES ARE REFUSED until %s%s%s\n",
               j->state == EA_JOURNAL_NO_ROOM ? "there is room" : "a snapshot is saved",
               j->why[0] ? ": " : "", j->why);
    if (j->lag_ns || j->queued_bytes)
        printf("               not synced for %s; %s on their way\n", format_ns(&a, j->lag_ns),
               format_bytes(&b, j->queued_bytes));
}

void kept_print(const ea_snapshot_stats *s, const ea_journal_stats *j)
{
    snapshots_print(s);
    journal_print(j);
}

void kept_json(struct json *out, const ea_snapshot_stats *s, const ea_journal_stats *j)
{
    json_object(out, "journal");
    json_string(out, "mode", mode_name(j->mode));
    json_string(out, "state", state_name(j->state));
    json_string(out, "why", j->why);
    json_u64(out, "files", j->files);
    json_u64(out, "file_bytes", j->file_bytes);
    json_u64(out, "records", j->records);
    json_u64(out, "bytes", j->bytes);
    json_u64(out, "syncs", j->syncs);
    json_u64(out, "group_last", j->group_last);
    json_u64(out, "queued_bytes", j->queued_bytes);
    json_u64(out, "lag_ns", j->lag_ns);
    json_end(out);
    json_object(out, "snapshots");
    json_u64(out, "number", s->number);
    json_u64(out, "age_ns", s->age_ns);
    json_u64(out, "bytes", s->bytes);
    json_u64(out, "duration_ns", s->duration_ns);
    json_u64(out, "done", s->done);
    json_u64(out, "failed", s->failed);
    json_u64(out, "given_up", s->given_up);
    json_u64(out, "written_bytes", s->written_bytes);
    json_u64(out, "lag_ns", s->lag_ns);
    json_u64(out, "every_ns", s->every_ns);
    json_bool(out, "failing", s->failing);
    json_string(out, "error", s->error);
    json_end(out);
}
