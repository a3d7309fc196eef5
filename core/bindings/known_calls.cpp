#include "bindings/known_calls.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "bindings/c_interface.h"
#include "bindings/fast_call.h"
#include "bindings/interruption.h"
#include "bindings/latest_call.h"

using namespace nanobind::literals;

namespace openbnns {
namespace {

constexpr size_t kMostEntries = 128, kMostMemories = 8, kMostPlaces = 32, kKeyBytes = 2048;
constexpr int64_t kMostNumber = INT64_C(1) << 32;  // larger ones are addresses

// What a word of a C call is: a descriptor, one that may be NULL, an address that another argument describes, a whole
// number, a truth value, a float, a pointer that must be NULL to be simple, a pointer without effect.
enum Word : char {
  kDescriptor = 'd',
  kOptional = 'o',
  kAddress = 'm',
  kInteger = 'i',
  kBool = 'b',
  kReal = 'f',
  kNull = 'n',
  kUnused = '-',
};
// A pointer to a struct is written as its members in parentheses, each aligned for its type, with the letters of
// struct_view.h. Signed numbers and addresses have no effect in these calls.
enum Member : char { kBegin = '(', kEnd = ')', kInt32 = 'u', kInt64 = 'U', kSkipped32 = 's', kSkippedPointer = 'p' };

std::atomic<uint64_t> generation{1};

// The memory of a described tensor: bytes from its first to its last element, 0 if that takes more thought, bytes of an
// element, and whether there are no others in between.
struct Extent {
  int64_t bytes, element;
  bool packed;
};
constexpr Extent kUnknownExtent{0, 1, false};

Extent extent_of(int64_t layout, int64_t data_type, int64_t rank, const int64_t* size, const int64_t* stride) {
  constexpr int64_t kPack32 = 0x40010, kSparse = 0x21001, kMostElements = INT64_C(1) << 46;
  const int64_t bits = data_type & 0xff;
  if (layout == kPack32 || layout == kSparse || bits == 0 || bits % 8 != 0) return kUnknownExtent;
  int64_t count = 1, last = 0;
  bool packed = true, strided = true;
  for (int64_t a = 0; a < rank; a++) {
    if (size[a] < 1 || size[a] > kMostElements / count || stride[a] < 0 || stride[a] > kMostElements / size[a])
      return kUnknownExtent;
    count *= size[a];
    last += (size[a] - 1) * stride[a];
    packed &= stride[a] == 0;
    strided &= stride[a] != 0;
  }
  if (!packed && !strided) return kUnknownExtent;
  return {(packed ? count : 1 + last) * (bits / 8), bits / 8, packed};
}

}  // namespace

void forget_calls() { generation++; }

KnownCalls::KnownCalls(nb::tuple types, int64_t output, int64_t second, const std::string& function, int64_t batch,
                       Pairs strides, Pairs described)
    : types_(types),
      output_(output),
      second_(second),
      batch_(batch),
      strides_(std::move(strides)),
      described_(std::move(described)) {
  if (const CFunction* known = named(kFunctionsAlone, function.c_str())) words_ = known->words;
}

constexpr size_t kFixed = SIZE_MAX;

// Operations with each place as (memory, bytes from its begin) or (kFixed, address), and how much of each memory they
// may touch.
struct KnownCalls::Entry {
  struct Step {
    Work work;
    std::vector<std::pair<size_t, int64_t>> places;
  };
  uint64_t generation;  // when it was recorded; of no use in any other
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

  // By the number of an argument: whole numbers, addresses, what a descriptor with data says, and the place of its
  // memory among the others.
  struct Given {
    int64_t number;
    Extent extent;
    size_t memory;
  } given[kMostPlaces];
  static constexpr size_t kNoMemory = SIZE_MAX;
  static constexpr int64_t kNoAddress = -1;

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

  bool add_integer(size_t argument, int64_t number) {
    add('i');
    given[argument].number = number;
    return add(number);
  }

  void add_address(size_t argument, int64_t number) {
    add('m');
    given[argument].number = number;
  }

  template <class Reader>
  bool add_descriptor(size_t argument, const typename Reader::Descriptor& d, Reader& reader, bool writes) {
    Memory found;
    given[argument].memory = kNoMemory;
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
    if (trusts_addresses) given[argument].extent = extent_of(layout, data_type, rank, size, stride);
    if (!found.view) {
      if (!trusts_addresses) return false;
      found.bytes = given[argument].extent.bytes;
    }
    given[argument].memory = count;
    return add_memory(found, std::max<int64_t>(1, (data_type & 0xff) / 8));
  }

  // The memory of an address that a descriptor describes.
  bool add_described(const Given& address, const Given& descriptor) {
    if (address.number == kNoAddress) return true;  // an array
    if (descriptor.memory == kNoMemory) return false;
    const Memory found{address_of(address.number), descriptor.extent.bytes};
    return found.begin && add_memory(found, descriptor.extent.element);
  }

