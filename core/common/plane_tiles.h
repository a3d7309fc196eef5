// Small planes side by side: a tile is [cells of a plane][kWidth], with one plane in each lane of its vectors.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Floats of a tile: whole vectors of cells.
inline int64_t tile_room(int64_t cells) { return (cells + kWidth - 1) / kWidth * kWidth * kWidth; }

// Between `count` <= kWidth planes of `cells` each, one behind the other, and a tile; lanes without a plane hold zeros.
void tile_planes(const float* planes, int64_t count, int64_t cells, float* tile);
void untile_planes(const float* tile, int64_t count, int64_t cells, float* planes, bool adds);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
