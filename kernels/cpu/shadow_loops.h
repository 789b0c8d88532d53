/* shadow_loops: what the variants of shadow_scan.h have in common: loops that the compiler
 * vectorises with the instructions of the file that includes them, around its own products.
 * Owner:  included once by each shadow_VARIANT.c; everything is static. The includer defines
 *         products, and pair unless it has a tile of its own.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_SHADOW_LOOPS_H
#define ENGRAM_KERNELS_CPU_SHADOW_LOOPS_H

#include "kernels/shadow_scan.h"

#include <string.h>

enum { SHADOW_AT_ONCE = 64 }; /* rows whose products are held between two loops */

/* Products of both planes with count <= SHADOW_AT_ONCE rows. */
static void products(size_t stride, const int8_t *planes, const int8_t *codes, size_t count,
                     int32_t *high, int32_t *low);

/* ---- rows ---- */

struct shadow_most {
    float most;
    bool finite;
};

static struct shadow_most find_most(size_t stride, const float *row, const float *centre)
{
    float most[VECTOR_LANES] = {0};
    int32_t wrong[VECTOR_LANES] = {0};
    for (size_t i = 0; i < stride; i += VECTOR_LANES)
        for (size_t j = 0; j < VECTOR_LANES; j++) {
            float d = fabsf(row[i + j] - (centre ? centre[i + j] : 0.0f));
            most[j] = d > most[j] ? d : most[j];
            wrong[j] |= !(d <= FLT_MAX);
        }
    struct shadow_most found = {0.0f, true};
    for (size_t j = 0; j < VECTOR_LANES; j++) {
        found.most = most[j] > found.most ? most[j] : found.most;
        found.finite = found.finite && !wrong[j];
    }
    return found;
}

/* shadow_measure, for codes of one byte. */
static struct shadow_row measure_row(size_t stride, const float *row,
                                     const struct shadow_centre *centre, int8_t *codes)
{
    const struct shadow_row unknown = {0.0f, INFINITY, 0.0f};
    const float *middle = centre->row;
    struct shadow_most found = find_most(stride, row, middle);
    bool finite = found.finite && centre->norm <= SCREEN_NORM_MAX;
    struct shadow_step step = shadow_step(finite ? found.most : INFINITY, SHADOW_LEVELS);
    float p[VECTOR_LANES] = {0};
    int32_t squares[VECTOR_LANES] = {0};
    if (!finite) {
        memset(codes, 0, stride);
        return unknown;
    }
    for (size_t i = 0; i < stride; i += VECTOR_LANES)
        for (size_t j = 0; j < VECTOR_LANES; j++) {
            float d = row[i + j] - (middle ? middle[i + j] : 0.0f);
            int32_t code = (int32_t)rintf(d * step.inverse);
            float lost = fmaf(-step.scale, (float)code, d);
            squares[j] += code * code;
            p[j] = fmaf(lost, lost, p[j]);
            codes[i + j] = (int8_t)code;
        }
    int64_t all = 0;
    for (size_t j = 0; j < VECTOR_LANES; j++)
        all += squares[j];
    struct shadow_row shadow;
    shadow.scale = step.scale;
    shadow.length = shadow_length(step.scale, all);
    shadow.lost = shadow_lost(canonical_tree(p), shadow.length, centre->norm);
    return shadow;
}

static void measure(uint32_t dimension, const float *rows, size_t count,
                    const struct shadow_centre *centre, const struct shadow_places *out)
{
    size_t stride = vector_stride(dimension), apart = shadow_stride(dimension);
    for (size_t r = 0; r < count; r++) {
        int8_t *codes = out->codes + r * apart;
        struct shadow_row row = measure_row(stride, rows + r * stride, centre, codes);
        memset(codes + stride, 0, apart - stride);
        out->scales[r] = row.scale;
        out->losts[r] = row.lost;
        out->lengths[r] = row.length;
    }
}

/* ---- one query ---- */

static void prepare(uint32_t dimension, const float *query, float norm,
                    const struct shadow_centre *centre, int8_t *planes, struct shadow_query *out)
{
    size_t stride = vector_stride(dimension), apart = shadow_stride(dimension);
    int codes[VECTOR_DIMENSION_MAX];
    *out = shadow_query(dimension, query, norm, centre->row, SHADOW_LEVELS_TWO, codes);
    memset(planes, 0, 2 * apart);
    for (size_t i = 0; i < stride; i++) {
        planes[i] = (int8_t)shadow_high(codes[i]);
        planes[apart + i] = (int8_t)shadow_low(codes[i]);
    }
}

static void scan(uint32_t dimension, const struct shadow_query *query, const int8_t *planes,
                 const struct shadow_rows *rows, float *above)
{
    size_t stride = shadow_stride(dimension);
    int32_t high[SHADOW_AT_ONCE], low[SHADOW_AT_ONCE];
    const struct shadow_query q = *query;
    for (size_t first = 0, n; first < rows->count; first += n) {
        n = rows->count - first < SHADOW_AT_ONCE ? rows->count - first : SHADOW_AT_ONCE;
        products(stride, planes, rows->codes + first * stride, n, high, low);
        for (size_t i = 0; i < n; i++) {
            float estimate = shadow_estimate(&q, rows->scales[first + i], high[i], low[i]);
            above[first + i] =
                shadow_above(&q, estimate, rows->losts[first + i], rows->lengths[first + i]);
        }
    }
}

/* ---- many queries: what stands beside their codes, one array for each member ---- */

struct shadow_pack {
    float *scales, *losts, *norms, *centred;
    int8_t *codes;
};

static inline struct shadow_pack pack_at(void *packed, size_t padded)
{
    float *at = (float *)packed;
    return (struct shadow_pack){at, at + padded, at + 2 * padded, at + 3 * padded,
                                (int8_t *)(at + 4 * padded)};
}

static inline struct shadow_query pack_query(const struct shadow_pack *p, size_t q)
{
    return (struct shadow_query){p->scales[q], p->losts[q], p->norms[q], p->centred[q]};
}

/* Codes query q, or nothing, which is 0, past the last. */
static inline void pack_one(uint32_t dimension, const float *query, float norm,
                            const struct shadow_centre *centre, const struct shadow_pack *p,
                            size_t q, int8_t *codes)
{
    const struct shadow_centre none = {NULL, 0.0f};
    size_t stride = vector_stride(dimension);
    struct shadow_row row = measure_row(stride, query, &none, codes);
    double sum = 0;
    for (size_t i = 0; centre->row && i < stride; i++)
        sum = fma((double)query[i], (double)centre->row[i], sum);
    p->scales[q] = row.scale;
    p->losts[q] = row.lost;
    p->norms[q] = norm * (1 + 0x1p-12f) + 0x1p-60f;
    p->centred[q] = (float)sum;
}

#endif
