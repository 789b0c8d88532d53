/* The shadow's promise (kernels/shadow.h, shadow_list.h), held over inputs made to break it: every
 * dot product lies between shadow_below and shadow_above, no row is rejected whose canonical score
 * reaches the bound, no score is worse than shadow_least; and bounds that are a little smaller are
 * caught. */
#include <criterion/criterion.h>

#include "kernels/shadow_list.h"
#include "tests/kernels/samples.h"

enum { ROWS = 45, QUERIES = 15, CENTRES = 3 };

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};
static const int levels[] = {SHADOW_LEVELS, SHADOW_LEVELS_TWO};
static const uint32_t dimensions[] = {1, 31, 32, 33, 63, 384, 768, 1024, 1025, 4096, 16384};

/* What only this test draws, beside SAMPLES. */
enum {
    OUTLIER = SAMPLES, /* one element carries the row */
    HALVES,            /* every element lies halfway between two codes */
    CLUSTER,           /* one direction, noise of a thousandth */
    EQUAL,             /* all elements equal */
    FAR,               /* just under the largest norm that is screened */
    SHORT,             /* about 2^-100 */
    KINDS
};

static void fill_row(int kind, uint32_t dimension, float *row, uint64_t *seed)
{
    uint64_t same = 5;
    for (uint32_t i = 0; i < dimension; i++) {
        float u = sample_uniform(seed);
        switch (kind) {
        case OUTLIER: row[i] = i == dimension / 2 ? 100.0f : 0.01f * u; break;
        case HALVES: row[i] = i == 0 ? 127.0f : floorf(126.0f * u) + 0.5f; break;
        case CLUSTER: row[i] = sample_uniform(&same) + 1e-3f * u; break;
        case EQUAL: row[i] = 0.37f; break;
        case FAR: row[i] = u * 0x1p62f / sqrtf((float)dimension); break;
        case SHORT: row[i] = u * 0x1p-99f; break;
        default: row[i] = sample_element((enum sample)kind, dimension, i, seed);
        }
    }
}

struct shadows {
    uint32_t dimension;
    size_t stride;
    float *rows, *norms, *queries, *query_norms, *centre;
    float centre_norm;
    struct shadow_row shadow[ROWS];
    int *codes; /* of the rows, then of one query */
};

/* centre: 0 none, 1 the mean of the rows that are neither huge nor far, 2 one far away. */
static struct shadows shadows_create(uint32_t dimension, int centre)
{
    size_t stride = vector_stride(dimension);
    uint64_t seed = dimension + 1000u * (unsigned)centre;
    struct shadows s = {.dimension = dimension, .stride = stride};
    s.rows = samples_allocate(ROWS * stride);
    s.queries = samples_allocate(QUERIES * stride);
    s.centre = samples_allocate(stride);
    s.norms = samples_allocate(ROWS);
    s.query_norms = samples_allocate(QUERIES);
    s.codes = calloc((ROWS + 1) * stride, sizeof *s.codes);
    memset(s.rows, 0, ROWS * stride * sizeof(float));
    memset(s.queries, 0, QUERIES * stride * sizeof(float));
    memset(s.centre, 0, stride * sizeof(float));
    for (int r = 0; r < ROWS; r++)
        fill_row(r % KINDS, dimension, s.rows + (size_t)r * stride, &seed);
    for (int q = 0; q < QUERIES; q++)
        fill_row(q % KINDS, dimension, s.queries + (size_t)q * stride, &seed);
    for (size_t i = 0; i < dimension; i++)
        s.centre[i] = centre == 0   ? 0.0f
                      : centre == 1 ? s.rows[CLUSTER * stride + i]
                                    : 1e3f * sample_uniform(&seed);
    vectors_scalar.norms(dimension, s.rows, ROWS, s.norms);
    vectors_scalar.norms(dimension, s.queries, QUERIES, s.query_norms);
    vectors_scalar.norms(dimension, s.centre, 1, &s.centre_norm);
    for (size_t r = 0; r < ROWS; r++)
        s.shadow[r] = shadow_measure(dimension, s.rows + r * stride, s.centre, s.centre_norm,
                                     SHADOW_LEVELS, s.codes + r * stride);
    return s;
}

