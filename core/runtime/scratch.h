// Per-thread scratch memory: grows to the largest request; its content is not kept after the call.
#pragma once
#include <cstddef>

namespace openbnns {

constexpr int kScratchSlots = 40;

// 64-byte aligned room for `count` floats in one of the calling thread's slots; the content is undefined, and
// NaN when poisoning is on (tests). A later request for the same slot invalidates the earlier one.
float* scratch(int slot, size_t count);

void set_scratch_poison(bool on);
// Returns the calling thread's scratch to the system.
void release_scratch();

}  // namespace openbnns
