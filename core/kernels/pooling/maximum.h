// The rule for the largest cell of a window, as in PyTorch: a later cell wins if it is larger or NaN.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

typedef int32_t UnalignedIntVec __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

OPENBNNS_INLINE IntVec load_int(const int32_t* p) { return *reinterpret_cast<const UnalignedIntVec*>(p); }
OPENBNNS_INLINE void store_int(int32_t* p, IntVec v) { *reinterpret_cast<UnalignedIntVec*>(p) = v; }

// Lanes in which `later` takes the place of `best`.
OPENBNNS_INLINE IntVec wins(Vec later, Vec best) { return (later > best) | (later != later); }
// The value alone; the order of the two does not matter.
OPENBNNS_INLINE Vec larger(Vec a, Vec b) {
  Vec m = b > a ? b : a;  // `a` if either is NaN
  return b != b ? b : m;
}
OPENBNNS_INLINE Vec keep_where(IntVec mask, Vec v) { return from_bits(bits(v) & mask); }

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
