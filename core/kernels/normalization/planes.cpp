// Batch, instance and group normalization of planes of pixels: gamma and beta are constant within a plane.
//
// A set of statistics is a list of planes. Usually one worker takes a set through both of its sweeps, the second of
// which then finds the data in the cache; with too few sets for that, the workers share the units of all planes
// instead, sweep by sweep. Both orders add up the same numbers in the same sequence.
#include <algorithm>

#include "common/scratch_uses.h"
#include "kernels/normalization/normalization.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {
namespace {

constexpr int64_t kUnit = 16384;     // pixels of a plane that one worker takes at a time
constexpr int64_t kRun = 4096;       // floats that should lie side by side
constexpr int64_t kCached = 131072;  // floats of one tensor in the cache
constexpr int64_t kSettled = 32;     // sets whose sums are put together at a time,
constexpr int64_t kParts = 2048;     // in parallel from so many sums on

class Planes final : public NormalizationForm {
 public:
  Planes(const NormalizationShape& s, const ActivationSpec& activation)
      : shape_(s),
        activation_(activation, s.slope_from_input),
        pixels_(s.height * s.width),
        units_((pixels_ + kUnit - 1) / kUnit),
        groups_(s.kind == kInstanceNorm ? s.channels : s.groups),
        group_size_(s.channels / groups_) {}

  void forward(const NormalizationForward& call) override {
    const Sets sets = sets_of(call.batch);
    std::vector<Statistics> passing;  // of an inference, which must not disturb what training kept
    std::vector<Statistics>& statistics = call.training ? statistics_ : passing;
    statistics.resize(static_cast<size_t>(sets.count));
    Moments* moments = call.measured ? measured_.data() : moments_room(call.batch);
    const bool measures = !(uses_moving_mean(shape_, call) && uses_moving_variance(shape_, call));
    const int64_t size = call.batch * shape_.channels * pixels_;
    const Streams streams{size >= stream_from(), size >= keep_stream_from()};

    // moments[(n * channels + c) * units + u]; the total of a set replaces its first one
    auto make = [&](const Place& p, int64_t u) {
      if (call.maker) call.maker->make(p.n, p.channel, u * kUnit, unit_size(u));
    };
    auto measure = [&](const Place& p, int64_t u) {
      make(p, u);
      moments[p.index * units_ + u] = moments_of(plane(call.x, p) + u * kUnit, unit_size(u));
    };
    auto settle = [&](int64_t s) {
      const Place first = first_of(s);
      const int64_t step = after(first).index - first.index;
      const Moments* parts = moments + first.index * units_;
      const Moments total = merged(measures ? sets.planes * units_ : 0, [&](int64_t i) -> const Moments& {
        return units_ == 1 ? parts[i * step] : parts[i / units_ * step * units_ + i % units_];
      });
      statistics[static_cast<size_t>(s)] = choose_statistics(shape_, call, total, first.channel);
      moments[first.index * units_] = total;
    };
    auto write = [&](const Place& p, int64_t u) {
      if (!measures) make(p, u);
      float* keep = call.training ? plane(call.keep, p) + u * kUnit : nullptr;
      write_unit(call, p, u, statistics[static_cast<size_t>(p.set)], keep, streams);
    };
    sweep(call.batch, call.threads, measures && !call.measured, call.measured, streams.result, measure, settle, write);
    if (call.training && has_moving(shape_)) {
      // the totals, gathered at the front; a set's first plane is never before the set
      for (int64_t s = 0; s < sets.count; s++) moments[s] = moments[first_of(s).index * units_];
      update_moving(shape_, call, moments);
    }
  }

  void repeat(const NormalizationForward& call) const override {
    const Streams streams{call.batch * shape_.channels * pixels_ >= stream_from(), false};
    auto nothing = [](auto...) {};
    auto write = [&](const Place& p, int64_t u) {
      write_unit(call, p, u, statistics_[static_cast<size_t>(p.set)], nullptr, streams);
    };
    sweep(call.batch, call.threads, false, true, streams.result, nothing, nothing, write);
  }

