#include "daemon/gpu/sim_shadow.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/shadow_scan.h"

enum {
    BATCH_ROWS = 1024,
    LIST_ROWS = 512,   /* of one among several queries, that may pass */
    ROWS_A_PLACE = 12, /* there must be so many for each of the k best */
    SAMPLE = 4096,     /* rows whose mean is the centre */
};

struct sim_shadow {
    const struct vector_kernels *kernels;
    const struct shadow_kernels *codes;
    void *entries;
    float above[BATCH_ROWS], floors[BATCH_ROWS], scores[BATCH_ROWS], norms[BATCH_ROWS];
    const float *rows[BATCH_ROWS];
    uint64_t ids[BATCH_ROWS];
    uint32_t positions[BATCH_ROWS + 16];
    _Alignas(64) int8_t planes[2 * (VECTOR_DIMENSION_MAX + SHADOW_ALIGN)];
    /* of a query with the sign turned */
    _Alignas(64) int8_t turned[2 * (VECTOR_DIMENSION_MAX + SHADOW_ALIGN)];
    _Alignas(64) float minus[VECTOR_DIMENSION_MAX];
};

struct sim_shadow *sim_shadow_create(const struct vector_kernels *kernels)
{
    struct sim_shadow *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    if (!s) return NULL;
    s->kernels = kernels;
    s->codes = shadow_choose("auto");
    s->entries = aligned_alloc(64, topk_bytes(TOPK_K_MAX));
    if (s->entries) return s;
    free(s);
    return NULL;
}

void sim_shadow_destroy(struct sim_shadow *s)
{
    if (s) free(s->entries);
    free(s);
}

bool sim_shadow_suits(uint64_t query_count, uint32_t k, uint64_t row_count)
{
    return query_count && row_count / ROWS_A_PLACE >= k && k >= 1 && k <= TOPK_K_MAX;
}

uint64_t sim_shadow_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                            uint32_t dimension)
{
    uint64_t list = query_count == 1 ? row_count : LIST_ROWS;
    uint64_t each = shadow_stride(dimension) + (2 * (uint64_t)k + list) * sizeof(struct topk_entry);
    return (query_count * each + 7 * 256) / 256 * 256;
}

uint64_t sim_shadow_direct_scratch(uint64_t row_count)
{
    return (row_count * (sizeof(float) + sizeof(struct topk_entry)) + 7 * 256) / 256 * 256;
}

/* ---- what it may touch ---- */

static const char *name_of(const struct device_call *c)
{
    return device_kernel_name(c->kernel);
}

static void check(const struct device_call *c, const struct sim_memory *m, const void *address,
                  uint64_t count, uint64_t size, uint64_t alignment)
{
    sim_device_check_array(m, name_of(c), address, count, size, alignment);
}

static void check_centre(const struct device_call *c, const struct sim_memory *m)
{
    uint64_t stride = vector_stride(c->rows.dimension);
    check(c, m, c->rows.rows, c->rows.count, stride * sizeof(float), 64);
    check(c, m, c->centre.row, stride, sizeof(float), 64);
    check(c, m, c->centre.norm, 1, sizeof(float), 4);
}

static void check_codes(const struct device_call *c, const struct sim_memory *m, uint64_t rows)
{
    const struct cuda_shadow *s = &c->shadow;
    uint64_t stride = vector_stride(c->rows.dimension);
    uint64_t aligned = c->kernel == KERNEL_SHADOW_CODE ? 4 : 64; /* rows may be coded apart */
    bool reads = c->kernel == KERNEL_SHADOW_CODE || c->kernel == KERNEL_SHADOW_TOPK;
    if (reads) check(c, m, c->rows.rows, rows, stride * sizeof(float), 64);
    check(c, m, s->codes, rows, shadow_stride(c->rows.dimension), 64);
    check(c, m, s->scales, rows, sizeof(float), aligned);
    check(c, m, s->losts, rows, sizeof(float), aligned);
    check(c, m, s->lengths, rows, sizeof(float), aligned);
    check(c, m, s->centre, stride, sizeof(float), 64);
    check(c, m, s->centre_norm, 1, sizeof(float), 4);
}

