// Counter-based random numbers (Philox 4x32, ten rounds): number i of draw d under a seed is a pure function of
// (seed, d, i), so the stream is the same for every instruction set, machine and number of threads.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct RandomStream {
  uint64_t seed = 0;
  uint64_t draw = 0;  // number of the call that draws
};

// Numbers 4b .. 4b + 3 of the stream are the four words of the block with counter (b, draw) and key seed; this many
// blocks are computed side by side so that the compiler can use vectors.
constexpr int kRandomBlocks = 16;
constexpr int kRandomGroup = 4 * kRandomBlocks;

// The words of numbers first .. first + kRandomGroup - 1; `first` is a multiple of 4.
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
