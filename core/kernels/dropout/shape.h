#pragma once
#include <cstdint>
#include <vector>

#include "common/fields.h"

namespace openbnns {

// One sample has `size` in C order; along axes that are `shared`, and along the batch with `batch_shared`, one decision
// holds for all elements. Slot W: two uint64, forward runs so far and the batch of the latest one.
struct DropoutShape {
  float rate = 0;
  uint64_t seed = 0;
  std::vector<int64_t> size;
  std::vector<bool> shared;
  bool batch_shared = false;
  OPENBNNS_FIELDS(rate, seed, size, shared, batch_shared)
};

}  // namespace openbnns