static void check_search(const struct device_call *c, const struct sim_memory *m)
{
    const struct cuda_topk *t = &c->topk;
    uint64_t queries = c->queries.count, rows = c->rows.count;
    if (!sim_shadow_suits(queries, t->k, rows))
        sim_misuse(name_of(c), "%llu queries, k = %u, %llu rows", (unsigned long long)queries,
                   (unsigned)t->k, (unsigned long long)rows);
    if (t->scratch_bytes < sim_shadow_scratch(queries, t->k, rows, c->rows.dimension))
        sim_misuse(name_of(c), "too little scratch");
    check(c, m, c->queries.norms, queries, sizeof(float), 4);
    check(c, m, c->rows.norms, rows, sizeof(float), 4);
    if (t->work) check(c, m, t->work, 1, sizeof *t->work, 8);
}

/* What a top-k checks as well, and the list. */
static void check_list(const struct device_call *c, const struct sim_memory *m)
{
    const struct cuda_topk *t = &c->topk;
    const struct cuda_filter *f = &t->filter;
    const struct cuda_shadow_list *l = &c->list;
    uint64_t queries = c->queries.count, words = (c->rows.count + 63) / 64;
    if (c->metric < METRIC_COSINE || c->metric > METRIC_SQUARED_EUCLIDEAN)
        sim_misuse(name_of(c), "metric %d", (int)c->metric);
    check(c, m, c->queries.rows, queries, vector_stride(c->rows.dimension) * sizeof(float), 64);
    check(c, m, t->scratch, t->scratch_bytes, 1, 256);
    check(c, m, t->ids, c->rows.count, sizeof *t->ids, 8);
    if (f->allowed) check(c, m, f->allowed, words, sizeof *f->allowed, 8);
    if (f->allowed && f->of) check(c, m, f->of, queries, sizeof *f->of, 4);
    if (f->of && f->words < words) sim_misuse(name_of(c), "bitmaps overlap");
    check(c, m, l->out, l->out_max, sizeof *l->out, 16);
    check(c, m, l->total, 1, sizeof *l->total, 4);
    check(c, m, l->firsts, queries, sizeof *l->firsts, 4);
    check(c, m, l->counts, queries, sizeof *l->counts, 4);
}

static void check_direct(const struct device_call *c, const struct sim_memory *m)
{
    const struct cuda_direct *d = &c->direct;
    uint64_t rows = c->rows.count;
    if (d->k < 1 || !sim_shadow_suits(1, d->k, rows))
        sim_misuse(name_of(c), "k = %u, %llu rows", (unsigned)d->k, (unsigned long long)rows);
    if (d->scratch_bytes < sim_shadow_direct_scratch(rows))
        sim_misuse(name_of(c), "too little scratch");
    check(c, m, c->rows.norms, rows, sizeof(float), 4);
}

/* Rows may be summed that the replica has no longer. */
static void check_sums(const struct device_call *c, const struct sim_memory *m, uint64_t first,
                       uint64_t count, const uint64_t *sums)
{
    uint64_t end = first + count;
    check(c, m, c->shadow.codes, end, shadow_stride(c->rows.dimension), 64);
    check(c, m, c->shadow.scales, end, sizeof(float), 64);
    check(c, m, c->shadow.losts, end, sizeof(float), 64);
    check(c, m, c->shadow.lengths, end, sizeof(float), 64);
    check(c, m, sums, shadow_sum_tiles(end), sizeof *sums, 64);
}

void sim_shadow_check(const struct device_call *call, const struct sim_memory *m)
{
    if (call->kernel == KERNEL_SHADOW_CENTRE) {
        check_centre(call, m);
        return;
    }
    if (call->kernel == KERNEL_SHADOW_CODE &&
        call->code.first + call->code.count > call->rows.count)
        sim_misuse(name_of(call), "rows past the end");
    if (call->kernel == KERNEL_SHADOW_SUM) {
        check_sums(call, m, call->sum.first, call->sum.count, call->sum.sums);
        return;
    }
    check_codes(call, m, call->rows.count);
    if (call->kernel == KERNEL_SHADOW_TOPK || call->kernel == KERNEL_SHADOW_LIST)
        check_search(call, m);
    if (call->kernel == KERNEL_SHADOW_LIST) check_list(call, m);
    if (call->kernel == KERNEL_SHADOW_DIRECT) check_direct(call, m);
    if (call->kernel != KERNEL_SHADOW_CHECK) return;
    check_sums(call, m, call->look.first, call->look.count, call->look.sums);
    check(call, m, call->look.found, 1, sizeof *call->look.found, 8);
    check(call, m, call->rows.norms, call->rows.count, sizeof(float), 64);
    uint64_t end = call->look.first + call->look.count;
    if (call->look.first % SHADOW_SUM_ROWS || (end % SHADOW_SUM_ROWS && end != call->rows.count))
        sim_misuse(name_of(call), "parts of tiles");
}

