/* The screen's promise, held over inputs made to break it: no row is rejected whose canonical score
 * reaches the bound. And a smaller error bound is caught. */
#include <criterion/criterion.h>

#include "kernels/canonical.h"
#include "kernels/screen.h"
#include "tests/kernels/samples.h"

enum { ROWS = 40 };

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};
static const uint32_t dimensions[] = {1, 31, 32, 33, 384, 768, 1024, 1025, 1536, 4096, 16384};

/* What only this test draws, beside SAMPLES. */
enum {
    LOSING = SAMPLES, /* every sum of squares rounds up, the same way at each step */
    FLIPPED,          /* the same with the small elements' signs turned */
    LOST,             /* every sum of squares but a compensated one rounds down */
    HALF_UP,          /* squares just over half the smallest subnormal, rounded up */
    HALF_DOWN,        /* just under, rounded to 0 */
    DUPLICATE,        /* the uniform sample, a few elements one rounding away */
    TF32_DOWN,        /* every element just below where TF32 rounds up */
    TF32_UP,          /* just there */
    KINDS
};

static void fill_row(int kind, uint32_t dimension, float *row, uint64_t *seed)
{
    uint64_t same = 5;
    for (uint32_t i = 0; i < dimension; i++) {
        float sign = kind == FLIPPED ? -1.0f : 1.0f;
        if (kind == LOSING || kind == FLIPPED)
            row[i] = i % VECTOR_COMPENSATED_ABOVE < VECTOR_LANES ? 1.0f : sign * 0x1.004p-12f;
        else if (kind == LOST)
            row[i] = i % VECTOR_COMPENSATED_ABOVE < VECTOR_LANES ? 1.0f : 0x1.ffcp-13f;
        else if (kind == HALF_UP || kind == HALF_DOWN)
            row[i] = (kind == HALF_UP ? 1.01f : 0.98f) * 0x1p-75f;
        else if (kind == TF32_DOWN || kind == TF32_UP)
            row[i] = kind == TF32_DOWN ? 0x1.001ffep0f : 0x1.002p0f;
        else if (kind == DUPLICATE)
            row[i] = sample_uniform(&same) * (sample_random(seed) % 9 ? 1.0f : 1.0f + 0x1p-23f);
        else
            row[i] = sample_element((enum sample)kind, dimension, i, seed);
    }
}

struct sums {
    uint32_t dimension;
    float *rows, *queries, *row_norms, *query_norms, *dots, *scores;
};

static struct sums sums_create(uint32_t dimension)
{
    size_t stride = vector_stride(dimension);
    uint64_t seed = dimension;
    struct sums s = {
        dimension,
        samples_allocate(ROWS * stride),
        samples_allocate(KINDS * stride),
        samples_allocate(ROWS),
        samples_allocate(KINDS),
        samples_allocate(KINDS * ROWS),
        samples_allocate(KINDS * ROWS),
    };
    memset(s.rows, 0, ROWS * stride * sizeof(float));
    memset(s.queries, 0, KINDS * stride * sizeof(float));
    for (int r = 0; r < ROWS; r++)
        fill_row(r % KINDS, dimension, s.rows + (size_t)r * stride, &seed);
    for (int q = 0; q < KINDS; q++)
        fill_row(q, dimension, s.queries + (size_t)q * stride, &seed);
    vectors_scalar.norms(dimension, s.rows, ROWS, s.row_norms);
    vectors_scalar.norms(dimension, s.queries, KINDS, s.query_norms);
    return s;
}

static void sums_destroy(struct sums *s)
{
    samples_free(s->rows), samples_free(s->queries), samples_free(s->row_norms);
    samples_free(s->query_norms), samples_free(s->dots), samples_free(s->scores);
}

static void sums_screen(struct sums *s, const struct vector_kernels *k)
{
    float *packed = samples_allocate(k->screen_pack_bytes(s->dimension, KINDS) / sizeof(float));
    k->screen_pack(s->dimension, s->queries, KINDS, packed);
    struct query_pack pack = {packed, NULL, KINDS};
    k->screen(s->dimension, &pack, (struct row_block){s->rows, NULL, ROWS}, s->dots, ROWS);
    samples_free(packed);
}

static float tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What kernels/screen.h assumes of a tensor core, at its worst: `group` products and the sum so far
 * meet with the fraction bits that the largest has in a float, the rest is cut off; what is
 * subnormal is 0. */
static float tf32_add(float sum, const long double *products, size_t group)
{
    long double most = fabsl((long double)sum), total = 0;
    for (size_t i = 0; i < group; i++)
        most = fmaxl(most, fabsl(products[i]));
    if (most == 0) return 0;
    int exponent;
    frexpl(most, &exponent);
    long double last = ldexpl(1, exponent - 24);
    for (size_t i = 0; i < group; i++)
        total += truncl(products[i] / last) * last;
    total += truncl((long double)sum / last) * last;
    if (fabsl(total) < 0x1p-126L) return 0;
    frexpl(total, &exponent);
    last = ldexpl(1, exponent - 24);
    return (float)(truncl(total / last) * last);
}

