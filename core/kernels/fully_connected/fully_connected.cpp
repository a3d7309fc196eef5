// Fully connected layer: z = W x + b, y = f(z) for every sample of the batch.
#include <algorithm>

#include "common/kept_weights.h"
#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/gemm.h"
#include "gemm/micro_kernel.h"
#include "gemm/stored_product.h"
#include "kernels/activation/activation.h"
#include "kernels/activation/rows.h"
#include "kernels/kernels.h"
#include "runtime/joint_plan.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kGradientFloats = int64_t{1} << 20;  // of dz kept at a time (4 MB)
constexpr int64_t kRunFloats = int64_t{1} << 12;       // of dz that one task makes
constexpr int64_t kLeastSamples = 8;                   // of a worker that finds the weights packed,
constexpr int64_t kAloneSamples = 32;                  // or that packs them for itself

class FullyConnected : public Plan, private JointPlan {
 public:
  FullyConnected(const FullyConnectedShape& shape, const ActivationSpec& activation)
      : inputs_(shape.inputs), outputs_(shape.outputs), shape_(shape), activation_(activation) {}

  // y[n][o] = f(sum_i x[n][i] w[o][i] + b[o])
  void forward(const Call& call) override {
    MatrixProduct p = sums_of_inputs(call);
    p.packed_b = packed_weights(p, call.threads);
    if (is_axis_wise(activation_)) return forward_by_rows(call, p);
    p.c_element = shape_.y;
    if (!is_identity(activation_)) p.activation = &activation_;
    matrix_product(p, call.threads);
  }

  void keep_weights(bool keep) override { weights_known_.keep(keep); }

  // dz = dy f'(y); from z = W x + b: dx = W^T dz, dW = sum_n dz x^T, db = sum_n dz. Blocks of samples bound the
  // scratch.
  void backward(const Call& call) override {
    if (is_identity(activation_)) return gradients(call, 0, call.batch, call.address[DY], call.stride[DY]);
    int64_t block = std::max<int64_t>(1, kGradientFloats / std::max<int64_t>(1, outputs_));
    for (int64_t n = 0; n < call.batch || n == 0; n += block) {
      int64_t count = std::min(block, call.batch - n);
      float* dz = scratch(kGradientBand, static_cast<size_t>(count * outputs_));
      const int64_t run = kRunFloats / std::max<int64_t>(1, outputs_) + 1;
      parallel_items(threads_for(call, count), (count + run - 1) / run, [&](int64_t i) {
        activation_gradient(call, n + i * run, std::min(run, count - i * run), dz + i * run * outputs_);
      });
      gradients(call, n, count, dz, outputs_);
    }
  }

  JointPlan* joint() override { return this; }

 private:
  // ---- samples of several calls at a time (joint_plan.h) ----

  int64_t kept_floats(const Call& call, bool backward) const override {
    if (!is_plain() || call.accumulate) return -1;
    if (!backward) return has_row_parts(sums_of_inputs(call)) ? 0 : -1;
    if (call.address[DX] && !has_row_parts(input_gradient(call, 0, call.batch, nullptr, outputs_))) return -1;
    if (is_identity(activation_)) return 0;
    return call.batch * outputs_ <= kGradientFloats ? call.batch * outputs_ : -1;
  }

  int64_t least_samples(const Call& call, bool backward) const override {
    if (!backward && weights_known_.version() != 0) return kLeastSamples;
    return is_packed_by_all(sums_of_inputs(call)) ? kAloneSamples : call.batch + 1;
  }

  double flops(const Call& call, bool backward) const override {
    return !backward || call.address[DX] ? product_flops(call) + sums_flops(call, backward)
                                         : sums_flops(call, backward);
  }
  double sums_flops(const Call& call, bool backward) const override {
    return backward && call.address[DW] ? product_flops(call) : 0;
  }

  const float* prepare(const Call& call, bool backward) override {
    return backward ? nullptr : packed_weights(sums_of_inputs(call), call.threads);
  }

  void samples(const JointCall& joint, int64_t first, int64_t count) override {
    const Call& call = joint.call;
    if (!joint.backward) {
      MatrixProduct p = sums_of_inputs(call);
      p.packed_b = joint.prepared;
      if (!is_identity(activation_)) p.activation = &activation_;
      return product_rows(p, first, count);
    }
    if (!is_identity(activation_)) activation_gradient(call, first, count, joint.kept + first * outputs_);
    if (call.address[DX]) product_rows(input_gradient(call, 0, call.batch, dz(joint), dz_stride(joint)), first, count);
  }

  void sums(const JointCall& joint, int64_t share, int64_t shares) override {
    const Call& call = joint.call;
    if (call.address[DW])
      product_share(weights_gradient(call, 0, call.batch, dz(joint), dz_stride(joint)), share, shares);
    if (call.address[DB]) {
      const int64_t blocks = (outputs_ + 15) / 16, first = blocks * share / shares * 16;
      const int64_t columns = std::min(outputs_, blocks * (share + 1) / shares * 16) - first;
      if (columns > 0)
        sum_rows(dz(joint) + first, dz_stride(joint), call.batch, columns, call.address[DB] + first, false);
    }
  }

  const float* dz(const JointCall& joint) const {
    return is_identity(activation_) ? joint.call.address[DY] : joint.kept;
  }
  int64_t dz_stride(const JointCall& joint) const {
    return is_identity(activation_) ? joint.call.stride[DY] : outputs_;
  }

