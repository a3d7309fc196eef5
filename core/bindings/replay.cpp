#include "bindings/replay.h"

#include <algorithm>
#include <new>

#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "bindings/numbered.h"
#include "runtime/weights_version.h"

using namespace nanobind::literals;

namespace openbnns {

Replay::Replay(nb::list memory) : memory_(std::move(memory)) {
  for (nb::handle array : memory_) {
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_STRIDES) != 0) {
      PyErr_Clear();
      continue;
    }
    const char *begin = static_cast<const char*>(view.buf), *end = begin + view.itemsize;
    for (int a = 0; a < view.ndim; a++) {
      const Py_ssize_t reach = view.strides[a] * (view.shape[a] - 1);
      (reach < 0 ? begin : end) += reach;
    }
    if (view.len > 0) stretches_.push_back({begin, end});
    PyBuffer_Release(&view);
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
  if (done.useless || done.operations.size() != 1 || !done.operations[0].enabled) return false;
  for (const char* place : done.operations[0].places) {
    const auto holds = [place](const auto& stretch) { return place >= stretch.first && place < stretch.second; };
    if (std::none_of(stretches_.begin(), stretches_.end(), holds)) return false;
  }
  bytes_ += done.operations[0].bytes;
  calls_.push_back(std::move(done.operations[0]));
  return true;
}

namespace {

bool repeat(const Operation& call) {
  if (!call.enabled->load(std::memory_order_relaxed)) return false;
  try {
    if (!call.number) return call.work(call.places.data());
    const Numbered::Use use(call.number);
    return use && call.work(call.places.data());
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    return false;
  }
}

}  // namespace

size_t Replay::run(size_t first, uint64_t weights) const {
  size_t next = first;
  {
    const KnownWeights known(weights);
    Unlocked unlocked(bytes_ >= kInterruptibleBytes);
    while (next < calls_.size() && repeat(calls_[next])) next++;
  }
  if (next == calls_.size()) latest_call_succeeded();
  return next;
}

Replay::Redirected& Replay::redirected(const char* begin, int64_t bytes) {
  for (Redirected& known : redirected_)
    if (known.begin == begin && known.bytes == bytes) return known;
  Redirected made{begin, bytes, {}};
  for (Operation& call : calls_)
    for (char*& place : call.places)
      if (place >= begin && place < begin + bytes) made.places.emplace_back(&place, place - begin);
  redirected_.push_back(std::move(made));
  return redirected_.back();
}

bool Replay::redirect(nb::handle planned, nb::handle given) {
  Py_buffer from, to;
  if (PyObject_GetBuffer(planned.ptr(), &from, PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  bool done = PyObject_GetBuffer(given.ptr(), &to, PyBUF_C_CONTIGUOUS) == 0;
  if (done) {
    char* begin = static_cast<char*>(to.buf);
    const auto meets = [&](const auto& stretch) { return begin < stretch.second && stretch.first < begin + to.len; };
    const bool back = from.buf == to.buf;
    done = from.len == to.len && reinterpret_cast<uintptr_t>(begin) % sizeof(float) == 0 &&
           (back || std::none_of(stretches_.begin(), stretches_.end(), meets));
    if (done)
      for (auto [place, offset] : redirected(static_cast<const char*>(from.buf), from.len).places)
        *place = begin + offset;
    PyBuffer_Release(&to);
  } else {
    PyErr_Clear();
  }
  PyBuffer_Release(&from);
  return done;
}

void bind_replay(nb::module_& m) {
  nb::class_<Replay>(m, "Replay")
      .def(nb::init<nb::list>(), "memory"_a, nb::sig("def __init__(self, memory: list[object]) -> None"))
      .def("add", &Replay::add, "call"_a, nb::sig("def add(self, call: object) -> bool"))
      .def("run", &Replay::run, "first"_a = 0, "weights"_a = 0)
      .def("redirect", &Replay::redirect, "planned"_a, "given"_a,
           nb::sig("def redirect(self, planned: object, given: object) -> bool"));
  m.def("new_weights_version", &new_weights_version);
}

}  // namespace openbnns
