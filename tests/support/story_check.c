/* Whether an answer is the one that the model gives. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/reference.h"
#include "tests/support/story_check.h"
#include "tests/support/story_complete.h"
#include "tests/support/story_consolidate.h"

void check_wrong(struct story *s, const struct story_request *r, const char *format, ...)
{
    char text[256];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    story_fail(s, "client %u, request %llu of kind %d: %s", r->client->number,
               (unsigned long long)r->id, (int)r->operation, text);
}

void check_decode(struct story *s, const struct story_request *r, const struct story_reply *reply,
                  const pb_msgdesc_t *fields, void *out)
{
    pb_istream_t stream = pb_istream_from_buffer(reply->message, reply->header->message_bytes);
    if (!pb_decode(&stream, fields, out)) WRONG(s, r, "its answer does not decode");
}

/* ---------------------------------------------------------------- tensors of a reply */

const void *check_next(struct cursor *c, bool has, const engram_accel_v1_Tensor *t,
                       enum dtype dtype, uint64_t rows, uint64_t columns)
{
    if (!has || t->dtype != (engram_accel_v1_Dtype)dtype || t->rows != rows ||
        t->columns != columns)
        WRONG(c->s, c->r, "a tensor of %llu x %llu, not %llu x %llu", (unsigned long long)t->rows,
              (unsigned long long)t->columns, (unsigned long long)rows,
              (unsigned long long)columns);
    const void *data = c->at;
    c->at += frame_align(rows * columns * dtype_bytes(dtype));
    if (c->at > c->end) WRONG(c->s, c->r, "its tensors pass the body");
    return data;
}

void check_end(const struct cursor *c)
{
    if (c->at != c->end) WRONG(c->s, c->r, "its body has more than its tensors");
}

/* ---------------------------------------------------------------- what was seen */

/* Rows that r is about, and which of them it may see. */
struct scope {
    struct reference_rows rows;
    bool allowed[STORY_IDS + 8];
    uint64_t allowed_count;
};

bool check_passes(const struct story_request *r, uint64_t id)
{
    if (r->list) {
        for (uint64_t i = 0; i < r->filter_count; i++)
            if (r->filter[i] == id) return true;
        return false;
    }
    if (!r->bitmap) return true;
    uint64_t bit = id - r->filter_first;
    return id >= r->filter_first && bit / 8 < r->filter_count && r->bits[bit / 8] >> bit % 8 & 1;
}

static void look(const struct story_request *r, struct scope *out)
{
    out->allowed_count = 0;
    if (r->name == STORY_NAMES) {
        out->rows =
            (struct reference_rows){r->dimension, (int)r->metric, r->row_count, r->rows, NULL};
    } else {
        const struct story_state *seen = story_seen(r);
        out->rows = (struct reference_rows){r->dimension, (int)r->resident->metric, seen->count,
                                            seen->rows, seen->ids};
    }
    for (uint64_t i = 0; i < out->rows.count; i++) {
        out->allowed[i] = !out->rows.ids || check_passes(r, out->rows.ids[i]);
        out->allowed_count += out->allowed[i];
    }
}

void check_see(const struct cursor *c, uint64_t version)
{
    struct story_request *r = (struct story_request *)c->r;
    if (!story_reads_version(r)) return;
    for (const struct story_state *at = r->resident->last; at && !r->seen; at = at->before)
        if ((!at->seq || at->version == version) && story_may_see(r, at)) r->seen = at;
    if (!r->seen) WRONG(c->s, r, "it saw version %llu, and may not", (unsigned long long)version);
    if (check_names_ids(r) && check_misses_id(r, r->seen))
        WRONG(c->s, r, "an id is not there, and it was answered");
}

void check_version(struct story *s, const struct story_request *r, uint64_t version)
{
    const struct story_state *seen = story_seen(r);
    if (version != seen->version)
        WRONG(s, r, "it saw version %llu, not %llu", (unsigned long long)version,
              (unsigned long long)seen->version);
}

/* Best first, `found` of them, in a line of columns. */
static void check_best(struct cursor *c, const struct reference_rows *rows, const bool *allowed,
                       uint64_t query, uint64_t columns, const uint64_t *ids, const float *scores,
                       uint64_t found)
{
    uint64_t want_ids[STORY_IDS + 8];
    float want[STORY_IDS + 8];
    const struct story_request *r = c->r;
    size_t n = reference_knn(rows, r->queries + query * r->dimension, columns, allowed,
                             r->has_threshold ? &r->threshold : NULL, want_ids, want);
    if (found != n)
        WRONG(c->s, r, "query %llu: %llu found, not %zu", (unsigned long long)query,
              (unsigned long long)found, n);
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] != want_ids[i] || !reference_same(scores[i], want[i]))
            WRONG(c->s, r, "query %llu: place %llu is %llu at %.9g, not %llu at %.9g",
                  (unsigned long long)query, (unsigned long long)i, (unsigned long long)ids[i],
                  scores[i], (unsigned long long)want_ids[i], want[i]);
}

