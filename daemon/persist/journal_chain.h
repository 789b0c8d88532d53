/* journal_chain: which files of a journal belong to a snapshot, and in which order they are
 * replayed over it.
 *
 * The newest file that begins at the snapshot's instant is the first; those behind it follow, each
 * naming the one before it. Older ones stay for what was made under a hidden name before, which no
 * snapshot has. A file that is broken is of use with its own snapshot alone: that it is not there
 * means that nothing in the file, or behind it, was acknowledged.
 * Owner:  persist.
 * Thread: as replay.h says; it waits for the disk.
 * Errors: as replay.h says; DATA_LOSS/DAMAGED where a file is missing, or is another's. */
#ifndef ENGRAM_PERSIST_JOURNAL_CHAIN_H
#define ENGRAM_PERSIST_JOURNAL_CHAIN_H

#include "daemon/persist/replay.h"

struct journal_base {
    uint64_t snapshot; /* its number; 0: none was loaded */
    uint64_t instance, generation;
};
struct journal_end {
    uint64_t files, writes, bytes; /* bytes: of all files that stay */
    /* Of the last file; of the record that comes next. files 0: the number that is taken. */
    uint64_t number, sequence, salt;
    uint64_t newest;          /* the largest number of a file that was there; 0: none was */
    struct journal_head last; /* of the last file; files 0: all 0 */
    bool lost;                /* it was damaged: what was acknowledged may not be there */
    bool ended;               /* in order: all that was acknowledged is there */
};
/* What will be replayed, by the heads alone: *bytes of files, and the last head. False: a head is
 * damaged. */
bool journal_chain_look(const struct folder *folder, const struct journal_base *base,
                        uint64_t *bytes, struct journal_end *out);
/* Replays all of them. salvage: what stands before damage is kept, and what is left out is logged
 * and set aside. *out: where the journal goes on. verify alone: r NULL. */
enum status journal_chain_replay(const struct folder *folder, const struct journal_base *base,
                                 const struct replay *r, bool salvage, struct journal_end *out,
                                 struct failure *f);

#endif
