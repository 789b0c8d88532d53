/* decode: request bytes -> job, by the table of operations: copies names and numbers, and places
 * the tensors in the body. All other checks that need only the request are the operation's.
 * Owner:  wire.
 * Thread: the loop.
 * Errors: INVALID_ARGUMENT naming the field: BAD_MESSAGE, BAD_NAME, BAD_SHAPE, BODY_MISMATCH, and
 *         what the check refuses; UNKNOWN_KIND (UNIMPLEMENTED), HELLO_REQUIRED
 *         (FAILED_PRECONDITION: a second Hello); of Hello also BAD_SPACE, BAD_VERSION. */
#ifndef ENGRAM_WIRE_DECODE_H
#define ENGRAM_WIRE_DECODE_H

#include "daemon/base/job.h"
#include "daemon/base/frame.h"

struct hello {
    uint32_t version_min, version_max;
    uint64_t features; /* that the client knows */
    char client_name[65];
    char space[129]; /* as sent */
    uint8_t token[256];
    uint32_t token_bytes;
    struct state_name expect;
};

enum status decode_hello(const void *message, uint32_t message_bytes, struct hello *out,
                         struct failure *f);

/* Decodes any request but Hello. body: 64-byte aligned, header->body_bytes long, NULL when 0.
 * check: that of the operation (exec/operation.h), or NULL. Sets j->operation and j->request, whose
 * tensors point into body. After an error j->failure is set. */
enum status decode_request(const struct frame_header *header, const void *message, void *body,
                           enum status (*check)(struct job *j), struct job *j);

#endif