  // ---- pieces of both ----

  // Floats everywhere, and no activation over all outputs of a sample.
  bool is_plain() const {
    return shape_.x.is_float32() && shape_.w.is_float32() && shape_.b.is_float32() && shape_.y.is_float32() &&
           !is_axis_wise(activation_);
  }

  // z = W x + b, to be activated.
  MatrixProduct sums_of_inputs(const Call& call) const {
    MatrixProduct p{call.batch,      outputs_, inputs_,         call.address[X], call.stride[X],
                    call.address[W], inputs_,  call.address[Y], call.stride[Y]};
    p.transpose_b = true;
    p.a_element = shape_.x;
    p.b_element = shape_.w;
    p.sums = is_stored(p) ? sums_of(p) : sums_of_rounded(shape_.bfloat16);
    p.column_bias = bias(call);
    if (!shape_.w_scales.empty()) p.b_scales = shape_.w_scales.data();
    return p;
  }

  // The weights as that product reads them, if they stay as they are; else null.
  const float* packed_weights(const MatrixProduct& p, int threads) const {
    const uint64_t version = weights_known_.version();
    if (version == 0 || !packs(p)) return nullptr;
    return packed_.get(version, kWeights, packed_b_floats(p), [&](float* to) { pack_matrix_b(p, to, threads); });
  }

  // dz of samples [first, first + count), [count][outputs]: as many at a time as lie side by side.
  void activation_gradient(const Call& call, int64_t first, int64_t count, float* dz) const {
    const bool packed = call.stride[Y] == outputs_ && call.stride[DY] == outputs_;
    const int64_t run = packed ? count : 1;
    for (int64_t n = 0; n < count; n += run)
      activation_backward_from_output(activation_, call.address[Y] + (first + n) * call.stride[Y],
                                      call.address[DY] + (first + n) * call.stride[DY], dz + n * outputs_,
                                      run * outputs_, outputs_);
  }

  // dx = W^T dz; dz: [count][stride]
  MatrixProduct input_gradient(const Call& call, int64_t first, int64_t count, const float* dz, int64_t stride) const {
    MatrixProduct p{count,          inputs_,         outputs_, dz,
                    stride,         call.address[W], inputs_,  call.address[DX] + first * call.stride[DX],
                    call.stride[DX]};
    p.sums = sums_of_rounded(shape_.bfloat16);
    p.accumulate = call.adds(DX);
    return p;
  }

  // dW = sum_n dz x^T
  MatrixProduct weights_gradient(const Call& call, int64_t first, int64_t count, const float* dz,
                                 int64_t stride) const {
    MatrixProduct p{outputs_,       inputs_,          count,  dz, stride, call.address[X] + first * call.stride[X],
                    call.stride[X], call.address[DW], inputs_};
    p.transpose_a = true;
    p.sums = sums_of_rounded(shape_.bfloat16);
    p.accumulate = first > 0 || call.adds(DW);
    return p;
  }

  // The bias as floats, null if there is none.
  const float* bias(const Call& call) const {
    const float* given = call.address[B];
    if (!given || shape_.b.is_float32()) return given;
    float* values = scratch(kBias, static_cast<size_t>(outputs_));
    decode(shape_.b, given, outputs_, values);
    return values;
  }

  // An activation over all outputs of a sample needs them as floats.
  void forward_by_rows(const Call& call, MatrixProduct p) const {
    if (!shape_.y.is_float32()) {
      p.c = scratch(kActivated, static_cast<size_t>(call.batch * outputs_));
      p.ldc = outputs_;
    }
    matrix_product(p, call.threads);
    parallel_items(threads_for(call, call.batch), call.batch, [&](int64_t n) {
      float* y = p.c + n * p.ldc;
      activation_forward(activation_, y, y, outputs_, outputs_);
      if (!shape_.y.is_float32()) encode(shape_.y, y, outputs_, moved(call.address[Y], shape_.y, n * call.stride[Y]));
    });
  }

  // The part of the gradients that samples [first, first + count) contribute; dz: [count][stride].
  void gradients(const Call& call, int64_t first, int64_t count, const float* dz, int64_t stride) const {
    if (call.address[DX]) matrix_product(input_gradient(call, first, count, dz, stride), call.threads);
    if (call.address[DW]) matrix_product(weights_gradient(call, first, count, dz, stride), call.threads);
    if (call.address[DB]) {
      bool adds = first > 0 || call.adds(DB);
      over_columns(outputs_, threads_for(call, count), [&](int64_t column, int64_t columns) {
        sum_rows(dz + column, stride, count, columns, call.address[DB] + column, adds);
      });
    }
  }

  double product_flops(const Call& call) const {
    return 2.0 * static_cast<double>(call.batch * inputs_) * static_cast<double>(outputs_);
  }

  // For passes over [rows][outputs]: a few operations per element.
  int threads_for(const Call& call, int64_t rows) const {
    return useful_threads(call.threads, 10.0 * static_cast<double>(rows) * static_cast<double>(outputs_));
  }

  const int64_t inputs_, outputs_;
  const FullyConnectedShape shape_;
  const ActivationSpec activation_;
  PlanWeights weights_known_;
  KeptWeights packed_;
};

}  // namespace

std::unique_ptr<Plan> make_fully_connected(const FullyConnectedShape& shape, const ActivationSpec& activation) {
  return std::make_unique<FullyConnected>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