static void shadows_destroy(struct shadows *s)
{
    samples_free(s->rows), samples_free(s->queries), samples_free(s->centre);
    samples_free(s->norms), samples_free(s->query_norms);
    free(s->codes);
}

static float estimate(const struct shadows *s, const struct shadow_query *q, const int *query,
                      size_t r)
{
    int32_t high = 0, low = 0;
    bool two = false;
    for (size_t i = 0; i < s->stride; i++)
        two = two || query[i] > SHADOW_LEVELS || query[i] < -SHADOW_LEVELS;
    for (size_t i = 0; i < s->stride; i++) {
        int code = s->codes[r * s->stride + i];
        high += two ? shadow_high(query[i]) * code : 0;
        low += two ? shadow_low(query[i]) * code : query[i] * code;
    }
    return shadow_estimate(q, s->shadow[r].scale, high, low);
}

static long double dot_of(const struct shadows *s, size_t q, size_t r)
{
    long double sum = 0;
    for (size_t i = 0; i < s->stride; i++)
        sum += (long double)s->queries[q * s->stride + i] * s->rows[r * s->stride + i];
    return sum;
}

static float score_of(const struct shadows *s, enum metric metric, size_t q, size_t r)
{
    float score;
    struct row_block block = {s->rows + r * s->stride, s->norms + r, 1};
    vectors_scalar.scan(metric, s->dimension, s->queries + q * s->stride, s->query_norms[q], block,
                        &score);
    return score;
}

struct counts {
    size_t passed_over; /* dot products above shadow_above, or below shadow_below */
    size_t overrated;   /* scores worse than shadow_least */
    size_t proven;      /* scores of which that is near */
    size_t violations;  /* rows rejected that are just as good as the bound */
    size_t rejected;    /* by the bound of the best row */
    size_t pairs;
};

/* share: of the bound on what is lost; 1 is right. */
static void count_query(struct shadows *s, size_t q, int query_levels, float share,
                        struct counts *counts)
{
    int *codes = s->codes + ROWS * s->stride;
    struct shadow_query query = shadow_query(s->dimension, s->queries + q * s->stride,
                                             s->query_norms[q], s->centre, query_levels, codes);
    struct shadow_query smaller = query;
    smaller.norm_above *= share;
    smaller.lost *= share;
    for (size_t r = 0; r < ROWS; r++) {
        const struct shadow_row *row = &s->shadow[r];
        float guess = estimate(s, &smaller, codes, r);
        float most = shadow_above(&smaller, guess, row->lost, row->length);
        float fewest = shadow_below(&smaller, guess, row->lost, row->length);
        bool screened = s->norms[r] <= SCREEN_NORM_MAX && s->query_norms[q] <= SCREEN_NORM_MAX;
        counts->pairs++;
        counts->passed_over += screened && dot_of(s, q, r) > most;
        counts->passed_over += screened && dot_of(s, q, r) < fewest;
        for (size_t m = 0; m < 3; m++) {
            struct screen screen = screen_of_shadow(metrics[m], s->dimension);
            struct screen_terms terms = screen_terms(&screen);
            float floor = screen_floor(&terms, s->norms[r]), score = score_of(s, metrics[m], q, r);
            float least = shadow_least(&screen, s->query_norms[q], s->norms[r], fewest);
            bool lower = metric_lower_is_better(metrics[m]);
            counts->overrated += lower ? score > least : score < least;
            counts->proven += fabsf(score - least) < 0.1f * fabsf(score);
            struct screen_line own = screen_line(&screen, s->query_norms[q], score);
            counts->violations += most < fmaf(own.scale, floor, own.offset);
            struct screen_line best = screen_line(
                &screen, s->query_norms[q], metrics[m] == METRIC_SQUARED_EUCLIDEAN ? 0.0f : 2.0f);
            counts->rejected += most < fmaf(best.scale, floor, best.offset);
        }
    }
}

static struct counts count_all(uint32_t dimension, int centre, int query_levels, float share)
{
    struct counts counts = {0};
    struct shadows s = shadows_create(dimension, centre);
    for (size_t q = 0; q < QUERIES; q++)
        count_query(&s, q, query_levels, share, &counts);
    shadows_destroy(&s);
    return counts;
}

