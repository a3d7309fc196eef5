#include "runtime/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "runtime/aligned_memory.h"
#include "runtime/per_thread.h"

namespace openbnns {
namespace {

struct Block {
  float* data = nullptr;
  size_t count = 0;
  ~Block() { std::free(data); }
};

struct Blocks {
  Block slot[kScratchSlots];
};

PerThread<Blocks> blocks;
std::atomic<bool> poison{false};

}  // namespace

float* scratch(int slot, size_t count) {
  Block& b = blocks.own().slot[slot];
  if (b.count < count) {
    std::free(b.data);
    b.data = nullptr;
    b.count = 0;
    size_t bytes = (count + 64) * sizeof(float);  // vector loads may read past the end
    b.data = allocate_aligned(bytes);
    b.count = bytes / sizeof(float) - 64;
  }
  if (b.data && poison.load(std::memory_order_relaxed))
    std::fill_n(b.data, b.count + 64, std::numeric_limits<float>::quiet_NaN());
  return b.data;
}

void set_scratch_poison(bool on) { poison = on; }

void release_scratch() {
  for (Block& b : blocks.own().slot) {
    std::free(b.data);
    b.data = nullptr;
    b.count = 0;
  }
}

}  // namespace openbnns
