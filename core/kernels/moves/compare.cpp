// Comparisons and logical operations, element by element.
#include <algorithm>
#include <type_traits>

#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kBlock = 16384;

typedef int8_t ByteVec __attribute__((vector_size(kWidth)));
typedef int8_t UnalignedByteVec __attribute__((vector_size(kWidth), aligned(1), may_alias));

// Vectors whose lanes become bytes together: without an instruction that narrows one, compilers take it apart.
#if defined(__SSE2__) && !defined(__AVX512F__)
constexpr int kNarrowed = 4;
#else
constexpr int kNarrowed = 1;
#endif

// y[0 .. kNarrowed * kWidth) = 1 where lanes are true, 0 elsewhere, the other way round with `flip`
OPENBNNS_INLINE void store_truth(uint8_t* y, const IntVec (&truth)[kNarrowed], int8_t flip) {
#if defined(__AVX512F__) || !defined(__SSE2__)
  *reinterpret_cast<UnalignedByteVec*>(y) = (__builtin_convertvector(truth[0], ByteVec) & 1) ^ flip;
#elif defined(__AVX2__)
  const auto lanes = [&](int k) { return reinterpret_cast<__m256i>(truth[k]); };
  const __m256i halves =  // of 128 bits, each with half of every vector
      _mm256_packs_epi16(_mm256_packs_epi32(lanes(0), lanes(1)), _mm256_packs_epi32(lanes(2), lanes(3)));
  const __m256i bytes = _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y),
                      _mm256_xor_si256(_mm256_and_si256(bytes, _mm256_set1_epi8(1)), _mm256_set1_epi8(flip)));
#else
  const auto lanes = [&](int k) { return reinterpret_cast<__m128i>(truth[k]); };
  const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(lanes(0), lanes(1)), _mm_packs_epi32(lanes(2), lanes(3)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y),
                   _mm_xor_si128(_mm_and_si128(bytes, _mm_set1_epi8(1)), _mm_set1_epi8(flip)));
#endif
}

// Whole vectors of floats from `first` on; returns where they end.
template <class Value, class Relation>
OPENBNNS_INLINE int64_t over_vectors(const Value* a, const Value* b, uint8_t* y, int64_t first, int64_t last,
                                     int8_t flip, Relation relation) {
  if constexpr (std::is_same_v<Value, float>) {
    for (; first + kNarrowed * kWidth <= last; first += kNarrowed * kWidth) {
      IntVec truth[kNarrowed];
      OPENBNNS_UNROLL for (int k = 0; k < kNarrowed; k++) truth[k] =
          relation(load(a + first + k * kWidth), load(b + first + k * kWidth));
      store_truth(y + first, truth, flip);
    }
  }
  return first;
}

template <class Value, class Relation>
void over_all(const void* a, const void* b, uint8_t* y, int64_t count, bool inverted, int threads, Relation relation) {
  const auto *left = static_cast<const Value*>(a), *right = static_cast<const Value*>(b);
  const uint8_t flip = inverted ? 1 : 0;
  dynamic_items(count < 2 * kBlock ? 1 : threads, (count + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t last = std::min(count, (block + 1) * kBlock);
    int64_t i = over_vectors(left, right, y, block * kBlock, last, static_cast<int8_t>(flip), relation);
    for (; i < last; i++) y[i] = static_cast<uint8_t>(static_cast<uint8_t>(relation(left[i], right[i])) ^ flip);
  });
}

template <class Value>
void compare_as(Comparison operation, bool inverted, const void* a, const void* b, uint8_t* y, int64_t count,
                int threads) {
  const auto run = [&](auto relation) { over_all<Value>(a, b, y, count, inverted, threads, relation); };
  switch (operation) {
    case Comparison::kEqual:
      return run([](auto p, auto q) { return p == q; });
    case Comparison::kGreater:
      return run([](auto p, auto q) { return p > q; });
    case Comparison::kGreaterEqual:
      return run([](auto p, auto q) { return p >= q; });
    case Comparison::kAnd:
      return run([](auto p, auto q) { return (p != decltype(p){}) & (q != decltype(q){}); });
    case Comparison::kOr:
      return run([](auto p, auto q) { return (p != decltype(p){}) | (q != decltype(q){}); });
    case Comparison::kXor:
      return run([](auto p, auto q) { return (p != decltype(p){}) ^ (q != decltype(q){}); });
  }
}

}  // namespace

void compare(ComparedType type, Comparison operation, bool inverted, const void* a, const void* b, uint8_t* y,
             int64_t count, int threads) {
  switch (type) {
    case ComparedType::kFloat32:
      return compare_as<float>(operation, inverted, a, b, y, count, threads);
    case ComparedType::kFloat64:
      return compare_as<double>(operation, inverted, a, b, y, count, threads);
    case ComparedType::kInt64:
      return compare_as<int64_t>(operation, inverted, a, b, y, count, threads);
    case ComparedType::kUInt8:
      return compare_as<uint8_t>(operation, inverted, a, b, y, count, threads);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
