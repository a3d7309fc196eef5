// Traversing a row by vectors, the last one masked, and sums that stay accurate over millions of elements.
#pragma once
#include "simd/maximum.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace loss {

// A vector of kWidth elements.
struct WholeVector {
  OPENBNNS_INLINE Vec read(const float* p, float = 0.0f) const { return load(p); }
  OPENBNNS_INLINE void write(float* p, Vec v) const { store(p, v); }
  OPENBNNS_INLINE Vec keep(Vec v) const { return v; }
};

// The first `count` lanes of a vector, 0 < count < kWidth: nothing beyond them is touched.
#if defined(__AVX512F__)
struct FirstLanes {
  __mmask16 mask;
  explicit FirstLanes(int64_t count) : mask(static_cast<__mmask16>((1u << count) - 1)) {}
  OPENBNNS_INLINE Vec read(const float* p, float fill = 0.0f) const {
    return _mm512_mask_loadu_ps(splat(fill), mask, p);
  }
  OPENBNNS_INLINE void write(float* p, Vec v) const { _mm512_mask_storeu_ps(p, mask, v); }
  OPENBNNS_INLINE Vec keep(Vec v) const { return _mm512_maskz_mov_ps(mask, v); }
};
#else
struct FirstLanes {
  int64_t count;
  IntVec mask;
  explicit FirstLanes(int64_t n) : count(n) {
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) mask[i] = i < n ? -1 : 0;
  }
#if defined(__AVX2__)
  OPENBNNS_INLINE Vec read(const float* p, float fill = 0.0f) const {
    return select(mask, _mm256_maskload_ps(p, (__m256i)mask), splat(fill));
  }
  OPENBNNS_INLINE void write(float* p, Vec v) const { _mm256_maskstore_ps(p, (__m256i)mask, v); }
#else
  OPENBNNS_INLINE Vec read(const float* p, float fill = 0.0f) const {
    return select(mask, load_partial(p, count), splat(fill));
  }
  OPENBNNS_INLINE void write(float* p, Vec v) const { store_partial(p, v, count); }
#endif
  OPENBNNS_INLINE Vec keep(Vec v) const { return select(mask, v, Vec{}); }
};
#endif

// Sum of the lanes in a fixed order, in registers where the instruction set allows it.
#if defined(__AVX512F__)
OPENBNNS_INLINE float add_lanes(Vec v) { return _mm512_reduce_add_ps(v); }
#else
OPENBNNS_INLINE float add_lanes(Vec v) { return sum_lanes(v); }
#endif

// e^x for x <= 0. What would not be a normal number is 0: subnormal results cost a hundred cycles each and are of no
// use, as every e^x here is added to 1 or compared with a sum of at least 1.
OPENBNNS_INLINE Vec exp_of_negative(Vec x) {
  constexpr float kLowest = -87.0f;
  return select(x <= kLowest, Vec{}, math::exp_between(math::max(splat(kLowest), x)));
}

// A sum in float over a part of the elements, in double over the parts.
class Sum {
 public:
  OPENBNNS_INLINE void add(Vec v) { part_ += v; }
  OPENBNNS_INLINE void close_part() {
    total_ = total_ + widen(part_);
    part_ = Vec{};
  }
  OPENBNNS_INLINE double value() const { return total_of_lanes(total_ + widen(part_)); }

 private:
  Vec part_{};
  WideVec total_{};
};
constexpr int64_t kPartVectors = 32;

// body(lanes, i) for the vectors at element i of a row; close() after every kPartVectors of them.
template <class Body, class Close>
OPENBNNS_INLINE void over_vectors(int64_t count, Body&& body, Close&& close) {
  int64_t i = 0;
  while (i + kWidth <= count) {
    int64_t end = count - i > kPartVectors * kWidth ? i + kPartVectors * kWidth : count;
    for (; i + kWidth <= end; i += kWidth) body(WholeVector{}, i);
    close();
  }
  if (i < count) body(FirstLanes(count - i), i);
}
template <class Body>
OPENBNNS_INLINE void over_vectors(int64_t count, Body&& body) {
  over_vectors(count, body, [] {});
}

}  // namespace loss
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
