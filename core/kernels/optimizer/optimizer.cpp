// Optimizer steps: one pass over W, gradient and accumulators of all tensors together, preceded by a pass over the
// gradients where they are clipped by norm. Every element is updated by itself, so threads do not matter.
//
// Accumulators of a parameter that has no gradient any more shrink from step to step, and so does a weight under a
// penalty: both would arrive at subnormal numbers and stay there, at ten times the time of a step. They are flushed to
// 0.
#include <cmath>

#include "common/chunks.h"
#include "kernels/kernels.h"
#include "kernels/loss/lanes.h"
#include "kernels/optimizer/shape.h"
#include "simd/subnormals.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// g for one vector. The conditions are the same for every vector of a step.
OPENBNNS_INLINE Vec prepared(const OptimizerRule& r, float after, Vec gradient, Vec w) {
  Vec g = gradient;
  if (r.clipping == kClipByValue) g = math::min(splat(r.high), math::max(splat(r.low), r.before * g));  // NaN stays
  g = after * g;
  if (r.l2 != 0.0f) g += r.l2 * w;
  if (r.l1 != 0.0f) g += select(w > 0.0f, splat(r.l1), select(w < 0.0f, splat(-r.l1), w));
  return g;
}

// a / divisor, for a divisor of at least 0.
OPENBNNS_INLINE Vec quotient(Vec a, Vec divisor) {
  // fast_quotient is for 2^-60 .. 2^60; a divisor outside, or NaN, is rare
  IntVec usual = (divisor > 0x1p-60f) & (divisor < 0x1p60f);
  if (math::any(~usual)) return a / divisor;
  return math::fast_quotient(a, divisor);
}

// a / (sqrt(s) + epsilon). Of sixteen floats at once the root is slow enough; the quotient need not be.
OPENBNNS_INLINE Vec over_root(Vec a, Vec s, float epsilon) { return quotient(a, math::sqrt(s) + epsilon); }

// The updates. state points to the accumulators of the vector in hand; W after the step is returned.

struct Descent {
  template <class Lanes>
  static OPENBNNS_INLINE Vec update(const OptimizerRule& r, Lanes, Vec w, Vec g, float* const*) {
    return w - r.learning_rate * g;
  }
};

struct Momentum {
  template <class Lanes>
  static OPENBNNS_INLINE Vec update(const OptimizerRule& r, Lanes lanes, Vec w, Vec g, float* const* state) {
    Vec old = lanes.read(state[0]);
    Vec velocity = r.momentum * old + r.gradient_weight * g;
    lanes.write(state[0], velocity);
    if (r.form == MomentumForm::kDifference) return w + velocity + r.momentum * (velocity - old);
    w += r.velocity_step * velocity;
    return r.form == MomentumForm::kLookAhead ? w + r.gradient_step * g : w;
  }
};

struct Adam {
  template <class Lanes>
  static OPENBNNS_INLINE Vec update(const OptimizerRule& r, Lanes lanes, Vec w, Vec g, float* const* state) {
    Vec m = r.keep1 * lanes.read(state[0]) + r.add1 * g;
    Vec v = r.keep2 * lanes.read(state[1]) + r.add2 * g * g;
    lanes.write(state[0], m);
    lanes.write(state[1], v);
    if (state[2]) {
      v = math::max(lanes.read(state[2]), v);
      lanes.write(state[2], v);
    }
    return w - r.decay * w - over_root(r.step * m, v, r.epsilon);
  }
};

struct RMSProp {
  template <class Lanes>
  static OPENBNNS_INLINE Vec update(const OptimizerRule& r, Lanes lanes, Vec w, Vec g, float* const* state) {
    Vec s = r.keep2 * lanes.read(state[0]) + r.add2 * g * g;
    lanes.write(state[0], s);
    if (state[1]) {
      Vec mean = r.keep2 * lanes.read(state[1]) + r.add2 * g;
      lanes.write(state[1], mean);
      s = math::max(Vec{}, s - mean * mean);  // below 0 by rounding only
    }
    Vec step = over_root(-r.learning_rate * g, s, r.epsilon);
    if (state[2]) {
      step += r.momentum * lanes.read(state[2]);
      lanes.write(state[2], step);
    }
    return w + step;
  }
};

struct Adamax {
  template <class Lanes>
  static OPENBNNS_INLINE Vec update(const OptimizerRule& r, Lanes lanes, Vec w, Vec g, float* const* state) {
    Vec m = r.keep1 * lanes.read(state[0]) + r.add1 * g;
    Vec largest = math::max(r.keep2 * lanes.read(state[1]), math::abs(g) + r.epsilon);  // NaN stays
    lanes.write(state[0], m);
    lanes.write(state[1], largest);
    return w - quotient(r.step * m, largest);
  }
};

