#pragma once
#include <cstdint>

#include "common/element.h"
#include "common/fields.h"

namespace openbnns {

struct FullyConnectedShape {
  int64_t inputs, outputs;                 // x: [inputs], w: [outputs][inputs], b: [outputs], y: [outputs]
  Element x = {}, w = {}, b = {}, y = {};  // what these are stored as; backward is for float32 only
  bool bfloat16 = false;                   // operands of products may be rounded to BFloat16
  Table<float> w_scales =
      {};  // one for each output, beside that of w; for bytes x and w of Int8 without bias; empty: 1
  OPENBNNS_FIELDS(inputs, outputs, x, w, b, y, bfloat16, w_scales)
};

}  // namespace openbnns
