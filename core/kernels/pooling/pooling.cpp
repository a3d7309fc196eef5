// z = pool(x) + b, y = f(z), plane by plane; see PoolingShape for the tensors and the meaning of indices.
//
// A window without a cell in the plane pools to 0. Indices that point outside the plane are left out in backward.
#include "common/lazy.h"
#include "kernels/activation/activation.h"
#include "kernels/kernels.h"
#include "kernels/pooling/methods.h"
#include "runtime/thread_pool.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using pooling::Method;
using pooling::Use;

constexpr int64_t kSerialElements = 32768;

// Fastest first; the last takes every shape.
constexpr const pooling::MethodEntry* kMethods[] = {
    &pooling::kByIndices, &pooling::kDisjoint,     &pooling::kLanes,     &pooling::kPlaneMaximum, &pooling::kPairs,
    &pooling::kTriples,   &pooling::kPlaneAverage, &pooling::kSeparable, &pooling::kAnyWindows};
constexpr size_t kCount = std::size(kMethods);

class Pooling final : public Plan {
 public:
  Pooling(const PoolingShape& shape, const ActivationSpec& activation) : p_(shape), activation_(activation) {
    choose(Use::kValues);
    choose(Use::kGradient);
    if (shape.function != pooling::kMax) return;
    choose(Use::kIndices);
    choose(Use::kGradientByIndices);
  }

  void forward(const Call& call) override {
    const Use use = has_indices(call) ? Use::kIndices : Use::kValues;
    const Method& method = *chosen_[static_cast<size_t>(use)];
    for_each_range(call, method, [&](int64_t first, int64_t last) {
      const pooling::Scratch work = method.scratch(use);
      for_each_group(method, first, last, [&](int64_t n, int64_t c, int64_t planes) {
        float* y = output(call, Y, n, c);
        const float* bias = call.address[B] ? call.address[B] + c : nullptr;
        method.forward(work, {planes, input(call, X, n, c), bias, indices(call, n, c), y});
        if (!is_identity(activation_))
          activation_forward(activation_, y, y, planes * p_.out_plane(), p_.shape.out_width);
      });
    });
  }

  void backward(const Call& call) override {
    const Use use = has_indices(call) ? Use::kGradientByIndices : Use::kGradient;
    const Method& method = *chosen_[static_cast<size_t>(use)];
    double* plane_sums = nullptr;  // [batch][channels] sums of dz
    if (call.address[DB])
      plane_sums = reinterpret_cast<double*>(
          scratch(kPartialSums, static_cast<size_t>(std::max<int64_t>(call.batch * p_.shape.channels, 1)) * 2));
    for_each_range(call, method, [&](int64_t first, int64_t last) {
      const pooling::Scratch work = call.address[DX] ? method.scratch(use) : pooling::Scratch{};
      const int64_t most = method.planes() * p_.out_plane();
      float* made_dz = is_identity(activation_) ? nullptr : pooling::float_scratch(kActivated, most);
      for_each_group(method, first, last, [&](int64_t n, int64_t c, int64_t planes) {
        const float* dz = output_gradient(call, n, c, planes, made_dz);
        if (plane_sums) sum_planes(dz, planes, plane_sums + n * p_.shape.channels + c);
        if (call.address[DX])
          method.backward(
              work, {planes, input(call, X, n, c), dz, indices(call, n, c), input(call, DX, n, c), call.adds(DX)});
      });
    });
    if (plane_sums) write_bias_gradient(call, plane_sums);
  }

 private:
  void choose(Use use) {
    size_t i = 0;
    while (!kMethods[i]->fits(p_, use)) i++;
    if (!methods_[i]) methods_[i] = kMethods[i]->make(p_);
    chosen_[static_cast<size_t>(use)] = methods_[i].get();
  }

