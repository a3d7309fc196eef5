// Losses with one value per sample: softmax cross entropy, categorical cross entropy, cosine distance.
#include <cmath>

#include "common/scratch_uses.h"
#include "kernels/loss/lanes.h"
#include "kernels/loss/loss.h"
#include "runtime/scratch.h"
#include "simd/stream.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace loss {
namespace {

constexpr int kExponentials = kActivated;

OPENBNNS_INLINE Vec product_or_zero(Vec factor, Vec v) { return select(factor == 0.0f, Vec{}, factor * v); }

// Stores slope(lanes, i) * scale for a whole row. slope() keeps no sums, so vectors may start at any element.
template <class Slope>
OPENBNNS_INLINE void store_slopes(const Row& row, int64_t width, Slope&& slope) {
  const Vec scale = splat(row.slope_scale);
  float* dx = row.dx;
  if (row.adds) {
    over_vectors(width,
                 [&](auto lanes, int64_t i) { lanes.write(dx + i, lanes.read(dx + i) + scale * slope(lanes, i)); });
  } else if (row.streams && width >= 2 * kWidth) {
    int64_t i = floats_to_alignment(dx);
    if (i) store(dx, scale * slope(WholeVector{}, 0));  // what it writes beyond i is written again
    for (; i + kWidth <= width; i += kWidth) store_stream(dx + i, scale * slope(WholeVector{}, i));
    if (i < width) store(dx + width - kWidth, scale * slope(WholeVector{}, width - kWidth));
  } else {
    over_vectors(width, [&](auto lanes, int64_t i) { lanes.write(dx + i, scale * slope(lanes, i)); });
  }
}

// Labels after smoothing: t(1-s) + s/width.
struct SmoothedLabels {
  Vec keep, shift;
  explicit SmoothedLabels(const LossShape& s)
      : keep(splat(1.0f - s.label_smooth)), shift(splat(s.label_smooth / static_cast<float>(s.width))) {}
  template <class Lanes>
  OPENBNNS_INLINE Vec read(Lanes lanes, const float* t) const {
    return lanes.keep(lanes.read(t) * keep + shift);
  }
};

float class_factor(const LossShape& s) { return s.divide_by_classes ? 1.0f / static_cast<float>(s.width) : 1.0f; }

RowLoss complete(double loss) { return {1, 0, 1, -loss}; }

constexpr int64_t kRegisterRow = 16;  // elements of a row that stays in registers, at most

// Such a row, in so many vectors, the last of which may have fewer lanes.
template <int kVectors>
RowLoss softmax_cross_entropy_vectors(const LossShape& s, const Row& row) {
  const SmoothedLabels labels(s);
  const float weight = row.weight * class_factor(s);
  auto compute = [&](auto last) -> RowLoss {
    const auto over_row = [&](auto&& body) {
      OPENBNNS_UNROLL for (int v = 0; v < kVectors - 1; v++) body(WholeVector{}, v);
      body(last, kVectors - 1);
    };
    Vec x[kVectors], t[kVectors], e[kVectors], highest = splat(-math::kInfinity);
    over_row([&](auto lanes, int v) {
      x[v] = lanes.read(row.x + v * kWidth, -math::kInfinity);
      t[v] = labels.read(lanes, row.t + v * kWidth);
      highest = math::max(highest, x[v]);
    });
    const Vec largest = splat(largest_lane(highest));
    Vec all_t{}, all_e{}, products{};
    over_row([&](auto lanes, int v) {
      const Vec d = lanes.keep(x[v] - largest);
      e[v] = lanes.keep(exp_of_negative(d));
      all_t += t[v];
      all_e += e[v];
      products += product_or_zero(t[v], d);
    });
    const float sum_t = add_lanes(all_t), sum_e = add_lanes(all_e);
    if (row.dx) {
      const Vec scale = splat(row.slope_scale * weight), share = splat(sum_t / sum_e);
      over_row([&](auto lanes, int v) {
        float* dx = row.dx + v * kWidth;
        const Vec old = row.adds ? lanes.read(dx) : Vec{};
        lanes.write(dx, old + scale * (e[v] * share - t[v]));
      });
    }
    return {weight, sum_t, sum_e, add_lanes(products)};
  };
  constexpr int64_t kWhole = kVectors * kWidth;
  return s.width == kWhole ? compute(WholeVector{}) : compute(FirstLanes(s.width - kWhole + kWidth));
}

// As many vectors as the row needs.
template <int kVectors = 1>
RowLoss softmax_cross_entropy_registers(const LossShape& s, const Row& row) {
  if constexpr (kVectors * kWidth < kRegisterRow)
    if (s.width > kVectors * kWidth) return softmax_cross_entropy_registers<kVectors + 1>(s, row);
  return softmax_cross_entropy_vectors<kVectors>(s, row);
}

// p = softmax(x):  l = -w sum_i t_i log p_i,  dl/dx_i = w (p_i sum(t) - t_i)
// With d = x - max and log p = d - log sum(exp d):  l = w (sum(t) log sum(exp d) - sum(t d)).
RowLoss softmax_cross_entropy(const LossShape& s, const Row& given) {
  if (s.width <= kRegisterRow) return softmax_cross_entropy_registers(s, given);
  const SmoothedLabels labels(s);
  Row row = given;
  const float weight = row.weight * class_factor(s);
  row.slope_scale *= weight;
  float* exponentials = row.dx ? scratch(kExponentials, static_cast<size_t>(s.width)) : nullptr;
  const Vec largest = splat(row_maximum(row.x, s.width));
  Sum e_sum, t_sum, product_sum;
  over_vectors(
      s.width,
      [&](auto lanes, int64_t i) {
        Vec d = lanes.read(row.x + i, -math::kInfinity) - largest, t = labels.read(lanes, row.t + i);
        Vec e = exp_of_negative(d);
        if (exponentials) lanes.write(exponentials + i, e);
        e_sum.add(e);
        t_sum.add(t);
        product_sum.add(product_or_zero(t, d));
      },
      [&] {
        e_sum.close_part();
        t_sum.close_part();
        product_sum.close_part();
      });
  const double sum_e = e_sum.value(), sum_t = t_sum.value();
  if (row.dx) {
    const Vec factor = splat(static_cast<float>(sum_t / sum_e));
    store_slopes(row, s.width, [&](auto lanes, int64_t i) {
      return lanes.read(exponentials + i) * factor - labels.read(lanes, row.t + i);
    });
  }
  return complete(weight * (sum_t * std::log(sum_e) - product_sum.value()));
}

// p = softmax(x), M = number of nonzero labels:
//   l = sum over t_c != 0 of -w_c t_c log(p_c) / M,  dl/dx_c = w_c (p_c - 1/M) if t_c != 0, else p_c
// A sample without labels has loss and gradient 0.
RowLoss categorical_cross_entropy(const LossShape& s, const Row& row) {
  float* exponentials = row.dx ? scratch(kExponentials, static_cast<size_t>(s.width)) : nullptr;
  const Vec largest = splat(row_maximum(row.x, s.width));
  auto weights = [&](auto lanes, int64_t i) { return row.w ? lanes.read(row.w + i) : splat(row.weight); };
  Sum e_sum, labelled_sum, t_sum, product_sum;
  over_vectors(
      s.width,
      [&](auto lanes, int64_t i) {
        Vec d = lanes.read(row.x + i, -math::kInfinity) - largest, t = lanes.read(row.t + i);
        Vec e = exp_of_negative(d), weighted = t * weights(lanes, i);
        if (exponentials) lanes.write(exponentials + i, e);
        e_sum.add(e);
        labelled_sum.add(select(t != 0.0f, splat(1.0f), Vec{}));
        t_sum.add(lanes.keep(weighted));
        product_sum.add(product_or_zero(weighted, d));
      },
      [&] {
        e_sum.close_part();
        labelled_sum.close_part();
        t_sum.close_part();
        product_sum.close_part();
      });
  const double sum_e = e_sum.value(), labelled = labelled_sum.value();
  const double one_in_m = labelled == 0.0 ? 0.0 : 1.0 / labelled;
  if (row.dx) {
    const Vec inverse = splat(static_cast<float>(1.0 / sum_e)), share = splat(static_cast<float>(one_in_m));
    const IntVec none = splat_int(labelled == 0.0 ? -1 : 0);
    store_slopes(row, s.width, [&](auto lanes, int64_t i) {
      Vec p = lanes.read(exponentials + i) * inverse, t = lanes.read(row.t + i);
      Vec slope = select(t != 0.0f, weights(lanes, i) * (p - share), p);
      return select(none, Vec{}, slope);
    });
  }
  return complete(labelled == 0.0 ? 0.0 : one_in_m * (t_sum.value() * std::log(sum_e) - product_sum.value()));
}

// l = 1 - sum_i w_i t_i x_i for unit vectors,  dl/dx_i = -w_i t_i + (1-l) x_i: the part along the unit sphere
RowLoss cosine_distance(const LossShape& s, const Row& row) {
  auto weighted = [&](auto lanes, int64_t i) {
    Vec t = lanes.read(row.t + i);
    return row.w ? t * lanes.read(row.w + i) : t * row.weight;
  };
  Sum dot_sum;
  over_vectors(
      s.width, [&](auto lanes, int64_t i) { dot_sum.add(lanes.keep(weighted(lanes, i) * lanes.read(row.x + i))); },
      [&] { dot_sum.close_part(); });
  const double dot = dot_sum.value();
  if (row.dx && s.plain_cosine_gradient) {
    store_slopes(row, s.width, [&](auto lanes, int64_t i) { return -weighted(lanes, i); });
  } else if (row.dx) {
    const Vec radial = splat(static_cast<float>(dot));
    store_slopes(row, s.width,
                 [&](auto lanes, int64_t i) { return radial * lanes.read(row.x + i) - weighted(lanes, i); });
  }
  return complete(1.0 - dot);
}

}  // namespace

RowLoop row_loop(int function) {
  switch (function) {
    case kSoftmaxCrossEntropy:
      return softmax_cross_entropy;
    case kCategoricalCrossEntropy:
      return categorical_cross_entropy;
    case kCosineDistance:
      return cosine_distance;
    default:
      return nullptr;
  }
}

}  // namespace loss
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
