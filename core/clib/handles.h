// What C programs hold: numbers in the form of pointers that lead nowhere. Each names a slot and the generation of its
// content, so that a handle that was destroyed, or was never one, is recognized without touching memory.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "clib/python_api.h"

namespace openbnns {
namespace clib {

enum class Found { kLive, kNull, kForeign, kDestroyed };

constexpr size_t kDriving = 23;  // functions that run a filter

constexpr uint64_t kUnknown = 0, kNever = ~uint64_t{0};

struct Slot {
  std::atomic<uint32_t> generation;  // of the content; odd while there is one
  uint32_t index, next_free;
  PyObject* object;
  std::atomic<uint64_t> natives[kDriving];  // numbers of native calls (bindings/raw.h), kUnknown, or kNever for none
};

// The number of a native call behind a handle; kUnknown, too, for what is no handle. Needs no lock: a number is only
// good for the filter that it was made for, whatever other threads do to the slot.
uint64_t native_number(const void* handle, int function);

// All of these need the interpreter's lock.

// A handle that owns a reference to the object; null if there is no memory for it, and then nothing has happened.
void* make_handle(PyObject* object);
Found find_handle(const void* handle, Slot** slot);
// Forgets the object, which the caller owns from now on. The handle is destroyed.
PyObject* end_handle(Slot* slot);

}  // namespace clib
}  // namespace openbnns
