/* request: taken from a small pool, filled, submitted, completed or abandoned, released. */
#include "client/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pb_encode.h>

_Static_assert(EA_HEADER_BYTES + engram_accel_v1_HelloRequest_size + EA_ALIGN <= EA_HEAD_BYTES_MAX,
               "a head holds the longest request message");
_Static_assert(EA_HEADER_BYTES + engram_accel_v1_SpreadRequest_size + EA_ALIGN <= EA_HEAD_BYTES_MAX,
               "also a spread's");
_Static_assert(EA_HEADER_BYTES + engram_accel_v1_UnbindRequest_size + EA_ALIGN <= EA_HEAD_BYTES_MAX,
               "also an unbinding's");
_Static_assert(sizeof(struct wire_head) == EA_HEADER_BYTES, "the header has no gaps");

enum { FREE_MAX = 256 };

static const uint8_t zeros[EA_ALIGN];

/* ---- pool and lists ---- */

struct client_request *ea_request_take(ea_client *c, uint8_t kind)
{
    struct client_request *r = c->free_list;
    if (r) {
        c->free_list = r->next;
        c->free_count--;
    } else if (!(r = malloc(sizeof *r))) {
        ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for a request");
        return NULL;
    }
    memset(r, 0, offsetof(struct client_request, pieces));
    r->kind = kind;
    r->repeatable = true;
    r->piece_count = 1; /* the head */
    r->piece_at = 0;
    r->piece_offset = 0;
    r->body_bytes = 0;
    ((struct wire_head *)r->head)->message_bytes = 0;
    return r;
}

void ea_request_release(ea_client *c, struct client_request *r)
{
    ea_result_free(&r->result);
    ea_answer_drop(r);
    if (c->free_count >= FREE_MAX) {
        free(r);
        return;
    }
    r->next = c->free_list;
    c->free_list = r;
    c->free_count++;
}

static void list_add(struct request_list *list, struct client_request *r)
{
    r->next = NULL;
    r->previous = list->last;
    if (list->last)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
}

static void list_remove(struct request_list *list, struct client_request *r)
{
    if (r->previous)
        r->previous->next = r->next;
    else
        list->first = r->next;
    if (r->next)
        r->next->previous = r->previous;
    else
        list->last = r->previous;
}

struct client_request *ea_request_find(ea_client *c, uint64_t id)
{
    struct client_request *r = c->buckets[id % EA_BUCKETS];
    while (r && r->id != id)
        r = r->bucket_next;
    return r;
}

static void pending_add(ea_client *c, struct client_request *r)
{
    struct client_request **bucket = &c->buckets[r->id % EA_BUCKETS];
    r->bucket_next = *bucket;
    *bucket = r;
    list_add(&c->pending, r);
    if (r->owner == OWNER_CALLBACK) c->callback_count++;
}

static void pending_remove(ea_client *c, struct client_request *r)
{
    struct client_request **at = &c->buckets[r->id % EA_BUCKETS];
    while (*at != r)
        at = &(*at)->bucket_next;
    *at = r->bucket_next;
    list_remove(&c->pending, r);
}

static bool is_cancel(const struct client_request *r)
{
    return r->kind == engram_accel_v1_Kind_KIND_CANCEL;
}

/* ---- filling ---- */

ea_status ea_check_name(ea_client *c, const char *field, const char *name, char *out)
{
    if (!name)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME, "%s: no name given", field);
    size_t bytes = strnlen(name, EA_NAME_MAX + 1);
    if (bytes > EA_NAME_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME,
                       "%s: a name has at most %d bytes", field, EA_NAME_MAX);
    memcpy(out, name, bytes + 1);
    return EA_OK;
}

ea_status ea_check_dimension(ea_client *c, uint32_t dimension)
{
    if (dimension >= 1 && dimension <= EA_DIMENSION_MAX) return EA_OK;
    return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                   "dimension: %" PRIu32 ", 1 to %d wanted", dimension, EA_DIMENSION_MAX);
}

ea_status ea_request_message(ea_client *c, struct client_request *r, const pb_msgdesc_t *fields,
                             const void *message)
{
    if (!fields) return EA_OK;
    pb_ostream_t out =
        pb_ostream_from_buffer(r->head + EA_HEADER_BYTES, EA_HEAD_BYTES_MAX - EA_HEADER_BYTES);
    if (!pb_encode(&out, fields, message))
        return ea_fail(c, EA_INTERNAL, EA_DETAIL_BAD_MESSAGE, "message: %s", PB_GET_ERROR(&out));
    ((struct wire_head *)r->head)->message_bytes = (uint32_t)out.bytes_written;
    return EA_OK;
}

