/* The error of one round of pattern completion against binary64, relative to the norm of the
 * result: at most 2e-6 for every kind of rows here. */
#include "tests/kernels/complete_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { DIMENSION = 768, ROWS = 6000, STATES = 4 };

enum rows_kind {
    ROWS_GAUSSIAN, /* independent: a mean of many is much shorter than they are */
    ROWS_ALIKE,    /* one direction and a little of their own */
    ROWS_SAME,     /* all the same: roundings of one sign */
    ROWS_OFFSET,   /* every number positive */
    ROWS_KINDS,
};
static const char *const kind_names[] = {"gaussian", "alike", "same", "offset"};

static float gaussian(uint64_t *seed)
{
    float sum = 0.0f;
    for (int i = 0; i < 12; i++)
        sum += 0.5f * sample_uniform(seed);
    return sum;
}

static float element(enum rows_kind kind, const float *first, uint32_t c, uint64_t *seed)
{
    switch (kind) {
    case ROWS_GAUSSIAN: return gaussian(seed);
    case ROWS_ALIKE: return first[c] + 0.5f * gaussian(seed);
    case ROWS_SAME: return first[c];
    case ROWS_OFFSET: return 1.0f + 0.3f * gaussian(seed);
    case ROWS_KINDS: break;
    }
    return 0.0f;
}

/* Raw rows get norm 1, nearly; unit ones keep what they have. State q knows a third of the numbers
 * of row q, and an eighth of it is noise. */
static struct complete_case case_create(enum rows_kind kind, bool unit, float beta)
{
    struct complete_case c = {DIMENSION, DIMENSION, ROWS, STATES, unit, beta, NULL, NULL, NULL};
    uint64_t seed = kind + 1;
    c.row = samples_allocate(ROWS * DIMENSION), c.norm = samples_allocate(ROWS);
    c.state = samples_allocate(STATES * DIMENSION);
    for (uint32_t k = 0; k < DIMENSION; k++)
        c.row[k] = gaussian(&seed);
    for (size_t i = 1; i < ROWS; i++)
        for (uint32_t k = 0; k < DIMENSION; k++)
            c.row[i * DIMENSION + k] = element(kind, c.row, k, &seed);
    vectors_scalar.norms(DIMENSION, c.row, ROWS, c.norm);
    for (size_t i = 0; !unit && i < ROWS; i++)
        for (uint32_t k = 0; k < DIMENSION; k++)
            c.row[i * DIMENSION + k] /= c.norm[i];
    vectors_scalar.norms(DIMENSION, c.row, ROWS, c.norm);
    for (size_t q = 0; q < STATES; q++)
        for (uint32_t k = 0; k < DIMENSION; k++)
            c.state[q * DIMENSION + k] =
                (k % 3 ? 0.0f
                       : c.row[q * DIMENSION + k] + 0.125f * c.norm[q] * gaussian(&seed) / 28) /
                c.norm[q];
    return c;
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (uint32_t k = 0; k < DIMENSION; k++)
        sum += (double)a[k] * b[k];
    return sum;
}

/* Returns the error of state q. */
static double error_of(const struct complete_case *c, const struct complete_round *r, size_t q,
                       double *weights)
{
    double most = -INFINITY, total = 0, square = 0, error = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const float *row = c->row + i * DIMENSION;
        weights[i] = dot(row, c->state + q * DIMENSION) / (c->unit ? sqrt(dot(row, row)) : 1);
        most = weights[i] > most ? weights[i] : most;
    }
    for (size_t i = 0; i < ROWS; i++) {
        const float *row = c->row + i * DIMENSION;
        double weight = exp((double)c->beta * (weights[i] - most));
        weights[i] = weight / (c->unit ? sqrt(dot(row, row)) : 1);
        total += weight;
    }
    for (uint32_t k = 0; k < DIMENSION; k++) {
        double sum = 0;
        for (size_t i = 0; i < ROWS; i++)
            sum += weights[i] * c->row[i * DIMENSION + k];
        sum /= total;
        double off = r->next[q * DIMENSION + k] - sum;
        square += sum * sum, error += off * off;
    }
    return sqrt(error / square);
}

static void assert_errors(enum rows_kind kind, bool unit, float beta)
{
    struct complete_case c = case_create(kind, unit, beta);
    struct complete_round r = complete_round_create(&c);
    double *weights = calloc(ROWS, sizeof *weights), worst = 0;
    complete_round_run(&c, vectors_choose("auto")->name, COMPLETE_BLOCK, &r);
    for (size_t q = 0; q < STATES; q++) {
        double error = error_of(&c, &r, q, weights);
        worst = error > worst ? error : worst;
    }
    printf("%-8s %-4s beta %-5g error %.2g\n", kind_names[kind], unit ? "unit" : "raw",
           (double)beta, worst);
    cr_expect_leq(worst, 2e-6, "%s", kind_names[kind]);
    free(weights);
    complete_round_destroy(&r);
    samples_free(c.row), samples_free(c.norm), samples_free(c.state);
}

Test(complete, one_round_is_within_2e_6_of_binary64, .timeout = 600)
{
    static const float betas[] = {1, 8, 32};
    for (int kind = 0; kind < ROWS_KINDS; kind++)
        for (size_t i = 0; i < sizeof betas / sizeof *betas; i++)
            assert_errors((enum rows_kind)kind, i % 2, betas[i]);
    for (int kind = 0; kind < ROWS_KINDS; kind++)
        assert_errors((enum rows_kind)kind, true, 32);
}
