// Pooling of one bordered plane with any window; see common/windows.h for the layout of its cells.
#include <limits>

#include "kernels/pooling/indices.h"
#include "kernels/pooling/maximum.h"
#include "kernels/pooling/methods.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

constexpr int64_t kSparseWindows = 4;  // cells per window from which gradients go window by window

// body(row, column, origin of kWidth windows)
template <class Body>
OPENBNNS_INLINE void for_each_origin(const float* source, const Windows& windows, Body body) {
  for (int64_t r = 0; r < windows.rows; r++)
    for (int64_t c = 0; c < windows.columns; c += kWidth)
      body(r, c, source + windows.source + r * windows.row_step + c);
}

// Sum over taps of term(vector at the tap), in two chains.
template <class Term>
OPENBNNS_INLINE Vec sum_taps(const Taps& taps, const float* origin, Term term) {
  const int64_t* offset = taps.offset.data();
  const int count = taps.count();
  Vec sum{}, other{};
  int t = 0;
  for (; t + 1 < count; t += 2) {
    sum += term(load(origin + offset[t]));
    other += term(load(origin + offset[t + 1]));
  }
  if (t < count) sum += term(load(origin + offset[t]));
  return sum + other;
}

// The first tap of window (oy, ox) inside the plane, -1 if there is none.
int32_t first_tap_inside(const WindowShape& s, int64_t oy, int64_t ox) {
  for (int64_t ky = 0; ky < s.kernel_height; ky++)
    for (int64_t kx = 0; kx < s.kernel_width; kx++) {
      int64_t y = oy * s.stride_y + ky * s.dilation_y - s.pad_up, x = ox * s.stride_x + kx * s.dilation_x - s.pad_left;
      if (y >= 0 && y < s.in_height && x >= 0 && x < s.in_width) return static_cast<int32_t>(ky * s.kernel_width + kx);
    }
  return -1;
}

// out = largest cell + bias; the border must hold what padded cells count as (minus infinity: they never win).
void max_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out) {
  const int64_t* offset = geometry.taps.offset.data();
  const int count = geometry.taps.count();
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    Vec best = load(origin + offset[0]);
    for (int t = 1; t < count; t++) best = larger(best, load(origin + offset[t]));
    out.write(r, c, best + bias);
  });
}

// Label of the winning tap of every window (-1: none) at winner[r * pitch + c]; whole vectors are written. Values, if
// `out` is given, as above. With `padding_wins` a tap outside the plane may win.
void find_winners(const WindowGeometry& geometry, const float* bordered, bool padding_wins, float bias,
                  const PlaneWriter* out, const int32_t* label, int32_t* winner, int64_t pitch) {
  const int64_t* offset = geometry.taps.offset.data();
  const int count = geometry.taps.count();
  const Vec lowest = splat(-std::numeric_limits<float>::infinity());
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    Vec best = lowest;
    IntVec which = splat_int(padding_wins ? label[0] : -1);
    for (int t = 0; t < count; t++) {
      Vec v = load(origin + offset[t]);
      IntVec mask = wins(v, best);
      best = select(mask, v, best);
      which = mask ? splat_int(label[t]) : which;
    }
    if (out) out->write(r, c, best + bias);
    int32_t* to = winner + r * pitch + c;
    store_int(to, which);
    // nothing beats minus infinity: there the first cell of the plane wins
    IntVec lost = (which < 0) & first_lanes(geometry.shape.out_width - c);
    if (!math::any(lost)) return;
    for (int i = 0; i < kWidth; i++)
      if (int32_t tap = lost[i] ? first_tap_inside(geometry.shape, r, c + i) : -1; tap >= 0) to[i] = label[tap];
  });
}

// out = sum of the cells / divisor + bias, with divisor = count of cells inside where `counts` is given
void average_windows(const WindowGeometry& geometry, const float* bordered, float divisor, const CellCounts* counts,
                     float bias, const PlaneWriter& out) {
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    Vec sum = sum_taps(geometry.taps, origin, [](Vec v) { return v; });
    Vec count = counts ? counts->rows[r] * load(counts->columns.data() + c) : splat(divisor);
    // a window outside the plane has the sum and the average 0
    out.write(r, c, sum / select(count == Vec{}, splat(1.0f), count) + bias);
  });
}

