#include "kernels/pooling/windows.h"

#include <limits>

#include "kernels/pooling/maximum.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {
namespace {

// Cells of [0, size) among origin, origin + dilation, ..., `kernel` of them.
int64_t cells_inside(int64_t origin, int64_t kernel, int64_t dilation, int64_t size) {
  // multiples of the dilation below `cell`, from the origin on
  auto before = [=](int64_t cell) {
    return cell <= origin ? 0 : std::min(kernel, (cell - origin + dilation - 1) / dilation);
  };
  return before(size) - before(0);
}

// One axis: taps at window * stride + tap * dilation - pad.
struct AxisTaps {
  int64_t kernel, dilation, pad;
};

AxisTaps without_idle_taps(AxisTaps a, int64_t in, int64_t out, int64_t stride) {
  const int64_t beyond = (out - 1) * stride + 1;  // a tap so far before the plane meets it in no window
  const int64_t before = std::max<int64_t>(0, a.pad - beyond + 1),
                last = std::min(a.kernel - 1, (a.pad + in - 1) / a.dilation);
  const int64_t first = (before + a.dilation - 1) / a.dilation;
  if (first > last) return {1, 1, beyond};
  const int64_t start = a.pad - first * a.dilation;  // of the first tap that counts, before the plane
  if (start >= 0) return {last - first + 1, first == last ? 1 : a.dilation, start};
  // It begins inside the plane, which windows do not: one before it stays, which is the last but one, or near enough.
  if (first == last) return {2, beyond - start, beyond};
  return {last - first + 2, a.dilation, start + a.dilation};
}

// Cells that the windows of one axis reach over.
int64_t reach(const AxisTaps& a, int64_t in, int64_t out, int64_t stride) {
  return std::max(a.pad + in, (out - 1) * stride + (a.kernel - 1) * a.dilation + 1);
}

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

}  // namespace

WindowShape without_idle_taps(const WindowShape& s) {
  const AxisTaps tall{s.kernel_height, s.dilation_y, s.pad_up}, wide{s.kernel_width, s.dilation_x, s.pad_left};
  const AxisTaps y = without_idle_taps(tall, s.in_height, s.out_height, s.stride_y);
  const AxisTaps x = without_idle_taps(wide, s.in_width, s.out_width, s.stride_x);
  auto cells = [&](const AxisTaps& rows, const AxisTaps& columns) {
    return reach(rows, s.in_height, s.out_height, s.stride_y) * reach(columns, s.in_width, s.out_width, s.stride_x);
  };
  if (cells(tall, wide) <= 4 * cells(y, x)) return s;
  return {s.in_height, s.in_width, s.out_height, s.out_width, y.kernel, x.kernel,
          s.stride_y,  s.stride_x, y.dilation,   x.dilation,  y.pad,    x.pad};
}

CellCounts::CellCounts(const WindowShape& s)
    : rows(static_cast<size_t>(s.out_height)), columns(static_cast<size_t>(round_up(s.out_width, kWidth)), 1.0f) {
  for (int64_t y = 0; y < s.out_height; y++)
    rows[y] = static_cast<float>(cells_inside(y * s.stride_y - s.pad_up, s.kernel_height, s.dilation_y, s.in_height));
  for (int64_t x = 0; x < s.out_width; x++)
    columns[x] =
        static_cast<float>(cells_inside(x * s.stride_x - s.pad_left, s.kernel_width, s.dilation_x, s.in_width));
}

void max_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out) {
  const int64_t* offset = geometry.taps.offset.data();
  const int count = geometry.taps.count();
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    Vec best = load(origin + offset[0]);
    for (int t = 1; t < count; t++) best = larger(best, load(origin + offset[t]));
    out.write(r, c, best + bias);
  });
}

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

void average_windows(const WindowGeometry& geometry, const float* bordered, float divisor, const CellCounts* counts,
                     float bias, const PlaneWriter& out) {
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    Vec sum = sum_taps(geometry.taps, origin, [](Vec v) { return v; });
    Vec count = counts ? counts->rows[r] * load(counts->columns.data() + c) : splat(divisor);
    // a window outside the plane has the sum and the average 0
    out.write(r, c, sum / select(count == Vec{}, splat(1.0f), count) + bias);
  });
}

void norm_windows(const WindowGeometry& geometry, const float* bordered, float bias, const PlaneWriter& out) {
  for_each_origin(bordered, geometry.windows(), [&](int64_t r, int64_t c, const float* origin) {
    out.write(r, c, math::sqrt(sum_taps(geometry.taps, origin, [](Vec v) { return v * v; })) + bias);
  });
}

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

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