  // More than one sample at a plain address: `stride` elements apart, 0 for packed ones.
  bool spread(const Given& descriptor, int64_t batch, int64_t stride) {
    if (descriptor.memory == kNoMemory || batch <= 1 || memory[descriptor.memory].view) return true;
    const Extent& e = descriptor.extent;
    if (stride == 0 && e.packed) stride = e.bytes / e.element;
    int64_t reach;
    if (stride <= 0 || __builtin_mul_overflow(stride, batch, &reach) || reach > kMaxElements) return false;
    memory[descriptor.memory].bytes = (reach - stride) * e.element + e.bytes;
    return true;
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
    int64_t number;
    reading.given[i].number = Reading::kNoAddress;
    if (type == PyTuple_GetItem(types_.ptr(), 0)) {
      good = reading.add_descriptor(i, PythonReader::Descriptor(argument), reader, writes(i));
    } else if (type == PyTuple_GetItem(types_.ptr(), 1)) {
      reading.add('a');
      good = reading.add_array(argument, reader, writes(i));
    } else if (is_list(argument)) {
      good = reading.add_list(argument);
    } else if (to_int64(argument, number)) {
      good = is_described(i) ? (reading.add_address(i, number), true) : reading.add_integer(i, number);
    } else {
      reading.given[i].memory = Reading::kNoMemory;
      good = reading.add_scalar(argument);
    }
    if (!good) return false;
  }
  return finish(reading);
}

// Once all arguments are known: how much memory they stand for, and which of it is the same.
bool KnownCalls::finish(Reading& reading) const {
  for (auto [address, descriptor] : described_)
    if (!reading.add_described(reading.given[address], reading.given[descriptor])) return false;
  if (batch_ >= 0)
    for (auto [tensor, stride] : strides_)
      if (!reading.spread(reading.given[tensor], reading.given[batch_].number, reading.given[stride].number))
        return false;
  return reading.add_sharing();
}

// The same description from the words of a C call.
bool KnownCalls::read_raw(const OpenBNNSWord* words, size_t count, Reading& reading) const {
  RawReader reader(0);
  size_t argument = 0, next = 0;
  for (const char* letter = words_; *letter; letter++, next++) {
    if (next == count) return false;
    const OpenBNNSWord word = words[next];
    bool good = true;
    switch (*letter) {
      case kDescriptor:
        good = word.pointer && reading.add_descriptor(argument, RawReader::Descriptor(word), reader, writes(argument));
        break;
      case kOptional:
        reading.given[argument].memory = Reading::kNoMemory;
        if (word.pointer)
          good = reading.add_descriptor(argument, RawReader::Descriptor(word), reader, writes(argument));
        else
          reading.add('n');
        break;
      case kAddress:
        reading.add_address(argument, static_cast<int64_t>(word.number));
        break;
      case kInteger:
        good = reading.add_integer(argument, static_cast<int64_t>(word.number));
        break;
      case kBool:
        reading.add('b');
        good = reading.add(int64_t{word.number != 0});
        break;
      case kReal:
        reading.add('f');
        reading.add(word.real);
        break;
      case kNull:
        reading.add('n');
        good = !word.pointer;
        break;
      case kBegin:
        if (!word.pointer || !read_members(++letter, word.pointer, argument, reading)) return false;
        continue;
      default:
        continue;
    }
    if (!good || ++argument == kMostPlaces) return false;
  }
  return next == count && finish(reading);
}

// Members of a struct, up to the closing parenthesis.
bool KnownCalls::read_members(const char*& letter, const void* place, size_t& argument, Reading& reading) const {
  RawReader reader(0);
  size_t offset = 0;
  const auto take = [&](size_t bytes, size_t alignment) {
    offset = (offset + alignment - 1) / alignment * alignment;
    const char* member = static_cast<const char*>(place) + offset;
    offset += bytes;
    return member;
  };
  const auto load = [](const char* member, auto value) {
    std::memcpy(&value, member, sizeof(value));
    return value;
  };
  for (; *letter != kEnd; letter++) {
    bool good = true;
    switch (*letter) {
      case kDescriptor: {
        OpenBNNSWord word;
        word.pointer = take(sizeof(CDescriptor), alignof(CDescriptor));
        good = reading.add_descriptor(argument, RawReader::Descriptor(word), reader, writes(argument));
        break;
      }
      case kInt32:
        good = reading.add_integer(argument, load(take(4, 4), uint32_t{}));
        break;
      case kInt64:
        good = reading.add_integer(argument, load(take(8, 8), int64_t{}));
        break;
      case kReal:
        reading.add('f');
        reading.add(double{load(take(4, 4), float{})});
        break;
      default:
        *letter == kSkipped32 ? take(4, 4) : take(8, 8);
        continue;
    }
    if (!good || ++argument == kMostPlaces) return false;
  }
  return true;
}

// Needs the interpreter's lock.
void KnownCalls::clear() {
  entries_.clear([this] { end(); });
}

nb::object KnownCalls::run(nb::args arguments) {
  if (!fast_calls_enabled || entries_.size() == 0) return nb::none();
  if (generation_ != generation) return clear(), nb::none();
  PyObject* flat[kMostPlaces];
  const size_t given = arguments.size();
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return nb::none();
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  PythonReader reader(kMostMemories + 1);
  Reading reading(*words_ != 0);
  if (!read(flat, given, reader, reading)) return nb::none();
  const std::shared_ptr<const Entry> entry = entries_.copy(reading.key.text()).value_or(nullptr);
  if (!entry || entry->generation != generation) return nb::none();
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
    if (is_recording()) {
      done = perform_recorded(entry, reading);
    } else {
      Unlocked unlocked(entry->all_bytes() >= kInterruptibleBytes);
      done = entry->run(reading.memory);
    }
  } catch (const std::bad_alloc&) {  // no room for scratch: the Python path words the failure
    done = false;
  }
  if (!done) return nb::none();
  latest_call_succeeded();
  return result;
}

