/* Sums of lists of rows: every variant against superpose.h written out by hand, whole and in
 * pieces. */
#include "kernels/superpose.h"
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

enum { ROWS = 37, LONGEST = 2309, LENGTHS = 16 };

static const uint64_t lengths[LENGTHS] = {0,   1,   2,   3,    0,    8,    10,      23,
                                          255, 256, 257, 1024, 1100, 1281, LONGEST, 5};

struct scene {
    uint32_t dimension;
    size_t stride;
    float *data, *weights;
    const float **rows;
    uint64_t offsets[LENGTHS + 1];
    float *expected; /* one a list */
};

/* The nodes of one level, from the blocks on; each level is computed whole before the next. */
static float tree_by_hand(const struct scene *s, bool weighted, uint64_t first, uint64_t end,
                          uint32_t column)
{
    float nodes[LONGEST / SUPERPOSE_BLOCK + 1] = {0.0f};
    size_t count = 0;
    for (uint64_t block = first; block < end; block += 256) {
        float sum = 0.0f;
        for (uint64_t i = block; i < end && i < block + 256; i++)
            sum = fmaf(weighted ? s->weights[i] : 1.0f, s->rows[i][column], sum);
        nodes[count++] = sum;
    }
    while (count > 1) {
        float next[LONGEST / SUPERPOSE_BLOCK + 1];
        size_t pairs = 0;
        for (size_t i = 0; i + 1 < count; i += 2)
            next[pairs++] = nodes[i] + nodes[i + 1];
        if (count % 2) next[pairs++] = nodes[count - 1];
        memcpy(nodes, next, pairs * sizeof *nodes);
        count = pairs;
    }
    return nodes[0];
}

/* Rows stand at odd places, each behind the one before. */
static struct scene scene_create(uint32_t dimension)
{
    struct scene s = {.dimension = dimension, .stride = vector_stride(dimension)};
    for (size_t i = 0; i < LENGTHS; i++)
        s.offsets[i + 1] = s.offsets[i] + lengths[i];
    size_t total = s.offsets[LENGTHS];
    uint64_t seed = dimension;
    s.data = samples_allocate(ROWS * dimension);
    s.weights = samples_allocate(total);
    s.rows = calloc(total, sizeof *s.rows);
    s.expected = samples_allocate(LENGTHS * s.stride);
    for (size_t i = 0; i < (size_t)ROWS * dimension; i++) {
        static const enum sample kinds[] = {SAMPLE_UNIFORM, SAMPLE_MIXED, SAMPLE_CANCELLING,
                                            SAMPLE_SUBNORMAL, SAMPLE_NEGATIVE_ZERO};
        s.data[i] = sample_element(kinds[i / dimension % 5], dimension, (uint32_t)i, &seed);
    }
    for (size_t i = 0; i < total; i++) {
        s.rows[i] = s.data + sample_random(&seed) % ROWS * dimension;
        s.weights[i] = i % 11 == 3 ? -0.0f : sample_uniform(&seed);
    }
    return s;
}

static void scene_expect(struct scene *s, bool weighted)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        for (uint32_t c = 0; c < s->stride; c++)
            s->expected[i * s->stride + c] =
                c < s->dimension ? tree_by_hand(s, weighted, s->offsets[i], s->offsets[i + 1], c)
                                 : 0.0f;
    }
}

static void scene_destroy(struct scene *s)
{
    samples_free(s->data), samples_free(s->weights), samples_free(s->expected);
    free(s->rows);
}

static void assert_whole(const struct superpose_kernels *k, const struct scene *s, bool weighted)
{
    float *sums = samples_allocate(LENGTHS * s->stride);
    float *scratch = samples_allocate(superpose_scratch(s->dimension, LONGEST));
    memset(sums, 0xff, LENGTHS * s->stride * sizeof *sums);
    struct superpose_lists lists = {s->rows, weighted ? s->weights : NULL, s->offsets, LENGTHS};
    k->sums(s->dimension, &lists, scratch, sums);
    cr_assert(same_bits(sums, s->expected, LENGTHS * s->stride), "%s %u weighted %d", k->name,
              s->dimension, weighted);
    samples_free(sums), samples_free(scratch);
}

/* Each list in pieces of so many blocks, which is a power of two. */
static void assert_pieces(const struct superpose_kernels *k, const struct scene *s, bool weighted,
                          size_t blocks)
{
    size_t step = blocks * SUPERPOSE_BLOCK;
    float *nodes = samples_allocate((LONGEST / step + 1) * s->stride);
    float *scratch = samples_allocate(superpose_scratch(s->dimension, step));
    for (size_t i = 0; i < LENGTHS; i++) {
        if (s->offsets[i] == s->offsets[i + 1]) continue;
        size_t count = 0;
        for (uint64_t at = s->offsets[i]; at < s->offsets[i + 1]; at += step, count++) {
            uint64_t left = s->offsets[i + 1] - at;
            uint64_t ends[2] = {at, at + (left < step ? left : step)};
            struct superpose_lists lists = {s->rows, weighted ? s->weights : NULL, ends, 1};
            k->sums(s->dimension, &lists, scratch, nodes + count * s->stride);
        }
        k->fold(s->dimension, nodes, count);
        cr_assert(same_bits(nodes, s->expected + i * s->stride, s->stride),
                  "%s %u list %zu in pieces of %zu blocks", k->name, s->dimension, i, blocks);
    }
    samples_free(nodes), samples_free(scratch);
}

