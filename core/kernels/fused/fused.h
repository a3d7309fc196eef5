// What fused chains share. Per instruction set.
#pragma once
#include <algorithm>
#include <memory>

#include "common/plane_watcher.h"
#include "common/scratch_uses.h"
#include "kernels/fused/shape.h"
#include "kernels/normalization/normalization.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Measures the planes of h as the first layer completes them.
class PlaneMeasure final : public PlaneWatcher {
 public:
  PlaneMeasure(Samples h, int64_t channels, int64_t plane, normalization::Moments* moments)
      : h_(h), channels_(channels), plane_(plane), moments_(moments) {}
  void completed(int64_t n, int64_t channel, int64_t channels) const override {
    for (int64_t c = channel; c < channel + channels; c++)
      moments_[n * channels_ + c] = normalization::moments_of(h_.sample(n) + c * plane_, plane_);
  }

 private:
  const Samples h_;
  const int64_t channels_, plane_;
  normalization::Moments* const moments_;
};

// A call for the first layer alone, without the slots of the normalization.
inline Call first_layer_call(const Call& call) {
  Call own = call;
  std::fill(own.address + kFusedBeta, own.address + Call::kMaxSlots, nullptr);
  own.training = false;
  return own;
}

// Room for dh, for the time of the call: the caller's, or scratch.
inline float* boundary_gradient(const Call& call, int64_t count) {
  float* lent = call.address[kFusedBoundaryGradient];
  return lent ? lent : scratch(kBoundaryGradient, static_cast<size_t>(count));
}

// The slots of the tensors of a chain's normalization, whose result and output gradient are in slots `y` and `dy`.
constexpr NormalizationSlots fused_slots(int y, int dy) {
  return {
      y, dy, kFusedBeta, kFusedGamma, kFusedBetaGradient, kFusedGammaGradient, kFusedMovingMean, kFusedMovingVariance};
}

// The chain with one input, followed by max pooling over 2 x 2 pixels; null if there is no such plan.
std::shared_ptr<Plan> make_pooled(std::shared_ptr<Plan> first, const NormalizationShape& shape,
                                  const ActivationSpec& activation);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
