// Loads and stores of the first lanes of a vector, cheap enough for inner loops over short rows.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Lanes of a row tail: 0 < count <= kWidth.
class Lanes {
 public:
  explicit Lanes(int64_t count) : count_(static_cast<int>(count)) {}
  int count() const { return count_; }

#if defined(__AVX512F__)
  OPENBNNS_INLINE Vec load(const float* p) const { return __builtin_ia32_loadups512_mask(p, Vec{}, mask()); }
  OPENBNNS_INLINE void store(float* p, Vec v) const { __builtin_ia32_storeups512_mask(p, v, mask()); }

 private:
  unsigned short mask() const { return static_cast<unsigned short>((1u << count_) - 1); }
#else
#if defined(__AVX2__)
  OPENBNNS_INLINE Vec load(const float* p) const {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(count_), lane));
  }
#else
  OPENBNNS_INLINE Vec load(const float* p) const {
    if (count_ == kWidth) return OPENBNNS_ISA::load(p);
    float lane[kWidth] = {};
    for (int i = 0; i < count_; i++) lane[i] = p[i];
    return OPENBNNS_ISA::load(lane);
  }
#endif
  OPENBNNS_INLINE void store(float* p, Vec v) const {
    if (count_ == kWidth) return OPENBNNS_ISA::store(p, v);
    for (int i = 0; i < count_; i++) p[i] = v[i];
  }

 private:
#endif
  int count_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
