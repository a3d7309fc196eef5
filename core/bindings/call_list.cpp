#include "bindings/call_list.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "bindings/numbered.h"
#include "runtime/weights_version.h"

using namespace nanobind::literals;

namespace openbnns {

CallList::CallList(nb::list memory) : memory_(std::move(memory)) {
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

bool CallList::place(nb::callable call) {
  start_placing();
  try {
    call();
  } catch (nb::python_error& error) {
    take_recording();
    if (!error.matches(PyExc_Exception)) throw;
    return false;  // a call that is not made may find its arguments wanting
  }
  Recording done = take_recording();
  if (done.useless || done.operations.size() != 1 || !done.operations[0].enabled) return false;
  for (const char* place : done.operations[0].places) {
    const auto holds = [place](const auto& stretch) { return place >= stretch.first && place < stretch.second; };
    if (std::none_of(stretches_.begin(), stretches_.end(), holds)) return false;
  }
  bytes_ += done.operations[0].bytes;
  if (joint_.empty() || joint_.back().last() < calls_.size() || !joint_.back().take(done.operations[0])) {
    joint_.emplace_back(calls_.size());
    if (!joint_.back().take(done.operations[0])) joint_.pop_back();
  }
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

// The memory of an array, if that is C-contiguous, while this lives.
class View {
 public:
  explicit View(const nb::handle& array, bool written = false)
      : held_(PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0)) == 0) {
    if (!held_) PyErr_Clear();
  }
  ~View() {
    if (held_) PyBuffer_Release(&view_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  explicit operator bool() const { return held_; }
  char* begin() const { return static_cast<char*>(view_.buf); }
  int64_t bytes() const { return view_.len; }

 private:
  Py_buffer view_;
  bool held_;
};

}  // namespace

size_t CallList::repeat_from(size_t first) const {
  size_t next = first;
  for (auto joint = joint_.begin(); next < calls_.size();) {
    while (joint != joint_.end() && joint->last() <= next) joint++;
    const size_t made = joint != joint_.end() && joint->first() <= next ? joint->run(calls_, next) : next;
    if (made == next && !repeat(calls_[next])) break;
    next = std::max(made, next + 1);
  }
  return next;
}

size_t CallList::run(size_t first, uint64_t weights) const {
  size_t next;
  {
    const KnownWeights known(weights);
    Unlocked unlocked(bytes_ >= kInterruptibleBytes);
    next = repeat_from(first);
  }
  if (next == calls_.size()) latest_call_succeeded();
  return next;
}

bool CallList::run_unlocked(uint64_t weights) const {
  try {
    const KnownWeights known(weights);
    return repeat_from(0) == calls_.size();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::pair<size_t, size_t> CallList::run_over(size_t count, const std::vector<Stream>& streams, nb::object result,
                                             nb::object results) {
  // A stream on its way through the calls, which find their own memory again at the end, whatever ends it.
  struct Passing {
    Passing(const Stream& stream) : planned(stream.first), given(stream.second) {}
    ~Passing() {
      if (memory) memory->move_to(planned.begin());
    }
    View planned, given;
    Redirected* memory = nullptr;
  };
  const View value(result), values(results, true);
  const auto times = static_cast<int64_t>(count);
  if (!value || !values || values.bytes() != times * value.bytes() || !is_elsewhere(values.begin(), values.bytes()))
    return {0, 0};
  std::deque<Passing> passing;
  for (const Stream& stream : streams) {
    Passing& made = passing.emplace_back(stream);
    if (!made.planned || !made.given || made.given.bytes() != times * made.planned.bytes() ||
        !is_elsewhere(made.given.begin(), made.given.bytes()))
      return {0, 0};
    made.memory = &redirected(made.planned.begin(), made.planned.bytes());
  }
  int64_t done = 0;
  size_t next = 0;
  {
    const KnownWeights known(0);
    Unlocked unlocked(times * bytes_ >= kInterruptibleBytes);
    for (; done < times; done++, next = 0) {
      for (Passing& stream : passing) stream.memory->move_to(stream.given.begin() + done * stream.planned.bytes());
      next = repeat_from(0);
      if (next < calls_.size()) break;
      std::memcpy(values.begin() + done * value.bytes(), value.begin(), static_cast<size_t>(value.bytes()));
    }
  }
  if (done == times) latest_call_succeeded();
  return {static_cast<size_t>(done), next};
}

CallList::Redirected& CallList::redirected(const char* begin, int64_t bytes) {
  for (Redirected& known : redirected_)
    if (known.begin == begin && known.bytes == bytes) return known;
  Redirected made{begin, bytes, {}};
  for (Operation& call : calls_)
    for (char*& place : call.places)
      if (place >= begin && place < begin + bytes) made.places.emplace_back(&place, place - begin);
  redirected_.push_back(std::move(made));
  return redirected_.back();
}

bool CallList::is_elsewhere(const char* begin, int64_t bytes) const {
  const auto meets = [&](const auto& stretch) { return begin < stretch.second && stretch.first < begin + bytes; };
  return reinterpret_cast<uintptr_t>(begin) % sizeof(float) == 0 &&
         std::none_of(stretches_.begin(), stretches_.end(), meets);
}

bool CallList::redirect(nb::handle planned, nb::handle given) {
  const View from(planned), to(given);
  if (!from || !to || from.bytes() != to.bytes()) return false;
  if (from.begin() != to.begin() && !is_elsewhere(to.begin(), to.bytes())) return false;
  redirected(from.begin(), from.bytes()).move_to(to.begin());
  return true;
}

void bind_call_list(nb::module_& m) {
  nb::class_<CallList>(m, "CallList")
      .def(nb::init<nb::list>(), "memory"_a, nb::sig("def __init__(self, memory: list[object]) -> None"))
      .def("place", &CallList::place, "call"_a, nb::sig("def place(self, call: object) -> bool"))
      .def("run", &CallList::run, "first"_a = 0, "weights"_a = 0)
      .def("run_over", &CallList::run_over, "count"_a, "streams"_a, "result"_a, "results"_a,
           nb::sig("def run_over(self, count: int, streams: Sequence[tuple[object, object]], result: object, results: "
                   "object) -> tuple[int, int]"))
      .def("redirect", &CallList::redirect, "planned"_a, "given"_a,
           nb::sig("def redirect(self, planned: object, given: object) -> bool"));
  m.def("new_weights_version", &new_weights_version);
  m.def(
      "make_on_weights",
      [](uint64_t weights, nb::callable call) {
        const KnownWeights known(weights);
        call();
      },
      "weights"_a, "call"_a, nb::sig("def make_on_weights(weights: int, call: object) -> None"));
}

}  // namespace openbnns
