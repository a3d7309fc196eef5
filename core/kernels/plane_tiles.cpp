#include "kernels/plane_tiles.h"

#include <algorithm>

#include "kernels/transpose.h"

namespace openbnns {
namespace OPENBNNS_ISA {

void tile_planes(const float* planes, int64_t count, int64_t cells, float* tile) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    Vec v[kWidth];
    if (count == kWidth && here == kWidth) {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] = load(planes + p * cells + i);
    } else {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] =
          p < count ? load_partial(planes + p * cells + i, here) : Vec{};
    }
    exchange_lanes(v);
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) store(tile + (i + k) * kWidth, v[k]);
  }
}

void untile_planes(const float* tile, int64_t count, int64_t cells, float* planes, bool adds) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    Vec v[kWidth];
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) v[k] = load(tile + (i + k) * kWidth);
    exchange_lanes(v);
    if (count == kWidth && here == kWidth && !adds) {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) store(planes + p * cells + i, v[p]);
      continue;
    }
    OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) if (p < count) {
      float* to = planes + p * cells + i;
      store_partial(to, adds ? load_partial(to, here) + v[p] : v[p], here);
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
