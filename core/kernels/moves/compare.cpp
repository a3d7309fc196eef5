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

// Whole vectors of floats from `first` on; returns where they end.
template <class Value, class Relation>
OPENBNNS_INLINE int64_t over_vectors(const Value* a, const Value* b, uint8_t* y, int64_t first, int64_t last,
                                     int8_t flip, Relation relation) {
  if constexpr (std::is_same_v<Value, float>) {
    for (; first + kWidth <= last; first += kWidth) {
      const IntVec truth = relation(load(a + first), load(b + first));
      *reinterpret_cast<UnalignedByteVec*>(y + first) = (__builtin_convertvector(truth, ByteVec) & 1) ^ flip;
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
