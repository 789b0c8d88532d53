/* attractor: replies about attractors, and completions. */
#include <string.h>

#include "client/replies/replies.h"

void ea_reply_attractor(const engram_accel_v1_AttractorInfo *m, ea_attractor_info *out)
{
    *out = (ea_attractor_info){
        .dimension = m->dimension,
        .kept = m->kept,
        .sparsity = m->sparsity,
        .rate = m->rate,
        .version = m->version,
        .patterns = m->patterns,
        .weight_bytes = m->weight_bytes,
        .dentate_bytes = m->dentate_bytes,
    };
    memcpy(out->name, m->name, sizeof out->name);
    ea_text_plain(out->name);
}

/* Create and describe differ in the field that holds the attractor. */
ea_status ea_reply_parse_attractor_info(struct client_request *r, const void *message,
                                        uint32_t bytes, struct note *note)
{
    engram_accel_v1_AttractorCreateReply create = {0};
    engram_accel_v1_AttractorDescribeReply describe = {0};
    bool creates = r->kind == engram_accel_v1_Kind_KIND_ATTRACTOR_CREATE;
    const pb_msgdesc_t *fields = creates ? engram_accel_v1_AttractorCreateReply_fields
                                         : engram_accel_v1_AttractorDescribeReply_fields;
    void *to = creates ? (void *)&create : (void *)&describe;
    ea_status st = ea_reply_decode(message, bytes, fields, to, note);
    if (st) return st;
    if (creates ? !create.has_attractor : !describe.has_attractor)
        return ea_reply_broken(note, "names no attractor");
    ea_reply_attractor(creates ? &create.attractor : &describe.attractor, r->answer);
    return EA_OK;
}

ea_status ea_reply_parse_attractor_drop(struct client_request *r, const void *message,
                                        uint32_t bytes, struct note *note)
{
    engram_accel_v1_AttractorDropReply m;
    (void)r;
    return ea_reply_decode(message, bytes, engram_accel_v1_AttractorDropReply_fields, &m, note);
}

ea_status ea_reply_parse_learned(struct client_request *r, const void *message, uint32_t bytes,
                                 struct note *note)
{
    engram_accel_v1_AttractorLearnReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_AttractorLearnReply_fields, &m, note);
    if (st) return st;
    *(ea_learned *)r->answer = (ea_learned){
        .learned = m.learned,
        .patterns = m.patterns,
        .version = m.attractor_version,
        .collection_version = m.collection_version,
    };
    return EA_OK;
}

ea_status ea_reply_parse_weights_set(struct client_request *r, const void *message, uint32_t bytes,
                                     struct note *note)
{
    engram_accel_v1_AttractorSetReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_AttractorSetReply_fields, &m, note);
    if (st) return st;
    *(ea_learned *)r->answer = (ea_learned){.patterns = m.patterns, .version = m.meta.version};
    return EA_OK;
}

ea_status ea_reply_parse_attractor_weights(struct client_request *r, const void *message,
                                           uint32_t bytes, uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_AttractorFetchReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_AttractorFetchReply_fields, &m, note);
    struct layout l = {.note = note};
    if (!st) st = PLACE(&l, m, weights, F32, r->result.vectors);
    if (st) return st;
    uint64_t d = m.weights.rows;
    if (!m.has_weights || d < 1 || d > EA_ATTRACTOR_DIMENSION_MAX || !shaped(&m.weights, d, d))
        return ea_reply_misfit(&l, "weights", &m.weights);
    r->result.rows = r->result.columns = d;
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

/* A column has one number for each cue; that of nothing may be absent. */
#define COLUMN(m, member, rows)                                   \
    ((m).has_##member ? shaped(&(m).member, (rows), 1) : !(rows)) \
        ? EA_OK                                                   \
        : ea_reply_misfit(&l, #member, &(m).member)

ea_status ea_reply_parse_engine_completed(struct client_request *r, const void *message,
                                          uint32_t bytes, uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_CompleteEngineReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_CompleteEngineReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_engine_completed *out = r->answer;
    *out = (ea_engine_completed){0};
    if (!st) st = PLACE(&l, m, states, F32, out->states);
    if (!st) st = PLACE(&l, m, confidences, F32, out->confidences);
    if (!st) st = PLACE(&l, m, rounds, U32, out->rounds);
    if (!st) st = PLACE(&l, m, converged, U8, out->converged);
    if (!st) st = PLACE(&l, m, ids, U64, out->ids);
    if (!st) st = PLACE(&l, m, cosines, F32, out->cosines);
    if (!st) st = PLACE(&l, m, passes, U8, out->passes);
    if (st) return st;
    uint64_t rows = r->expect.rows, compared = r->expect.stored ? rows : 0;
    if (m.has_states ? !shaped(&m.states, rows, r->expect.dimension) : rows != 0)
        return ea_reply_misfit(&l, "states", &m.states);
    st = COLUMN(m, confidences, rows);
    if (!st) st = COLUMN(m, rounds, rows);
    if (!st) st = COLUMN(m, converged, rows);
    if (!st) st = COLUMN(m, ids, compared);
    if (!st) st = COLUMN(m, cosines, compared);
    if (!st) st = COLUMN(m, passes, compared);
    if (st) return st;
    out->rows = rows;
    out->columns = r->expect.dimension;
    out->attractor_version = m.attractor_version;
    out->collection_version = m.collection_version;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}
