/* array_file: one array of a snapshot in a file of its own, written and read from its beginning to
 * its end, plain or as one zstd frame. Of every 16 MiB of the file as it lies on the disk there is
 * an XXH3, of the whole a SHA-256.
 * Owner:  whoever opened it.
 * Thread: any, one at a time; every call may wait for the disk: never the loop.
 * Errors: UNAVAILABLE/SYSTEM (a system call failed), RESOURCE_EXHAUSTED (no memory, disk full),
 *         DATA_LOSS/DAMAGED (what is read is not what was written), naming file and byte. */
#ifndef ENGRAM_PERSIST_ARRAY_FILE_H
#define ENGRAM_PERSIST_ARRAY_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/status.h"
#include "daemon/persist/npy.h"

#define PERSIST_PIECE_BYTES (UINT64_C(16) << 20)
enum { SHA256_BYTES = 32, ARRAY_NAME_MAX = 40 };

/* What a manifest says of a file. */
struct array_entry {
    char name[ARRAY_NAME_MAX + 1];
    struct npy_shape shape;
    uint8_t sha256[SHA256_BYTES];
    uint64_t *pieces; /* XXH3 of each; the entry's, from malloc */
    uint64_t piece_count;
    bool is_zstd;
    uint64_t zstd_bytes; /* of the frame, which is all of the file */
};
/* Of the file on the disk. */
static inline uint64_t array_disk_bytes(const struct array_entry *entry)
{
    return entry->is_zstd ? entry->zstd_bytes : npy_file_bytes(&entry->shape);
}
static inline uint64_t array_piece_count(uint64_t file_bytes)
{
    return (file_bytes + PERSIST_PIECE_BYTES - 1) / PERSIST_PIECE_BYTES;
}
void array_entry_free(struct array_entry *entry);

struct array_file;

/* Makes the file entry->name in the folder and writes its head; entry's name and shape are set, and
 * is_zstd, and array_end_write fills in the rest. level: of zstd, if it is that. */
enum status array_create(int folder, struct array_entry *entry, int level, struct array_file **out,
                         struct failure *f);
enum status array_write(struct array_file *a, const void *data, uint64_t bytes, struct failure *f);
/* As array_write, but data must stay as it is until the file is ended or abandoned. */
enum status array_write_kept(struct array_file *a, const void *data, uint64_t bytes,
                             struct failure *f);
/* All elements were written: syncs the file. It is closed in any case, and by array_abandon. */
enum status array_end_write(struct array_file *a, struct failure *f);

/* Files that were written and are not synced yet: the disk goes on with them while the next is
 * written. All zeros: none. */
enum { ARRAY_LATE_MAX = 16 };
struct array_late {
    int fds[ARRAY_LATE_MAX];
    char names[ARRAY_LATE_MAX][ARRAY_NAME_MAX + 1];
    uint32_t count;
};
/* As array_end_write, but it is synced by array_sync_late, or when there are too many. */
enum status array_end_write_late(struct array_file *a, struct array_late *late, struct failure *f);
/* Syncs and closes all; the first error counts. */
enum status array_sync_late(struct array_late *late, struct failure *f);

/* Opens a file that entry describes, and checks its head. with_sha: its SHA-256 is checked at the
 * end. */
enum status array_open(int folder, const struct array_entry *entry, bool with_sha,
                       struct array_file **out, struct failure *f);
/* Reads the next bytes, all of them; they may be wrong until array_end_read. */
enum status array_read(struct array_file *a, void *data, uint64_t bytes, struct failure *f);
/* Reads the rest, if there is some, and says whether the file is as it was written. It is closed in
 * any case. */
enum status array_end_read(struct array_file *a, struct failure *f);
/* NULL is fine. */
void array_abandon(struct array_file *a);

/* Bytes of the array that were written or read so far, head included. */
uint64_t array_position(const struct array_file *a);

#endif
