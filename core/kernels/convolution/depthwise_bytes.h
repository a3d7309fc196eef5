// Exact sums of bytes under the windows of depthwise convolutions: rows of the image are joined to groups of two or
// four integers in 32 bits, one above the other, so that one instruction multiplies several rows of a window.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "gemm/gemm.h"
#include "kernels/convolution/byte_groups.h"
#include "kernels/convolution/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Rows of results whose windows begin in the same row of a group:
// sums[c] = start + sum over entries e of the products of groups[c + offset[e]] and weights[e].
struct ByteRows {
  const ByteGroup* groups;
  const int64_t* offset;
  const ByteGroup* weights;
  int entries;
  int32_t start;
  int32_t* sums;
  int64_t rows, columns;
  int64_t groups_step, sums_step;  // from one of these rows to the next
};
using ByteRowsKernel = void (*)(const ByteRows&);
// For so many entries, of pairs and of quads.
ByteRowsKernel pair_rows_kernel(int entries);
ByteRowsKernel quad_rows_kernel(int entries);

// Windows of three rows with step 1, in which a row of groups serves all results in the making: weights are those of
// result r - 2, r - 1, r, .. where r is the first row of the group, [each + 2][3].
struct RollingRows {
  const ByteGroup* groups;
  int64_t groups_step;  // from one row of groups to the next
  int64_t tap_step;     // from one column of a window to the next
  const ByteGroup* weights;
  int32_t start;
  int32_t* sums;
  int64_t rows, columns;
};
void roll_pair_rows(const RollingRows& t);
void roll_quad_rows(const RollingRows& t);

// Windows of one shape on single planes, in which zeros surround the image.
class ByteWindows {
 public:
  static constexpr int64_t kMostColumns = 16;

  [[gnu::cold]] ByteWindows(const ConvolutionShape& s, IntegerSums sums);
  // Whether the windows of a shape that has byte operands are of this kind, and there is something to gain.
  static bool takes(const ConvolutionShape& s, IntegerSums sums);

  int64_t groups() const { return group_rows_ * row_ + columns_ + 3 * kWidth; }
  // groups: of the rows of x, and room to make them.
  void join(const uint8_t* x, ByteGroup* groups) const;
  // sums: [out_height][out_width], of the integers that x and w are stored as.
  void sum(const ByteGroup* groups, const uint8_t* w, int32_t* sums) const;

 private:
  // Rows of results, every step_-th from `first` on, whose windows begin `skipped` rows into a group.
  struct Phase {
    int64_t first, skipped;
    std::vector<int64_t> offset;  // of entries: [groups][kernel_width]
  };

  // The integers of the columns of a kernel, one above the other from the lowest bits on, and the sum of all.
  struct Columns {
    uint64_t column[kMostColumns];
    int64_t total;
  };
  Columns columns_of(const uint8_t* w) const;
  void roll(const ByteGroup* groups, const Columns& w, int32_t* sums) const;

  template <class Lines>
  void join_rows(const uint8_t* x, ByteGroup* groups) const;
  int32_t shift() const { return shift_of({x_type_}, true, sums_); }  // what kernels add to x

  const ConvolutionShape s_;
  const IntegerSums sums_;
  const ElementType x_type_;
  const int64_t each_;     // rows of a group
  const int64_t columns_;  // that windows meet, with those outside the image
  const int64_t pitch_;    // columns of one remainder modulo the stride, which lie side by side
  const int64_t row_;      // of groups, with a vector on both sides of what windows meet
  const int64_t group_rows_;
  const int64_t step_;  // rows of results from one of a phase to the next
  std::vector<Phase> phases_;
  std::vector<uint8_t> zeros_;
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
