/* decode: request bytes -> job, with all checks of shapes that need only the request.
 * Owner:  wire. Thread: the loop. Errors: INVALID_ARGUMENT naming the field: BAD_MESSAGE,
 *         BAD_SHAPE, BODY_MISMATCH, BAD_NAME, BAD_K, BAD_METRIC, BAD_THRESHOLD, BAD_FILTER,
 *         BAD_OFFSETS, UNKNOWN_KIND (UNIMPLEMENTED), HELLO_REQUIRED (FAILED_PRECONDITION: a second
 *         Hello); of Hello also BAD_SPACE, BAD_VERSION; of Spread also BAD_MODE, BAD_HOPS,
 *         BAD_DECAY, BAD_SEED. Of changes of a graph only shapes are checked: the store checks
 *         weights, factors, kinds and the contents of a CSR matrix. */
#ifndef ENGRAM_WIRE_DECODE_H
#define ENGRAM_WIRE_DECODE_H

#include "daemon/base/job.h"
#include "daemon/base/frame.h"

struct hello {
    uint32_t version_min, version_max;
    uint64_t features;
    char client_name[65];
    char space[129]; /* as sent */
    uint8_t token[256];
    uint32_t token_bytes;
};

enum status decode_hello(const void *message, uint32_t message_bytes, struct hello *out,
                         struct failure *f);

/* Any kind but Hello. body: 64-byte aligned, header->body_bytes long, NULL when 0. Sets
 * j->operation and j->request, whose tensors point into body. On error j->failure is set. */
enum status decode_request(const struct frame_header *header, const void *message, void *body,
                           struct job *j);

#endif
