#include "client/cli/text/latency.h"

#include <math.h>

/* 0..255 have a bucket each; every further octave has 128. */
static unsigned bucket_of(uint64_t ns)
{
    if (ns < 256) return (unsigned)ns;
    unsigned shift = 56u - (unsigned)__builtin_clzll(ns); /* keeps the 8 highest bits */
    return shift * 128 + (unsigned)(ns >> shift);
}

static uint64_t bucket_last(unsigned bucket)
{
    if (bucket < 256) return bucket;
    unsigned shift = bucket / 128 - 1;
    uint64_t top = bucket - shift * 128;
    return (top << shift) + ((uint64_t)1 << shift) - 1;
}

void latency_add(struct latency *l, uint64_t ns)
{
    l->buckets[bucket_of(ns)]++;
    if (l->count == 0 || ns < l->min_ns) l->min_ns = ns;
    if (ns > l->max_ns) l->max_ns = ns;
    l->sum_ns += ns;
    l->count++;
}

uint64_t latency_percentile(const struct latency *l, double fraction)
{
    if (l->count == 0) return 0;
    /* The product may be slightly above a whole number (0.99 * 100), which must not give the next
     * rank. */
    uint64_t rank = (uint64_t)ceil(fraction * (double)l->count * (1 - 1e-12));
    if (rank < 1) rank = 1;
    if (rank > l->count) rank = l->count;
    uint64_t below = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        below += l->buckets[i];
        if (below < rank) continue;
        uint64_t last = bucket_last(i);
        return last < l->max_ns ? last : l->max_ns;
    }
    return l->max_ns;
}

double latency_mean(const struct latency *l)
{
    return l->count ? (double)l->sum_ns / (double)l->count : 0;
}
