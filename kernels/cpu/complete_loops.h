/* complete_loops: scores, weights and sums of pattern completion, on the lanes of the variant that
 * includes it. The variant defines lane, of COMPLETE_LANES floats, with lane_zero, lane_load,
 * lane_all, lane_fma, lane_add and lane_store, and COMPLETE_TOGETHER, the states whose sums its
 * registers hold.
 * Owner:  included once by each complete_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_COMPLETE_LOOPS_H
#define ENGRAM_KERNELS_CPU_COMPLETE_LOOPS_H

#include "kernels/complete.h"

#define COMPLETE_INLINE static inline __attribute__((always_inline))

enum {
    COMPLETE_COLUMNS = VECTOR_LANES, /* summed at once; rows are padded to a multiple of it */
    COMPLETE_VECTORS = COMPLETE_COLUMNS / COMPLETE_LANES,
    COMPLETE_FEW = COMPLETE_TOGETHER < 4 ? COMPLETE_TOGETHER : 4,
};

/* Rows of one run, from some column on. */
struct complete_run {
    const float *rows;
    size_t stride, count;
    bool next; /* as many rows follow, which are needed soon */
};

/* The run's sums of COMPLETE_COLUMNS columns for `states` states. */
COMPLETE_INLINE void add_columns(int states, const struct complete_run *run, const float *shares,
                                 size_t shares_stride, float *sums, size_t sums_stride)
{
    lane partial[COMPLETE_TOGETHER][COMPLETE_VECTORS];
    for (int q = 0; q < states; q++)
        for (int v = 0; v < COMPLETE_VECTORS; v++)
            partial[q][v] = lane_zero();
    for (size_t r = 0; r < run->count; r++) {
        const float *row = run->rows + r * run->stride;
        for (int v = 0; v < COMPLETE_VECTORS; v++) {
            lane numbers = lane_load(row + v * COMPLETE_LANES);
            for (int q = 0; q < states; q++)
                partial[q][v] = lane_fma(lane_all(shares[(size_t)q * shares_stride + r]), numbers,
                                         partial[q][v]);
        }
    }
    for (int q = 0; q < states; q++)
        for (int v = 0; v < COMPLETE_VECTORS; v++) {
            float *sum = sums + (size_t)q * sums_stride + v * COMPLETE_LANES;
            lane_store(sum, lane_add(lane_load(sum), partial[q][v]));
        }
}

COMPLETE_INLINE void add_states(int states, const struct complete_run *run, const float *shares,
                                size_t shares_stride, float *sums, size_t sums_stride)
{
    struct complete_run at = *run;
    for (size_t c = 0; c < run->stride; c += COMPLETE_COLUMNS, at.rows += COMPLETE_COLUMNS)
        add_columns(states, &at, shares, shares_stride, sums + c, sums_stride);
}

/* ---- one state: rows are read along their length, a few at a time, for memory's sake ---- */

enum { COMPLETE_ROWS = 4, COMPLETE_PIECE = 1024 };

/* Adds `rows` rows to partial sums of some columns, or begins them. */
COMPLETE_INLINE void add_rows(int rows, bool fresh, const struct complete_run *run, size_t columns,
                              const float *shares, float *partial)
{
    lane weights[COMPLETE_ROWS];
    for (int r = 0; r < rows; r++)
        weights[r] = lane_all(shares[r]);
    for (size_t c = 0; c < columns; c += COMPLETE_COLUMNS) {
        for (int r = 0; run->next && r < rows; r++) {
            const float *ahead = run->rows + (size_t)(r + COMPLETE_ROWS) * run->stride + c;
            __builtin_prefetch(ahead);
            __builtin_prefetch(ahead + COMPLETE_COLUMNS / 2);
        }
        for (int v = 0; v < COMPLETE_VECTORS; v++) {
            float *to = partial + c + v * COMPLETE_LANES;
            lane sum = fresh ? lane_zero() : lane_load(to);
            for (int r = 0; r < rows; r++)
                sum = lane_fma(
                    weights[r],
                    lane_load(run->rows + (size_t)r * run->stride + c + v * COMPLETE_LANES), sum);
            lane_store(to, sum);
        }
    }
}

/* left: rows that follow the run and lie behind it. */
static void add_alone(struct complete_run run, size_t left, const float *shares, float *sums)
{
    _Alignas(64) float partial[COMPLETE_PIECE];
    const float *rows = run.rows;
    for (size_t first = 0; first < run.stride; first += COMPLETE_PIECE) {
        size_t rest = run.stride - first;
        size_t columns = rest < COMPLETE_PIECE ? rest : COMPLETE_PIECE;
        for (size_t r = 0; r < run.count;) {
            bool four = run.count - r >= COMPLETE_ROWS;
            run.rows = rows + r * run.stride + first;
            run.next = run.count + left - r >= 2 * COMPLETE_ROWS;
            if (four && r == 0)
                add_rows(COMPLETE_ROWS, true, &run, columns, shares, partial);
            else if (four)
                add_rows(COMPLETE_ROWS, false, &run, columns, shares + r, partial);
            else
                add_rows(1, r == 0, &run, columns, shares + r, partial);
            r += four ? COMPLETE_ROWS : 1;
        }
        for (size_t c = 0; c < columns; c += COMPLETE_LANES)
            lane_store(sums + first + c,
                       lane_add(lane_load(sums + first + c), lane_load(partial + c)));
    }
}

