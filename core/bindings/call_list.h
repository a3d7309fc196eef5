// A list of calls that never change, neither in their filters nor in their memory, run in one crossing from Python to
// native code.
#pragma once
#include <nanobind/nanobind.h>

#include <deque>
#include <utility>
#include <vector>

#include "bindings/joint_calls.h"
#include "bindings/recording.h"

namespace openbnns {

namespace nb = nanobind;

class CallList {
 public:
  // memory: arrays that outlive the calls, at their present addresses; calls must read and write within them.
  explicit CallList(nb::list memory);
  CallList(const CallList&) = delete;

  // Takes the native call that a call from Python is, without making it. False if it is anything but one native call on
  // memory of these arrays, of a kind that may be repeated.
  bool place(nb::callable call);

  // Runs the calls from number `first` on. Returns the number of the first call that declines, which has written
  // nothing, or else the number of calls. weights: version of the weights of all of them (runtime/weights_version.h).
  size_t run(size_t first, uint64_t weights) const;

  // Runs all calls `count` times. Each stream is (planned, given), where `given` is as large as `count` times
  // `planned`: the calls use its i-th part the i-th time wherever they were recorded on `planned`, which none of them
  // writes to. What is in `result` after the i-th time goes to the i-th part of `results`. Returns how many times all
  // calls were made, and how many calls the time after, if one of them has declined. Returns (0, 0) if the arrays are
  // not such as redirect takes them.
  using Stream = std::pair<nb::object, nb::object>;
  std::pair<size_t, size_t> run_over(size_t count, const std::vector<Stream>& streams, nb::object result,
                                     nb::object results);

  // A part of the memory that is read elsewhere, which none of the calls writes to.
  struct Redirected {
    const char* begin;
    int64_t bytes;
    std::vector<std::pair<char**, int64_t>> places;  // and how far from the beginning each is

    void move_to(char* to) const {
      for (auto [place, offset] : places) *place = to + offset;
    }
  };
  // Stays where it is as long as the list. No more calls may be placed.
  Redirected& redirected(const char* begin, int64_t bytes);

  // Runs all calls on a thread that need not hold the interpreter's lock. False if one has declined.
  bool run_unlocked(uint64_t weights) const;
  // Bytes of all that the calls read and write.
  int64_t bytes() const { return bytes_; }

  // From now on, the calls use `given` wherever they were recorded on `planned`, which none of them writes to. False,
  // and then nothing has changed, if that cannot be: both have to be C-contiguous and equally large, and `given` must
  // not be memory of the calls. The caller keeps `given` alive while they run.
  bool redirect(nb::handle planned, nb::handle given);

 private:
  // Makes calls from number `first` on; returns the number of the first that declines, or else the number of calls.
  size_t repeat_from(size_t first) const;
  // Whether this is no memory of the calls, but as aligned as theirs.
  bool is_elsewhere(const char* begin, int64_t bytes) const;

  std::deque<Redirected> redirected_;  // which stay where they are
  std::vector<Operation> calls_;
  std::deque<JointCalls> joint_;  // in the order of the calls
  int64_t bytes_ = 0;
  nb::list memory_;
  std::vector<std::pair<const char*, const char*>> stretches_;  // begin and end of each array
};

void bind_call_list(nb::module_& m);

}  // namespace openbnns