/* ---- coding ---- */

static void run_centre(const struct device_call *c, const struct sim_shadow *s)
{
    uint32_t dimension = c->rows.dimension;
    uint64_t stride = vector_stride(dimension), count = c->rows.count;
    uint64_t taken = count < SAMPLE ? count : SAMPLE;
    for (uint64_t column = 0; column < stride; column++) {
        float sum = 0;
        for (uint64_t n = 0; n < taken; n++)
            sum += c->rows.rows[count / taken * n * stride + column];
        float mean = taken ? sum / (float)taken : 0.0f;
        c->centre.row[column] = canonical_is_finite(mean) ? mean : 0.0f;
    }
    s->kernels->norms(dimension, c->centre.row, 1, c->centre.norm);
}

static void run_code(const struct device_call *c, const struct sim_shadow *s)
{
    uint64_t first = c->code.first;
    const struct cuda_shadow *to = &c->shadow;
    const struct shadow_centre centre = {to->centre, *to->centre_norm};
    const struct shadow_places places = {to->codes + first * shadow_stride(c->rows.dimension),
                                         to->scales + first, to->losts + first,
                                         to->lengths + first};
    s->codes->measure(c->rows.dimension, c->rows.rows + first * vector_stride(c->rows.dimension),
                      c->code.count, &centre, &places);
}

/* ---- checksums ---- */

static struct shadow_rows shadow_rows_from(const struct device_call *c, uint64_t first,
                                           uint64_t count)
{
    const struct cuda_shadow *s = &c->shadow;
    return (struct shadow_rows){s->codes + first * shadow_stride(c->rows.dimension),
                                s->scales + first, s->losts + first, s->lengths + first, count};
}

static uint64_t sum_of(const struct device_call *c, const struct shadow_rows *rows, uint64_t row)
{
    const struct cuda_shadow *s = &c->shadow;
    uint32_t dimension = c->rows.dimension;
    return shadow_sum_row(dimension, rows, row) +
           (row ? 0 : shadow_sum_centre(dimension, s->centre, *s->centre_norm));
}

static void run_sum(const struct device_call *c)
{
    const struct shadow_rows rows = shadow_rows_from(c, 0, c->rows.count);
    for (uint64_t row = c->sum.first; row < c->sum.first + c->sum.count; row++) {
        uint64_t part = sum_of(c, &rows, row);
        c->sum.sums[row / SHADOW_SUM_ROWS] += c->sum.out ? 0 - part : part;
    }
}

static void run_look(const struct device_call *c)
{
    const struct shadow_rows rows = shadow_rows_from(c, 0, c->rows.count);
    struct cuda_shadow_found *found = c->look.found;
    uint64_t end = c->look.first + c->look.count, sum = 0;
    for (uint64_t row = c->look.first; row < end; row++) {
        sum += sum_of(c, &rows, row);
        float norm = c->rows.norms[row], lost = rows.losts[row];
        if (norm > 0.0f && canonical_is_finite(norm) && canonical_is_finite(lost)) {
            found->lost += (double)lost / norm;
            found->rows++;
        }
        if ((row + 1) % SHADOW_SUM_ROWS && row + 1 < end) continue;
        found->differ += sum != c->look.sums[row / SHADOW_SUM_ROWS];
        sum = 0;
    }
}

/* ---- searching ---- */

struct search {
    const struct device_call *call;
    struct screen screen;
    struct shadow_query query;
    const float *row;
    float norm;
    const uint64_t *allowed;
    struct topk best;
    uint64_t passed;
};