// out = square root of the sum of squares + bias
void norm_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out) {
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    out.write(r, c, math::sqrt(sum_taps(geometry.taps, origin, [](Vec v) { return v * v; })) + bias);
  });
}

// Backward of one phase: sums of the bordered gradient over the taps, all of them or only where the tap has won.
// `winner` has the layout of the bordered gradient.
void gather_all(const WindowGeometry& geometry, const Phase& phase, const float* gradient, const PlaneWriter& out) {
  for_each_origin(gradient, geometry.windows(phase), [&](int64_t r, int64_t c, const float* origin) {
    out.write(r, c, sum_taps(phase.taps, origin, [](Vec v) { return v; }));
  });
}

void gather_won(const WindowGeometry& geometry, const Phase& phase, const float* gradient, const int32_t* winner,
                const PlaneWriter& out) {
  const int count = phase.taps.count();
  const int64_t *offset = phase.taps.offset.data(), *number = phase.taps.number.data();
  for_each_origin(gradient, geometry.windows(phase), [&](int64_t r, int64_t c, const float* origin) {
    const int32_t* winner_origin = winner + (origin - gradient);
    Vec sum{};
    for (int t = 0; t < count; t++) {
      IntVec won = load_int(winner_origin + offset[t]) == splat_int(static_cast<int32_t>(number[t]));
      sum += keep_where(won, load(origin + offset[t]));
    }
    out.write(r, c, sum);
  });
}

class AnyWindows final : public Method {
 public:
  explicit AnyWindows(const Problem& p) : Method(p), distance_(p.tap_distances()) {
    for (int t = 0; t < p.geometry.taps.count(); t++) number_.push_back(t);
  }

  static bool fits(const Problem&, Use) { return true; }

  Scratch scratch(Use use) const override {
    const WindowGeometry& g = p_.geometry;
    Scratch work;
    work.x = float_scratch(kInputBand, g.input.room());
    g.input.fill_border(work.x, p_.border());
    if (p_.shape.function == kMax) work.winner = winner_scratch(g.gradient.room());
    if (use != Use::kGradient) return work;
    work.plane = float_scratch(kOutputTile, std::max(p_.in_plane(), p_.out_plane()));
    work.gradient = float_scratch(kGradientBand, g.gradient.room());
    g.gradient.fill_border(work.gradient, 0);
    work.gather = float_scratch(kPatches, g.gather_room());
    return work;
  }

  void forward(const Scratch& work, const ForwardPlanes& f) const override {
    const float bias = f.first_bias();
    const PlaneWriter out{f.y, p_.shape.out_width, f.y + p_.out_plane()};
    p_.geometry.input.place(work.x, f.x);
    if (p_.is_average()) return average_windows(p_.geometry, work.x, p_.divisor(), p_.cells_inside(), bias, out);
    if (p_.shape.function == kL2Norm) return norm_windows(p_.geometry, work.x, bias, out);
    if (f.index)
      max_with_indices(work, f.index, bias, out);
    else
      max_windows(p_.geometry, work.x, bias, out);
    p_.fill_empty(f.y, bias);  // not the border's minus infinity
  }

  void backward(const Scratch& work, const BackwardPlanes& b) const override {
    if (p_.is_average()) return average_backward(work, b);
    p_.geometry.input.place(work.x, b.x);
    if (p_.shape.function == kL2Norm) return norm_backward(work, b);
    if (!p_.shape.padding_wins && p_.shape.stride_y * p_.shape.stride_x >= kSparseWindows) return scatter_won(work, b);
    max_backward(work, b);
  }

 private:
  void max_with_indices(const Scratch& work, const IndexPlane& index, float bias, const PlaneWriter& out) const {
    const bool padding_wins = p_.shape.padding_wins;
    const int64_t pitch = p_.geometry.gradient.row_pitch;
    const int32_t* label = padding_wins ? number_.data() : distance_.data();
    find_winners(p_.geometry, work.x, padding_wins, bias, &out, label, work.winner, pitch);
    for (int64_t r = 0; padding_wins && r < p_.shape.out_height; r++) numbers_to_distances(r, work.winner + r * pitch);
    write_winners(p_, work.winner, pitch, index);
  }

