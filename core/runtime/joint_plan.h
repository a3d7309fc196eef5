// Calls that workers make together with the calls before and after them.
#pragma once
#include <cstdint>

#include "runtime/plan.h"

namespace openbnns {

// Such a call, with what lives as long as it is being made.
struct JointCall {
  Call call;
  bool backward = false;
  const float* prepared = nullptr;  // what `prepare` has returned
  float* kept = nullptr;            // JointPlan::kept_floats of memory
};

// Each worker makes all calls for samples of its own, one call after the other, and waits for nobody: what a call
// writes for a sample, only the same worker reads. Sums over all samples come last, when every worker is done.
// Results are those of Plan::forward and Plan::backward to the last bit, whoever makes which part.
class JointPlan {
 public:
  // Floats that the call keeps from `samples` to `sums`; -1 if it cannot be made in this way.
  virtual int64_t kept_floats(const Call& call, bool backward) const = 0;
  // Samples that a worker should have, at least; asked on the thread that prepares the call.
  virtual int64_t least_samples(const Call& call, bool backward) const = 0;
  // About the operations that take as long as the call, and those of its sums alone.
  virtual double flops(const Call& call, bool backward) const = 0;
  virtual double sums_flops(const Call& call, bool backward) const = 0;

  // What all workers read, made before they begin; null if that is nothing.
  virtual const float* prepare(const Call& call, bool backward) = 0;
  virtual void samples(const JointCall& joint, int64_t first, int64_t count) = 0;
  // Part `share` of `shares` of the outputs that are no samples.
  virtual void sums(const JointCall& joint, int64_t share, int64_t shares) = 0;

 protected:
  ~JointPlan() = default;
};

// The same call for samples [first, first + count) of X, Y, DX and DY alone, on the calling thread: for plans whose
// samples do not depend on each other.
inline Call samples_of(const Call& call, int64_t first, int64_t count) {
  Call part = call;
  part.batch = count;
  part.threads = 1;
  for (int slot : {X, Y, DX, DY})
    if (part.address[slot]) part.address[slot] += first * part.stride[slot];
  return part;
}

}  // namespace openbnns
