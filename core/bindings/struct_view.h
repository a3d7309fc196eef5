// A struct of a call, field by field, from one of two sources: a Python object, or memory in C's layout. Both views
// have the same members, as the readers of reader.h have; c_interface.h has the structs.
#pragma once
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>

#include "bindings/reader.h"

namespace openbnns {

// kind: U, u and s a number of 64 bits, of 32 bits and a signed one of 32 bits, b a truth value, f a float, d a
// descriptor, p an address, ( a struct.
struct CField {
  const char* name;
  char kind;
  size_t offset;
};
struct CStruct {
  const char* name;
  const CField* fields;
  size_t count;
};
struct CFunction {
  const char *name, *words;
};

// The entry of that name in a table; null if there is none.
template <class Entry, size_t kCount>
const Entry* named(const Entry (&table)[kCount], const char* name) {
  for (const Entry& entry : table)
    if (std::strcmp(entry.name, name) == 0) return &entry;
  return nullptr;
}

// The value of a field that is a number; the struct itself is at `place`.
inline double number_at(const char* place, const CField& field) {
  const auto load = [&](auto value) {
    std::memcpy(&value, place + field.offset, sizeof(value));
    return value;
  };
  if (field.kind == 'f') return load(float{});
  return field.kind == 'b' ? load(uint8_t{}) != 0 : load(uint32_t{});
}

template <class Layout>
class PythonStruct {
 public:
  using Reader = PythonReader;
  using Index = typename Layout::Index;
  template <class Other>
  using View = PythonStruct<Other>;
  explicit PythonStruct(nb::handle object) : object_(nb::borrow(object)) {}

  bool integer(Index field, int64_t& value) const {
    return object_.is_valid() && name(field).integer(object_.ptr(), value);
  }
  bool real(Index field, double& value) const { return object_.is_valid() && name(field).real(object_.ptr(), value); }
  template <class Inner>
  PythonStruct<Inner> inner(Index field) const {
    return PythonStruct<Inner>(read(field));
  }
  std::optional<Reader::Descriptor> descriptor(Index field) const { return described(read(field)); }
  // Entry `i` of an array of `count`.
  std::optional<Reader::Descriptor> descriptor(Index field, int i, int count) const {
    const nb::object list = read(field);
    if (!list.is_valid() || !PyList_Check(list.ptr()) || PyList_Size(list.ptr()) != count) return std::nullopt;
    return described(list_item(list.ptr(), i));
  }

 private:
  static Field& name(Index field) {
    static Field** names = [] {
      auto** made = new Field*[std::size(Layout::fields)];
      for (size_t i = 0; i < std::size(Layout::fields); i++) made[i] = new Field(Layout::fields[i].name);
      return made;
    }();
    return *names[field];
  }
  nb::object read(Index field) const { return object_.is_valid() ? name(field).read(object_.ptr()) : nb::object(); }
  static std::optional<Reader::Descriptor> described(const nb::object& object) {
    if (!object.is_valid()) return std::nullopt;
    return Reader::Descriptor(object.ptr());
  }

  nb::object object_;
};

template <class Layout>
class RawStruct {
 public:
  using Reader = RawReader;
  using Index = typename Layout::Index;
  template <class Other>
  using View = RawStruct<Other>;
  explicit RawStruct(const void* place) : place_(static_cast<const char*>(place)) {}

  bool integer(Index field, int64_t& value) const {
    if (Layout::fields[field].kind != 'U')
      return value = static_cast<int64_t>(number_at(place_, Layout::fields[field])), true;
    return std::memcpy(&value, at(field), sizeof(value)), true;
  }
  bool real(Index field, double& value) const { return value = number_at(place_, Layout::fields[field]), true; }
  template <class Inner>
  RawStruct<Inner> inner(Index field) const {
    return RawStruct<Inner>(at(field));
  }
  std::optional<Reader::Descriptor> descriptor(Index field, int i = 0, int = 1) const {
    OpenBNNSWord word;
    word.pointer = at(field) + static_cast<size_t>(i) * sizeof(CDescriptor);
    return Reader::Descriptor(word);
  }

 private:
  const char* at(Index field) const { return place_ + Layout::fields[field].offset; }

  const char* place_;
};

}  // namespace openbnns