// Whether subnormal numbers are of no account in a step. Under a root they are if epsilon is so much larger that the
// sum rounds to it: sqrt(2^-126) is a quarter of a unit in the last place of 2^-38.
bool flushes_subnormals(const OptimizerRule& r) {
  return r.kind == OptimizerKind::kDescent || r.kind == OptimizerKind::kMomentum || r.epsilon >= 0x1p-38f;
}

template <class Algorithm>
[[gnu::noinline]] void update_elements(const OptimizerRule& r, float after, const OptimizerTensor& t, int64_t start,
                                       int64_t count) {
  loss::over_vectors(count, [&](auto lanes, int64_t i) {
    float* state[OptimizerTensor::kStates];
    OPENBNNS_UNROLL for (int k = 0; k < OptimizerTensor::kStates; k++) state[k] =
        t.state[k] ? t.state[k] + start + i : nullptr;
    float* place = t.w + start + i;
    Vec w = lanes.read(place);
    Vec g = prepared(r, after, lanes.read(t.gradient + start + i), w);
    lanes.write(place, Algorithm::update(r, lanes, w, g, state));
  });
}

using UpdateElements = void (*)(const OptimizerRule&, float, const OptimizerTensor&, int64_t, int64_t);

UpdateElements update_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kDescent:
      return update_elements<Descent>;
    case OptimizerKind::kMomentum:
      return update_elements<Momentum>;
    case OptimizerKind::kAdam:
      return update_elements<Adam>;
    case OptimizerKind::kAdamax:
      return update_elements<Adamax>;
    default:
      return update_elements<RMSProp>;
  }
}

// factors[i]: what the gradient of tensor i is multiplied by to be clipped.
void clipping_factors(const OptimizerRule& r, const OptimizerTensor* tensors, int64_t count, const Chunks& chunks,
                      int threads, double* factors) {
  const bool global = r.clipping == kClipByGlobalNorm;
  if (global && r.use_norm != 0.0) {
    std::fill(factors, factors + count, clipping_factor(r.use_norm, r.max_norm));
    return;
  }
  chunks.sum_squares(
      threads, [&](int64_t i) { return tensors[i].gradient; }, [&](int64_t i) { return tensors[i].count; }, factors);
  double total = 0;
  for (int64_t i = 0; i < count; i++) total += factors[i];
  for (int64_t i = 0; i < count; i++)
    factors[i] = clipping_factor(std::sqrt(global ? total : factors[i]) * r.norm_scale, r.max_norm);
}

}  // namespace

void optimizer_step(const OptimizerRule& rule, const OptimizerTensor* tensors, int64_t count, int threads) {
  const Chunks chunks(count, [&](int64_t i) { return tensors[i].count; });
  const bool by_norm = rule.clipping == kClipByNorm || rule.clipping == kClipByGlobalNorm;
  double* factors = nullptr;
  if (by_norm) {
    factors = reinterpret_cast<double*>(scratch(kFactors, static_cast<size_t>(2 * (count + 1))));
    clipping_factors(rule, tensors, count, chunks, threads, factors);
  }
  const UpdateElements update = update_of(rule.kind);
  const bool flushes = flushes_subnormals(rule);
  chunks.run(threads, [&](int64_t i, int64_t, int64_t start) {
    const float after = by_norm ? static_cast<float>(rule.after * factors[i]) : rule.after;
    const FlushedSubnormals flushed(flushes);
    update(rule, after, tensors[i], start, std::min(kChunkElements, tensors[i].count - start));
  });
}

void clip_by_global_norm(const ClippedTensor* tensors, int64_t count, double max_norm, double use_norm, int threads) {
  const Chunks chunks(count, [&](int64_t i) { return tensors[i].count; });
  double norm = use_norm;
  if (norm == 0.0) {
    double* sums = reinterpret_cast<double*>(scratch(kFactors, static_cast<size_t>(2 * (count + 1))));
    chunks.sum_squares(
        threads, [&](int64_t i) { return tensors[i].x; }, [&](int64_t i) { return tensors[i].count; }, sums);
    double total = 0;
    for (int64_t i = 0; i < count; i++) total += sums[i];
    norm = std::sqrt(total);
  }
  const float factor = static_cast<float>(clipping_factor(norm, max_norm));
  chunks.run(threads, [&](int64_t i, int64_t, int64_t start) {
    const ClippedTensor& t = tensors[i];
    loss::over_vectors(std::min(kChunkElements, t.count - start), [&](auto lanes, int64_t k) {
      lanes.write(t.y + start + k, factor * lanes.read(t.x + start + k));
    });
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
