#include "runtime/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace openbnns {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;

struct Block {
  float* data = nullptr;
  size_t count = 0;
  ~Block() { std::free(data); }
};

struct Blocks {
  Block slot[kScratchSlots];
};

Blocks& blocks() {
  static thread_local Blocks b;
  return b;
}

std::atomic<bool> poison{false};

}  // namespace

float* scratch(int slot, size_t count) {
  Block& b = blocks().slot[slot];
  if (b.count < count) {
    std::free(b.data);
    b.data = nullptr;
    b.count = 0;
    size_t wanted = count + 64;  // vector loads may read past the end
    size_t bytes = wanted * sizeof(float);
    size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    b.data = static_cast<float*>(std::aligned_alloc(alignment, bytes));
    if (!b.data) throw std::bad_alloc();
#if defined(__linux__)
    if (alignment == kHugePage) madvise(b.data, bytes, MADV_HUGEPAGE);
#endif
    b.count = bytes / sizeof(float) - 64;
  }
  if (poison.load(std::memory_order_relaxed))
    std::fill_n(b.data, b.count + 64, std::numeric_limits<float>::quiet_NaN());
  return b.data;
}

void set_scratch_poison(bool on) { poison = on; }

void release_scratch() {
  for (Block& b : blocks().slot) {
    std::free(b.data);
    b.data = nullptr;
    b.count = 0;
  }
}

}  // namespace openbnns
