#include "bindings/graph_call.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "bindings/reader.h"
#include "bindings/recording.h"
#include "runtime/fork.h"

using namespace nanobind::literals;

namespace openbnns {
namespace {

std::atomic<uint64_t> arithmetic_count{0};  // of choices of an arithmetic for the process

struct Release {
  explicit Release(Busy& busy) : busy(busy) {}
  ~Release() { busy.release(); }
  Release(const Release&) = delete;
  Busy& busy;
};

// The strides of elements without gaps.
void pack(const int64_t* shape, size_t axes, int64_t* stride) {
  for (int64_t step = 1; axes-- > 0; step *= std::max<int64_t>(shape[axes], 1)) stride[axes] = step;
}

// Calls visit(place, at, count, step) for each row along the last axis: where it begins in memory with these strides,
// the number of its first element, its length, and the distance of its elements. Needs an axis, and elements.
template <class Visit>
void each_row(const std::vector<int64_t>& shape, const int64_t* stride, int64_t count, Visit visit) {
  const size_t last = shape.size() - 1;
  int64_t index[8] = {}, place = 0;
  for (int64_t at = 0; at < count; at += shape[last]) {
    visit(place, at, shape[last], stride[last]);
    for (size_t axis = last; axis-- > 0;) {
      place += stride[axis];
      if (++index[axis] < shape[axis]) break;
      place -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

void copy(ConvertElements convert, const char* from, char* to, int64_t count, int64_t bytes) {
  if (convert)
    convert(from, to, count);
  else
    std::memcpy(to, from, static_cast<size_t>(count * bytes));
}

}  // namespace

bool Busy::acquire() {
  const uint64_t here = fork_generation();
  uint64_t holder = holder_.load(std::memory_order_relaxed);
  return holder != here && holder_.compare_exchange_strong(holder, here);
}

// ---------------------------------------------------------------------------------------------------------------------
// One function for certain sizes

GraphCall::GraphCall(nb::object calls, uint64_t weights, nb::object keep, uint64_t arithmetic,
                     const nb::bytes& function, bool is_default, bool checks)
    : kept_calls_(std::move(calls)),
      keep_(std::move(keep)),
      calls_(kept_calls_.is_none() ? nullptr : &nb::cast<CallList&>(kept_calls_)),
      weights_(weights),
      arithmetic_(arithmetic),
      function_(function.c_str(), function.size()),
      is_default_(is_default),
      checks_(checks) {}

void GraphCall::add_argument(char type, const std::vector<int64_t>& shape, bool is_input, bool is_output,
                             uintptr_t source, uintptr_t target, char planned, bool movable, uint32_t data_type,
                             uintptr_t name) {
  const ElementConversions* known = conversions_of(type);
  if (!known || shape.size() > kMostAxes || (planned != type && planned != 'f' && planned != 'l'))
    throw std::invalid_argument("GraphCall: an argument of this kind needs Python");
  Argument made{};
  made.letter = type;
  made.is_input = is_input;
  made.is_output = is_output;
  made.shape = shape;
  made.count = 1;
  for (const int64_t size : shape) made.count *= size;
  made.element = known->bytes;
  made.bytes = known->bytes * made.count;
  made.source = reinterpret_cast<char*>(source);
  made.target = reinterpret_cast<char*>(target);
  made.planned = planned == 'f' ? 4 : planned == 'l' ? 8 : known->bytes;
  if (planned != type) {
    made.read = planned == 'f' ? known->to_floats : known->to_integers;
    made.write = planned == 'f' ? known->from_floats : known->from_integers;
    made.fits = planned == 'f' ? known->floats_fit : nullptr;
    if ((made.source && !made.read) || (made.target && !made.write))
      throw std::invalid_argument("GraphCall: these elements cannot be converted");
  } else if (movable && made.source && calls_) {
    made.redirected = &calls_->redirected(made.source, made.bytes);
  }
  made.tensor.type = data_type;
  made.tensor.rank = static_cast<uint8_t>(shape.size());
  std::copy(shape.begin(), shape.end(), made.tensor.shape);
  pack(made.tensor.shape, shape.size(), made.tensor.stride);
  made.tensor.name = reinterpret_cast<const char*>(name);
  arguments_.push_back(std::move(made));
  places_.resize(arguments_.size());
}

void GraphCall::add_checked(uintptr_t floats, int64_t count, bool halved) {
  // The least float that becomes infinite: the float16 halfway above its largest one.
  checked_.push_back({reinterpret_cast<const float*>(floats), count, halved ? 65520.0f : INFINITY});
}

bool GraphCall::is_current() const {
  return !ended_.load(std::memory_order_relaxed) && arithmetic_ == arithmetic_count.load(std::memory_order_relaxed);
}

bool GraphCall::is_long() const { return calls_ && calls_->bytes() >= kInterruptibleBytes; }

// Tensors say their sizes themselves.
bool GraphCall::is_open(Options options) const {
  return is_current() && checks_ == options.checks && (options.tensors || selected_.load());
}

bool GraphCall::takes(const char* function, size_t count, GraphArgument* given, Options options) {
  if (!is_open(options) || count != arguments_.size() || !given) return false;
  if (!(function && *function ? function_ == function : is_default_)) return false;
  for (size_t i = 0; i < count; i++)
    if (!finds(arguments_[i], given[i], options.tensors, places_[i])) return false;
  return true;
}

bool GraphCall::finds(const Argument& argument, GraphArgument& given, bool tensors, Place& place) const {
  if (argument.own && (given.data || !tensors)) {
    place = {argument.own, nullptr, tensors ? reinterpret_cast<Tensor*>(given.data) : nullptr, &given};
    return true;
  }
  if (!given.data) return false;
  if (tensors) return finds_tensor(argument, *reinterpret_cast<Tensor*>(given.data), place);
  place = {given.data, nullptr, nullptr, nullptr};
  return given.bytes >= static_cast<uint64_t>(argument.bytes);
}

bool GraphCall::finds_tensor(const Argument& argument, Tensor& tensor, Place& place) const {
  const size_t axes = argument.shape.size();
  if (!tensor.data || !argument.tensor.name || tensor.rank > kMostAxes) return false;
  if (argument.is_input && tensor.type != argument.tensor.type && tensor.type != 0) return false;
  const bool same = tensor.rank == axes && std::equal(tensor.shape, tensor.shape + axes, argument.tensor.shape);
  const bool open = std::all_of(tensor.shape, tensor.shape + tensor.rank, [](int64_t n) { return n == 0; });
  if (argument.is_input && !same && !(open && argument.count > 0 && selected_.load())) return false;
  place = {tensor.data, nullptr, &tensor, nullptr};
  const bool packed = !same || std::equal(tensor.stride, tensor.stride + axes, argument.tensor.stride) ||
                      std::all_of(tensor.stride, tensor.stride + axes, [](int64_t step) { return step == 0; });
  if (packed || argument.count == 0) return tensor.bytes >= static_cast<uint64_t>(argument.bytes);
  int64_t last = 0, least = 1;  // the last element, and what a stride must be for rows to lie one after the other
  for (size_t axis = axes; axis-- > 0;) {
    const int64_t step = tensor.stride[axis], most = int64_t{1} << 40;
    if (step < 0 || step > most || argument.shape[axis] > most) return false;
    if (argument.is_output && argument.shape[axis] > 1 && step < least) return false;
    last += (argument.shape[axis] - 1) * step;
    if (last > most) return false;
    least = std::max(least, last + 1);
  }
  place.stride = tensor.stride;
  return tensor.bytes / static_cast<uint64_t>(argument.element) > static_cast<uint64_t>(last);
}

bool GraphCall::takes_arrays(const nb::list& arrays, Held& views, Options options) {
  if (!is_open(options) || nb::len(arrays) != arguments_.size()) return false;
  for (size_t i = 0; i < arguments_.size(); i++) {
    const Argument& argument = arguments_[i];
    const ListEntry array = list_entry(arrays.ptr(), static_cast<Py_ssize_t>(i));
    const Py_buffer* view = views.take(array.ptr(), argument.is_output);
    if (!view || view->format[0] != argument.letter || view->format[1] != 0) return false;
    if (static_cast<size_t>(view->ndim) != argument.shape.size()) return false;
    if (!std::equal(argument.shape.begin(), argument.shape.end(), view->shape)) return false;
    places_[i] = {static_cast<char*>(view->buf), nullptr, nullptr, nullptr};
  }
  return true;
}

void GraphCall::read(bool in_place) {
  for (size_t i = 0; i < arguments_.size(); i++) {
    const Argument& argument = arguments_[i];
    if (!argument.source) continue;
    const Place& place = places_[i];
    const bool moves = in_place && argument.redirected && !place.stride && is_aligned(place.data, argument.element);
    if (argument.redirected) argument.redirected->move_to(moves ? place.data : argument.source);
    if (moves) continue;
    if (!place.stride) {
      copy(argument.read, place.data, argument.source, argument.count, argument.element);
      continue;
    }
    each_row(argument.shape, place.stride, argument.count, [&](int64_t from, int64_t at, int64_t length, int64_t step) {
      const int64_t together = step == 1 ? length : 1;
      for (int64_t j = 0; j < length; j += together)
        copy(argument.read, place.data + (from + j * step) * argument.element,
             argument.source + (at + j) * argument.planned, together, argument.element);
    });
  }
}

bool GraphCall::run() { return calls_->run_unlocked(weights_); }

bool GraphCall::write() {
  for (const Checked& checked : checked_)
    if (!all_below(checked.floats, checked.count, checked.limit)) return false;
  for (const Argument& argument : arguments_)
    if (argument.target && argument.fits && !argument.fits(argument.target, argument.count)) return false;
  for (const bool state : {true, false})  // states first, as the program writes them before its outputs are copied
    for (size_t i = 0; i < arguments_.size(); i++)
      if (arguments_[i].is_input == state) store(arguments_[i], places_[i]);
  for (size_t i = 0; i < arguments_.size(); i++)
    if (places_[i].tensor || places_[i].found) describe(arguments_[i], places_[i]);
  return true;
}

void GraphCall::store(const Argument& argument, const Place& place) const {
  if (argument.ring.value) return advance(argument, place.data);
  if (!argument.target) return;
  if (!place.stride) return copy(argument.write, argument.target, place.data, argument.count, argument.element);
  each_row(argument.shape, place.stride, argument.count, [&](int64_t to, int64_t at, int64_t length, int64_t step) {
    const int64_t together = step == 1 ? length : 1;
    for (int64_t j = 0; j < length; j += together)
      copy(argument.write, argument.target + (at + j) * argument.planned,
           place.data + (to + j * step) * argument.element, together, argument.element);
  });
}

void GraphCall::advance(const Argument& argument, char* state) const {
  const Ring& ring = argument.ring;
  const int64_t whole = std::min(ring.entries, ring.length - ring.first) * ring.inner;
  for (int64_t i = 0; i < ring.outer; i++) {
    const char* value = ring.value + i * ring.length * ring.inner * argument.planned;
    char* to = state + i * ring.entries * ring.inner * argument.element;
    copy(argument.write, value + ring.first * ring.inner * argument.planned, to, whole, argument.element);
    copy(argument.write, value, to + whole * argument.element, ring.entries * ring.inner - whole, argument.element);
  }
}

// Describes a result to the program, as it is after the call.
void GraphCall::describe(const Argument& argument, const Place& place) const {
  if (!place.tensor) {
    *place.found = {place.data, static_cast<uint64_t>(argument.bytes)};
    return;
  }
  Tensor& tensor = *place.tensor;
  tensor.name = argument.tensor.name;
  if (place.found) {
    tensor.data = place.data;
    tensor.bytes = static_cast<uint64_t>(argument.bytes);
  } else if (argument.is_input) {
    return;
  }
  tensor.type = argument.tensor.type;
  tensor.rank = argument.tensor.rank;
  std::copy(std::begin(argument.tensor.shape), std::end(argument.tensor.shape), tensor.shape);
  if (!place.stride)
    std::copy(std::begin(argument.tensor.stride), std::end(argument.tensor.stride), tensor.stride);
  else
    std::fill(tensor.stride + tensor.rank, std::end(tensor.stride), 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// All of a context

GraphCalls::GraphCalls(nb::object busy) : kept_busy_(std::move(busy)), busy_(nb::cast<Busy&>(kept_busy_)) {}

void GraphCalls::add(nb::object call) {
  const size_t count = count_.load();
  if (count == kMost) throw std::length_error("GraphCalls: there are too many");
  calls_[count] = &nb::cast<GraphCall&>(call);
  kept_.push_back(std::move(call));
  count_.store(count + 1, std::memory_order_release);
}

void GraphCalls::set_options(bool tensors, bool checks) {
  tensors_.store(tensors);
  checks_.store(checks);
}

int64_t GraphCalls::find(const char* function, size_t count, GraphArgument* given) {
  if (!filter_calls_enabled.load(std::memory_order_relaxed) || is_recording()) return -1;
  const GraphCall::Options options{tensors_.load(), checks_.load()};
  const size_t known = count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < known; i++)
    if (calls_[i]->takes(function, count, given, options)) return static_cast<int64_t>(i);
  return -1;
}

int GraphCalls::run_raw(const OpenBNNSWord* words, size_t count) {
  if (count != 5 || !busy_.acquire()) return kDeclined;
  const Release released(busy_);
  const int64_t index = find(static_cast<const char*>(words[0].pointer), words[1].number,
                             static_cast<GraphArgument*>(const_cast<void*>(words[2].pointer)));
  if (index < 0 || !calls_[index]->is_native()) return kDeclined;
  GraphCall& call = *calls_[index];
  call.read(true);
  if (!call.run() || !call.write()) return kDeclined;
  latest_.store(index);
  latest_call_succeeded();
  return kDone;
}

bool GraphCalls::run(size_t index, const nb::list& arrays) {
  if (index >= count_.load(std::memory_order_acquire) || !calls_[index]->is_native()) return false;
  if (!filter_calls_enabled.load(std::memory_order_relaxed) || is_recording() || !busy_.acquire()) return false;
  const Release released(busy_);
  GraphCall& call = *calls_[index];
  Held views(nb::len(arrays));
  if (ended_ || !call.takes_arrays(arrays, views, {false, checks_.load()})) return false;
  {
    const Unlocked unlocked(call.is_long());
    call.read(true);
    if (!call.run() || !call.write()) return false;
  }
  latest_call_succeeded();
  return true;
}

int64_t GraphCalls::take(uintptr_t function, size_t count, uintptr_t arguments) {
  if (!busy_.acquire()) return -1;
  const int64_t index =
      ended_ ? -1 : find(reinterpret_cast<const char*>(function), count, reinterpret_cast<GraphArgument*>(arguments));
  if (index < 0 || calls_[index]->is_native()) {
    busy_.release();
    return -1;
  }
  calls_[index]->read(false);
  return index;
}

bool GraphCalls::give(size_t index) {
  const Release released(busy_);
  const bool done = index < count_.load() && calls_[index]->write();
  if (!done) return false;
  latest_.store(static_cast<int64_t>(index));
  latest_call_succeeded();
  return true;
}

bool GraphCalls::finish() {
  ended_ = true;  // a thread that takes arguments looks at it when the context is busy: one of the two sees the other
  end();
  if (!busy_.acquire()) return false;
  busy_.release();
  return true;
}

void bind_graph_call(nb::module_& m) {
  nb::class_<Busy>(m, "Busy").def(nb::init<>()).def("acquire", &Busy::acquire).def("release", &Busy::release);
  nb::class_<GraphCall>(m, "GraphCall")
      .def(nb::init<nb::object, uint64_t, nb::object, uint64_t, const nb::bytes&, bool, bool>(), "calls"_a.none(),
           "weights"_a, "keep"_a, "arithmetic"_a, "function"_a, "is_default"_a, "checks"_a)
      .def("add_argument", &GraphCall::add_argument, "type"_a, "shape"_a, "is_input"_a, "is_output"_a, "source"_a,
           "target"_a, "planned"_a, "movable"_a, "data_type"_a, "name"_a)
      .def("keep_state", &GraphCall::keep_state, "memory"_a)
      .def("add_ring", &GraphCall::add_ring, "value"_a, "outer"_a, "length"_a, "entries"_a, "inner"_a, "first"_a)
      .def("add_checked", &GraphCall::add_checked, "floats"_a, "count"_a, "halved"_a)
      .def("set_selected", &GraphCall::set_selected, "selected"_a)
      .def("end", &GraphCall::end)
      .def("is_current", &GraphCall::is_current);
  m.attr("most_graph_calls") = GraphCalls::kMost;
  nb::class_<GraphCalls, Numbered>(m, "GraphCalls")
      .def(nb::init<nb::object>(), "busy"_a)
      .def("add", &GraphCalls::add, "call"_a)
      .def("set_options", &GraphCalls::set_options, "tensors"_a, "checks"_a)
      .def("run", &GraphCalls::run, "index"_a, "arrays"_a,
           nb::sig("def run(self, index: int, arrays: list[object]) -> bool"))
      .def("take", &GraphCalls::take, "function"_a, "count"_a, "arguments"_a)
      .def("give", &GraphCalls::give, "index"_a)
      .def("drop", &GraphCalls::drop)
      .def("latest", &GraphCalls::latest)
      .def("finish", &GraphCalls::finish);
  m.def("arithmetic_count", [] { return arithmetic_count.load(); });
  m.def("count_arithmetic", [] { arithmetic_count++; });
}

}  // namespace openbnns