  // y = f(z), z = gamma * xhat + beta: dbeta = sum dz, dgamma = sum dz * xhat; with g = gamma * dz,
  // xhat = (x - mean) * inverse: dx = (g - mean(g) - xhat * mean(g * xhat)) * inverse, means over the set.
  void backward(const NormalizationBackward& call) const override {
    const Sets sets = sets_of(call.batch);
    const int64_t planes = call.batch * shape_.channels;
    GradientSums* sums = scratch_of<GradientSums>(kNormalizationSums, planes * units_);
    InputGradient* gradients = scratch_of<InputGradient>(kNormalizationValues, planes);
    const bool stream = !call.add_dx && planes * pixels_ >= stream_from();
    auto affine = [&](const Place& p) {
      return make_affine(statistics_[static_cast<size_t>(p.set)], call.gamma ? call.gamma[p.channel] : 1,
                         call.beta ? call.beta[p.channel] : 0);
    };
    auto run = [&](const Place& p, int64_t u) {
      const bool reads_output = activation_.needs_output() && call.y.data;
      BackwardRun whole{plane(call.x, p), reads_output ? plane(call.y, p) : nullptr, plane(call.dy, p), pixels_};
      return whole.from(u * kUnit, unit_size(u));
    };

    auto measure = [&](const Place& p, int64_t u) {
      sums[p.index * units_ + u] = gradient_sums(activation_, affine(p), run(p, u));
    };
    auto settle = [&](int64_t s) {
      const Statistics& statistics = statistics_[static_cast<size_t>(s)];
      double g = 0, g_xhat = 0;
      const Place first = first_of(s);
      Place p = first;
      for (int64_t j = 0; j < sets.planes; j++, p = after(p)) {
        GradientSums& total = sums[p.index * units_];
        for (int64_t u = 1; u < units_; u++) total.add(sums[p.index * units_ + u]);
        total.dz_distance = total.dz_distance * static_cast<double>(statistics.inverse) +
                            total.dz * static_cast<double>(statistics.offset);  // now the sum of dz * xhat
        double gamma = call.gamma ? static_cast<double>(call.gamma[p.channel]) : 1;
        g += gamma * total.dz;
        g_xhat += gamma * total.dz_distance;
      }
      const double count = static_cast<double>(sets.planes * pixels_), mean_g = g / count, mean_g_xhat = g_xhat / count;
      p = first;
      for (int64_t j = 0; j < sets.planes; j++, p = after(p)) {
        double gamma = call.gamma ? static_cast<double>(call.gamma[p.channel]) : 1;
        gradients[p.index] = make_input_gradient(statistics, gamma, mean_g, mean_g_xhat);
      }
    };
    auto write = [&](const Place& p, int64_t u) {
      if (call.taker) {
        const int64_t from = u * kUnit, count = unit_size(u);
        float* dx = scratch(kBoundaryGradient, static_cast<size_t>(std::min(kUnit, pixels_)));
        input_gradient(activation_, affine(p), gradients[p.index], run(p, u), dx, false, false);
        return call.taker->take(p.n, p.channel, from, count, plane(call.x, p) + from, dx);
      }
      if (!call.dx.data) return;
      input_gradient(activation_, affine(p), gradients[p.index], run(p, u), plane(call.dx, p) + u * kUnit, call.add_dx,
                     stream);
    };
    sweep(call.batch, call.threads, true, call.by_samples, stream, measure, settle, write);
    write_parameter_gradients(call, sums);
  }

  bool plane_wise() const override { return true; }
  Moments* plane_moments(int64_t batch) const override {
    if (units_ != 1) return nullptr;
    measured_.resize(static_cast<size_t>(batch * shape_.channels));
    return measured_.data();
  }

 private:
  struct Sets {
    int64_t count, planes;  // planes of each
  };
  struct Place {
    int64_t n, channel, set, index;  // index = n * channels + channel
  };

  Sets sets_of(int64_t batch) const {
    if (shape_.kind == kBatchNorm) return {shape_.channels, batch};
    return {batch * groups_, group_size_};
  }
  // The first plane of set s, and the plane of the same set after p.
  Place first_of(int64_t s) const {
    if (shape_.kind == kBatchNorm) return {0, s, s, s};
    return {s / groups_, s % groups_ * group_size_, s, s * group_size_};
  }
  Place after(const Place& p) const {
    if (shape_.kind == kBatchNorm) return {p.n + 1, p.channel, p.set, p.index + shape_.channels};
    return {p.n, p.channel + 1, p.set, p.index + 1};
  }
  // Plane `index` of the batch, and the plane after p in memory.
  Place at(int64_t index) const {
    const int64_t n = index / shape_.channels, channel = index % shape_.channels;
    return {n, channel, shape_.kind == kBatchNorm ? channel : index / group_size_, index};
  }
  Place beside(const Place& p) const {
    const bool next = p.channel + 1 == shape_.channels;
    const int64_t channel = next ? 0 : p.channel + 1, index = p.index + 1;
    const int64_t set = shape_.kind == kBatchNorm ? channel : group_size_ == 1 ? index : index / group_size_;
    return {p.n + next, channel, set, index};
  }
  void write_unit(const NormalizationForward& call, const Place& p, int64_t u, const Statistics& s, float* keep,
                  Streams streams) const {
    const float gamma = call.gamma ? call.gamma[p.channel] : 1, beta = call.beta ? call.beta[p.channel] : 0;
    const int64_t from = u * kUnit;
    normalize(activation_, make_affine(s, gamma, beta), plane(call.x, p) + from, plane(call.y, p) + from, keep,
              unit_size(u), streams);
  }

  int64_t unit_size(int64_t u) const { return std::min(kUnit, pixels_ - u * kUnit); }

  // [batch][channels][units]
  Moments* moments_room(int64_t batch) const {
    return scratch_of<Moments>(kNormalizationSums, std::max(sets_of(batch).count, batch * shape_.channels * units_));
  }

