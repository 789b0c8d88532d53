/* Every table of kernels/shadow_scan.h gives the bits of the literal functions of shadow.h. */
#include <criterion/criterion.h>

#include "kernels/shadow_scan.h"
#include "tests/kernels/samples.h"

enum { ROWS = 77, QUERIES = 41, GROUPS = 2 };

static const uint32_t dimensions[] = {1, 31, 32, 33, 64, 65, 100, 384, 768, 1025, 4096, 16384};

struct scene {
    uint32_t dimension;
    size_t stride, apart;
    float *rows, *queries, *norms, *floors;
    struct shadow_centre centre; /* its row lies behind the rows, or is NULL */
    struct shadow_rows shadow;
    struct shadow_row literal[ROWS];
    int8_t *codes;
    float *beside; /* scales, losts, lengths */
    int *one;      /* codes of one row or query */
};

static void code_literally(struct scene *s)
{
    for (size_t r = 0; r < ROWS; r++) {
        s->literal[r] = shadow_measure(s->dimension, s->rows + r * s->stride, s->centre.row,
                                       s->centre.norm, SHADOW_LEVELS, s->one);
        for (size_t i = 0; i < s->stride; i++)
            s->codes[r * s->apart + i] = (int8_t)s->one[i];
        s->beside[r] = s->literal[r].scale;
        s->beside[ROWS + r] = s->literal[r].lost;
        s->beside[2 * ROWS + r] = s->literal[r].length;
    }
    s->shadow =
        (struct shadow_rows){s->codes, s->beside, s->beside + ROWS, s->beside + 2 * ROWS, ROWS};
}

/* middle: 0 no centre, 1 one row, 2 one whose distance is not finite. */
static struct scene scene_create(uint32_t dimension, int middle)
{
    struct scene s = {.dimension = dimension,
                      .stride = vector_stride(dimension),
                      .apart = shadow_stride(dimension)};
    s.rows = samples_create(dimension, ROWS + 1, 0, dimension + (unsigned)middle);
    s.queries = samples_create(dimension, QUERIES, 3, dimension + 7);
    s.norms = samples_allocate(QUERIES + ROWS);
    s.floors = samples_allocate(ROWS);
    s.codes = aligned_alloc(64, ROWS * s.apart);
    memset(s.codes, 0, ROWS * s.apart);
    s.beside = samples_allocate(3 * ROWS);
    s.one = calloc(s.stride, sizeof *s.one);
    float *last = s.rows + ROWS * s.stride;
    for (size_t i = 0; middle && i < dimension; i++)
        last[i] = middle == 2 ? FLT_MAX : 0.25f + 0.001f * (float)i;
    s.centre = (struct shadow_centre){middle ? last : NULL, 0.0f};
    if (middle == 1) vectors_scalar.norms(dimension, last, 1, &s.centre.norm);
    vectors_scalar.norms(dimension, s.queries, QUERIES, s.norms);
    vectors_scalar.norms(dimension, s.rows, ROWS, s.norms + QUERIES);
    code_literally(&s);
    return s;
}

static void scene_destroy(struct scene *s)
{
    samples_free(s->rows), samples_free(s->queries), samples_free(s->norms);
    samples_free(s->floors), samples_free(s->beside);
    free(s->codes), free(s->one);
}

static void for_all(void (*check)(const struct shadow_kernels *k, struct scene *s))
{
    const struct shadow_kernels *k;
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++)
        for (int middle = 0; middle < 3; middle++) {
            struct scene s = scene_create(dimensions[d], middle);
            for (size_t v = 0; (k = shadow_variant(v)); v++)
                check(k, &s);
            scene_destroy(&s);
        }
}

static void check_measure(const struct shadow_kernels *k, struct scene *s)
{
    int8_t *codes = aligned_alloc(64, ROWS * s->apart);
    float *beside = samples_allocate(3 * ROWS);
    memset(codes, 0x55, ROWS * s->apart);
    struct shadow_places places = {codes, beside, beside + ROWS, beside + 2 * ROWS};
    k->measure(s->dimension, s->rows, ROWS, &s->centre, &places);
    cr_assert(same_bits(beside, s->beside, 3 * ROWS), "%s, %u", k->name, s->dimension);
    cr_assert_eq(memcmp(codes, s->codes, ROWS * s->apart), 0, "%s, %u", k->name, s->dimension);
    free(codes), samples_free(beside);
}

Test(shadow_scan, measure_codes_rows_literally, .timeout = 300)
{
    for_all(check_measure);
}

static void literal_products(const struct scene *s, size_t r, int32_t *high, int32_t *low)
{
    *high = *low = 0;
    for (size_t i = 0; i < s->stride; i++) {
        *high += shadow_high(s->one[i]) * s->codes[r * s->apart + i];
        *low += shadow_low(s->one[i]) * s->codes[r * s->apart + i];
    }
}

