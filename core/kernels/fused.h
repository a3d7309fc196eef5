// What fused chains share. Per instruction set.
#pragma once
#include <algorithm>
#include <memory>

#include "kernels/normalization.h"
#include "kernels/plane_watcher.h"

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

// What a call gives the normalization of a chain, whose result is in slot `y`.
inline NormalizationForward normalization_forward(const Call& call, int y) {
  NormalizationForward last;
  last.batch = call.batch;
  last.threads = call.threads;
  last.training = call.training;
  last.y = {call.address[y], call.stride[y]};
  last.beta = call.address[kFusedBeta];
  last.gamma = call.address[kFusedGamma];
  last.moving_mean = call.address[kFusedMovingMean];
  last.moving_variance = call.address[kFusedMovingVariance];
  return last;
}

// The same for its gradients: those of the result are in slot `dy`, h is what the first layer gave.
inline NormalizationBackward normalization_backward(const Call& call, Samples h, int dy) {
  NormalizationBackward last;
  last.batch = call.batch;
  last.threads = call.threads;
  last.x = h;
  last.dy = {call.address[dy], call.stride[dy]};
  last.beta = call.address[kFusedBeta];
  last.gamma = call.address[kFusedGamma];
  last.dbeta = call.address[kFusedBetaGradient];
  last.dgamma = call.address[kFusedGammaGradient];
  last.add_dbeta = call.adds(kFusedBetaGradient);
  last.add_dgamma = call.adds(kFusedGammaGradient);
  return last;
}

// The chain with one input, followed by the maximum of 2 x 2 pixels; null if there is no such plan.
std::shared_ptr<Plan> make_pooled(std::shared_ptr<Plan> first, const NormalizationShape& shape,
                                  const ActivationSpec& activation);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
