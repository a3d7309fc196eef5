// Products of unsigned bytes by signed ones, four to a lane, added up in 32 bits: only for sources compiled for VNNI.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define OPENBNNS_HAS_QUADS 1

struct QuadDot {
  static OPENBNNS_INLINE IntVec add(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512VNNI__)
    return reinterpret_cast<IntVec>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a),
                                                        reinterpret_cast<__m512i>(b)));
#else
    return reinterpret_cast<IntVec>(_mm256_dpbusd_avx_epi32(
        reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#endif
  }
};
#else
#define OPENBNNS_HAS_QUADS 0
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
