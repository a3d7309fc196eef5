// For layers that look at the output of another while it is still in the cache.
#pragma once
#include <cstdint>

#include "runtime/plan.h"

namespace openbnns {

// Told of planes of an image batch as soon as they are complete, by the thread that wrote them.
class PlaneWatcher {
 public:
  virtual ~PlaneWatcher() = default;
  // Planes [channel, channel + channels) of sample n.
  virtual void completed(int64_t n, int64_t channel, int64_t channels) const = 0;
};

// A plan whose forward may be watched.
class WatchedPlan : public Plan {
 public:
  // forward(call). True: the watcher has been told of every plane, once; false: of none, because the kernel does not
  // complete planes one by one.
  virtual bool forward_watched(const Call& call, const PlaneWatcher& watcher) = 0;
};

}  // namespace openbnns
