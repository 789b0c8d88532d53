/* journal_file: the files of a journal, journal-NUMBER in the folder of snapshots (folder.h). A
 * file is made under a hidden name, with its head, synced, and renamed: what has a journal's name
 * begins with a whole head.
 *
 * What stands behind the last record that is whole was being written when the daemon or the machine
 * ended, if no record says that it was synced before: then it is cut off. Otherwise it is damaged.
 * Owner:  whoever opened it.
 * Thread: any, one at a time; every call may wait for the disk.
 * Errors: UNAVAILABLE/SYSTEM, RESOURCE_EXHAUSTED, DATA_LOSS/DAMAGED naming file and byte,
 *         FAILED_PRECONDITION/BAD_VERSION. */
#ifndef ENGRAM_PERSIST_JOURNAL_FILE_H
#define ENGRAM_PERSIST_JOURNAL_FILE_H

#include "daemon/persist/folder.h"
#include "daemon/persist/journal_format.h"

enum { JOURNAL_NAME_MAX = 40 };
void journal_file_name(uint64_t number, char name[JOURNAL_NAME_MAX]);

/* The numbers of all files, the smallest first; *numbers from malloc. */
enum status journal_file_list(int folder, uint64_t **numbers, uint64_t *count, struct failure *f);
/* Makes a file with that head, synced, its folder too. *fd: to write to, behind the head. */
enum status journal_file_make(int folder, const struct journal_head *head, int *fd,
                              struct failure *f);
/* Removes files that are older than `before`; what cannot be removed is logged. */
void journal_file_prune(int folder, uint64_t before);

struct journal_reader;
/* Opens a file and reads its head. */
enum status journal_reader_open(int folder, uint64_t number, struct journal_reader **out,
                                struct failure *f);
/* NULL is fine. */
void journal_reader_close(struct journal_reader *r);
const struct journal_head *journal_reader_head(const struct journal_reader *r);

/* What stands at the reader's place. */
enum journal_step {
    JOURNAL_STEP_WRITE,   /* a write */
    JOURNAL_STEP_LAST,    /* nothing: all was read */
    JOURNAL_STEP_TORN,    /* what was being written: it does not count */
    JOURNAL_STEP_DAMAGED, /* or the disk failed: the failure says which */
};
/* Reads the next write; its tensors stay until the next call. */
enum journal_step journal_reader_next(struct journal_reader *r, struct journal_write *out,
                                      struct failure *f);
/* Where the reader is: bytes from the file's beginning, all of which were sound. */
uint64_t journal_reader_position(const struct journal_reader *r);
uint64_t journal_reader_bytes(const struct journal_reader *r);    /* of the file */
uint64_t journal_reader_sequence(const struct journal_reader *r); /* that the next record has */
/* The last record says that the file was ended in order: all of it is on the disk. */
bool journal_reader_ended(const struct journal_reader *r);
/* The number of the file that it says was begun behind it; 0: it says none. */
uint64_t journal_reader_follows(const struct journal_reader *r);

/* Removes a file of which nothing was used. */
void journal_file_remove(int folder, uint64_t number);
/* Makes the file that long, synced. */
enum status journal_file_cut(int folder, uint64_t number, uint64_t bytes, struct failure *f);
/* Sets a file aside that nothing can be made of: left-journal-NUMBER. */
enum status journal_file_set_aside(int folder, uint64_t number, struct failure *f);

#endif
