// A list of calls that never change, neither in their filters nor in their memory, run in one crossing from Python to
// native code.
#pragma once
#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "bindings/recording.h"

namespace openbnns {

namespace nb = nanobind;

class Replay {
 public:
  // memory: arrays that outlive the calls, at their present addresses; calls must read and write within them.
  explicit Replay(nb::list memory);

  // Makes a Python call and records what it did. False if that was anything but one native call on memory of these
  // arrays, of a kind that may be repeated: the call has then been made, but is not part of the list.
  bool add(nb::callable call);

  // Runs the calls from number `first` on. Returns the number of the first call that declines, which has written
  // nothing, or else the number of calls.
  size_t run(size_t first) const;

 private:
  std::vector<Operation> calls_;
  int64_t bytes_ = 0;
  nb::list memory_;
  std::vector<std::pair<const char*, const char*>> stretches_;  // begin and end of each array
};

void bind_replay(nb::module_& m);

}  // namespace openbnns
