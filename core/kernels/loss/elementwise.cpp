// Losses with one value per element: sigmoid cross entropy, mean square error, Huber, Log, Hinge, mean absolute error.
#include "kernels/loss/lanes.h"
#include "kernels/loss/loss.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace loss {
namespace {

// l and dl/dx, before weights.
struct ValueAndSlope {
  Vec value, slope;
};

OPENBNNS_INLINE Vec keep_nan(Vec v, Vec source) { return select(source == source, v, source); }

// q = sigmoid(x): l = -t log q - (1-t) log(1-q),  dl/dx = q - t,  t smoothed to t(1-s) + s/2
struct SigmoidCrossEntropy {
  Vec keep, shift;
  explicit SigmoidCrossEntropy(const LossShape& s)
      : keep(splat(1.0f - s.label_smooth)), shift(splat(0.5f * s.label_smooth)) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    t = t * keep + shift;
    Vec e = exp_of_negative(-math::abs(x));
    Vec q = math::fast_quotient(select(x < 0.0f, e, splat(1.0f)), 1.0f + e);
    // l = t softplus(-x) + (1-t) softplus(x), and softplus(x) = max(x, 0) + log(1 + e). The linear part has the factor
    // 1 - t or -t; where that is 0 an infinite x does not matter.
    Vec factor = select(x > 0.0f, 1.0f - t, -t);
    Vec linear = select(factor == 0.0f, Vec{}, factor * x);
    return {linear + math::log1p(e), q - t};
  }
};

// l = (x-t)^2,  dl/dx = 2 (x-t)
struct MeanSquareError {
  explicit MeanSquareError(const LossShape&) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    Vec e = x - t;
    return {e * e, e + e};
  }
};

// e = x-t: l = e^2/2 if |e| <= d, else d (|e| - d/2),  dl/dx = clamp(e, -d, d)
struct Huber {
  Vec d;
  explicit Huber(const LossShape& s) : d(splat(s.huber_delta)) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    Vec e = x - t, a = math::abs(e);
    Vec value = select(a <= d, 0.5f * e * e, d * (a - 0.5f * d));
    return {value, math::min(d, math::max(-d, e))};
  }
};

// l = -t log(x+eps) - (1-t) log(1-x+eps),  dl/dx = ((x+eps) - t) / ((x+eps) (1-x+eps))
struct Log {
  Vec epsilon;
  explicit Log(const LossShape& s) : epsilon(splat(s.log_epsilon)) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    Vec near_zero = x + epsilon, near_one = (1.0f - x) + epsilon;
    Vec value = -(t * math::log(near_zero) + (1.0f - t) * math::log(near_one));
    return {value, ((x - t) + epsilon) / (near_zero * near_one)};  // eps is not lost where x = t
  }
};

// T = 2t-1: l = max(0, 1 - T x),  dl/dx = -T if T x <= 1, else 0
struct Hinge {
  explicit Hinge(const LossShape&) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    Vec sign = t + t - 1.0f, product = sign * x;
    return {math::max(Vec{}, 1.0f - product), keep_nan(select(product <= 1.0f, -sign, Vec{}), x)};
  }
};

// l = |x-t|,  dl/dx = 1 if x >= t, else -1
struct MeanAbsoluteError {
  explicit MeanAbsoluteError(const LossShape&) {}
  OPENBNNS_INLINE ValueAndSlope operator()(Vec x, Vec t) const {
    Vec e = x - t;
    return {math::abs(e), keep_nan(select(x >= t, splat(1.0f), splat(-1.0f)), e)};
  }
};

// The common case: no weights per element, no upstream per element, losses only summed, slopes not added.
template <class Loss, bool kValue, bool kSlope>
double plain_loop(const LossShape& shape, const Piece& piece) {
  const Loss loss(shape);
  const float *x = piece.x, *t = piece.t;
  float* dx = piece.dx;
  const Vec scale = splat(piece.slope_scale);
  Sum sum;
  over_vectors(
      piece.count,
      [&](auto lanes, int64_t i) {
        ValueAndSlope l = loss(lanes.read(x + i), lanes.read(t + i));
        if (kValue) sum.add(lanes.keep(l.value));
        if (kSlope) lanes.write(dx + i, scale * l.slope);
      },
      [&] {
        if (kValue) sum.close_part();
      });
  return kValue ? sum.value() : 0.0;
}

template <class Loss, bool kValue>
double any_loop(const LossShape& shape, const Piece& piece) {
  const Loss loss(shape);
  const Vec value_scale = splat(piece.value_scale), slope_scale = splat(piece.slope_scale);
  Sum sum;
  over_vectors(
      piece.count,
      [&](auto lanes, int64_t i) {
        ValueAndSlope l = loss(lanes.read(piece.x + i), lanes.read(piece.t + i));
        Vec w = piece.w ? lanes.read(piece.w + i) : splat(1.0f);
        if (kValue) {
          Vec value = w * l.value;
          sum.add(lanes.keep(value));
          if (piece.out) lanes.write(piece.out + i, value_scale * value);
        }
        if (!piece.dx) return;
        Vec slope = slope_scale * (w * l.slope);
        if (piece.upstream) slope *= lanes.read(piece.upstream + i);
        if (piece.adds) slope += lanes.read(piece.dx + i);
        lanes.write(piece.dx + i, slope);
      },
      [&] { sum.close_part(); });
  return sum.value();
}

template <class Loss>
constexpr PieceLoops loops_of() {
  return {plain_loop<Loss, true, false>, plain_loop<Loss, true, true>, plain_loop<Loss, false, true>,
          any_loop<Loss, true>, any_loop<Loss, false>};
}

}  // namespace

const PieceLoops& piece_loops(int function) {
  static constexpr PieceLoops sigmoid = loops_of<SigmoidCrossEntropy>(), square = loops_of<MeanSquareError>(),
                              huber = loops_of<Huber>(), log = loops_of<Log>(), hinge = loops_of<Hinge>(),
                              absolute = loops_of<MeanAbsoluteError>();
  switch (function) {
    case kSigmoidCrossEntropy:
      return sigmoid;
    case kHuber:
      return huber;
    case kLog:
      return log;
    case kHinge:
      return hinge;
    case kMeanAbsoluteError:
      return absolute;
    default:
      return square;
  }
}

}  // namespace loss
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
