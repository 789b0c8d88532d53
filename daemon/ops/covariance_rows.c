/* covariance_rows: which rows a covariance is of, in which order, and what they weigh. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/covariance_inside.h"

enum { YIELD_EVERY = 1 << 13 };

static enum status find_ids(struct job *j, const struct covariance_job *w, uint32_t *numbers)
{
    enum status st = STATUS_OK;
    for (uint64_t first = 0; first < w->rows.count && !st && !is_cancelled(j); first += FIND_BATCH)
        st = operation_find_rows(j, NULL, j->collection, j->request.ids.data, first,
                                 (size_t)smaller(FIND_BATCH, w->rows.count - first),
                                 numbers + first);
    return st;
}

/* The order in which rows are stored tells what was deleted before; that of ids is the same
 * wherever the same rows are. */
static void order_rows(struct job *j, struct covariance_job *w, uint32_t *numbers)
{
    uint64_t n = w->rows.count;
    struct radix_item *items = scratch_at(j, w->items);
    for (uint64_t i = 0; i < n && !is_cancelled(j); i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        items[i].key = collection_id(j->collection, (uint32_t)i);
        items[i].value = (uint32_t)i;
    }
    w->in_order = true;
    if (is_cancelled(j)) return;
    const struct radix_item *sorted = radix_sort_until(items, items + n, n, &j->cancelled);
    for (uint64_t i = 0; i < n && !is_cancelled(j); i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        numbers[i] = sorted[i].value;
        w->in_order &= sorted[i].value == i;
    }
}

static enum status check_weights(struct job *j, const struct covariance_job *w, uint64_t first,
                                 uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        if (w->weights[i] >= 0 && isfinite(w->weights[i])) continue;
        if (isfinite(w->weights[i]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                               "weight %" PRIu64 " is %g, 0 or more wanted", i,
                               (double)w->weights[i]);
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                           "weight %" PRIu64 " is not a finite number", i);
    }
    return STATUS_OK;
}

/* The blocks' totals and squares lie where the sums of columns come to lie. */
static enum status weigh(struct job *j, struct covariance_job *w)
{
    double folded[2][64], sums[2];
    uint32_t depth = 0;
    for (uint64_t block = 0; block < w->blocks; block++) {
        if (is_cancelled(j)) return STATUS_OK;
        uint64_t first = block * COVARIANCE_BLOCK;
        size_t count = (size_t)smaller(COVARIANCE_BLOCK, w->rows.count - first);
        yield_check();
        enum status st = check_weights(j, w, first, count);
        if (st) return st;
        covariance_weigh(w->weights + first, count, sums);
        for (uint64_t ends = block; ends & 1; ends >>= 1) {
            depth--;
            sums[0] = folded[0][depth] + sums[0];
            sums[1] = folded[1][depth] + sums[1];
        }
        folded[0][depth] = sums[0];
        folded[1][depth++] = sums[1];
    }
    for (; depth > 1; depth--) {
        folded[0][depth - 2] += folded[0][depth - 1];
        folded[1][depth - 2] += folded[1][depth - 1];
    }
    w->total = folded[0][0];
    w->divisor = covariance_divisor(folded[0][0], folded[1][0]);
    if (w->divisor > 0) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT,
                       w->total > 0 ? "weights: all but one row weigh nothing, or next to nothing: "
                                      "their sum %g leaves no divisor"
                                    : "weights: all are 0 (sum %g)",
                       w->total);
}

enum status covariance_prepare(struct job *j, struct covariance_job *w)
{
    enum status st = STATUS_OK;
    w->total = (double)w->rows.count;
    w->divisor = covariance_divisor(w->total, w->total);
    if (w->weights) st = weigh(j, w);
    if (st || !j->collection) return st;
    uint32_t *numbers = scratch_at(j, w->numbers);
    if (is_present(&j->request.ids)) return find_ids(j, w, numbers);
    order_rows(j, w, numbers);
    return STATUS_OK;
}

void covariance_point(const struct job *j, const struct covariance_job *w, uint64_t first,
                      size_t count, const float **rows)
{
    if (!j->collection) {
        for (size_t i = 0; i < count; i++)
            rows[i] = w->rows.inline_rows + (first + i) * w->rows.dimension;
        return;
    }
    const uint32_t *numbers = (const uint32_t *)scratch_at(j, w->numbers) + first;
    for (size_t i = 0; i < count; i++)
        rows[i] = collection_row(j->collection, numbers[i]);
}
