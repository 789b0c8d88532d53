/* journal_format: the bytes of a journal's file: a head, and records behind it, each of which is a
 * write that was done. Of a head and of each record there is an XXH3, seeded with a number of that
 * file alone, so that what another file had in the same place is no record here; records are
 * numbered on, over all files. All of it is foreign bytes, and is checked.
 * Owner:  the caller. Thread: any; no state.
 * Errors: DATA_LOSS/DAMAGED, FAILED_PRECONDITION/BAD_VERSION (a newer format). */
#ifndef ENGRAM_PERSIST_JOURNAL_FORMAT_H
#define ENGRAM_PERSIST_JOURNAL_FORMAT_H

#include "daemon/base/job.h"
#include "daemon/store/resident.h"

enum { JOURNAL_FORMAT = 1, JOURNAL_HEAD_BYTES = 128, JOURNAL_RECORD_BYTES = 64 };
enum { JOURNAL_FIXED_BYTES = 640 }; /* of a record's contents, before its tensors */
#define JOURNAL_CONTENTS_MAX (UINT64_C(1) << 40)

/* A head. */
struct journal_head {
    uint64_t number;   /* of the file */
    uint64_t snapshot; /* it begins at that snapshot's instant; 0: it goes on from another file */
    uint64_t snapshot_instance, snapshot_generation; /* as its manifest has them */
    uint64_t instance, generation;
    uint64_t sequence; /* of its first record */
    uint64_t salt;     /* random, and not 0 */
    uint64_t previous; /* the salt of the file before it; 0: there is none */
    bool always;       /* what was acknowledged was synced before */
    bool
        broken; /* what was done before is not all in the files before it: only with its snapshot */
};
void journal_head_print(const struct journal_head *head, uint8_t out[JOURNAL_HEAD_BYTES]);
enum status journal_head_parse(const uint8_t bytes[JOURNAL_HEAD_BYTES], struct journal_head *out,
                               struct failure *f);

enum journal_kind {
    JOURNAL_MARK = 1, /* nothing but how much is synced */
    JOURNAL_END,      /* the file was ended in order; `sum`: of the file that follows, its number */
    JOURNAL_CREATE,
    JOURNAL_DROP,
    JOURNAL_SWAP, /* `other` gets the name; what had it is dropped */
    JOURNAL_ROWS,
    JOURNAL_DELETE,
    JOURNAL_EDGES,
    JOURNAL_CSR,
    JOURNAL_REMOVE_EDGES,
    JOURNAL_NODES,
    JOURNAL_REMOVE_NODES,
    JOURNAL_ADD_WEIGHTS,
    JOURNAL_SCALE,
    JOURNAL_PRUNE,
    JOURNAL_LEARN,
    JOURNAL_SET_WEIGHTS,
    JOURNAL_TOKEN, /* the answer of a write whose own record stands before it */
    JOURNAL_KINDS,
};

/* The head of a record. */
struct journal_record {
    enum journal_kind kind;
    uint64_t bytes; /* of its contents: a multiple of 64; 0 of a mark and an end */
    uint64_t sequence;
    uint64_t synced; /* bytes of the file that were on the disk when this was written */
    uint64_t sum;    /* of the contents; of an end see there, 0: none follows */
};
void journal_record_print(const struct journal_record *r, uint64_t salt,
                          uint8_t out[JOURNAL_RECORD_BYTES]);
/* False: it is none of this file. */
bool journal_record_parse(const uint8_t bytes[JOURNAL_RECORD_BYTES], uint64_t salt,
                          struct journal_record *out);

/* The tensors of a write. */
enum journal_slot {
    JOURNAL_IDS, /* of rows or nodes; the sources of edges */
    JOURNAL_MATRIX,
    JOURNAL_TARGETS,
    JOURNAL_OFFSETS,
    JOURNAL_WEIGHTS,
    JOURNAL_NODE_KINDS,
    JOURNAL_FACTORS,
    JOURNAL_SLOTS
};

/* By what a write is known again, and what it was answered (request/tokens.h). */
struct journal_token {
    uint64_t token[2]; /* both 0: it had none */
    uint32_t operation;
    uint64_t body_bytes, digest[2]; /* of the request */
    uint64_t counts[6], rows, nodes, version, versions[OPERATION_OBJECTS_MAX];
};

enum journal_flag { JOURNAL_REPLACES = 1, JOURNAL_CREATES = 2, JOURNAL_COUNTED = 4 };

/* The contents of a record. */
struct journal_write {
    enum journal_kind kind;
    enum resident_kind object;
    char space[SPACE_NAME_MAX + 1], name[COLLECTION_NAME_MAX + 1], other[COLLECTION_NAME_MAX + 1];
    uint64_t version; /* that it has afterwards */
    uint32_t dimension, metric, flags;
    /* sparsity and rate of an attractor; bounds of weights; a factor, or the least weight */
    float numbers[2];
    struct journal_token token;
    struct tensor tensors[JOURNAL_SLOTS];
};

/* Bytes of the contents. */
uint64_t journal_contents_bytes(const struct journal_write *w);
/* What stands before the tensors, each of which is padded with zeros to 64 bytes. */
void journal_contents_print(const struct journal_write *w, uint8_t out[JOURNAL_FIXED_BYTES]);
/* bytes: 64-byte aligned, and stays: tensors of *out lie in it. A failure: at *byte of it. */
enum status journal_contents_parse(void *contents, uint64_t bytes, enum journal_kind kind,
                                   struct journal_write *out, uint64_t *byte, struct failure *f);

static inline uint64_t journal_pad(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
static inline uint64_t journal_tensor_bytes(const struct tensor *t)
{
    return t->rows * t->columns * dtype_bytes(t->dtype);
}

#endif
