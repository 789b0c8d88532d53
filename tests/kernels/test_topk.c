/* topk against sorting everything. */
#include "kernels/topk.h"
#include "tests/kernels/samples.h"

#include <criterion/criterion.h>

struct pair {
    float score;
    uint64_t id;
};

enum shape { RANDOM, TIES, ALL_EQUAL, RISING, FALLING, SIGNED_ZEROS, DUPLICATES, SHAPES };

static int compare_lower(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? -1 : 1;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return 0;
}

static int compare_higher(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return 0;
}

struct offers {
    size_t count;
    uint64_t *ids;
    float *scores;
    uint64_t *allowed; /* or NULL */
};

static float score_of(enum shape shape, size_t i, size_t count, uint64_t *seed)
{
    switch (shape) {
    case TIES: return (float)(sample_random(seed) % 5) - 2.0f;
    case ALL_EQUAL: return 1.0f;
    case RISING: return (float)i / (float)count;
    case FALLING: return -(float)i / (float)count;
    case SIGNED_ZEROS: return sample_random(seed) % 2 ? 0.0f : -0.0f;
    case DUPLICATES: return (float)(sample_random(seed) % 3);
    case RANDOM:
    case SHAPES: break;
    }
    uint64_t pick = sample_random(seed) % 1000;
    return pick == 0 ? INFINITY : pick == 1 ? -INFINITY : sample_uniform(seed);
}

static struct offers offers_create(enum shape shape, size_t count, bool bitmap, uint64_t *seed)
{
    struct offers o = {count, calloc(count + 1, sizeof(uint64_t)), calloc(count + 1, sizeof(float)),
                       NULL};
    if (bitmap) o.allowed = calloc(count / 64 + 1, sizeof(uint64_t));
    for (size_t i = 0; i < count; i++) {
        o.scores[i] = score_of(shape, i, count, seed);
        o.ids[i] = shape == DUPLICATES ? sample_random(seed) % 7 : sample_random(seed);
        if (bitmap && sample_random(seed) % 3) o.allowed[i / 64] |= 1ull << i % 64;
    }
    return o;
}

static void offers_destroy(struct offers *o)
{
    free(o->ids), free(o->scores), free(o->allowed);
}

static size_t sort_everything(const struct offers *o, bool lower, const float *threshold,
                              struct pair *sorted)
{
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (o->allowed && !(o->allowed[i / 64] >> i % 64 & 1)) continue;
        if (threshold && (lower ? o->scores[i] > *threshold : o->scores[i] < *threshold)) continue;
        sorted[count++] = (struct pair){o->scores[i], o->ids[i]};
    }
    qsort(sorted, count, sizeof *sorted, lower ? compare_lower : compare_higher);
    return count;
}

static void offer_range(struct topk *t, const struct offers *o, size_t first, size_t count)
{
    size_t variants = 0;
    while (vectors_variant(variants))
        variants++;
    const struct vector_kernels *k = vectors_variant(first % variants);
    uint32_t *positions = calloc(count + 16, sizeof *positions);
    topk_offer(t, k, o->scores + first, o->ids + first, count, o->allowed, first, positions);
    free(positions);
    if (first % 3 == 1) topk_tighten(t);
}

enum { PARTS = 3 };

/* Offers pieces of random length to random collectors, in random order, then merges them all. */
static uint32_t collect(const struct offers *o, uint32_t k, bool lower, const float *threshold,
                        uint64_t *seed, uint64_t *ids, float *scores)
{
    struct topk parts[PARTS];
    void *memory[PARTS];
    for (size_t p = 0; p < PARTS; p++) {
        cr_assert_eq(topk_bytes(k) % 64, 0);
        memory[p] = aligned_alloc(64, topk_bytes(k));
        topk_init(&parts[p], memory[p], k, lower, threshold);
    }
    size_t low = 0, high = o->count;
    while (low < high) {
        size_t piece = 1 + sample_random(seed) % (sample_random(seed) % 2 ? 40 : 5000);
        if (piece > high - low) piece = high - low;
        bool from_front = sample_random(seed) % 2;
        struct topk *to = &parts[sample_random(seed) % PARTS];
        offer_range(to, o, from_front ? low : high - piece, piece);
        if (from_front)
            low += piece;
        else
            high -= piece;
    }
    for (size_t p = 1; p < PARTS; p++)
        topk_merge(&parts[0], &parts[p]);
    uint32_t found = topk_finish(&parts[0], ids, scores);
    for (size_t p = 0; p < PARTS; p++)
        free(memory[p]);
    return found;
}

/* Scores of a tie may be -0 or +0 each: with distinct ids the bits are determined too. */
static void assert_best(enum shape shape, size_t count, uint32_t k, bool lower,
                        const float *threshold, bool bitmap, uint64_t seed)
{
    struct offers o = offers_create(shape, count, bitmap, &seed);
    struct pair *sorted = calloc(count + 1, sizeof *sorted);
    uint64_t *ids = calloc(k, sizeof *ids);
    float *scores = calloc(k, sizeof *scores);
    size_t seen = sort_everything(&o, lower, threshold, sorted);
    uint32_t found = collect(&o, k, lower, threshold, &seed, ids, scores);
    cr_assert_eq(found, seen < k ? seen : k, "shape %d: %u found of %zu", shape, found, seen);
    for (uint32_t i = 0; i < found; i++)
        cr_assert(ids[i] == sorted[i].id && same_bits(&scores[i], &sorted[i].score, 1),
                  "shape %d count %zu k %u place %u", shape, count, k, i);
    offers_destroy(&o);
    free(sorted), free(ids), free(scores);
}

