#include "daemon/wire/decode.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <pb_decode.h>

#include "daemon/store/space.h"
#include "daemon/wire/body.h"
#include "daemon/wire/text.h"

/* Checks that the table of operations agrees with the schema. */
#define SAME_NUMBER(NAME)                                                          \
    _Static_assert((int)OPERATION_##NAME == (int)engram_accel_v1_Kind_KIND_##NAME, \
                   "the schema's number of " #NAME);
#define ANSWERED(NAME, ...)  SAME_NUMBER(NAME)
#define OPERATION(NAME, ...) SAME_NUMBER(NAME)
#include "proto/operations.def"
SAME_NUMBER(SPREAD_ENGRAM)

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- the table's fields, in the places of nanopb's messages ---- */

/* take_X copies names and numbers of the message to the job, and its tensors to `tensors`; returns
 * how many. check_names has checked that the name fits. Straight code for each message, because a
 * walk over offsets cost 5 % of decoding a small request. */
#define SHAPE_COLUMN            false
#define SHAPE_ROWS              true
#define PRESENCE_NEEDED         true
#define PRESENCE_OPTIONAL       false
#define NAMED(M, slot, member)  memcpy(out->names[slot], m->member, strlen(m->member) + 1);
#define COPY(M, member, target) memcpy(&out->target, &m->member, sizeof m->member);
#define TENSOR(M, in, member, type, shape, presence, target) \
    tensors[count++] = (struct body_field){                  \
        .name = #in #member,                                 \
        .present = m->in has_##member,                       \
        .required = PRESENCE_##presence,                     \
        .dtype = DTYPE_##type,                               \
        .matrix = SHAPE_##shape,                             \
        .wire = &m->in member,                               \
        .out = &out->target,                                 \
    };
#define TAKE(request)                                                                             \
    static size_t take_##request(const void *message, struct job_request *out,                    \
                                 struct body_field *tensors)                                      \
    {                                                                                             \
        const engram_accel_v1_##request##Request *m = message;                                    \
        size_t count = 0;                                                                         \
        if (m->has_expect)                                                                        \
            out->expect =                                                                         \
                (struct state_name){m->expect.instance, m->expect.generation, m->expect.version}; \
        FIELDS_##request##Request(engram_accel_v1_##request##Request) return count;               \
    }
#define ANSWERED(NAME, number, name, request)                                      TAKE(request)
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) TAKE(request)
#include "proto/operations.def"
#undef NAMED
#undef COPY
#undef TENSOR

/* Checks that numbers have the same size in message and job, and that no request has more tensors
 * than fit. */
enum { TENSORS_MAX = 8 };
#define NAMED(M, slot, member)
#define COPY(M, member, target) \
    +0 * sizeof(                \
             char[sizeof(((M *)0)->member) == sizeof(((struct job_request *)0)->target) ? 1 : -1])
#define TENSOR(M, in, member, type, shape, presence, target) +1
#define FITS(request)                                                                              \
    _Static_assert(0 FIELDS_##request##Request(engram_accel_v1_##request##Request) <= TENSORS_MAX, \
                   "all tensors of " #request);
#define ANSWERED(NAME, number, name, request)                                      FITS(request)
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) FITS(request)
#include "proto/operations.def"
#undef NAMED
#undef COPY
#undef TENSOR

union request_message {
#define ANSWERED(NAME, number, name, request) engram_accel_v1_##request##Request of_##NAME;
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) \
    engram_accel_v1_##request##Request of_##NAME;
#include "proto/operations.def"
};

