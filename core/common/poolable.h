// For chains whose output is pooled.
#pragma once
#include <memory>

#include "runtime/plan.h"

namespace openbnns {

class PoolablePlan : public Plan {
 public:
  // A separate plan with the same slots, for the same chain followed by max pooling over adjacent windows of 2 x 2
  // pixels (without the last row and column of odd sizes): Y and DY are those of the maxima. Null if there is none.
  virtual std::shared_ptr<Plan> pooled() const = 0;
};

}  // namespace openbnns