static void check_rest(struct cursor *c, uint64_t from, uint64_t columns, const uint64_t *ids,
                       const float *scores)
{
    for (uint64_t i = from; i < columns; i++)
        if (ids[i] != UINT64_MAX || !isnan(scores[i])) WRONG(c->s, c->r, "a line is not filled up");
}

/* ---------------------------------------------------------------- each kind */

static void check_knn(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_KnnReply m = engram_accel_v1_KnnReply_init_zero;
    const struct story_request *r = c->r;
    struct scope scope;
    check_decode(c->s, r, reply, engram_accel_v1_KnnReply_fields, &m);
    check_see(c, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    c->s->by_codes += m.meta.reason == engram_accel_v1_Reason_REASON_SHADOW_ONLY;
    look(r, &scope);
    uint64_t q = r->query_count, n = r->k < scope.allowed_count ? r->k : scope.allowed_count;
    const uint64_t *ids = NEXT(c, &m, ids, DTYPE_UINT64, q, n);
    const float *scores = NEXT(c, &m, scores, DTYPE_FLOAT32, q, n);
    const uint32_t *counts = NEXT(c, &m, counts, DTYPE_UINT32, q, 1);
    for (uint64_t i = 0; i < q; i++) {
        check_best(c, &scope.rows, scope.allowed, i, n, ids + i * n, scores + i * n, counts[i]);
        check_rest(c, counts[i], n, ids + i * n, scores + i * n);
    }
}

static void check_score(struct cursor *c, const struct reference_rows *rows, uint64_t query,
                        uint64_t row, float score)
{
    float want =
        reference_score(rows->metric, rows->dimension, c->r->queries + query * rows->dimension,
                        rows->rows + row * rows->dimension);
    if (!reference_same(score, want))
        WRONG(c->s, c->r, "query %llu: a score of %.9g, not %.9g", (unsigned long long)query, score,
              want);
}

/* All columns once; those of a list in its order. */
static void check_columns(struct cursor *c, const struct scope *scope, const uint64_t *ids,
                          uint64_t *places)
{
    const struct story_state *seen = story_seen(c->r);
    bool there[STORY_IDS + 8] = {false};
    uint64_t n = 0;
    for (uint64_t i = 0; i < scope->allowed_count; i++) {
        places[i] = story_place(seen, ids[i]);
        if (places[i] == seen->count || !scope->allowed[places[i]] || there[places[i]])
            WRONG(c->s, c->r, "column %llu is of id %llu", (unsigned long long)i,
                  (unsigned long long)ids[i]);
        there[places[i]] = true;
    }
    for (uint64_t i = 0; c->r->list && i < c->r->filter_count; i++)
        if (story_place(seen, c->r->filter[i]) < seen->count && ids[n++] != c->r->filter[i])
            WRONG(c->s, c->r, "columns are not in the list's order");
}

static void check_matches(struct cursor *c, const struct scope *scope,
                          const engram_accel_v1_SimilarityReply *m)
{
    const struct story_request *r = c->r;
    uint64_t n = m->ids.rows;
    const uint64_t *ids = NEXT(c, m, ids, DTYPE_UINT64, n, 1);
    const float *scores = NEXT(c, m, scores, DTYPE_FLOAT32, n, 1);
    const uint64_t *offsets = NEXT(c, m, offsets, DTYPE_UINT64, r->query_count + 1, 1);
    if (offsets[0] || offsets[r->query_count] != n) WRONG(c->s, r, "offsets do not span it");
    for (uint64_t q = 0; q < r->query_count; q++)
        check_best(c, &scope->rows, scope->allowed, q, scope->rows.count, ids + offsets[q],
                   scores + offsets[q], offsets[q + 1] - offsets[q]);
}

static void check_similarity(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_SimilarityReply m = engram_accel_v1_SimilarityReply_init_zero;
    const struct story_request *r = c->r;
    struct scope scope;
    uint64_t places[STORY_IDS + 8];
    check_decode(c->s, r, reply, engram_accel_v1_SimilarityReply_fields, &m);
    check_see(c, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    look(r, &scope);
    if (r->has_threshold) {
        check_matches(c, &scope, &m);
        return;
    }
    uint64_t n = scope.allowed_count;
    if (r->name < STORY_NAMES)
        check_columns(c, &scope, NEXT(c, &m, ids, DTYPE_UINT64, n, 1), places);
    const float *scores = NEXT(c, &m, scores, DTYPE_FLOAT32, r->query_count, n);
    for (uint64_t q = 0; q < r->query_count; q++)
        for (uint64_t i = 0; i < n; i++)
            check_score(c, &scope.rows, q, r->name < STORY_NAMES ? places[i] : i,
                        scores[q * n + i]);
}

static uint64_t row_of(const struct story_request *r, uint64_t i)
{
    return r->name < STORY_NAMES ? story_place(story_seen(r), r->ids[i]) : i;
}

/* List q by itself: rows of inline lists are called by their position there. */
static void check_list(struct cursor *c, const struct scope *scope, uint64_t q, uint64_t columns,
                       const uint64_t *ids, const float *scores, uint64_t found)
{
    const struct story_request *r = c->r;
    uint64_t first = r->offsets[q], n = r->offsets[q + 1] - first;
    bool allowed[STORY_IDS + 8] = {false};
    struct reference_rows rows = scope->rows;
    if (r->name == STORY_NAMES) {
        rows.rows += first * r->dimension;
        rows.count = n;
    }
    for (uint64_t i = 0; i < n; i++)
        allowed[r->name < STORY_NAMES ? row_of(r, first + i) : i] = true;
    check_best(c, &rows, allowed, q, r->k < n ? r->k : n, ids, scores, found);
    check_rest(c, found, columns, ids, scores);
}

static void check_candidates(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_ScoreCandidatesReply m = engram_accel_v1_ScoreCandidatesReply_init_zero;
    const struct story_request *r = c->r;
    struct scope scope;
    uint64_t q = r->query_count, n = r->offsets[q], longest = 0;
    check_decode(c->s, r, reply, engram_accel_v1_ScoreCandidatesReply_fields, &m);
    check_see(c, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    look(r, &scope);
    if (!r->k) {
        const float *scores = NEXT(c, &m, scores, DTYPE_FLOAT32, n, 1);
        for (uint64_t i = 0; i < q; i++)
            for (uint64_t k = r->offsets[i]; k < r->offsets[i + 1]; k++)
                check_score(c, &scope.rows, i, row_of(r, k), scores[k]);
        return;
    }
    for (uint64_t i = 0; i < q; i++)
        if (r->offsets[i + 1] - r->offsets[i] > longest)
            longest = r->offsets[i + 1] - r->offsets[i];
    uint64_t columns = r->k < longest ? r->k : longest;
    const uint64_t *ids = NEXT(c, &m, ids, DTYPE_UINT64, q, columns);
    const float *scores = NEXT(c, &m, scores, DTYPE_FLOAT32, q, columns);
    const uint32_t *counts = NEXT(c, &m, counts, DTYPE_UINT32, q, 1);
    for (uint64_t i = 0; i < q; i++)
        check_list(c, &scope, i, columns, ids + i * columns, scores + i * columns, counts[i]);
}

static void check_norms(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_NormsReply m = engram_accel_v1_NormsReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_NormsReply_fields, &m);
    const float *norms = NEXT(c, &m, norms, DTYPE_FLOAT32, r->row_count, 1);
    for (uint64_t i = 0; i < r->row_count; i++)
        if (!reference_same(norms[i], reference_norm(r->dimension, r->rows + i * r->dimension)))
            WRONG(c->s, r, "norm %llu", (unsigned long long)i);
}

static void check_average(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_WeightedAverageReply m = engram_accel_v1_WeightedAverageReply_init_zero;
    const struct story_request *r = c->r;
    struct scope scope;
    check_decode(c->s, r, reply, engram_accel_v1_WeightedAverageReply_fields, &m);
    check_see(c, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    look(r, &scope);
    const float *average = NEXT(c, &m, average, DTYPE_FLOAT32, 1, r->dimension);
    uint64_t n = r->name < STORY_NAMES ? r->id_count : r->row_count;
    for (uint32_t column = 0; column < r->dimension; column++) {
        float sum = 0, total = 0;
        for (uint64_t i = 0; i < n; i++) {
            sum = fmaf(r->weights[i], scope.rows.rows[row_of(r, i) * r->dimension + column], sum);
            total += r->weights[i];
        }
        if (!reference_same(average[column], n && total != 0 ? sum / total : 0))
            WRONG(c->s, r, "column %u of an average", column);
    }
}

static void check_row(struct cursor *c, uint64_t id, const float *row, bool found)
{
    const struct story_state *seen = story_seen(c->r);
    uint64_t at = story_place(seen, id);
    if (found != (at < seen->count)) WRONG(c->s, c->r, "id %llu", (unsigned long long)id);
    for (uint32_t i = 0; i < c->r->dimension; i++)
        if (!reference_same(row[i], found ? seen->rows[at * c->r->dimension + i] : 0))
            WRONG(c->s, c->r, "a row of id %llu", (unsigned long long)id);
}

static void check_fetch(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_FetchReply m = engram_accel_v1_FetchReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_FetchReply_fields, &m);
    check_see(c, m.meta.version);
    const struct story_state *seen = story_seen(r);
    uint64_t left = seen->count > r->offset ? seen->count - r->offset : 0, missing = 0;
    uint64_t n = r->id_count ? r->id_count : r->limit < left ? r->limit : left;
    const uint64_t *ids = NEXT(c, &m, ids, DTYPE_UINT64, n, 1);
    const uint8_t *found = NEXT(c, &m, found, DTYPE_UINT8, n, 1);
    const float *rows = NEXT(c, &m, rows, DTYPE_FLOAT32, n, r->dimension);
    for (uint64_t i = 0; i < n; i++) {
        if (r->id_count && ids[i] != r->ids[i]) WRONG(c->s, r, "another id");
        for (uint64_t k = 0; !r->id_count && k < i; k++)
            if (ids[k] == ids[i]) WRONG(c->s, r, "an id twice");
        missing += !found[i];
        check_row(c, ids[i], rows + i * r->dimension, found[i]);
    }
    if (m.missing != missing) WRONG(c->s, r, "missing ids are miscounted");
}

static void expect_write(struct cursor *c, uint64_t first, uint64_t second, uint64_t rows,
                         uint64_t version)
{
    const struct story_request *r = c->r;
    if (!r->applied) WRONG(c->s, r, "it was said to be done, and was not");
    if (first != r->counts[0] || second != r->counts[1] || rows != r->rows_after ||
        version != r->version)
        WRONG(c->s, r, "what it did is miscounted");
}

static void check_upsert(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_UpsertReply m = engram_accel_v1_UpsertReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_UpsertReply_fields, &m);
    expect_write(c, m.inserted, m.replaced, m.rows, m.meta.version);
}

static void check_delete(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_DeleteReply m = engram_accel_v1_DeleteReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_DeleteReply_fields, &m);
    expect_write(c, m.missing, m.deleted, m.rows, m.meta.version);
}

