#include "bindings/choosing.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

using namespace nanobind::literals;

namespace openbnns {
namespace {

constexpr int kDescriptors = 3;  // of BNNSMHAProjectionParameters

}  // namespace

Chosen::Chosen(nb::object call) : owner_(std::move(call)) {
  if (owner_.is_none()) return;
  call_ = nb::cast<NativeCall*>(owner_);
  number_ = call_->number();
}

int Chosen::run(PyObject* const* arguments, size_t count) const {
  return call_ ? call_->run(arguments, count) : kDeclined;
}

int Chosen::run(const OpenBNNSWord* words, size_t count) const { return run_numbered(number_, words, count); }

Variants::Variants(std::vector<size_t> places, const Choices& choices) : places_(std::move(places)) {
  for (const auto& [values, call] : choices) choices_.push_back({values, Chosen(call)});
}

template <class Reader>
int Variants::choose(const typename Reader::Source* arguments, size_t count) const {
  typename Reader::Source others[kMostArguments];
  if (count > kMostArguments || count <= places_.back()) return kDeclined;
  const auto is = [&](size_t place, int64_t value) {
    int64_t given;
    return Reader::choice(arguments[place], given) && given == value;
  };
  for (const auto& [values, call] : choices_) {
    if (!std::equal(places_.begin(), places_.end(), values.begin(), is)) continue;
    size_t kept = 0, next = 0;
    for (size_t i = 0; i < count; i++) {
      if (next < places_.size() && i == places_[next])
        next++;
      else
        others[kept++] = arguments[i];
    }
    return call.run(others, kept);
  }
  return kDeclined;
}

bool Selected::pointed_to(PyObject* pointer, int64_t& size) const {
  static Field* value = new Field("value");
  return reinterpret_cast<PyObject*>(Py_TYPE(pointer)) == cache_.pointer.ptr() && value->integer(pointer, size);
}

bool Selected::pointed_to(OpenBNNSWord pointer, int64_t& size) {
  std::memcpy(&size, pointer.pointer, sizeof size);
  return true;
}

// Null if the arguments ask for anything else.
template <class Reader>
const Selected::Choice* Selected::choose(const typename Reader::Source* arguments) const {
  for (size_t place : absent_)
    if (!Reader::is_null(arguments[place])) return nullptr;
  const bool cached = !Reader::is_null(arguments[cache_.place]);
  const auto size = arguments[cache_.size_place];
  if (!cache_.pointer.is_none() && cached == Reader::is_null(size)) return nullptr;
  if (!cached) return &without_;
  int64_t bytes, batch;
  if (!(cache_.pointer.is_none() ? Reader::integer(size, bytes) : pointed_to(size, bytes))) return nullptr;
  if (!Reader::integer(arguments[0], batch) || bytes / cache_.bytes_per_sample < batch) return nullptr;
  return &with_;
}

int Selected::run(PyObject* const* arguments, size_t count) {
  static auto* fields = new Field[kDescriptors]{Field("target_desc"), Field("weights"), Field("bias")};
  PyObject *given[kMostArguments], *others[kMostArguments];
  if (count > count_) return kDeclined;
  std::copy(arguments, arguments + count, given);
  std::fill(given + count, given + count_, Py_None);  // what is left out is NULL
  const Choice* choice = choose<PythonReader>(given);
  if (!choice) return kDeclined;
  nb::object members[kMostArguments];
  size_t kept = 0;
  for (auto [place, number] : choice->picks) {
    others[kept] = given[place];
    if (number >= 0 && others[kept] != Py_None) {
      members[kept] = fields[number].read(others[kept]);
      if (!members[kept].is_valid()) return kDeclined;
      others[kept] = members[kept].ptr();
    }
    kept++;
  }
  return choice->call.run(others, kept);
}

int Selected::run_raw(const OpenBNNSWord* words, size_t count) {
  if (count != count_) return kDeclined;
  const Choice* choice = choose<RawReader>(words);
  if (!choice) return kDeclined;
  OpenBNNSWord others[kMostArguments];
  size_t kept = 0;
  for (auto [place, number] : choice->picks) {
    others[kept] = words[place];
    if (number >= 0 && others[kept].pointer)
      others[kept].pointer = static_cast<const CDescriptor*>(others[kept].pointer) + number;
    kept++;
  }
  return choice->call.run(others, kept);
}

namespace {

using Given = std::pair<std::vector<Selected::Pick>, nb::object>;

Selected::Choice make_choice(const Given& given, size_t count) {
  if (given.first.size() > kMostArguments) throw nb::value_error("Selected: too many arguments");
  for (auto [place, number] : given.first)
    if (place >= count || number < -1 || number >= kDescriptors)
      throw nb::index_error("Selected: there is no such argument");
  return {given.first, Chosen(given.second)};
}

}  // namespace

void bind_choosing(nb::module_& m) {
  nb::class_<Variants, NativeCall>(m, "Variants")
      .def(nb::init<std::vector<size_t>, const Variants::Choices&>(), "places"_a, "choices"_a,
           nb::sig(
               "def __init__(self, places: Sequence[int], choices: Sequence[tuple[Sequence[int], object]]) -> None"));
  nb::class_<Selected, NativeCall>(m, "Selected")
      .def(
          "__init__",
          [](Selected* self, size_t count, std::vector<size_t> absent, size_t cache, size_t size, nb::object pointer,
             int64_t bytes, const Given& without, const Given& with) {
            for (size_t place : absent)
              if (place >= count) throw nb::index_error("Selected: there is no such argument");
            if (cache >= count || size >= count || count > kMostArguments || bytes < 1)
              throw nb::value_error("Selected: there are no such arguments");
            new (self) Selected(count, std::move(absent), {cache, size, std::move(pointer), bytes},
                                make_choice(without, count), make_choice(with, count));
          },
          "count"_a, "absent"_a, "cache"_a, "size"_a, "pointer"_a.none(), "bytes_per_sample"_a, "without"_a, "with_"_a,
          nb::sig(
              "def __init__(self, count: int, absent: Sequence[int], cache: int, size: int, pointer: object | None, "
              "bytes_per_sample: int, without: tuple[Sequence[tuple[int, int]], object | None], "
              "with_: tuple[Sequence[tuple[int, int]], object | None]) -> None"));
}

}  // namespace openbnns
