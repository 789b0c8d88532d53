/* replies: turns a reply's message into a result. Nothing is trusted: every shape must follow from
 * the request, and together the tensors must fill the body, so that no reader of a result leaves
 * its memory. */
#include "client/replies/replies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pb_decode.h>

#define COPY(to, from) memcpy((to), (from), sizeof(to) < sizeof(from) ? sizeof(to) : sizeof(from))

ea_status ea_reply_broken(struct note *note, const char *text)
{
    return ea_note_set(note, EA_DATA_LOSS, EA_DETAIL_BAD_MESSAGE, "the daemon's reply: %s", text);
}

ea_status ea_reply_decode(const void *message, uint32_t message_bytes, const pb_msgdesc_t *fields,
                          void *out, struct note *note)
{
    pb_istream_t in = pb_istream_from_buffer(message, message_bytes);
    return pb_decode(&in, fields, out) ? EA_OK : ea_reply_broken(note, PB_GET_ERROR(&in));
}

ea_status ea_reply_error(const void *message, uint32_t message_bytes, struct note *note)
{
    engram_accel_v1_Error m;
    ea_status st = ea_reply_decode(message, message_bytes, engram_accel_v1_Error_fields, &m, note);
    if (st) return st;
    ea_text_plain(m.message);
    note->code = m.code >= 1 && m.code <= 16 ? (ea_status)m.code : EA_UNKNOWN;
    note->detail = m.detail;
    note->retryable = m.retryable;
    note->retry_after_ms = m.retry_after_ms;
    note->version = m.version;
    note->instance = m.instance;
    note->generation = m.generation;
    note->loaded_percent = m.loaded_percent < 100 ? m.loaded_percent : 100;
    COPY(note->text, m.message);
    return note->code;
}

/* ---- tensors ---- */

static uint64_t dtype_bytes(engram_accel_v1_Dtype dtype)
{
    return dtype == U64 || dtype == F64 ? 8 : dtype == U8 ? 1 : 4;
}

ea_status ea_reply_place(struct layout *l, const char *name, bool present,
                         const engram_accel_v1_Tensor *t, engram_accel_v1_Dtype dtype,
                         const void **pointer)
{
    if (!present) return EA_OK;
    if (t->dtype != dtype)
        return ea_note_set(l->note, EA_DATA_LOSS, EA_DETAIL_BAD_SHAPE,
                           "the daemon's reply: %s: dtype %u", name, (unsigned)t->dtype);
    uint64_t bytes;
    if (__builtin_mul_overflow(t->rows, t->columns, &bytes) ||
        __builtin_mul_overflow(bytes, dtype_bytes(dtype), &bytes) ||
        bytes > INT64_MAX / 8 - l->used)
        return ea_note_set(l->note, EA_DATA_LOSS, EA_DETAIL_BAD_SHAPE,
                           "the daemon's reply: %s: %" PRIu64 " x %" PRIu64, name, t->rows,
                           t->columns);
    if (!bytes) return EA_OK;
    l->places[l->count].offset = l->used;
    l->places[l->count++].pointer = pointer;
    l->used += ea_align(bytes);
    return EA_OK;
}

ea_status ea_reply_misfit(struct layout *l, const char *name, const engram_accel_v1_Tensor *t)
{
    return ea_note_set(l->note, EA_DATA_LOSS, EA_DETAIL_BAD_SHAPE,
                       "the daemon's reply: %s: %" PRIu64 " x %" PRIu64 " do not fit the request",
                       name, t->rows, t->columns);
}

ea_meta ea_reply_meta(const engram_accel_v1_Meta *m, uint64_t instance)
{
    return (ea_meta){
        .backend = (ea_backend)m->backend,
        .reason = (uint32_t)m->reason,
        .queue_ns = m->queue_ns,
        .run_ns = m->run_ns,
        .copy_ns = m->copy_ns,
        .version = m->version,
        .predicted_ns = m->predicted_ns,
        .other_ns = m->other_ns,
        .wait_ns = m->wait_ns,
        .batch = m->batch,
        .total_ns = m->total_ns,
        .instance = m->instance ? m->instance : instance,
        .generation = m->generation,
        .screened = m->screened,
        .survived = m->survived,
        .read_bytes = m->read_bytes,
    };
}

