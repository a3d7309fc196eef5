// h = first(x), y = max over 2 x 2 pixels of f(normalize(h)), and their gradients: see PoolablePlan.
#include "kernels/normalization/pooled.h"

#include <utility>

#include "common/kept_memory.h"
#include "common/scratch_uses.h"
#include "kernels/fused/fused.h"
#include "runtime/fork.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// dh, made where the first layer asks for it.
class GradientMaker final : public PixelMaker {
 public:
  GradientMaker(const PooledNormalizer& normalizer, const PooledNormalizer::Backward& from)
      : normalizer_(normalizer), from_(from) {}
  void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const override {
    normalizer_.input_gradient(n, channel, first, count, from_, pixels);
  }

 private:
  const PooledNormalizer& normalizer_;
  const PooledNormalizer::Backward from_;
};

class FusedPooled final : public Plan {
 public:
  FusedPooled(std::shared_ptr<Plan> first, const NormalizationShape& shape, const ActivationSpec& activation)
      : first_(std::move(first)),
        watched_(dynamic_cast<WatchedPlan*>(first_.get())),
        state_([=] { return std::unique_ptr<State>(new State{{shape, activation}, {}, {}}); }),
        channels_(shape.channels),
        plane_(shape.height * shape.width),
        sample_(channels_ * plane_) {}

  void forward(const Call& call) override {
    NormalizationForward last = normalization_forward(call, kSlots);
    if (!call.training) {
      float* h = scratch(kBoundaryGradient, static_cast<size_t>(call.batch * sample_));
      return run(state_.unlocked().normalizer, call, {h, sample_}, last);
    }
    auto state = state_.lock();
    state->normalizer.forget();
    state->boundary = {state->memory.room(call.batch * sample_, nullptr, call.address[kFusedBoundary]), sample_};
    run(state->normalizer, call, state->boundary, last);
  }

  // y = max of f(normalize(h)): dbeta, dgamma and dh; h = first(x): the rest, with dh arriving.
  void backward(const Call& call) override {
    auto state = state_.lock();
    const PooledNormalizer& normalizer = state->normalizer;
    if (normalizer.trained_batch() != call.batch) throw ForwardLost();
    state->memory.require(call.address[kFusedBoundary]);
    NormalizationBackward last = normalization_backward(call, kSlots);
    last.x = state->boundary;
    if (!call.address[DX] && !call.address[DW] && !call.address[DB]) return normalizer.backward(last);
    Call from = first_layer_call(call);
    if (watched_ && !call.address[DX]) {
      const GradientMaker dh(normalizer, normalizer.sum_gradients(last));
      if (watched_->backward_made(from, dh)) return;
    }
    float* dh = boundary_gradient(call, call.batch * sample_);
    last.dx = {dh, sample_};
    normalizer.backward(last);
    from.address[Y] = state->boundary.data;
    from.stride[Y] = state->boundary.stride;
    from.address[DY] = dh;
    from.stride[DY] = sample_;
    first_->backward(from);
  }

  int64_t trained_batch() override { return state_.lock()->normalizer.trained_batch(); }
  void forget() override { state_.lock()->normalizer.forget(); }

 private:
  static constexpr NormalizationSlots kSlots = fused_slots(Y, DY);

  // h = first(x), then y from h
  void run(PooledNormalizer& normalizer, const Call& call, Samples h, NormalizationForward& last) {
    Call into = first_layer_call(call);
    into.address[Y] = h.data;
    into.stride[Y] = h.stride;
    last.x = h;
    if (watched_ && call.training)
      last.measured =
          watched_->forward_watched(into, PlaneMeasure(h, channels_, plane_, normalizer.plane_moments(call.batch)));
    else
      first_->forward(into);
    normalizer.forward(last);
  }

  const std::shared_ptr<Plan> first_;
  WatchedPlan* const watched_;  // the first layer, if it tells of planes that are complete
  struct State {
    PooledNormalizer normalizer;
    KeptMemory memory;
    Samples boundary;  // h of the latest training forward
  };
  ForkSafe<State> state_;  // two threads on one filter in training are a mistake, but must not crash
  const int64_t channels_, plane_, sample_;
};

}  // namespace

std::shared_ptr<Plan> make_pooled(std::shared_ptr<Plan> first, const NormalizationShape& shape,
                                  const ActivationSpec& activation) {
  if (!PooledNormalizer::takes(shape, activation)) return nullptr;
  return std::make_shared<FusedPooled>(std::move(first), shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
