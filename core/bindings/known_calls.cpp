#include "bindings/known_calls.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"
#include "runtime/per_thread.h"

using namespace nanobind::literals;

namespace openbnns {
namespace {

constexpr size_t kMostEntries = 128, kMostMemories = 8, kMostPlaces = 32;
constexpr int64_t kMostNumber = INT64_C(1) << 32;

struct Operation {
  std::vector<char*> places;
  Work work;
};

uint64_t generation = 1;

// What a thread has done since `record`, and the generation of that moment.
struct Recording {
  bool on = false, useless = false;
  uint64_t generation = 0;
  std::vector<Operation> operations;
};
PerThread<Recording> recordings;

struct Names {
  PyObject *data = of("data"), *table_data = of("table_data");
  PyObject* number[3] = {of("flags"), of("layout"), of("data_type")};
  PyObject *list[2] = {of("size"), of("stride")}, *real[2] = {of("data_scale"), of("data_bias")};
  static PyObject* of(const char* name) { return PyUnicode_InternFromString(name); }
};
const Names& names() {
  static const Names* n = new Names;
  return *n;
}

nb::object field(PyObject* object, PyObject* name) {
  PyObject* value = PyObject_GetAttr(object, name);
  if (!value) PyErr_Clear();
  return nb::steal(value);
}

}  // namespace

bool perform(std::vector<char*> places, Work work) {
  Recording* recording = recordings.get();
  if (recording && recording->on) recording->operations.push_back({places, work});
  bool done;
  {
    Unlocked unlocked(true);
    done = work(places.data());
  }
  if (recording && !done) recording->useless = true;
  return done;
}

bool is_recording() {
  const Recording* recording = recordings.get();
  return recording && recording->on;
}

void spoil_recording() {
  if (Recording* recording = recordings.get()) recording->useless = true;
}

void forget_calls() { generation++; }

constexpr size_t kFixed = SIZE_MAX;

// Operations with each place as (memory, bytes from its begin) or (kFixed, address), and how much of each memory they
// may touch.
struct KnownCalls::Entry {
  struct Step {
    Work work;
    std::vector<std::pair<size_t, int64_t>> places;
  };
  std::vector<Step> steps;
  std::vector<int64_t> bytes;
  nb::list owner;
  nb::object shape, dtype;  // shape and dtype of a result that the call creates
};

// The description of a call, and its memories in the order of the arguments.
struct KnownCalls::Reading {
  std::string key;
  Py_buffer view[kMostMemories];
  size_t count = 0;

  ~Reading() {
    for (size_t i = 0; i < count; i++) PyBuffer_Release(&view[i]);
  }
  char* begin(size_t i) const { return static_cast<char*>(view[i].buf); }
  void add(const void* bytes, size_t size) { key.append(static_cast<const char*>(bytes), size); }
  bool add_integer(PyObject* value) {
    if (!PyLong_Check(value)) return false;
    const int64_t number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
    if (number > kMostNumber) return false;  // an address
    return add(&number, sizeof(number)), true;
  }
  bool add_real(PyObject* value) {
    const double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
    return add(&number, sizeof(number)), true;
  }

  bool add_scalar(PyObject* value) {
    if (value == Py_None) return key.push_back('n'), true;
    if (PyFloat_Check(value)) return key.push_back('f'), add_real(value);
    key.push_back(PyBool_Check(value) ? 'b' : 'i');
    return add_integer(value);
  }
  bool add_list(PyObject* list) {
    key.push_back('t');
    const bool tuple = PyTuple_Check(list);  // __len__ of a class derived from it may say anything
    for (Py_ssize_t i = 0, size = tuple ? PyTuple_Size(list) : PyList_Size(list); i < size; i++)
      if (!add_scalar(tuple ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i))) return false;
    key.push_back('.');
    return true;
  }

