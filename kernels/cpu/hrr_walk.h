/* hrr_walk: the lines of hrr.h over lanes.
 * Owner:  included by one variant at a time, below its lanes (transform_lanes_*.h), and compiled
 *         with that variant's flags; everything is static.
 * Thread: any; no state but the scratch of the caller.
 * Errors: struct hrr_fault. */
#ifndef ENGRAM_KERNELS_CPU_HRR_WALK_H
#define ENGRAM_KERNELS_CPU_HRR_WALK_H

#include "kernels/cpu/hrr_plan.h"
#include "kernels/cpu/transform_walk.h"
#include "kernels/hrr_lines.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct hrr_desk {
    const struct hrr_plan *plan;
    float *row;         /* N numbers */
    struct split in;    /* what is transformed next */
    struct split other; /* of the transform */
    struct split left, right, out;
};

/* A row's spectrum. */
struct hrr_operand {
    const float *row; /* of which it is; NULL: none yet */
    int exponent;     /* E */
    bool zero;
};

static struct hrr_desk desk_of(const struct hrr_plan *plan, void *scratch)
{
    size_t array = hrr_plan_array(plan->points);
    float *at = scratch;
    struct hrr_desk desk = {.plan = plan, .row = at};
    struct split *const arrays[] = {&desk.in, &desk.other, &desk.left, &desk.right, &desk.out};
    at += hrr_plan_array(plan->length);
    for (size_t i = 0; i < 5; i++, at += 2 * array)
        *arrays[i] = (struct split){at, at + array};
    return desk;
}

/* ---- scale */

