// Kernels without the interpreter's lock, and Ctrl-C while they run.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>

#include "runtime/interruption.h"

namespace openbnns {

namespace nb = nanobind;

// Smaller calls end before anybody could want to interrupt them: they are spared the system calls.
constexpr int64_t kInterruptibleBytes = int64_t{1} << 19;

// Releases the interpreter's lock while it lives. If `interruptible`, and if the caller is Python's main thread and
// SIGINT would raise KeyboardInterrupt there, then SIGINT ends the kernels with Interrupted, which becomes that
// KeyboardInterrupt in Python. Any other handler might return, and the call must then have its result: such a handler
// runs after the call, as is usual in Python.
class Unlocked {
 public:
  explicit Unlocked(bool interruptible) : watching_(interruptible && raises_on_interrupt()) {}

 private:
  struct Watching {
    std::optional<Interruptible> one;
    explicit Watching(bool wanted) {
      if (wanted) one.emplace();
    }
  };
  static bool raises_on_interrupt();
  Watching watching_;
  nb::gil_scoped_release released_;
};

void bind_interruption(nb::module_& m);

}  // namespace openbnns