Test(shadow, no_row_that_reaches_the_bound_is_rejected, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
        for (int centre = 0; centre < CENTRES; centre++)
            for (size_t l = 0; l < 2; l++) {
                struct counts c = count_all(dimensions[d], centre, levels[l], 1);
                cr_assert_eq(c.passed_over, 0, "dimension %u, centre %d, %d levels", dimensions[d],
                             centre, levels[l]);
                cr_assert_eq(c.violations, 0, "dimension %u, centre %d, %d levels", dimensions[d],
                             centre, levels[l]);
                cr_assert_eq(c.overrated, 0, "dimension %u, centre %d, %d levels", dimensions[d],
                             centre, levels[l]);
                cr_assert_gt(c.rejected, 0);
                cr_assert_gt(c.proven, 0);
            }
}

Test(shadow, a_smaller_bound_is_caught)
{
    struct counts none = count_all(768, 0, SHADOW_LEVELS_TWO, 0);
    cr_assert_gt(none.passed_over, 0);
    cr_assert_gt(none.violations, 0);
    cr_assert_gt(none.overrated, 0);
    /* One dimension: all that is lost lies along the query. */
    size_t passed_over = 0;
    for (int centre = 0; centre < CENTRES; centre++)
        passed_over += count_all(1, centre, SHADOW_LEVELS, 0.01f).passed_over;
    cr_assert_gt(passed_over, 0);
}

/* |t - c - s q| and |s q| against long double. */
Test(shadow, what_is_lost_is_told, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
        for (int centre = 0; centre < CENTRES; centre++) {
            struct shadows s = shadows_create(dimensions[d], centre);
            for (size_t r = 0; r < ROWS; r++) {
                const struct shadow_row *row = &s.shadow[r];
                long double lost = 0, length = 0, all = 0;
                for (size_t i = 0; i < s.stride; i++) {
                    long double coded = (long double)row->scale * s.codes[r * s.stride + i];
                    long double wanted = (long double)s.rows[r * s.stride + i] - s.centre[i];
                    lost += (wanted - coded) * (wanted - coded);
                    length += coded * coded, all += wanted * wanted;
                    cr_assert_leq(abs(s.codes[r * s.stride + i]), SHADOW_LEVELS);
                }
                cr_assert_leq(sqrtl(lost), row->lost);
                cr_assert_leq(sqrtl(length), row->length);
                if (r % KINDS == SAMPLE_UNIFORM && dimensions[d] >= 384 && centre < 2)
                    cr_assert_leq(row->lost, 0.01L * sqrtl(all), "%a of %Lg", row->lost,
                                  sqrtl(all));
            }
            shadows_destroy(&s);
        }
}

Test(shadow, planes_make_up_the_code)
{
    for (int code = -SHADOW_LEVELS_TWO; code <= SHADOW_LEVELS_TWO; code++) {
        cr_assert_eq(256 * shadow_high(code) + shadow_low(code), code);
        cr_assert(shadow_high(code) >= -128 && shadow_high(code) <= 127);
        cr_assert(shadow_low(code) >= -128 && shadow_low(code) <= 127);
    }
}

/* What cannot be measured passes, and no arithmetic traps on it. */
Test(shadow, what_is_not_finite_is_unknown)
{
    float *row = samples_allocate(32), *centre = samples_allocate(32);
    int codes[32];
    for (int i = 0; i < 32; i++)
        row[i] = i == 3 ? FLT_MAX : 1.0f, centre[i] = i == 3 ? -FLT_MAX : 1.0f;
    struct shadow_row overflow = shadow_measure(32, row, centre, 1.0f, SHADOW_LEVELS, codes);
    cr_assert_eq(overflow.lost, INFINITY);
    struct shadow_row distant = shadow_measure(32, row, NULL, 0x1p63f, SHADOW_LEVELS, codes);
    cr_assert_eq(distant.lost, INFINITY);
    for (int i = 0; i < 32; i++)
        cr_assert_eq(codes[i], 0);
    samples_free(row), samples_free(centre);
}
