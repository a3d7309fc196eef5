// One step of an optimizer over a list of tensors. Formulas: docs/filters/optimizer.md.
#pragma once
#include <cstdint>

namespace openbnns {

enum class OptimizerKind { kDescent, kMomentum, kAdam, kRMSProp, kAdamax };

// Numbers of BNNSOptimizerClippingFunction; ByValue is part of the preparation of g.
enum OptimizerClipping { kClipNone = 0, kClipByValue = 1, kClipByNorm = 2, kClipByGlobalNorm = 3 };

// How W moves once V' = momentum * V + gradient_weight * g is known.
enum class MomentumForm {
  kVelocity,    // W += velocity_step * V'
  kLookAhead,   // W += velocity_step * V' + gradient_step * g
  kDifference,  // W += V' + momentum * (V' - V)
};

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::kDescent;

  // g = after * clamp(before * dL/dW, low, high) + l2 * W + l1 * sign(W)
  float before = 1, after = 1, low = 0, high = 0, l1 = 0, l2 = 0;
  int clipping = kClipNone;
  double max_norm = 0, use_norm = 0;  // of clipping by norm; use_norm 0: the norm is computed
  double norm_scale = 1;              // what the norm of dL/dW is multiplied by before it is compared

  float learning_rate = 0;  // kDescent: W -= learning_rate * g; kRMSProp
  float momentum = 0;       // kMomentum, kRMSProp
  MomentumForm form = MomentumForm::kVelocity;
  float gradient_weight = 0, velocity_step = 0, gradient_step = 0;  // kMomentum

  // kAdam: m = keep1 m + add1 g, v = keep2 v + add2 g^2, W -= decay W + step m / (sqrt(v) + epsilon)
  // kRMSProp: n = keep2 n + add2 g^2, u = keep2 u + add2 g
  // kAdamax: m = keep1 m + add1 g, u = max(keep2 u, |g| + epsilon), W -= step m / u
  float keep1 = 0, add1 = 0, keep2 = 0, add2 = 0, decay = 0, step = 0, epsilon = 0;
};

// Packed tensors of `count` elements; a state that the rule does not keep is null.
// kMomentum: V; kAdam: m, v, largest v; kRMSProp: n, mean gradient, last step; kAdamax: m, u.
struct OptimizerTensor {
  static constexpr int kStates = 3;
  float* w = nullptr;
  const float* gradient = nullptr;
  float* state[kStates] = {};
  int64_t count = 0;
};

// y = x * min(1, max_norm / norm) for one tensor of a list; y may be x.
struct ClippedTensor {
  const float* x;
  float* y;
  int64_t count;
};

}  // namespace openbnns
