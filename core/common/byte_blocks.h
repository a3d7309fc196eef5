// Blocks of four vectors of results that come by turns of 1, 2 or 4, so that the lanes of these are every so many
// results: from exact sums in registers to bytes in memory, in their order.
#pragma once
#include <cstdint>
#include <cstring>

#include "common/stored_rows.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Of numbers within the range of int32, ties to even; beyond all bytes without instructions for it.
OPENBNNS_INLINE IntVec nearest_integers(Vec v) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntVec>(_mm512_cvtps_epi32(v));
#elif defined(__AVX2__)
  return reinterpret_cast<IntVec>(_mm256_cvtps_epi32(v));
#elif defined(__SSE2__)
  return reinterpret_cast<IntVec>(_mm_cvtps_epi32(v));
#else
  const Vec whole = splat(0x1.8p23f);  // numbers of this size have no fraction, and end like integers
  return bits(math::min(math::max(v, splat(-512)), splat(512)) + whole) - bits(whole);
#endif
}

#if defined(__AVX2__)
constexpr bool kHasBlocks = true;

// a b + c, rounded once whatever the compiler finds to share.
OPENBNNS_INLINE Vec fused(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#else
  return _mm256_fmadd_ps(a, b, c);
#endif
}

// In every 16 bytes, four of each vector, saturated.
OPENBNNS_INLINE IntVec packed_block(bool is_signed, IntVec a, IntVec b, IntVec c, IntVec d) {
#if defined(__AVX512F__)
  const __m512i low = _mm512_packs_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)),
                high = _mm512_packs_epi32(reinterpret_cast<__m512i>(c), reinterpret_cast<__m512i>(d));
  return reinterpret_cast<IntVec>(is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high));
#else
  const __m256i low = _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)),
                high = _mm256_packs_epi32(reinterpret_cast<__m256i>(c), reinterpret_cast<__m256i>(d));
  return reinterpret_cast<IntVec>(is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high));
#endif
}
#else
constexpr bool kHasBlocks = false;
#endif

// From that to the order of results: bytes of every 16, then words.
struct BlockOrder {
  constexpr explicit BlockOrder(int turns) : byte(), word() {
    for (int i = 0; i < kWidth; i++)
      for (int v = 0; v < 4; v++) {
        const int group = v / turns, turn = v % turns;
        byte[i / 4 * 16 + group * turns * 4 + i % 4 * turns + turn] = static_cast<uint8_t>(4 * v + i % 4);
        word[(group * kWidth / 4 + i / 4) * turns + turn] = i / 4 * 4 + v;
      }
  }
  uint8_t byte[4 * kWidth];
  int32_t word[kWidth];
};
constexpr BlockOrder kBlockOrders[] = {BlockOrder(1), BlockOrder(2), BlockOrder(4)};

// What this takes, in lanes.
struct BlockLanes {
  Vec factor, low, high;
  IntVec bytes, words;
  bool is_signed;

  // Stores results if none of them is in doubt (SingleSums).
  OPENBNNS_INLINE bool store(IntVec sum0, IntVec sum1, IntVec sum2, IntVec sum3, uint8_t* to) const {
#if defined(__AVX2__)
    const Vec v0 = __builtin_convertvector(sum0, Vec), v1 = __builtin_convertvector(sum1, Vec),
              v2 = __builtin_convertvector(sum2, Vec), v3 = __builtin_convertvector(sum3, Vec);
    const auto integers = [&](Vec sum, Vec term) { return nearest_integers(fused(factor, sum, term)); };
    const auto packed_with = [&](Vec term) {
      return packed_block(is_signed, integers(v0, term), integers(v1, term), integers(v2, term), integers(v3, term));
    };
    const IntVec packed = packed_with(low), other = packed_with(high);
#if defined(__AVX512F__)
    const auto block = reinterpret_cast<__m512i>(packed);
    if (_mm512_cmpneq_epi32_mask(block, reinterpret_cast<__m512i>(other))) return false;
    const __m512i sorted = _mm512_shuffle_epi8(block, reinterpret_cast<__m512i>(bytes));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(reinterpret_cast<__m512i>(words), sorted));
#else
    const auto block = reinterpret_cast<__m256i>(packed);
    const __m256i differ = _mm256_xor_si256(block, reinterpret_cast<__m256i>(other));
    if (!_mm256_testz_si256(differ, differ)) return false;
    const __m256i sorted = _mm256_shuffle_epi8(block, reinterpret_cast<__m256i>(bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32(sorted, reinterpret_cast<__m256i>(words)));
#endif
    return true;
#else
    (void)sum0, (void)sum1, (void)sum2, (void)sum3, (void)to;
    return false;
#endif
  }
};

// To bytes of a type, of the values factor * sum + term. Sums have no more than 24 bits.
class ByteBlocks {
 public:
  ByteBlocks(const Element& element, double factor, int turns);
  // The term of what follows; false where this does not pay, or is not possible.
  bool take(double term);
  const BlockLanes& lanes() const { return lanes_; }
  void store_exact(const int32_t* sums, uint8_t* to) const;

 private:
  const Element element_;
  const SingleSums single_;  // without a term
  const double factor_;
  const int turns_;
  double term_ = 0;
  BlockLanes lanes_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