static uint64_t element_bytes(engram_accel_v1_Dtype dtype)
{
    switch (dtype) {
    case engram_accel_v1_Dtype_DTYPE_UINT64:
    case engram_accel_v1_Dtype_DTYPE_FLOAT64: return 8;
    case engram_accel_v1_Dtype_DTYPE_FLOAT32:
    case engram_accel_v1_Dtype_DTYPE_UINT32: return 4;
    case engram_accel_v1_Dtype_DTYPE_UINT8:
    case engram_accel_v1_Dtype_DTYPE_UNSPECIFIED: break;
    }
    return 1;
}

static void add_piece(struct client_request *r, const void *data, size_t bytes)
{
    if (bytes) r->pieces[r->piece_count++] = (struct iovec){(void *)data, bytes};
}

ea_status ea_request_tensor(ea_client *c, struct client_request *r, const char *name, bool *present,
                            engram_accel_v1_Tensor *wire, engram_accel_v1_Dtype dtype,
                            const void *data, uint64_t rows, uint64_t columns)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, element_bytes(dtype), &bytes) || bytes > INT64_MAX / 8)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "%s: %" PRIu64 " x %" PRIu64 " do not fit in memory", name, rows, columns);
    if (bytes && !data)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "%s: NULL for %" PRIu64 " rows",
                       name, rows);
    *present = true;
    *wire = (engram_accel_v1_Tensor){.dtype = dtype, .rows = rows, .columns = columns};
    add_piece(r, data, bytes);
    add_piece(r, zeros, ea_align(bytes) - bytes);
    r->body_bytes += ea_align(bytes);
    return EA_OK;
}

engram_accel_v1_Tensor ea_request_pieces(struct client_request *r, engram_accel_v1_Dtype dtype,
                                         const struct iovec pieces[3], uint64_t rows,
                                         uint64_t columns)
{
    uint64_t bytes = rows * columns * element_bytes(dtype);
    for (int i = 0; i < 3; i++)
        add_piece(r, pieces[i].iov_base, pieces[i].iov_len);
    add_piece(r, zeros, ea_align(bytes) - bytes);
    r->body_bytes += ea_align(bytes);
    return (engram_accel_v1_Tensor){.dtype = dtype, .rows = rows, .columns = columns};
}

ea_status ea_request_filter(ea_client *c, struct client_request *r, const char *field,
                            const ea_filter *given, bool *has_filter, engram_accel_v1_Filter *m,
                            uint64_t *allowed)
{
    *allowed = UINT64_MAX;
    if (!given) return EA_OK;
    EA_TAKE(c, filter, f, given);
    const ea_filter *filter = &f;
    *has_filter = true;
    if (!filter->bitmap) {
        *allowed = filter->id_count;
        return ea_request_tensor(c, r, "ids", &m->has_ids, &m->ids,
                                 engram_accel_v1_Dtype_DTYPE_UINT64, filter->ids, filter->id_count,
                                 1);
    }
    if (filter->ids || filter->id_count)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_FILTER,
                       "%s: ids and bitmap exclude each other", field);
    m->bitmap_first = filter->bitmap_first;
    return ea_request_tensor(c, r, "bitmap", &m->has_bitmap, &m->bitmap,
                             engram_accel_v1_Dtype_DTYPE_UINT8, filter->bitmap,
                             filter->bitmap_bytes, 1);
}

ea_status ea_build_end(ea_client *c, struct client_request *r, ea_status st,
                       const pb_msgdesc_t *fields, const void *message, struct client_request **out)
{
    if (!st) st = ea_request_message(c, r, fields, message);
    if (st)
        ea_request_release(c, r);
    else
        *out = r;
    return st;
}

/* ---- what a write expects ---- */

enum { FIELD_WRITE = 15 }; /* in every request that writes */

#define WRITES_READ  0
#define WRITES_WRITE 1
#define WRITES_DROP  1
static bool writes(uint8_t kind)
{
    uint32_t count = kind == engram_accel_v1_Kind_KIND_COLLECTION_CREATE ||
                     kind == engram_accel_v1_Kind_KIND_GRAPH_CREATE ||
                     kind == engram_accel_v1_Kind_KIND_ATTRACTOR_CREATE ||
                     kind == engram_accel_v1_Kind_KIND_SWAP;
#define OPERATION(NAME, number, name, needs, access, ...) \
    count += WRITES_##access && kind == (number);
#define ALSO(NAME, slot, what, access, ...) \
    count += WRITES_##access && kind == engram_accel_v1_Kind_KIND_##NAME;
#include "proto/operations.def"
    return count > 0;
}

