#include "bindings/struct_reader.h"

#include <nanobind/stl/string_view.h>
#include <structmember.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace openbnns {
namespace {

constexpr size_t kMostKnown = 64;  // values of an enum field that are remembered; beyond that somebody makes them up

// Where an object of a class with __slots__ keeps the value behind a slot descriptor.
Py_ssize_t slot_offset(nb::handle descriptor) {
  if (Py_TYPE(descriptor.ptr()) != &PyMemberDescr_Type) throw nb::type_error("StructReader: not a slot");
  return reinterpret_cast<PyMemberDescrObject*>(descriptor.ptr())->d_member->offset;
}

PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

size_t bytes_of(char code) {
  switch (code) {
    case '?':
    case 'B':
      return 1;
    case 'f':
    case 'i':
    case 'I':
    case 'e':
      return 4;
    case 'q':
    case 'Q':
    case 'P':
    case 'C':
      return 8;
    default:
      throw nb::value_error("StructReader: unknown code");
  }
}

PyObject* checked(PyObject* object) {
  if (!object) throw nb::python_error();
  return object;
}

}  // namespace

StructReader::StructReader(nb::type_object type, nb::type_object array, size_t bytes, nb::list fields)
    : type_(type), array_(array), converter_slot_(slot_offset(array.attr("_element"))), bytes_(bytes) {
  for (nb::handle each : fields) {
    auto row = nb::cast<nb::tuple>(each);
    Field field;
    field.slot = slot_offset(row[0]);
    field.code = nb::cast<std::string_view>(row[1]).at(0);
    field.offset = nb::cast<size_t>(row[2]);
    auto lengths = nb::cast<nb::tuple>(row[3]);
    auto extra = nb::cast<nb::tuple>(row[4]);
    for (size_t i = 0; i < lengths.size(); i++)
      field.dimensions.emplace_back(nb::cast<size_t>(lengths[i]), nb::borrow(extra[i]));
    if (extra.size() > lengths.size()) field.extra = nb::borrow(extra[lengths.size()]);
    if (field.code == 'S') {
      field.nested = nb::cast<const StructReader*>(field.extra);
      field.bytes = field.nested->bytes_;
    } else {
      field.bytes = bytes_of(field.code);
    }
    size_t end = field.bytes;
    for (const auto& dimension : field.dimensions) end *= dimension.first;
    if (field.offset + end > bytes_) throw nb::value_error("StructReader: a field lies outside its struct");
    fields_.push_back(std::move(field));
  }
}

nb::object StructReader::read(nb::handle address) const {
  if (address.is_none()) return nb::none();
  const char* bytes = reinterpret_cast<const char*>(nb::cast<uintptr_t>(address));
  return nb::steal(build(bytes));
}

PyObject* StructReader::build(const char* bytes) const {
  auto type = reinterpret_cast<PyTypeObject*>(type_.ptr());
  nb::object made = nb::steal(checked(type->tp_alloc(type, 0)));
  for (const Field& field : fields_) {
    const char* place = bytes + field.offset;
    slot(made.ptr(), field.slot) = field.dimensions.empty() ? value(field, place) : entries(field, place, 0);
  }
  return made.release().ptr();
}

// Nothing if the number has not been seen before.
nb::object StructReader::known_value(const Field& field, uint32_t number) const {
  const nb::ft_lock_guard locked(remembering_);
  for (const auto& [known, object] : field.known)
    if (known == number) return object;
  return {};
}

PyObject* StructReader::value(const Field& field, const char* bytes) const {
  switch (field.code) {
    case '?':
      return checked(PyBool_FromLong(load<uint8_t>(bytes) != 0));
    case 'B':
      return checked(PyLong_FromLong(load<uint8_t>(bytes)));
    case 'f':
      return checked(PyFloat_FromDouble(load<float>(bytes)));
    case 'i':
      return checked(PyLong_FromLong(load<int32_t>(bytes)));
    case 'I':
      return checked(PyLong_FromUnsignedLong(load<uint32_t>(bytes)));
    case 'q':
      return checked(PyLong_FromLongLong(load<int64_t>(bytes)));
    case 'Q':
      return checked(PyLong_FromUnsignedLongLong(load<uint64_t>(bytes)));
    case 'S':
      return field.nested->build(bytes);
    case 'e': {
      const auto number = load<uint32_t>(bytes);
      nb::object object = known_value(field, number);
      if (object.is_valid()) return object.release().ptr();
      object = field.extra(number);
      const nb::ft_lock_guard locked(remembering_);
      if (field.known.size() < kMostKnown) field.known.emplace_back(number, object);
      return object.release().ptr();
    }
    default: {
      const auto address = load<uint64_t>(bytes);
      if (address == 0) return nb::none().release().ptr();
      return field.code == 'P' ? checked(PyLong_FromUnsignedLongLong(address)) : field.extra(address).release().ptr();
    }
  }
}

PyObject* StructReader::entries(const Field& field, const char* bytes, size_t dimension) const {
  const auto& [length, converter] = field.dimensions[dimension];
  const bool innermost = dimension + 1 == field.dimensions.size();
  size_t step = field.bytes;
  for (size_t i = dimension + 1; i < field.dimensions.size(); i++) step *= field.dimensions[i].first;
  nb::object plain = nb::steal(checked(PyList_New(static_cast<Py_ssize_t>(length))));
  for (size_t i = 0; i < length; i++) {
    const char* place = bytes + i * step;
    PyList_SET_ITEM(plain.ptr(), static_cast<Py_ssize_t>(i),
                    innermost ? value(field, place) : entries(field, place, dimension + 1));
  }
  auto type = reinterpret_cast<PyTypeObject*>(array_.ptr());
  nb::object made = nb::steal(checked(type->tp_alloc(type, 0)));
  if (PyList_SetSlice(made.ptr(), 0, 0, plain.ptr()) != 0) throw nb::python_error();
  slot(made.ptr(), converter_slot_) = nb::object(converter).release().ptr();
  return made.release().ptr();
}

void bind_struct_reader(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<StructReader>(m, "StructReader")
      .def(nb::init<nb::type_object, nb::type_object, size_t, nb::list>(), "type"_a, "array"_a, "bytes"_a, "fields"_a,
           nb::sig("def __init__(self, type: type, array: type, bytes: int, fields: list[object]) -> None"))
      .def("__call__", &StructReader::read, "address"_a.none());
}

}  // namespace openbnns
