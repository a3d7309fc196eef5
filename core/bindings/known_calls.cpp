#include "bindings/known_calls.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"

using namespace nanobind::literals;

namespace openbnns {
namespace {

constexpr size_t kMostEntries = 128, kMostMemories = 8, kMostPlaces = 32, kKeyBytes = 2048;
constexpr int64_t kMostNumber = INT64_C(1) << 32;  // larger ones are addresses

// What a word of a C call is: a descriptor, a whole number, a truth value, a float, a pointer that must be NULL to be
// simple, a pointer without effect.
enum Word : char { kDescriptor = 'd', kInteger = 'i', kBool = 'b', kReal = 'f', kNull = 'n', kUnused = '-' };

std::atomic<uint64_t> generation{1};

// Bytes from the first to the last element of a descriptor with these fields; 0 if that takes more thought.
int64_t extent(int64_t layout, int64_t data_type, int64_t rank, const int64_t* size, const int64_t* stride) {
  constexpr int64_t kPack32 = 0x40010, kSparse = 0x21001, kMostElements = INT64_C(1) << 46;
  const int64_t bits = data_type & 0xff;
  if (layout == kPack32 || layout == kSparse || bits == 0 || bits % 8 != 0) return 0;
  int64_t count = 1, last = 0;
  bool packed = true, strided = true;
  for (int64_t a = 0; a < rank; a++) {
    if (size[a] < 1 || size[a] > kMostElements / count || stride[a] < 0 || stride[a] > kMostElements / size[a])
      return 0;
    count *= size[a];
    last += (size[a] - 1) * stride[a];
    packed &= stride[a] == 0;
    strided &= stride[a] != 0;
  }
  return packed || strided ? (packed ? count : 1 + last) * (bits / 8) : 0;
}

}  // namespace

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

  int64_t all_bytes() const {
    int64_t sum = 0;
    for (int64_t n : bytes) sum += n;
    return sum;
  }
  bool run(const Memory* memory) const {
    for (const Step& step : steps) {
      char* places[kMostPlaces];
      for (size_t i = 0; i < step.places.size(); i++) {
        const auto [place, offset] = step.places[i];
        places[i] = place == kFixed ? reinterpret_cast<char*>(offset) : memory[place].begin + offset;
      }
      if (!step.work(places)) return false;
    }
    return true;
  }
};

// The description of a call, and its memories in the order of the arguments.
struct KnownCalls::Reading {
  Key<kKeyBytes> key;
  Memory memory[kMostMemories];
  size_t count = 0;
  bool trusts_addresses;

  explicit Reading(bool trusts_addresses) : trusts_addresses(trusts_addresses) {}

  void add(char letter) { key.add(letter); }
  bool add(int64_t number) {
    if (number > kMostNumber) return false;
    return key.add(number), true;
  }
  bool add(double number) { return key.add(number), true; }

  bool add_scalar(PyObject* value) {
    int64_t number;
    double real;
    if (value == Py_None) return add('n'), true;
    if (PyBool_Check(value)) return add('b'), add(int64_t{value == Py_True});
    if (PyFloat_Check(value)) return add('f'), to_double(value, real) && add(real);
    return add('i'), to_int64(value, number) && add(number);
  }
  bool add_list(PyObject* list) {
    add('t');
    for (Py_ssize_t i = 0, size = list_size(list); i < size; i++) {
      const nb::object item = list_item(list, i);
      if (!item.is_valid() || !add_scalar(item.ptr())) return false;
    }
    return add('.'), true;
  }

  // Memory whose elements have `bytes`; 0: as its buffer says.
  bool add_memory(const Memory& given, int64_t bytes) {
    if (count == kMostMemories || given.bytes == 0 || given.bytes == kUnbounded) return false;
    if (bytes == 0) bytes = given.view->itemsize;
    if (bytes == 0 || reinterpret_cast<uintptr_t>(given.begin) % static_cast<uintptr_t>(bytes) != 0) return false;
    memory[count++] = given;
    const char* format = !given.view ? "address" : given.view->format ? given.view->format : "B";
    key.add(format, std::strlen(format) + 1);
    return add(int64_t{given.view ? given.view->itemsize : 0});
  }

  bool add_array(PyObject* array, PythonReader& reader, bool writes) {
    Memory found;
    if (!reader.memory(array, kAnything, writes, found) || !found.view || !add_memory(found, 0)) return false;
    add(int64_t{found.view->ndim});
    key.add(found.view->shape, sizeof(*found.view->shape) * static_cast<size_t>(found.view->ndim));
    return true;
  }

