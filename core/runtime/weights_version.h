// Whether the weights of a call are those of earlier calls, so that what was made of them can be used again.
#pragma once
#include <atomic>
#include <cstdint>

namespace openbnns {

// 0 while nothing is known about the weights that the calls of this thread work on, else a number that is another one
// once any of them has changed.
uint64_t current_weights();
// A number that there was not before.
uint64_t new_weights_version();

// During its lifetime, the calls of this thread work on these weights. A thread without memory for the number has none.
class KnownWeights {
 public:
  explicit KnownWeights(uint64_t version);
  ~KnownWeights();
  KnownWeights(const KnownWeights&) = delete;
  KnownWeights& operator=(const KnownWeights&) = delete;

 private:
  const uint64_t before_;
};

// The weights of a plan: known to it, if nobody changes them (Plan::keep_weights), or else as the caller knows them.
class PlanWeights {
 public:
  void keep(bool keep) { own_.store(keep ? new_weights_version() : 0, std::memory_order_relaxed); }
  uint64_t version() const {
    const uint64_t own = own_.load(std::memory_order_relaxed);
    return own != 0 ? own : current_weights();
  }

 private:
  std::atomic<uint64_t> own_{0};
};

}  // namespace openbnns