struct request {
    const pb_msgdesc_t *message; /* NULL: there is no request of that kind */
    size_t (*take)(const void *message, struct job_request *out, struct body_field *tensors);
    struct text_rule names[OPERATION_OBJECTS_MAX]; /* tag 0: it has none in this place */
};
#define NAMED(M, slot, member) \
    .names[slot] = {#member, M##_##member##_tag, COLLECTION_NAME_MAX, DETAIL_BAD_NAME, false},
#define COPY(M, member, target)
#define TENSOR(M, in, member, type, shape, presence, target)
#define REQUEST(NAME, request)                                                  \
    [OPERATION_##NAME] = {.message = engram_accel_v1_##request##Request_fields, \
                          .take = take_##request,                               \
                          FIELDS_##request##Request(engram_accel_v1_##request##Request)},
static const struct request requests[OPERATION_MAX] = {
#define ANSWERED(NAME, number, name, request) REQUEST(NAME, request)
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) \
    REQUEST(NAME, request)
#include "proto/operations.def"
};
#undef NAMED
#undef COPY
#undef TENSOR

/* ---- messages ---- */

static enum status decode_message(const void *message, uint32_t message_bytes,
                                  const pb_msgdesc_t *fields, void *out, struct failure *f)
{
    pb_istream_t in = pb_istream_from_buffer(message, message_bytes);
    if (pb_decode(&in, fields, out)) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, "message: %s",
                       PB_GET_ERROR(&in));
}

/* Names are checked in the undecoded message, because a decoded name may have been cut. */
static enum status check_names(const struct request *q, const void *message, uint32_t message_bytes,
                               struct failure *f)
{
    return text_check(message, message_bytes, q->names, COUNT(q->names), f);
}

enum status decode_hello(const void *message, uint32_t message_bytes, struct hello *out,
                         struct failure *f)
{
    static const struct text_rule rules[] = {
        {"client_name", 3, 64, DETAIL_BAD_NAME, true},
        {"space", 4, 128, DETAIL_BAD_SPACE, false},
    };
    enum status st = text_check(message, message_bytes, rules, COUNT(rules), f);
    if (st) return st;
    engram_accel_v1_HelloRequest m;
    st = decode_message(message, message_bytes, engram_accel_v1_HelloRequest_fields, &m, f);
    if (st) return st;
    if (m.version_min > m.version_max)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_VERSION,
                           "version: from %" PRIu32 " to %" PRIu32, m.version_min, m.version_max);

    *out = (struct hello){
        .version_min = m.version_min,
        .version_max = m.version_max,
        .features = m.features,
        .token_bytes = m.token.size,
    };
    if (m.has_expect) out->expect = (struct state_name){m.expect.instance, m.expect.generation, 0};
    memcpy(out->client_name, m.client_name, sizeof out->client_name);
    memcpy(out->space, m.space, sizeof out->space);
    memcpy(out->token, m.token.bytes, m.token.size);
    return STATUS_OK;
}

static enum status decode_by(const struct request *q, const struct frame_header *header,
                             const void *message, void *body, enum status (*check)(struct job *),
                             struct job *j)
{
    union request_message m;
    struct body_field tensors[TENSORS_MAX];
    enum status st = check_names(q, message, header->message_bytes, &j->failure);
    if (!st) st = decode_message(message, header->message_bytes, q->message, &m, &j->failure);
    if (st) return st;
    size_t count = q->take(&m, &j->request, tensors);
    /* Checks read tensors, so they follow body_place. Without tensors the check comes first, so
     * that errors of the message are reported before those of the body. */
    if (!count && check) st = check(j);
    if (!st) st = body_place(tensors, count, body, header->body_bytes, &j->failure);
    if (!st && count && check) st = check(j);
    if (!st) st = body_check_padding(tensors, count, &j->failure);
    return st;
}

enum status decode_request(const struct frame_header *header, const void *message, void *body,
                           enum status (*check)(struct job *j), struct job *j)
{
    memset(&j->request, 0, sizeof j->request);
    j->operation = OPERATION_NONE;
    j->failure = (struct failure){0};
    const struct request *q = header->kind < OPERATION_MAX ? &requests[header->kind] : NULL;
    if (!q || !q->message)
        return failure_set(&j->failure, STATUS_UNIMPLEMENTED, DETAIL_UNKNOWN_KIND,
                           "frame: unknown kind %u", header->kind);
    j->operation = header->kind;
    if (j->operation == OPERATION_HELLO)
        return failure_set(&j->failure, STATUS_FAILED_PRECONDITION, DETAIL_HELLO_REQUIRED,
                           "hello: only as a connection's first frame");
    return decode_by(q, header, message, body, check, j);
}
