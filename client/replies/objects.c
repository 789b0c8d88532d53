/* Replies about collections, graphs and attractors alike. */
#include "client/replies/replies.h"

ea_status ea_reply_parse_swapped(struct client_request *r, const void *message, uint32_t bytes,
                                 struct note *note)
{
    engram_accel_v1_SwapReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_SwapReply_fields, &m, note);
    if (st) return st;
    *(ea_swapped *)r->answer =
        (ea_swapped){.version = m.meta.version, .replaced_version = m.replaced_version};
    return EA_OK;
}
