// Keeps a fork from happening while other threads run Python code: modules that they are importing would stay half
// imported in the child forever, and anything that needs them there would wait for a thread that no longer exists.
#pragma once

namespace openbnns {
namespace clib {

// Around everything that a thread does in the interpreter, before it takes the interpreter's lock and after it has
// released it; nested calls, as allocators make them, pass.
void enter_gate();
void leave_gate();

// Waits until no other thread is inside, and lets none in. Not forever: a thread may itself be waiting, in an
// allocator, for the thread that forks. A thread that is inside itself does not wait at all.
void close_gate();
void open_gate();
void open_gate_in_child();

}  // namespace clib
}  // namespace openbnns
