// Converts C structs in memory to the struct objects of openbnns.capi, for callers of the C library: a creation call
// reads hundreds of fields, which would take Python longer than the creation itself.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>
#include <vector>

namespace openbnns {

namespace nb = nanobind;

// Reads one kind of struct.
class StructReader {
 public:
  // array: the type of array fields, a list with a slot for the converter of its entries.
  // fields: (slot descriptor, code, offset, lengths, extra), where code is the letter of a number as in Python's struct
  // module, or
  //   e  a 32-bit number that extra, a pure function, turns into what the field holds; results are remembered
  //   P  an address: None or an int
  //   C  an address, which extra turns into what the field holds; None stays None
  //   S  a struct that extra, a StructReader, reads
  // and lengths is () or those of an array; the converters of its entries are then in front of extra, outer first.
  StructReader(nb::type_object type, nb::type_object array, size_t bytes, nb::list fields);
  StructReader(const StructReader&) = delete;

  // The struct at an address; None for None.
  nb::object read(nb::handle address) const;

 private:
  struct Field {
    Py_ssize_t slot;
    char code;
    size_t offset, bytes;  // of one value
    std::vector<std::pair<size_t, nb::object>> dimensions;
    nb::object extra;
    const StructReader* nested = nullptr;
    mutable std::vector<std::pair<uint32_t, nb::object>> known;
  };
  nb::object known_value(const Field& field, uint32_t number) const;
  PyObject* build(const char* bytes) const;
  PyObject* value(const Field& field, const char* bytes) const;
  PyObject* entries(const Field& field, const char* bytes, size_t dimension) const;

  nb::type_object type_, array_;
  Py_ssize_t converter_slot_;
  size_t bytes_;
  std::vector<Field> fields_;
  mutable nb::ft_mutex remembering_;  // known values, where Python has no lock
};

void bind_struct_reader(nb::module_& m);

}  // namespace openbnns
