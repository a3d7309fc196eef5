// What the kernels for few channels share: images as padded planes, and the list of taps. A "tap" here is one cell
// (channel, ky, kx) of the kernel.
#pragma once
#include <algorithm>
#include <vector>

#include "kernels/convolution/axis.h"
#include "kernels/convolution/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Rows of an image as [channel][row][column % step][column / step] with a border of zeros: for every tap, the cells of
// neighbouring outputs are neighbours.
class Planes {
 public:
  // `slack` zero cells end every run, for vectors that read beyond it.
  Planes(const Axis& rows, const Axis& columns, int64_t channels, int out_rows, int slack)
      : rows_(rows), columns_(columns), channels_(channels), height_(rows.span(out_rows)) {
    width_ = (columns.span(columns.out_size) + columns.in_step - 1) / columns.in_step + slack;
  }

  int64_t row() const { return int64_t{columns_.in_step} * width_; }
  int64_t out_row() const { return rows_.in_step * row(); }  // from one output row to the next
  int64_t plane() const { return height_ * row(); }
  int64_t count() const { return channels_ * plane(); }
  // Offset of a tap from the cell of its output.
  int64_t tap(int64_t channel, const AxisTap& ky, const AxisTap& kx) const {
    return channel * plane() + (ky.offset - rows_.low) * row() + place(kx.offset);
  }

  // Packs the cells that output rows [row0, row0 + rows) read. out: count() floats.
  void pack(const ImageSource& image, int64_t n, int64_t channel, int row0, int rows, float* out) const {
    int first = row0 * rows_.in_step + rows_.low, last = first + rows_.span(rows);
    int low = std::max(0, first), high = std::max(low, std::min(rows_.in_size, last));
    std::fill_n(out, count(), 0.f);
    if (low == high) return;
    int64_t width = columns_.in_size;
    for (int64_t c = 0; c < channels_; c++) {
      int64_t unused;
      const float* from = image.pixels(n, channel + c, 1, low * width, (high - low) * width, &unused);
      for (int y = low; y < high; y++, from += width)
        for_cells([&](int x, int64_t place, int step, int64_t cells) {
          float* to = out + c * plane() + (y - first) * row() + place;
          if (step == 1)
            std::copy_n(from + x, cells, to);
          else
            for (int64_t i = 0; i < cells; i++) to[i] = from[x + i * step];
        });
    }
  }

  // image[channel][y][x] (+)= its cell for rows y of [first, last); the planes hold the whole image.
  void unpack(const float* planes, int first, int last, float* image, const float* bias, bool accumulate) const {
    int64_t width = columns_.in_size, pixels = rows_.in_size * width;
    for (int64_t c = 0; c < channels_; c++) {
      float start = bias ? bias[c] : 0.f;
      for (int y = first; y < last; y++) {
        float* to = image + c * pixels + y * width;
        if (!accumulate) std::fill_n(to, width, start);
        if (y < rows_.low || y - rows_.low >= height_) continue;
        for_cells([&](int x, int64_t place, int step, int64_t cells) {
          const float* from = planes + c * plane() + (y - rows_.low) * row() + place;
          if (step == 1)
            for (int64_t i = 0; i < cells; i++) to[x + i] += from[i];
          else
            for (int64_t i = 0; i < cells; i++) to[x + i * step] += from[i];
        });
      }
    }
  }

 private:
  int64_t place(int column) const {
    int q = column - columns_.low;
    return int64_t{q % columns_.in_step} * width_ + q / columns_.in_step;
  }
  // body(image column, place, image step, count) for the runs of a row that lie inside the image.
  template <class Body>
  void for_cells(Body body) const {
    int step = columns_.in_step;
    for (int phase = 0; phase < step; phase++) {
      int64_t first = columns_.low + phase;  // image column of cell 0 of the phase
      int64_t skip = first >= 0 ? 0 : (-first + step - 1) / step;
      int64_t end = std::min<int64_t>(width_, (columns_.in_size - first + step - 1) / step);
      if (end > skip) body(static_cast<int>(first + skip * step), phase * int64_t{width_} + skip, step, end - skip);
    }
  }

  const Axis& rows_;
  const Axis& columns_;
  int64_t channels_;
  int height_, width_;
};

// Sizes per group, and the taps that meet the image at all. The gradient of the input with stride 1 is again such a
// sum over an image, with the two kinds of channels exchanged.
struct FewChannelsShape {
  [[gnu::cold]] FewChannelsShape(const ConvolutionShape& s, bool backward)
      : groups(s.groups),
        read(backward ? s.out_channels / s.groups : s.in_channels / s.groups),
        made(backward ? s.in_channels / s.groups : s.out_channels / s.groups),
        rows(backward ? backward_rows(s) : forward_rows(s)),
        columns(backward ? backward_columns(s) : forward_columns(s)),
        pixels(int64_t{rows.out_size} * columns.out_size),
        operations(flops(s)),
        kernel_cells(s.kernel_height * s.kernel_width),
        inputs(s.in_channels / s.groups),
        outputs(s.out_channels / s.groups),
        backward_(backward) {
    for (int64_t c = 0; c < read; c++)
      for (const AxisTap& ky : rows.phases[0].taps)
        for (const AxisTap& kx : columns.phases[0].taps) {
          channels_.push_back(c);
          cells_.push_back(ky.tap * s.kernel_width + kx.tap);
        }
  }
  int64_t taps() const { return static_cast<int64_t>(cells_.size()); }
  // Index into w: [groups][outputs][inputs][kernel_height][kernel_width].
  int64_t weight(int64_t group, int64_t made_channel, int64_t tap) const {
    int64_t k = backward_ ? channels_[tap] : made_channel, c = backward_ ? made_channel : channels_[tap];
    return ((group * outputs + k) * inputs + c) * kernel_cells + cells_[tap];
  }
  // Where the taps lie in these planes.
  std::vector<int32_t> places(const Planes& planes) const {
    std::vector<int32_t> list;
    for (int64_t c = 0; c < read; c++)
      for (const AxisTap& ky : rows.phases[0].taps)
        for (const AxisTap& kx : columns.phases[0].taps) list.push_back(static_cast<int32_t>(planes.tap(c, ky, kx)));
    return list;
  }

  const int64_t groups, read, made;  // channels per group that are read, and that are made
  const Axis rows, columns;
  const int64_t pixels;  // of a channel that is made
  const double operations;
  const int64_t kernel_cells, inputs, outputs;

 private:
  bool backward_;
  std::vector<int64_t> channels_, cells_;  // [tap]
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
