#include "daemon/ops/rows.h"

#include "daemon/base/yield.h"
#include "daemon/ops/operation_inside.h"

/* Copies fit in the second-level cache; gathered rows are prefetched this far ahead. */
enum { COPY_BYTES = 256 << 10, COPY_ROWS_MIN = 8, AHEAD = 8, AHEAD_LINES = 6 };

size_t rows_batch(uint32_t dimension)
{
    size_t rows = COPY_BYTES / (vector_stride(dimension) * sizeof(float));
    if (rows < COPY_ROWS_MIN) return COPY_ROWS_MIN;
    return rows < ROWS_BLOCK ? rows : ROWS_BLOCK;
}

bool rows_want_copies(const struct row_source *s, uint64_t query_count, bool listed)
{
    return s->collection ? listed && query_count > 1 : s->dimension % VECTOR_LANES != 0;
}

static size_t copy_bytes(uint32_t dimension)
{
    return rows_batch(dimension) * vector_stride(dimension) * sizeof(float);
}

size_t rows_buffer_bytes(uint32_t dimension, bool copies)
{
    uint64_t bytes = 0;
    layout_add(&bytes, ROWS_BLOCK * sizeof(float));
    layout_add(&bytes, ROWS_BLOCK * sizeof(uint64_t));
    layout_add(&bytes, ROWS_BLOCK * sizeof(float *));
    layout_add(&bytes, copies ? copy_bytes(dimension) : 0);
    return bytes;
}

struct rows_buffer rows_buffer_at(uint32_t dimension, bool copies, void *memory)
{
    char *base = memory;
    uint64_t at = 0;
    struct rows_buffer b;
    b.norms = (float *)(base + layout_add(&at, ROWS_BLOCK * sizeof(float)));
    b.ids = (uint64_t *)(base + layout_add(&at, ROWS_BLOCK * sizeof(uint64_t)));
    b.pointers = (const float **)(base + layout_add(&at, ROWS_BLOCK * sizeof(float *)));
    b.copies = copies ? (float *)(base + at) : NULL;
    return b;
}

static void score_block(const struct row_source *s, const struct query_set *q, enum metric metric,
                        struct row_block block, float *scores, size_t scores_stride)
{
    if (q->count == 1)
        s->kernels->scan(metric, s->dimension, q->rows, q->norms[0], block, scores);
    else
        s->kernels->tile(metric, s->dimension, &q->pack, block, scores, scores_stride);
}

struct row_block rows_inline(const struct row_source *s, uint64_t first, size_t n,
                             struct rows_buffer *buffer, uint64_t *bad)
{
    const float *rows = s->inline_rows + first * s->dimension;
    if (s->dimension % VECTOR_LANES) {
        vectors_pad(s->dimension, rows, n, buffer->copies);
        rows = buffer->copies;
    }
    s->kernels->norms(s->dimension, rows, n, buffer->norms);
    size_t wrong = vectors_find_bad(buffer->norms, n);
    if (wrong < n) *bad = first + wrong;
    return (struct row_block){.rows = rows, .norms = buffer->norms, .count = n};
}

uint64_t rows_find_bad(const struct row_source *s, uint64_t first, uint64_t end,
                       struct rows_buffer *buffer)
{
    uint64_t bad = NO_ROW;
    while (first < end && bad == NO_ROW) {
        size_t n = (size_t)smaller(rows_batch(s->dimension), end - first);
        yield_check();
        rows_inline(s, first, n, buffer, &bad);
        first += n;
    }
    return bad;
}

static void fetch_ahead(const float *row, size_t bytes)
{
    for (size_t line = 0; line < AHEAD_LINES && line * 64 < bytes; line++)
        __builtin_prefetch((const char *)row + line * 64);
}

void rows_gather(const struct row_source *s, const struct query_set *query, enum metric metric,
                 const uint32_t *rows, size_t count, struct rows_buffer *buffer, float *scores)
{
    size_t bytes = vector_stride(s->dimension) * sizeof(float);
    for (size_t i = 0; i < count; i++) {
        buffer->pointers[i] = collection_row(s->collection, rows[i]);
        buffer->norms[i] = collection_norm(s->collection, rows[i]);
    }
    for (size_t i = 0; i < count && i < AHEAD; i++)
        fetch_ahead(buffer->pointers[i], bytes);
    for (size_t i = 0; i < count; i += AHEAD) {
        size_t n = smaller(AHEAD, count - i);
        for (size_t k = i + AHEAD; k < i + 2 * AHEAD && k < count; k++)
            fetch_ahead(buffer->pointers[k], bytes);
        s->kernels->gather(metric, s->dimension, query->rows, query->norms[0], buffer->pointers + i,
                           buffer->norms + i, n, scores + i);
    }
}

/* Copies n rows of the list next to each other. */
static struct row_block copy_listed(const struct row_source *s, const uint32_t *rows, size_t n,
                                    struct rows_buffer *buffer)
{
    size_t stride = vector_stride(s->dimension);
    for (size_t i = 0; i < n; i++) {
        if (i + 2 < n) fetch_ahead(collection_row(s->collection, rows[i + 2]), stride * 4);
        memcpy(buffer->copies + i * stride, collection_row(s->collection, rows[i]),
               stride * sizeof(float));
        buffer->norms[i] = collection_norm(s->collection, rows[i]);
    }
    return (struct row_block){.rows = buffer->copies, .norms = buffer->norms, .count = n};
}

struct row_block rows_block(const struct row_source *s, uint64_t first, uint64_t count_max,
                            struct rows_buffer *buffer, const uint64_t **ids, uint64_t *bad)
{
    size_t n = (size_t)smaller(count_max, ROWS_BLOCK);
    if (s->collection && !s->list) {
        size_t segment_rows = collection_segment_rows(s->collection);
        n = smaller(n, segment_rows - (first & (segment_rows - 1)));
        return collection_block(s->collection, first, n, ids);
    }
    n = smaller(n, rows_batch(s->dimension));
    for (size_t i = 0; i < n; i++)
        buffer->ids[i] = s->list ? collection_id(s->collection, s->list[first + i]) : first + i;
    *ids = buffer->ids;
    return s->list ? copy_listed(s, s->list + first, n, buffer)
                   : rows_inline(s, first, n, buffer, bad);
}

/* One query reads each row once, so copying would not help. */
static size_t score_listed(const struct row_source *s, const struct query_set *q,
                           enum metric metric, uint64_t first, size_t n, struct rows_buffer *buffer,
                           float *scores)
{
    for (size_t i = 0; i < n; i++)
        buffer->ids[i] = collection_id(s->collection, s->list[first + i]);
    rows_gather(s, q, metric, s->list + first, n, buffer, scores);
    return n;
}

size_t rows_score(const struct row_source *s, const struct query_set *queries, enum metric metric,
                  uint64_t first, uint64_t count_max, struct rows_buffer *buffer, float *scores,
                  size_t scores_stride, const uint64_t **ids, uint64_t *bad)
{
    if (s->list && queries->count == 1) {
        *ids = buffer->ids;
        return score_listed(s, queries, metric, first, (size_t)smaller(count_max, ROWS_BLOCK),
                            buffer, scores);
    }
    uint64_t wrong = NO_ROW;
    struct row_block block = rows_block(s, first, count_max, buffer, ids, &wrong);
    if (wrong == NO_ROW)
        score_block(s, queries, metric, block, scores, scores_stride);
    else
        *bad = wrong;
    return block.count;
}
