#pragma once
#include <cstdint>
#include <vector>

#include "common/element.h"
#include "common/fields.h"

namespace openbnns {

// A tensor of a contraction: for every axis of one sample, in C order, the number of its index and its size. An index
// that occurs twice reads a diagonal; an axis of size 1 is repeated.
struct ContractionTensor {
  std::vector<int> index;
  std::vector<int64_t> size;
  bool batched = true;  // one sample per batch entry, or one copy for all
  Element element;      // what it is stored as; backward is for float32 only
  OPENBNNS_FIELDS(index, size, batched, element)
};

// y = alpha * sum over the indices that y lacks of x * w, plus what y held. Slots X, Y, DX, DY, and W and DW of the
// second tensor, which may be batched as well.
struct ContractionShape {
  std::vector<ContractionTensor> left;  // x, and w or, with `with_itself`, x once more under other indices
  bool with_itself = false;
  ContractionTensor output;
  float alpha = 1;
  bool adds_to_output = false;
  bool bfloat16 = false;  // operands of matrix products may be rounded to BFloat16
  OPENBNNS_FIELDS(left, with_itself, output, alpha, adds_to_output, bfloat16)
};

}  // namespace openbnns
