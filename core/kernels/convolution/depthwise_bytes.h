// Exact sums of bytes under the windows of depthwise convolutions: a lane of 32 bits holds two or four neighbours of a
// row, so that one instruction multiplies as many columns of a window.
#pragma once
#include <cstdint>
#include <vector>

#include "common/byte_blocks.h"
#include "gemm/gemm.h"
#include "kernels/convolution/byte_groups.h"
#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Blocks of four vectors of sums, which come by turns of 1, 2 or 4, so that the windows of neighbours begin 4 / turns
// bytes apart: the sum over entries e of the products of weights[e] and the numbers at offset[e] bytes, and of the
// integer behind these weights.
struct ByteSums {
  const uint8_t* plane;
  const int64_t* offset;
  const ByteGroup* weights;
  int entries;
  int64_t blocks;
  int32_t* sums;
  const ByteBlocks* bytes;  // or null: makes bytes of sums, to `line`
  uint8_t* line;
};
using ByteWindowsKernel = void (*)(const ByteSums&);
// For so many entries and turns, of pairs and of quads.
ByteWindowsKernel pair_windows_kernel(int entries, int turns);
ByteWindowsKernel quad_windows_kernel(int entries, int turns);

// Windows of one shape on single planes, which are one line of numbers: rows follow each other, every stride_y-th one,
// with as many zeros in between as windows meet. So do results, and numbers between the rows of these have no meaning.
class ByteWindows {
 public:
  [[gnu::cold]] ByteWindows(const ConvolutionShape& s, SumKind sums);
  // Whether the windows of a shape that has byte operands are of this kind, and there is something to gain.
  static bool takes(const ConvolutionShape& s, SumKind sums);

  // Bytes of a plane, which clear() fills with zeros, and place() with the numbers of x, time and again.
  int64_t plane_bytes() const { return s_.stride_y * slots_ * row_bytes_ + kSpare; }
  void clear(uint8_t* plane) const;
  void place(const uint8_t* x, uint8_t* plane) const;

  // Weights as sum() takes them, row_groups() to an output channel.
  int64_t row_groups() const { return static_cast<int64_t>(offset_.size()) + 1; }
  void group_weights(const uint8_t* w, ByteGroup* groups) const;

  // Of the integers that x and w are stored as, [blocks()][4 * kWidth]: in every block, sums come by turns of turns()
  // vectors. With `bytes`, they become a line of results.
  int64_t blocks() const { return blocks_; }
  int turns() const { return turns_; }
  void sum(const uint8_t* plane, const ByteGroup* w, int32_t* sums, const ByteBlocks* bytes, uint8_t* line) const;
  // Makes [out_height][out_width] of these, in their place.
  void order(int32_t* sums) const;
  // y: [out_height][out_width], of that line.
  void take_rows(const uint8_t* line, uint8_t* y) const;

 private:
  static constexpr int64_t kSpare = 32 * kWidth;  // bytes that a last block may read behind the rows

  int32_t shift() const { return shift_of({s_.x.type}, true, sums_); }  // what kernels add to x
  template <int kNumbers, class Put>
  void place_rows(const uint8_t* x, uint8_t* plane, Put put) const;

  const ConvolutionShape s_;
  const SumKind sums_;
  const int64_t each_, number_bytes_;  // numbers in a lane, and what each takes
  const int turns_;
  const int64_t rows_;               // of the image that windows meet, with those outside it
  const int64_t slots_;              // of rows that lie one after the other
  const int64_t pitch_, row_bytes_;  // results and bytes from one row to the next
  const int64_t blocks_;
  std::vector<int64_t> offset_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