bool KnownCalls::perform_recorded(const std::shared_ptr<const Entry>& entry, const Reading& reading) {
  Operation operation;
  for (size_t i = 0; i < reading.count; i++) operation.places.push_back(reading.memory[i].begin);
  const size_t count = reading.count;
  operation.work = [entry, count](char* const* place) {
    if (entry->generation != generation) return false;
    Memory memory[kMostMemories + 1];
    for (size_t i = 0; i < count; i++) memory[i].begin = place[i];
    return entry->run(memory);
  };
  operation.enabled = &fast_calls_enabled;
  operation.bytes = entry->all_bytes();
  return perform(std::move(operation));
}

int KnownCalls::run_raw(const OpenBNNSWord* words, size_t count) {
  if (!fast_calls_enabled || is_recording()) return kDeclined;
  Reading reading(true);
  if (!read_raw(words, count, reading)) return kDeclined;
  const auto* found = entries_.find(reading.key.text());  // stays while this call uses the number
  if (!found || (*found)->generation != generation || (*found)->shape.is_valid()) return kDeclined;
  try {
    if (!(*found)->run(reading.memory)) return kDeclined;
  } catch (const std::bad_alloc&) {
    return kDeclined;
  }
  latest_call_succeeded();
  return kDone;
}

void KnownCalls::record() { start_recording(generation); }

void KnownCalls::discard() {
  take_recording();
  spoil_recording();  // a recording that this one is a part of
}

void KnownCalls::keep(nb::tuple arguments, nb::object result, nb::list owner) {
  const Recording done = take_recording();
  if (!fast_calls_enabled || done.useless || done.operations.empty()) return;
  if (done.generation != generation) return;  // what decides about calls has changed meanwhile
  PythonReader reader(kMostMemories + 1 + nb::len(owner));
  Reading reading(*words_ != 0);
  PyObject* flat[kMostPlaces];
  const size_t given = nb::len(arguments);
  if (given > kMostPlaces || given <= static_cast<size_t>(output_)) return;
  for (size_t i = 0; i < given; i++) flat[i] = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i));
  if (!read(flat, given, reader, reading)) return;
  std::string key(reading.key.text());
  auto is_array = [&](nb::handle object) { return object.type().is(types_[1]); };
  auto entry = std::make_shared<Entry>();
  entry->generation = done.generation;
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
  if (generation_ != done.generation || entries_.size() >= kMostEntries) clear();
  generation_ = done.generation;
  entries_.add(std::move(key), std::move(entry));
}

void bind_known_calls(nb::module_& m) {
  nb::class_<KnownCalls, Numbered>(m, "KnownCalls")
      .def(nb::init<nb::tuple, int64_t, int64_t, std::string, int64_t, KnownCalls::Pairs, KnownCalls::Pairs>(),
           "types"_a, "output"_a, "second"_a, "function"_a, "batch"_a, "strides"_a, "described"_a,
           nb::sig("def __init__(self, types: tuple[object, ...], output: int, second: int, function: str, batch: int, "
                   "strides: Sequence[tuple[int, int]], described: Sequence[tuple[int, int]]) -> None"))
      .def("run", &KnownCalls::run, nb::sig("def run(self, *arguments: object) -> object"))
      .def("record", &KnownCalls::record)
      .def("keep", &KnownCalls::keep, "arguments"_a, "result"_a.none(), "owner"_a,
           nb::sig("def keep(self, arguments: tuple[object, ...], result: object | None, owner: list[object]) -> None"))
      .def("discard", &KnownCalls::discard);
  m.def("forget_calls", &forget_calls);
  m.def("spoil_recording", &spoil_recording);
}

}  // namespace openbnns
