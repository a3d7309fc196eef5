// Kernels without the interpreter's lock, and Ctrl-C while they run.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>

#include "runtime/interruption.h"

namespace openbnns {

namespace nb = nanobind;

// Smaller calls are over before anybody could want to interrupt them: for them, not even one system call is spent.
constexpr int64_t kInterruptibleBytes = int64_t{1} << 19;

// Releases the interpreter's lock while it lives. If `interruptible`, and if the caller is Python's main thread and
// SIGINT would raise KeyboardInterrupt there, then SIGINT ends the kernels with Interrupted, which arrives in Python as
// that KeyboardInterrupt. Any other handler might return, and the call must have its result then: such a handler runs
// after the call, as Python always does it.
class Unlocked {
 public:
  explicit Unlocked(bool interruptible) {
    if (interruptible && raises_on_interrupt()) watching_.emplace();
    released_.emplace();
  }

 private:
  static bool raises_on_interrupt();
  std::optional<Interruptible> watching_;
  std::optional<nb::gil_scoped_release> released_;
};

void bind_interruption(nb::module_& m);

}  // namespace openbnns
