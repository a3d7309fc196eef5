// One vector type over compiler vector extensions. Its width is that of the instruction set this file is compiled for;
// the code that uses it is the same for all of them.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define OPENBNNS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define OPENBNNS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OPENBNNS_UNROLL _Pragma("GCC unroll 64")
#endif

namespace openbnns {
namespace OPENBNNS_ISA {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

typedef float Vec __attribute__((vector_size(kWidth * 4)));
typedef int32_t IntVec __attribute__((vector_size(kWidth * 4)));
typedef float UnalignedVec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

OPENBNNS_INLINE Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
OPENBNNS_INLINE void store(float* p, Vec v) { *reinterpret_cast<UnalignedVec*>(p) = v; }
// `x - Vec{}` becomes one broadcast, foldable into the arithmetic that uses it.
OPENBNNS_INLINE Vec splat(float x) { return x - Vec{}; }
OPENBNNS_INLINE IntVec splat_int(int32_t x) { return x - IntVec{}; }

OPENBNNS_INLINE IntVec bits(Vec v) { return reinterpret_cast<IntVec>(v); }
OPENBNNS_INLINE Vec from_bits(IntVec v) { return reinterpret_cast<Vec>(v); }
// mask lanes are all ones (true) or all zeros (false), as comparisons give them
OPENBNNS_INLINE Vec select(IntVec mask, Vec yes, Vec no) { return mask ? yes : no; }

// Lane i is lane kLane[i] of a followed by b.
template <int... kLane>
OPENBNNS_INLINE Vec shuffled(Vec a, Vec b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, kLane...);
#else
  return __builtin_shuffle(a, b, IntVec{kLane...});  // GCC 11 has no __builtin_shufflevector
#endif
}

// The first `count` lanes, 0 <= count <= kWidth; the others are zero / untouched. Masked instructions where there are
// some, because a copy of unknown size is a call; plain copies under the address sanitizer, which sees only those.
#if defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
OPENBNNS_INLINE Vec load_partial(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
OPENBNNS_INLINE void store_partial(float* p, Vec v, int64_t count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
}
#elif defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
OPENBNNS_INLINE __m256i partial_mask(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
OPENBNNS_INLINE Vec load_partial(const float* p, int64_t count) { return _mm256_maskload_ps(p, partial_mask(count)); }
OPENBNNS_INLINE void store_partial(float* p, Vec v, int64_t count) { _mm256_maskstore_ps(p, partial_mask(count), v); }
#else
OPENBNNS_INLINE Vec load_partial(const float* p, int64_t count) {
  Vec v{};
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(float));
  return v;
}
OPENBNNS_INLINE void store_partial(float* p, Vec v, int64_t count) {
  std::memcpy(p, &v, static_cast<size_t>(count) * sizeof(float));
}
#endif

// Sum of the lanes in a fixed tree order: halves are added until one lane is left. In registers: through memory, every
// step would wait for the store of the one before.
#if defined(__SSE2__)
OPENBNNS_INLINE float sum_four_lanes(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
OPENBNNS_INLINE float sum_lanes(Vec v) {
#if defined(__AVX512F__)
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  return sum_four_lanes(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#elif defined(__AVX2__)
  return sum_four_lanes(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
#else
  return sum_four_lanes(v);
#endif
}
#else
OPENBNNS_INLINE float sum_lanes(Vec v) {
  float lane[kWidth];
  store(lane, v);
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int i = 0; i < half; i++)
      lane[i] += lane[i + half];
  return lane[0];
}
#endif

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