static void assert_dimension(uint32_t dimension)
{
    struct scene s = scene_create(dimension);
    for (int weighted = 0; weighted < 2; weighted++) {
        scene_expect(&s, weighted);
        for (size_t v = 0; vectors_variant(v); v++) {
            const struct superpose_kernels *k = superpose_choose(vectors_variant(v)->name);
            assert_whole(k, &s, weighted);
            assert_pieces(k, &s, weighted, dimension % 2 ? 1 : 4);
            assert_pieces(k, &s, weighted, dimension % 2 ? 2 : 8);
        }
    }
    scene_destroy(&s);
}

Test(superpose, sums_are_as_written)
{
    for (uint32_t dimension = 1; dimension <= 70; dimension += 1 + dimension / 20)
        assert_dimension(dimension);
    assert_dimension(131);
    assert_dimension(1000);
}

/* More than one pass over a block's columns. */
Test(superpose, wide_rows_are_summed_in_passes)
{
    enum { DIMENSION = 2600, COUNT = 300 };
    float *data = samples_create(DIMENSION, ROWS, 0, 1);
    const float *rows[COUNT];
    uint64_t offsets[2] = {0, COUNT};
    size_t stride = vector_stride(DIMENSION);
    for (size_t i = 0; i < COUNT; i++)
        rows[i] = data + i % ROWS * stride;
    float *expected = samples_allocate(stride), *sum = samples_allocate(stride);
    for (size_t c = 0; c < stride; c++) {
        float parts[2] = {0.0f, 0.0f};
        for (size_t i = 0; i < COUNT; i++)
            parts[i / 256] += rows[i][c];
        expected[c] = parts[0] + parts[1];
    }
    for (size_t v = 0; vectors_variant(v); v++) {
        float *scratch = samples_allocate(superpose_scratch(DIMENSION, COUNT));
        struct superpose_lists lists = {rows, NULL, offsets, 1};
        superpose_choose(vectors_variant(v)->name)->sums(DIMENSION, &lists, scratch, sum);
        cr_assert(same_bits(sum, expected, stride), "%s", vectors_variant(v)->name);
        samples_free(scratch);
    }
    samples_free(data), samples_free(expected), samples_free(sum);
}

/* Three lists: rows that cancel, rows that overflow, rows that do neither. */
Test(superpose, an_overflow_is_seen_in_the_norm_and_a_zero_sum_stays_zero)
{
    enum { DIMENSION = 33, STRIDE = 64 };
    float *data = samples_allocate(3 * STRIDE), *sums = samples_allocate(3 * STRIDE), norms[3];
    for (size_t c = 0; c < STRIDE; c++) {
        bool inside = c < DIMENSION;
        data[c] = inside ? 0.25f : 0.0f;
        data[STRIDE + c] = inside ? -0.25f : 0.0f;
        data[2 * STRIDE + c] = inside && c == 5 ? 0x1.8p63f : 0.0f;
    }
    const float *rows[] = {data, data + STRIDE, data + 2 * STRIDE, data + 2 * STRIDE, data, data};
    uint64_t offsets[] = {0, 2, 4, 6};
    const struct vector_kernels *vectors = vectors_choose("auto");
    struct superpose_lists lists = {rows, NULL, offsets, 3};
    superpose_choose("auto")->sums(DIMENSION, &lists, NULL, sums);
    vectors->norms(DIMENSION, sums, 3, norms);
    cr_assert_eq(vectors_find_bad(norms, 3), 1);
    cr_assert_eq(norms[0], 0.0f);
    vectors->normalize(DIMENSION, sums, norms, 1);
    for (size_t c = 0; c < STRIDE; c++)
        cr_assert(sums[c] == 0.0f && !signbit(sums[c]));
    vectors->normalize(DIMENSION, sums + 2 * STRIDE, norms + 2, 1);
    cr_assert_float_eq(sums[2 * STRIDE], 0.17407766f, 1e-7);
    samples_free(data), samples_free(sums);
}

Test(superpose, largest_magnitude)
{
    enum { COUNT = 70 };
    float numbers[COUNT];
    for (size_t v = 0; vectors_variant(v); v++) {
        const struct superpose_kernels *k = superpose_choose(vectors_variant(v)->name);
        for (size_t i = 0; i < COUNT; i++)
            numbers[i] = i % 2 ? -0.0f : 0x1p-149f;
        cr_assert_eq(k->largest(numbers, 0), 0);
        for (size_t i = 0; i < COUNT; i++) {
            static const float larger[] = {0.5f, -3.0f, 0x1p56f, -INFINITY, NAN};
            cr_assert_eq(k->largest(numbers, i), i ? 1 : 0, "%s, %zu", k->name, i);
            for (size_t l = 0; l < sizeof larger / sizeof *larger; l++) {
                uint32_t wanted, before;
                float kept = numbers[i];
                memcpy(&wanted, &larger[l], sizeof wanted);
                before = k->largest(numbers, COUNT);
                numbers[i] = larger[l];
                cr_assert_eq(k->largest(numbers, COUNT), wanted & INT32_MAX, "%s, %zu", k->name, i);
                cr_assert_eq(k->largest(numbers, i), i ? 1 : 0, "those before it alone");
                numbers[i] = kept;
                cr_assert_eq(k->largest(numbers, COUNT), before);
            }
        }
    }
}
