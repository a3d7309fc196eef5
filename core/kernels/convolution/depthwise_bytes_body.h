// Body of the kernels of depthwise_bytes.h; included only by the sources that instantiate it.
#pragma once
#include <algorithm>

#include "kernels/convolution/depthwise_bytes.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

#if defined(__SSE2__)
#define OPENBNNS_SETTLE(a, b, c, d) asm("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#else
#define OPENBNNS_SETTLE(a, b, c, d)
#endif

typedef int32_t UnalignedGroups __attribute__((vector_size(kWidth * 4), aligned(1), may_alias));

OPENBNNS_INLINE IntVec load_groups(const uint8_t* p) { return *reinterpret_cast<const UnalignedGroups*>(p); }
OPENBNNS_INLINE void store_groups(int32_t* p, IntVec v) { *reinterpret_cast<UnalignedGroups*>(p) = v; }

// Bytes from a block to what one of its vectors loads first.
constexpr int64_t vector_offset(int vector, int turns) {
  return vector / turns * kWidth * 4 + vector % turns * (4 / turns);
}

// Dot::add(sum, a, b) adds the products of the groups of each lane. kEntries: 0 for any number of them.
template <int kTurns, int kEntries, class Dot>
void sum_bytes(const ByteSums& t) {
  IntVec weight[kEntries ? kEntries : 1];
  const uint8_t* from[kEntries ? kEntries : 1] = {};
  OPENBNNS_UNROLL for (int e = 0; e < kEntries; e++) {
    weight[e] = splat_int(static_cast<int32_t>(t.weights[e]));
    from[e] = t.plane + t.offset[e];
  }
  const IntVec start = splat_int(static_cast<int32_t>(t.weights[t.entries]));
  const ByteBlocks* const bytes = t.bytes;
  int32_t* sums_to = t.sums;
  uint8_t* bytes_to = t.line;
  for (int64_t b = t.blocks, at = 0; b > 0; b--, at += 4 / kTurns * kWidth * 4) {
    IntVec sum0 = start, sum1 = start, sum2 = start, sum3 = start;
    OPENBNNS_UNROLL for (int e = 0; e < (kEntries ? kEntries : t.entries); e++) {
      const IntVec w = kEntries ? weight[kEntries ? e : 0] : splat_int(static_cast<int32_t>(t.weights[e]));
      const uint8_t* block = (kEntries ? from[kEntries ? e : 0] : t.plane + t.offset[e]) + at;
      sum0 = Dot::add(sum0, load_groups(block), w);
      sum1 = Dot::add(sum1, load_groups(block + vector_offset(1, kTurns)), w);
      sum2 = Dot::add(sum2, load_groups(block + vector_offset(2, kTurns)), w);
      sum3 = Dot::add(sum3, load_groups(block + vector_offset(3, kTurns)), w);
      // else the compiler adds products up by twos, and has no registers for so many
      OPENBNNS_SETTLE(sum0, sum1, sum2, sum3);
    }
    if (!bytes || !bytes->lanes().store(sum0, sum1, sum2, sum3, bytes_to)) {
      store_groups(sums_to, sum0);
      store_groups(sums_to + kWidth, sum1);
      store_groups(sums_to + 2 * kWidth, sum2);
      store_groups(sums_to + 3 * kWidth, sum3);
      if (bytes)
        bytes->store_exact(sums_to, bytes_to);
      else
        sums_to += 4 * kWidth;
    }
    bytes_to += 4 * kWidth;
  }
}

// kThree: entries of 3 x 3 windows.
template <int kTurns, int kThree, class Dot>
ByteWindowsKernel byte_windows_kernel(int entries) {
  return entries == kThree ? sum_bytes<kTurns, kThree, Dot> : sum_bytes<kTurns, 0, Dot>;
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
