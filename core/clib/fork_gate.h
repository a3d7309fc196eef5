// Keeps a fork out of the middle of Python code of other threads: what they are importing at that moment would stay
// half imported in the child for ever, and whoever needs it there would wait for a thread that no longer exists.
#pragma once

namespace openbnns {
namespace clib {

// Around everything that a thread does in the interpreter, before it takes the interpreter's lock and after it has let
// go of it; calls within calls, as allocators make them, pass.
void enter_gate();
void leave_gate();

// Waits until no other thread is inside, and lets none in. Not for ever: a thread may itself be waiting, in an
// allocator, for the thread that forks. One that is inside itself does not wait at all.
void close_gate();
void open_gate();
void open_gate_in_child();

}  // namespace clib
}  // namespace openbnns
