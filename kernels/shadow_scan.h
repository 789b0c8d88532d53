/* shadow_scan: the table of kernels over rows in int8 (shadow.h) that a CPU variant fills. Every
 * variant gives the bits of the literal functions there.
 * Owner:  the process; one table a variant, const, chosen once (shadow_choose).
 * Thread: any; no state, no allocation.
 * Errors: none. Inputs are validated before they come here.
 *
 * Rows and queries are padded as vectors.h says. A centre is a padded row, or NULL for 0, and
 * centre_norm its norm. */
#ifndef ENGRAM_KERNELS_SHADOW_SCAN_H
#define ENGRAM_KERNELS_SHADOW_SCAN_H

#include "kernels/shadow.h"

enum {
    SHADOW_GROUP = 32, /* queries whose bits are in one word of `tile` */
};

/* Where the codes of rows go, shadow_stride bytes apart, and what stands beside them. */
struct shadow_places {
    int8_t *codes; /* 64-byte aligned */
    float *scales, *losts, *lengths;
};

/* A centre and its norm. */
struct shadow_centre {
    const float *row;
    float norm;
};

/* A bound for each query of a pack (screen.h), as many as shadow_padded says. */
struct shadow_lines {
    const float *scales, *offsets;
};

struct shadow_kernels {
    const char *name; /* as a table of vectors.h */
    bool tiles;       /* tile is faster than scoring rows that lie in the cache exactly */

    /* Codes count rows of one plane. */
    void (*measure)(uint32_t dimension, const float *rows, size_t count,
                    const struct shadow_centre *centre, const struct shadow_places *out);

    /* Codes one query of two planes: the high one, then the low one, at planes[shadow_stride]. */
    void (*prepare)(uint32_t dimension, const float *query, float norm,
                    const struct shadow_centre *centre, int8_t *planes, struct shadow_query *out);
    /* above[i] = shadow_above of the query and row i. */
    void (*scan)(uint32_t dimension, const struct shadow_query *query, const int8_t *planes,
                 const struct shadow_rows *rows, float *above);

    /* Codes count queries of one plane; packed: shadow_pack_bytes, 64-byte aligned. */
    void (*pack)(uint32_t dimension, const float *queries, const float *norms, size_t count,
                 const struct shadow_centre *centre, void *packed);
    /* Bit i of masks[g * rows->count + r] is set unless row r is rejected for query 32 g + i:
     * shadow_above < fma(line's scale, floors[r], line's offset). Bits of no query are 0. */
    void (*tile)(uint32_t dimension, const void *packed, size_t count,
                 const struct shadow_lines *lines, const struct shadow_rows *rows,
                 const float *floors, uint32_t *masks);
};

extern const struct shadow_kernels shadow_scalar;
#if defined(__x86_64__)
extern const struct shadow_kernels shadow_avx2;
extern const struct shadow_kernels shadow_vnni_avx2; /* avx2 with AVX-VNNI */
extern const struct shadow_kernels shadow_avx512;
extern const struct shadow_kernels shadow_vnni; /* avx512 with VPDPBUSD */
#elif defined(__aarch64__)
extern const struct shadow_kernels shadow_neon;
extern const struct shadow_kernels shadow_dot_neon; /* neon with SDOT */
#endif

/* Returns the best table that runs on what vectors_choose returns for this name, or NULL. */
const struct shadow_kernels *shadow_choose(const char *name);

/* Returns the i-th table that this machine can run, slowest first; NULL at the end. */
const struct shadow_kernels *shadow_variant(size_t i);

/* More queries are told by a tile, with one plane of codes. */
enum { SHADOW_ALONE_MAX = 8 };

/* True if so many queries are told sooner than rows that lie in the cache are scored exactly. */
static inline bool shadow_takes(const struct shadow_kernels *k, uint64_t queries)
{
    return queries <= SHADOW_ALONE_MAX || k->tiles;
}

/* Queries of a pack, rounded up to whole groups. */
static inline size_t shadow_padded(size_t count)
{
    return (count + SHADOW_GROUP - 1) / SHADOW_GROUP * SHADOW_GROUP;
}

static inline size_t shadow_pack_bytes(uint32_t dimension, size_t count)
{
    return shadow_padded(count) * (shadow_stride(dimension) + sizeof(struct shadow_query));
}

#endif
