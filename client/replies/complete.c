/* complete: replies of completions. */
#include "client/replies/replies.h"

ea_status ea_reply_parse_completed(struct client_request *r, const void *message, uint32_t bytes,
                                   uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_CompleteReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_CompleteReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_completed *out = r->answer;
    *out = (ea_completed){0};
    if (!st) st = PLACE(&l, m, states, F32, out->states);
    if (!st) st = PLACE(&l, m, rounds, U32, out->rounds);
    if (!st) st = PLACE(&l, m, converged, U8, out->converged);
    if (!st) st = PLACE(&l, m, energies, F32, out->energies);
    if (!st) st = PLACE(&l, m, ids, U64, out->ids);
    if (!st) st = PLACE(&l, m, cosines, F32, out->cosines);
    if (st) return st;
    uint64_t n = r->expect.rows;
    if (!m.has_states || !shaped(&m.states, n, r->expect.dimension))
        return ea_reply_misfit(&l, "states", &m.states);
    const struct {
        const char *name;
        bool present;
        const engram_accel_v1_Tensor *tensor;
    } columns[] = {
        {"rounds", m.has_rounds, &m.rounds},       {"converged", m.has_converged, &m.converged},
        {"energies", m.has_energies, &m.energies}, {"ids", m.has_ids, &m.ids},
        {"cosines", m.has_cosines, &m.cosines},
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!columns[i].present || !shaped(columns[i].tensor, n, 1))
            return ea_reply_misfit(&l, columns[i].name, columns[i].tensor);
    out->rows = n;
    out->columns = r->expect.dimension;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}