static float tf32_dot(const float *x, const float *t, size_t stride, size_t group)
{
    float sum = 0;
    for (size_t first = 0; first < stride; first += group) {
        long double products[SCREEN_TF32_DEPTH];
        for (size_t i = 0; i < group; i++)
            products[i] = (long double)tf32(x[first + i]) * tf32(t[first + i]);
        sum = tf32_add(sum, products, group);
    }
    return sum;
}

static void sums_screen_tf32(struct sums *s, size_t group)
{
    size_t stride = vector_stride(s->dimension);
    for (size_t i = 0; i < KINDS * ROWS; i++)
        s->dots[i] =
            tf32_dot(s->queries + i / ROWS * stride, s->rows + i % ROWS * stride, stride, group);
}

static void sums_score(struct sums *s, enum metric metric)
{
    struct row_block block = {s->rows, s->row_norms, ROWS};
    for (size_t q = 0; q < KINDS; q++)
        vectors_scalar.scan(metric, s->dimension, s->queries + q * vector_stride(s->dimension),
                            s->query_norms[q], block, s->scores + q * ROWS);
}

static bool rejects(const struct screen *screen, const struct sums *s, size_t q, size_t r,
                    float bound)
{
    struct screen_line line = screen_line(screen, s->query_norms[q], bound);
    uint32_t positions[17];
    float floor;
    screen_floors(screen, s->row_norms + r, 1, &floor);
    return vectors_scalar.screen_pass(s->dots + q * ROWS + r, &floor, 1, line.scale, line.offset,
                                      positions) == 0;
}

/* Pairs rejected although the score is just the bound. */
static size_t violations(const struct screen *screen, struct sums *s)
{
    size_t count = 0;
    sums_score(s, screen->metric);
    for (size_t q = 0; q < KINDS; q++)
        for (size_t r = 0; r < ROWS; r++)
            count += rejects(screen, s, q, r, s->scores[q * ROWS + r]);
    return count;
}

Test(screen_bound, rejects_no_row_that_reaches_it, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct sums s = sums_create(dimensions[d]);
        for (size_t v = 0; vectors_variant(v); v++) {
            sums_screen(&s, vectors_variant(v));
            for (size_t m = 0; m < 3; m++) {
                struct screen screen = screen_of(metrics[m], dimensions[d]);
                cr_assert_eq(violations(&screen, &s), 0, "%s, dimension %u, metric %d",
                             vectors_variant(v)->name, dimensions[d], metrics[m]);
            }
        }
        sums_destroy(&s);
    }
}

/* Rejected pairs must be worse than the bound whatever it is; and it must reject something. */
Test(screen_bound, rejects_only_what_is_worse, .timeout = 900)
{
    static const float bounds[] = {-INFINITY, -FLT_MAX, -1.5f, -1.0f,   -0.5f,   -0.0f, 0.0f,
                                   0x1p-149f, 1e-30f,   0.01f, 0.5f,    1.0f,    1.5f,  100.0f,
                                   1e8f,      1e20f,    1e37f, FLT_MAX, INFINITY};
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct sums s = sums_create(dimensions[d]);
        sums_screen(&s, vectors_choose("auto"));
        for (size_t m = 0; m < 3; m++) {
            struct screen screen = screen_of(metrics[m], dimensions[d]);
            size_t rejected = 0;
            sums_score(&s, metrics[m]);
            for (size_t i = 0; i < KINDS * ROWS * sizeof bounds / sizeof *bounds; i++) {
                size_t at = i % (KINDS * ROWS);
                float bound = bounds[i / (KINDS * ROWS)], score = s.scores[at];
                if (!rejects(&screen, &s, at / ROWS, at % ROWS, bound)) continue;
                bool worse = metric_lower_is_better(metrics[m]) ? score > bound : score < bound;
                cr_assert(worse, "metric %d: %a against %a", metrics[m], score, bound);
                rejected++;
            }
            cr_assert_gt(rejected, KINDS * ROWS);
        }
        sums_destroy(&s);
    }
}

