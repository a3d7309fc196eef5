#pragma once
#include <cstdint>

#include "common/element.h"

namespace openbnns {

// `count` numbers of one type as those of another; one of the two is float32.
struct Conversion {
  Element from_element, to_element;
  const void* from;
  void* to;
  int64_t count;
};

// y[i] = a_factor a[i] + b_factor b[i] + term, rounded to the nearest byte, ties to even. The factors have no more than
// 16 bits, so that their products with bytes are exact, fused or not; the sum of the first two is rounded to float32
// and added to that of the last.
struct ByteSum {
  const uint8_t *a, *b;
  uint8_t* y;
  int64_t count;
  float a_factor, b_factor, term;
};

// The largest byte of each window; every window meets the image.
struct BytePooling {
  const uint8_t* x;  // [planes][in_height][in_width]
  uint8_t* y;        // [planes][out_height][out_width]
  int64_t planes, in_height, in_width, out_height, out_width, kernel_height, kernel_width, stride_y, stride_x, pad_up,
      pad_left;
};

}  // namespace openbnns
