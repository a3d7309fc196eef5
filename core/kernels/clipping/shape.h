#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// The L2 norm over the axes `inside` of x, C order. X -> Y; X, Y, DY -> DX; y has the other axes.
struct NormShape {
  static constexpr int kMaxRank = 8;
  int rank = 0;
  int64_t size[kMaxRank] = {};
  bool inside[kMaxRank] = {};
  OPENBNNS_FIELDS(rank, size, inside)
};

// X -> Y, possibly in place: every slice of x scaled down to a norm of at most max_norm.
struct ClipByNormShape : NormShape {
  double max_norm = 0;
  OPENBNNS_FIELDS(rank, size, inside, max_norm)
};

}  // namespace openbnns
