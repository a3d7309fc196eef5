#pragma once
#include <memory>

#include "common/fields.h"
#include "kernels/normalization/shape.h"
#include "runtime/plan.h"

namespace openbnns {

// A chain: the plan of a first layer, whose output is the input of a normalization. Slots 0 to 7 are those of the first
// layer (Slot or ArithmeticSlot), Y or OUT being the output of the chain and DY or DOUT its gradient.
enum FusedSlot {
  kFusedBeta = 8,
  kFusedGamma,
  kFusedBetaGradient,
  kFusedGammaGradient,
  kFusedMovingMean,
  kFusedMovingVariance,
  // Memory of the caller for the boundary between the layers, like the result of the first: its values, from a training
  // forward to the calls that go back from it, and their gradient, during a backward call. Null: that of the plan.
  kFusedBoundary,
  kFusedBoundaryGradient
};
struct FusedShape {
  std::shared_ptr<Plan> first;  // has the Identity activation in training; the activation is that of the normalization
  bool arithmetic = false;      // the slots of the first layer are those of arithmetic
  NormalizationShape normalization;
  OPENBNNS_FIELDS(first, arithmetic, normalization)
};

}  // namespace openbnns
