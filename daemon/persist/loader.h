/* loader: what persist.c and loader.c have of each other; persist.h has what others call.
 * Owner:  persist. Thread: the loop. Errors: as persist.h says. */
#ifndef ENGRAM_PERSIST_LOADER_H
#define ENGRAM_PERSIST_LOADER_H

#include "daemon/persist/persist_inside.h"

/* Notes durably under which instance and generation the daemon goes on with a snapshot: m NULL or
 * number 0: with none. whole: nothing of it is left out. Before the journal is replayed they are
 * those that it should have then, and nothing is noted. */
enum status persist_name(struct persist *p, const struct manifest *m, uint64_t number, bool whole,
                         struct failure *f);
/* The daemon ends as if it had not begun. */
void persist_name_back(struct persist *p);

#endif