  // A zero of the padding has no position in the plane: -1.
  void numbers_to_distances(int64_t row, int32_t* winner) const {
    const PoolingShape& s = p_.shape;
    for (int64_t c = 0; c < s.out_width; c++) {
      const int64_t ky = winner[c] / s.kernel_width, kx = winner[c] % s.kernel_width;
      const int64_t y = row * s.stride_y + ky * s.dilation_y - s.pad_up;
      const int64_t x = c * s.stride_x + kx * s.dilation_x - s.pad_left;
      const bool inside = y >= 0 && y < s.in_height && x >= 0 && x < s.in_width;
      winner[c] = inside ? distance_[static_cast<size_t>(winner[c])] : -1;
    }
  }

  // z = max over taps of x: dz goes to the tap that won, found again from x
  void max_backward(const Scratch& work, const BackwardPlanes& b) const {
    const WindowGeometry& g = p_.geometry;
    find_winners(g, work.x, p_.shape.padding_wins, 0, nullptr, number_.data(), work.winner + g.gradient_origin(),
                 g.gradient.row_pitch);
    g.gradient.place(work.gradient, b.dz);
    g.gather(b.dx, b.adds, work.gather, [&](const Phase& phase, const PlaneWriter& out) {
      gather_won(g, phase, work.gradient, work.winner, out);
    });
  }

  // The same for fewer windows than cells, window by window. The last comes first: so a cell adds its windows in the
  // order of its taps, as above.
  void scatter_won(const Scratch& work, const BackwardPlanes& b) const {
    const PoolingShape& s = p_.shape;
    const int64_t pitch = p_.geometry.gradient.row_pitch;
    find_winners(p_.geometry, work.x, false, 0, nullptr, distance_.data(), work.winner, pitch);
    write_plane(p_, b, work.plane, [&](float* dx) {
      std::fill_n(dx, p_.in_plane(), 0.0f);
      for (int64_t r = s.out_height - 1; r >= 0; r--) {
        const int64_t first = (r * s.stride_y - s.pad_up) * s.in_width - s.pad_left;
        const int32_t* winner = work.winner + r * pitch;
        const float* from = b.dz + r * s.out_width;
        for (int64_t c = s.out_width - 1; c >= 0; c--)
          if (winner[c] >= 0) dx[first + c * s.stride_x + winner[c]] += from[c];
      }
    });
  }

  // z = sum over taps of x / divisor: dx = sum over windows of dz / divisor
  void average_backward(const Scratch& work, const BackwardPlanes& b) const {
    const CellCounts* counts = p_.cells_inside();
    const int64_t width = p_.shape.out_width;
    for (int64_t r = 0; r < p_.shape.out_height; r++)
      for (int64_t c = 0; c < width; c++) {
        const float count = counts ? counts->rows[r] * counts->columns[c] : p_.divisor();
        work.plane[r * width + c] = count > 0 ? b.dz[r * width + c] / count : 0;
      }
    gather_shares(work, b.dx, b.adds);
  }

  // z = p = sqrt(sum over taps of x^2): dx = x * sum over windows of dz / p, 0 where p = 0
  void norm_backward(const Scratch& work, const BackwardPlanes& b) const {
    const PlaneWriter norms{work.plane, p_.shape.out_width, work.plane + p_.out_plane()};
    norm_windows(p_.geometry, work.x, 0, norms);
    for (int64_t i = 0; i < p_.out_plane(); i++) work.plane[i] = work.plane[i] == 0 ? 0 : b.dz[i] / work.plane[i];
    gather_shares(work, work.plane, false);
    write_plane(p_, b, work.plane, [&](float* dx) {
      for (int64_t i = 0; i < p_.in_plane(); i++) dx[i] = b.x[i] * work.plane[i];
    });
  }

  // dx = (or +=) sum over the windows of a cell of their shares, which are in work.plane
  void gather_shares(const Scratch& work, float* dx, bool adds) const {
    p_.geometry.gradient.place(work.gradient, work.plane);
    p_.geometry.gather(dx, adds, work.gather, [&](const Phase& phase, const PlaneWriter& out) {
      gather_all(p_.geometry, phase, work.gradient, out);
    });
  }

  const std::vector<int32_t> distance_;  // of every tap from the start of its window, in the plane
  std::vector<int32_t> number_;          // of every tap: 0, 1, 2, ...
};

}  // namespace

const MethodEntry kAnyWindows = entry_of<AnyWindows>();

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