ea_status ea_request_write(ea_client *c, struct client_request *r, const ea_write *given)
{
    if (!given) return EA_OK;
    if (r->has_write || !writes(r->kind))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_NONE, "write: %s",
                       r->has_write ? "given twice" : "the request changes nothing");
    EA_TAKE(c, write, w, given);
    engram_accel_v1_WriteOptions m = {.version = w.version, .at_least = w.at_least};
    memcpy(&m.token_low, w.token, sizeof m.token_low);
    memcpy(&m.token_high, w.token + sizeof m.token_low, sizeof m.token_high);
    bool has_token = m.token_low || m.token_high;
    struct wire_head *h = (struct wire_head *)r->head;
    size_t used = EA_HEADER_BYTES + h->message_bytes;
    pb_ostream_t out = pb_ostream_from_buffer(r->head + used, EA_HEAD_BYTES_MAX - used);
    if (!pb_encode_tag(&out, PB_WT_STRING, FIELD_WRITE) ||
        !pb_encode_submessage(&out, engram_accel_v1_WriteOptions_fields, &m))
        return ea_fail(c, EA_INTERNAL, EA_DETAIL_BAD_MESSAGE, "message: %s", PB_GET_ERROR(&out));
    h->message_bytes += (uint32_t)out.bytes_written;
    r->has_write = true;
    /* Without a token it would not find any more what it expects. */
    if (has_token || w.version) r->repeatable = has_token;
    return EA_OK;
}

ea_status ea_build_write(ea_client *c, struct client_request *r, ea_status st,
                         const pb_msgdesc_t *fields, const void *message, const ea_write *write,
                         struct client_request **out)
{
    if (!st) st = ea_request_message(c, r, fields, message);
    if (!st) st = ea_request_write(c, r, write);
    return ea_build_end(c, r, st, NULL, NULL, out);
}

ea_status ea_build_change(ea_client *c, struct client_request *r, ea_status st,
                          const pb_msgdesc_t *fields, const void *message,
                          struct client_request **out)
{
    const ea_write *next = c->has_next_write ? &c->next_write : NULL;
    c->has_next_write = false;
    return ea_build_write(c, r, st, fields, message, next, out);
}

ea_status ea_next_write(ea_client *c, const ea_write *write)
{
    if (!c) return EA_INVALID_ARGUMENT;
    c->has_next_write = write != NULL;
    if (write) ea_copy_struct(&c->next_write, sizeof c->next_write, write, c->sizes.write);
    return EA_OK;
}

/* ---- what any request expects ---- */

enum { FIELD_EXPECT = 100 }; /* in every request */

ea_status ea_request_expect(ea_client *c, struct client_request *r, const ea_state *state)
{
    struct wire_head *h = (struct wire_head *)r->head;
    size_t used = EA_HEADER_BYTES + h->message_bytes;
    engram_accel_v1_Expect m = {
        .instance = state->instance, .generation = state->generation, .version = state->version};
    pb_ostream_t out = pb_ostream_from_buffer(r->head + used, EA_HEAD_BYTES_MAX - used);
    if (!pb_encode_tag(&out, PB_WT_STRING, FIELD_EXPECT) ||
        !pb_encode_submessage(&out, engram_accel_v1_Expect_fields, &m))
        return ea_fail(c, EA_INTERNAL, EA_DETAIL_BAD_MESSAGE, "message: %s", PB_GET_ERROR(&out));
    h->message_bytes += (uint32_t)out.bytes_written;
    r->has_expect = true;
    return EA_OK;
}

ea_status ea_expect(ea_client *c, const ea_state *state)
{
    if (!c) return EA_INVALID_ARGUMENT;
    c->expects = state != NULL;
    if (state) ea_copy_struct(&c->expect, sizeof c->expect, state, c->sizes.state);
    return EA_OK;
}

/* ---- submitting ---- */

static void note_deadline(ea_client *c, const struct client_request *r)
{
    if (r->deadline_ns && r->deadline_ns < c->nearest_deadline_ns)
        c->nearest_deadline_ns = r->deadline_ns;
}

static void prepare(ea_client *c, struct client_request *r)
{
    struct wire_head *h = (struct wire_head *)r->head;
    uint32_t message_bytes = h->message_bytes;
    r->id = c->next_id++;
    *h = (struct wire_head){
        .magic = EA_MAGIC,
        .version = EA_PROTOCOL_VERSION,
        .kind = r->kind,
        .request_id = r->id,
        .message_bytes = message_bytes,
        .body_bytes = r->body_bytes,
    };
    size_t used = EA_HEADER_BYTES + message_bytes;
    memset(r->head + used, 0, ea_align(used) - used);
    r->pieces[0] = (struct iovec){r->head, ea_align(used)};
}

