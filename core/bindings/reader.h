// The arguments of a caller, read from one of two sources: Python objects, or the words and structs of a C call.
//
// Both readers have the same members, and code that takes arguments is a template over them: it places and checks
// memory without knowing its source, and nothing is decided at run time. A reader never reports an error. Anything that
// is not simple is declined, and the Python path words the message.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bindings/raw.h"

// Where Python lets us, the place of a field in an object is looked up once. Not where it has no global lock: what is
// there could be destroyed by another thread at any time.
#if !defined(Py_LIMITED_API) && !defined(Py_GIL_DISABLED)
#define OPENBNNS_READS_SLOTS
#endif

namespace openbnns {

namespace nb = nanobind;

constexpr int kDone = 0, kDeclined = 1;
constexpr int64_t kUnbounded = INT64_MAX;
constexpr int kMaxRank = 8;
constexpr size_t kMostItems = 32;                   // of the lists of a call
constexpr int64_t kMaxElements = INT64_C(1) << 46;  // no machine has more: tensors/descriptors.py
constexpr int64_t kFloat32 = 0x10020;               // BNNSDataTypeFloat32

// Memory of an argument. For a plain address, its size is unknown.
struct Memory {
  char* begin = nullptr;
  int64_t bytes = kUnbounded;
  const Py_buffer* view = nullptr;  // null for an address
};

// A range of memory that a call touches: first byte and one past the last.
struct Stretch {
  const char *begin, *end;
  bool written;
};

// Whether memory that is written is used for anything else; sorts the ranges.
inline bool overlap(Stretch* first, Stretch* last) {
  std::sort(first, last, [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  const char *end = nullptr, *written_end = nullptr;
  for (const Stretch* s = first; s != last; s++) {
    if (s->begin < (s->written ? end : written_end)) return true;
    end = std::max(end, s->end);
    if (s->written) written_end = std::max(written_end, s->end);
  }
  return false;
}

// What the elements of memory may be, apart from plain bytes, which may be anything: Python's format characters, and
// the bytes of each.
struct Items {
  const char* formats;
  int64_t bytes;
};
constexpr Items kFloats{"f", 4}, kAnything{nullptr, 0};

enum class Data { kAbsent, kSimple, kOther };

// NULL, the first page of memory and the upper half of all numbers cannot be addresses.
inline char* address_of(int64_t number) {
  return number >= 4096 ? reinterpret_cast<char*>(static_cast<intptr_t>(number)) : nullptr;
}

// For elements of 1, 2, 4 or 8 bytes.
inline bool is_aligned(const void* address, int64_t bytes) {
  return (reinterpret_cast<uintptr_t>(address) & static_cast<uintptr_t>(bytes - 1)) == 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Python

inline bool to_int64(PyObject* object, int64_t& value) {
  if (!PyLong_Check(object) || PyBool_Check(object)) return false;
  value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) return PyErr_Clear(), false;
  return true;
}

inline bool to_double(PyObject* object, double& value) {
  value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
  return true;
}

// A list or a tuple; the __len__ of a derived class is ignored.
inline bool is_list(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }
inline Py_ssize_t list_size(PyObject* list) { return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list); }
#if defined(Py_GIL_DISABLED)
using ListEntry = nb::object;  // which another thread may take out of the list
inline ListEntry list_entry(PyObject* list, Py_ssize_t i) { return nb::steal(PyList_GetItemRef(list, i)); }
#else
using ListEntry = nb::handle;
inline ListEntry list_entry(PyObject* list, Py_ssize_t i) { return PyList_GetItem(list, i); }
#endif
// Nothing if the list has become shorter, as reading a field may make it.
inline nb::object list_item(PyObject* list, Py_ssize_t i) {
  nb::object item = PyList_Check(list) ? nb::borrow(list_entry(list, i)) : nb::borrow(PyTuple_GetItem(list, i));
  if (!item.is_valid()) PyErr_Clear();
  return item;
}

// A field of a struct. Fields are slots.
class Field {
 public:
  explicit Field(const char* name) : name_(PyUnicode_InternFromString(name)) {}

  // Nothing if there is no such field.
  nb::object read(PyObject* object) {
#if defined(OPENBNNS_READS_SLOTS)
    const Py_ssize_t offset = offset_in(Py_TYPE(object));
    if (offset > 0) return nb::borrow(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset));
#endif
    PyObject* value = PyObject_GetAttr(object, name_);
    if (!value) PyErr_Clear();
    return nb::steal(value);
  }
  bool integer(PyObject* object, int64_t& value) {
    const nb::object field = read(object);
    return field.is_valid() && to_int64(field.ptr(), value);
  }
  bool real(PyObject* object, double& value) {
    const nb::object field = read(object);
    return field.is_valid() && to_double(field.ptr(), value);
  }
  // The first `count` entries of a list.
  bool integers(PyObject* object, int count, int64_t* values) {
    const nb::object field = read(object);
    if (!field.is_valid() || !PyList_Check(field.ptr()) || PyList_Size(field.ptr()) < count) return false;
    for (int i = 0; i < count; i++) {
      const ListEntry entry = list_entry(field.ptr(), i);
      if (!entry.is_valid()) return PyErr_Clear(), false;
      if (!to_int64(entry.ptr(), values[i])) return false;
    }
    return true;
  }

 private:
  PyObject* name_;
#if defined(OPENBNNS_READS_SLOTS)
  // Two kinds of descriptors take turns in calls of layers.
  struct Known {
    PyTypeObject* type = nullptr;  // held, so that no other type can get this address
    Py_ssize_t offset = 0;         // 0 if the field is not a slot
  } known_[2];

  Py_ssize_t offset_in(PyTypeObject* type) {
    if (type == known_[0].type) return known_[0].offset;
    if (type == known_[1].type) return known_[1].offset;
    return find(type);
  }
  Py_ssize_t find(PyTypeObject* type);
#endif
};

// The fields of a descriptor; those of other structs are in the files that read them.
struct DescriptorFields {
  Field flags{"flags"}, layout{"layout"}, size{"size"}, stride{"stride"}, data{"data"}, data_type{"data_type"};
  Field table_data{"table_data"}, data_scale{"data_scale"}, data_bias{"data_bias"};
};
DescriptorFields& descriptor_fields();

// Buffers held for the duration of a call.
class Held {
 public:
  explicit Held(size_t most) : views_(most <= kInline ? inline_ : new Py_buffer[most]) {}
  ~Held() {
    for (size_t i = 0; i < count_; i++) PyBuffer_Release(&views_[i]);
    if (views_ != inline_) delete[] views_;
  }
  Held(const Held&) = delete;

