// Whether the latest call of this thread failed: only then openbnns.last_error() has a message.
//
// Python words a failure, keeps the message for the thread and sets this flag. Success must withdraw the message on
// every path, including the fast ones, which take a fraction of a microsecond and would spend much of that on access to
// Python's thread-local objects. So they clear the flag, and the message is kept but no longer shown.
#pragma once
#include <atomic>

#include "runtime/per_thread.h"

namespace openbnns {

extern PerThread<bool> latest_call_failure;
extern std::atomic<bool> a_call_has_failed;  // of any thread, ever: until then there is nothing to clear

inline void set_latest_call_failed(bool failed) {
  latest_call_failure.own() = failed;
  if (failed) a_call_has_failed.store(true, std::memory_order_relaxed);
}

inline void latest_call_succeeded() {
  if (!a_call_has_failed.load(std::memory_order_relaxed)) return;
  if (bool* failed = latest_call_failure.get()) *failed = false;
}

}  // namespace openbnns
