// What C programs hold: numbers in the form of pointers that must not be dereferenced. Each names a slot and the
// generation of its content, so that a destroyed or invalid handle is recognized without touching memory.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "clib/python_api.h"

namespace openbnns {
namespace clib {

enum class Found { kLive, kNull, kForeign, kDestroyed };

constexpr size_t kDriving = 24;  // functions that run a filter or a context

constexpr uint64_t kUnknown = 0, kNever = ~uint64_t{0};

struct Slot {
  std::atomic<uint32_t> generation;  // of the content; odd while there is one
  uint32_t index, next_free;
  PyObject* object;
  std::atomic<uint64_t> natives[kDriving];  // numbers of native calls (bindings/raw.h), kUnknown, or kNever for none
};

// The slot that a handle names, and the generation of what it stands for.
struct Parts {
  static constexpr uint64_t kTag = 0xb115;  // in the upper 16 bits, so that no address of a process looks like a handle
  static constexpr int kBits = 24;          // of the generation and of the slot
  static constexpr uint32_t kMost = 1u << kBits, kChunk = 1u << 10;

  explicit Parts(const void* handle)
      : word(reinterpret_cast<uintptr_t>(handle)), index(word % kMost), generation(word >> kBits & (kMost - 1)) {}
  const uint64_t word;
  const uint32_t index, generation;

  bool is_possible() const;
  Slot& slot() const;
};

extern std::atomic<Slot*> chunks[Parts::kMost / Parts::kChunk];  // never freed: stale handles are compared with it
extern std::atomic<uint32_t> slots_used;

inline bool Parts::is_possible() const {
  return word >> 2 * kBits == kTag && generation % 2 == 1 && index < slots_used.load(std::memory_order_acquire);
}
inline Slot& Parts::slot() const { return chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk]; }

// The number of a native call behind a handle; kUnknown also for anything that is not a handle. Needs no lock: a number
// is valid only for the filter that it was made for, whatever other threads do to the slot.
inline uint64_t native_number(const void* handle, int function) {
  const Parts parts(handle);
  if (!parts.is_possible()) return kUnknown;
  const Slot& slot = parts.slot();
  const uint64_t number = slot.natives[function].load(std::memory_order_acquire);
  // Numbers are cleared before the generation moves on, and set after it.
  return slot.generation.load(std::memory_order_relaxed) == parts.generation ? number : kUnknown;
}

// All of these are for threads in the interpreter, which may be several at a time: not every Python has a lock.

// A handle that owns a reference to the object; null, with nothing changed, if there is no memory for it.
void* make_handle(PyObject* object);
// If it is live, `object` becomes a new reference to what it stands for.
Found find_handle(const void* handle, PyObject** object);
// Destroys the handle and gives away its reference; null if it is not live.
PyObject* end_handle(const void* handle);
// The number of a native call behind a handle, if it still stands for the object.
void set_native_number(const void* handle, int function, PyObject* object, uint64_t number);

}  // namespace clib
}  // namespace openbnns
