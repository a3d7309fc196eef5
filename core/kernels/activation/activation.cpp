// The interface in activation.h: one dispatch on the function, then a loop.
#include "kernels/activation/activation.h"

#include <algorithm>

#include "kernels/activation/loops.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

enum : int { kGumbel = 13, kLogSoftmax = 21 };

ActivationParameters parameters(const ActivationSpec& f) { return {f.alpha, f.beta}; }

}  // namespace

void activation_forward(const ActivationSpec& f, const float* x, float* y, int64_t count, int64_t row) {
  if (ForwardLoop loop = elementwise_loops(f.function).forward) return loop(parameters(f), x, y, count, false);
  if (f.function == kGumbel) return gumbel_forward(parameters(f), {f.seed, 0}, 0, y, count);
  for (int64_t i = 0; i < count; i += row)
    softmax_forward(f.function == kLogSoftmax, {row, 1}, {x + i, 1}, {y + i, 1}, nullptr);
}

void activation_backward_from_output(const ActivationSpec& f, const float* y, const float* dy, float* dx, int64_t count,
                                     int64_t row) {
  if (BackwardLoop loop = elementwise_loops(f.function).from_output)
    return loop(parameters(f), y, dy, dx, count, Write::kSet);
  for (int64_t i = 0; i < count; i += row)
    softmax_backward(f.function == kLogSoftmax, {row, 1}, {y + i, 1}, {dy + i, 1}, {dx + i, 1}, Write::kSet);
}

void integer_linear_saturate(const int64_t* x, int64_t* y, int64_t count, int32_t scale, int32_t offset, int32_t shift,
                             int64_t low, int64_t high) {
  for (int64_t i = 0; i < count; i++) y[i] = std::min(high, std::max(low, (scale * x[i] + offset) >> shift));
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