ea_status ea_submit(ea_client *c, struct client_request *r)
{
    if (c->link == LINK_READY && r->body_bytes > c->limits.body_bytes_max)
        return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_BODY_TOO_LARGE,
                       "request of %" PRIu64 " bytes, the daemon takes at most %" PRIu64,
                       r->body_bytes, c->limits.body_bytes_max);
    if (c->expects && !r->has_expect && r->kind != engram_accel_v1_Kind_KIND_HELLO) {
        ea_status st = ea_request_expect(c, r, &c->expect);
        if (st) return st;
    }
    if (r->owner == OWNER_CALL) {
        r->progress = c->on_progress;
        r->user = c->on_progress_user;
    }
    prepare(c, r);
    r->losses = c->losses;
    pending_add(c, r);
    note_deadline(c, r);
    /* other requests may have been queued before it */
    bool first = r->kind == engram_accel_v1_Kind_KIND_HELLO;
    r->output_next = first ? c->output_first : NULL;
    if (first || !c->output_first)
        c->output_first = r;
    else
        c->output_last->output_next = r;
    if (!r->output_next) c->output_last = r;
    return EA_OK;
}

/* Queued before all requests that have not begun: they may wait for the one that it cancels. */
void ea_submit_cancel(ea_client *c, uint64_t request_id)
{
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CANCEL);
    if (!r) return; /* without memory for it, the daemon does unneeded work */
    engram_accel_v1_CancelRequest m = {.request_id = request_id};
    ea_request_message(c, r, engram_accel_v1_CancelRequest_fields, &m);
    r->owner = OWNER_LIBRARY;
    prepare(c, r);
    pending_add(c, r);
    struct client_request **at = &c->output_first;
    while (*at && ((*at)->begun || is_cancel(*at)))
        at = &(*at)->output_next;
    r->output_next = *at;
    *at = r;
    if (!r->output_next) c->output_last = r;
}

void ea_request_rewind(struct client_request *r)
{
    r->begun = r->sent = r->answered = r->done = r->lost = false;
    r->piece_at = 0;
    r->piece_offset = 0;
    r->note = (struct note){0};
    ea_result_free(&r->result);
}

static void output_remove(ea_client *c, struct client_request *r)
{
    struct client_request *before = NULL, **at = &c->output_first;
    while (*at && *at != r) {
        before = *at;
        at = &before->output_next;
    }
    if (!*at) return;
    *at = r->output_next;
    if (c->output_last == r) c->output_last = before;
}

/* ---- ending ---- */

void ea_request_end(ea_client *c, struct client_request *r)
{
    pending_remove(c, r);
    if (r->begun && !is_cancel(r)) c->in_flight--;
    if (r->note.code) ea_result_free(&r->result);
    r->done = true;
    c->completions++;
    if (r->kind == engram_accel_v1_Kind_KIND_HELLO)
        ea_connect_answered(c, r);
    else if (r->owner == OWNER_CALLBACK)
        list_add(&c->done, r);
    else if (r->owner == OWNER_LIBRARY) {
        if (!is_cancel(r)) c->abandoned_count--;
        ea_request_release(c, r);
    }
}

/* Leaves a placeholder for an ended request, so that its late reply has one to belong to. */
static bool leave_placeholder(ea_client *c, uint8_t kind, uint64_t id)
{
    if (c->abandoned_count >= EA_ABANDONED_MAX) return false;
    struct client_request *late = ea_request_take(c, kind);
    if (!late) return false;
    late->owner = OWNER_LIBRARY;
    late->id = id;
    late->begun = late->sent = true;
    pending_add(c, late);
    c->in_flight++;
    c->abandoned_count++;
    return true;
}

void ea_abandon(ea_client *c, struct client_request *r)
{
    struct note note = r->note;
    if (!r->begun) {
        output_remove(c, r);
        ea_request_end(c, r);
        return;
    }
    if (c->reading == r && r->sent) { /* its reply is being read: the rest is skipped */
        c->reading = NULL;
        ea_request_end(c, r);
        return;
    }
    bool kept = r->sent;
    uint8_t kind = r->kind;
    uint64_t id = r->id;
    ea_request_end(c, r);
    if (kept && leave_placeholder(c, kind, id)) {
        ea_submit_cancel(c, id);
        return;
    }
    /* Half a frame has been sent and its arrays are the caller's again, or the daemon has left too
     * many requests unanswered: in both cases the connection is given up. */
    struct note lost;
    ea_note_set(&lost, EA_UNAVAILABLE, 0, "gave the connection up: %s", note.text);
    ea_lose(c, &lost, true);
}
