/* Pattern completion (kernels/complete.h): the definition written out by hand against the scalar
 * tables, and every variant that this machine can run against those, bit for bit. The last line
 * says how many numbers were compared; COMPLETE_TEST_NUMBERS=10000000 goes on until there were as
 * many. */
#include "tests/kernels/complete_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const uint32_t dimensions[] = {1, 3, 31, 32, 33, 64, 100, 384, 768, 1025};
static const size_t row_counts[] = {1, 2, 31, 32, 33, 1023, 1024, 1025, 2100, 3079};

static uint64_t compared;

static struct complete_case case_create(uint32_t d, size_t rows, size_t states, uint64_t seed)
{
    struct complete_case c = {.dimension = d, .stride = vector_stride(d), .rows = rows};
    c.states = states;
    c.unit = seed & 1;
    c.beta = (float[]){0.01f, 1.0f, 32.0f, 1000.0f}[seed / 2 % 4];
    c.row = samples_create(d, rows, SAMPLE_UNIFORM, seed);
    c.state = samples_create(d, states, SAMPLE_UNIFORM, seed + 1);
    for (size_t i = 0; seed % 3 && i < rows; i++) /* of one size, so that many rows have a share */
        for (uint32_t k = 0; k < d; k++)
            c.row[i * c.stride + k] = sample_uniform(&seed) / sqrtf((float)d);
    c.norm = samples_allocate(rows);
    vectors_scalar.norms(d, c.row, rows, c.norm);
    return c;
}

static void case_destroy(struct complete_case *c)
{
    samples_free(c->row), samples_free(c->norm), samples_free(c->state);
}

static bool same(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

static bool same_rounds(const struct complete_case *c, const struct complete_round *a,
                        const struct complete_round *b)
{
    size_t blocks = (size_t)complete_blocks(c->rows), all = c->states * c->rows;
    compared += all + c->states * (2 * c->stride + 3);
    for (size_t q = 0; q < c->states; q++)
        if (!same(&a->totals[q * blocks], &b->totals[q * blocks], sizeof(double)) ||
            !same(a->sums + q * blocks * c->stride, b->sums + q * blocks * c->stride,
                  c->stride * sizeof(float)) ||
            !same(a->moved + q * c->stride, b->moved + q * c->stride, c->dimension * sizeof(float)))
            return false;
    return same(a->scores, b->scores, all * sizeof(float)) &&
           same(a->largest, b->largest, c->states * sizeof(float)) &&
           same(a->next, b->next, c->states * c->stride * sizeof(float));
}

static void assert_variants(const struct complete_case *c)
{
    struct complete_round expected = complete_round_create(c), got = complete_round_create(c);
    complete_round_run(c, "scalar", COMPLETE_BLOCK, &expected);
    for (size_t v = 0; vectors_variant(v); v++) {
        const char *name = vectors_variant(v)->name;
        for (size_t piece = COMPLETE_RUN; piece <= COMPLETE_BLOCK; piece *= 4) {
            complete_round_run(c, name, piece, &got);
            cr_assert(same_rounds(c, &expected, &got), "%s: %u dimensions, %zu rows, %zu states",
                      name, c->dimension, c->rows, c->states);
        }
    }
    complete_round_destroy(&expected), complete_round_destroy(&got);
}

Test(complete, variants_equal_the_reference, .timeout = 3600)
{
    const char *wanted = getenv("COMPLETE_TEST_NUMBERS");
    uint64_t least = wanted ? strtoull(wanted, NULL, 10) : 0, seed = 0;
    size_t n = sizeof row_counts / sizeof *row_counts;
    do {
        for (size_t i = 0; i < n; i++, seed++) {
            uint32_t d = dimensions[(i + seed / n) % (sizeof dimensions / sizeof *dimensions)];
            struct complete_case c = case_create(d, row_counts[i], 1 + seed % 19, seed);
            assert_variants(&c);
            case_destroy(&c);
        }
    } while (compared < least || seed < 2 * n);
    printf("complete: %llu numbers equal\n", (unsigned long long)compared);
}

/* ---- the definition, literally ---- */

static float tree_of(float *nodes, size_t count)
{
    for (; count > 1; count = (count + 1) / 2)
        for (size_t i = 0; i < (count + 1) / 2; i++)
            nodes[i] = 2 * i + 1 < count ? nodes[2 * i] + nodes[2 * i + 1] : nodes[2 * i];
    return nodes[0];
}

static double total_by_hand(const float *weights, size_t count)
{
    double nodes[8], partial[32];
    size_t blocks = 0;
    for (size_t first = 0; first < count; first += 1024) {
        memset(partial, 0, sizeof partial);
        for (size_t i = first; i < count && i < first + 1024; i++)
            partial[(i - first) % 32] += (double)weights[i];
        for (int s = 16; s > 0; s /= 2)
            for (int k = 0; k < s; k++)
                partial[k] += partial[k + s];
        nodes[blocks++] = partial[0];
    }
    for (; blocks > 1; blocks = (blocks + 1) / 2)
        for (size_t i = 0; i < (blocks + 1) / 2; i++)
            nodes[i] = 2 * i + 1 < blocks ? nodes[2 * i] + nodes[2 * i + 1] : nodes[2 * i];
    return nodes[0];
}

static float sum_by_hand(const struct complete_case *c, const float *shares, uint32_t column)
{
    float nodes[8];
    size_t blocks = 0;
    for (size_t first = 0; first < c->rows; first += 1024) {
        float sum = 0.0f;
        for (size_t run = first; run < c->rows && run < first + 1024; run += 32) {
            float partial = 0.0f;
            for (size_t i = run; i < c->rows && i < run + 32; i++)
                partial = fmaf(shares[i], c->row[i * c->stride + column], partial);
            sum = sum + partial;
        }
        nodes[blocks++] = sum;
    }
    return tree_of(nodes, blocks);
}

static void assert_by_hand(const struct complete_case *c, const struct complete_round *got)
{
    float *weights = samples_allocate(c->rows), *shares = samples_allocate(c->rows);
    size_t blocks = (size_t)complete_blocks(c->rows);
    for (size_t q = 0; q < c->states; q++) {
        float most = -INFINITY;
        for (size_t i = 0; i < c->rows; i++) {
            float dot =
                canonical_dot(c->dimension, c->row + i * c->stride, c->state + q * c->stride);
            float norm = c->unit ? c->norm[i] : 1.0f;
            weights[i] = norm == 0.0f ? 0.0f : dot / norm;
            most = weights[i] > most ? weights[i] : most;
        }
        for (size_t i = 0; i < c->rows; i++) {
            float norm = c->unit ? c->norm[i] : 1.0f;
            weights[i] = canonical_exponential(c->beta * (weights[i] - most));
            shares[i] = norm == 0.0f ? 0.0f : weights[i] / norm;
        }
        double total = total_by_hand(weights, c->rows);
        cr_assert(same(&total, &got->totals[q * blocks], sizeof total));
        for (uint32_t k = 0; k < c->dimension; k++) {
            float value = (float)((double)sum_by_hand(c, shares, k) / total);
            float moved = value - c->state[q * c->stride + k];
            cr_assert(same(&value, &got->next[q * c->stride + k], sizeof value));
            cr_assert(same(&moved, &got->moved[q * c->stride + k], sizeof moved));
        }
    }
    samples_free(weights), samples_free(shares);
}

Test(complete, reference_is_the_definition, .timeout = 600)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct complete_case c =
            case_create(dimensions[seed % 7], row_counts[9 - seed % 10], 2, seed);
        struct complete_round got = complete_round_create(&c);
        complete_round_run(&c, "scalar", COMPLETE_BLOCK, &got);
        assert_by_hand(&c, &got);
        complete_round_destroy(&got);
        case_destroy(&c);
    }
}

