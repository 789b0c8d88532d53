/* covariance: replies with a mean and a covariance. */
#include "client/replies/replies.h"

ea_status ea_reply_parse_covariance(struct client_request *r, const void *message, uint32_t bytes,
                                    uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_CovarianceReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_CovarianceReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_covariance_result *out = r->answer;
    *out = (ea_covariance_result){0};
    if (!st) st = PLACE(&l, m, mean, F64, out->mean);
    if (!st) st = PLACE(&l, m, covariance, F64, out->covariance);
    if (st) return st;
    /* A collection's dimension is what the reply says. */
    uint64_t d = r->expect.dimension ? r->expect.dimension : m.mean.columns;
    if (r->expect.dry && (m.has_mean || m.has_covariance))
        return ea_reply_misfit(&l, "mean", &m.mean);
    if (r->expect.dry) {
        st = ea_reply_memory(&l, r, body_bytes, &m.meta);
        out->meta = r->result.meta;
        return st;
    }
    if (!m.has_mean || d < 1 || !shaped(&m.mean, 1, d)) return ea_reply_misfit(&l, "mean", &m.mean);
    if (!m.has_covariance || !shaped(&m.covariance, d, d))
        return ea_reply_misfit(&l, "covariance", &m.covariance);
    out->rows = m.rows;
    out->dimension = d;
    out->total = m.total;
    out->divisor = m.divisor;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}
