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
  // nothing, or else the number of calls. weights: version of the weights of all of them (runtime/weights_version.h).
  size_t run(size_t first, uint64_t weights) const;

  // From now on, the calls use `given` wherever they were recorded on `planned`, which none of them writes to. False,
  // and then nothing has changed, if that cannot be: both have to be C-contiguous and equally large, and `given` must
  // not be memory of the calls. The caller keeps `given` alive while they run.
  bool redirect(nb::handle planned, nb::handle given);

 private:
  // A part of the memory that is read elsewhere.
  struct Redirected {
    const char* begin;
    int64_t bytes;
    std::vector<std::pair<char**, int64_t>> places;  // and how far from the beginning each is
  };
  Redirected& redirected(const char* begin, int64_t bytes);

  std::vector<Redirected> redirected_;
  std::vector<Operation> calls_;
  int64_t bytes_ = 0;
  nb::list memory_;
  std::vector<std::pair<const char*, const char*>> stretches_;  // begin and end of each array
};

void bind_replay(nb::module_& m);

}  // namespace openbnns
