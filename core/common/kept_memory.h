// Memory that a plan keeps from a training forward for the calls that follow: its own, which grows to the largest
// batch, or the caller's.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "runtime/aligned_memory.h"
#include "runtime/plan.h"

namespace openbnns {

class KeptMemory {
 public:
  KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory() { std::free(data_); }

  // Room for `count` floats: what the caller lends, or else own memory at the same distance from a 64-byte line as
  // `like`, so that both can be streamed. What was kept before is lost.
  float* room(int64_t count, const float* like, float* lent = nullptr) {
    lent_ = lent;
    if (lent) return lent;
    if (count > count_) grow(count);
    return data_ + reinterpret_cast<uintptr_t>(like) % kLine / sizeof(float);
  }

  // A call that goes on from a training forward lends the same memory as that one; else it may be gone.
  void require(const float* lent) const {
    if (lent != lent_) throw ForwardLost();
  }

 private:
  static constexpr size_t kLine = 64;

  void grow(int64_t count) {
    std::free(data_);
    data_ = nullptr;
    count_ = 0;
    size_t bytes = static_cast<size_t>(count) * sizeof(float) + 2 * kLine;
    data_ = allocate_aligned(bytes);
    count_ = count;
  }

  float* data_ = nullptr;
  const float* lent_ = nullptr;  // of the latest training forward
  int64_t count_ = 0;
};

}  // namespace openbnns
