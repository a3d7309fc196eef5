#include "kernels/normalization/runs.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/scratch_uses.h"
#include "runtime/scratch.h"
#include "simd/lanes.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace normalization {
namespace {

// Floats whose sums are taken in single precision, lane by lane, before they go to double; small enough for two sweeps
// in the first-level cache.
constexpr int64_t kBlock = 2048;

// Calls body(i, lanes) for all vectors of [0, count), four accumulators apart; lanes is kWidth but for the last.
template <class Full, class Part>
OPENBNNS_INLINE void over_four(int64_t count, Full full, Part part) {
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) OPENBNNS_UNROLL for (int k = 0; k < 4; k++) full(i + k * kWidth, k);
  for (; i + kWidth <= count; i += kWidth) full(i, 0);
  if (i < count) part(i, count - i);
}

OPENBNNS_INLINE float total(const Vec (&sums)[4]) { return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])); }

// Moments by way of the deviations from `shift`, which should be near the mean; whether it was near enough to lose
// nothing is the second result.
struct BlockMoments {
  Moments moments;
  bool near;
};
BlockMoments moments_about(float shift, const float* x, int64_t count) {
  const Vec s = splat(shift);
  Vec first[4] = {}, second[4] = {};
  over_four(
      count,
      [&](int64_t i, int k) {
        Vec d = load(x + i) - s;
        first[k] += d;
        second[k] += d * d;
      },
      [&](int64_t i, int64_t lanes) {
        Vec d = keep_first(load_partial(x + i, lanes) - s, lanes);
        first[0] += d;
        second[0] += d * d;
      });
  const double square_sum = total(second);
  Moments m = shifted_moments(shift, total(first), square_sum, count);
  return {m, square_sum <= 3 * m.squares};  // within 1.4 deviations of the mean; not so with NaN
}

// One sweep if four values of the block tell roughly where its mean is, which they mostly do.
Moments block_moments(const float* x, int64_t count) {
  BlockMoments m = moments_about(0.25f * ((x[0] + x[count / 4]) + (x[count / 2] + x[count * 3 / 4])), x, count);
  if (m.near) return m.moments;
  // around the mean, whose own rounding does not matter: the deviations from it have a mean of their own
  Vec sum[4] = {};
  over_four(
      count, [&](int64_t i, int k) { sum[k] += load(x + i); },
      [&](int64_t i, int64_t lanes) { sum[0] += load_partial(x + i, lanes); });
  return moments_about(total(sum) / static_cast<float>(count), x, count).moments;
}

// z = (x - center) * scale + shift in lanes
struct AffineLanes {
  explicit AffineLanes(Affine a) : center(splat(a.center)), scale(splat(a.scale)), shift(splat(a.shift)) {}
  OPENBNNS_INLINE Vec operator()(Vec x) const { return (x - center) * scale + shift; }
  const Vec center, scale, shift;
};

template <bool kStream, bool kKeep, class F>
void normalize_loop(const F& f, Affine a, const float* x, float* y, float* keep, int64_t count, bool stream_keep) {
  const AffineLanes affine(a);
  auto place_in_line = [](const float* p) { return reinterpret_cast<uintptr_t>(p) % (kLineFloats * sizeof(float)); };
  if (place_in_line(keep) != place_in_line(y)) stream_keep = false;
  auto loop = [&](auto streams_keep) {
    over_vectors<kStream, true>(
        y, count,
        [&](int64_t i) {
          Vec v = load(x + i);
          if (kKeep) put<decltype(streams_keep)::value>(keep + i, v);
          put<kStream>(y + i, f.value(affine(v)));
        },
        [&](int64_t i, int64_t lanes) {
          Vec v = load_partial(x + i, lanes);
          if (kKeep) store_partial(keep + i, v, lanes);
          store_partial(y + i, f.value(affine(v)), lanes);
        });
  };
  if (kStream && kKeep && stream_keep)
    loop(std::bool_constant < kStream && kKeep > {});
  else
    loop(std::false_type{});
}

template <class F>
void normalize_run(const F& f, Affine a, const float* x, float* y, float* keep, int64_t count, Streams streams) {
  auto loop = streams.result ? (keep ? normalize_loop<true, true, F> : normalize_loop<true, false, F>)
                             : (keep ? normalize_loop<false, true, F> : normalize_loop<false, false, F>);
  loop(f, a, x, y, keep, count, streams.keep);
}

const functions::Identity kNoFunction(ActivationParameters{});

// Where the slope of f is taken: from y in memory, or from y computed again from x.
enum class Slope { kOfOutput, kOfInput };

// dz of lanes, where get(p) loads
template <Slope kSlope, class F, class Get>
OPENBNNS_INLINE Vec slope_lanes(const F& f, const AffineLanes& affine, const BackwardRun& r, int64_t i, Vec x,
                                Get get) {
  const Vec dy = get(r.dy + i);
  if constexpr (std::is_same_v<F, functions::Identity>) return dy;
  if constexpr (kSlope == Slope::kOfOutput) return f.gradient_from_output(dy, get(r.y + i));
  return f.gradient_from_output(dy, f.value(affine(x)));
}

template <Slope kSlope, class F>
GradientSums block_sums(const F& f, Affine a, const BackwardRun& r) {
  const AffineLanes affine(a);
  Vec first[4] = {}, second[4] = {};
  auto add = [&](int64_t i, int k, auto get) {
    const Vec x = get(r.x + i), dz = slope_lanes<kSlope>(f, affine, r, i, x, get);
    first[k] += dz;
    second[k] += dz * (x - affine.center);
  };
  over_four(
      r.count, [&](int64_t i, int k) { add(i, k, [](const float* p) { return load(p); }); },
      [&](int64_t i, int64_t lanes) {  // dz is 0 in the lanes beyond
        add(i, 0, [lanes](const float* p) { return load_partial(p, lanes); });
      });
  return {total(first), total(second)};
}

