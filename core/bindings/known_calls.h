// The fast way into functions without a filter: calls that have been made before.
//
// Such a function is given everything at every call, descriptors with their data. The Python path checks it, decides,
// and in the end runs a few native operations on addresses. These are recorded; if all of them work on memory of the
// arguments alone, the next call that is described in the same way repeats them on its own memory. Anything else is
// declined without a word, and the Python path is taken again.
#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace openbnns {

namespace nb = nanobind;

// An operation on addresses; false if it declines because of what it reads, and then it has written nothing.
using Work = std::function<bool(char* const* places)>;

// Runs the work without the interpreter's lock, and keeps it for repetition while a call is being recorded.
bool perform(std::vector<char*> places, Work work);
bool is_recording();

// Something else than native code writes to the memory of arguments: the call that is being recorded cannot be
// repeated.
void spoil_recording();

// Drops all that is known: something else than the arguments has changed what calls do.
void forget_calls();

// The calls of one function.
class KnownCalls {
 public:
  // types: of descriptors and of arrays, and what makes an array of a shape and type. Arguments number `output` and
  // `second`, unless that is -1, are written; the first one is what `run` returns.
  KnownCalls(nb::tuple types, int64_t output, int64_t second) : types_(types), output_(output), second_(second) {}
  KnownCalls(const KnownCalls&) = delete;

  // Repeats a known call and returns its first output, a new array where that is None; None if the call is not known.
  nb::object run(nb::args arguments);

  // Between these a call is made for the first time. `result` is its first output; `owner` are arrays, and owners of
  // memory, that its operations read besides the memory of the arguments.
  void record();
  void keep(nb::tuple arguments, nb::object result, nb::list owner);
  void discard();

 private:
  struct Entry;
  struct Reading;
  bool read(PyObject* const* arguments, size_t count, Reading& reading) const;

  nb::tuple types_;
  int64_t output_, second_;
  uint64_t generation_ = 0;
  std::unordered_map<std::string, std::shared_ptr<const Entry>> entries_;
};

void bind_known_calls(nb::module_& m);

}  // namespace openbnns