/* Scores the rows of a batch that may still be among the best. */
static void offer_batch(struct search *w, struct sim_shadow *s, uint64_t first, uint64_t count)
{
    const struct device_call *c = w->call;
    uint32_t dimension = c->rows.dimension;
    uint64_t stride = vector_stride(dimension), listed = 0;
    const struct shadow_rows rows = shadow_rows_from(c, first, count);
    struct screen_line line = {0.0f, -INFINITY};
    if (w->best.selective) line = screen_line(&w->screen, w->norm, w->best.bound);
    s->codes->scan(dimension, &w->query, s->planes, &rows, s->above);
    screen_floors(&w->screen, c->rows.norms + first, count, s->floors);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = first + i;
        if (s->above[i] < fmaf(line.scale, s->floors[i], line.offset)) continue;
        if (w->allowed && !(w->allowed[row / 64] >> row % 64 & 1)) continue;
        s->rows[listed] = c->rows.rows + row * stride;
        s->norms[listed] = c->rows.norms[row];
        s->ids[listed++] = c->topk.ids ? c->topk.ids[row] : c->topk.first_id + row;
    }
    w->passed += listed;
    if (!listed) return;
    s->kernels->gather(c->metric, dimension, w->row, w->norm, s->rows, s->norms, listed, s->scores);
    topk_offer(&w->best, s->kernels, s->scores, s->ids, listed, NULL, 0, s->positions);
    topk_tighten(&w->best);
}

static const uint64_t *allowed_of(const struct cuda_filter *f, uint64_t q)
{
    if (!f->allowed || !f->of) return f->allowed;
    return f->of[q] == CUDA_FILTER_NONE ? NULL : f->allowed + f->of[q] * f->words;
}

static void search_one(const struct device_call *c, uint64_t q, const float *threshold,
                       struct sim_shadow *s)
{
    const struct cuda_topk *t = &c->topk;
    uint32_t dimension = c->rows.dimension;
    const struct shadow_centre centre = {c->shadow.centre, *c->shadow.centre_norm};
    struct search w = {.call = c, .screen = screen_of_shadow(c->metric, dimension)};
    w.row = c->queries.rows + q * vector_stride(dimension);
    w.norm = c->queries.norms[q];
    w.allowed = allowed_of(&t->filter, q);
    topk_init(&w.best, s->entries, t->k, metric_lower_is_better(c->metric), threshold);
    s->codes->prepare(dimension, w.row, w.norm, &centre, s->planes, &w.query);
    for (uint64_t first = 0; first < c->rows.count; first += BATCH_ROWS) {
        uint64_t left = c->rows.count - first;
        offer_batch(&w, s, first, left < BATCH_ROWS ? left : BATCH_ROWS);
    }
    bool again = c->queries.count > 1 && w.passed > LIST_ROWS + 4 * (uint64_t)t->k + BATCH_ROWS;
    if (t->work) *(again ? &t->work->redone : &t->work->passed) += again ? 1 : w.passed;
    t->out_counts[q] = topk_finish(&w.best, t->out_ids + q * t->k, t->out_scores + q * t->k);
    if (!again) return;
    t->out_counts[q] = CUDA_SHADOW_REDO;
    memset(t->out_ids + q * t->k, 0xdb, t->k * sizeof *t->out_ids);
    memset(t->out_scores + q * t->k, 0xdb, t->k * sizeof *t->out_scores);
}

static void run_search(const struct device_call *c, float threshold, struct sim_shadow *s)
{
    const struct cuda_topk *t = &c->topk;
    memset(t->scratch, 0xdb, t->scratch_bytes < 65536 ? t->scratch_bytes : 65536);
    for (uint64_t q = 0; q < c->queries.count; q++)
        search_one(c, q, t->threshold ? &threshold : NULL, s);
}

/* ---- without rows ---- */

/* Scores of a batch are at least s->scores; what may enter is offered. Of -x a row's dot product is
 * at most `less`: that of x is at least as much with the sign turned. */
static void offer_least(struct search *w, struct sim_shadow *s, const struct shadow_query *less,
                        const struct shadow_rows *rows, uint64_t first)
{
    const struct device_call *c = w->call;
    s->codes->scan(c->rows.dimension, less, s->turned, rows, s->above);
    for (uint64_t i = 0; i < rows->count; i++) {
        s->scores[i] = shadow_least(&w->screen, w->norm, c->rows.norms[first + i], -s->above[i]);
        s->ids[i] = c->topk.ids[first + i];
    }
    topk_offer(&w->best, s->kernels, s->scores, s->ids, rows->count, w->allowed, first,
               s->positions);
    topk_tighten(&w->best);
}

