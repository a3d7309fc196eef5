#include "common/plane_tiles.h"

#include <algorithm>

#include "simd/transpose.h"

namespace openbnns {
namespace OPENBNNS_ISA {

void tile_planes(const float* planes, int64_t count, int64_t cells, float* tile) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    const float* from = planes + i;
    Vec v[kWidth];
    if (count == kWidth && here == kWidth) {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] = load(from + p * cells);
    } else {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) v[p] = p < count ? load_partial(from + p * cells, here) : Vec{};
    }
    transpose(v);
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) store(tile + (i + k) * kWidth, v[k]);
  }
}

void untile_planes(const float* tile, int64_t count, int64_t cells, float* planes, bool adds) {
  for (int64_t i = 0; i < cells; i += kWidth) {
    const int64_t here = std::min<int64_t>(kWidth, cells - i);
    float* to = planes + i;
    Vec v[kWidth];
    OPENBNNS_UNROLL for (int k = 0; k < kWidth; k++) v[k] = load(tile + (i + k) * kWidth);
    transpose(v);
    if (count == kWidth && here == kWidth && !adds) {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) store(to + p * cells, v[p]);
    } else {
      OPENBNNS_UNROLL for (int p = 0; p < kWidth; p++) {
        if (p >= count) break;
        const Vec old = adds ? load_partial(to + p * cells, here) : Vec{};
        store_partial(to + p * cells, adds ? old + v[p] : v[p], here);
      }
    }
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