static float largest_of(const float *x, size_t count)
{
    lane most = lane_set(0.0f);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        most = lane_larger(most, lane_load(x + i));
    float largest = lane_largest(most);
    for (; i < count; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

/* ---- from a row to its spectrum */

/* Multiplies count numbers and lays even and odd ones apart, M each; zeros behind. */
static void split_row(const float *row, size_t count, float scale, size_t points, struct split to)
{
    lane factor = lane_set(scale);
    for (size_t n = 0; n < points; n += LANES) {
        float few[2 * LANES] = {0};
        const float *from = row + 2 * n;
        if (2 * (n + LANES) > count) {
            if (2 * n < count) memcpy(few, from, (count - 2 * n) * sizeof *few);
            from = few;
        }
        lane even, odd;
        lane_split(from, &even, &odd);
        lane_store(to.re + n, lane_multiply(even, factor));
        lane_store(to.im + n, lane_multiply(odd, factor));
    }
}

/* to[i] = row[(-i) mod count] */
static void turn_row(const float *row, size_t count, float *to)
{
    size_t i = 1;
    to[0] = row[0];
    for (; i + LANES <= count; i += LANES)
        lane_store(to + i, lane_reverse(lane_load(row + count - i - LANES + 1)));
    for (; i < count; i++)
        to[i] = row[count - i];
}

static void load_operand(const struct hrr_desk *desk, const float *row, bool turned,
                         struct split spectrum, struct hrr_operand *operand)
{
    const struct hrr_plan *plan = desk->plan;
    if (operand->row == row) return;
    float largest = largest_of(row, plan->dimension);
    *operand = (struct hrr_operand){row, exponent_of(largest), largest == 0.0f};
    if (operand->zero) return;
    if (turned) turn_row(row, plan->dimension, desk->row);
    split_row(turned ? desk->row : row, plan->dimension, power_of_two(-operand->exponent),
              plan->points, desk->in);
    transform(&plan->transform, hrr_plan_table(plan, plan->roots), desk->in, desk->other, spectrum);
}

/* ---- product */

TRANSFORM_INLINE struct transform_point point_load(struct split s, size_t at)
{
    return (struct transform_point){lane_load(s.re + at), lane_load(s.im + at)};
}

/* The lanes at, at - 1, at - 2, ... */
TRANSFORM_INLINE struct transform_point point_load_back(struct split s, size_t at)
{
    size_t first = at - (LANES - 1);
    return (struct transform_point){lane_reverse(lane_load(s.re + first)),
                                    lane_reverse(lane_load(s.im + first))};
}

/* One number of each array in all lanes. */
TRANSFORM_INLINE struct transform_point point_spread(struct split s, size_t at)
{
    return (struct transform_point){lane_set(s.re[at]), lane_set(s.im[at])};
}

/* The k from `from` to `to`, one at a time. */
static void product_singles(const struct hrr_plan *plan, size_t from, size_t to, struct split y,
                            struct split z, struct split x)
{
    const float *cosines = hrr_plan_table(plan, plan->product_roots);
    const float *sines = cosines + plan->product_step;
    for (size_t k = from; k <= to; k++) {
        size_t j = k == 0 ? 0 : plan->points - k;
        struct product_pair pair =
            product_of(point_spread(y, k), point_spread(y, j), point_spread(z, k),
                       point_spread(z, j), lane_set(cosines[k]), lane_set(sines[k]));
        split_store(split_at(x, j), pair.high, 1);
        split_store(split_at(x, k), pair.low, 1);
    }
}

/* x = the product of the spectra y and z; x is neither. */
static void product(const struct hrr_plan *plan, struct split y, struct split z, struct split x)
{
    const float *cosines = hrr_plan_table(plan, plan->product_roots);
    const float *sines = cosines + plan->product_step;
    size_t half = plan->points / 2, k = 1;
    product_singles(plan, 0, 0, y, z, x);
    /* A block's upper lanes lie above its lower ones. */
    for (; k + LANES <= (plan->points + 1) / 2; k += LANES) {
        size_t j = plan->points - k;
        struct product_pair pair =
            product_of(point_load(y, k), point_load_back(y, j), point_load(z, k),
                       point_load_back(z, j), lane_load(cosines + k), lane_load(sines + k));
        lane_store(x.re + k, pair.low.re);
        lane_store(x.im + k, pair.low.im);
        lane_store(x.re + j - (LANES - 1), lane_reverse(pair.high.re));
        lane_store(x.im + j - (LANES - 1), lane_reverse(pair.high.im));
    }
    if (k <= half) product_singles(plan, k, half, y, z, x);
}

/* ---- from a spectrum to a row */

/* With a plan: y's parts in turn, scaled; returns the largest magnitude. */
static float join_result(struct split y, size_t count, struct hrr_scaling scaling, float *out)
{
    lane before = lane_set(scaling.before), factor = lane_set(scaling.factor);
    lane most = lane_set(0.0f);
    for (size_t n = 0; 2 * n < count; n += LANES) {
        float few[2 * LANES];
        lane even = scaled(lane_load(y.re + n), before, factor);
        lane odd = scaled(lane_load(y.im + n), before, factor);
        if (2 * (n + LANES) <= count) {
            lane_join(even, odd, out + 2 * n);
            most = lane_larger(lane_larger(most, even), odd);
        } else {
            lane_join(even, odd, few);
            memcpy(out + 2 * n, few, (count - 2 * n) * sizeof *few);
            for (size_t i = 0; i < count - 2 * n; i++)
                most = lane_larger(most, lane_set(few[i]));
        }
    }
    return lane_largest(most);
}

/* Without: the row of N numbers folded and scaled. */
static float fold_result(const float *y, size_t count, struct hrr_scaling scaling, float *out)
{
    lane before = lane_set(scaling.before), factor = lane_set(scaling.factor);
    lane most = lane_set(0.0f);
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lane sum = scaled(lane_add(lane_load(y + i), lane_load(y + i + count)), before, factor);
        lane_store(out + i, sum);
        most = lane_larger(most, sum);
    }
    for (; i < count; i++) {
        lane sum = scaled(lane_set(y[i] + y[i + count]), before, factor);
        lane_store_part(out + i, sum, 1);
        most = lane_larger(most, sum);
    }
    return lane_largest(most);
}

/* From the spectrum in desk.in to the row; true if it is finite. */
static bool write_result(const struct hrr_desk *desk, int q, float *out)
{
    const struct hrr_plan *plan = desk->plan;
    struct split in = {desk->in.im, desk->in.re}, y = {desk->out.im, desk->out.re};
    struct hrr_scaling scaling = scaling_of(plan->factor, q - plan->width);
    transform(&plan->transform, hrr_plan_table(plan, plan->roots), in, desk->other, desk->out);
    if (plan->planned) return join_result(y, plan->dimension, scaling, out) <= FLT_MAX;
    join_result(y, plan->length, (struct hrr_scaling){1.0f, 1.0f}, desk->row);
    return fold_result(desk->row, plan->dimension, scaling, out) <= FLT_MAX;
}

/* ---- pairs */

static bool bind_pair(const struct hrr_desk *desk, struct hrr_operand *a, struct hrr_operand *b,
                      float *out)
{
    if (a->zero || b->zero) {
        memset(out, 0, desk->plan->dimension * sizeof *out);
        return true;
    }
    product(desk->plan, desk->left, desk->right, desk->in);
    return write_result(desk, a->exponent + b->exponent - 2, out);
}

#include "kernels/cpu/hrr_exact.h"

static struct hrr_fault pairs(const struct hrr_pairs *work)
{
    struct hrr_desk desk = desk_of(work->plan, work->scratch);
    struct hrr_operand a = {.row = NULL}, b = {.row = NULL};
    for (size_t i = 0; i < work->count; i++) {
        float *out = work->out + i * work->out_step;
        struct hrr_fault fault = {.pair = i};
        load_operand(&desk, work->a[i], false, desk.left, &a);
        load_operand(&desk, work->b[i], work->form == HRR_UNBIND, desk.right, &b);
        if (work->form == HRR_UNBIND_EXACT)
            divide_pair(&desk, &a, &b, out, &fault);
        else if (!bind_pair(&desk, &a, &b, out))
            fault.status = HRR_OVERFLOW;
        if (fault.status != HRR_OK) return fault;
    }
    return (struct hrr_fault){HRR_OK, 0, 0, 0.0f};
}

/* ---- many */

/* Brings a spectrum to S = X 2^-E; returns false if it is zeros. */
static bool rescale(size_t points, struct split x, struct split s, int *exponents)
{
    float largest = fmaxf(largest_of(x.re, points), largest_of(x.im, points));
    int exponent = exponent_of(largest);
    lane factor = lane_set(power_of_two(-exponent));
    for (size_t n = 0; n < points; n += LANES) {
        lane_store(s.re + n, lane_multiply(lane_load(x.re + n), factor));
        lane_store(s.im + n, lane_multiply(lane_load(x.im + n), factor));
    }
    *exponents += exponent;
    return largest > 0.0f;
}

/* With a plan: the product so far stays a spectrum, in desk.in and then desk.left. */
static bool next_spectrum(const struct hrr_desk *desk, int *exponents)
{
    *exponents -= 2;
    return rescale(desk->plan->points, desk->in, desk->left, exponents);
}

/* Without: it is folded into a row, at desk.row, and transformed again. */
static bool next_row(const struct hrr_desk *desk, int *exponents)
{
    const struct hrr_plan *plan = desk->plan;
    struct hrr_operand operand = {.row = NULL};
    write_result(desk, plan->width, desk->row);
    load_operand(desk, desk->row, false, desk->left, &operand);
    *exponents += operand.exponent - 2 - plan->width;
    return !operand.zero;
}

static struct hrr_fault many(const struct hrr_product *work)
{
    const struct hrr_plan *plan = work->plan;
    struct hrr_desk desk = desk_of(plan, work->scratch);
    struct hrr_operand first = {.row = NULL}, next = {.row = NULL};
    if (work->count == 1) {
        memmove(work->out, work->rows[0], plan->dimension * sizeof *work->out);
        return (struct hrr_fault){HRR_OK, 0, 0, 0.0f};
    }
    load_operand(&desk, work->rows[0], false, desk.left, &first);
    int exponents = first.exponent;
    bool zero = first.zero;
    for (size_t i = 1; i < work->count && !zero; i++) {
        if (work->goes_on && !work->goes_on(work->owner))
            return (struct hrr_fault){HRR_STOPPED, 0, 0, 0.0f};
        if (i > 1) zero = !(plan->planned ? next_spectrum : next_row)(&desk, &exponents);
        load_operand(&desk, work->rows[i], false, desk.right, &next);
        zero = zero || next.zero;
        exponents += next.exponent;
        if (!zero) product(plan, desk.left, desk.right, desk.in);
    }
    if (zero) memset(work->out, 0, plan->dimension * sizeof *work->out);
    bool finite = zero || write_result(&desk, exponents - 2, work->out);
    return (struct hrr_fault){finite ? HRR_OK : HRR_OVERFLOW, 0, 0, 0.0f};
}

#endif
