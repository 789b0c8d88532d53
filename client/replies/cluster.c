/* cluster: replies to clusterings. */
#include "client/replies/replies.h"

/* An empty tensor may be absent. */
static bool fits(bool present, const engram_accel_v1_Tensor *t, uint64_t rows, uint64_t columns)
{
    return present ? shaped(t, rows, columns) : rows == 0;
}

ea_status ea_reply_parse_clusters(struct client_request *r, const void *message, uint32_t bytes,
                                  uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_ClusterReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_ClusterReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_clusters *out = r->answer;
    *out = (ea_clusters){0};
    if (!st) st = PLACE(&l, m, labels, U32, out->labels);
    if (!st) st = PLACE(&l, m, sizes, U32, out->sizes);
    if (!st) st = PLACE(&l, m, scores, F32, out->scores);
    if (!st) st = PLACE(&l, m, centroids, F32, out->centroids);
    if (!st) st = PLACE(&l, m, ids, U64, out->ids);
    if (st) return st;
    bool all = r->expect.by_position; /* the rows of a collection, as many as there are */
    uint64_t rows = r->expect.dry ? 0 : all ? m.labels.rows : r->expect.rows;
    uint64_t count = m.has_sizes ? m.sizes.rows : 0;
    uint64_t dimension = r->expect.dimension ? r->expect.dimension : m.centroids.columns;
    if (r->expect.dry ? m.has_labels : !m.has_labels || !shaped(&m.labels, rows, 1))
        return ea_reply_misfit(&l, "labels", &m.labels);
    if (count > rows || !fits(m.has_sizes, &m.sizes, count, 1))
        return ea_reply_misfit(&l, "sizes", &m.sizes);
    if (!fits(m.has_scores, &m.scores, count, 1)) return ea_reply_misfit(&l, "scores", &m.scores);
    if (!fits(m.has_centroids, &m.centroids, count, dimension) || dimension > UINT32_MAX)
        return ea_reply_misfit(&l, "centroids", &m.centroids);
    if (!fits(m.has_ids, &m.ids, all ? rows : 0, 1)) return ea_reply_misfit(&l, "ids", &m.ids);
    out->rows = rows;
    out->count = count;
    out->dimension = (uint32_t)dimension;
    out->merges = m.merges;
    out->scans = m.scans;
    out->inserted = m.inserted;
    out->replaced = m.replaced;
    out->collection_version = m.collection_version;
    out->into_version = m.into_version;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}

ea_status ea_reply_check_clusters(const struct client_request *r, struct note *note)
{
    const ea_clusters *out = r->answer;
    for (uint64_t i = 0; i < out->rows; i++)
        if (out->labels[i] >= out->count && out->labels[i] != EA_NO_CLUSTER)
            return ea_reply_broken(note, "a label is that of no cluster");
    return EA_OK;
}