  template <class Reader>
  bool add_descriptor(const typename Reader::Descriptor& d, Reader& reader, bool writes) {
    Memory found;
    const Data data = reader.data(d, kAnything, writes, found);
    if (data == Data::kOther || d.has_table()) return false;
    add('d');
    if (data == Data::kAbsent) return add('n'), true;  // a tensor that is not there
    int64_t flags, layout, data_type, size[kMaxRank], stride[kMaxRank];
    double scale, bias;
    if (!d.flags(flags) || !d.layout(layout) || !d.data_type(data_type)) return false;
    const int rank = static_cast<int>(std::min<int64_t>(layout >> 16, kMaxRank));  // what lies behind has no meaning
    if (!d.size(rank, size) || !d.stride(rank, stride) || !d.scale(scale) || !d.bias(bias)) return false;
    if (!add(flags) || !add(layout) || !add(data_type) || !add(scale) || !add(bias)) return false;
    for (int a = 0; a < rank; a++)
      if (!add(size[a]) || !add(stride[a])) return false;
    if (!found.view) {
      if (!trusts_addresses) return false;
      found.bytes = extent(layout, data_type, rank, size, stride);
    }
    return add_memory(found, std::max<int64_t>(1, (data_type & 0xff) / 8));
  }

  // Which memories are one and the same; false if two of them merely overlap.
  bool add_sharing() {
    for (size_t i = 1; i < count; i++)
      for (size_t k = 0; k < i; k++) {
        const Memory &a = memory[i], &b = memory[k];
        const bool same = a.begin == b.begin && a.bytes == b.bytes;
        if (!same && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes) return false;
        add(same ? '=' : '|');
      }
    return !key.full();
  }
};

bool KnownCalls::read(PyObject* const* arguments, size_t count, PythonReader& reader, Reading& reading) const {
  for (size_t i = 0; i < count; i++) {
    PyObject* argument = arguments[i];
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(argument));
    bool good;
    if (type == PyTuple_GetItem(types_.ptr(), 0)) {
      good = reading.add_descriptor(PythonReader::Descriptor(argument), reader, writes(i));
    } else if (type == PyTuple_GetItem(types_.ptr(), 1)) {
      reading.add('a');
      good = reading.add_array(argument, reader, writes(i));
    } else if (is_list(argument)) {
      good = reading.add_list(argument);
    } else {
      good = reading.add_scalar(argument);
    }
    if (!good) return false;
  }
  return reading.add_sharing();
}

// The same description from the words of a C call.
bool KnownCalls::read_raw(const OpenBNNSWord* words, size_t count, Reading& reading) const {
  if (count != words_.size()) return false;
  RawReader reader(0);
  size_t argument = 0;
  for (size_t i = 0; i < count; i++) {
    bool good = true;
    switch (words_[i]) {
      case kDescriptor:
        good = words[i].pointer && reading.add_descriptor(RawReader::Descriptor(words[i]), reader, writes(argument));
        break;
      case kInteger:
        reading.add('i');
        good = reading.add(static_cast<int64_t>(words[i].number));
        break;
      case kBool:
        reading.add('b');
        good = reading.add(int64_t{words[i].number != 0});
        break;
      case kReal:
        reading.add('f');
        reading.add(words[i].real);
        break;
      case kNull:
        reading.add('n');
        good = !words[i].pointer;
        break;
      default:
        continue;
    }
    if (!good) return false;
    argument++;
  }
  return reading.add_sharing();
}

// Needs the interpreter's lock.
void KnownCalls::clear() {
  end();
  entries_.clear();
}

nb::object KnownCalls::run(nb::args arguments) {
  if (!fast_calls_enabled || entries_.size() == 0) return nb::none();
  if (generation_ != generation) return clear(), nb::none();
  PyObject* flat[kMostPlaces];
  const size_t given = arguments.size();
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return nb::none();
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  PythonReader reader(kMostMemories + 1);
  Reading reading(!words_.empty());
  if (!read(flat, given, reader, reading)) return nb::none();
  const auto* found = entries_.find(reading.key.text());
  if (!found) return nb::none();
  const std::shared_ptr<const Entry> entry = *found;
  nb::object result = nb::borrow(flat[output_]);
  if (entry->shape.is_valid()) {
    Memory memory;
    result = types_[2](entry->shape, entry->dtype);
    if (!reader.memory(result.ptr(), kAnything, true, memory) || !reading.add_memory(memory, 0)) return nb::none();
  }
  for (size_t i = 0; i < reading.count; i++)
    if (reading.memory[i].bytes < entry->bytes[i]) return nb::none();
  bool done;
  try {
    Unlocked unlocked(entry->all_bytes() >= kInterruptibleBytes);
    done = entry->run(reading.memory);
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    done = false;
  }
  if (!done) return nb::none();
  latest_call_succeeded();
  return result;
}

