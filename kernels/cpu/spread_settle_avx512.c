/* spread_settle_avx512: sixteen nodes at a time. */
#include "kernels/cpu/spread_inside.h"

#include <immintrin.h>

enum { LANES = 16 };

static inline void settle_sixteen(const struct spread_settling *s, uint32_t n,
                                  struct spread_settled *all)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 received = _mm512_loadu_ps(s->sends + n);
    __m512 before = _mm512_loadu_ps(s->activations + n);
    __m128i visits = _mm_loadu_si128((const __m128i *)(s->visits + n));
    __m128i depths = _mm_loadu_si128((const __m128i *)(s->depths + n));
    __mmask16 kept = _mm512_cmp_ps_mask(received, _mm512_setzero_ps(), _CMP_GT_OQ);
    kept = _mm512_mask_cmp_ps_mask(kept, received, _mm512_set1_ps(s->threshold), _CMP_GE_OQ);
    __mmask16 fresh = _mm_mask_testn_epi8_mask(kept, visits, visits);
    __m512 sent = _mm512_maskz_mov_ps(kept, received);
    __m512 after =
        s->last_hop ? sent : _mm512_mask_min_ps(before, kept, _mm512_add_ps(before, received), one);
    if (s->factors) sent = _mm512_maskz_mul_ps(kept, received, _mm512_loadu_ps(s->factors + n));
    _mm512_storeu_ps(s->activations + n, after);
    _mm512_storeu_ps(s->sends + n, sent);
    _mm_storeu_si128((__m128i *)(s->visits + n),
                     _mm_mask_add_epi8(visits, kept, visits, _mm_set1_epi8(1)));
    _mm_storeu_si128((__m128i *)(s->depths + n),
                     _mm_mask_mov_epi8(depths, fresh, _mm_set1_epi8((char)s->depth)));
    all->active += (uint32_t)_mm_popcnt_u32(kept);
    all->fresh += (uint32_t)_mm_popcnt_u32(fresh);
    all->sending +=
        (uint32_t)_mm_popcnt_u32(_mm512_cmp_ps_mask(sent, _mm512_setzero_ps(), _CMP_GT_OQ));
}

struct spread_settled spread_settle_avx512(const struct spread_settling *s, uint32_t first,
                                           uint32_t last)
{
    struct spread_settled all = {0, 0, 0};
    /* a copy, which the compiler knows the stores below do not change */
    struct spread_settling own = *s;
    for (; last - first >= LANES; first += LANES)
        settle_sixteen(&own, first, &all);
    for (; first < last; first++)
        spread_settle_one(&own, first, &all);
    return all;
}