/* Counts the rows of a batch that may reach the bound, and lists them where there is room. */
static void list_batch(struct search *w, struct sim_shadow *s, const struct shadow_rows *rows,
                       uint64_t first)
{
    const struct device_call *c = w->call;
    const struct cuda_shadow_list *l = &c->list;
    struct screen_line line = {0.0f, -INFINITY};
    if (w->best.selective) line = screen_line(&w->screen, w->norm, w->best.bound);
    s->codes->scan(c->rows.dimension, &w->query, s->planes, rows, s->above);
    screen_floors(&w->screen, c->rows.norms + first, rows->count, s->floors);
    for (uint64_t i = 0; i < rows->count; i++) {
        uint64_t row = first + i, at = *l->total + w->passed;
        if (s->above[i] < fmaf(line.scale, s->floors[i], line.offset)) continue;
        if (w->allowed && !(w->allowed[row / 64] >> row % 64 & 1)) continue;
        if (at < l->out_max)
            l->out[at] = (struct shadow_survivor){
                .id = c->topk.ids[row], .row = (uint32_t)row, .norm = c->rows.norms[row]};
        w->passed++;
    }
}

static void list_one(const struct device_call *c, uint64_t q, const float *threshold,
                     struct sim_shadow *s)
{
    uint32_t dimension = c->rows.dimension;
    uint64_t stride = vector_stride(dimension), most = LIST_ROWS + 4 * (uint64_t)c->topk.k;
    const struct shadow_centre centre = {c->shadow.centre, *c->shadow.centre_norm};
    struct search w = {.call = c, .screen = screen_of_shadow(c->metric, dimension)};
    struct shadow_query less;
    w.row = c->queries.rows + q * stride;
    w.norm = c->queries.norms[q];
    w.allowed = allowed_of(&c->topk.filter, q);
    topk_init(&w.best, s->entries, c->topk.k, metric_lower_is_better(c->metric), threshold);
    for (uint64_t i = 0; i < stride; i++)
        s->minus[i] = -w.row[i];
    s->codes->prepare(dimension, s->minus, w.norm, &centre, s->turned, &less);
    s->codes->prepare(dimension, w.row, w.norm, &centre, s->planes, &w.query);
    for (int listing = 0; listing < 2; listing++) {
        for (uint64_t first = 0; first < c->rows.count; first += BATCH_ROWS) {
            uint64_t left = c->rows.count - first, count = left < BATCH_ROWS ? left : BATCH_ROWS;
            const struct shadow_rows rows = shadow_rows_from(c, first, count);
            if (listing)
                list_batch(&w, s, &rows, first);
            else
                offer_least(&w, s, &less, &rows, first);
        }
    }
    bool whole =
        (c->queries.count == 1 || w.passed <= most) && *c->list.total + w.passed <= c->list.out_max;
    c->list.firsts[q] = *c->list.total;
    c->list.counts[q] = whole ? (uint32_t)w.passed : CUDA_SHADOW_REDO;
    if (whole) *c->list.total += (uint32_t)w.passed;
}

static void run_list(const struct device_call *c, float threshold, struct sim_shadow *s)
{
    memset(c->topk.scratch, 0xdb, c->topk.scratch_bytes < 65536 ? c->topk.scratch_bytes : 65536);
    for (uint64_t q = 0; q < c->queries.count; q++)
        list_one(c, q, c->topk.threshold ? &threshold : NULL, s);
}

void sim_shadow_run(const struct device_call *call, float threshold, struct sim_shadow *s)
{
    if (call->kernel == KERNEL_SHADOW_CENTRE)
        run_centre(call, s);
    else if (call->kernel == KERNEL_SHADOW_CODE)
        run_code(call, s);
    else if (call->kernel == KERNEL_SHADOW_SUM)
        run_sum(call);
    else if (call->kernel == KERNEL_SHADOW_CHECK)
        run_look(call);
    else if (call->kernel == KERNEL_SHADOW_LIST)
        run_list(call, threshold, s);
    else
        run_search(call, threshold, s);
}
