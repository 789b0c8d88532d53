#include "daemon/wire/body.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/frame.h"
#include "kernels/vectors.h"

static const char *const dtype_names[] = {
    [DTYPE_NONE] = "none",     [DTYPE_FLOAT32] = "float32", [DTYPE_UINT64] = "uint64",
    [DTYPE_UINT32] = "uint32", [DTYPE_UINT8] = "uint8",     [DTYPE_FLOAT64] = "float64",
};

static enum status check_shape(const struct body_field *field, uint64_t *bytes, struct failure *f)
{
    const engram_accel_v1_Tensor *t = field->wire;
    if ((unsigned)t->dtype != field->dtype)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: dtype %u, %u (%s) wanted", field->name, (unsigned)t->dtype,
                           (unsigned)field->dtype, dtype_names[field->dtype]);
    if (field->matrix && (t->columns == 0 || t->columns > VECTOR_DIMENSION_MAX))
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: %" PRIu64 " columns, 1 to %d wanted", field->name, t->columns,
                           VECTOR_DIMENSION_MAX);
    if (!field->matrix && t->columns != 1)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: %" PRIu64 " columns, 1 wanted", field->name, t->columns);
    if (__builtin_mul_overflow(t->rows, t->columns, bytes) ||
        __builtin_mul_overflow(*bytes, dtype_bytes(field->dtype), bytes) ||
        *bytes > UINT64_MAX - FRAME_ALIGN)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "%s: %" PRIu64 " x %" PRIu64 " overflows", field->name, t->rows,
                           t->columns);
    return STATUS_OK;
}

static enum status place_one(const struct body_field *field, char *body, uint64_t body_bytes,
                             uint64_t *used, struct failure *f)
{
    *field->out = (struct tensor){0};
    if (!field->present) {
        if (!field->required) return STATUS_OK;
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "%s: missing",
                           field->name);
    }

    uint64_t bytes = 0;
    enum status st = check_shape(field, &bytes, f);
    if (st) return st;
    if (frame_align(bytes) > body_bytes - *used)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH,
                           "%s: %" PRIu64 " x %" PRIu64 " %s are %" PRIu64
                           " bytes, padded; %" PRIu64 " of the body's %" PRIu64 " are left",
                           field->name, field->wire->rows, field->wire->columns,
                           dtype_names[field->dtype], frame_align(bytes), body_bytes - *used,
                           body_bytes);

    *field->out = (struct tensor){
        .dtype = field->dtype,
        .rows = field->wire->rows,
        .columns = field->wire->columns,
        .data = bytes ? body + *used : NULL,
    };
    *used += frame_align(bytes);
    return STATUS_OK;
}

enum status body_place(const struct body_field *fields, size_t count, void *body,
                       uint64_t body_bytes, struct failure *f)
{
    uint64_t used = 0;
    for (size_t i = 0; i < count; i++) {
        enum status st = place_one(&fields[i], body, body_bytes, &used, f);
        if (st) return st;
    }
    if (used != body_bytes)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH,
                           "body: %" PRIu64 " bytes, the tensors fill %" PRIu64, body_bytes, used);
    return STATUS_OK;
}

enum status body_check_padding(const struct body_field *fields, size_t count, struct failure *f)
{
    static const char zeros[FRAME_ALIGN];
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = fields[i].out;
        uint64_t bytes = t->rows * t->columns * dtype_bytes(t->dtype);
        if (t->data &&
            memcmp((const char *)t->data + bytes, zeros, frame_align(bytes) - bytes) != 0)
            return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BODY_MISMATCH,
                               "%s: the bytes between it and the next multiple of 64 are not zero",
                               fields[i].name);
    }
    return STATUS_OK;
}