static void check_scan(const struct shadow_kernels *k, struct scene *s)
{
    int8_t *planes = aligned_alloc(64, 2 * s->apart);
    float *above = samples_allocate(ROWS);
    for (size_t q = 0; q < QUERIES; q += 5) {
        struct shadow_query query, want;
        const float *x = s->queries + q * s->stride;
        k->prepare(s->dimension, x, s->norms[q], &s->centre, planes, &query);
        want = shadow_query(s->dimension, x, s->norms[q], s->centre.row, SHADOW_LEVELS_TWO, s->one);
        cr_assert(same_bits(&query.scale, &want.scale, 4), "%s, %u", k->name, s->dimension);
        k->scan(s->dimension, &query, planes, &s->shadow, above);
        for (size_t r = 0; r < ROWS; r++) {
            int32_t high, low;
            literal_products(s, r, &high, &low);
            float estimate = shadow_estimate(&want, s->literal[r].scale, high, low);
            float expect = shadow_above(&want, estimate, s->literal[r].lost, s->literal[r].length);
            cr_assert(same_bits(&above[r], &expect, 1), "%s, %u, query %zu, row %zu: %a, not %a",
                      k->name, s->dimension, q, r, above[r], expect);
        }
    }
    free(planes), samples_free(above);
}

Test(shadow_scan, scan_bounds_rows_literally, .timeout = 300)
{
    for_all(check_scan);
}

struct bounds {
    float scales[GROUPS * SHADOW_GROUP], offsets[GROUPS * SHADOW_GROUP];
};

/* One query's words of `tile` against its products. Returns how many rows pass. */
static size_t check_words(const struct shadow_kernels *k, struct scene *s, size_t q,
                          const struct bounds *b, const uint32_t *masks)
{
    size_t passed = 0;
    struct shadow_query query = shadow_query(s->dimension, s->queries + q * s->stride, s->norms[q],
                                             s->centre.row, SHADOW_LEVELS, s->one);
    for (size_t r = 0; r < ROWS; r++) {
        int32_t product = 0;
        for (size_t i = 0; i < s->stride; i++)
            product += s->one[i] * s->codes[r * s->apart + i];
        float estimate = shadow_estimate(&query, s->literal[r].scale, 0, product);
        float above = shadow_above(&query, estimate, s->literal[r].lost, s->literal[r].length);
        bool pass = !(above < fmaf(b->scales[q], s->floors[r], b->offsets[q]));
        bool told = masks[q / SHADOW_GROUP * ROWS + r] >> q % SHADOW_GROUP & 1;
        cr_assert_eq(told, pass, "%s, %u, query %zu, row %zu", k->name, s->dimension, q, r);
        passed += pass;
    }
    return passed;
}

static void check_tile(const struct shadow_kernels *k, struct scene *s)
{
    struct bounds b = {{0}, {0}};
    uint32_t masks[GROUPS * ROWS];
    struct screen screen = screen_of_shadow(METRIC_COSINE, s->dimension);
    void *packed = aligned_alloc(64, shadow_pack_bytes(s->dimension, QUERIES));
    screen_floors(&screen, s->norms + QUERIES, ROWS, s->floors);
    for (size_t q = 0; q < QUERIES; q++) {
        struct screen_line line = screen_line(&screen, s->norms[q], q % 3 ? 0.05f : -0.5f);
        b.scales[q] = line.scale, b.offsets[q] = line.offset;
    }
    struct shadow_lines lines = {b.scales, b.offsets};
    k->pack(s->dimension, s->queries, s->norms, QUERIES, &s->centre, packed);
    memset(masks, 0xff, sizeof masks);
    k->tile(s->dimension, packed, QUERIES, &lines, &s->shadow, s->floors, masks);
    size_t passed = 0;
    for (size_t q = 0; q < QUERIES; q++)
        passed += check_words(k, s, q, &b, masks);
    cr_assert_gt(passed, 0);
    if (s->centre.norm == 0.0f && !s->centre.row) cr_assert_lt(passed, QUERIES * ROWS);
    for (size_t r = 0; r < ROWS; r++)
        cr_assert_eq(masks[ROWS + r] >> (QUERIES - SHADOW_GROUP), 0, "bits of no query");
    free(packed);
}

Test(shadow_scan, tile_rejects_rows_literally, .timeout = 300)
{
    for_all(check_tile);
}

Test(shadow_scan, choose_follows_the_rows_kernels)
{
    const struct vector_kernels *v;
    for (size_t i = 0; (v = vectors_variant(i)); i++)
        cr_assert_str_eq(shadow_choose(v->name)->name, v->name);
    cr_assert_null(shadow_choose("none"));
    cr_assert_eq(shadow_variant(0), &shadow_scalar);
}
