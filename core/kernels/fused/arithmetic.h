// Arithmetic as the first layer of a fused chain, computed plane by plane within the passes of the normalization.
#pragma once
#include "kernels/arithmetic/blocks.h"
#include "kernels/arithmetic/shape.h"
#include "kernels/normalization/normalization.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Operands that are, within a plane of the output, a plane or one value.
class PlaneArithmetic {
 public:
  explicit PlaneArithmetic(const ArithmeticShape& shape);

  static bool takes(const ArithmeticShape& shape);
  // Whether the gradients that a call asks for are all of full operands with a batch axis: nothing is summed.
  bool gives_gradients(const Call& call) const;

  // h, pixels [first, first + count) of a plane = op(operands)
  void forward(const Call& call, int64_t n, int64_t channel, int64_t first, int64_t count, float* h) const;
  // The gradients of the operands from dh, the gradient of these pixels; h as forward computed it. With `stream`,
  // gradients that are set rather than added to bypass the caches.
  void backward(const Call& call, int64_t n, int64_t channel, int64_t first, int64_t count, const float* h,
                const float* dh, bool stream) const;

 private:
  arithmetic::Source operand(const Call& call, int i, int64_t n, int64_t channel, int64_t first) const;

  const arithmetic::BlockKernels& kernels_;
  const int operands_;
  const int64_t plane_;
  bool batched_[3], full_[3];  // own batch axis; all of the output's elements
  int64_t channel_step_[3];    // 0 where the operand is repeated
  int64_t column_step_[3];     // 1, or 0 for one value per plane
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
