/* manifest: what a snapshot holds, and the text of its manifest.json, which ends with the SHA-256
 * of all before it and, where there is a key, an HMAC. A manifest is foreign bytes: all of it
 * is checked against what a daemon of this format writes.
 * Owner:  the caller. Thread: any; no state.
 * Errors: RESOURCE_EXHAUSTED (no memory), DATA_LOSS/DAMAGED, FAILED_PRECONDITION/BAD_VERSION (a
 *         newer format), UNAUTHENTICATED/BAD_TOKEN (the HMAC is missing or wrong). */
#ifndef ENGRAM_PERSIST_MANIFEST_H
#define ENGRAM_PERSIST_MANIFEST_H

#include <stddef.h>

#include "daemon/persist/array_file.h"
#include "daemon/store/graph.h"
#include "daemon/store/resident.h"

/* 2: of a snapshot that has files of zstd, which daemons of format 1 cannot read. */
enum { MANIFEST_FORMAT = 2, MANIFEST_KEY_MAX = 256, SNAPSHOT_ARRAYS_MAX = 6 };

enum snapshot_array {
    ARRAY_IDS,     /* of rows or nodes */
    ARRAY_ROWS,    /* n x dimension */
    ARRAY_KINDS,   /* of nodes */
    ARRAY_FACTORS, /* of nodes */
    ARRAY_OFFSETS, /* edges of node i: [offsets[i], offsets[i + 1]) */
    ARRAY_TARGETS, /* of edges: ids */
    ARRAY_WEIGHTS, /* of edges */
    ARRAY_MATRIX,  /* W, row by row */
    SNAPSHOT_ARRAYS
};
extern const char *const snapshot_array_names[SNAPSHOT_ARRAYS];

/* The largest version and generation that is taken: those that follow do not wrap. */
#define MANIFEST_COUNT_MAX (UINT64_C(1) << 63)

struct snapshot_object {
    enum resident_kind kind;
    char space[SPACE_NAME_MAX + 1], name[COLLECTION_NAME_MAX + 1];
    uint64_t version;
    uint32_t dimension; /* of a collection or an attractor */
    enum metric metric; /* of a collection */
    float sparsity, rate;
    uint64_t patterns;
    uint64_t count, edges; /* rows or nodes; edges of a graph */
    struct graph_bounds bounds;
    uint64_t asked; /* how many requests named it lately: what was asked most is loaded first */
    struct array_entry files[SNAPSHOT_ARRAYS_MAX];
};

struct manifest {
    uint64_t instance, generation;
    uint64_t version;                /* the last that any object had */
    uint64_t saved_s;                /* when, in seconds since 1970 */
    bool complete;                   /* nothing was written after it: the daemon stopped */
    struct snapshot_object *objects; /* from malloc */
    uint64_t object_count;
    struct array_entry tokens; /* of writes that are remembered; no rows: there is no file */
};
void manifest_free(struct manifest *m);

/* Which arrays objects of a kind have, in the order of object.files. */
uint32_t snapshot_array_count(enum resident_kind kind);
enum snapshot_array snapshot_array_at(enum resident_kind kind, uint32_t i);
/* Sets names and shapes of an object's files from what it says of itself; number: its place among
 * the files of this snapshot. */
void snapshot_name_files(struct snapshot_object *o, uint64_t number);
/* A file that was named is one of zstd, of a name of its own. */
void snapshot_name_zstd(struct array_entry *file);
/* Of all arrays of o, with their heads. */
uint64_t snapshot_object_bytes(const struct snapshot_object *o);

struct manifest_key {
    uint8_t bytes[MANIFEST_KEY_MAX];
    uint32_t count; /* 0: none */
};

/* The text, from malloc. */
enum status manifest_print(const struct manifest *m, const struct manifest_key *key, char **text,
                           size_t *bytes, struct failure *f);
enum status manifest_parse(const char *text, size_t bytes, const struct manifest_key *key,
                           struct manifest *out, struct failure *f);

#endif
