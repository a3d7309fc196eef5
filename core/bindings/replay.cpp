#include "bindings/replay.h"

#include <algorithm>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "bindings/reader.h"

using namespace nanobind::literals;

namespace openbnns {

Replay::Replay(nb::list memory) : memory_(std::move(memory)) {
  PythonReader reader(nb::len(memory_));
  for (nb::handle array : memory_) {
    Memory found;
    if (reader.memory(array.ptr(), kAnything, false, found))
      stretches_.push_back({found.begin, found.begin + found.bytes});
  }
}

bool Replay::add(nb::callable call) {
  start_recording();
  try {
    call();
  } catch (...) {
    take_recording();
    throw;
  }
  Recording done = take_recording();
  if (!done.on || done.useless || done.operations.size() != 1 || done.bound.size() != 1) return false;
  for (const char* place : done.operations[0].places) {
    const auto holds = [place](const auto& stretch) { return place >= stretch.first && place < stretch.second; };
    if (std::none_of(stretches_.begin(), stretches_.end(), holds)) return false;
  }
  bytes_ += done.bound[0].bytes;
  calls_.push_back(std::move(done.bound[0]));
  return true;
}

size_t Replay::run(size_t first) const {
  size_t next = first;
  {
    Unlocked unlocked(bytes_ >= kInterruptibleBytes);
    for (; next < calls_.size(); next++) {
      const Numbered::Use use(calls_[next].number);
      if (!use || static_cast<FastCall&>(*use).run_bound(calls_[next].call) != kDone) break;
    }
  }
  if (next == calls_.size()) latest_call_succeeded();
  return next;
}

void bind_replay(nb::module_& m) {
  nb::class_<Replay>(m, "Replay")
      .def(nb::init<nb::list>(), "memory"_a, nb::sig("def __init__(self, memory: list[object]) -> None"))
      .def("add", &Replay::add, "call"_a, nb::sig("def add(self, call: object) -> bool"))
      .def("run", &Replay::run, "first"_a = 0);
}

}  // namespace openbnns
