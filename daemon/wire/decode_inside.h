/* decode_inside: what the files that decode requests share.
 * Owner:  wire. Thread: the loop. Errors: as decode.h says. */
#ifndef ENGRAM_WIRE_DECODE_INSIDE_H
#define ENGRAM_WIRE_DECODE_INSIDE_H

#include <pb.h>

#include "daemon/wire/body.h"
#include "daemon/wire/decode.h"

/* What every request decoder needs. */
struct decode_request {
    const void *message;
    uint32_t message_bytes;
    void *body;
    uint64_t body_bytes;
    struct job_request *out;
    struct failure *f;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FIELD(message, label, member, is_required, type, is_matrix, target)                 \
    {                                                                                       \
        .name = (label), .present = (message).has_##member, .required = (is_required),      \
        .dtype = (type), .matrix = (is_matrix), .wire = &(message).member, .out = &(target) \
    }

enum status decode_bad(struct failure *f, enum detail detail, const char *text);
/* Decodes a message whose field 1 is the name of a collection or graph (or the name to list
 * after). */
enum status decode_named(const struct decode_request *r, const char *label,
                         const pb_msgdesc_t *fields, void *out);
enum status decode_place(const struct decode_request *r, const struct body_field *fields,
                         size_t count);
void decode_take_name(const struct decode_request *r, const char *name);

/* The functions below check tensors that have been placed. */
enum status decode_same_rows(const struct decode_request *r, const char *name,
                             const struct tensor *a, const char *other, const struct tensor *b);
/* A filter must not have both a list and a bitmap. */
enum status decode_filter(const struct decode_request *r, const char *name);
/* Checks offsets: at least one, from 0, never falling, to n, the number of `what`. BAD_OFFSETS. */
enum status decode_rising(const struct decode_request *r, const char *name,
                          const struct tensor *offsets, uint64_t n, const char *what);

/* Decodes Spread and all requests on graphs; in decode_graph.c. */
enum status decode_graph(const struct decode_request *r, enum operation operation);

#endif