Test(topk, equals_sorting_everything, .timeout = 900)
{
    static const uint32_t ks[] = {1, 2, 3, 10, 63, 64, 65, 127, 128, 129, 1000, 4096, 16384};
    static const size_t counts[] = {0, 1, 2, 17, 300, 5000, 40000};
    const float zero = 0.0f, minus_zero = -0.0f;
    uint64_t seed = 11;
    for (int shape = 0; shape < SHAPES; shape++) {
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                const float *threshold = seed % 3 == 0 ? &zero : seed % 3 == 1 ? &minus_zero : NULL;
                bool lower = seed % 2;
                assert_best((enum shape)shape, counts[c], ks[i], lower, threshold, seed % 5 == 0,
                            seed);
                seed++;
            }
        }
    }
}

Test(topk, every_small_k_and_count)
{
    for (uint32_t k = 1; k <= 40; k++) {
        for (size_t count = 0; count <= 60; count++)
            assert_best((enum shape)(count % SHAPES), count, k, count & 1, NULL, count & 2,
                        k * 100 + count);
    }
}

Test(topk, a_million_offers_and_the_largest_k, .timeout = 900)
{
    assert_best(RANDOM, 1000000, TOPK_K_MAX, true, NULL, false, 1);
    assert_best(RISING, 300000, TOPK_K_MAX, false, NULL, false, 2);
    assert_best(ALL_EQUAL, 300000, 10, false, NULL, false, 3);
}

/* From k + 1 scores on the bound is the k-th best, give or take as many again as k. */
Test(topk, a_tight_bound_follows)
{
    float scores[100];
    uint64_t ids[100];
    uint32_t positions[16 + 16];
    for (size_t i = 0; i < 100; i++)
        scores[i] = 100.0f - (float)i, ids[i] = i;
    void *memory = aligned_alloc(64, topk_bytes(10));
    struct topk t;
    topk_init(&t, memory, 10, true, NULL);
    cr_assert(!t.selective);
    for (size_t i = 0; i < 100; i++) {
        topk_offer(&t, &vectors_scalar, scores + i, ids + i, 1, NULL, i, positions);
        topk_tighten(&t);
        cr_assert_eq(t.selective, i >= 10);
        if (i >= 10) cr_assert(t.bound >= scores[i - 9] && t.bound < scores[i - 9] + 16);
    }
    float threshold = 5;
    topk_init(&t, memory, 10, true, &threshold);
    topk_tighten(&t);
    cr_assert(t.selective && t.bound == 5);
    free(memory);
}

Test(topk, the_order_of_arrival_does_not_matter)
{
    uint64_t seed = 5;
    struct offers o = offers_create(TIES, 20000, false, &seed);
    uint64_t first_ids[700], ids[700];
    float first_scores[700], scores[700];
    for (int round = 0; round < 20; round++) {
        bool reference = round == 0;
        uint32_t found = collect(&o, 700, true, NULL, &seed, reference ? first_ids : ids,
                                 reference ? first_scores : scores);
        cr_assert_eq(found, 700);
        if (reference) continue;
        cr_assert_eq(memcmp(ids, first_ids, sizeof ids), 0);
        cr_assert_eq(memcmp(scores, first_scores, sizeof scores), 0);
    }
    offers_destroy(&o);
}

static int compare_entries(const void *left, const void *right)
{
    const struct topk_entry *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Organ pipes and sawtooths are what makes a median of three choose badly. */
Test(topk, sort_sorts_hostile_orders, .timeout = 900)
{
    for (size_t count = 0; count < 200000; count = count * 2 + 1) {
        for (int shape = 0; shape < 4; shape++) {
            struct topk_entry *a = calloc(count + 1, sizeof *a), *b = calloc(count + 1, sizeof *b);
            uint64_t seed = count;
            for (size_t i = 0; i < count; i++) {
                size_t pipe = i < count / 2 ? i : count - i;
                uint32_t key = shape == 0   ? (uint32_t)pipe
                               : shape == 1 ? (uint32_t)(i % 17)
                               : shape == 2 ? 4
                                            : (uint32_t)sample_random(&seed);
                a[i] = b[i] = (struct topk_entry){sample_random(&seed) % 1000, key, 0.0f};
            }
            topk_sort(a, count);
            qsort(b, count, sizeof *b, compare_entries);
            for (size_t i = 0; i < count; i++)
                cr_assert(a[i].key == b[i].key && a[i].id == b[i].id);
            free(a), free(b);
        }
    }
}

Test(topk, keys_rise_from_best_to_worst)
{
    static const float rising[] = {-INFINITY, -3e38f, -1.0f,   -0x1p-149f, 0.0f,
                                   0x1p-149f, 1.0f,   3.4e38f, INFINITY};
    for (size_t i = 0; i + 1 < sizeof rising / sizeof *rising; i++) {
        cr_assert_lt(topk_key(rising[i], true), topk_key(rising[i + 1], true));
        cr_assert_gt(topk_key(rising[i], false), topk_key(rising[i + 1], false));
    }
    cr_assert_eq(topk_key(-0.0f, true), topk_key(0.0f, true));
    cr_assert_eq(topk_key(-0.0f, false), topk_key(0.0f, false));
}