/* True if a state has a share in the run. */
static bool is_shared(const struct complete_shares *s, size_t first, size_t states, size_t at,
                      size_t count)
{
    for (size_t q = first; q < first + states; q++)
        for (size_t r = 0; r < count; r++)
            if (s->shares[q * s->stride + at + r] != 0.0f) return true;
    return false;
}

/* How many of so many states are added to at once. */
static size_t together_of(size_t states)
{
    if (states >= COMPLETE_TOGETHER) return COMPLETE_TOGETHER;
    return states >= COMPLETE_FEW ? COMPLETE_FEW : states >= 2 ? 2 : 1;
}

static void add(uint32_t dimension, const float *rows, size_t count,
                const struct complete_shares *s, float *sums, size_t sums_stride)
{
    size_t stride = vector_stride(dimension);
    for (size_t at = 0; at < count; at += COMPLETE_RUN) {
        size_t some = count - at < COMPLETE_RUN ? count - at : COMPLETE_RUN;
        const struct complete_run run = {rows + at * stride, stride, some, false};
        for (size_t q = 0; q < s->states;) {
            size_t together = together_of(s->states - q);
            const float *shares = s->shares + q * s->stride + at;
            float *to = sums + q * sums_stride;
            if (!is_shared(s, q, together, at, some))
                ;
            else if (together == COMPLETE_TOGETHER)
                add_states(COMPLETE_TOGETHER, &run, shares, s->stride, to, sums_stride);
            else if (together == COMPLETE_FEW)
                add_states(COMPLETE_FEW, &run, shares, s->stride, to, sums_stride);
            else if (together == 2)
                add_states(2, &run, shares, s->stride, to, sums_stride);
            else
                add_alone(run, s->states == 1 ? count - at - some : 0, shares, to);
            q += together;
        }
    }
}

/* Scores of at most VECTOR_LANES rows; those that are missing count for nothing. */
COMPLETE_INLINE void score_some(size_t some, const float *norms, float *scores,
                                float largest[VECTOR_LANES])
{
    for (size_t k = 0; k < some; k++) {
        scores[k] = complete_score(scores[k], norms ? norms[k] : 1.0f);
        largest[k] = scores[k] > largest[k] ? scores[k] : largest[k];
    }
}

COMPLETE_INLINE float score_form(const float *norms, size_t count, float *scores)
{
    float largest[VECTOR_LANES];
    size_t at = 0;
    for (size_t k = 0; k < VECTOR_LANES; k++)
        largest[k] = -INFINITY;
    for (; at + VECTOR_LANES <= count; at += VECTOR_LANES)
        score_some(VECTOR_LANES, norms ? norms + at : NULL, scores + at, largest);
    score_some(count - at, norms ? norms + at : NULL, scores + at, largest);
    float most = -INFINITY;
    for (size_t k = 0; k < VECTOR_LANES; k++)
        most = largest[k] > most ? largest[k] : most;
    return most;
}

static float score(const float *norms, size_t count, float *scores)
{
    return norms ? score_form(norms, count, scores) : score_form(NULL, count, scores);
}

/* Shares of at most VECTOR_LANES rows. */
COMPLETE_INLINE void weigh_some(size_t some, const float *norms, float most, float beta,
                                float *scores, double totals[VECTOR_LANES])
{
    float weights[VECTOR_LANES];
    for (size_t k = 0; k < some; k++)
        weights[k] = complete_weight(scores[k], most, beta);
    for (size_t k = 0; k < some; k++)
        scores[k] = norms ? complete_share(weights[k], norms[k]) : weights[k];
    for (size_t k = 0; k < some; k++)
        totals[k] += (double)weights[k];
}

COMPLETE_INLINE double weigh_form(const float *norms, size_t count, float most, float beta,
                                  float *scores)
{
    double totals[VECTOR_LANES] = {0};
    size_t at = 0;
    for (; at + VECTOR_LANES <= count; at += VECTOR_LANES)
        weigh_some(VECTOR_LANES, norms ? norms + at : NULL, most, beta, scores + at, totals);
    weigh_some(count - at, norms ? norms + at : NULL, most, beta, scores + at, totals);
    for (int s = VECTOR_LANES / 2; s > 0; s /= 2)
        for (int k = 0; k < s; k++)
            totals[k] += totals[k + s];
    return totals[0];
}

static double weigh(const float *norms, size_t count, float most, float beta, float *scores)
{
    return norms ? weigh_form(norms, count, most, beta, scores)
                 : weigh_form(NULL, count, most, beta, scores);
}

static void settle(uint32_t dimension, const float *sums, double total, const uint8_t *known,
                   const float *cue, float *state, float *moved)
{
    for (uint32_t c = 0; c < dimension; c++) {
        float value = complete_value(sums[c], total);
        if (known && known[c]) value = cue[c];
        moved[c] = canonical_subtract(value, state[c]);
        state[c] = value;
    }
}

#endif
