/* topk: the k best rows of each query. Rows come in spans. The first span is short, and all its
 * rows are candidates. After each span a selection finds the k best so far and their bound, which
 * keeps nearly all later rows from being written. The next span is a multiple of the rows so far,
 * so that it yields about that multiple of k candidates. A list has room for every row of a span,
 * so that it cannot overflow, whatever the order of the rows. With many queries, spans after the
 * first are screened (screen.cu): these are longer than the lists, because only few of their rows
 * pass. */
#include "kernels/cuda/launch.cuh"

enum {
    TOPK_FIRST_ROWS = 2048, /* = SELECT_SORT_MAX: sorted without a radix selection */
    TOPK_FEW_ROWS = 512,    /* the same for a small k, which is sorted sooner */
    TOPK_FEW = 16,
    TOPK_LEAST_ROWS = 64, /* rows of a span, with the least scratch */
    TOPK_ALIGN = 256,
    /* The screen is used from this many queries on, for which k, over how many rows. */
    TOPK_SCREEN_QUERIES = 9,
    TOPK_SCREEN_QUERIES_COMPENSATED = 2,
    TOPK_SCREEN_K_MAX = 1024,
    TOPK_SCREEN_ROWS = 8192,
    TOPK_SCREEN_PAIRS = 1 << 19,
    TOPK_PASSED_MAX = 16384, /* pairs for each query and span */
    TOPK_PASSED_MIN = 1024,
    TOPK_PASSED_SHARE = 4 /* this part of the list is expected to fill */
};

static const uint64_t TOPK_LIST_ENTRIES = 1u << 26; /* 1 GiB of candidates is enough */

struct topk_layout {
    uint64_t bounds, list_counts, best_counts[2], best[2]; /* offsets */
    uint64_t pass_counts, redo, passed, lists;
    uint64_t list_rows, pass_rows; /* for each query; pass_rows 0: no screen */
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + TOPK_ALIGN - 1) / TOPK_ALIGN * TOPK_ALIGN;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rows of a screen's list, from the bytes left for lists: it may not be longer than the list
 * that it feeds. */
static uint64_t topk_pass_rows(uint64_t query_count, uint32_t k, uint64_t left)
{
    if (query_count < TOPK_SCREEN_QUERIES_COMPENSATED || k > TOPK_SCREEN_K_MAX) return 0;
    uint64_t each = sizeof(struct topk_entry) + sizeof(uint32_t);
    uint64_t rows = least(TOPK_PASSED_MAX, left / query_count / each);
    return rows < TOPK_PASSED_MIN || rows < 8 * (uint64_t)k ? 0 : rows / 64 * 64;
}

/* Lays out the scratch; what is left of scratch_bytes is for lists. */
static struct topk_layout topk_layout_of(uint64_t query_count, uint32_t k, uint64_t scratch_bytes)
{
    struct topk_layout at;
    uint64_t counts = align_up(query_count * sizeof(uint32_t));
    uint64_t best = align_up(query_count * k * sizeof(struct topk_entry));
    at.bounds = 0;
    at.list_counts = align_up(query_count * sizeof(struct topk_bound));
    at.best_counts[0] = at.list_counts + counts;
    at.best_counts[1] = at.best_counts[0] + counts;
    at.best[0] = at.best_counts[1] + counts;
    at.best[1] = at.best[0] + best;
    at.pass_counts = at.best[1] + best;
    at.redo = at.pass_counts + align_up((query_count + 1) * sizeof(uint32_t));
    at.passed = at.redo + counts;
    at.pass_rows = topk_pass_rows(query_count, k, scratch_bytes - least(scratch_bytes, at.passed));
    at.lists = at.passed + align_up(query_count * at.pass_rows * sizeof(uint32_t));
    uint64_t left = scratch_bytes - least(scratch_bytes, at.lists);
    at.list_rows = left / sizeof(struct topk_entry) / (query_count ? query_count : 1);
    return at;
}

static uint64_t topk_scratch(uint64_t query_count, uint32_t k, uint64_t list_rows)
{
    return topk_layout_of(query_count, k, 0).lists +
           align_up(query_count * list_rows * sizeof(struct topk_entry));
}

static uint64_t topk_first_rows(uint32_t k)
{
    uint64_t rows = k <= TOPK_FEW ? TOPK_FEW_ROWS : TOPK_FIRST_ROWS;
    while (rows < 4 * (uint64_t)k && k > TOPK_FIRST_ROWS / 2)
        rows *= 2;
    return rows;
}

extern "C" uint64_t cuda_topk_scratch_min(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return topk_scratch(query_count, k, least(row_count, TOPK_LEAST_ROWS));
}

extern "C" uint64_t cuda_topk_scratch_best(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    uint64_t rows = query_count ? TOPK_LIST_ENTRIES / query_count : 0;
    if (rows < topk_first_rows(k)) rows = topk_first_rows(k);
    uint64_t screen = row_count < TOPK_SCREEN_ROWS || k > TOPK_SCREEN_K_MAX ? 0 : TOPK_PASSED_MAX;
    uint64_t bytes = topk_scratch(query_count, k, least(row_count, rows)) +
                     align_up(query_count * least(screen, rows) * sizeof(uint32_t));
    bool is_scan = query_count == 1 && k <= SCAN_TOPK_K_MAX;
    return is_scan && bytes < scan_topk_scratch(k) ? scan_topk_scratch(k) : bytes;
}

