// One window over the whole plane: its largest cell, or its average.
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"
#include "simd/lanes.h"
#include "simd/math.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

OPENBNNS_INLINE float max_lanes(Vec v) {
  OPENBNNS_UNROLL for (int half = kWidth / 2; half > 0; half /= 2) v =
      larger(v, permuted(v, (lane_numbers() + half) & (kWidth - 1)));
  return v[0];
}

float max_of_plane(const float* x, int64_t count) {
  if (count < kWidth) {
    float best = x[0];
    for (int64_t i = 1; i < count; i++)
      if (x[i] > best || x[i] != x[i]) best = x[i];
    return best;
  }
  // the last vector meets cells again, which does not change the maximum
  Vec best = load(x + count - kWidth), other = load(x);
  int64_t i = kWidth;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    best = larger(best, load(x + i));
    other = larger(other, load(x + i + kWidth));
  }
  if (i + kWidth <= count) best = larger(best, load(x + i));
  return max_lanes(larger(best, other));
}

// The place of the cell that wins.
int64_t winner_of_plane(const float* x, int64_t count) {
  const float best = max_of_plane(x, count);
  if (best != best) {
    int64_t i = count - 1;  // the last NaN
    while (x[i] == x[i]) i--;
    return i;
  }
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    IntVec equal = load(x + i) == splat(best);
    if (math::any(equal)) return i + first_lane(equal);
  }
  if (count < kWidth) {
    while (x[i] != best) i++;
    return i;
  }
  i = count - kWidth;  // none of the cells met again is equal
  return i + first_lane(load(x + i) == splat(best));
}

float plane_sum(const float* x, int64_t count) {
  if (count <= kSingleSums * kWidth) {
    Vec sum{};
    for (int64_t i = 0; i < count; i += kWidth) sum += load_partial(x + i, std::min<int64_t>(kWidth, count - i));
    return sum_lanes(sum);
  }
  double lanes[kWidth] = {};
  add_lanes(x, count, lanes);
  return static_cast<float>(sum_lanes(load_wide(lanes)));
}

class PlaneMaximum final : public Method {
 public:
  using Method::Method;

  // Unless zeros of the padding compete.
  static bool fits(const Problem& p, Use use) {
    const PoolingShape& s = p.shape;
    const bool padded = s.kernel_height != s.in_height || s.kernel_width != s.in_width;
    return s.function == kMax && p.covers_plane() && use != Use::kIndices && !(s.padding_wins && padded);
  }

  void forward(const Scratch&, const ForwardPlanes& f) const override {
    f.y[0] = max_of_plane(f.x, p_.in_plane()) + f.first_bias();
  }

  void backward(const Scratch&, const BackwardPlanes& b) const override {
    if (!b.adds) std::fill_n(b.dx, p_.in_plane(), 0.0f);
    b.dx[winner_of_plane(b.x, p_.in_plane())] += b.dz[0];
  }
};

class PlaneAverage final : public Method {
 public:
  explicit PlaneAverage(const Problem& p)
      : Method(p), divisor_(p.cells_inside() ? static_cast<float>(p.in_plane()) : p.divisor()) {}

  static bool fits(const Problem& p, Use) { return p.is_average() && p.covers_plane(); }

  Scratch scratch(Use use) const override {
    Scratch work;
    if (use == Use::kGradient) work.plane = float_scratch(kOutputTile, p_.in_plane());
    return work;
  }

  void forward(const Scratch&, const ForwardPlanes& f) const override {
    f.y[0] = plane_sum(f.x, p_.in_plane()) / divisor_ + f.first_bias();
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    write_plane(p_, b, work.plane, [&](float* dx) { std::fill_n(dx, p_.in_plane(), b.dz[0] / divisor_); });
  }

 private:
  const float divisor_;
};

}  // namespace

const MethodEntry kPlaneMaximum = entry_of<PlaneMaximum>();
const MethodEntry kPlaneAverage = entry_of<PlaneAverage>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
