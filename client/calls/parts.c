/* parts: similarity, candidates and norms of many rows. A score depends on its query and row alone,
 * so parts are put side by side; the best of all parts are the best of each part's best. */
#include "client/calls/parts.h"

#include <stdlib.h>
#include <string.h>

#include "client/calls/calls.h"

enum { SLACK = 8 * EA_ALIGN }; /* every tensor begins at a multiple of 64 */

ea_status ea_parts_needed(ea_client *c, struct client_request **r, uint64_t fixed,
                          uint64_t row_bytes, uint64_t *rows)
{
    *rows = 0;
    bool outermost = ea_call_begin(c);
    ea_status st = ea_connect_until(c, ea_deadline_after(c->timeout_us));
    ea_call_end(c, outermost);
    uint64_t most = c->limits.body_bytes_max;
    if (!st && (*r)->body_bytes <= most) return EA_OK;
    if (!st && (fixed > most || most - fixed < SLACK + row_bytes))
        st = ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_BODY_TOO_LARGE,
                     "the queries and one row are more than the %llu bytes of a request",
                     (unsigned long long)most);
    ea_request_release(c, *r);
    *r = NULL;
    if (!st) *rows = (most - fixed - SLACK) / row_bytes;
    return st;
}

/* ---- joining ---- */

static void add_meta(ea_meta *sum, const ea_meta *m)
{
    ea_meta before = *sum;
    *sum = *m;
    sum->queue_ns += before.queue_ns;
    sum->run_ns += before.run_ns;
    sum->copy_ns += before.copy_ns;
    sum->predicted_ns += before.predicted_ns;
    sum->other_ns += before.other_ns;
    sum->wait_ns += before.wait_ns;
    sum->total_ns += before.total_ns;
    if (before.batch > sum->batch) sum->batch = before.batch;
    if (before.backend && before.backend != m->backend) sum->backend = EA_BACKEND_BOTH;
}

/* One block for meta and up to three tensors, each at a multiple of 64. */
static ea_status take_memory(ea_client *c, ea_result *out, const uint64_t bytes[3], char *places[3])
{
    uint64_t total = ea_align(sizeof(ea_meta));
    for (int i = 0; i < 3; i++)
        total += ea_align(bytes[i]);
    char *memory = NULL;
    if (posix_memalign((void **)&memory, EA_ALIGN, total))
        return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY,
                       "no memory for an answer of %llu bytes", (unsigned long long)total);
    memset(memory, 0, sizeof(ea_meta));
    out->memory = memory;
    out->meta = (ea_meta *)(void *)memory;
    places[0] = memory + ea_align(sizeof(ea_meta));
    places[1] = places[0] + ea_align(bytes[0]);
    places[2] = places[1] + ea_align(bytes[1]);
    return EA_OK;
}

static bool better(float a, float b, bool lower)
{
    return lower ? a < b : a > b;
}

/* Sorted hits, and as many as `most` of two such lists. Of equal scores a's come first: its ids are
 * lower. */
struct hit_list {
    uint64_t *ids;
    float *scores;
    uint64_t count;
};

static void merge(struct hit_list *out, uint64_t most, const struct hit_list *a,
                  const struct hit_list *b, bool lower)
{
    uint64_t i = 0, j = 0, n = 0;
    while (n < most && (i < a->count || j < b->count)) {
        bool from_b = i == a->count || (j < b->count && better(b->scores[j], a->scores[i], lower));
        const struct hit_list *from = from_b ? b : a;
        uint64_t at = from_b ? j++ : i++;
        out->ids[n] = from->ids[at];
        out->scores[n++] = from->scores[at];
    }
    out->count = n;
}

/* ---- similarity ---- */

static ea_status ask_similarity(ea_client *c, const ea_similarity_question *q, uint64_t at,
                                uint64_t rows, int64_t deadline_ns, struct client_request **out)
{
    ea_similarity_question part = *q;
    part.rows = q->rows + at * q->dimension;
    part.row_count = rows;
    ea_status st = ea_build_similarity(c, &part, out);
    if (st) return st;
    st = ea_run(c, *out, deadline_ns, 0);
    if (st) ea_request_release(c, *out);
    return st;
}

static ea_status all_scores(ea_client *c, const ea_similarity_question *q, uint64_t rows,
                            int64_t deadline_ns, ea_result *out)
{
    uint64_t n = q->row_count, bytes;
    char *places[3];
    if (__builtin_mul_overflow(q->query_count, n * 4, &bytes) || bytes > INT64_MAX)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE, "scores: too many");
    ea_status st = take_memory(c, out, (const uint64_t[3]){bytes, 0, 0}, places);
    for (uint64_t at = 0; !st && at < n; at += rows) {
        uint64_t here = n - at < rows ? n - at : rows;
        struct client_request *r;
        st = ask_similarity(c, q, at, here, deadline_ns, &r);
        if (st) break;
        for (uint64_t i = 0; i < q->query_count; i++)
            memcpy(places[0] + (i * n + at) * 4, r->result.scores + i * here, here * 4);
        add_meta((ea_meta *)out->meta, r->result.meta);
        ea_request_release(c, r);
    }
    out->rows = q->query_count;
    out->columns = n;
    out->scores = (const float *)(void *)places[0];
    return st;
}

