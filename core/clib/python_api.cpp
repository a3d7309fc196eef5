#include "clib/python_api.h"

#include <dlfcn.h>

namespace openbnns {
namespace clib {

PythonApi py;

const char* look_up(void* library) {
#define OPENBNNS_FIND(type, name, arguments) \
  if (!(py.name = reinterpret_cast<type(*) arguments>(dlsym(library, #name)))) return #name;
  OPENBNNS_PYTHON_FUNCTIONS(OPENBNNS_FIND)
#undef OPENBNNS_FIND
  if (!(py.none = static_cast<PyObject*>(dlsym(library, "_Py_NoneStruct")))) return "_Py_NoneStruct";
  if (!(py.keyboard_interrupt = static_cast<PyObject**>(dlsym(library, "PyExc_KeyboardInterrupt"))))
    return "PyExc_KeyboardInterrupt";
  void* finalizing = dlsym(library, "Py_IsFinalizing");  // Python 3.13; private before
  if (!finalizing) finalizing = dlsym(library, "_Py_IsFinalizing");
  py.is_finalizing = reinterpret_cast<int (*)(void)>(finalizing);
  return nullptr;
}

}  // namespace clib
}  // namespace openbnns