  // The buffer of an object, C-contiguous; null if it has none. Its address stays: `shape` may point into it.
  const Py_buffer* take(PyObject* object, bool writes) {
    if (!PyObject_CheckBuffer(object)) return nullptr;
    Py_buffer* view = &views_[count_];
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writes ? PyBUF_WRITABLE : 0)) != 0)
      return PyErr_Clear(), nullptr;
    count_++;
    return view;
  }

 private:
  static constexpr size_t kInline = 32;
  Py_buffer inline_[kInline];
  Py_buffer* views_;
  size_t count_ = 0;
};

class PythonReader {
 public:
  using Source = PyObject*;

  // most: buffers that the call may hold.
  explicit PythonReader(size_t most) : held_(most) {}
  ~PythonReader() {
    while (items_ > 0) Py_DECREF(item_[--items_]);
  }
  PythonReader(const PythonReader&) = delete;

  static PyObject* null() { return Py_None; }
  static PyObject* zero() {
    static PyObject* number = PyLong_FromLong(0);
    return number;
  }
  static bool is_list(PyObject* source, int size) { return openbnns::is_list(source) && list_size(source) == size; }
  // Entry of a list that is_list, up to kMostItems of them; it lives as long as the reader: a descriptor's fields may
  // be properties, and those may change the list. One that another thread has taken out is an object of no use.
  PyObject* item(PyObject* list, int i) {
    nb::object found = list_item(list, i);
    if (!found.is_valid()) found = nb::borrow(Py_Ellipsis);
    return item_[items_++] = found.release().ptr();
  }

  static bool is_null(PyObject* source) { return source == Py_None; }
  static bool integer(PyObject* source, int64_t& value) { return to_int64(source, value); }
  // A number that chooses something, or a truth value.
  static bool choice(PyObject* source, int64_t& value) {
    if (PyBool_Check(source)) return value = source == Py_True, true;
    return to_int64(source, value);
  }

  class Descriptor {
   public:
    explicit Descriptor(PyObject* source) : object_(nb::borrow(source)) {}
    bool flags(int64_t& value) const { return descriptor_fields().flags.integer(object_.ptr(), value); }
    bool layout(int64_t& value) const { return descriptor_fields().layout.integer(object_.ptr(), value); }
    bool data_type(int64_t& value) const { return descriptor_fields().data_type.integer(object_.ptr(), value); }
    bool size(int count, int64_t* v) const { return descriptor_fields().size.integers(object_.ptr(), count, v); }
    bool stride(int count, int64_t* v) const { return descriptor_fields().stride.integers(object_.ptr(), count, v); }
    bool scale(double& value) const { return descriptor_fields().data_scale.real(object_.ptr(), value); }
    bool bias(double& value) const { return descriptor_fields().data_bias.real(object_.ptr(), value); }
    bool has_table() const {
      const nb::object table = descriptor_fields().table_data.read(object_.ptr());
      return !table.is_valid() || !table.is_none();
    }