/* True if spans after the first are screened. */
static bool topk_screens(const struct cuda_queries *queries, const struct cuda_rows *rows,
                         const struct topk_layout *at)
{
    uint64_t from = canonical_is_compensated(rows->dimension) ? TOPK_SCREEN_QUERIES_COMPENSATED
                                                              : TOPK_SCREEN_QUERIES;
    return at->pass_rows && queries->count >= from && rows->count >= TOPK_SCREEN_ROWS &&
           rows->count >= TOPK_SCREEN_PAIRS / queries->count && rows->norms && queries->norms &&
           screen_runs();
}

static struct screen_room topk_room_of(const struct cuda_topk *topk, const struct topk_layout *at,
                                       uint64_t query_count)
{
    char *scratch = (char *)topk->scratch;
    struct screen_room room = {};
    room.counts = (uint32_t *)(scratch + at->pass_counts);
    room.redo_count = room.counts + query_count;
    room.redo = (uint32_t *)(scratch + at->redo);
    room.passed = (uint32_t *)(scratch + at->passed);
    room.most = (uint32_t)at->pass_rows;
    room.work = topk->work;
    return room;
}

/* The length of a screened span after rows_seen rows: if rows come in no order, the expected
 * number that passes fills a part of the lists. */
static uint64_t topk_screened_rows(uint32_t k, uint64_t seen, uint64_t rows, uint64_t pass_rows)
{
    const uint64_t longest = 1u << 31; /* places have 32 bits */
    uint64_t growth = least(16, pass_rows / TOPK_PASSED_SHARE / k);
    return least(least(seen * growth, longest), rows - seen);
}

/* The length of a span after rows_seen rows: as many as the lists hold, in whole waves if it is
 * long. */
static uint64_t topk_span_rows(uint32_t k, uint64_t seen, uint64_t rows, uint64_t list_rows,
                               uint64_t wave)
{
    uint64_t growth = 1536 / k;
    growth = growth < 8 ? 8 : growth > 64 ? 64 : growth;
    uint64_t span = seen == 0 ? topk_first_rows(k) : seen * growth;
    span = least(least(span, list_rows), rows - seen);
    if (span < rows - seen && span > wave) span -= span % wave;
    return span;
}

extern "C" int cuda_topk(enum metric metric, const struct cuda_queries *queries,
                         const struct cuda_rows *rows, const struct cuda_topk *topk,
                         struct CUstream_st *stream)
{
    uint64_t count = queries->count, wave = tile_wave_rows(rows->dimension, count);
    if (count == 0) return cudaSuccess;
    struct topk_layout at = topk_layout_of(count, topk->k, topk->scratch_bytes);
    char *scratch = (char *)topk->scratch;
    if (topk->k == 0 || topk->k > TOPK_K_MAX || (rows->count > 0 && at.list_rows == 0))
        return cudaErrorInvalidValue;
    if (count == 1 && topk->k <= SCAN_TOPK_K_MAX)
        return scan_topk_launch(metric, queries, rows, topk, stream);

    struct select_round round = {};
    round.k = topk->k;
    round.lists = (struct topk_entry *)(scratch + at.lists);
    round.list_stride = at.list_rows;
    round.list_counts = (uint32_t *)(scratch + at.list_counts);
    round.bounds = (struct topk_bound *)(scratch + at.bounds);
    round.out_ids = topk->out_ids;
    round.out_scores = topk->out_scores;
    struct score_span span = {};
    span.sink.lists = round.lists;
    span.sink.counts = round.list_counts;
    span.sink.bounds = round.bounds;
    span.sink.list_stride = at.list_rows;
    span.sink.ids = topk->ids;
    span.sink.first_id = topk->first_id;
    span.sink.filter = topk->filter;
    /* Without a bound every row of the first span is a candidate, and its place is known. */
    uint64_t first = topk_span_rows(topk->k, 0, rows->count, at.list_rows, wave);
    span.sink.in_place = !topk->threshold && !topk->filter.allowed;
    int error = select_init_launch(topk->threshold, metric_lower_is_better(metric), count, &round,
                                   (uint32_t *)(scratch + at.best_counts[0]),
                                   span.sink.in_place ? (uint32_t)first : 0, stream);
    const struct screen_room room = topk_room_of(topk, &at, count);
    const bool screens = topk_screens(queries, rows, &at);
    if (!error && screens)
        error = cudaMemsetAsync(room.counts, 0, count * sizeof *room.counts, stream);
    int side = 0;
    uint64_t seen = 0;
    do {
        if (error) return error;
        bool screened = screens && seen > 0;
        span.first = seen;
        span.count = screened ? topk_screened_rows(topk->k, seen, rows->count, at.pass_rows)
                              : topk_span_rows(topk->k, seen, rows->count, at.list_rows, wave);
        seen += span.count;
        bool last = seen == rows->count;
        round.best = (struct topk_entry *)(scratch + at.best[side]);
        round.best_counts = (uint32_t *)(scratch + at.best_counts[side]);
        error = screened     ? screen_launch(metric, queries, rows, &span, &room, &round, stream)
                : count == 1 ? scan_launch(metric, queries, rows, &span, stream)
                             : tile_launch(metric, queries, rows, &span, stream);
        if (error) return error;
        side = !side;
        round.next = (struct topk_entry *)(scratch + at.best[side]);
        round.next_counts = last ? topk->out_counts : (uint32_t *)(scratch + at.best_counts[side]);
        round.sort = last && topk->k <= SELECT_SORT_MAX;
        error = select_launch(&round, count, stream);
        span.sink.in_place = false;
    } while (seen < rows->count);
    if (!error && topk->k > SELECT_SORT_MAX) error = select_sort_launch(&round, count, stream);
    return error;
}
