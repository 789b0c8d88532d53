#include "daemon/base/histogram.h"

enum { STEPS = 1 << HISTOGRAM_STEP_LOG2 };

/* Values below STEPS have a bucket each; above, each power of two is divided into STEPS buckets. */
static unsigned bucket_of(uint64_t value)
{
    if (value < STEPS) return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_STEP_LOG2;
    unsigned bucket = (shift << HISTOGRAM_STEP_LOG2) + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bucket_end(unsigned bucket)
{
    if (bucket < 2 * STEPS) return bucket;
    unsigned shift = (bucket >> HISTOGRAM_STEP_LOG2) - 1;
    uint64_t first = STEPS + (uint64_t)(bucket & (STEPS - 1));
    return ((first + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    if (value > h->max) h->max = value;
    h->buckets[bucket_of(value)]++;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
    uint64_t wanted = (uint64_t)((double)h->count * percent / 100 + 0.5), seen = 0;
    if (wanted < 1) wanted = 1;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (h->count && seen >= wanted) {
            uint64_t end = i + 1 < HISTOGRAM_BUCKETS ? bucket_end(i) : h->max;
            return end < h->max ? end : h->max;
        }
    }
    return h->max;
}
