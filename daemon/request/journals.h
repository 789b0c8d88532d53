/* journals: replies that wait until what their requests did is on the disk, and what the journal
 * gives back.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none; what cannot get to the disk is answered UNAVAILABLE/JOURNAL. */
#ifndef ENGRAM_REQUEST_JOURNALS_H
#define ENGRAM_REQUEST_JOURNALS_H

#include "daemon/report/sources.h"
#include "daemon/request/pipeline_inside.h"

/* What is written from now on goes into that journal; NULL: there is none. */
void journals_open(struct pipeline *p, struct journal *journal);
/* Sends the replies to what is on the disk now. */
void journals_poll(struct pipeline *p);
/* For reports. */
struct wire_journal journals_seen(const struct pipeline *p, uint64_t now_ns);
/* True: only a snapshot of everything lets writes go on, or the journal is as long as it may be. */
bool journals_want_save(const struct pipeline *p);
/* Everything that was added is written, and the journal ended; no reply waits any more. */
void journals_close(struct pipeline *p);

#endif