  // Memory of items as they should lie for elements of `bytes`.
  bool add_memory(PyObject* object, bool writes, int64_t bytes) {
    if (count == kMostMemories || !PyObject_CheckBuffer(object)) return false;
    Py_buffer& v = view[count];
    if (PyObject_GetBuffer(object, &v, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0)
      return PyErr_Clear(), false;
    count++;
    if (bytes == 0) bytes = v.itemsize;
    if (v.len == 0 || bytes == 0 || reinterpret_cast<uintptr_t>(v.buf) % static_cast<uintptr_t>(bytes) != 0)
      return false;
    key.append(v.format ? v.format : "B").push_back('\0');
    add(&v.itemsize, sizeof(v.itemsize));
    return true;
  }

  bool add_array(PyObject* array, bool writes) {
    if (!add_memory(array, writes, 0)) return false;
    const Py_buffer& v = view[count - 1];
    add(&v.ndim, sizeof(v.ndim));
    add(v.shape, sizeof(*v.shape) * static_cast<size_t>(v.ndim));
    return true;
  }

  bool add_descriptor(PyObject* descriptor, bool writes) {
    const Names& n = names();
    nb::object data = field(descriptor, n.data), table = field(descriptor, n.table_data);
    if (!data.is_valid() || !table.is_valid() || !table.is_none()) return false;
    if (data.is_none()) return key.push_back('n'), true;  // a tensor that is not there
    for (PyObject* name : n.number) {
      nb::object value = field(descriptor, name);
      if (!value.is_valid() || !add_integer(value.ptr())) return false;
    }
    int64_t layout, data_type;
    std::memcpy(&layout, key.data() + key.size() - 2 * sizeof(layout), sizeof(layout));
    std::memcpy(&data_type, key.data() + key.size() - sizeof(data_type), sizeof(data_type));
    const Py_ssize_t rank = std::min<Py_ssize_t>(layout >> 16, 8);  // what lies behind has no meaning
    for (PyObject* name : n.list) {
      nb::object list = field(descriptor, name);
      if (!list.is_valid() || !PyList_Check(list.ptr()) || PyList_Size(list.ptr()) < rank) return false;
      for (Py_ssize_t i = 0; i < rank; i++)
        if (!add_integer(PyList_GetItem(list.ptr(), i))) return false;
    }
    for (PyObject* name : n.real) {
      nb::object value = field(descriptor, name);
      if (!value.is_valid() || !add_real(value.ptr())) return false;
    }
    return add_memory(data.ptr(), writes, std::max<int64_t>(1, (data_type & 0xff) / 8));
  }

  // Which memories are one and the same; false if two of them merely overlap.
  bool add_sharing() {
    for (size_t i = 1; i < count; i++)
      for (size_t k = 0; k < i; k++) {
        const bool same = begin(i) == begin(k) && view[i].len == view[k].len;
        if (!same && begin(i) < begin(k) + view[k].len && begin(k) < begin(i) + view[i].len) return false;
        key.push_back(same ? '=' : '|');
      }
    return true;
  }
};

bool KnownCalls::read(PyObject* const* arguments, size_t count, Reading& reading) const {
  reading.key.reserve(512);
  for (size_t i = 0; i < count; i++) {
    PyObject* argument = arguments[i];
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(argument));
    const auto number = static_cast<int64_t>(i);
    const bool writes = number == output_ || number == second_;
    bool good;
    if (type == PyTuple_GetItem(types_.ptr(), 0)) {
      reading.key.push_back('d');
      good = reading.add_descriptor(argument, writes);
    } else if (type == PyTuple_GetItem(types_.ptr(), 1)) {
      reading.key.push_back('a');
      good = reading.add_array(argument, writes);
    } else if (PyTuple_Check(argument) || PyList_Check(argument)) {
      good = reading.add_list(argument);
    } else {
      good = reading.add_scalar(argument);
    }
    if (!good) return false;
  }
  return reading.add_sharing();
}

