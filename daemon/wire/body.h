/* body: finds and checks the tensors of a request's body that its message describes.
 * Owner:  wire; only decode uses it.
 * Thread: any; no state.
 * Errors: INVALID_ARGUMENT naming the field and the numbers: BAD_SHAPE, BODY_MISMATCH. */
#ifndef ENGRAM_WIRE_BODY_H
#define ENGRAM_WIRE_BODY_H

#include "daemon/base/job.h"
#include "proto/engram_accel.pb.h"

/* One tensor field of a message. Lists of these are in body order. */
struct body_field {
    const char *name;
    bool present; /* has_... of the message */
    bool required;
    enum dtype dtype;
    bool matrix; /* true: columns is a dimension; false: exactly 1 */
    const engram_accel_v1_Tensor *wire;
    struct tensor *out; /* dtype NONE when absent */
};

/* Places every tensor and checks that together they fill the body exactly. body may be NULL if
 * body_bytes is 0. A tensor without elements has data NULL. */
enum status body_place(const struct body_field *fields, size_t count, void *body,
                       uint64_t body_bytes, struct failure *f);
/* Of tensors that were placed: BODY_MISMATCH where what lies behind one is not zeros. */
enum status body_check_padding(const struct body_field *fields, size_t count, struct failure *f);

#endif
