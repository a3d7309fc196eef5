#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// x, y: [channels][height][width]; a vector has height and width 1. Slots X, Y, DX, DY, W and DW (gamma), B and DB
// (beta), and the two below. Formulas and sets of statistics: kernels/normalization/normalization.h.
enum NormalizationKind { kBatchNorm = 2, kInstanceNorm = 3, kLayerNorm = 4, kGroupNorm = 5 };  // as in BNNSFilterType
constexpr int kMovingMean = 8, kMovingVariance = 9;                                            // [channels]
// In training, and in the calls that go back from it: X itself, which then stays as it is and is not copied.
constexpr int kKeptInput = 10;

struct NormalizationShape {
  int kind = kBatchNorm;
  int64_t channels = 0, height = 1, width = 1;
  int axis = 0;        // layer: the first of the axes C, H, W that share their statistics
  int64_t groups = 1;  // group: how many groups the channels form
  float epsilon = 0, momentum = 0;
  bool torch_moving = false;      // momentum weighs the current statistics, the moving variance is the unbiased one
  bool slope_from_input = false;  // the activation is differentiated from z instead of from y
  // layer: channels, height, width of beta and gamma, each that of x or 1; the others have one value per channel
  int64_t beta_size[3] = {}, gamma_size[3] = {};
  OPENBNNS_FIELDS(kind, channels, height, width, axis, groups, epsilon, momentum, torch_moving, slope_from_input,
                  beta_size, gamma_size)
};

}  // namespace openbnns