/* Adds a part's matches to those of the parts before it. */
static ea_status add_matches(ea_client *c, ea_result *sum, const ea_result *part, uint64_t at,
                             bool lower)
{
    ea_result next = {.rows = part->rows, .columns = sum->columns + part->columns};
    char *places[3];
    ea_status st = take_memory(
        c, &next, (const uint64_t[3]){(part->rows + 1) * 8, next.columns * 8, next.columns * 4},
        places);
    if (st) return st;
    uint64_t *offsets = (uint64_t *)(void *)places[0], *ids = (uint64_t *)(void *)places[1];
    float *scores = (float *)(void *)places[2];
    for (uint64_t i = 0; i < part->columns; i++)
        ((uint64_t *)part->ids)[i] += at; /* positions among all rows */
    offsets[0] = 0;
    for (uint64_t i = 0; i < part->rows; i++) {
        uint64_t a = sum->offsets ? sum->offsets[i] : 0, b = part->offsets[i];
        struct hit_list one = {(uint64_t *)sum->ids + a, (float *)sum->scores + a,
                               sum->offsets ? sum->offsets[i + 1] - a : 0};
        struct hit_list two = {(uint64_t *)part->ids + b, (float *)part->scores + b,
                               part->offsets[i + 1] - b};
        struct hit_list both = {ids + offsets[i], scores + offsets[i], 0};
        merge(&both, UINT64_MAX, &one, &two, lower);
        offsets[i + 1] = offsets[i] + both.count;
    }
    next.offsets = offsets;
    next.ids = next.columns ? ids : NULL;
    next.scores = next.columns ? scores : NULL;
    if (sum->meta) *(ea_meta *)next.meta = *sum->meta;
    add_meta((ea_meta *)next.meta, part->meta);
    ea_result_free(sum);
    *sum = next;
    return EA_OK;
}

static ea_status all_matches(ea_client *c, const ea_similarity_question *q, uint64_t rows,
                             int64_t deadline_ns, ea_result *out)
{
    ea_status st = EA_OK;
    for (uint64_t at = 0; !st && at < q->row_count; at += rows) {
        uint64_t left = q->row_count - at;
        struct client_request *r;
        st = ask_similarity(c, q, at, left < rows ? left : rows, deadline_ns, &r);
        if (st) break;
        st = add_matches(c, out, &r->result, at, q->metric == EA_SQUARED_EUCLIDEAN);
        ea_request_release(c, r);
    }
    return st;
}

ea_status ea_parts_similarity(ea_client *c, const ea_similarity_question *q, uint64_t rows,
                              ea_result *out)
{
    int64_t deadline_ns = ea_deadline_after(c->timeout_us);
    bool outermost = ea_call_begin(c);
    ea_status st = q->threshold ? all_matches(c, q, rows, deadline_ns, out)
                                : all_scores(c, q, rows, deadline_ns, out);
    ea_call_end(c, outermost);
    if (st) ea_result_free(out);
    return st;
}

/* ---- candidates ---- */

/* What is known of every query's list so far. */
struct score_parts {
    ea_client *c;
    const ea_score_question *q;
    const uint64_t *offsets; /* of all lists */
    uint64_t *part_offsets;  /* room for those of a part's */
    uint64_t most;           /* hits of a list that count: k, or the longest list's length */
    uint64_t *spare_ids;     /* room for `most` */
    float *spare_scores;
    uint64_t *ids;
    float *scores;
    uint32_t *counts;
};

static void add_hits(struct score_parts *p, uint64_t query, const ea_result *part, uint64_t row,
                     uint64_t first)
{
    uint64_t at = row * part->columns, count = part->counts[row];
    for (uint64_t i = 0; i < count; i++)
        ((uint64_t *)part->ids)[at + i] += first; /* positions in the whole list */
    struct hit_list old = {p->ids + query * p->most, p->scores + query * p->most, p->counts[query]};
    struct hit_list new = {(uint64_t *)part->ids + at, (float *)part->scores + at, count};
    struct hit_list both = {p->spare_ids, p->spare_scores, 0};
    merge(&both, p->most, &old, &new, p->q->metric == EA_SQUARED_EUCLIDEAN);
    memcpy(old.ids, both.ids, both.count * sizeof *old.ids);
    memcpy(old.scores, both.scores, both.count * sizeof *old.scores);
    p->counts[query] = (uint32_t)both.count;
}