static void check_create(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CollectionCreateReply m = engram_accel_v1_CollectionCreateReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_CollectionCreateReply_fields, &m);
    if (!c->r->made || m.collection.dimension != c->r->dimension || m.collection.rows)
        WRONG(c->s, c->r, "a collection that is not as asked for");
}

static void check_drop(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CollectionDropReply m = engram_accel_v1_CollectionDropReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_CollectionDropReply_fields, &m);
    if (!c->r->made || !c->r->applied || m.rows != story_seen(c->r)->count)
        WRONG(c->s, c->r, "a drop of %llu rows", (unsigned long long)m.rows);
}

static void check_describe(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CollectionDescribeReply m = engram_accel_v1_CollectionDescribeReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_CollectionDescribeReply_fields, &m);
    if (m.collection.dimension != c->r->dimension) WRONG(c->s, c->r, "another dimension");
}

typedef void (*check_of)(struct cursor *c, const struct story_reply *reply);

static const check_of checks[OPERATION_MAX] = {
    [OPERATION_KNN] = check_knn,
    [OPERATION_SIMILARITY] = check_similarity,
    [OPERATION_SCORE_CANDIDATES] = check_candidates,
    [OPERATION_NORMS] = check_norms,
    [OPERATION_WEIGHTED_AVERAGE] = check_average,
    [OPERATION_FETCH] = check_fetch,
    [OPERATION_UPSERT] = check_upsert,
    [OPERATION_DELETE] = check_delete,
    [OPERATION_BIND] = story_check_bind,
    [OPERATION_COMPLETE] = story_check_complete,
    [OPERATION_CLUSTER] = story_check_cluster,
    [OPERATION_COVARIANCE] = story_check_covariance,
    [OPERATION_COLLECTION_CREATE] = check_create,
    [OPERATION_COLLECTION_DROP] = check_drop,
    [OPERATION_COLLECTION_DESCRIBE] = check_describe,
};

void story_check(struct story *s, struct story_request *r, const struct story_reply *reply)
{
    if (!r->admitted) WRONG(s, r, "it was answered before it was looked at");
    if (reply->header->flags & FRAME_FLAG_ERROR) {
        check_error(s, r, reply);
        return;
    }
    if (reply->header->kind != (uint8_t)r->operation)
        WRONG(s, r, "an answer of kind %u", reply->header->kind);
    const struct story_request *done = story_done(r);
    if (done) r = (struct story_request *)done; /* with whose answer it is told */
    enum status must = check_fate(r);
    if (must) WRONG(s, r, "it was answered, and had to be refused as %s", status_name(must));
    s->by_code[0]++;
    if (story_check_attractor(s, r, reply) || story_check_graph(s, r, reply)) return;
    struct cursor c = {s, r, reply->body, reply->body + reply->header->body_bytes};
    if (!checks[r->operation]) return;
    checks[r->operation](&c, reply);
    check_end(&c);
}