   private:
    friend class PythonReader;
    nb::object object_;
  };

  // The memory of a buffer or a plain address, if it is simple.
  bool memory(PyObject* source, Items items, bool writes, Memory& memory) {
    if (PyLong_Check(source)) {
      int64_t number;
      memory = {};
      return to_int64(source, number) && (memory.begin = address_of(number));
    }
    const Py_buffer* view = held_.take(source, writes);
    if (!view || !has_items(*view, items)) return false;
    memory = {static_cast<char*>(view->buf), view->len, view};
    return true;
  }

  // The data of a descriptor.
  Data data(const Descriptor& descriptor, Items items, bool writes, Memory& memory) {
    const nb::object found = descriptor_fields().data.read(descriptor.object_.ptr());
    if (!found.is_valid()) return Data::kOther;
    if (found.is_none()) return Data::kAbsent;
    return this->memory(found.ptr(), items, writes, memory) ? Data::kSimple : Data::kOther;
  }

 private:
  static bool has_items(const Py_buffer& view, Items items) {
    if (items.formats == kFloats.formats && view.format && view.format[0] == 'f' && view.format[1] == '\0') return true;
    return has_other_items(view, items);
  }
  static bool has_other_items(const Py_buffer& view, Items items);
  Held held_;
  PyObject* item_[kMostItems];
  size_t items_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// C

struct CDescriptor {  // BNNSNDArrayDescriptor
  uint32_t flags, layout;
  uint64_t size[kMaxRank], stride[kMaxRank];
  const void* data;
  uint32_t data_type;
  const void* table_data;
  uint32_t table_data_type;
  float data_scale, data_bias;
};
static_assert(sizeof(CDescriptor) == 176);

struct CFilterParameters {  // BNNSFilterParameters
  uint32_t flags;
  uint64_t threads;
  const void *alloc_memory, *free_memory;
};
static_assert(sizeof(CFilterParameters) == 32);

// The threads that filter_params ask for, 0 if that is left open; false for parameters with allocators.
inline bool read_threads(OpenBNNSWord filter_params, int& threads) {
  const auto* p = static_cast<const CFilterParameters*>(filter_params.pointer);
  threads = p ? static_cast<int>(p->threads < 256 ? p->threads : 256) : 0;
  return !p || (!p->alloc_memory && !p->free_memory);
}

class RawReader {
 public:
  using Source = OpenBNNSWord;

  explicit RawReader(size_t) {}

  static OpenBNNSWord null() { return {nullptr}; }
  static OpenBNNSWord zero() { return {nullptr}; }
  static bool is_list(OpenBNNSWord source, int) { return source.pointer != nullptr; }
  static OpenBNNSWord item(OpenBNNSWord list, int i) { return static_cast<const OpenBNNSWord*>(list.pointer)[i]; }

  static bool is_null(OpenBNNSWord source) { return source.pointer == nullptr; }
  static bool integer(OpenBNNSWord source, int64_t& value) {
    value = static_cast<int64_t>(source.number);
    return true;
  }
  static bool choice(OpenBNNSWord source, int64_t& value) { return integer(source, value); }

  class Descriptor {
   public:
    explicit Descriptor(OpenBNNSWord source) : d_(static_cast<const CDescriptor*>(source.pointer)) {}
    bool flags(int64_t& value) const { return value = d_->flags, true; }
    bool layout(int64_t& value) const { return value = d_->layout, true; }
    bool data_type(int64_t& value) const { return value = d_->data_type, true; }
    bool size(int count, int64_t* values) const { return copy(d_->size, count, values); }
    bool stride(int count, int64_t* values) const { return copy(d_->stride, count, values); }
    bool scale(double& value) const { return value = d_->data_scale, true; }
    bool bias(double& value) const { return value = d_->data_bias, true; }
    bool has_table() const { return d_->table_data != nullptr; }

   private:
    friend class RawReader;
    static bool copy(const uint64_t* from, int count, int64_t* values) {
      if (count > kMaxRank) return false;
      for (int i = 0; i < count; i++) values[i] = static_cast<int64_t>(from[i]);
      return true;
    }
    const CDescriptor* d_;
  };

  static bool memory(OpenBNNSWord source, Items, bool, Memory& memory) {
    memory = {};
    return (memory.begin = address_of(static_cast<int64_t>(source.number)));
  }

  static Data data(const Descriptor& descriptor, Items items, bool writes, Memory& found) {
    OpenBNNSWord word;
    word.pointer = descriptor.d_->data;
    if (!word.pointer) return Data::kAbsent;
    return memory(word, items, writes, found) ? Data::kSimple : Data::kOther;
  }
};

}  // namespace openbnns
