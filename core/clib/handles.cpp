#include "clib/handles.h"

#include <cstdlib>

namespace openbnns {
namespace clib {
namespace {

// tag (16 bits, so that no address of a process looks like a handle), generation (24), slot (24)
constexpr uint64_t kTag = 0xb115;
constexpr uint32_t kGenerations = 1u << 24, kSlots = 1u << 24, kChunk = 1u << 10;
constexpr uint32_t kNone = ~0u;

Slot* chunks[kSlots / kChunk];  // never freed: stale handles are compared with what they hold
uint32_t used = 0, first_free = kNone;

Slot& slot_at(uint32_t index) { return chunks[index / kChunk][index % kChunk]; }

}  // namespace

void* make_handle(PyObject* object) {
  uint32_t index = first_free;
  if (index != kNone) {
    first_free = slot_at(index).next_free;
  } else {
    if (used == kSlots) return nullptr;
    index = used;
    Slot*& chunk = chunks[index / kChunk];
    if (!chunk && !(chunk = static_cast<Slot*>(calloc(kChunk, sizeof(Slot))))) return nullptr;
    used++;
  }
  Slot& slot = slot_at(index);
  slot.generation++;
  slot.object = object;
  return reinterpret_cast<void*>(kTag << 48 | static_cast<uint64_t>(slot.generation) << 24 | index);
}

Found find_handle(const void* handle, Slot** slot) {
  const auto word = reinterpret_cast<uintptr_t>(handle);
  if (word == 0) return Found::kNull;
  const uint32_t index = word & (kSlots - 1), generation = word >> 24 & (kGenerations - 1);
  if (word >> 48 != kTag || index >= used || generation % 2 == 0 || generation > slot_at(index).generation)
    return Found::kForeign;
  *slot = &slot_at(index);
  return (*slot)->generation == generation ? Found::kLive : Found::kDestroyed;
}

PyObject* end_handle(Slot* slot) {
  PyObject* object = slot->object;
  slot->object = nullptr;
  slot->generation++;
  if (slot->generation + 1 < kGenerations) {  // else the slot is worn out
    for (uint32_t chunk = 0; chunk < kSlots / kChunk && chunks[chunk]; chunk++) {
      if (slot >= chunks[chunk] && slot < chunks[chunk] + kChunk) {
        slot->next_free = first_free;
        first_free = chunk * kChunk + static_cast<uint32_t>(slot - chunks[chunk]);
        break;
      }
    }
  }
  return object;
}

}  // namespace clib
}  // namespace openbnns
