/* topk: the k best (score, id) pairs seen so far, ties by rising id. Set and order of the result
 * are the same however the input is split and in whatever order it arrives.
 * Owner:  the caller's memory; one for each query and worker.
 * Thread: one at a time.
 * Errors: none. Scores are never NaN. -0 and +0 tie. */
#ifndef ENGRAM_KERNELS_TOPK_H
#define ENGRAM_KERNELS_TOPK_H

#include "kernels/vectors.h"

enum { TOPK_K_MAX = 16384 };

struct topk_entry {
    uint64_t id;
    uint32_t key; /* rises from the best score to the worst: entries sort by (key, id) */
    float score;
};

struct topk {
    /* memory for `capacity` of them; the first `count` are candidates, unsorted */
    struct topk_entry *entries;
    uint32_t k;
    uint32_t capacity;
    uint32_t count;
    bool lower_is_better;
    bool selective; /* the bound is a threshold, or the k-th best of k rows seen */
    float bound;    /* strictly worse scores cannot enter */
};

/* Bytes of entries that topk_init wants for k; a multiple of 64. */
size_t topk_bytes(uint32_t k);

/* entries: topk_bytes(k), 64-byte aligned. threshold: only scores at least this (lower_is_better:
 * at most this) enter; NULL: all. */
void topk_init(struct topk *t, void *entries, uint32_t k, bool lower_is_better,
               const float *threshold);

/* Offers count scores; row i's id is ids[i]. positions: scratch of count + 16. allowed: NULL, or
 * a bitmap over the rows: bit first_row + i says whether row i may enter. */
void topk_offer(struct topk *t, const struct vector_kernels *kernels, const float *scores,
                const uint64_t *ids, size_t count, const uint64_t *allowed, size_t first_row,
                uint32_t *positions);

/* Moves the bound to the k-th best score seen, if that is worth its cost: first as soon as there
 * are k, then whenever as many again have come. Useful if each score that passes the bound is
 * expensive; the result is the same. */
void topk_tighten(struct topk *t);

/* Adds the candidates of `from`. */
void topk_merge(struct topk *t, const struct topk *from);

/* Sorts, writes the best min(k, seen) to ids and scores (k places each) and returns how many. */
uint32_t topk_finish(struct topk *t, uint64_t *ids, float *scores);

/* Sorts count pairs in place, best first, ties by rising id (for lists with a threshold). */
void topk_sort(struct topk_entry *entries, size_t count);

/* True if a comes before b: the better key, then the lesser id. */
static inline bool topk_before(struct topk_entry a, struct topk_entry b)
{
    return a.key != b.key ? a.key < b.key : a.id < b.id;
}

/* Returns the key that sorts scores from best to worst. */
static inline uint32_t topk_key(float score, bool lower_is_better)
{
    union {
        float f;
        uint32_t u;
    } v = {score + 0.0f}; /* -0 + +0 = +0 */
    uint32_t rising = v.u & 0x80000000u ? ~v.u : v.u | 0x80000000u;
    return lower_is_better ? rising : ~rising;
}

#endif
