// Fused chains: h = first(inputs), y = f(normalize(h)), and their gradients.
//
// In training h goes to memory of the plan or of the caller, where backward finds it; nothing else between the layers
// outlives a call.
// In inference h goes to y, which is normalized in place. Arithmetic of planes is computed inside the sweeps of the
// normalization: h is measured while it is in the cache, and its gradient is never in memory.
#include "kernels/fused/fused.h"

#include <algorithm>
#include <utility>

#include "common/kept_memory.h"
#include "common/poolable.h"
#include "common/repeatable.h"
#include "common/scratch_uses.h"
#include "kernels/fused/arithmetic.h"
#include "kernels/kernels.h"
#include "kernels/normalization/normalization.h"
#include "runtime/fork.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kCachedFloats = 1 << 18;  // of one tensor, in the cache of one worker

class ArithmeticMaker final : public PlaneMaker {
 public:
  ArithmeticMaker(const PlaneArithmetic& arithmetic, const Call& call, Samples h, int64_t plane)
      : arithmetic_(arithmetic), call_(call), h_(h), plane_(plane) {}
  void make(int64_t n, int64_t channel, int64_t first, int64_t count) const override {
    arithmetic_.forward(call_, n, channel, first, count, h_.sample(n) + channel * plane_ + first);
  }

 private:
  const PlaneArithmetic& arithmetic_;
  const Call& call_;
  const Samples h_;
  const int64_t plane_;
};

class ArithmeticTaker final : public PlaneTaker {
 public:
  ArithmeticTaker(const PlaneArithmetic& arithmetic, const Call& call, bool stream)
      : arithmetic_(arithmetic), call_(call), stream_(stream) {}
  void take(int64_t n, int64_t channel, int64_t first, int64_t count, const float* h, const float* dh) const override {
    arithmetic_.backward(call_, n, channel, first, count, h, dh, stream_);
  }

 private:
  const PlaneArithmetic& arithmetic_;
  const Call& call_;
  const bool stream_;
};

class Fused final : public PoolablePlan, public Repeatable {
 public:
  Fused(const FusedShape& shape, const ActivationSpec& activation)
      : first_(shape.first),
        shape_(shape),
        slots_(fused_slots(OUT, shape.arithmetic ? static_cast<int>(DOUT) : static_cast<int>(DY))),
        activation_(activation),
        state_([=] { return std::unique_ptr<State>(new State{{shape.normalization, activation}, {}, {}}); }),
        plane_(shape.normalization.height * shape.normalization.width),
        sample_(shape.normalization.channels * plane_) {
    const ArithmeticShape* arithmetic = first_->plain_arithmetic();
    if (arithmetic && state_.unlocked().normalizer.plane_wise() && PlaneArithmetic::takes(*arithmetic))
      arithmetic_ = std::make_unique<PlaneArithmetic>(*arithmetic);
    watched_ = dynamic_cast<WatchedPlan*>(first_.get());
  }

  void forward(const Call& call) override {
    NormalizationForward last = normalization_forward(call, slots_);
    if (!call.training) {
      last.x = last.y;
      return normalize(state_.unlocked().normalizer, call, last.y, last);
    }
    auto state = state_.lock();
    state->normalizer.forget();
    state->boundary = {state->memory.room(call.batch * sample_, last.y.data, call.address[kFusedBoundary]), sample_};
    last.x = last.keep = state->boundary;
    normalize(state->normalizer, call, state->boundary, last);
  }

  void repeat(const Call& call) override {
    auto state = state_.lock();
    state->require_forward(call);
    NormalizationForward last = normalization_forward(call, slots_);
    last.x = state->boundary;
    state->normalizer.repeat(last);
  }

  // y = f(normalize(h)): dbeta, dgamma and dh; h = first(inputs): the rest, with dh arriving.
  void backward(const Call& call) override {
    auto state = state_.lock();
    const Normalizer& normalizer = state->normalizer;
    state->require_forward(call);
    NormalizationBackward last = normalization_backward(call, slots_);
    last.x = state->boundary;
    last.y = {call.address[OUT], call.stride[OUT]};
    last.by_samples = watched_ && call.batch * sample_ <= call.threads * kCachedFloats;
    if (!reaches_first(call)) return normalizer.backward(last);

    if (arithmetic_ && arithmetic_->gives_gradients(call)) {
      ArithmeticTaker taker(*arithmetic_, call, call.batch * sample_ >= kStreamFrom);
      last.taker = &taker;
      return normalizer.backward(last);
    }
    float* dh = boundary_gradient(call, call.batch * sample_);
    last.dx = {dh, sample_};
    normalizer.backward(last);
    Call from = first_layer_call(call);
    from.address[OUT] = state->boundary.data;
    from.stride[OUT] = state->boundary.stride;
    from.address[slots_.dy] = dh;
    from.stride[slots_.dy] = sample_;
    first_->backward(from);
  }

  std::shared_ptr<Plan> pooled() const override {
    return shape_.arithmetic ? nullptr : make_pooled(first_, shape_.normalization, activation_);
  }

  void keep_weights(bool keep) override { first_->keep_weights(keep); }
  int64_t trained_batch() override { return state_.lock()->normalizer.trained_batch(); }
  void forget() override { state_.lock()->normalizer.forget(); }

 private:
  // h = first(inputs), then y from h
  void normalize(Normalizer& normalizer, const Call& call, Samples h, NormalizationForward& last) {
    if (arithmetic_) {
      ArithmeticMaker maker(*arithmetic_, call, h, plane_);
      last.maker = &maker;
      return normalizer.forward(last);
    }
    Call into = first_layer_call(call);
    into.address[OUT] = h.data;
    into.stride[OUT] = h.stride;
    if (normalization::Moments* moments = watched_ && call.training ? normalizer.plane_moments(call.batch) : nullptr)
      last.measured = watched_->forward_watched(into, PlaneMeasure(h, shape_.normalization.channels, plane_, moments));
    else
      first_->forward(into);
    normalizer.forward(last);
  }

  bool reaches_first(const Call& call) const {
    if (shape_.arithmetic) return call.address[DA0] || call.address[DA1] || call.address[DA2];
    return call.address[DX] || call.address[DW] || call.address[DB];
  }

  const std::shared_ptr<Plan> first_;
  const FusedShape shape_;
  const NormalizationSlots slots_;
  const ActivationSpec activation_;
  struct State {
    Normalizer normalizer;
    KeptMemory memory;
    Samples boundary;  // h of the latest training forward

    void require_forward(const Call& call) const {
      if (normalizer.trained_batch() != call.batch) throw ForwardLost();
      memory.require(call.address[kFusedBoundary]);
    }
  };
  ForkSafe<State> state_;  // two threads on one filter in training are a mistake, but must not crash
  const int64_t plane_, sample_;
  WatchedPlan* watched_ = nullptr;               // the first layer, if it tells of planes that are complete
  std::unique_ptr<PlaneArithmetic> arithmetic_;  // if the first layer is computed piece by piece
};

}  // namespace

std::unique_ptr<Plan> make_fused(const FusedShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Fused>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