Test(screen_bound, a_smaller_one_is_caught)
{
    const struct {
        uint32_t dimension;
        enum metric metric;
        double share;
    } cases[] = {{768, METRIC_SQUARED_EUCLIDEAN, 0.1},
                 {1024, METRIC_SQUARED_EUCLIDEAN, 0.1},
                 {2048, METRIC_SQUARED_EUCLIDEAN, 0.05},
                 {2048, METRIC_DOT, 0.05},
                 {2048, METRIC_COSINE, 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sums s = sums_create(cases[i].dimension);
        sums_screen(&s, &vectors_scalar);
        struct screen screen = screen_of(cases[i].metric, cases[i].dimension);
        screen.epsilon *= cases[i].share;
        screen.approximate *= cases[i].share;
        cr_assert_gt(violations(&screen, &s), 0, "case %zu", i);
        sums_destroy(&s);
    }
    struct sums s = sums_create(768);
    sums_screen(&s, &vectors_scalar);
    struct screen screen = screen_of(METRIC_SQUARED_EUCLIDEAN, 768);
    screen.underflow = screen.flushed = 0;
    cr_assert_gt(violations(&screen, &s), 0, "underflow");
    sums_destroy(&s);
}

Test(screen_bound, tensor_cores_reject_no_row_that_reaches_it, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct sums s = sums_create(dimensions[d]);
        for (size_t group = 1; group <= SCREEN_TF32_DEPTH; group *= SCREEN_TF32_DEPTH) {
            sums_screen_tf32(&s, group);
            for (size_t m = 0; m < 3; m++) {
                struct screen screen = screen_of_tf32(metrics[m], dimensions[d]);
                cr_assert_eq(violations(&screen, &s), 0, "dimension %u, metric %d, groups of %zu",
                             dimensions[d], metrics[m], group);
            }
        }
        sums_destroy(&s);
    }
}

Test(screen_bound, a_smaller_one_of_tensor_cores_is_caught)
{
    struct sums s = sums_create(768);
    sums_screen_tf32(&s, SCREEN_TF32_DEPTH);
    for (size_t m = 0; m < 3; m++) {
        struct screen screen = screen_of_tf32(metrics[m], 768);
        screen.approximate *= 0.7;
        cr_assert_gt(violations(&screen, &s), 0, "metric %d", metrics[m]);
    }
    sums_destroy(&s);
}

/* The three inequalities of kernels/screen.h that everything follows from, against sums in long
 * double, whose own error is a millionth of what is allowed. */
static void check_errors(const struct sums *s, const struct screen *screen, size_t i)
{
    size_t stride = vector_stride(s->dimension);
    const float *x = s->queries + i / ROWS * stride, *t = s->rows + i % ROWS * stride;
    long double e = screen->epsilon, u = screen->underflow, v = screen->flushed;
    long double dot = 0, size = 0, square = 0, far = 0, norm = s->row_norms[i % ROWS];
    for (size_t c = 0; c < stride; c++) {
        long double difference = (long double)x[c] - t[c];
        dot += (long double)x[c] * t[c];
        size += fabsl((long double)x[c] * t[c]);
        square += (long double)t[c] * t[c];
        far += difference * difference;
    }
    cr_assert(fabsl(norm * norm - square) <= e * square + u);
    if (norm > SCREEN_NORM_MAX || s->query_norms[i / ROWS] > SCREEN_NORM_MAX) return;
    cr_assert(fabsl(s->dots[i] - dot) <= screen->approximate * size + v);
    cr_assert(fabsl(canonical_dot(s->dimension, x, t) - dot) <= e * size + u);
    cr_assert(fabsl(canonical_squared_euclidean(s->dimension, x, t) - far) <= e * far + u);
}

Test(screen_bound, each_error_is_within_epsilon, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct sums s = sums_create(dimensions[d]);
        struct screen screen = screen_of(METRIC_DOT, dimensions[d]);
        for (size_t v = 0; vectors_variant(v); v++) {
            sums_screen(&s, vectors_variant(v));
            for (size_t i = 0; i < KINDS * ROWS; i++)
                check_errors(&s, &screen, i);
        }
        screen = screen_of_tf32(METRIC_DOT, dimensions[d]);
        for (size_t group = 1; group <= SCREEN_TF32_DEPTH; group *= SCREEN_TF32_DEPTH) {
            sums_screen_tf32(&s, group);
            for (size_t i = 0; i < KINDS * ROWS; i++)
                check_errors(&s, &screen, i);
        }
        sums_destroy(&s);
    }
}

Test(screen_bound, variants_pass_alike, .timeout = 900)
{
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        struct sums s = sums_create(dimensions[d]);
        float floors[KINDS * ROWS];
        sums_screen(&s, &vectors_scalar);
        for (size_t i = 0; i < KINDS * ROWS; i++)
            floors[i] = i % 11 ? s.row_norms[i % ROWS] : NAN;
        for (size_t v = 1; vectors_variant(v); v++) {
            const struct vector_kernels *k = vectors_variant(v);
            for (size_t count = 0; count < 60; count++) {
                uint32_t found[60 + 16], wanted[60 + 16];
                size_t n = vectors_scalar.screen_pass(s.dots, floors, count, 0.5f, -1.0f, wanted);
                cr_assert_eq(k->screen_pass(s.dots, floors, count, 0.5f, -1.0f, found), n);
                cr_assert(!n || !memcmp(found, wanted, n * sizeof *found));
            }
        }
        sums_destroy(&s);
    }
}
