/* topk: a buffer of at least twice k candidates. When it is full, the best k are selected in
 * linear time and the k-th becomes the bound: most rows then fail one comparison, and a row that
 * does not costs a constant time, whatever k is. Only rows that are certainly outside the best k
 * are dropped, so the result does not depend on the order of arrival. */
#include "kernels/topk.h"

#include <math.h>
#include <string.h>

enum {
    TOPK_SLACK_MIN = 128,  /* candidates between two selections, for small k */
    TOPK_TIGHTEN_MIN = 16, /* the least number of candidates between two tightenings */
    TOPK_SMALL = 24,       /* ranges up to this length are sorted by insertion */
    TOPK_RANGES_MAX = 64,  /* pending ranges; the larger one always waits, so log2(count) suffice */
    TOPK_ENTRIES_A_LINE = 4 /* 64 bytes */
};

static uint32_t capacity_of(uint32_t k)
{
    uint32_t slack = k < TOPK_SLACK_MIN ? TOPK_SLACK_MIN : k;
    uint32_t line = TOPK_ENTRIES_A_LINE;
    return (k + slack + line - 1) / line * line;
}

static void swap(struct topk_entry *a, struct topk_entry *b)
{
    struct topk_entry kept = *a;
    *a = *b;
    *b = kept;
}

static void sort_small(struct topk_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct topk_entry moving = entries[i];
        size_t to = i;
        for (; to > 0 && topk_before(moving, entries[to - 1]); to--)
            entries[to] = entries[to - 1];
        entries[to] = moving;
    }
}

static void sift_down(struct topk_entry *heap, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && topk_before(heap[child], heap[child + 1])) child++;
        if (!topk_before(heap[root], heap[child])) return;
        swap(&heap[root], &heap[child]);
        root = child;
    }
}

/* Sorts in n log n for any input; used where partitioning keeps going wrong. */
static void sort_heap(struct topk_entry *entries, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sift_down(entries, root, count);
    for (size_t last = count; last-- > 1;) {
        swap(&entries[0], &entries[last]);
        sift_down(entries, 0, last);
    }
}

/* Moves the median of the first, middle and last entry to the front. */
static void choose_pivot(struct topk_entry *entries, size_t count)
{
    struct topk_entry *a = entries, *b = entries + count / 2, *c = entries + count - 1;
    if (topk_before(*b, *a)) swap(a, b);
    if (topk_before(*c, *b)) swap(b, c);
    if (topk_before(*b, *a)) swap(a, b);
    swap(a, b);
}

/* Splits around entries[0] and returns where that ends up; nothing before it sorts after it.
 * Entries equal to it stop both scans, so equal entries go to both sides evenly. */
static size_t partition(struct topk_entry *entries, size_t count)
{
    choose_pivot(entries, count);
    struct topk_entry pivot = entries[0];
    size_t low = 0, high = count;
    for (;;) {
        do
            low++;
        while (low < count && topk_before(entries[low], pivot));
        do
            high--;
        while (topk_before(pivot, entries[high]));
        if (low >= high) break;
        swap(&entries[low], &entries[high]);
    }
    swap(&entries[0], &entries[high]);
    return high;
}

/* How many partitions may be tried before a heap sort takes over. */
static unsigned patience_for(size_t count)
{
    unsigned patience = 8;
    for (; count > 1; count /= 2)
        patience += 2;
    return patience;
}

void topk_sort(struct topk_entry *entries, size_t count)
{
    struct range {
        struct topk_entry *entries;
        size_t count;
        unsigned patience;
    } waiting[TOPK_RANGES_MAX];
    size_t depth = 0;
    struct range now = {entries, count, patience_for(count)};
    for (;;) {
        while (now.count > TOPK_SMALL && now.patience > 0) {
            size_t pivot = partition(now.entries, now.count);
            struct range left = {now.entries, pivot, now.patience - 1};
            struct range right = {now.entries + pivot + 1, now.count - pivot - 1, now.patience - 1};
            bool left_larger = left.count > right.count;
            waiting[depth++] = left_larger ? left : right;
            now = left_larger ? right : left;
        }
        if (now.count > TOPK_SMALL)
            sort_heap(now.entries, now.count);
        else
            sort_small(now.entries, now.count);
        if (depth == 0) return;
        now = waiting[--depth];
    }
}

/* Moves the k best of count to the front, the k-th of them last (1 <= k < count). */
static void select_best(struct topk_entry *entries, size_t count, size_t k)
{
    unsigned patience = patience_for(count);
    while (count > TOPK_SMALL && patience-- > 0) {
        size_t pivot = partition(entries, count);
        if (pivot == k - 1) return;
        if (pivot > k - 1) {
            count = pivot;
        } else {
            entries += pivot + 1;
            count -= pivot + 1;
            k -= pivot + 1;
        }
    }
    topk_sort(entries, count);
}

static void compact(struct topk *t)
{
    select_best(t->entries, t->count, t->k);
    t->count = t->k;
    t->bound = t->entries[t->k - 1].score;
    t->selective = true;
}

static bool may_enter(const struct topk *t, float score)
{
    return t->lower_is_better ? score <= t->bound : score >= t->bound;
}

static void add(struct topk *t, struct topk_entry entry)
{
    if (t->count == t->capacity) compact(t);
    if (may_enter(t, entry.score)) t->entries[t->count++] = entry;
}

size_t topk_bytes(uint32_t k)
{
    return capacity_of(k) * sizeof(struct topk_entry);
}

void topk_init(struct topk *t, void *entries, uint32_t k, bool lower_is_better,
               const float *threshold)
{
    *t = (struct topk){
        .entries = entries,
        .k = k,
        .capacity = capacity_of(k),
        .lower_is_better = lower_is_better,
        .selective = threshold != NULL,
        .bound = threshold         ? *threshold
                 : lower_is_better ? INFINITY
                                   : -INFINITY,
    };
}

void topk_offer(struct topk *t, const struct vector_kernels *kernels, const float *scores,
                const uint64_t *ids, size_t count, const uint64_t *allowed, size_t first_row,
                uint32_t *positions)
{
    size_t passed = kernels->pass(scores, count, t->bound, t->lower_is_better, positions);
    for (size_t i = 0; i < passed; i++) {
        size_t at = positions[i], row = first_row + at;
        if (allowed && !(allowed[row / 64] >> row % 64 & 1)) continue;
        if (!may_enter(t, scores[at])) continue;
        add(t, (struct topk_entry){ids[at], topk_key(scores[at], t->lower_is_better), scores[at]});
    }
}

void topk_tighten(struct topk *t)
{
    uint32_t more = t->k < TOPK_TIGHTEN_MIN ? TOPK_TIGHTEN_MIN : t->k;
    if (t->count > t->k && (!t->selective || t->count - t->k >= more)) compact(t);
}

void topk_merge(struct topk *t, const struct topk *from)
{
    for (uint32_t i = 0; i < from->count; i++)
        add(t, from->entries[i]);
}

uint32_t topk_finish(struct topk *t, uint64_t *ids, float *scores)
{
    if (t->count > t->k) compact(t);
    topk_sort(t->entries, t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        ids[i] = t->entries[i].id;
        scores[i] = t->entries[i].score;
    }
    return t->count;
}