Test(complete, a_row_of_norm_0_has_a_weight_and_no_share)
{
    struct complete_case c = case_create(32, 3, 1, 1);
    memset(c.row + c.stride, 0, c.stride * sizeof(float));
    c.norm[1] = 0.0f, c.unit = true, c.beta = 1.0f;
    struct complete_round r = complete_round_create(&c);
    complete_round_run(&c, "scalar", COMPLETE_BLOCK, &r);
    cr_assert_eq(r.scores[1], 0.0f);
    cr_assert_gt(r.totals[0], 1.0);
    complete_round_destroy(&r);
    case_destroy(&c);
}

Test(complete, scores_of_the_largest_norms_stay_finite)
{
    float scores[3] = {INFINITY, -INFINITY, 1.0f};
    for (size_t v = 0; vectors_variant(v); v++) {
        const struct complete_kernels *k = complete_choose(vectors_variant(v)->name);
        scores[0] = INFINITY, scores[1] = -INFINITY, scores[2] = 1.0f;
        cr_assert_eq(k->score(NULL, 3, scores), FLT_MAX);
        cr_assert_eq(k->weigh(NULL, 3, FLT_MAX, 1.0f, scores), 1.0);
        cr_assert(scores[0] == 1.0f && scores[1] == 0.0f && scores[2] == 0.0f);
    }
}

Test(complete, known_numbers_are_the_cue)
{
    const float sums[3] = {2, 4, 6}, cue[3] = {7, 8, 9};
    const uint8_t known[3] = {0, 1, 0};
    for (size_t v = 0; vectors_variant(v); v++) {
        float state[3] = {1, 8, 1}, moved[3];
        complete_choose(vectors_variant(v)->name)->settle(3, sums, 2.0, known, cue, state, moved);
        cr_assert(state[0] == 1 && state[1] == 8 && state[2] == 3);
        cr_assert(moved[0] == 0 && moved[1] == 0 && moved[2] == 2);
    }
}

Test(complete, energy_of_rows_and_states_alike)
{
    cr_assert_eq(complete_energy(1, 1, 1, 1.0, 1, 8), 0.0f, "the one row itself");
    cr_assert_float_eq(complete_energy(1, 1, 1, 1.0, 1024, 8), 0.8664340f, 1e-6f, "ln 1024 / 8");
    cr_assert_float_eq(complete_energy(0, 1, 0, 1024.0, 1024, 8), 0.5f, 1e-6f, "nothing known");
}

Test(complete, unknown_variant_has_no_table)
{
    cr_assert_null(complete_choose("abacus"));
    cr_assert_str_eq(complete_choose("scalar")->name, "scalar");
}
