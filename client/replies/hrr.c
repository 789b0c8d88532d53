/* hrr: replies of holographic operations. */
#include "client/replies/replies.h"

ea_status ea_reply_parse_holographic(struct client_request *r, const void *message, uint32_t bytes,
                                     uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_HolographicReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_HolographicReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_hrr_result *out = r->answer;
    *out = (ea_hrr_result){0};
    if (!st) st = PLACE(&l, m, rows, engram_accel_v1_Dtype_DTYPE_FLOAT32, out->vectors);
    if (st) return st;
    const struct expectation *e = &r->expect;
    uint64_t columns = e->dimension;
    /* Without rows sent along the results have the collections' dimension. */
    if (!columns && m.rows.columns <= EA_DIMENSION_MAX) columns = m.rows.columns;
    if (m.has_rows ? e->stored || !columns || !shaped(&m.rows, e->rows, columns) : !e->stored)
        return ea_reply_misfit(&l, "rows", &m.rows);
    out->rows = m.rows.rows;
    out->columns = m.rows.columns;
    out->inserted = m.inserted;
    out->replaced = m.replaced;
    out->into_rows = m.into_rows;
    out->a_version = m.a_version;
    out->b_version = m.b_version;
    out->into_version = m.into_version;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}
