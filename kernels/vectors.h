/* vectors: the table of canonical vector kernels that a CPU variant fills.
 * Owner:  the process; one table per variant, const, chosen once (vectors_choose).
 * Thread: any; no state, no allocation.
 * Errors: none. Inputs are validated before they come here.
 *
 * Everywhere: rows are float32, `stride` floats apart, stride a multiple of 32 and at least the
 * dimension, elements from dimension to stride are +0, base pointers 64-byte aligned.
 * `dimension` (1..VECTOR_DIMENSION_MAX) only decides between plain and compensated sums; see
 * canonical.h for the arithmetic, which every variant equals bit for bit. count = 0 is a no-op. */
#ifndef ENGRAM_KERNELS_VECTORS_H
#define ENGRAM_KERNELS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As numbered on the wire. */
enum metric {
    METRIC_COSINE = 1, /* dot / (norm norm), clamped to [-1, 1]; 0 for a zero vector */
    METRIC_DOT = 2,
    METRIC_SQUARED_EUCLIDEAN = 3, /* lower is nearer */
};

enum { VECTOR_LANES = 32, VECTOR_COMPENSATED_ABOVE = 1024, VECTOR_DIMENSION_MAX = 16384 };

#if defined(__CUDACC__)
#define CANONICAL_INLINE static __host__ __device__ __forceinline__
#else
#define CANONICAL_INLINE static inline
#endif

/* Floats from one stored row to the next. */
CANONICAL_INLINE size_t vector_stride(uint32_t dimension)
{
    return ((size_t)dimension + VECTOR_LANES - 1) / VECTOR_LANES * VECTOR_LANES;
}

static inline bool metric_lower_is_better(enum metric metric)
{
    return metric == METRIC_SQUARED_EUCLIDEAN;
}

/* Contiguous rows and their norms. */
struct row_block {
    const float *rows;
    const float *norms; /* count; read for METRIC_COSINE only */
    size_t count;
};

/* A few queries repacked for `tile`; layout is the variant's own. */
struct query_pack {
    const void *packed;
    const float *norms; /* one a query */
    size_t count;
};

struct vector_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */

    /* norms[i] = correctly rounded sqrt(dot(row i, row i)). Not finite exactly when the row has a
     * NaN or infinity or its squared norm overflows. */
    void (*norms)(uint32_t dimension, const float *rows, size_t count, float *norms);

    /* One query against contiguous rows: scores[i]. */
    void (*scan)(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                 struct row_block block, float *scores);

    /* One query against rows anywhere: row i at rows[i] (64-byte aligned), its norm norms[i]. */
    void (*gather)(enum metric metric, uint32_t dimension, const float *query, float query_norm,
                   const float *const *rows, const float *norms, size_t count, float *scores);

    /* Bytes that `pack` writes for count queries, a multiple of 64. */
    size_t (*pack_bytes)(uint32_t dimension, size_t count);
    /* Repacks count queries (padded rows) into 64-byte aligned memory. */
    void (*pack)(uint32_t dimension, const float *queries, size_t count, void *packed);
    /* Every query against every row: scores[q * scores_stride + r]. */
    void (*tile)(enum metric metric, uint32_t dimension, const struct query_pack *queries,
                 struct row_block block, float *scores, size_t scores_stride);

    /* Writes the positions i, rising, with scores[i] >= bound (lower_is_better: <= bound);
     * positions holds count + 16 places. Returns how many. */
    size_t (*pass)(const float *scores, size_t count, float bound, bool lower_is_better,
                   uint32_t *positions);

    /* ---- the screen (kernels/screen.h): what is told cheaply; NULL: this table has none ---- */

    /* As pack_bytes and pack, for `screen`. Up to 1,024 dimensions the layout equals that of
     * pack. */
    size_t (*screen_pack_bytes)(uint32_t dimension, size_t count);
    void (*screen_pack)(uint32_t dimension, const float *queries, size_t count, void *packed);
    /* Plain dot products of any dimension: dots[q * dots_stride + r]. A variant may choose the
     * order of summation: pieces of at most 1,024 elements, each in 16 or more partial sums of
     * fused multiply-adds. Norms are not read. */
    void (*screen)(uint32_t dimension, const struct query_pack *queries, struct row_block block,
                   float *dots, size_t dots_stride);
    /* Writes the positions i, rising, except those with dots[i] < fma(scale, floors[i], offset);
     * positions holds count + 16 places. Returns how many. */
    size_t (*screen_pass)(const float *dots, const float *floors, size_t count, float scale,
                          float offset, uint32_t *positions);

    /* For each column c in first .. first + columns - 1, and i rising: fma(weights[i], rows[i][c],
     * sum) from +0. The results are written from sums[0] on. Rows may have any alignment. */
    void (*weighted_sum)(const float *const *rows, const float *weights, size_t count, size_t first,
                         size_t columns, float *sums);

    /* Divides each row by its norm, element by element, correctly rounded; a row of norm 0 becomes
     * +0. Norms are finite. */
    void (*normalize)(uint32_t dimension, float *rows, const float *norms, size_t count);
};

extern const struct vector_kernels vectors_scalar;
#if defined(__x86_64__)
extern const struct vector_kernels vectors_avx2;
extern const struct vector_kernels vectors_avx512;
#elif defined(__aarch64__)
extern const struct vector_kernels vectors_neon;
#endif

/* Returns the variant with this name, or the best one for "auto"; NULL if no variant has the name,
 * or this machine (CPU or the register state that the system saves) cannot run it. */
const struct vector_kernels *vectors_choose(const char *name);

/* Returns the i-th variant that this machine can run, slowest first (0 is scalar); NULL at the
 * end. */
const struct vector_kernels *vectors_variant(size_t i);

/* Copies unpadded rows to rows padded with zeros. */
void vectors_pad(uint32_t dimension, const float *from, size_t count, float *to);

/* Returns the first i whose norm is not finite, or count. */
size_t vectors_find_bad(const float *norms, size_t count);

/* Writes what the probe found, such as "x86-64: sse2 avx2 fma avx512f ...". text holds size
 * bytes. */
void vectors_describe_cpu(char *text, size_t size);

#endif
