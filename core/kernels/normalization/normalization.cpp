#include "kernels/normalization/normalization.h"

#include <algorithm>

#include "common/kept_memory.h"
#include "common/repeatable.h"
#include "kernels/kernels.h"
#include "runtime/caches.h"
#include "runtime/fork.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {

int64_t stream_from() {
  const int64_t floats = last_level_cache_bytes() / static_cast<int64_t>(sizeof(float));
  if (floats == 0) return kStreamFrom;
  return std::min(floats / 6, std::max(kStreamFrom, floats / 20));
}

Statistics choose_statistics(const NormalizationShape& s, const NormalizationForward& call, const Moments& m,
                             int64_t channel) {
  double mean = uses_moving_mean(s, call) ? static_cast<double>(call.moving_mean[channel]) : m.mean;
  double variance = uses_moving_variance(s, call) ? static_cast<double>(call.moving_variance[channel]) : m.variance();
  return make_statistics(mean, variance, s.epsilon);
}

void update_moving(const NormalizationShape& s, const NormalizationForward& call, const Moments* sets) {
  if (!call.training || !has_moving(s) || !(call.moving_mean || call.moving_variance)) return;
  const int64_t samples = s.kind == kBatchNorm ? 1 : call.batch;
  const double keep = s.torch_moving ? 1.0 - static_cast<double>(s.momentum) : static_cast<double>(s.momentum);
  auto blend = [&](float& moving, double current) {
    moving = static_cast<float>(keep * static_cast<double>(moving) + (1.0 - keep) * current);
  };
  for (int64_t c = 0; c < s.channels; c++) {
    double mean = 0, variance = 0;
    for (int64_t n = 0; n < samples; n++) {
      const Moments& m = sets[n * s.channels + c];
      double divisor = static_cast<double>(s.torch_moving && m.count > 1 ? m.count - 1 : m.count);
      mean += m.mean;
      variance += m.squares / divisor;
    }
    if (call.moving_mean) blend(call.moving_mean[c], mean / static_cast<double>(samples));
    if (call.moving_variance) blend(call.moving_variance[c], variance / static_cast<double>(samples));
  }
}

namespace {

// Planes of fewer pixels than this are not worth a loop of their own.
constexpr int64_t kSmallPlane = 200, kSmallBatchPlane = 128;

std::unique_ptr<NormalizationForm> make_form(const NormalizationShape& s, const ActivationSpec& activation) {
  if (s.kind == kLayerNorm) return make_rows(s, activation);
  const int64_t pixels = s.height * s.width;
  if (s.kind == kBatchNorm) return pixels < kSmallBatchPlane ? make_columns(s, activation) : make_planes(s, activation);
  return pixels < kSmallPlane ? make_rows(s, activation) : make_planes(s, activation);
}

}  // namespace
}  // namespace normalization

Normalizer::Normalizer(const NormalizationShape& shape, const ActivationSpec& activation)
    : form_(normalization::make_form(shape, activation)),
      needs_output_(!is_identity(activation) && !shape.slope_from_input) {}

void Normalizer::forward(const NormalizationForward& call) {
  if (call.training) trained_batch_ = 0;
  form_->forward(call);
  if (call.training) trained_batch_ = call.batch;
}

NormalizationForward normalization_forward(const Call& call, const NormalizationSlots& slots) {
  NormalizationForward result;
  result.batch = call.batch;
  result.threads = call.threads;
  result.training = call.training;
  result.y = {call.address[slots.y], call.stride[slots.y]};
  result.beta = call.address[slots.beta];
  result.gamma = call.address[slots.gamma];
  result.moving_mean = call.address[slots.moving_mean];
  result.moving_variance = call.address[slots.moving_variance];
  return result;
}

NormalizationBackward normalization_backward(const Call& call, const NormalizationSlots& slots) {
  NormalizationBackward result;
  result.batch = call.batch;
  result.threads = call.threads;
  result.dy = {call.address[slots.dy], call.stride[slots.dy]};
  result.beta = call.address[slots.beta];
  result.gamma = call.address[slots.gamma];
  result.dbeta = call.address[slots.dbeta];
  result.dgamma = call.address[slots.dgamma];
  result.add_dbeta = call.adds(slots.dbeta);
  result.add_dgamma = call.adds(slots.dgamma);
  return result;
}

namespace {

class NormalizationPlan final : public Plan, public Repeatable {
 public:
  NormalizationPlan(const NormalizationShape& shape, const ActivationSpec& activation)
      : state_([=] { return std::unique_ptr<State>(new State{{shape, activation}, {}, {}}); }),
        sample_(shape.channels * shape.height * shape.width) {}

  void forward(const Call& call) override {
    NormalizationForward f = normalization_forward(call, kSlots);
    f.x = {call.address[X], call.stride[X]};
    if (!call.training) return state_.unlocked().normalizer.forward(f);
    auto state = state_.lock();
    state->normalizer.forget();
    float* lent = call.address[kKeptInput];
    state->kept = {state->memory.room(call.batch * sample_, f.y.data, lent), lent ? call.stride[kKeptInput] : sample_};
    f.keep = state->kept;
    state->normalizer.forward(f);
  }

  void repeat(const Call& call) override {
    auto state = state_.lock();
    state->require_forward(call);
    NormalizationForward f = normalization_forward(call, kSlots);
    f.x = state->kept;
    state->normalizer.repeat(f);
  }

  void backward(const Call& call) override {
    auto state = state_.lock();
    state->require_forward(call);
    NormalizationBackward b = normalization_backward(call, kSlots);
    b.x = state->kept;
    b.y = {call.address[Y], call.stride[Y]};
    b.dx = {call.address[DX], call.stride[DX]};
    b.add_dx = call.adds(DX);
    state->normalizer.backward(b);
  }

  int64_t trained_batch() override { return state_.lock()->normalizer.trained_batch(); }
  void forget() override { state_.lock()->normalizer.forget(); }

 private:
  static constexpr NormalizationSlots kSlots{Y, DY, B, W, DB, DW, kMovingMean, kMovingVariance};

  struct State {
    Normalizer normalizer;
    KeptMemory memory;
    Samples kept;

    void require_forward(const Call& call) const {
      if (normalizer.trained_batch() != call.batch) throw ForwardLost();
      memory.require(call.address[kKeptInput]);
    }
  };
  ForkSafe<State> state_;  // two threads on one filter in training are a mistake, but must not crash
  const int64_t sample_;
};

}  // namespace

std::unique_ptr<Plan> make_normalization(const NormalizationShape& shape, const ActivationSpec& activation) {
  return std::make_unique<NormalizationPlan>(shape, activation);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
