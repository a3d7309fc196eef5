// The fast path to functions without a filter: calls that have been made before.
//
// Such a function is given everything at every call, descriptors with their data. The Python path checks it, decides,
// and in the end runs a few native operations on addresses. These are recorded; if all of them work only on memory of
// the arguments, the next call with the same description repeats them on its own memory. Anything else is declined
// without a message, and the Python path is taken again.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/key_table.h"
#include "bindings/numbered.h"
#include "bindings/reader.h"
#include "bindings/recording.h"

namespace openbnns {

namespace nb = nanobind;

// Drops all recorded calls: something other than the arguments has changed what calls do.
void forget_calls();

// The calls of one function.
class KnownCalls final : public Numbered {
 public:
  // types: of descriptors and of arrays, and what makes an array of a shape and type. Arguments number `output` and
  // `second`, unless that is -1, are written; the first one is what `run` returns.
  // function: its name, if C programs may call it by number; c_interface.h says what its arguments are. Only for such a
  // function does a descriptor say how much memory there is at an address: one sample, or as many as argument `batch`
  // says, at the distance that another argument says.
  // strides: tensors with their batch strides; described: addresses with the descriptors of the memory there.
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  KnownCalls(nb::tuple types, int64_t output, int64_t second, const std::string& function, int64_t batch, Pairs strides,
             Pairs described);
  ~KnownCalls() override { clear(); }

  // Repeats a known call and returns its first output, a new array where that is None; None if the call is not known.
  nb::object run(nb::args arguments);
  int run_raw(const OpenBNNSWord* words, size_t count) override;

  // Between these a call is made for the first time. `result` is its first output; `owner` are arrays, and owners of
  // memory, that its operations read besides the memory of the arguments.
  void record();
  void keep(nb::tuple arguments, nb::object result, nb::list owner);
  void discard();

 private:
  struct Entry;
  struct Reading;

  bool read(PyObject* const* arguments, size_t count, PythonReader& reader, Reading& reading) const;
  bool read_raw(const OpenBNNSWord* words, size_t count, Reading& reading) const;
  bool read_members(const char*& letter, const void* place, size_t& argument, Reading& reading) const;
  bool finish(Reading& reading) const;
  bool is_described(size_t argument) const {
    for (auto [address, descriptor] : described_)
      if (address == argument) return true;
    return false;
  }
  static bool perform_recorded(const std::shared_ptr<const Entry>& entry, const Reading& reading);
  void clear();
  bool writes(size_t argument) const {
    return static_cast<int64_t>(argument) == output_ || static_cast<int64_t>(argument) == second_;
  }

  nb::tuple types_;
  int64_t output_, second_;
  const char* words_ = "";  // of its arguments in C
  const int64_t batch_;
  const Pairs strides_, described_;
  std::atomic<uint64_t> generation_{0};  // of the latest entry
  KeyTable<std::shared_ptr<const Entry>> entries_;
};

void bind_known_calls(nb::module_& m);

}  // namespace openbnns
