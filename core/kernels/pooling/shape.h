#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// x: [channels][in_height][in_width], y: [channels][out_height][out_width], b: [channels]. Windows as in a convolution.
// Slot kPoolingIndices: one unsigned integer per cell (of the output for Max, of the input for UnMax), the flat
// position row * width + column in the larger plane of the same channel; all bits set where Max has no winner.
struct PoolingShape {
  int function;  // BNNSPoolingFunction
  int64_t channels, in_height, in_width, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left;
  bool padding_wins = false;  // Max: padded cells take part as zeros instead of being left out
  bool wide_indices = true;   // uint64 instead of uint32
  OPENBNNS_FIELDS(function, channels, in_height, in_width, out_height, out_width, kernel_height, kernel_width, stride_y,
                  stride_x, dilation_y, dilation_x, pad_up, pad_left, padding_wins, wide_indices)
};
constexpr int kPoolingIndices = 8;

}  // namespace openbnns
