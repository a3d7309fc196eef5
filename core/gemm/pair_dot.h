// Products of 16-bit integers, two to a lane, added up in 32 bits.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct PairDot {
  static OPENBNNS_INLINE IntVec add(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512F__)
    const __m512i product = _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
    return sum + reinterpret_cast<IntVec>(product);
#elif defined(__AVX2__)
    const __m256i product = _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
    return sum + reinterpret_cast<IntVec>(product);
#elif defined(__SSE2__)
    const __m128i product = _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b));
    return sum + reinterpret_cast<IntVec>(product);
#else
    return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
