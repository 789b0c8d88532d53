/* token_file: the writes that a snapshot remembers by their tokens (request/tokens.h), as bytes of
 * its array `tokens.npy`: a head, then a record for each, the oldest first. What a reader gets is
 * checked against what a daemon writes there.
 * Owner:  the caller.
 * Thread: any; no state.
 * Errors: RESOURCE_EXHAUSTED; DATA_LOSS/DAMAGED, naming the byte. */
#ifndef ENGRAM_PERSIST_TOKEN_FILE_H
#define ENGRAM_PERSIST_TOKEN_FILE_H

#include "daemon/base/job.h"
#include "daemon/store/space.h"

#define TOKEN_FILE_NAME      "tokens.npy"
#define TOKEN_FILE_BYTES_MAX (UINT64_C(256) << 20)

struct token_record {
    char space[SPACE_NAME_MAX + 1];
    uint64_t token[2], digest[2];
    enum operation operation;
    uint64_t body_bytes;
    struct job_result result; /* without a body */
    const float *weights;     /* of its answer, in the file's bytes; NULL: it has none */
    uint64_t weight_count;
};

struct token_bytes {
    char *data; /* from malloc; NULL: nothing */
    uint64_t bytes, room;
};
void token_bytes_free(struct token_bytes *t);
/* Adds one; the first one after a head. After a failure the bytes are as they were. */
enum status token_bytes_add(struct token_bytes *t, const struct token_record *r);

/* Reads the record at *at, and moves on; at 0 it is the first. *more false: there is none. */
enum status token_bytes_next(const struct token_bytes *t, uint64_t *at, struct token_record *out,
                             bool *more, struct failure *f);
/* Whether all can be read. */
enum status token_bytes_check(const struct token_bytes *t, struct failure *f);
/* False: another version of the daemon wrote them, which may have known requests by other
 * digests. */
bool token_bytes_are_ours(const struct token_bytes *t);

#endif
