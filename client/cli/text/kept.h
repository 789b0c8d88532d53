/* kept: what a daemon keeps on the disk, snapshots and the journal, as lines and as JSON.
 * Owner:  the caller. Thread: one at a time. Errors: none. */
#ifndef ENGRAM_CLI_TEXT_KEPT_H
#define ENGRAM_CLI_TEXT_KEPT_H

#include "client/cli/text/json.h"
#include "client/engram_accel.h"

/* Nothing where there is neither. */
void kept_print(const ea_snapshot_stats *s, const ea_journal_stats *j);
/* Members of the object that is open: "journal" and "snapshots". */
void kept_json(struct json *out, const ea_snapshot_stats *s, const ea_journal_stats *j);

#endif
