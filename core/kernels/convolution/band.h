// Rows of an image in the layout of the direct kernels: blocks of 16 channels with a border of zeros.
#pragma once
#include <vector>

#include "kernels/convolution/axis.h"
#include "kernels/convolution/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// [channels / 16][rows][column % step][column / step][16], where column 0 is input column `first_column` (often
// negative: padding). Cells outside the image hold zeros, so padding and stride vanish: every tap of the kernel is a
// constant offset from the cell of its output.
//
// With SumKind::kBFloat16Pairs two neighbouring channels, rounded, lie in the 32 bits of one.
class Band {
 public:
  // Holds the cells that `out_rows` outputs of each phase of the rows, and all outputs of the columns, read.
  Band(const Axis& rows, const Axis& columns, int out_rows, SumKind sums = SumKind::kFloats);
  // Columns [0, width) of an image as they are, without a border.
  Band(int rows, int width);

  int rows() const { return rows_; }
  int64_t row() const { return int64_t{step_} * width_ * 16; }
  int64_t plane() const { return rows_ * row(); }
  // Offset of input column `column` within a row.
  int64_t place(int column) const {
    int q = column - first_column_;
    return (int64_t{q % step_} * width_ + q / step_) * 16;
  }
  // Packs `rows` image rows from `first_row` on (rows outside the image are zeros) of `channels` channels. Rows and
  // columns that no tap meets, because the stride exceeds the kernel, are left as they are. sums, if given: [channels
  // rounded up to 16], gets the sum of the packed cells of each channel added; for bands of floats without a border.
  void pack(const ImageSource& image, int64_t n, int64_t channel, int64_t channels, int first_row, int rows, float* out,
            float* sums) const;

 private:
  void find_places(const std::vector<bool>& column_used);
  void pack_rows(const ImageSource& image, int64_t n, int64_t channel, int channels, int y0, int y1, float* out,
                 float* sums) const;

  bool pairs_ = false;
  int step_, width_, first_column_, rows_, image_width_;
  std::vector<bool> row_used_;   // by row % stride
  std::vector<int32_t> places_;  // of pixel (row, column) counted through whole image rows; -1: not in the band
  std::vector<int32_t> border_;  // of the cells of a row that lie outside the image
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
