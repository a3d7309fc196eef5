// Memory that a plan keeps from a training forward for the backward calls that follow; grows to the largest batch.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "runtime/aligned_memory.h"

namespace openbnns {

class KeptMemory {
 public:
  KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory() { std::free(data_); }

  // Room for `count` floats at the same distance from a 64-byte line as `like`, so that both can be streamed. What was
  // kept before is lost.
  float* room(int64_t count, const float* like) {
    if (count > count_) grow(count);
    return data_ + reinterpret_cast<uintptr_t>(like) % kLine / sizeof(float);
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
  int64_t count_ = 0;
};

}  // namespace openbnns