nb::object KnownCalls::run(nb::args arguments) {
  if (!fast_calls_enabled || entries_.empty()) return nb::none();
  if (generation_ != generation) return entries_.clear(), nb::none();
  PyObject* flat[kMostPlaces];
  const size_t given = arguments.size();
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return nb::none();
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  Reading reading;
  if (!read(flat, given, reading)) return nb::none();
  auto found = entries_.find(reading.key);
  if (found == entries_.end()) return nb::none();
  const std::shared_ptr<const Entry> entry = found->second;
  nb::object result = nb::borrow(flat[output_]);
  if (entry->shape.is_valid()) {
    result = types_[2](entry->shape, entry->dtype);
    if (!reading.add_memory(result.ptr(), true, 0)) return nb::none();
  }
  int64_t bytes = 0;
  for (size_t i = 0; i < reading.count; i++) {
    if (reading.view[i].len < entry->bytes[i]) return nb::none();
    bytes += entry->bytes[i];
  }
  bool done = true;
  try {
    Unlocked unlocked(bytes >= kInterruptibleBytes);
    for (size_t s = 0; s < entry->steps.size() && done; s++) {
      const Entry::Step& step = entry->steps[s];
      char* places[kMostPlaces];
      for (size_t i = 0; i < step.places.size(); i++) {
        const auto [memory, bytes] = step.places[i];
        places[i] = memory == kFixed ? reinterpret_cast<char*>(bytes) : reading.begin(memory) + bytes;
      }
      done = step.work(places);
    }
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    done = false;
  }
  if (!done) return nb::none();
  latest_call_succeeded();
  return result;
}

void KnownCalls::record() {
  Recording& recording = recordings.own();
  recording.useless = recording.on;  // a call within a call: neither is worth remembering
  recording.on = true;
  recording.generation = generation;
  recording.operations.clear();
}

void KnownCalls::discard() { recordings.own() = {}; }

void KnownCalls::keep(nb::tuple arguments, nb::object result, nb::list owner) {
  const Recording done = std::exchange(recordings.own(), {});
  if (!fast_calls_enabled || !done.on || done.useless || done.operations.empty()) return;
  if (done.generation != generation) return;  // what decides about calls has changed meanwhile
  Reading reading;
  PyObject* flat[kMostPlaces];
  const size_t given = nb::len(arguments);
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return;
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  if (!read(flat, given, reading)) return;
  std::string key = reading.key;
  auto is_array = [&](nb::handle object) { return object.type().is(types_[1]); };
  auto entry = std::make_shared<Entry>();
  if (flat[output_] == Py_None && !result.is_none()) {
    if (!is_array(result) || !reading.add_memory(result.ptr(), true, 0)) return;
    entry->shape = result.attr("shape");
    entry->dtype = result.attr("dtype");
  }
  const size_t memories = reading.count;
  for (nb::handle kept : owner)  // memory that is the same at every call
    if (is_array(kept) && !reading.add_memory(kept.ptr(), false, 0)) return;
  for (const Operation& operation : done.operations) {
    Entry::Step step{operation.work, {}};
    for (char* place : operation.places) {
      size_t i = 0;
      while (i < reading.count && !(place >= reading.begin(i) && place < reading.begin(i) + reading.view[i].len)) i++;
      if (i == reading.count) return;  // memory of the Python path's own
      if (i < memories)
        step.places.push_back({i, place - reading.begin(i)});
      else
        step.places.push_back({kFixed, reinterpret_cast<intptr_t>(place)});
    }
    if (step.places.size() > kMostPlaces) return;
    entry->steps.push_back(std::move(step));
  }
  for (size_t i = 0; i < memories; i++) entry->bytes.push_back(reading.view[i].len);
  entry->owner = std::move(owner);
  if (generation_ != generation || entries_.size() >= kMostEntries) entries_.clear();
  generation_ = generation;
  entries_[std::move(key)] = std::move(entry);
}

void bind_known_calls(nb::module_& m) {
  nb::class_<KnownCalls>(m, "KnownCalls")
      .def(nb::init<nb::tuple, int64_t, int64_t>(), "types"_a, "output"_a, "second"_a,
           nb::sig("def __init__(self, types: tuple[object, ...], output: int, second: int) -> None"))
      .def("run", &KnownCalls::run, nb::sig("def run(self, *arguments: object) -> object"))
      .def("record", &KnownCalls::record)
      .def("keep", &KnownCalls::keep, "arguments"_a, "result"_a.none(), "owner"_a,
           nb::sig("def keep(self, arguments: tuple[object, ...], result: object | None, owner: list[object]) -> None"))
      .def("discard", &KnownCalls::discard);
  m.def("forget_calls", &forget_calls);
  m.def("spoil_recording", &spoil_recording);
}

}  // namespace openbnns
