// Numbers of types other than float32, a vector at a time: exactly to floats, and rounded to nearest, ties to even,
// back.
#pragma once
#include <cstdint>
#include <cstring>

#include "simd/lanes.h"
#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {

typedef uint32_t UnsignedVec __attribute__((vector_size(kWidth * 4)));
typedef uint16_t Shorts __attribute__((vector_size(kWidth * 2)));
typedef uint16_t UnalignedShorts __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));

// Unsigned numbers of 16 bits to lanes, and the low halves of lanes back. In instructions, because GCC does not find
// the best ones for vectors of different sizes.
#if defined(__AVX512F__)
OPENBNNS_INLINE IntVec load_shorts(const uint16_t* p) {
  return reinterpret_cast<IntVec>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
OPENBNNS_INLINE void store_shorts(uint16_t* p, IntVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(v)));
}
#elif defined(__AVX2__)
OPENBNNS_INLINE IntVec load_shorts(const uint16_t* p) {
  return reinterpret_cast<IntVec>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
OPENBNNS_INLINE void store_shorts(uint16_t* p, IntVec v) {
  const __m256i low = _mm256_and_si256(reinterpret_cast<__m256i>(v), _mm256_set1_epi32(0xFFFF));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
#else
OPENBNNS_INLINE IntVec load_shorts(const uint16_t* p) {
  return reinterpret_cast<IntVec>(
      __builtin_convertvector(static_cast<Shorts>(*reinterpret_cast<const UnalignedShorts*>(p)), UnsignedVec));
}
OPENBNNS_INLINE void store_shorts(uint16_t* p, IntVec v) {
  *reinterpret_cast<UnalignedShorts*>(p) = __builtin_convertvector(reinterpret_cast<UnsignedVec>(v), Shorts);
}
#endif

#if defined(__AVX512F__)
OPENBNNS_INLINE Vec load_float16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
OPENBNNS_INLINE void store_float16(uint16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__)
OPENBNNS_INLINE Vec load_float16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
OPENBNNS_INLINE void store_float16(uint16_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
// 5 bits of exponent and 10 of mantissa: moved to where float32 has them, the exponent is 112 too small.
OPENBNNS_INLINE Vec load_float16(const uint16_t* p) {
  const IntVec stored = load_shorts(p), magnitude = (stored & 0x7FFF) << 13;
  IntVec result = bits(from_bits(magnitude) * splat(0x1p112f));
  constexpr int32_t kInfinity = 0x7C00 << 13;
  result |= (magnitude >= kInfinity) & 0x7F800000;
  result |= (magnitude > kInfinity) & 0x00400000;  // NaN is a quiet one
  return from_bits(result | (stored & 0x8000) << 16);
}
OPENBNNS_INLINE void store_float16(uint16_t* p, Vec v) {
  constexpr int32_t kTooLarge = 0x47800000, kSmallestNormal = 0x38800000, kInfinity = 0x7F800000;  // 2^16, 2^-14
  const IntVec all = bits(v), magnitude = all & 0x7FFFFFFF, sign = (all >> 16) & 0x8000;
  const IntVec normal = (magnitude - (112 << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  // Adding 0.5 moves the last bit of a subnormal result to the last bit of the sum, which is rounded there.
  const IntVec subnormal = bits(from_bits(magnitude) + splat(0.5f)) - 0x3F000000;
  const IntVec not_finite = 0x7C00 | ((magnitude > kInfinity) & (0x200 | ((magnitude >> 13) & 0x3FF)));
  const IntVec finite = (magnitude < kSmallestNormal) ? subnormal : normal;
  store_shorts(p, ((magnitude >= kTooLarge) ? not_finite : finite) | sign);
}
#endif

OPENBNNS_INLINE Vec load_float16(const uint16_t* p, const uint16_t* mask) {
  const Shorts inside = *reinterpret_cast<const UnalignedShorts*>(p) & *reinterpret_cast<const UnalignedShorts*>(mask);
  return load_float16(reinterpret_cast<const uint16_t*>(&inside));
}

// The upper half of a float32.
#if defined(__AVX2__) && !defined(__AVX512F__)
OPENBNNS_INLINE Vec load_bfloat16(const uint16_t* p) {
  // Each half of the vector takes its four numbers from a copy of all eight, which a load makes at no cost.
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i places = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1,
                                          10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
  return reinterpret_cast<Vec>(_mm256_shuffle_epi8(twice, places));
}
#else
OPENBNNS_INLINE Vec load_bfloat16(const uint16_t* p) { return from_bits(load_shorts(p) << 16); }
#endif
// Twice as many in fewer instructions: a lane holds two, each of which is a float without the bits of the other.
OPENBNNS_INLINE VecPair split_bfloat16_pairs(IntVec both) {
  return {from_bits(both << 16), from_bits(both & -0x10000)};
}
OPENBNNS_INLINE IntVec load_short_pairs(const uint16_t* p) {
  IntVec both;
  std::memcpy(&both, p, sizeof both);
  return both;
}
OPENBNNS_INLINE VecPair load_bfloat16_pairs(const uint16_t* p) { return split_bfloat16_pairs(load_short_pairs(p)); }
OPENBNNS_INLINE VecPair load_bfloat16_pairs(const uint16_t* p, const uint16_t* mask) {
  return split_bfloat16_pairs(load_short_pairs(p) & load_short_pairs(mask));
}
// In the upper half of a lane, below which bits are left over; NaN excepted.
OPENBNNS_INLINE UnsignedVec rounded_to_bfloat16(Vec v) {
  const auto all = reinterpret_cast<UnsignedVec>(v);
  return all + 0x7FFF + (all >> 16 & 1);
}
OPENBNNS_INLINE UnsignedVec rounded_to_bfloat16_or_nan(Vec v) {
  return (v == v) ? rounded_to_bfloat16(v) : reinterpret_cast<UnsignedVec>(v) | 0x400000;
}
OPENBNNS_INLINE void store_bfloat16(uint16_t* p, Vec v) {
  store_shorts(p, reinterpret_cast<IntVec>(rounded_to_bfloat16_or_nan(v) >> 16));
}
// Two numbers in each lane.
OPENBNNS_INLINE IntVec round_to_bfloat16_pairs(VecPair v) {
  return reinterpret_cast<IntVec>(rounded_to_bfloat16_or_nan(v.even) >> 16 |
                                  (rounded_to_bfloat16_or_nan(v.odd) & 0xFFFF0000u));
}
OPENBNNS_INLINE void store_bfloat16_pairs(uint16_t* p, VecPair v) {
  NanWatch nan;
  nan.see(v.even, v.odd);
  if (__builtin_expect(nan.any(), 0)) {
    store_bfloat16(p, interleave_low(v.even, v.odd));
    store_bfloat16(p + kWidth, interleave_high(v.even, v.odd));
    return;
  }
  const UnsignedVec both = rounded_to_bfloat16(v.even) >> 16 | (rounded_to_bfloat16(v.odd) & 0xFFFF0000u);
  std::memcpy(p, &both, sizeof both);
}

#if defined(__AVX512F__)
OPENBNNS_INLINE IntVec load_bytes(const int8_t* p) {
  return reinterpret_cast<IntVec>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
OPENBNNS_INLINE IntVec load_bytes(const uint8_t* p) {
  return reinterpret_cast<IntVec>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#elif defined(__AVX2__)
OPENBNNS_INLINE IntVec load_bytes(const int8_t* p) {
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(_mm_loadu_si64(p)));
}
OPENBNNS_INLINE IntVec load_bytes(const uint8_t* p) {
  return reinterpret_cast<IntVec>(_mm256_cvtepu8_epi32(_mm_loadu_si64(p)));
}
#else
template <class Byte>
OPENBNNS_INLINE IntVec load_bytes(const Byte* p) {
  typedef Byte Bytes __attribute__((vector_size(kWidth)));
  Bytes v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, IntVec);
}
#endif

// The same in pairs of 16 bits.
#if defined(__AVX512F__)
OPENBNNS_INLINE IntVec load_byte_pairs(const int8_t* p) {
  return reinterpret_cast<IntVec>(_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
OPENBNNS_INLINE IntVec load_byte_pairs(const uint8_t* p) {
  return reinterpret_cast<IntVec>(_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
#elif defined(__AVX2__)
OPENBNNS_INLINE IntVec load_byte_pairs(const int8_t* p) {
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
OPENBNNS_INLINE IntVec load_byte_pairs(const uint8_t* p) {
  return reinterpret_cast<IntVec>(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#else
template <class Byte>
OPENBNNS_INLINE IntVec load_byte_pairs(const Byte* p) {
  typedef Byte Bytes __attribute__((vector_size(2 * kWidth)));
  typedef int16_t Pairs __attribute__((vector_size(4 * kWidth)));
  Bytes v;
  std::memcpy(&v, p, sizeof v);
  return reinterpret_cast<IntVec>(__builtin_convertvector(v, Pairs));
}
#endif

// A copy of the first `count` numbers, at most kCount, with `rest` behind them: for loads at the end of a row.
template <class Number, int kCount>
struct FirstNumbers {
  FirstNumbers(const Number* p, int64_t count, Number rest = Number()) {
    OPENBNNS_UNROLL for (int i = 0; i < kCount; i++) number[i] = rest;
    for (int64_t i = 0; i < count; i++) number[i] = p[i];
  }
  Number number[kCount];
};

// Readers of one element type: kWidth numbers as floats, or the first `count` of them and zeros.
struct Float32Numbers {
  using Number = float;
  OPENBNNS_INLINE Vec load(const float* p) const { return OPENBNNS_ISA::load(p); }
  OPENBNNS_INLINE Vec load(const float* p, int64_t count) const { return load_partial(p, count); }
};

struct Float16Numbers {
  using Number = uint16_t;
  OPENBNNS_INLINE Vec load(const uint16_t* p) const { return load_float16(p); }
  OPENBNNS_INLINE Vec load(const uint16_t* p, int64_t count) const {
#if defined(__AVX512BW__)
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), p));
#else
    return load_float16(FirstNumbers<uint16_t, kWidth>(p, count).number);
#endif
  }
};

struct BFloat16Numbers {
  using Number = uint16_t;
  OPENBNNS_INLINE Vec load(const uint16_t* p) const { return load_bfloat16(p); }
  OPENBNNS_INLINE Vec load(const uint16_t* p, int64_t count) const {
#if defined(__AVX512BW__)
    const __m256i v = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), p);
    return from_bits(reinterpret_cast<IntVec>(_mm512_cvtepu16_epi32(v)) << 16);
#else
    return load_bfloat16(FirstNumbers<uint16_t, kWidth>(p, count).number);
#endif
  }
};

// scale * stored + bias, rounded once.
template <class Byte>
struct ByteNumbers {
  using Number = Byte;
  float scale, bias;
  OPENBNNS_INLINE Vec load(const Byte* p) const { return value(load_bytes(p)); }
  OPENBNNS_INLINE Vec load(const Byte* p, int64_t count) const {
    const Vec v = load(FirstNumbers<Byte, kWidth>(p, count).number);
    Vec result{};
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) result[i] = i < count ? v[i] : 0.f;
    return result;
  }

 private:
  OPENBNNS_INLINE Vec value(IntVec stored) const {
    const Vec v = __builtin_convertvector(stored, Vec);
#if defined(__FMA__) || defined(__aarch64__)
    return splat(scale) * v + splat(bias);  // one fused operation: -ffp-contract=fast
#else
    if (bias == 0.f) return splat(scale) * v;
    Vec result{};
    OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) result[i] =
        static_cast<float>(static_cast<double>(scale) * static_cast<double>(v[i]) + static_cast<double>(bias));
    return result;
#endif
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
