// The largest element of a row.
#pragma once
#include "simd/lanes.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// NaN is ignored; without any number the result is -infinity.
[[gnu::noinline]] inline float row_maximum(const float* x, int64_t length) {
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
  return largest_lane(math::max(math::max(a, b), math::max(c, d)));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