template <Slope kSlope, bool kAdd, bool kStream, class F>
void gradient_loop(const F& f, Affine a, InputGradient g, const BackwardRun& r, float* dx) {
  const AffineLanes affine(a);
  const Vec by_dz = splat(g.by_dz), by_distance = splat(g.by_distance), rest = splat(g.constant);
  auto value = [&](int64_t i, auto get) {
    const Vec x = get(r.x + i), dz = slope_lanes<kSlope>(f, affine, r, i, x, get);
    const Vec v = by_dz * dz + (by_distance * (x - affine.center) + rest);
    return kAdd ? get(dx + i) + v : v;
  };
  over_vectors<kStream, true>(
      dx, r.count, [&](int64_t i) { put<kStream>(dx + i, value(i, [](const float* p) { return load(p); })); },
      [&](int64_t i, int64_t lanes) {
        store_partial(dx + i, value(i, [lanes](const float* p) { return load_partial(p, lanes); }), lanes);
      });
}

template <Slope kSlope, class F>
void gradient_block(const F& f, Affine a, const InputGradient& g, const BackwardRun& r, float* dx, bool add,
                    bool stream) {
  auto loop = add      ? gradient_loop<kSlope, true, false, F>
              : stream ? gradient_loop<kSlope, false, true, F>
                       : gradient_loop<kSlope, false, false, F>;
  loop(f, a, g, r, dx);
}

// dz of a run that fits a block, in scratch
const float* staged_gradient(const FusedActivation& f, Affine a, const BackwardRun& r) {
  float* dz = scratch(kActivated, static_cast<size_t>(r.count));
  const float* source = f.from_input() ? nullptr : r.y;
  if (!source) {
    normalize_run(kNoFunction, a, r.x, dz, nullptr, r.count, {false, false});
    if (!f.from_input()) f.forward(dz, dz, r.count, false);
    source = dz;
  }
  f.backward(source, r.dy, dz, r.count);
  return dz;
}

}  // namespace

Moments moments_of(const float* x, int64_t count) {
  Moments all;
  for (int64_t i = 0; i < count; i += kBlock) all.add(block_moments(x + i, std::min(kBlock, count - i)));
  return all;
}

Statistics make_statistics(double mean, double variance, double epsilon) {
  double inverse = 1.0 / std::sqrt(variance + epsilon);
  float center = static_cast<float>(mean);
  return {center, static_cast<float>(inverse), static_cast<float>((static_cast<double>(center) - mean) * inverse)};
}

Affine make_affine(const Statistics& s, float gamma, float beta) {
  return {s.center, s.inverse * gamma, s.offset * gamma + beta};
}

InputGradient make_input_gradient(const Statistics& s, double gamma, double mean_g, double mean_g_xhat) {
  double inverse = s.inverse;
  return {static_cast<float>(gamma * inverse), static_cast<float>(-inverse * inverse * mean_g_xhat),
          static_cast<float>(-inverse * (mean_g + static_cast<double>(s.offset) * mean_g_xhat))};
}

FusedActivation::FusedActivation(const ActivationSpec& f, bool from_input)
    : function_(f.function),
      parameters_{f.alpha, f.beta},
      loops_(&elementwise_loops(f.function)),
      from_input_(from_input && !is_identity(f)) {}

void normalize(const FusedActivation& f, Affine a, const float* x, float* y, float* keep, int64_t count,
               Streams streams) {
  const bool stream = streams.result;
  if (keep == x) keep = nullptr;
  if (f.built_in())
    return f.with_built_in([&](const auto& built) { normalize_run(built, a, x, y, keep, count, streams); });
  float* z = scratch(kActivated, kBlock);
  // blocks end at aligned results, so that streams have no ragged ends
  for (int64_t i = 0, next; i < count; i = next) {
    next = std::min(count, i + kBlock - (i == 0 && stream ? kWidth - floats_to_alignment(y) % kWidth : 0));
    normalize_run(kNoFunction, a, x + i, z, keep ? keep + i : nullptr, next - i, {false, false});
    f.forward(z, y + i, next - i, stream);
  }
}

GradientSums gradient_sums(const FusedActivation& f, Affine a, const BackwardRun& run) {
  auto sums_of = [&](const BackwardRun& block) {
    if (!f.built_in_slope()) {
      BackwardRun staged = block;
      staged.dy = staged_gradient(f, a, block);
      return block_sums<Slope::kOfInput>(kNoFunction, a, staged);
    }
    return f.with_built_in([&](const auto& built) {
      return run.y ? block_sums<Slope::kOfOutput>(built, a, block) : block_sums<Slope::kOfInput>(built, a, block);
    });
  };
  GradientSums sums;
  for (int64_t i = 0; i < run.count; i += kBlock) sums.add(sums_of(run.from(i, std::min(kBlock, run.count - i))));
  return sums;
}

void input_gradient(const FusedActivation& f, Affine a, const InputGradient& g, const BackwardRun& run, float* dx,
                    bool add, bool stream) {
  if (f.built_in_slope())
    return f.with_built_in([&](const auto& built) {
      if (run.y)
        gradient_block<Slope::kOfOutput>(built, a, g, run, dx, add, stream);
      else
        gradient_block<Slope::kOfInput>(built, a, g, run, dx, add, stream);
    });
  for (int64_t i = 0; i < run.count; i += kBlock) {
    BackwardRun block = run.from(i, std::min(kBlock, run.count - i));
    block.dy = staged_gradient(f, a, block);
    gradient_block<Slope::kOfInput>(kNoFunction, a, g, block, dx + i, add, stream);
  }
}

}  // namespace normalization
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