ea_status ea_reply_memory(struct layout *l, struct client_request *r, uint64_t body_bytes,
                          const engram_accel_v1_Meta *meta)
{
    const size_t meta_bytes = ea_align(sizeof(ea_meta));
    if (l->used != body_bytes)
        return ea_note_set(l->note, EA_DATA_LOSS, EA_DETAIL_BODY_MISMATCH,
                           "the daemon's reply: body of %" PRIu64 " bytes, tensors fill %" PRIu64,
                           body_bytes, l->used);
    void *memory = NULL;
    if (body_bytes > SIZE_MAX / 2 ||
        posix_memalign(&memory, EA_ALIGN, meta_bytes + (size_t)body_bytes)) {
        r->result = (ea_result){0};
        return ea_note_set(l->note, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY,
                           "no memory for a reply of %" PRIu64 " bytes", body_bytes);
    }
    *(ea_meta *)memory = ea_reply_meta(meta, r->instance);
    r->result.memory = memory;
    r->result.meta = memory;
    r->body = (char *)memory + meta_bytes;
    for (uint32_t i = 0; i < l->count; i++)
        *l->places[i].pointer = (char *)r->body + l->places[i].offset;
    return EA_OK;
}

/* kNN, scored candidates and cleanup: the messages have the same fields, and the last has versions
 * besides. */
static ea_status parse_hits(struct client_request *r, const void *message, uint32_t bytes,
                            uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_KnnReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_KnnReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_result *out = &r->result;
    if (!st) st = PLACE(&l, m, ids, engram_accel_v1_Dtype_DTYPE_UINT64, out->ids);
    if (!st) st = PLACE(&l, m, scores, engram_accel_v1_Dtype_DTYPE_FLOAT32, out->scores);
    if (!st) st = PLACE(&l, m, counts, engram_accel_v1_Dtype_DTYPE_UINT32, out->counts);
    if (st) return st;
    const struct expectation *e = &r->expect;
    if (e->all_scores) {
        if (!shaped(&m.scores, e->rows, m.has_scores || e->rows ? 1 : 0))
            return ea_reply_misfit(&l, "scores", &m.scores);
        if (m.has_ids && !shaped(&m.ids, e->rows, 1)) return ea_reply_misfit(&l, "ids", &m.ids);
        if (m.has_counts) return ea_reply_misfit(&l, "counts", &m.counts);
        out->rows = e->rows;
        out->columns = 1;
    } else {
        if (m.scores.rows != e->queries || m.scores.columns > e->columns_max)
            return ea_reply_misfit(&l, "scores", &m.scores);
        if (!shaped(&m.ids, m.scores.rows, m.scores.columns))
            return ea_reply_misfit(&l, "ids", &m.ids);
        if (!shaped(&m.counts, e->queries, m.has_counts || e->queries ? 1 : 0))
            return ea_reply_misfit(&l, "counts", &m.counts);
        out->rows = e->queries;
        out->columns = m.scores.columns;
    }
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

/* meta has the codebook's version. */
static ea_status parse_cleanup(struct client_request *r, const void *message, uint32_t bytes,
                               uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_CleanupReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_CleanupReply_fields, &m, note);
    if (!st) st = parse_hits(r, message, bytes, body_bytes, note);
    if (st) return st;
    r->result.a_version = m.a_version;
    r->result.b_version = m.b_version;
    return EA_OK;
}

