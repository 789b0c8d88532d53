/* snapshot: a snapshot of a daemon (docs/persistence.md), read without one. All that its manifest
 * says is checked before it is believed, and no file is followed out of the folder.
 * Owner:  the caller keeps the struct; snapshot_close frees what it holds.
 * Thread: one at a time.
 * Errors: false, and error is one line; damaged says whether the snapshot is to blame. */
#ifndef ENGRAM_CLI_FILES_SNAPSHOT_H
#define ENGRAM_CLI_FILES_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SNAPSHOT_FILES_MAX = 6, SNAPSHOT_KEY_MAX = 256, SNAPSHOT_SUM_BYTES = 32 };
#define SNAPSHOT_PIECE_BYTES (UINT64_C(16) << 20)
enum { SNAPSHOT_HEAD_BYTES = 128 }; /* of an array's file, before its numbers */

struct snapshot_file {
    char name[48]; /* "000001-rows.npy" */
    uint64_t bytes;
    bool is_zstd;          /* "000001-rows.npy.zst": all of it is one frame, of so many bytes */
    uint64_t disk_bytes;   /* of the file */
    unsigned number_bytes; /* of one number */
    uint8_t sha256[SNAPSHOT_SUM_BYTES];
    uint64_t *pieces; /* XXH3 of each 16 MiB of the file */
    uint64_t piece_count;
};

enum snapshot_kind { SNAPSHOT_COLLECTION, SNAPSHOT_GRAPH, SNAPSHOT_ATTRACTOR };
extern const char *const snapshot_kinds[3]; /* "collection" */

struct snapshot_entry {
    enum snapshot_kind kind;
    char space[65], name[65];
    uint64_t version;
    uint32_t dimension, metric; /* of a collection; dimension: of an attractor, too */
    uint64_t count, edges;      /* rows or nodes */
    float sparsity, rate;
    /* In this order: ids, rows; ids, kinds, factors, offsets, targets, weights; matrix. */
    struct snapshot_file files[SNAPSHOT_FILES_MAX];
    unsigned file_count;
    uint64_t bytes; /* of all */
};

struct snapshot {
    int folder; /* -1: not open */
    uint64_t instance, generation, version, saved_s;
    bool complete; /* of an orderly stop */
    bool is_signed;
    struct snapshot_file tokens; /* of writes that are remembered; bytes 0: there is no file */
    struct snapshot_entry *entries;
    uint64_t count, bytes;
    bool damaged;
    char path[4200]; /* of the snapshot itself */
    char error[400];
};

struct snapshot_key {
    uint8_t bytes[SNAPSHOT_KEY_MAX + 1];
    size_t count; /* 0: none */
};
/* Reads 1 to SNAPSHOT_KEY_MAX bytes. False: *error says why. */
bool snapshot_key_read(const char *path, struct snapshot_key *out, char *error, size_t bytes);

/* path: a snapshot, or a folder of them, of which the newest is taken. key: its manifest must have
 * been signed with it, if there is one. */
bool snapshot_open(struct snapshot *s, const char *path, const struct snapshot_key *key);
/* Fine on a zeroed struct whose folder is -1. */
void snapshot_close(struct snapshot *s);

/* A file of it, from its beginning to its end, a piece at a time whose XXH3 is right. */
struct snapshot_reader {
    struct snapshot *of;
    const struct snapshot_file *file;
    int fd;
    void *sums;                   /* of a SHA-256; NULL: nobody wants it */
    uint8_t *piece;               /* 16 MiB of the array, the last that were read */
    uint64_t at, end;             /* in it, what is not taken yet */
    uint64_t done;                /* bytes of the array that were read */
    uint64_t next;                /* piece of the file */
    struct snapshot_frame *frame; /* of zstd; NULL: it is plain */
};
/* with_sha: its SHA-256 is checked at the end. */
bool snapshot_reader_open(struct snapshot_reader *r, struct snapshot *s,
                          const struct snapshot_file *file, bool with_sha);
/* Takes the next bytes, all of them; head: those before the numbers are left out. */
bool snapshot_reader_take(struct snapshot_reader *r, void *to, uint64_t bytes);
/* Reads the next piece, as a whole; *bytes 0: there is none, and all sums are right. */
bool snapshot_reader_next(struct snapshot_reader *r, uint64_t *bytes);
void snapshot_reader_close(struct snapshot_reader *r);

#endif
