#include "bindings/reader.h"

#if defined(OPENBNNS_READS_SLOTS)
#include <structmember.h>  // PyMemberDef
#endif

#include <utility>

namespace openbnns {

#if defined(OPENBNNS_READS_SLOTS)
Py_ssize_t Field::find(PyTypeObject* type) {
  Py_ssize_t offset = 0;
  const nb::object member = nb::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name_));
  if (!member.is_valid())
    PyErr_Clear();
  else if (Py_TYPE(member.ptr()) == &PyMemberDescr_Type) {
    const PyMemberDef* slot = reinterpret_cast<PyMemberDescrObject*>(member.ptr())->d_member;
    if (slot->type == T_OBJECT_EX) offset = slot->offset;
  }
  PyTypeObject* replaced = std::exchange(known_[1], known_[0]).type;
  known_[0] = {type, offset};
  Py_INCREF(type);
  Py_XDECREF(replaced);
  return offset;
}
#endif

DescriptorFields& descriptor_fields() {
  static DescriptorFields* fields = new DescriptorFields;
  return *fields;
}

bool PythonReader::has_other_items(const Py_buffer& view, Items items) {
  if (!items.formats) return true;
  const char* f = view.format ? view.format : "B";
  if (*f == '<' || *f == '=' || *f == '@') f++;
  if (f[0] == '\0' || f[1] != '\0') return false;
  if (*f == 'B' || *f == 'c') return true;
  if (*f == '?' && view.ndim == 0) return false;  // a single truth value
  return std::strchr(items.formats, *f) && view.itemsize == items.bytes;
}

}  // namespace openbnns
