/* Encodes replies about collections, graphs and attractors alike. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_SwapReply_size, ENCODE_BYTES_MAX),
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
