/* Encodes replies about collections, graphs and attractors alike. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_SwapReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_ChangesReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every reply");

size_t encode_swap(const struct job *j, void *buffer)
{
    engram_accel_v1_SwapReply m = {
        .has_meta = true,
        .meta = encode_meta(j),
        .replaced_version = j->result.counts[0],
    };
    struct frame_header h = {.kind = OPERATION_SWAP, .request_id = j->key.request_id};
    return encode_frame(h, engram_accel_v1_SwapReply_fields, &m, buffer);
}

size_t encode_changes(const struct job *j, const struct wire_object *objects, size_t count,
                      bool more, uint64_t total, void *buffer)
{
    engram_accel_v1_ChangesReply m;
    m.has_meta = true;
    m.meta = encode_meta(j);
    m.objects_count = 0;
    m.more = more || count > COUNT(m.objects);
    m.total = total;
    while (m.objects_count < count && m.objects_count < COUNT(m.objects)) {
        const struct wire_object *o = &objects[m.objects_count];
        engram_accel_v1_ObjectVersion *to = &m.objects[m.objects_count++];
        to->object = (engram_accel_v1_ObjectKind)o->kind;
        to->version = o->version;
        COPY_TEXT(to->name, o->name);
    }
    struct frame_header h = {.kind = OPERATION_CHANGES, .request_id = j->key.request_id};
    return encode_frame(h, engram_accel_v1_ChangesReply_fields, &m, buffer);
}