static ea_status parse_similarity(struct client_request *r, const void *message, uint32_t bytes,
                                  uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_SimilarityReply m;
    ea_status st =
        ea_reply_decode(message, bytes, engram_accel_v1_SimilarityReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_result *out = &r->result;
    if (!st) st = PLACE(&l, m, ids, engram_accel_v1_Dtype_DTYPE_UINT64, out->ids);
    if (!st) st = PLACE(&l, m, scores, engram_accel_v1_Dtype_DTYPE_FLOAT32, out->scores);
    if (!st) st = PLACE(&l, m, offsets, engram_accel_v1_Dtype_DTYPE_UINT64, out->offsets);
    if (st) return st;
    const struct expectation *e = &r->expect;
    if (e->threshold) {
        if (!shaped(&m.offsets, e->queries + 1, 1))
            return ea_reply_misfit(&l, "offsets", &m.offsets);
        if (m.scores.rows && m.scores.columns != 1) return ea_reply_misfit(&l, "scores", &m.scores);
        if (!shaped(&m.ids, m.scores.rows, m.scores.columns))
            return ea_reply_misfit(&l, "ids", &m.ids);
        out->columns = m.scores.rows;
    } else {
        if (m.has_offsets) return ea_reply_misfit(&l, "offsets", &m.offsets);
        if (m.scores.rows != e->queries || m.scores.columns > e->columns_max ||
            (e->inline_rows && m.scores.columns != e->rows && (e->queries || m.scores.columns)))
            return ea_reply_misfit(&l, "scores", &m.scores);
        if (m.has_ids ? !shaped(&m.ids, m.scores.columns, 1) : !e->inline_rows && m.scores.columns)
            return ea_reply_misfit(&l, "ids", &m.ids);
        out->columns = m.scores.columns;
    }
    out->rows = e->queries;
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

static ea_status parse_fetch(struct client_request *r, const void *message, uint32_t bytes,
                             uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_FetchReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_FetchReply_fields, &m, note);
    struct layout l = {.note = note};
    ea_result *out = &r->result;
    if (!st) st = PLACE(&l, m, ids, engram_accel_v1_Dtype_DTYPE_UINT64, out->ids);
    if (!st) st = PLACE(&l, m, found, engram_accel_v1_Dtype_DTYPE_UINT8, out->found);
    if (!st) st = PLACE(&l, m, rows, engram_accel_v1_Dtype_DTYPE_FLOAT32, out->vectors);
    if (st) return st;
    const struct expectation *e = &r->expect;
    uint64_t n = m.rows.rows;
    if ((e->by_position ? n > e->rows : n != e->rows) || (n && !m.rows.columns) ||
        m.rows.columns > EA_DIMENSION_MAX)
        return ea_reply_misfit(&l, "rows", &m.rows);
    if (m.has_ids || (n && e->by_position))
        if (!shaped(&m.ids, n, 1)) return ea_reply_misfit(&l, "ids", &m.ids);
    if (m.has_found || (n && !e->by_position))
        if (!shaped(&m.found, n, 1)) return ea_reply_misfit(&l, "found", &m.found);
    out->rows = n;
    out->columns = m.rows.columns;
    out->missing = m.missing;
    out->cursor = m.cursor;
    out->positions = m.positions;
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

/* Norms and weighted average: one float tensor each, and the two messages have the same fields. */
static ea_status parse_floats(struct client_request *r, const void *message, uint32_t bytes,
                              uint64_t body_bytes, struct note *note)
{
    engram_accel_v1_NormsReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_NormsReply_fields, &m, note);
    struct layout l = {.note = note};
    if (!st) st = PLACE(&l, m, norms, engram_accel_v1_Dtype_DTYPE_FLOAT32, r->result.vectors);
    if (st) return st;
    bool norms = r->kind == engram_accel_v1_Kind_KIND_NORMS;
    uint64_t rows = norms ? r->expect.rows : 1, columns = norms ? 1 : r->expect.dimension;
    /* Averages of stored rows have the collection's dimension, which the call compares. */
    if (!columns && m.norms.columns <= EA_DIMENSION_MAX) columns = m.norms.columns;
    if (m.has_norms ? !shaped(&m.norms, rows, columns) : rows != 0)
        return ea_reply_misfit(&l, norms ? "norms" : "average", &m.norms);
    r->result.rows = rows;
    r->result.columns = columns;
    return ea_reply_memory(&l, r, body_bytes, &m.meta);
}

/* ---- replies without tensors ---- */

static ea_status parse_info(struct client_request *r, const void *message, uint32_t bytes,
                            struct note *note)
{
    engram_accel_v1_InfoReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_InfoReply_fields, &m, note);
    if (!st) ea_report_info(&m, r->answer);
    return st;
}

static ea_status parse_stats(struct client_request *r, const void *message, uint32_t bytes,
                             struct note *note)
{
    engram_accel_v1_StatsReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_StatsReply_fields, &m, note);
    if (!st) ea_report_stats(&m, r->answer);
    return st;
}

