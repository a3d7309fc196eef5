// The Python functions that the library uses. None is linked: they are looked up at run time, in the process if it has
// an interpreter, otherwise in the libpython of the environment in which OpenBNNS is installed.
#pragma once
#include <cstddef>

typedef struct _object PyObject;

namespace openbnns {
namespace clib {

#define OPENBNNS_PYTHON_FUNCTIONS(X)                                                      \
  X(int, Py_IsInitialized, (void))                                                        \
  X(const char*, Py_GetVersion, (void))                                                   \
  X(int, PyGILState_Ensure, (void))                                                       \
  X(void, PyGILState_Release, (int))                                                      \
  X(int, PyGILState_Check, (void))                                                        \
  X(void*, PyGILState_GetThisThreadState, (void))                                         \
  X(void*, PyEval_SaveThread, (void))                                                     \
  X(void, PyEval_RestoreThread, (void*))                                                  \
  X(void, PyThreadState_Clear, (void*))                                                   \
  X(void, PyThreadState_DeleteCurrent, (void))                                            \
  X(void, PyOS_BeforeFork, (void))                                                        \
  X(void, PyOS_AfterFork_Parent, (void))                                                  \
  X(void, PyOS_AfterFork_Child, (void))                                                   \
  X(PyObject*, PyImport_ImportModule, (const char*))                                      \
  X(void*, PyCapsule_Import, (const char*, int))                                          \
  X(PyObject*, PySys_GetObject, (const char*))                                            \
  X(int, PyList_Append, (PyObject*, PyObject*))                                           \
  X(PyObject*, PySequence_GetItem, (PyObject*, ptrdiff_t))                                \
  X(PyObject*, PyObject_GetAttrString, (PyObject*, const char*))                          \
  X(PyObject*, PyObject_VectorcallDict, (PyObject*, PyObject* const*, size_t, PyObject*)) \
  X(PyObject*, PyObject_CallObject, (PyObject*, PyObject*))                               \
  X(PyObject*, PyObject_Str, (PyObject*))                                                 \
  X(PyObject*, PyLong_FromUnsignedLongLong, (unsigned long long))                         \
  X(PyObject*, PyLong_FromLongLong, (long long))                                          \
  X(long long, PyLong_AsLongLong, (PyObject*))                                            \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (PyObject*))                           \
  X(PyObject*, PyFloat_FromDouble, (double))                                              \
  X(PyObject*, PyBool_FromLong, (long))                                                   \
  X(PyObject*, PyUnicode_DecodeUTF8, (const char*, ptrdiff_t, const char*))               \
  X(PyObject*, PyUnicode_DecodeFSDefault, (const char*))                                  \
  X(PyObject*, PyUnicode_AsEncodedString, (PyObject*, const char*, const char*))          \
  X(char*, PyBytes_AsString, (PyObject*))                                                 \
  X(PyObject*, Py_BuildValue, (const char*, ...))                                         \
  X(void, PyErr_Fetch, (PyObject**, PyObject**, PyObject**))                              \
  X(void, PyErr_NormalizeException, (PyObject**, PyObject**, PyObject**))                 \
  X(int, PyErr_GivenExceptionMatches, (PyObject*, PyObject*))                             \
  X(void, PyErr_SetInterrupt, (void))                                                     \
  X(PyObject*, PyErr_Occurred, (void))                                                    \
  X(void, PyErr_Clear, (void))                                                            \
  X(void, Py_IncRef, (PyObject*))                                                         \
  X(void, Py_DecRef, (PyObject*))

struct PythonApi {
#define OPENBNNS_MEMBER(type, name, arguments) type(*name) arguments;
  OPENBNNS_PYTHON_FUNCTIONS(OPENBNNS_MEMBER)
#undef OPENBNNS_MEMBER
  PyObject* none;
  PyObject** keyboard_interrupt;
  int (*is_finalizing)(void);  // or null in a Python that has none
};
extern PythonApi py;

// Fills `py` from a library, as dlsym takes it; null if everything was found, else the name of what is missing.
const char* look_up(void* library);

}  // namespace clib
}  // namespace openbnns
