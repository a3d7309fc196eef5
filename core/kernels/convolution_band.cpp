#include "kernels/convolution_band.h"

#include <algorithm>

#include "gemm/pack.h"
#include "kernels/activation.h"
#include "kernels/scratch_uses.h"
#include "runtime/scratch.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// sums[lane] += sum over count cells; four chains, so that the adds overlap.
void add_cells(const float* block, const int32_t* places, int64_t count, float* sums) {
  for (int part = 0; part < kBlock; part += kWidth) {
    Vec sum[4] = {Vec{}, Vec{}, Vec{}, Vec{}};
    int64_t j = 0;
    for (; j + 4 <= count; j += 4)
      OPENBNNS_UNROLL for (int chain = 0; chain < 4; chain++) sum[chain] += load(block + places[j + chain] + part);
    for (; j < count; j++) sum[0] += load(block + places[j] + part);
    store(sums + part, load(sums + part) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
  }
}

}  // namespace

Band::Band(const Axis& columns, int rows)
    : step_(columns.in_step), first_column_(columns.low), rows_(rows), image_width_(columns.in_size) {
  width_ = (columns.span(std::max(1, columns.most_outputs())) + step_ - 1) / step_;
  find_places(columns.in_size);
}

Band::Band(int width, int rows, int unit) : step_(1), first_column_(0), rows_(rows), image_width_(width) {
  width_ = static_cast<int>(round_up(width, unit));
  find_places(width);
}

void Band::find_places(int image_width) {
  int held = step_ * width_;
  for (int row = 0; row < rows_; row++)
    for (int column = 0; column < image_width; column++) {
      int q = column - first_column_;
      places_.push_back(q < 0 || q >= held ? -1 : static_cast<int32_t>(row * this->row() + place(column)));
    }
  for (int q = 0; q < held; q++)
    if (q + first_column_ < 0 || q + first_column_ >= image_width)
      border_.push_back(static_cast<int32_t>(place(q + first_column_)));
}

void Band::pack(const ImageSource& image, int64_t n, int64_t channel, int64_t channels, int first_row, int rows,
                float* out, float* sums) const {
  int image_rows = static_cast<int>(image.plane / image_width_);
  int low = std::max(0, first_row), high = std::max(low, std::min(image_rows, first_row + rows));
  int64_t count = int64_t{high - low} * image_width_;
  const int32_t* places = places_.data();
  float unused[kBlock];
  float* dump = unused;
  for (int64_t c = 0; c < channels; c += kBlock) {
    float* block = out + c / kBlock * plane();
    for (int r = 0; r < rows; r++) {
      float* line = block + r * row();
      if (first_row + r < low || first_row + r >= high)
        std::fill_n(line, row(), 0.f);
      else
        for (int32_t cell : border_) std::fill_n(line + cell, kBlock, 0.f);
    }
    if (count == 0) continue;
    int lanes = static_cast<int>(std::min<int64_t>(kBlock, channels - c));
    float* first = block + (low - first_row) * row();
    int64_t plane_stride;
    const float* pixels =
        image.pixels(n, channel + c, lanes, int64_t{low} * image_width_, count, &plane_stride);
    transpose_rows(pixels, plane_stride, lanes, count, [=](int64_t j) {
      int32_t place = places[j];
      return place < 0 ? dump : first + place;
    });
    if (sums) add_cells(first, places, count, sums + c);
  }
}

const float* ImageSource::pixels(int64_t n, int64_t channel, int64_t channels, int64_t first, int64_t count,
                                 int64_t* plane_stride) const {
  const float* from = data + n * stride + channel * plane + first;
  *plane_stride = plane;
  if (!output) return from;
  *plane_stride = count;
  float* dz = scratch(kActivated, static_cast<size_t>(channels * count));
  const float* y = output + n * output_stride + channel * plane + first;
  for (int64_t c = 0; c < channels; c++)
    activation_backward_from_output(*activation, y + c * plane, from + c * plane, dz + c * count, count, width);
  return dz;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
