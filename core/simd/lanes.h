// Lanes by their number, and work across the lanes of a vector: in registers where the instruction set allows it.
#pragma once
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {

OPENBNNS_INLINE IntVec lane_numbers() {
  IntVec lane{};
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) lane[i] = i;
  return lane;
}

OPENBNNS_INLINE IntVec first_lanes(int64_t count) { return lane_numbers() < splat_int(static_cast<int32_t>(count)); }

// v with zeros beyond the first `count` lanes.
OPENBNNS_INLINE Vec keep_first(Vec v, int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_mov_ps(static_cast<__mmask16>((1u << count) - 1), v);
#else
  return select(first_lanes(count), v, Vec{});
#endif
}

// The first lane of a mask that has one.
OPENBNNS_INLINE int first_lane(IntVec mask) {
#if defined(__AVX512F__)
  const auto all = reinterpret_cast<__m512i>(mask);
  return __builtin_ctz(_mm512_test_epi32_mask(all, all));
#elif defined(__AVX2__)
  return __builtin_ctz(static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask))));
#else
  int lane = 0;
  while (!mask[lane]) lane++;
  return lane;
#endif
}

// The largest lane. Where some are NaN, it may be NaN or the largest of the others.
OPENBNNS_INLINE float largest_lane(Vec v) {
#if defined(__SSE2__)
#if defined(__AVX512F__)
  __m256 half[2];
  std::memcpy(half, &v, sizeof(v));
  half[0] = _mm256_max_ps(half[0], half[1]);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(half[0]), _mm256_extractf128_ps(half[0], 1));
#elif defined(__AVX2__)
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#else
  __m128 four = v;
#endif
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
#else
  float largest = v[0];
  OPENBNNS_UNROLL for (int i = 1; i < kWidth; i++) largest = v[i] > largest ? v[i] : largest;
  return largest;
#endif
}

// The sum of the lanes in a fixed tree order.
OPENBNNS_INLINE double total_of_lanes(WideVec v) {
  const DoubleVec pairs = v.low + v.high;
#if defined(__AVX2__)
#if defined(__AVX512F__)
  __m256d half[2];
  std::memcpy(half, &pairs, sizeof(pairs));
  const __m256d four = half[0] + half[1];
#else
  const __m256d four = pairs;
#endif
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return two[0] + two[1];
#else
  double total = pairs[0];
  OPENBNNS_UNROLL for (int i = 1; i < kWidth / 2; i++) total += pairs[i];
  return total;
#endif
}

// Looks for NaN in pairs of vectors, lane by lane: one comparison finds it in either.
class NanWatch {
 public:
#if defined(__AVX512F__)
  OPENBNNS_INLINE void see(Vec a, Vec b) { ordered_ = _mm512_mask_cmp_ps_mask(ordered_, a, b, _CMP_ORD_Q); }
  OPENBNNS_INLINE void see(NanWatch other) { ordered_ &= other.ordered_; }
  OPENBNNS_INLINE bool any() const { return ordered_ != 0xffff; }
  // v with NaN in the lanes that had one
  OPENBNNS_INLINE Vec marked(Vec v) const { return _mm512_mask_mov_ps(splat(__builtin_nanf("")), ordered_, v); }

 private:
  __mmask16 ordered_ = 0xffff;
#else
  OPENBNNS_INLINE void see(Vec a, Vec b) {
#if defined(__AVX2__)
    seen_ |= bits(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
#elif defined(__SSE2__)
    seen_ |= bits(_mm_cmpunord_ps(a, b));
#else
    seen_ |= (a != a) | (b != b);
#endif
  }
  OPENBNNS_INLINE void see(NanWatch other) { seen_ |= other.seen_; }
  OPENBNNS_INLINE bool any() const {
#if defined(__AVX2__)
    return _mm256_movemask_ps(from_bits(seen_)) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps(from_bits(seen_)) != 0;
#else
    int32_t all = 0;
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) all |= seen_[i];
    return all != 0;
#endif
  }
  OPENBNNS_INLINE Vec marked(Vec v) const { return select(seen_, splat(__builtin_nanf("")), v); }

 private:
  IntVec seen_{};
#endif
};

// v[index[i]]
OPENBNNS_INLINE Vec permuted(Vec v, IntVec index) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), v);
#elif defined(__AVX2__)
  return _mm256_permutevar8x32_ps(v, reinterpret_cast<__m256i>(index));
#else
  Vec result{};
  for (int i = 0; i < kWidth; i++) result[i] = v[index[i]];
  return result;
#endif
}

// x[index[i]]
OPENBNNS_INLINE Vec gathered(const float* x, IntVec index) {
#if defined(__AVX512F__)
  return _mm512_mask_i32gather_ps(Vec{}, 0xffff, reinterpret_cast<__m512i>(index), x, 4);
#elif defined(__AVX2__)
  return _mm256_i32gather_ps(x, reinterpret_cast<__m256i>(index), 4);
#else
  Vec result{};
  for (int i = 0; i < kWidth; i++) result[i] = x[index[i]];
  return result;
#endif
}

// x[index[i]], 0 where the index is negative
OPENBNNS_INLINE Vec gathered_or_zero(const float* x, IntVec index) {
#if defined(__AVX512F__)
  const auto at = reinterpret_cast<__m512i>(index);
  return _mm512_mask_i32gather_ps(Vec{}, _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512()), at, x, 4);
#elif defined(__AVX2__)
  const IntVec inside = index >= 0;
  return _mm256_mask_i32gather_ps(Vec{}, x, reinterpret_cast<__m256i>(index), reinterpret_cast<__m256>(inside), 4);
#else
  Vec result{};
  for (int i = 0; i < kWidth; i++)
    if (index[i] >= 0) result[i] = x[index[i]];
  return result;
#endif
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