  int64_t groups_of_sample(const Method& method) const {
    return (p_.shape.channels + method.planes() - 1) / method.planes();
  }
  // body(first, last) on threads for groups of planes that are worked on together
  template <class Body>
  void for_each_range(const Call& call, const Method& method, Body&& body) const {
    const bool small = call.batch * p_.shape.channels * (p_.in_plane() + p_.out_plane()) < kSerialElements;
    parallel_ranges(small ? 1 : call.threads, call.batch * groups_of_sample(method), body);
  }
  // body(sample, first channel, channels) for each of these
  template <class Body>
  void for_each_group(const Method& method, int64_t first, int64_t last, Body&& body) const {
    const int64_t size = method.planes(), per_sample = groups_of_sample(method);
    int64_t n = first / per_sample, c = first % per_sample * size;
    for (int64_t i = first; i < last; i++) {
      check_interruption();
      body(n, c, std::min(size, p_.shape.channels - c));
      if ((c += size) >= p_.shape.channels) {
        c = 0;
        n++;
      }
    }
  }

  bool has_indices(const Call& call) const {
    return p_.shape.function == pooling::kMax && call.address[kPoolingIndices];
  }
  float* input(const Call& call, int slot, int64_t n, int64_t c) const {
    return call.address[slot] ? call.address[slot] + n * call.stride[slot] + c * p_.in_plane() : nullptr;
  }
  float* output(const Call& call, int slot, int64_t n, int64_t c) const {
    return call.address[slot] + n * call.stride[slot] + c * p_.out_plane();
  }
  pooling::IndexPlane indices(const Call& call, int64_t n, int64_t c) const {
    const bool unpools = p_.shape.function == pooling::kUnMax;
    if (!unpools && !has_indices(call)) return {};
    const pooling::IndexPlane all{call.address[kPoolingIndices], p_.shape.wide_indices};
    return all.from(n * call.stride[kPoolingIndices] + c * (unpools ? p_.in_plane() : p_.out_plane()));
  }

  // y = f(z): dz = dy * f'(y); [planes][out_height][out_width]
  const float* output_gradient(const Call& call, int64_t n, int64_t c, int64_t planes, float* made_dz) const {
    const float* dy = output(call, DY, n, c);
    if (!made_dz) return dy;
    activation_backward_from_output(activation_, output(call, Y, n, c), dy, made_dz, planes * p_.out_plane(),
                                    p_.shape.out_width);
    return made_dz;
  }

  // sums [planes] of dz [planes][out_height][out_width]
  void sum_planes(const float* dz, int64_t planes, double* sums) const {
    for (int64_t p = 0; p < planes; p++) {
      double lanes[kWidth] = {};
      add_lanes(dz + p * p_.out_plane(), p_.out_plane(), lanes);
      sums[p] = sum_lanes(load_wide(lanes));
    }
  }

  // db(c) = sum over samples, in order, of the sums of their planes
  void write_bias_gradient(const Call& call, const double* plane_sums) const {
    for (int64_t c = 0; c < p_.shape.channels; c++) {
      double total = 0;
      for (int64_t n = 0; n < call.batch; n++) total += plane_sums[n * p_.shape.channels + c];
      float* db = call.address[DB] + c;
      *db = static_cast<float>(call.adds(DB) ? *db + total : total);
    }
  }

  const pooling::Problem p_;
  const ActivationSpec activation_;
  std::unique_ptr<Method> methods_[kCount];  // those that are used
  const Method* chosen_[4] = {};             // by Use
};

// Of an image so long that its tables are not made before there is a call.
class LatePooling final : public Plan {
 public:
  LatePooling(const PoolingShape& shape, const ActivationSpec& activation) : shape_(shape), activation_(activation) {}
  void forward(const Call& call) override { plan().forward(call); }
  void backward(const Call& call) override { plan().backward(call); }

 private:
  Pooling& plan() const {
    return plan_.get([&] { return std::make_unique<Pooling>(shape_, activation_); });
  }

  const PoolingShape shape_;
  const ActivationSpec activation_;
  const Lazy<Pooling> plan_;
};

constexpr int64_t kPrepared = 1 << 16;  // entries of tables that are made with the filter

}  // namespace

std::unique_ptr<Plan> make_pooling(const PoolingShape& shape, const ActivationSpec& activation) {
  const int64_t tables =
      shape.in_height + shape.in_width + shape.out_height + shape.out_width + shape.kernel_height * shape.kernel_width;
  if (tables <= kPrepared) return std::make_unique<Pooling>(shape, activation);
  return std::make_unique<LatePooling>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
