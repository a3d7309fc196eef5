// Windows that slide over image planes (depthwise convolution, pooling), forward and backward.
//
// Window (oy, ox) meets input cell (oy * stride_y + ky * dilation_y - pad_up, likewise x). In the bordered copy of the
// input every tap of a window is a constant offset. Backward reverses this: input cells with the same remainder
// modulo the stride form a phase; they meet the same taps, at unit stride in the bordered gradient.
#pragma once
#include <vector>

#include "common/planes.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct WindowShape {
  int64_t in_height, in_width, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left;
};

// Taps of a window: where each one lies from the window's origin, and its number ky * kernel_width + kx.
struct Taps {
  std::vector<int64_t> offset, number;

  void push(int64_t o, int64_t n) {
    offset.push_back(o);
    number.push_back(n);
  }
  int count() const { return static_cast<int>(offset.size()); }
};

// The input cells (qy * stride_y + py - pad_up, qx * stride_x + px - pad_left) for one (py, px).
struct Phase {
  int64_t first_row, rows;        // of the input, every stride_y-th
  int64_t first_column, columns;  // of the input, every stride_x-th
  int64_t origin;                 // of the first cell's window in the bordered gradient
  Taps taps;                      // offsets in the bordered gradient
};

// Windows side by side: the origin of window (r, c) is `source` + r * row_step + c.
struct Windows {
  int64_t source, row_step;
  int64_t rows, columns;
};

struct WindowGeometry {
  WindowShape shape;
  int64_t reach_y, reach_x;          // windows that an input cell meets before its own
  PlaneLayout input;                 // bordered input, columns sorted by stride
  PlaneLayout gradient;              // bordered gradient of the output
  int64_t phase_pitch, phase_plane;  // room for the cells of one phase: a row, all rows
  Taps taps;                         // offsets in the bordered input
  int64_t phases_y, phases_x;        // those that have cells: an image may be smaller than the stride
  std::vector<Phase> phases;         // [phases_y][phases_x]; empty if these are too many to keep

