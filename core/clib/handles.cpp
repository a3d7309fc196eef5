#include "clib/handles.h"

#include <pthread.h>

#include <cstdlib>

namespace openbnns {
namespace clib {
std::atomic<Slot*> chunks[Parts::kMost / Parts::kChunk];
std::atomic<uint32_t> slots_used{0};

namespace {

constexpr uint32_t kNone = ~0u;
uint32_t first_free = kNone;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// One thread at a time; no fork comes in between (fork_gate.h). Python code must not run meanwhile.
class Locked {
 public:
  Locked() { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
  Locked(const Locked&) = delete;
};

Slot& slot_at(uint32_t index) {
  return chunks[index / Parts::kChunk].load(std::memory_order_acquire)[index % Parts::kChunk];
}

Found find_slot(const void* handle, Slot** slot) {
  if (!handle) return Found::kNull;
  const Parts parts(handle);
  if (!parts.is_possible()) return Found::kForeign;
  *slot = &parts.slot();
  const uint32_t now = (*slot)->generation.load(std::memory_order_relaxed);
  if (parts.generation > now) return Found::kForeign;
  return parts.generation == now ? Found::kLive : Found::kDestroyed;
}

}  // namespace

void* make_handle(PyObject* object) {
  const Locked locked;
  uint32_t index = first_free;
  if (index != kNone) {
    first_free = slot_at(index).next_free;
  } else {
    index = slots_used.load(std::memory_order_relaxed);
    if (index == Parts::kMost) return nullptr;
    if (index % Parts::kChunk == 0) {
      auto chunk = static_cast<Slot*>(calloc(Parts::kChunk, sizeof(Slot)));  // all zero: no generation, no numbers
      if (!chunk) return nullptr;
      chunks[index / Parts::kChunk].store(chunk, std::memory_order_release);
    }
    slots_used.store(index + 1, std::memory_order_release);
  }
  Slot& slot = slot_at(index);
  const uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
  slot.object = object;
  slot.index = index;
  slot.generation.store(generation, std::memory_order_release);
  return reinterpret_cast<void*>(Parts::kTag << 2 * Parts::kBits | static_cast<uint64_t>(generation) << Parts::kBits |
                                 index);
}

Found find_handle(const void* handle, PyObject** object) {
  const Locked locked;
  Slot* slot;
  const Found found = find_slot(handle, &slot);
  if (found == Found::kLive) py.Py_IncRef(*object = slot->object);
  return found;
}

void set_native_number(const void* handle, int function, PyObject* object, uint64_t number) {
  const Locked locked;
  Slot* slot;
  if (find_slot(handle, &slot) == Found::kLive && slot->object == object)
    slot->natives[function].store(number, std::memory_order_release);
}

PyObject* end_handle(const void* handle) {
  const Locked locked;
  Slot* slot;
  if (find_slot(handle, &slot) != Found::kLive) return nullptr;
  PyObject* object = slot->object;
  slot->object = nullptr;
  for (auto& number : slot->natives) number.store(kUnknown, std::memory_order_relaxed);
  const uint32_t next = slot->generation.load(std::memory_order_relaxed) + 1;
  slot->generation.store(next, std::memory_order_release);
  if (next + 1 < Parts::kMost) {  // else the slot is worn out
    slot->next_free = first_free;
    first_free = slot->index;
  }
  return object;
}

}  // namespace clib
}  // namespace openbnns
