// The largest of the lanes of a vector, and of the elements of a row.
#pragma once
#include "simd/lanes.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// The largest lane. Where some are NaN, it may be NaN or the largest of the others.
#if defined(__SSE2__)
OPENBNNS_INLINE float max_lanes(Vec v) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#else
  __m128 four = v;
#endif
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
#else
OPENBNNS_INLINE float max_lanes(Vec v) {
  float lane[kWidth];
  store(lane, v);
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) OPENBNNS_UNROLL for (int i = 0; i < half; i++)
      lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}
#endif

// The largest element of a row that is no NaN, or -infinity.
inline float row_maximum(const float* x, int64_t length) {
  Vec a = splat(-math::kInfinity), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWidth <= length; i += 4 * kWidth) {
    a = math::max(load(x + i), a);
    b = math::max(load(x + i + kWidth), b);
    c = math::max(load(x + i + 2 * kWidth), c);
    d = math::max(load(x + i + 3 * kWidth), d);
  }
  for (; i + kWidth <= length; i += kWidth) a = math::max(load(x + i), a);
  if (i < length) b = math::max(select(first_lanes(length - i), load_partial(x + i, length - i), b), b);
  return max_lanes(math::max(math::max(a, b), math::max(c, d)));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
