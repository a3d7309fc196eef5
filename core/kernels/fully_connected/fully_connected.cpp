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
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"
#include "runtime/weights_version.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kGradientFloats = int64_t{1} << 20;  // of dz kept at a time (4 MB)
constexpr int64_t kRunFloats = int64_t{1} << 12;       // of dz that one task makes

class FullyConnected : public Plan {
 public:
  FullyConnected(const FullyConnectedShape& shape, const ActivationSpec& activation)
      : inputs_(shape.inputs), outputs_(shape.outputs), shape_(shape), activation_(activation) {}

  // y[n][o] = f(sum_i x[n][i] w[o][i] + b[o])
  void forward(const Call& call) override {
    MatrixProduct p{call.batch,      outputs_, inputs_,         call.address[X], call.stride[X],
                    call.address[W], inputs_,  call.address[Y], call.stride[Y]};
    p.transpose_b = true;
    p.a_element = shape_.x;
    p.b_element = shape_.w;
    p.sums = sums_of(p);
    p.column_bias = bias(call);
    const uint64_t version = weights_known_.version();
    if (version != 0 && packs(p))
      p.packed_b =
          packed_.get(version, kWeights, packed_b_floats(p), [&](float* to) { pack_matrix_b(p, to, call.threads); });
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
      // As many samples at a time as lie side by side.
      const bool packed = call.stride[Y] == outputs_ && call.stride[DY] == outputs_;
      const int64_t run = packed ? kRunFloats / std::max<int64_t>(1, outputs_) + 1 : 1;
      parallel_items(threads_for(call, count), (count + run - 1) / run, [&](int64_t i) {
        const int64_t first = i * run, sample = n + first;
        activation_backward_from_output(activation_, call.address[Y] + sample * call.stride[Y],
                                        call.address[DY] + sample * call.stride[DY], dz + first * outputs_,
                                        std::min(run, count - first) * outputs_, outputs_);
      });
      gradients(call, n, count, dz, outputs_);
    }
  }

 private:
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
    const float* x = call.address[X] ? call.address[X] + first * call.stride[X] : nullptr;
    if (call.address[DX]) {
      MatrixProduct p{count,          inputs_,         outputs_, dz,
                      stride,         call.address[W], inputs_,  call.address[DX] + first * call.stride[DX],
                      call.stride[DX]};
      p.accumulate = call.adds(DX);
      matrix_product(p, call.threads);
    }
    if (call.address[DW]) {
      MatrixProduct p{outputs_, inputs_, count, dz, stride, x, call.stride[X], call.address[DW], inputs_};
      p.transpose_a = true;
      p.accumulate = first > 0 || call.adds(DW);
      matrix_product(p, call.threads);
    }
    if (call.address[DB]) {
      bool adds = first > 0 || call.adds(DB);
      over_columns(outputs_, threads_for(call, count), [&](int64_t column, int64_t columns) {
        sum_rows(dz + column, stride, count, columns, call.address[DB] + column, adds);
      });
    }
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