/* Rows [at, end), and the queries whose lists have some of them. */
static ea_status score_part(struct score_parts *p, uint64_t at, uint64_t end, int64_t deadline_ns,
                            ea_meta *meta)
{
    const ea_score_question *q = p->q;
    uint64_t first = 0, last;
    while (p->offsets[first + 1] <= at)
        first++;
    for (last = first; last < q->query_count && p->offsets[last] < end; last++)
        p->part_offsets[last - first] = p->offsets[last] > at ? p->offsets[last] - at : 0;
    p->part_offsets[last - first] = end - at;
    ea_score_question part = *q;
    part.queries = q->queries + first * q->dimension;
    part.query_count = last - first;
    part.offsets = p->part_offsets;
    part.rows = q->rows + at * q->dimension;
    part.count = end - at;
    struct client_request *r;
    ea_status st = ea_build_score(p->c, &part, &r);
    if (st) return st;
    st = ea_run(p->c, r, deadline_ns, 0);
    if (!st && !q->k) memcpy(p->scores + at, r->result.scores, (end - at) * sizeof(float));
    for (uint64_t i = first; !st && q->k && i < last; i++)
        add_hits(p, i, &r->result, i - first, at > p->offsets[i] ? at - p->offsets[i] : 0);
    if (!st) add_meta(meta, r->result.meta);
    ea_request_release(p->c, r);
    return st;
}

static ea_status score_all(struct score_parts *p, uint64_t rows, ea_result *out)
{
    const ea_score_question *q = p->q;
    uint64_t queries = q->query_count, width = q->k ? p->most : 1,
             lines = q->k ? queries : q->count;
    int64_t deadline_ns = ea_deadline_after(p->c->timeout_us);
    char *places[3];
    ea_status st = take_memory(p->c, out,
                               (const uint64_t[3]){q->k ? lines * width * 8 : 0, lines * width * 4,
                                                   q->k ? queries * 4 : 0},
                               places);
    if (st) return st;
    p->ids = (uint64_t *)(void *)places[0];
    p->scores = (float *)(void *)places[1];
    p->counts = (uint32_t *)(void *)places[2];
    if (q->k) memset(p->counts, 0, queries * 4);
    for (uint64_t at = 0; !st && at < q->count; at += rows)
        st = score_part(p, at, q->count - at < rows ? q->count : at + rows, deadline_ns,
                        (ea_meta *)out->meta);
    const uint32_t none = 0x7fc00000; /* the number that is none, as the daemon writes it */
    for (uint64_t i = 0; !st && q->k && i < queries; i++)
        for (uint64_t h = p->counts[i]; h < width; h++) {
            p->ids[i * width + h] = EA_NO_ID;
            memcpy(&p->scores[i * width + h], &none, sizeof none);
        }
    out->rows = lines;
    out->columns = width;
    out->scores = p->scores;
    out->ids = q->k ? p->ids : NULL;
    out->counts = q->k ? p->counts : NULL;
    return st;
}

/* The lists' offsets, which the daemon would check; false: it shall say what is wrong. */
static bool rise(const ea_score_question *q, const uint64_t *offsets, uint64_t *longest)
{
    if (offsets[0] || offsets[q->query_count] != q->count) return false;
    *longest = 0;
    for (uint64_t i = 0; i < q->query_count; i++) {
        if (offsets[i + 1] < offsets[i]) return false;
        uint64_t length = offsets[i + 1] - offsets[i];
        if (length > *longest) *longest = length;
    }
    return true;
}

ea_status ea_parts_score(ea_client *c, const ea_score_question *q, uint64_t rows, ea_result *out)
{
    const uint64_t whole[2] = {0, q->count};
    uint64_t longest;
    struct score_parts p = {.c = c, .q = q, .offsets = q->offsets ? q->offsets : whole};
    if (!rise(q, p.offsets, &longest))
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS,
                       "offsets: they do not rise from 0 to %llu", (unsigned long long)q->count);
    p.most = longest < q->k ? longest : q->k;
    p.part_offsets = malloc((q->query_count + 1) * sizeof *p.part_offsets);
    p.spare_ids = malloc((p.most + 1) * sizeof *p.spare_ids);
    p.spare_scores = malloc((p.most + 1) * sizeof *p.spare_scores);
    bool outermost = ea_call_begin(c);
    ea_status st = p.part_offsets && p.spare_ids && p.spare_scores
                       ? score_all(&p, rows, out)
                       : ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory");
    ea_call_end(c, outermost);
    if (st) ea_result_free(out);
    free(p.part_offsets);
    free(p.spare_ids);
    free(p.spare_scores);
    return st;
}

/* ---- norms ---- */

ea_status ea_parts_norms(ea_client *c, const float *all, uint64_t n, uint32_t dimension,
                         uint64_t rows, float *norms_out)
{
    int64_t deadline_ns = ea_deadline_after(c->timeout_us);
    bool outermost = ea_call_begin(c);
    ea_status st = EA_OK;
    for (uint64_t at = 0; !st && at < n; at += rows) {
        uint64_t here = n - at < rows ? n - at : rows;
        struct client_request *r;
        st = ea_build_norms(c, all + at * dimension, here, dimension, &r);
        if (st) break;
        st = ea_run(c, r, deadline_ns, 0);
        if (!st) memcpy(norms_out + at, r->result.vectors, here * sizeof *norms_out);
        ea_request_release(c, r);
    }
    ea_call_end(c, outermost);
    return st;
}