  const float* plane(const ConstSamples& t, const Place& p) const { return t.sample(p.n) + p.channel * pixels_; }
  float* plane(const Samples& t, const Place& p) const { return t.sample(p.n) + p.channel * pixels_; }

  // Sets that make one item. Channels of a batch normalization go through memory together: small planes of one channel
  // lie far apart, those of neighbouring channels side by side. Their data should fit the second-level cache.
  int64_t sets_at_once(const Sets& sets, int workers) const {
    const int64_t set = std::max<int64_t>(1, sets.planes * pixels_);
    const int64_t wished =
        shape_.kind == kBatchNorm ? std::min((kRun + pixels_ - 1) / pixels_, kCached / set) : kUnit / set;
    return even_group(sets.count, std::max<int64_t>(1, std::min(wished, sets.count / (2 * workers))), workers);
  }

  // body(place, unit) for the planes of sets [from, to); those of a batch normalization sample by sample
  template <class Body>
  void each_plane(int64_t from, int64_t to, int64_t planes, Body body) const {
    auto units = [&](const Place& p) {
      for (int64_t u = 0; u < units_; u++) body(p, u);
    };
    if (shape_.kind == kBatchNorm) {
      for (int64_t n = 0; n < planes; n++)
        for (int64_t c = from; c < to; c++) units({n, c, c, n * shape_.channels + c});
      return;
    }
    for (int64_t s = from; s < to; s++) {
      Place p = first_of(s);
      for (int64_t j = 0; j < planes; j++, p = after(p)) units(p);
    }
  }

  // Measure every unit (if asked to), settle every set, write every unit. Whole sets are taken through all of it one
  // after the other, unless there are too few of them for all workers or the caller wants every worker to stay with
  // samples, as they are shared out in other layers.
  template <class Measure, class Settle, class Write>
  void sweep(int64_t batch, int threads, bool measures, bool by_samples, bool streams, Measure measure, Settle settle,
             Write write) const {
    const Sets sets = sets_of(batch);
    const int64_t planes = batch * shape_.channels;
    const int workers = workers_for(planes * pixels_, threads);
    const bool whole_sets = workers == 1 || sets.count % workers == 0 || sets.count >= 4 * workers;
    if (whole_sets && !by_samples) {
      const int64_t width = sets_at_once(sets, workers);
      dynamic_items(workers, (sets.count + width - 1) / width, [&](int64_t item) {
        const int64_t first = item * width, last = std::min(sets.count, first + width);
        const int64_t together = shape_.kind == kBatchNorm ? width : 1;
        for (int64_t from = first; from < last; from += together) {
          const int64_t to = std::min(last, from + together);
          if (measures) each_plane(from, to, sets.planes, measure);
          for (int64_t s = from; s < to; s++) settle(s);
          each_plane(from, to, sets.planes, write);
        }
        if (streams) finish_stream();
      });
      return;
    }
    const int64_t units = planes * units_, most = units_ > 1 ? 1 : std::max<int64_t>(1, kRun / pixels_);
    const int64_t each = even_group(units, most, workers), items = (units + each - 1) / each;  // units of an item
    auto take = [&](int64_t item, auto& body) {
      const int64_t first = item * each, last = std::min(units, first + each);
      Place p = at(first / units_);
      for (int64_t i = first; i < last; i++, p = beside(p)) body(p, units_ > 1 ? i % units_ : 0);
    };
    if (measures) dynamic_items(workers, items, [&](int64_t item) { take(item, measure); });
    const int64_t blocks = (sets.count + kSettled - 1) / kSettled;
    dynamic_items(units >= kParts ? workers : 1, blocks, [&](int64_t b) {
      for (int64_t s = b * kSettled; s < std::min(sets.count, (b + 1) * kSettled); s++) settle(s);
    });
    dynamic_items(workers, items, [&](int64_t item) {
      take(mirrored(item, items, workers), write);
      if (streams) finish_stream();
    });
  }

  // sums[(n * channels + c) * units]: of dz and of dz * xhat
  void write_parameter_gradients(const NormalizationBackward& call, const GradientSums* sums) const {
    if (!call.dbeta && !call.dgamma) return;
    for (int64_t c = 0; c < shape_.channels; c++) {
      GradientSums total;
      for (int64_t n = 0; n < call.batch; n++) total.add(sums[(n * shape_.channels + c) * units_]);
      if (call.dbeta) call.dbeta[c] = static_cast<float>(total.dz) + (call.add_dbeta ? call.dbeta[c] : 0);
      if (call.dgamma) call.dgamma[c] = static_cast<float>(total.dz_distance) + (call.add_dgamma ? call.dgamma[c] : 0);
    }
  }

  const NormalizationShape shape_;
  const FusedActivation activation_;
  const int64_t pixels_, units_, groups_, group_size_;
  mutable std::vector<Moments> measured_;  // of the planes, by whoever made them
  std::vector<Statistics> statistics_;     // of the sets of the latest training forward
};

}  // namespace

std::unique_ptr<NormalizationForm> make_planes(const NormalizationShape& shape, const ActivationSpec& activation) {
  return std::make_unique<Planes>(shape, activation);
}

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