int KnownCalls::run_raw(const OpenBNNSWord* words, size_t count) {
  if (!fast_calls_enabled || generation_ != generation || is_recording()) return kDeclined;
  Reading reading(true);
  if (!read_raw(words, count, reading)) return kDeclined;
  const auto* found = entries_.find(reading.key.text());  // stays while this call uses the number
  if (!found || (*found)->shape.is_valid()) return kDeclined;
  try {
    if (!(*found)->run(reading.memory)) return kDeclined;
  } catch (const std::bad_alloc&) {
    return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

void KnownCalls::record() { start_recording(generation); }

void KnownCalls::discard() { take_recording(); }

void KnownCalls::keep(nb::tuple arguments, nb::object result, nb::list owner) {
  const Recording done = take_recording();
  if (!fast_calls_enabled || !done.on || done.useless || done.operations.empty()) return;
  if (done.generation != generation) return;  // what decides about calls has changed meanwhile
  PythonReader reader(kMostMemories + 1 + nb::len(owner));
  Reading reading(!words_.empty());
  PyObject* flat[kMostPlaces];
  const size_t given = nb::len(arguments);
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return;
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  if (!read(flat, given, reader, reading)) return;
  std::string key(reading.key.text());
  auto is_array = [&](nb::handle object) { return object.type().is(types_[1]); };
  auto entry = std::make_shared<Entry>();
  std::vector<Memory> memories(reading.memory, reading.memory + reading.count);
  Memory other;
  if (flat[output_] == Py_None && !result.is_none()) {
    if (!is_array(result) || !reader.memory(result.ptr(), kAnything, true, other)) return;
    memories.push_back(other);
    entry->shape = result.attr("shape");
    entry->dtype = result.attr("dtype");
  }
  for (const Memory& memory : memories) entry->bytes.push_back(memory.bytes);
  for (nb::handle kept : owner) {  // memory that is the same at every call
    if (!is_array(kept)) continue;
    if (!reader.memory(kept.ptr(), kAnything, false, other)) return;
    memories.push_back(other);
  }
  for (const Operation& operation : done.operations) {
    Entry::Step step{operation.work, {}};
    for (char* place : operation.places) {
      const auto holds = [place](const Memory& m) { return place >= m.begin && place < m.begin + m.bytes; };
      const auto memory = std::find_if(memories.begin(), memories.end(), holds);
      if (memory == memories.end()) return;  // memory of the Python path's own
      const size_t i = static_cast<size_t>(memory - memories.begin());
      if (i < entry->bytes.size())
        step.places.push_back({i, place - memory->begin});
      else
        step.places.push_back({kFixed, reinterpret_cast<intptr_t>(place)});
    }
    if (step.places.size() > kMostPlaces) return;
    entry->steps.push_back(std::move(step));
  }
  entry->owner = std::move(owner);
  if (generation_ != generation || entries_.size() >= kMostEntries) clear();
  generation_ = generation.load();
  entries_.add(std::move(key), std::move(entry));
}

void bind_known_calls(nb::module_& m) {
  nb::class_<KnownCalls, Numbered>(m, "KnownCalls")
      .def(nb::init<nb::tuple, int64_t, int64_t, std::string>(), "types"_a, "output"_a, "second"_a, "words"_a = "",
           nb::sig("def __init__(self, types: tuple[object, ...], output: int, second: int, words: str = '') -> None"))
      .def("run", &KnownCalls::run, nb::sig("def run(self, *arguments: object) -> object"))
      .def("record", &KnownCalls::record)
      .def("keep", &KnownCalls::keep, "arguments"_a, "result"_a.none(), "owner"_a,
           nb::sig("def keep(self, arguments: tuple[object, ...], result: object | None, owner: list[object]) -> None"))
      .def("discard", &KnownCalls::discard);
  m.def("forget_calls", &forget_calls);
  m.def("spoil_recording", &spoil_recording);
}

}  // namespace openbnns
