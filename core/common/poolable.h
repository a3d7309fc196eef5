// For chains whose output goes through a pooling.
#pragma once
#include <memory>

#include "runtime/plan.h"

namespace openbnns {

class PoolablePlan : public Plan {
 public:
  // A plan of its own with the same slots, for the same chain followed by the maximum of 2 x 2 pixels side by side (the
  // last row and column of odd sizes have no part in it): Y and DY are those of the maxima. Null where there is none.
  virtual std::shared_ptr<Plan> pooled() const = 0;
};

}  // namespace openbnns
