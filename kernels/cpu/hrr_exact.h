/* hrr_exact: the exact inverse, by division in the spectrum of length d (hrr.h).
 * Owner:  included by hrr_walk.h; everything is static.
 * Thread: any; no state but the scratch of the caller.
 * Errors: HRR_ZERO, HRR_OVERFLOW. */
#ifndef ENGRAM_KERNELS_CPU_HRR_EXACT_H
#define ENGRAM_KERNELS_CPU_HRR_EXACT_H

/* The square of the norm of the scaled row, as canonical.h sums it. */
static float square_of(const struct hrr_plan *plan, const struct hrr_operand *b)
{
    float scale = power_of_two(-b->exponent), p[32] = {0};
    for (uint32_t i = 0; i < plan->dimension; i++) {
        float x = b->row[i] * scale;
        p[i % 32] = fmaf(x, x, p[i % 32]);
    }
    for (uint32_t s = 16; s > 0; s /= 2) {
        for (uint32_t j = 0; j < s; j++)
            p[j] += p[j + s];
    }
    return p[0];
}

/* Finds the first P below the bound; true if there is one. */
static bool find_zero(const struct hrr_plan *plan, const float *powers, float bound, int exponent,
                      struct hrr_fault *fault)
{
    for (uint32_t k = 0; k <= plan->points; k++) {
        if (powers[k] >= bound) continue;
        fault->status = HRR_ZERO;
        fault->index = k;
        fault->magnitude = sqrtf(powers[k]) * power_of_two(exponent - 1);
        return true;
    }
    return false;
}

/* One block of lanes from k on; its partners from `zj` back. */
TRANSFORM_INLINE void divide_block(const struct hrr_desk *desk, size_t k, size_t count,
                                   struct transform_point yj, struct transform_point zj)
{
    const struct hrr_plan *plan = desk->plan;
    const float *cosines = hrr_plan_table(plan, plan->exact_roots);
    lane cosine = lane_load(cosines + k), sine = lane_load(cosines + plan->exact_step + k);
    struct exact_point at =
        exact_of(point_load(desk->left, k), yj, point_load(desk->right, k), zj, cosine, sine);
    split_store(split_at(desk->in, k), at.x, count);
    split_store((struct split){desk->row + k, desk->out.re + k},
                (struct transform_point){at.here, at.there}, count);
}

/* desk.in = the quotient's spectrum, desk.row = the powers P at 0..M. */
static void divide_spectra(const struct hrr_desk *desk)
{
    size_t points = desk->plan->points, k = 1;
    divide_block(desk, 0, 1, point_spread(desk->left, 0), point_spread(desk->right, 0));
    float last = desk->out.re[0];
    for (; k + LANES <= points; k += LANES)
        divide_block(desk, k, LANES, point_load_back(desk->left, points - k),
                     point_load_back(desk->right, points - k));
    for (; k < points; k++)
        divide_block(desk, k, 1, point_spread(desk->left, points - k),
                     point_spread(desk->right, points - k));
    desk->row[points] = last;
}

static void divide_pair(const struct hrr_desk *desk, const struct hrr_operand *c,
                        const struct hrr_operand *b, float *out, struct hrr_fault *fault)
{
    const struct hrr_plan *plan = desk->plan;
    if (b->zero) {
        fault->status = HRR_ZERO;
        return;
    }
    if (c->zero) memset(desk->left.re, 0, 2 * hrr_plan_array(plan->points) * sizeof(float));
    divide_spectra(desk);
    if (find_zero(plan, desk->row, 0x1p-18f * square_of(plan, b), b->exponent, fault)) return;
    if (c->zero)
        memset(out, 0, plan->dimension * sizeof *out);
    else if (!write_result(desk, c->exponent - b->exponent - 1, out))
        fault->status = HRR_OVERFLOW;
}

#endif
