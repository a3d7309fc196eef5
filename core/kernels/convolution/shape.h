#pragma once
#include <cstdint>

#include "common/element.h"
#include "common/fields.h"

namespace openbnns {

// x: [in_channels][in_height][in_width], y: [out_channels][out_height][out_width],
// w: [out_channels][in_channels / groups][kernel_height][kernel_width], b: [out_channels].
// Output cell (oy, ox) meets input cell (oy * stride_y + ky * dilation_y - pad_up, likewise x); cells outside the
// input are zero, so padding below and to the right need not be named.
//
// A transposed convolution is the adjoint of the convolution `shape` with the roles of its two images exchanged: the
// plan's X is that convolution's output image, Y its input image, W keeps that convolution's form, B has in_channels
// entries.
struct ConvolutionShape {
  int64_t in_channels, in_height, in_width;
  int64_t out_channels, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left, groups;
  bool exact =
      false;  // sums of products as they are, in short chains: no transforms that save multiplications (Winograd)
  Element x = {}, w = {}, b = {}, y = {};  // what these are stored as; float32 for all but forward convolutions
  bool bfloat16 = false;                   // operands of matrix products may be rounded to BFloat16
  Table<float> w_scales = {};  // one for each output channel, beside that of w; for bytes x and w of Int8 without bias;
                               // empty: 1
  OPENBNNS_FIELDS(in_channels, in_height, in_width, out_channels, out_height, out_width, kernel_height, kernel_width,
                  stride_y, stride_x, dilation_y, dilation_x, pad_up, pad_left, groups, exact, x, w, b, y, bfloat16,
                  w_scales)
};

}  // namespace openbnns
