// For layers that read the output of another layer while it is still in the cache.
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

// Computes pixels of an image batch on demand.
class PixelMaker {
 public:
  virtual ~PixelMaker() = default;
  // Pixels [first, first + count), whole rows, of plane `channel` of sample n.
  virtual void make(int64_t n, int64_t channel, int64_t first, int64_t count, float* pixels) const = 0;
};

// A plan whose forward may be watched.
class WatchedPlan : public Plan {
 public:
  // forward(call). True: the watcher has been told of every plane, once; false: it has been told of none, because the
  // kernel does not complete planes one by one.
  virtual bool forward_watched(const Call& call, const PlaneWatcher& watcher) = 0;
  // backward(call), with `dy` in place of the contents of DY. False: nothing has been done, because kernels would ask
  // for pixels more than once.
  virtual bool backward_made(const Call& call, const PixelMaker& dy) = 0;
};

}  // namespace openbnns
