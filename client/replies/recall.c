/* recall: replies to recalls. */
#include "client/replies/replies.h"

static ea_status place(struct layout *l, const engram_accel_v1_RecallReply *m,
                       ea_recall_result *out)
{
    ea_status st = PLACE(l, *m, offsets, U64, out->offsets);
    if (!st) st = PLACE(l, *m, ids, U64, out->ids);
    if (!st) st = PLACE(l, *m, activations, F32, out->activations);
    if (!st) st = PLACE(l, *m, scores, F32, out->scores);
    if (!st) st = PLACE(l, *m, marks, U8, out->marks);
    if (!st) st = PLACE(l, *m, depths, U32, out->depths);
    if (!st) st = PLACE(l, *m, seeds, U32, out->seeds);
    if (!st) st = PLACE(l, *m, hops, U32, out->hops);
    if (!st) st = PLACE(l, *m, touched, U64, out->touched);
    if (!st) st = PLACE(l, *m, truncated, U8, out->truncated);
    if (!st) st = PLACE(l, *m, path_offsets, U64, out->path_offsets);
    if (!st) st = PLACE(l, *m, path_ids, U64, out->path_ids);
    return st;
}

/* Checks that the tensors have the shapes of so many lists and entries. */
static ea_status check_shapes(struct layout *l, const engram_accel_v1_RecallReply *m,
                              uint64_t lists, uint64_t n, bool paths)
{
    const struct {
        const char *name;
        const engram_accel_v1_Tensor *tensor;
        uint64_t rows, columns;
    } all[] = {
        {"offsets", &m->offsets, lists + 1, 1},
        {"ids", &m->ids, n, 1},
        {"activations", &m->activations, n, 1},
        {"scores", &m->scores, n, 1},
        {"marks", &m->marks, n, 1},
        {"depths", &m->depths, n, 1},
        {"seeds", &m->seeds, lists, 2},
        {"hops", &m->hops, lists, 1},
        {"touched", &m->touched, lists, 1},
        {"truncated", &m->truncated, lists, 1},
        {"path_offsets", &m->path_offsets, paths ? n + 1 : 0, 1},
        {"path_ids", &m->path_ids, paths ? m->path_ids.rows : 0, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].rows ? !shaped(all[i].tensor, all[i].rows, all[i].columns) : all[i].tensor->rows)
            return ea_reply_misfit(l, all[i].name, all[i].tensor);
    return EA_OK;
}

ea_status ea_reply_parse_recall(struct client_request *r, const void *message, uint32_t bytes,
                                uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_RecallReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_RecallReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_recall_result *out = r->answer;
    *out = (ea_recall_result){0};
    if (!st) st = place(&l, &m, out);
    uint64_t lists = r->expect.queries, n = m.has_ids ? m.ids.rows : 0;
    if (!st) st = check_shapes(&l, &m, lists, n, r->expect.paths);
    if (st) return st;
    out->lists = lists;
    out->count = n;
    out->seek_ns = m.seek_ns;
    out->spread_ns = m.spread_ns;
    out->rank_ns = m.rank_ns;
    out->graph_version = m.graph_version;
    out->embeddings_version = m.embeddings_version;
    out->collection_version = m.collection_version;
    r->result.columns = m.path_ids.rows;
    st = ea_reply_memory(&l, r, body_bytes, &m.meta);
    out->meta = r->result.meta;
    return st;
}

ea_status ea_reply_check_recall(const struct client_request *r, struct note *note)
{
    const ea_recall_result *out = r->answer;
    if (!ea_reply_rising(out->offsets, out->lists, out->count, 0, r->expect.columns_max))
        return ea_reply_broken(note, "offsets do not rise from 0 to the number of entries");
    if (!r->expect.paths) return EA_OK;
    const struct paths paths = {out->ids, out->count, out->path_offsets, out->path_ids,
                                r->result.columns};
    return ea_reply_check_paths(&paths, note);
}
