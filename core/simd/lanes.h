// Lanes by their number.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

OPENBNNS_INLINE IntVec lane_numbers() {
  IntVec lane{};
  OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) lane[i] = i;
  return lane;
}

OPENBNNS_INLINE IntVec first_lanes(int64_t count) { return lane_numbers() < splat_int(static_cast<int32_t>(count)); }

// v with zeros beyond the first `count` lanes.
OPENBNNS_INLINE Vec keep_first(Vec v, int64_t count) { return select(first_lanes(count), v, Vec{}); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
