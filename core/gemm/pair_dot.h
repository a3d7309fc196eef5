// Products of 16-bit integers, two to a lane, added up in 32 bits, in which they may wrap around.
#pragma once
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct PairDot {
  static OPENBNNS_INLINE IntVec add(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512F__)
    const __m512i product = _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
    return reinterpret_cast<IntVec>(_mm512_add_epi32(reinterpret_cast<__m512i>(sum), product));
#elif defined(__AVX2__)
    const __m256i product = _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    return reinterpret_cast<IntVec>(_mm256_add_epi32(reinterpret_cast<__m256i>(sum), product));
#elif defined(__SSE2__)
    const __m128i product = _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b));
    return reinterpret_cast<IntVec>(_mm_add_epi32(reinterpret_cast<__m128i>(sum), product));
#else
    const IntVec products[2] = {(a << 16 >> 16) * (b << 16 >> 16), (a >> 16) * (b >> 16)};
    return reinterpret_cast<IntVec>(reinterpret_cast<UnsignedVec>(sum) + reinterpret_cast<UnsignedVec>(products[0]) +
                                    reinterpret_cast<UnsignedVec>(products[1]));
#endif
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
