// The interpreter behind the library: found or started by the first call, never ended.
#pragma once
#include "bindings/raw.h"
#include "clib/python_api.h"

namespace openbnns {
namespace clib {

// What openbnns.clib.library offers.
struct Library {
  PyObject* functions;  // a list in the order of the table of functions
  PyObject *refuse, *fail, *tombstone, *number, *last_error, *set_compat;
  const OpenBNNSRawCalls* raw;
};
extern Library library;

// Starts the interpreter if necessary; false if that failed: start_error says why, in one line that has been printed
// once.
bool started();
bool has_started();  // without trying
const char* start_error();

// Holds the interpreter's lock. A thread that Python did not create keeps its Python state, and with it what is local
// to the thread (the last error), from call to call until it ends.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  // False if the interpreter of the host has ended: nothing may be called.
  explicit operator bool() const { return held_; }

 private:
  bool held_;
  int state_ = 0;
};

// Owns a reference.
class Reference {
 public:
  explicit Reference(PyObject* object = nullptr) : object_(object) {}
  ~Reference() {
    if (object_) py.Py_DecRef(object_);
  }
  Reference(const Reference&) = delete;
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Text of the last error of this thread, kept until the next query or the end of the thread.
const char* keep_text(PyObject* bytes);

}  // namespace clib
}  // namespace openbnns
