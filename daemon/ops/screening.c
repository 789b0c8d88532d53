/* How well the screen works is not known beforehand: it needs bounds, which the first blocks give,
 * and data whose distances differ by more than rounding errors. So it is watched: a block that
 * lets too many rows pass costs up to twice as much as exact scoring, and is followed by blocks
 * that are scored exactly, twice as many each time. */
#include "daemon/ops/screening.h"

#include "daemon/ops/operation_inside.h"

enum {
    /* with fewer queries, reading rows from memory takes as long as scoring them */
    QUERIES_MIN = 8,
    COMPENSATED_QUERIES_MIN = 2,
    USEFUL_SHARE = 8, /* the screen is useful while less than one in so many rows passes */
    EXACT_BLOCKS_MAX = 32,
};

bool screening_pays(const struct vector_kernels *kernels, enum metric metric, uint32_t dimension,
                    uint64_t query_count, uint64_t k, uint64_t row_count)
{
    bool compensated = dimension > VECTOR_COMPENSATED_ABOVE;
    if (!kernels->screen || (!compensated && metric != METRIC_SQUARED_EUCLIDEAN)) return false;
    return query_count >= (compensated ? COMPENSATED_QUERIES_MIN : QUERIES_MIN) &&
           row_count > ROWS_BLOCK && row_count / USEFUL_SHARE > k;
}

static bool worth_trying(struct screening_state *state, const struct screening_block *b)
{
    if (state->exact_left) {
        state->exact_left--;
        return false;
    }
    size_t without = 0;
    for (size_t q = 0; q < b->queries->count; q++)
        without += !b->tops[q].selective;
    return without * USEFUL_SHARE <= b->queries->count;
}

static void offer_exact(const struct screening *s, struct screening_state *state,
                        const struct screening_block *b)
{
    s->kernels->tile(s->screen.metric, s->dimension, &b->queries->pack, b->rows, b->scores,
                     ROWS_BLOCK);
    for (size_t q = 0; q < b->queries->count; q++) {
        topk_offer(&b->tops[q], s->kernels, b->scores + q * ROWS_BLOCK, b->ids, b->rows.count,
                   b->allowed[q], b->first_row, state->positions);
        topk_tighten(&b->tops[q]);
    }
}

/* Offers the canonical scores of the rows at state->positions. */
static void offer_passed(const struct screening *s, struct screening_state *state,
                         const struct screening_block *b, size_t query, size_t passed)
{
    size_t stride = vector_stride(s->dimension), count = 0;
    const uint64_t *allowed = b->allowed[query];
    for (size_t i = 0; i < passed; i++) {
        size_t at = state->positions[i], row = b->first_row + at;
        if (allowed && !(allowed[row / 64] >> row % 64 & 1)) continue;
        state->rows[count] = b->rows.rows + at * stride;
        state->norms[count] = b->rows.norms[at];
        state->ids[count++] = b->ids[at];
    }
    /* The dots of this query are no longer needed: scores take their place. */
    float *scores = b->scores + query * ROWS_BLOCK;
    s->kernels->gather(s->screen.metric, s->dimension, b->queries->rows + query * stride,
                       b->queries->norms[query], state->rows, state->norms, count, scores);
    topk_offer(&b->tops[query], s->kernels, scores, state->ids, count, NULL, 0, state->positions);
    topk_tighten(&b->tops[query]);
}

static size_t offer_screened(const struct screening *s, struct screening_state *state,
                             const struct screening_block *b)
{
    size_t passed = 0;
    s->kernels->screen(s->dimension, &b->queries->screen, b->rows, b->scores, ROWS_BLOCK);
    screen_floors(&s->screen, b->rows.norms, b->rows.count, state->floors);
    for (size_t q = 0; q < b->queries->count; q++) {
        struct screen_line line = screen_line(&s->screen, b->queries->norms[q], b->tops[q].bound);
        size_t n = s->kernels->screen_pass(b->scores + q * ROWS_BLOCK, state->floors, b->rows.count,
                                           line.scale, line.offset, state->positions);
        if (n) offer_passed(s, state, b, q, n);
        passed += n;
    }
    return passed;
}

void screening_offer(const struct screening *s, struct screening_state *state,
                     const struct screening_block *b)
{
    if (!worth_trying(state, b)) {
        offer_exact(s, state, b);
        return;
    }
    size_t passed = offer_screened(s, state, b);
    if (passed * USEFUL_SHARE <= b->queries->count * b->rows.count) {
        state->exact_next = 0;
        return;
    }
    state->exact_next = state->exact_next ? 2 * state->exact_next : 1;
    if (state->exact_next > EXACT_BLOCKS_MAX) state->exact_next = EXACT_BLOCKS_MAX;
    state->exact_left = state->exact_next;
}
