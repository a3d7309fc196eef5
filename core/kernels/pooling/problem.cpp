#include <limits>

#include "kernels/pooling/methods.h"

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

WindowShape windows_of(const PoolingShape& s) {
  return {s.in_height, s.in_width, s.out_height, s.out_width,  s.kernel_height, s.kernel_width,
          s.stride_y,  s.stride_x, s.dilation_y, s.dilation_x, s.pad_up,        s.pad_left};
}

// The same windows without taps that are inside the plane for no window, if that makes the bordered plane much smaller:
// an absurd dilation or padding must not cost more than the images have cells. Meant for borders that do not count.
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

PoolingShape effective(PoolingShape s) {
  if (s.padding_wins || s.function == kUnMax) return s;
  const WindowShape w = without_idle_taps(windows_of(s));
  s.kernel_height = w.kernel_height, s.kernel_width = w.kernel_width;
  s.dilation_y = w.dilation_y, s.dilation_x = w.dilation_x;
  s.pad_up = w.pad_up, s.pad_left = w.pad_left;
  return s;
}

}  // namespace

CellCounts::CellCounts(const WindowShape& s)
    : rows(static_cast<size_t>(s.out_height)), columns(static_cast<size_t>(round_up(s.out_width, kWidth)), 1.0f) {
  for (int64_t y = 0; y < s.out_height; y++)
    rows[y] = static_cast<float>(cells_inside(y * s.stride_y - s.pad_up, s.kernel_height, s.dilation_y, s.in_height));
  for (int64_t x = 0; x < s.out_width; x++)
    columns[x] =
        static_cast<float>(cells_inside(x * s.stride_x - s.pad_left, s.kernel_width, s.dilation_x, s.in_width));
}

Problem::Problem(const PoolingShape& given)
    : shape(effective(given)),
      cells(given.kernel_height * given.kernel_width),
      geometry(windows_of(shape)),
      counts(geometry.shape) {
  const bool meets = counts.all_meet();
  for (int64_t i = 0; shape.function == kMax && !meets && i < out_plane(); i++)
    if (counts.rows[i / shape.out_width] * counts.columns[i % shape.out_width] == 0) empty.push_back(i);
}

bool Problem::covers_plane() const {
  const PoolingShape& s = shape;
  return s.out_height == 1 && s.out_width == 1 && s.dilation_y == 1 && s.dilation_x == 1 &&
         s.kernel_height - s.pad_up >= s.in_height && s.kernel_width - s.pad_left >= s.in_width;
}

float Problem::border() const {
  const bool ignored = shape.function == kMax && !shape.padding_wins;
  return ignored ? -std::numeric_limits<float>::infinity() : 0.0f;
}

std::vector<int32_t> Problem::tap_distances() const {
  std::vector<int32_t> distances;
  for (int64_t ky = 0; ky < shape.kernel_height; ky++)
    for (int64_t kx = 0; kx < shape.kernel_width; kx++)
      distances.push_back(static_cast<int32_t>(ky * shape.dilation_y * shape.in_width + kx * shape.dilation_x));
  return distances;
}

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