static ea_status parse_explain(struct client_request *r, const void *message, uint32_t bytes,
                               struct note *note)
{
    engram_accel_v1_ExplainReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_ExplainReply_fields, &m, note);
    if (!st) ea_report_explain(&m, r->answer);
    return st;
}

void ea_reply_collection(const engram_accel_v1_CollectionInfo *m, ea_collection_info *out)
{
    *out = (ea_collection_info){
        .dimension = m->dimension,
        .metric = (ea_metric)m->metric,
        .rows = m->rows,
        .version = m->version,
        .row_bytes = m->row_bytes,
        .index_bytes = m->index_bytes,
        .vram_bytes = m->vram_bytes,
        .vram_version = m->vram_version,
        .shadow_rows = m->shadow_rows,
        .shadow_bytes = m->shadow_bytes,
        .shadow_lost = m->shadow_lost,
        .shadow_age_us = m->shadow_age_ms * 1000,
        .shadow_screened = m->shadow_screened,
        .shadow_passed = m->shadow_passed,
    };
    memcpy(out->name, m->name, sizeof out->name);
    ea_text_plain(out->name);
}

static void take_described(const engram_accel_v1_CollectionDescribeReply *m,
                           ea_collection_info *out)
{
    const engram_accel_v1_CardShadow *s = &m->card_shadow;
    out->shadow_rests = m->shadow_rests;
    out->vram_shadow_rows = s->rows;
    out->vram_shadow_bytes = s->bytes;
    out->vram_shadow_lost = s->lost;
    out->vram_shadow_age_us = s->age_ms * 1000;
    out->vram_shadow_rests = s->rests;
    out->vram_gpu = s->gpu;
    out->screens_cpu = ea_report_screens(&m->screens.cpu);
    out->screens_gpu = ea_report_screens(&m->screens.gpu);
}

/* Create and describe differ in the field that holds the collection. */
static ea_status parse_collection(struct client_request *r, const void *message, uint32_t bytes,
                                  struct note *note)
{
    engram_accel_v1_CollectionCreateReply create = {0};
    engram_accel_v1_CollectionDescribeReply describe = {0};
    bool creates = r->kind == engram_accel_v1_Kind_KIND_COLLECTION_CREATE;
    ea_status st =
        creates ? ea_reply_decode(message, bytes, engram_accel_v1_CollectionCreateReply_fields,
                                  &create, note)
                : ea_reply_decode(message, bytes, engram_accel_v1_CollectionDescribeReply_fields,
                                  &describe, note);
    if (st) return st;
    if (creates ? !create.has_collection : !describe.has_collection)
        return ea_reply_broken(note, "names no collection");
    ea_reply_collection(creates ? &create.collection : &describe.collection, r->answer);
    if (!creates) take_described(&describe, r->answer);
    return EA_OK;
}

static ea_status parse_write(struct client_request *r, const void *message, uint32_t bytes,
                             struct note *note)
{
    if (r->kind == engram_accel_v1_Kind_KIND_UPSERT) {
        engram_accel_v1_UpsertReply m;
        ea_status st =
            ea_reply_decode(message, bytes, engram_accel_v1_UpsertReply_fields, &m, note);
        if (st) return st;
        struct layout l = {.note = note};
        r->result.rows = m.rows;
        *(ea_upsert_counts *)r->answer =
            (ea_upsert_counts){m.inserted, m.replaced, m.rows, m.meta.version};
        return ea_reply_memory(&l, r, 0, &m.meta);
    }
    engram_accel_v1_DeleteReply m;
    ea_status st = ea_reply_decode(message, bytes, engram_accel_v1_DeleteReply_fields, &m, note);
    if (st) return st;
    *(ea_delete_counts *)r->answer = (ea_delete_counts){m.deleted, m.missing};
    return EA_OK;
}

static ea_status parse_ping(struct client_request *r, const void *message, uint32_t bytes,
                            struct note *note)
{
    engram_accel_v1_PingReply m;
    (void)r;
    return bytes ? ea_reply_decode(message, bytes, engram_accel_v1_PingReply_fields, &m, note)
                 : EA_OK;
}

