// For plans whose result can be computed again from what a training forward kept.
#pragma once
#include "runtime/plan.h"

namespace openbnns {

class Repeatable {
 public:
  virtual ~Repeatable() = default;
  // Writes Y of the latest training forward once more, bit for bit. Slots are those of forward; X is not read. Throws
  // ForwardLost, before it writes anything, if what that forward kept is gone.
  virtual void repeat(const Call& call) = 0;
};

}  // namespace openbnns
