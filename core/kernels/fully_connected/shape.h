#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

struct FullyConnectedShape {
  int64_t inputs, outputs;  // x: [inputs], w: [outputs][inputs], b: [outputs], y: [outputs]
  OPENBNNS_FIELDS(inputs, outputs)
};

}  // namespace openbnns
