// What C programs hold: numbers in the form of pointers that lead nowhere. Each names a slot and the generation of its
// content, so that a handle that was destroyed, or was never one, is recognized without touching memory.
#pragma once
#include <cstdint>

#include "clib/python_api.h"

namespace openbnns {
namespace clib {

enum class Found { kLive, kNull, kForeign, kDestroyed };

struct Slot {
  uint32_t generation;  // of the content; odd while there is one
  uint32_t next_free;
  PyObject* object;
};

// All of these need the interpreter's lock.

// A handle that owns a reference to the object; null if there is no memory for it, and then nothing has happened.
void* make_handle(PyObject* object);
Found find_handle(const void* handle, Slot** slot);
// Forgets the object, which the caller owns from now on. The handle is destroyed.
PyObject* end_handle(Slot* slot);

}  // namespace clib
}  // namespace openbnns
