// Counter-based random numbers (Philox 4x32, ten rounds): number i of draw d under a seed is a pure function of
// (seed, d, i), so the stream is the same for every instruction set, machine and number of threads.
#pragma once
#include <cstring>

#include "simd/pairs.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct RandomStream {
  uint64_t seed = 0;
  uint64_t draw = 0;  // number of the call that draws
};

// Numbers 4b .. 4b + 3 of the stream are the four words of the block with counter (b, draw) and key seed; this many
// blocks are computed side by side: four vectors or, with fewer registers, two, because the rounds of one wait for each
// other.
constexpr int kRandomBlocks = kWidth == 16 ? 64 : 16;
constexpr int kRandomGroup = 4 * kRandomBlocks;

#if defined(__AVX2__)
typedef uint32_t RandomVec __attribute__((vector_size(kWidth * 4)));
typedef uint64_t RandomProducts __attribute__((vector_size(kWidth * 4)));

// The products of the lanes with even numbers, 64 bits each. In instructions, because GCC multiplies all 64 bits.
OPENBNNS_INLINE RandomProducts even_products(RandomVec a, uint32_t factor) {
#if defined(__AVX512F__)
  return reinterpret_cast<RandomProducts>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi32(static_cast<int>(factor))));
#else
  return reinterpret_cast<RandomProducts>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi32(static_cast<int>(factor))));
#endif
}

// The upper and the lower halves of the products of all lanes.
OPENBNNS_INLINE void multiply_words(RandomVec a, uint32_t factor, RandomVec& high, RandomVec& low) {
  const RandomProducts odd_lanes = reinterpret_cast<RandomProducts>(a) >> 32;
  const RandomProducts even = even_products(a, factor);
  const RandomProducts odd = even_products(reinterpret_cast<RandomVec>(odd_lanes), factor);
  // In instructions, because GCC masks, shifts and joins.
#if defined(__AVX512F__)
  const auto e = reinterpret_cast<__m512i>(even), o = reinterpret_cast<__m512i>(odd);
  low = reinterpret_cast<RandomVec>(_mm512_mask_shuffle_epi32(e, 0xAAAA, o, _MM_PERM_CCAA));
  high = reinterpret_cast<RandomVec>(_mm512_mask_shuffle_epi32(o, 0x5555, e, _MM_PERM_DDBB));
#else
  const auto e = reinterpret_cast<__m256i>(even), o = reinterpret_cast<__m256i>(odd);
  low = reinterpret_cast<RandomVec>(_mm256_blend_epi32(e, _mm256_shuffle_epi32(o, 0xA0), 0xAA));
  high = reinterpret_cast<RandomVec>(_mm256_blend_epi32(o, _mm256_shuffle_epi32(e, 0xF5), 0x55));
#endif
}

// The words of numbers first .. first + kRandomGroup - 1; `first` is a multiple of 4.
inline void random_words(RandomStream stream, uint64_t first, uint32_t words[kRandomGroup]) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  constexpr int kVectors = kRandomBlocks / kWidth;
  RandomVec counter[kVectors][4];
  for (int v = 0; v < kVectors; v++) {
    const uint64_t block = first / 4 + static_cast<uint64_t>(v * kWidth);
    const auto block_low = static_cast<uint32_t>(block);
    for (int i = 0; i < kWidth; i++) counter[v][0][i] = block_low + static_cast<uint32_t>(i);
    // A lane whose lower half has run over: the comparison gives -1.
    const auto carries = reinterpret_cast<RandomVec>(counter[v][0] < block_low);
    counter[v][1] = static_cast<uint32_t>(block >> 32) - carries;
    counter[v][2] = static_cast<uint32_t>(stream.draw) - RandomVec{};
    counter[v][3] = static_cast<uint32_t>(stream.draw >> 32) - RandomVec{};
  }
  uint32_t key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
  OPENBNNS_UNROLL for (int round = 0; round < 10; round++) {
    OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
      RandomVec* c = counter[v];
      RandomVec high0, low0, high1, low1;
      multiply_words(c[0], kMultiplier0, high0, low0);
      multiply_words(c[2], kMultiplier1, high1, low1);
      c[0] = high1 ^ c[1] ^ key0;
      c[1] = low1;
      c[2] = high0 ^ c[3] ^ key1;
      c[3] = low0;
    }
    key0 += kStep0;
    key1 += kStep1;
  }
  OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
    const auto part = [&](int i) { return reinterpret_cast<Vec>(counter[v][i]); };
    const Vec pairs[2][2] = {{interleave_low(part(0), part(2)), interleave_high(part(0), part(2))},
                             {interleave_low(part(1), part(3)), interleave_high(part(1), part(3))}};
    OPENBNNS_UNROLL for (int half = 0; half < 2; half++) {
      const Vec joined[2] = {interleave_low(pairs[0][half], pairs[1][half]),
                             interleave_high(pairs[0][half], pairs[1][half])};
      std::memcpy(words + (4 * v + 2 * half) * kWidth, joined, sizeof joined);
    }
  }
}
#else
// The same, block by block: with 4 lanes, vectors are slower than 64-bit registers.
inline void random_words(RandomStream stream, uint64_t first, uint32_t words[kRandomGroup]) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
  uint32_t counter[4][kRandomBlocks];
  for (int b = 0; b < kRandomBlocks; b++) {
    uint64_t block = first / 4 + static_cast<uint64_t>(b);
    counter[0][b] = static_cast<uint32_t>(block);
    counter[1][b] = static_cast<uint32_t>(block >> 32);
    counter[2][b] = static_cast<uint32_t>(stream.draw);
    counter[3][b] = static_cast<uint32_t>(stream.draw >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; round++) {
    for (int b = 0; b < kRandomBlocks; b++) {
      uint64_t product0 = kMultiplier0 * counter[0][b], product1 = kMultiplier1 * counter[2][b];
      counter[0][b] = static_cast<uint32_t>(product1 >> 32) ^ counter[1][b] ^ key0;
      counter[1][b] = static_cast<uint32_t>(product1);
      counter[2][b] = static_cast<uint32_t>(product0 >> 32) ^ counter[3][b] ^ key1;
      counter[3][b] = static_cast<uint32_t>(product0);
    }
    key0 += kStep0;
    key1 += kStep1;
  }
  for (int b = 0; b < kRandomBlocks; b++)
    for (int word = 0; word < 4; word++) words[4 * b + word] = counter[word][b];
}
#endif

// 23 random bits in the middle of equal cells: never 0, never 1, exact in float.
OPENBNNS_INLINE float uniform_from_word(uint32_t word) { return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f; }

// out[i] = convert(word of number first + i), for i < count
template <class Result, class Convert>
void fill_random(RandomStream stream, uint64_t first, Result* out, int64_t count, Convert convert) {
  uint32_t words[kRandomGroup];
  for (int64_t i = 0; i < count;) {
    uint64_t start = (first + static_cast<uint64_t>(i)) / 4 * 4;
    int64_t skip = static_cast<int64_t>(first + static_cast<uint64_t>(i) - start);
    int64_t take = kRandomGroup - skip < count - i ? kRandomGroup - skip : count - i;
    random_words(stream, start, words);
    for (int64_t k = 0; k < take; k++) out[i + k] = convert(words[skip + k]);
    i += take;
  }
}

// out[i] = uniform number first + i of the stream, in (0, 1), for i < count
inline void fill_uniform(RandomStream stream, uint64_t first, float* out, int64_t count) {
  fill_random(stream, first, out, count, [](uint32_t word) { return uniform_from_word(word); });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