  [[gnu::cold]] explicit WindowGeometry(const WindowShape& s)
      : shape(s),
        reach_y((s.kernel_height - 1) * s.dilation_y / s.stride_y),
        reach_x((s.kernel_width - 1) * s.dilation_x / s.stride_x),
        input(s.in_height, s.in_width, s.pad_up, s.pad_left, s.stride_x,
              (s.out_height - 1) * s.stride_y + (s.kernel_height - 1) * s.dilation_y + 1,
              std::max(round_up(s.out_width, kWidth) + reach_x, s.pad_left / s.stride_x + 1)),
        gradient(
            s.out_height, s.out_width, reach_y, reach_x, 1,
            reach_y + std::max(s.out_height, (s.in_height - 1 + s.pad_up) / s.stride_y + 1),
            reach_x + round_up(std::max(s.out_width, (s.in_width - 1 + s.pad_left) / s.stride_x + 1), kWidth) + kWidth),
        phase_pitch(round_up((s.in_width + s.stride_x - 1) / s.stride_x, kWidth)),
        phase_plane((s.in_height + s.stride_y - 1) / s.stride_y * phase_pitch),
        phases_y(std::min(s.stride_y, s.in_height + s.pad_up)),
        phases_x(std::min(s.stride_x, s.in_width + s.pad_left)) {
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++)
        taps.push(input.offset(ky * s.dilation_y, kx * s.dilation_x), ky * s.kernel_width + kx);
    constexpr int64_t kMostPhases = 1024;
    for (int64_t py = 0; phases_y * phases_x <= kMostPhases && py < phases_y; py++)
      for (int64_t px = 0; px < phases_x; px++) phases.push_back(make_phase(py, px));
  }

  int64_t in_plane() const { return shape.in_height * shape.in_width; }
  int64_t out_plane() const { return shape.out_height * shape.out_width; }

  // All windows, in the bordered input.
  Windows windows() const { return {0, input.row_pitch * shape.stride_y, shape.out_height, shape.out_width}; }
  // The cells of a phase, in the bordered gradient.
  Windows windows(const Phase& phase) const { return {phase.origin, gradient.row_pitch, phase.rows, phase.columns}; }
  // Where output cell (0, 0) lies in the bordered gradient.
  int64_t gradient_origin() const { return gradient.offset(reach_y, reach_x); }

  // Scratch that gather() needs, in floats.
  int64_t gather_room() const { return phases.size() == 1 ? in_plane() : phases_x * phase_plane + in_plane(); }

  // dx [in_height][in_width] = (or +=) the planes that compute(phase, writer) makes of every phase.
  template <class Compute>
  void gather(float* dx, bool adds, float* room, Compute&& compute) const {
    if (phases.size() == 1) {
      float* to = adds ? room : dx;
      compute(phases[0], PlaneWriter{to, shape.in_width, to + in_plane()});
      if (adds) add_row(dx, to, in_plane());
      return;
    }
    std::vector<Phase> made;
    for (int64_t py = 0; py < phases_y; py++) {
      if (phases.empty()) {
        made.clear();
        for (int64_t px = 0; px < phases_x; px++) made.push_back(make_phase(py, px));
      }
      const Phase* row_phases = phases.empty() ? made.data() : phases.data() + py * phases_x;
      for (int64_t px = 0; px < phases_x; px++) {
        float* plane = room + px * phase_plane;
        compute(row_phases[px], PlaneWriter{plane, phase_pitch, plane + phase_plane});
      }
      for (int64_t r = 0; r < row_phases[0].rows; r++)
        merge_phases(dx + (row_phases[0].first_row + r * shape.stride_y) * shape.in_width, adds, row_phases,
                     room + r * phase_pitch);
    }
  }

 private:
  Phase make_phase(int64_t py, int64_t px) const {
    const WindowShape& s = shape;
    Phase phase;
    int64_t qy = std::max<int64_t>(0, (s.pad_up - py + s.stride_y - 1) / s.stride_y);
    int64_t qx = std::max<int64_t>(0, (s.pad_left - px + s.stride_x - 1) / s.stride_x);
    phase.first_row = qy * s.stride_y + py - s.pad_up;
    phase.first_column = qx * s.stride_x + px - s.pad_left;
    phase.rows = std::max<int64_t>(0, (s.in_height - phase.first_row + s.stride_y - 1) / s.stride_y);
    phase.columns = std::max<int64_t>(0, (s.in_width - phase.first_column + s.stride_x - 1) / s.stride_x);
    phase.origin = gradient.offset(qy, qx);
    // forward: window o meets cell o * stride + k * dilation; so cell q * stride + p meets window q - k * dilation /
    // stride
    for (int64_t ky = 0; ky < s.kernel_height; ky++)
      for (int64_t kx = 0; kx < s.kernel_width; kx++) {
        int64_t y = ky * s.dilation_y, x = kx * s.dilation_x;
        if (y % s.stride_y != py || x % s.stride_x != px) continue;
        phase.taps.push(gradient.offset(reach_y - y / s.stride_y, reach_x - x / s.stride_x), ky * s.kernel_width + kx);
      }
    return phase;
  }

  // One row of dx from the rows of its phases, which lie phase_plane apart.
  void merge_phases(float* row, bool adds, const Phase* row_phases, const float* rows) const {
    if (shape.stride_x == 1) return adds ? add_row(row, rows, shape.in_width) : copy_row(row, rows, shape.in_width);
    if (shape.stride_x == 2 && phases_x == 2 && !adds) return merge_pairs(row, row_phases, rows);
    for (int64_t px = 0; px < phases_x; px++) {
      const float* from = rows + px * phase_plane;
      float* to = row + row_phases[px].first_column;
      for (int64_t i = 0; i < row_phases[px].columns; i++) {
        float* cell = to + i * shape.stride_x;
        *cell = adds ? *cell + from[i] : from[i];
      }
    }
  }
  // Two phases put together, kWidth pairs at a time.
  void merge_pairs(float* row, const Phase* row_phases, const float* rows) const {
    const int64_t first = row_phases[0].first_column == 0 ? 0 : 1;  // the phase of column 0
    const float *even = rows + first * phase_plane, *odd = rows + (1 - first) * phase_plane;
    const int64_t pairs = shape.in_width / 2;
    for (int64_t done = 0; done < pairs; done += kWidth)
      store_pairs(row + 2 * done, {load(even + done), load(odd + done)}, pairs - done);
    if (shape.in_width % 2) row[2 * pairs] = even[pairs];
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
