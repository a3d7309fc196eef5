#include "common/plane_tiles.h"

#include <algorithm>

#include "common/transpose.h"

namespace openbnns {
namespace OPENBNNS_ISA {

void tile_planes(const float* planes, int64_t count, int64_t cells, float* tile) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    Vec v[kWidth];
    if (count == kWidth && here == kWidth) {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] = load(planes + p * cells + i);
    } else {
      float square[kWidth * kWidth] = {};
      for (int64_t p = 0; p < count; p++) store(square + p * kWidth, load_partial(planes + p * cells + i, here));
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] = load(square + p * kWidth);
    }
    transpose(v);
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) store(tile + (i + k) * kWidth, v[k]);
  }
}

void untile_planes(const float* tile, int64_t count, int64_t cells, float* planes, bool adds) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    float square[kWidth * kWidth];
    const bool whole = count == kWidth && here == kWidth && !adds;
    transpose_square(tile + i * kWidth, kWidth, whole ? planes + i : square, whole ? cells : kWidth);
    for (int64_t p = 0; p < count && !whole; p++) {
      float* to = planes + p * cells + i;
      const Vec v = load(square + p * kWidth);
      store_partial(to, adds ? load_partial(to, here) + v : v, here);
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
