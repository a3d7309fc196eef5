#include "clib/handles.h"

#include <cstdlib>

namespace openbnns {
namespace clib {
namespace {

// tag (16 bits, so that no address of a process looks like a handle), generation (24), slot (24)
constexpr uint64_t kTag = 0xb115;
constexpr uint32_t kGenerations = 1u << 24, kSlots = 1u << 24, kChunk = 1u << 10;
constexpr uint32_t kNone = ~0u;

std::atomic<Slot*> chunks[kSlots / kChunk];  // never freed: stale handles are compared with what they hold
std::atomic<uint32_t> used{0};
uint32_t first_free = kNone;

Slot& slot_at(uint32_t index) { return chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk]; }

struct Parts {
  uint32_t index, generation;
  bool possible;
};

Parts parts_of(const void* handle) {
  const auto word = reinterpret_cast<uintptr_t>(handle);
  Parts parts{static_cast<uint32_t>(word & (kSlots - 1)), static_cast<uint32_t>(word >> 24 & (kGenerations - 1)),
              false};
  parts.possible =
      word >> 48 == kTag && parts.index < used.load(std::memory_order_acquire) && parts.generation % 2 == 1;
  return parts;
}

}  // namespace

uint64_t native_number(const void* handle, int function) {
  const Parts parts = parts_of(handle);
  if (!parts.possible) return kUnknown;
  const Slot& slot = slot_at(parts.index);
  const uint64_t number = slot.natives[function].load(std::memory_order_acquire);
  // Numbers are cleared before the generation moves on, and set after it.
  return slot.generation.load(std::memory_order_relaxed) == parts.generation ? number : kUnknown;
}

void* make_handle(PyObject* object) {
  uint32_t index = first_free;
  if (index != kNone) {
    first_free = slot_at(index).next_free;
  } else {
    index = used.load(std::memory_order_relaxed);
    if (index == kSlots) return nullptr;
    if (index % kChunk == 0) {
      auto chunk = static_cast<Slot*>(calloc(kChunk, sizeof(Slot)));  // all zero: no generation, no numbers
      if (!chunk) return nullptr;
      chunks[index / kChunk].store(chunk, std::memory_order_release);
    }
    used.store(index + 1, std::memory_order_release);
  }
  Slot& slot = slot_at(index);
  const uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
  slot.object = object;
  slot.index = index;
  slot.generation.store(generation, std::memory_order_release);
  return reinterpret_cast<void*>(kTag << 48 | static_cast<uint64_t>(generation) << 24 | index);
}

Found find_handle(const void* handle, Slot** slot) {
  if (!handle) return Found::kNull;
  const Parts parts = parts_of(handle);
  if (!parts.possible) return Found::kForeign;
  *slot = &slot_at(parts.index);
  const uint32_t now = (*slot)->generation.load(std::memory_order_relaxed);
  if (parts.generation > now) return Found::kForeign;
  return parts.generation == now ? Found::kLive : Found::kDestroyed;
}

PyObject* end_handle(Slot* slot) {
  PyObject* object = slot->object;
  slot->object = nullptr;
  for (auto& number : slot->natives) number.store(kUnknown, std::memory_order_relaxed);
  const uint32_t next = slot->generation.load(std::memory_order_relaxed) + 1;
  slot->generation.store(next, std::memory_order_release);
  if (next + 1 < kGenerations) {  // else the slot is worn out
    slot->next_free = first_free;
    first_free = slot->index;
  }
  return object;
}

}  // namespace clib
}  // namespace openbnns
