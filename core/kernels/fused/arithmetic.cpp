#include "kernels/fused/arithmetic.h"

#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {

using arithmetic::BackwardBlock;
using arithmetic::ForwardBlock;
using arithmetic::Sink;
using arithmetic::Source;

namespace {

constexpr float kZero[1] = {0};

bool covers_plane(const ArithmeticShape& s, int i) {
  return s.operand_size[i][1] == s.size[1] && s.operand_size[i][2] == s.size[2];
}

}  // namespace

bool PlaneArithmetic::takes(const ArithmeticShape& s) {
  if (s.rank != 3) return false;
  for (int i = 0; i < s.operands; i++)
    if (!covers_plane(s, i) && !(s.operand_size[i][1] == 1 && s.operand_size[i][2] == 1)) return false;
  return true;
}

PlaneArithmetic::PlaneArithmetic(const ArithmeticShape& s)
    : kernels_(arithmetic::block_kernels(s.function)), operands_(s.operands), plane_(s.size[1] * s.size[2]) {
  for (int i = 0; i < 3; i++) {
    const bool here = i < operands_, plane = here && covers_plane(s, i), channels = here && s.operand_size[i][0] != 1;
    batched_[i] = here && s.batched[i];
    full_[i] = plane && (channels || s.size[0] == 1);
    channel_step_[i] = !channels ? 0 : plane ? plane_ : 1;
    column_step_[i] = plane ? 1 : 0;
  }
}

bool PlaneArithmetic::gives_gradients(const Call& call) const {
  for (int i = 0; i < operands_; i++)
    if (call.address[DA0 + i] && !(batched_[i] && full_[i])) return false;
  return true;
}

Source PlaneArithmetic::operand(const Call& call, int i, int64_t n, int64_t channel, int64_t first) const {
  const float* data = i < operands_ ? call.address[A0 + i] : nullptr;
  if (!data) return {kZero, 0, 0};
  return {data + (batched_[i] ? n * call.stride[A0 + i] : 0) + channel * channel_step_[i] + first * column_step_[i], 0,
          column_step_[i]};
}

void PlaneArithmetic::forward(const Call& call, int64_t n, int64_t channel, int64_t first, int64_t count,
                              float* h) const {
  ForwardBlock block;
  for (int i = 0; i < 3; i++) block.operand[i] = operand(call, i, n, channel, first);
  block.out = h;
  block.out_row_stride = 0;
  block.rows = 1;
  block.columns = count;
  kernels_.forward(block);
}

// h = op(operands): the gradient of operand i is dh * dop/di
void PlaneArithmetic::backward(const Call& call, int64_t n, int64_t channel, int64_t first, int64_t count,
                               const float* h, const float* dh, bool stream) const {
  BackwardBlock block;
  for (int i = 0; i < 3; i++) {
    block.operand[i] = operand(call, i, n, channel, first);
    block.same[i] = false;
    block.target[i] = {Sink::kSkip, nullptr, nullptr, 0};
    if (i >= operands_ || !call.address[DA0 + i]) continue;
    block.target[i].sink = call.adds(DA0 + i) ? Sink::kAdd : Sink::kSet;
    block.target[i].data = call.address[DA0 + i] + n * call.stride[DA0 + i] + channel * plane_ + first;
  }
  block.output = {h, 0, 1};
  block.output_given = true;
  block.dz = {dh, 0, 1};
  block.rows = 1;
  block.columns = count;
  block.stream = stream;
  arithmetic::backward(kernels_, block);
  if (stream) finish_stream();
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