static ea_status parse_drop(struct client_request *r, const void *message, uint32_t bytes,
                            struct note *note)
{
    engram_accel_v1_CollectionDropReply m;
    (void)r;
    return ea_reply_decode(message, bytes, engram_accel_v1_CollectionDropReply_fields, &m, note);
}

static ea_status parse_graph_drop(struct client_request *r, const void *message, uint32_t bytes,
                                  struct note *note)
{
    engram_accel_v1_GraphDropReply m;
    (void)r;
    return ea_reply_decode(message, bytes, engram_accel_v1_GraphDropReply_fields, &m, note);
}

/* ---- by operation ---- */

/* How the reply to each operation is parsed: a message alone, into `answer` directly or by bare();
 * or with a body, by tensors(). Operations that are missing here have no parsed reply: Cancel. */
struct parser {
    const pb_msgdesc_t *answer;
    ea_status (*bare)(struct client_request *r, const void *message, uint32_t bytes,
                      struct note *note);
    ea_status (*tensors)(struct client_request *r, const void *message, uint32_t bytes,
                         uint64_t body_bytes, struct note *note);
};
static const struct parser parsers[] = {
#define CLIENT(NAME, ANSWER, how, parser) [engram_accel_v1_Kind_KIND_##NAME] = {.how = parser},
#include "proto/operations.def"
};

ea_status ea_reply_parse(struct client_request *r, const void *message, uint32_t message_bytes,
                         uint64_t body_bytes, struct note *note)
{
    static const struct parser none;
    bool known = r->kind < sizeof parsers / sizeof *parsers;
    const struct parser *p = known ? &parsers[r->kind] : &none;
    if (p->tensors) return p->tensors(r, message, message_bytes, body_bytes, note);
    if (body_bytes) return ea_reply_broken(note, "a body where none belongs");
    if (p->bare) return p->bare(r, message, message_bytes, note);
    if (!p->answer) return ea_reply_broken(note, "to no request of ours");
    return ea_reply_decode(message, message_bytes, p->answer, r->answer, note);
}

bool ea_reply_rising(const uint64_t *offsets, uint64_t lists, uint64_t n, uint64_t least,
                     uint64_t most)
{
    if (offsets[0] != 0) return false;
    for (uint64_t i = 0; i < lists; i++)
        if (offsets[i + 1] < offsets[i] || offsets[i + 1] - offsets[i] < least ||
            offsets[i + 1] - offsets[i] > most)
            return false;
    return offsets[lists] == n;
}

ea_status ea_reply_check_paths(const struct paths *p, struct note *note)
{
    if (!ea_reply_rising(p->offsets, p->count, p->node_count, 1, UINT64_MAX))
        return ea_reply_broken(note, "path_offsets do not rise from 0 to the number of ids");
    for (uint64_t i = 0; i < p->count; i++)
        if (p->nodes[p->offsets[i + 1] - 1] != p->ids[i])
            return ea_reply_broken(note, "a path that ends at another node");
    return EA_OK;
}

ea_status ea_reply_check(const struct client_request *r, struct note *note)
{
    if (r->kind == engram_accel_v1_Kind_KIND_RECALL) return ea_reply_check_recall(r, note);
    if (r->kind == engram_accel_v1_Kind_KIND_CLUSTER) return ea_reply_check_clusters(r, note);
    if (r->kind == engram_accel_v1_Kind_KIND_SPREAD ||
        r->kind == engram_accel_v1_Kind_KIND_GRAPH_FETCH_NODES)
        return ea_reply_check_graph(r, note);
    const ea_result *out = &r->result;
    for (uint64_t i = 0; out->counts && i < out->rows; i++)
        if (out->counts[i] > out->columns)
            return ea_reply_broken(note, "counts more hits than it holds");
    if (!out->offsets) return EA_OK;
    bool rising = out->offsets[0] == 0;
    for (uint64_t i = 0; rising && i < out->rows; i++)
        rising = out->offsets[i] <= out->offsets[i + 1];
    if (!rising || out->offsets[out->rows] != out->columns)
        return ea_reply_broken(note, "offsets do not rise from 0 to the number of matches");
    return EA_OK;
}
