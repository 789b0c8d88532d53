/* spread_settle_avx2: eight nodes at a time. */
#include "kernels/cpu/spread_inside.h"

#include <immintrin.h>

enum { LANES = 8 };

/* Widens eight bytes to one in each lane, and narrows them back. */
static inline __m256i widen(const uint8_t *bytes)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)bytes));
}

static inline void narrow(uint8_t *bytes, __m256i lanes)
{
    __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    _mm_storel_epi64((__m128i *)bytes, _mm_packus_epi16(words, words));
}

static inline uint32_t lanes_of(__m256 mask)
{
    return (uint32_t)__builtin_popcount((uint32_t)_mm256_movemask_ps(mask));
}

static inline void settle_eight(const struct spread_settling *s, uint32_t n,
                                struct spread_settled *all)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 received = _mm256_loadu_ps(s->sends + n), before = _mm256_loadu_ps(s->activations + n);
    __m256i visits = widen(s->visits + n), depths = widen(s->depths + n);
    __m256 kept = _mm256_and_ps(_mm256_cmp_ps(received, zero, _CMP_GT_OQ),
                                _mm256_cmp_ps(received, _mm256_set1_ps(s->threshold), _CMP_GE_OQ));
    __m256i fresh = _mm256_and_si256(_mm256_castps_si256(kept),
                                     _mm256_cmpeq_epi32(visits, _mm256_setzero_si256()));
    __m256 sent = _mm256_and_ps(kept, received);
    __m256 sum = _mm256_min_ps(_mm256_add_ps(before, received), _mm256_set1_ps(1.0f));
    __m256 after = s->last_hop ? sent : _mm256_blendv_ps(before, sum, kept);
    if (s->factors)
        sent = _mm256_and_ps(kept, _mm256_mul_ps(received, _mm256_loadu_ps(s->factors + n)));
    _mm256_storeu_ps(s->activations + n, after);
    _mm256_storeu_ps(s->sends + n, sent);
    narrow(s->visits + n, _mm256_sub_epi32(visits, _mm256_castps_si256(kept)));
    narrow(s->depths + n, _mm256_blendv_epi8(depths, _mm256_set1_epi32((int)s->depth), fresh));
    all->active += lanes_of(kept);
    all->fresh += lanes_of(_mm256_castsi256_ps(fresh));
    all->sending += lanes_of(_mm256_cmp_ps(sent, zero, _CMP_GT_OQ));
}

struct spread_settled spread_settle_avx2(const struct spread_settling *s, uint32_t first,
                                         uint32_t last)
{
    struct spread_settled all = {0, 0, 0};
    /* a copy, which the compiler knows the stores below do not change */
    struct spread_settling own = *s;
    for (; last - first >= LANES; first += LANES)
        settle_eight(&own, first, &all);
    for (; first < last; first++)
        spread_settle_one(&own, first, &all);
    return all;
}
