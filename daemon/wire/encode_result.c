/* encode_result: turns the result of a job that a backend ran into a reply, by the table of
 * operations. */
#include "daemon/wire/encode_inside.h"

/* A number, whose dtype is NONE, or a tensor. */
struct reply_field {
    enum dtype dtype;
    uint16_t at, has; /* offsets in the message */
    /* of a number: its offset in struct job_result; of a tensor: its place among the result's
     * tensors */
    uint16_t from;
};
#define NUMBER(M, member, source) \
    {.at = offsetof(M, member), .from = offsetof(struct job_result, source)},
#define RESULT(M, SLOT, member, type)  \
    {.dtype = DTYPE_##type,            \
     .at = offsetof(M, member),        \
     .has = offsetof(M, has_##member), \
     .from = RESULT_##SLOT},
#define REPLY(message)                                        \
    static const struct reply_field fields_of_##message[] = { \
        FIELDS_##message##Reply(engram_accel_v1_##message##Reply)};
#include "proto/operations.def"
#undef NUMBER
#undef RESULT

/* Checks that numbers can be copied as they are, that every reply's tensors have a place in a
 * result, and that its message fits where results are written. */
#define NUMBER(M, member, source)                                                                  \
    _Static_assert(sizeof(((M *)0)->member) == 8 && sizeof(((struct job_result *)0)->source) == 8, \
                   "64 bits: " #member);
#define RESULT(M, SLOT, member, type) \
    _Static_assert((int)RESULT_##SLOT < (int)JOB_TENSORS_MAX, "a result has a place for " #SLOT);
#define REPLY(message)                                                                         \
    _Static_assert(REPLY_FITS(engram_accel_v1_##message##Reply_size, ENCODE_RESULT_BYTES_MAX), \
                   "ENCODE_RESULT_BYTES_MAX holds " #message);                                 \
    FIELDS_##message##Reply(engram_accel_v1_##message##Reply)
#include "proto/operations.def"
#undef NUMBER
#undef RESULT

union reply_message {
#define REPLY(message) engram_accel_v1_##message##Reply of_##message;
#include "proto/operations.def"
};

struct reply {
    const pb_msgdesc_t *message; /* NULL: the operation has no reply made of a result */
    const struct reply_field *fields;
    uint16_t count, bytes, has_meta, meta;
};
static const struct reply replies[OPERATION_MAX] = {
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) \
    [OPERATION_##NAME] = {                                                         \
        .message = engram_accel_v1_##reply##Reply_fields,                          \
        .fields = fields_of_##reply,                                               \
        .count = COUNT(fields_of_##reply),                                         \
        .bytes = sizeof(engram_accel_v1_##reply##Reply),                           \
        .has_meta = offsetof(engram_accel_v1_##reply##Reply, has_meta),            \
        .meta = offsetof(engram_accel_v1_##reply##Reply, meta),                    \
    },
#include "proto/operations.def"
};

/* Leaves out a tensor that the result does not have, or has with another dtype, which is a
 * mistake. */
static void fill_field(const struct reply_field *f, const struct job_result *r, char *message)
{
    if (f->dtype == DTYPE_NONE) {
        memcpy(message + f->at, (const char *)r + f->from, sizeof(uint64_t));
        return;
    }
    const struct tensor *t = &r->tensors[f->from];
    if (t->dtype != f->dtype) return;
    *(bool *)(message + f->has) = true;
    *(engram_accel_v1_Tensor *)(void *)(message + f->at) = (engram_accel_v1_Tensor){
        .dtype = (engram_accel_v1_Dtype)t->dtype, .rows = t->rows, .columns = t->columns};
}

size_t encode_result(const struct job *j, void *buffer)
{
    const struct reply *reply = &replies[j->operation];
    struct frame_header h = {.kind = (uint8_t)j->operation,
                             .request_id = j->key.request_id,
                             .body_bytes = j->result.body_bytes};
    union reply_message m;
    char *message = (char *)&m;
    memset(message, 0, reply->bytes);
    *(bool *)(message + reply->has_meta) = true;
    *(engram_accel_v1_Meta *)(void *)(message + reply->meta) = encode_meta(j);
    for (uint32_t i = 0; i < reply->count; i++)
        fill_field(&reply->fields[i], &j->result, message);
    return encode_frame(h, reply->message, message, buffer);
}
