#include "kernels/convolution/band.h"

#include <algorithm>

#include "common/scratch_uses.h"
#include "gemm/bfloat16_kernel.h"
#include "gemm/pack.h"
#include "kernels/activation/activation.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

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

// Row i: rows 2 i and 2 i + 1 of those of a block, rounded to BFloat16.
struct RoundedRowPairs {
  PlainRows rows;
  int count;
  OPENBNNS_INLINE Vec read(int row, int64_t column) const {
    const Vec second = 2 * row + 1 < count ? rows.read(2 * row + 1, column) : Vec{};
    return from_bits(round_to_bfloat16_pairs({rows.read(2 * row, column), second}));
  }
  OPENBNNS_INLINE Vec read(int row, int64_t column, int64_t columns) const {
    const Vec second = 2 * row + 1 < count ? rows.read(2 * row + 1, column, columns) : Vec{};
    return from_bits(round_to_bfloat16_pairs({rows.read(2 * row, column, columns), second}));
  }
};

// [remainder]: whether some tap meets cells that lie low + remainder + a multiple of the stride.
std::vector<bool> used_remainders(const Axis& axis) {
  std::vector<bool> used(axis.in_step, false);
  for (const AxisPhase& phase : axis.phases)
    for (const AxisTap& tap : phase.taps) used[(tap.offset - axis.low) % axis.in_step] = true;
  return used;
}

}  // namespace

Band::Band(const Axis& rows, const Axis& columns, int out_rows, SumKind sums)
    : pairs_(sums == SumKind::kBFloat16Pairs),
      step_(columns.in_step),
      first_column_(columns.low),
      rows_(rows.span(out_rows)),
      image_width_(columns.in_size),
      row_used_(used_remainders(rows)) {
  width_ = (columns.span(std::max(1, columns.most_outputs())) + step_ - 1) / step_;
  find_places(used_remainders(columns));
}

Band::Band(int rows, int width)
    : step_(1), width_(width), first_column_(0), rows_(rows), image_width_(width), row_used_(1, true) {
  find_places({true});
}

void Band::find_places(const std::vector<bool>& column_used) {
  int held = step_ * width_;
  for (int row = 0; row < rows_; row++)
    for (int column = 0; column < image_width_; column++) {
      int q = column - first_column_;
      bool inside = q >= 0 && q < held && column_used[q % step_];
      places_.push_back(inside ? static_cast<int32_t>(row * this->row() + place(column)) : -1);
    }
  for (int q = 0; q < held; q++)
    if (column_used[q % step_] && (q + first_column_ < 0 || q + first_column_ >= image_width_))
      border_.push_back(static_cast<int32_t>(place(q + first_column_)));
}

void Band::pack(const ImageSource& image, int64_t n, int64_t channel, int64_t channels, int first_row, int rows,
                float* out, float* sums) const {
  int image_rows = static_cast<int>(image.plane / image_width_);
  auto inside = [&](int r) { return first_row + r >= 0 && first_row + r < image_rows; };
  auto used = [&](int r) { return row_used_[r % row_used_.size()]; };
  const int64_t together = pairs_ ? 2 * kBlock : kBlock;  // channels of a block
  for (int64_t c = 0; c < channels; c += together) {
    float* block = out + c / together * plane();
    const int have = static_cast<int>(std::min(together, channels - c));
    for (int r = 0; r < rows;) {
      int end = r + 1;
      if (used(r) && inside(r)) {
        while (end < rows && used(end) && inside(end)) end++;
        pack_rows(image, n, channel + c, have, first_row + r, first_row + end, block + r * row(),
                  sums ? sums + c : nullptr);
      } else if (used(r)) {
        std::fill_n(block + r * row(), row(), 0.f);
      }
      r = end;
    }
  }
}

// Image rows [y0, y1) of the channels of a block.
void Band::pack_rows(const ImageSource& image, int64_t n, int64_t channel, int channels, int y0, int y1, float* out,
                     float* sums) const {
  const int32_t* places = places_.data();
  float unused[kBlock];
  float* dump = unused;
  int64_t count = int64_t{y1 - y0} * image_width_, plane_stride;
  const float* pixels = image.pixels(n, channel, channels, int64_t{y0} * image_width_, count, &plane_stride);
  for (int r = 0; r < y1 - y0; r++)
    for (int32_t cell : border_) std::fill_n(out + r * row() + cell, kBlock, 0.f);
  const auto place_of = [=](int64_t j) {
    int32_t place = places[j];
    return place < 0 ? dump : out + place;
  };
  if (kHasBFloat16Pairs && pairs_)
    transpose_rows(RoundedRowPairs{{pixels, plane_stride}, channels}, (channels + 1) / 2, count, place_of);
  else
    transpose_rows(pixels, plane_stride, channels, count, place_of);
  if (sums) add_cells(out, places, count, sums);
}

const float* ImageSource::pixels(int64_t n, int64_t channel, int64_t channels, int64_t first, int64_t count,
                                 int64_t* plane_stride) const {
  const float* from = data + n * stride + channel * plane + first;
  *plane_stride = plane;
  if (!computed()) return from;
  *plane_stride = count;
  float* dz = scratch(kActivated, static_cast<size_t>(channels * count));
  for (int64_t c = 0; maker && c < channels; c++) maker->make(n, channel + c, first, count, dz + c * count);
  if (maker) return dz;
  const float* y = output + n * output_stride + channel * plane + first;
  for (int64_t c = 0; c < channels; c++)
    activation_backward_from_output(*activation, y + c * plane, from + c * plane, dz + c * count, count, width);
  return dz;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
