/* folder: the folder that snapshots lie in (persist.dir): snapshot-NUMBER, the newest of which has
 * the largest number. One is written as .saving-NUMBER, synced, and renamed; one that goes is
 * renamed to .gone-NUMBER first. So whatever is called snapshot-NUMBER was once whole. The file
 * `state` says what the running daemon began with; `lock` is locked while one uses the folder.
 * Owner:  whoever opened it.
 * Thread: any, one at a time; every call may wait for the disk.
 * Errors: UNAVAILABLE/SYSTEM, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (another daemon has it),
 *         DATA_LOSS/DAMAGED. */
#ifndef ENGRAM_PERSIST_FOLDER_H
#define ENGRAM_PERSIST_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"

enum { FOLDER_NAME_MAX = 40 };

struct folder {
    int fd, lock;
    char path[4096];
};

/* Makes it if only its last part is missing, locks it, and removes what was being written. */
enum status folder_open(const char *path, struct folder *out, struct failure *f);
void folder_close(struct folder *folder);
/* Whether folder_open could be, as far as can be said without changing anything; *out, not locked,
 * is that folder, or the one that it would be made in. */
enum status folder_try(const char *path, struct folder *out, struct failure *f);
/* True if path is the folder. */
bool folder_is_same(const struct folder *folder, const char *path);

/* The numbers of all snapshots, the largest first; *numbers from malloc. fd: of the folder. */
enum status folder_list(int fd, uint64_t **numbers, uint64_t *count, struct failure *f);
/* Opens a snapshot for reading; -1: errno says why. */
int folder_open_snapshot(int fd, uint64_t number);
/* Reads a small file, all of it, into memory from malloc. Links are not followed. DATA_LOSS: it is
 * missing, or no file. */
enum status folder_read_file(int fd, const char *name, size_t bytes_max, char **text, size_t *bytes,
                             struct failure *f);

/* Begins a snapshot; *out: where its files go. */
enum status folder_begin(const struct folder *folder, uint64_t number, int *out, struct failure *f);
/* Writes a file of it, synced. */
enum status folder_write_file(int fd, const char *name, const char *text, size_t bytes,
                              struct failure *f);
/* All files are there and synced: from now on it is a snapshot. */
enum status folder_commit(const struct folder *folder, uint64_t number, int saving,
                          struct failure *f);
/* Removes what was begun and not committed. */
void folder_abandon(const struct folder *folder, uint64_t number);
/* Removes all snapshots but the newest `keep`. What cannot be removed is logged. */
void folder_prune(const struct folder *folder, uint64_t keep);

/* What the daemon began with: a snapshot's number (0: none), its generation, and the journal's file
 * that it began (0: none). */
struct folder_state {
    uint64_t snapshot, generation, journal;
};
enum status folder_read_state(const struct folder *folder, struct folder_state *out,
                              struct failure *f);
enum status folder_write_state(const struct folder *folder, const struct folder_state *state,
                               struct failure *f);

/* Bytes that may be written there; UINT64_MAX: not known. */
uint64_t folder_free_bytes(const struct folder *folder);

#endif
