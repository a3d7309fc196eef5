#include "clib/call.h"

#include <atomic>
#include <cstring>

#include "clib/handles.h"
#include "clib/interpreter.h"

namespace openbnns {
namespace clib {
namespace {

constexpr size_t kMostArguments = 24;

PyObject* owned(PyObject* object) {
  py.Py_IncRef(object);
  return object;
}

// Letters of handles, and of structs that a function returns through its first argument; see Function.
bool is_handle(char code) { return code && strchr("hgnocr", code); }
bool is_struct(char code) { return code == 'd' || code == 'm'; }

// What stands for a handle that has been destroyed; a new reference.
PyObject* tombstone(char kind) {
  Reference letter(py.PyUnicode_DecodeUTF8(&kind, 1, "strict"));
  PyObject* arguments[] = {letter.get()};
  return letter ? py.PyObject_VectorcallDict(library.tombstone, arguments, 1, nullptr) : nullptr;
}

void refuse(size_t number, size_t position, const Word& value) {
  Reference where(py.PyLong_FromUnsignedLongLong(number)), which(py.PyLong_FromUnsignedLongLong(position));
  Reference what(py.PyLong_FromUnsignedLongLong(value.number));
  PyObject* arguments[] = {where.get(), which.get(), what.get()};
  Reference done(where && which && what ? py.PyObject_VectorcallDict(library.refuse, arguments, 3, nullptr) : nullptr);
  py.PyErr_Clear();
}

// Keeps the exception that is set as the message of this call.
void record_exception(size_t number) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  py.PyErr_Fetch(&type, &value, &trace);
  py.PyErr_NormalizeException(&type, &value, &trace);
  Reference types(type), values(value), traces(trace);
  // Whoever pressed Ctrl-C means the host's program, which sees it when this call has returned.
  if (value && py.PyErr_GivenExceptionMatches(value, *py.keyboard_interrupt)) py.PyErr_SetInterrupt();
  Reference where(py.PyLong_FromUnsignedLongLong(number));
  PyObject* arguments[] = {where.get(), value ? value : py.none};
  Reference done(where ? py.PyObject_VectorcallDict(library.fail, arguments, 2, nullptr) : nullptr);
  py.PyErr_Clear();
}

// The argument as an object, a new reference; null with an exception set, or null without one if it is no handle.
PyObject* argument(char code, const Word& value) {
  if (is_handle(code)) {
    PyObject* object;
    switch (find_handle(value.pointer, &object)) {
      case Found::kLive:
        return object;
      case Found::kNull:
        return owned(py.none);
      case Found::kDestroyed:
        return tombstone(code);
      case Found::kForeign:
        break;
    }
    return nullptr;
  }
  switch (code) {
    case 'p':
      return value.pointer ? py.PyLong_FromUnsignedLongLong(value.number) : owned(py.none);
    case 'u':
      return py.PyLong_FromUnsignedLongLong(value.number);
    case 'i':
      return py.PyLong_FromLongLong(static_cast<int64_t>(value.number));
    case 'b':
      return py.PyBool_FromLong(value.number != 0);
    default:
      return py.PyFloat_FromDouble(value.real);
  }
}

// The functions that end a handle. NULL is ignored; about one that has been ended before, strict mode warns.
bool destroys(const Function& f) { return f.returned == 'v' && is_handle(f.codes[0]) && f.codes[1] == 0; }

Word result_of(const Function& f, Reference& value, size_t number) {
  Word result = word(f.failure);
  if (is_handle(f.returned)) {
    result.pointer = nullptr;
    if (value.get() != py.none && (result.pointer = make_handle(value.get()))) value.release();
  }
  switch (f.returned) {
    case 'i':
      result.number = static_cast<uint64_t>(py.PyLong_AsLongLong(value.get()));
      break;
    case 'u':
      result.number = py.PyLong_AsUnsignedLongLong(value.get());
      break;
    case 'p':
      result.number = value.get() == py.none ? 0 : py.PyLong_AsUnsignedLongLong(value.get());
      break;
    default:
      break;
  }
  if (py.PyErr_Occurred()) {
    record_exception(number);
    result = word(f.failure);
  }
  return result;
}

std::atomic<uint64_t> natives_alone[kMostFunctions];  // numbers of functions without a filter

// Runs a call natively if its number is known; `learns` if it makes sense to ask for one afterwards.
bool run_native(size_t number, const Function& f, const Word* words, bool& learns) {
  if (f.native == kInPython) return learns = false;
  const bool alone = f.native == kAlone;
  const uint64_t native =
      alone ? natives_alone[number].load(std::memory_order_acquire) : native_number(words[0].pointer, f.native);
  learns = native != kNever;
  // Where there is a number, the library has started.
  return native != kUnknown && learns &&
         library.raw->run(native, alone ? words : words + 1, alone ? f.count : f.count - 1) == 0;
}

// Asks for the number of the native call that would have done this one, for the next time.
void learn_number(size_t number, PyObject* filter, const void* handle) {
  Reference where(py.PyLong_FromUnsignedLongLong(number));
  PyObject* arguments[] = {where.get(), filter};
  Reference given(where ? py.PyObject_VectorcallDict(library.number, arguments, 2, nullptr) : nullptr);
  uint64_t native = given ? py.PyLong_AsUnsignedLongLong(given.get()) : kUnknown;
  if (py.PyErr_Occurred()) return py.PyErr_Clear();
  // A context may have one later, when its shapes or its options are others.
  if (native == kUnknown && functions[number].codes[0] != 'c') native = kNever;
  if (functions[number].native == kAlone)
    natives_alone[number].store(native, std::memory_order_release);
  else
    set_native_number(handle, functions[number].native, filter, native);
}

}  // namespace

Word call(size_t number, const Word* words) {
  const Function& f = functions[number];
  Word result = word(f.failure);
  bool learns;
  if (run_native(number, f, words, learns)) return word(0);
  if (!started()) return result;
  Lock lock;
  if (!lock) return result;
  const bool ending = destroys(f);
  if (ending) {
    PyObject* object = nullptr;
    const Found found = find_handle(words[0].pointer, &object);
    const Reference kept(object);
    if (found == Found::kNull) return result;
  }
  PyObject* arguments[kMostArguments];
  size_t count = 0;
  bool good = true;
  for (const char* code = f.codes; *code && good; code++, count++) {
    arguments[count] = argument(*code, words[count]);
    good = arguments[count] != nullptr;
    if (!good && !py.PyErr_Occurred())
      refuse(number, count - is_struct(f.returned), words[count]);
    else if (!good)
      record_exception(number);
  }
  if (good) {
    // A reference of our own: the entry may be replaced while it runs.
    Reference function(py.PySequence_GetItem(library.functions, static_cast<ptrdiff_t>(number)));
    Reference value(py.PyObject_VectorcallDict(function.get(), arguments, count, nullptr));
    if (value)
      result = result_of(f, value, number);
    else
      record_exception(number);
    if (learns && value && result.number == 0)
      learn_number(number, f.native == kAlone ? py.none : arguments[0], words[0].pointer);
    if (value && ending) Reference gone(end_handle(words[0].pointer));  // none if another thread has ended it meanwhile
  }
  for (size_t i = 0; i < count; i++)
    if (arguments[i]) py.Py_DecRef(arguments[i]);
  return result;
}

}  // namespace clib
}  // namespace openbnns

using namespace openbnns::clib;

extern "C" {

OPENBNNS_EXPORT const char* openbnns_last_error() {
  if (!has_started()) return start_error();
  Lock lock;
  if (!lock) return nullptr;
  Reference text(py.PyObject_VectorcallDict(library.last_error, nullptr, 0, nullptr));
  Reference bytes(text && text.get() != py.none ? py.PyUnicode_AsEncodedString(text.get(), "utf-8", "replace")
                                                : nullptr);
  py.PyErr_Clear();
  return keep_text(bytes.get());
}

OPENBNNS_EXPORT const char* openbnns_version() { return OPENBNNS_VERSION; }

OPENBNNS_EXPORT int openbnns_set_compat(const char* names) {
  if (!started()) return -1;
  Lock lock;
  if (!lock) return -1;
  const char* given = names ? names : "";
  Reference text(py.PyUnicode_DecodeUTF8(given, static_cast<ptrdiff_t>(strlen(given)), "replace"));
  PyObject* arguments[] = {text.get()};
  Reference status(text ? py.PyObject_VectorcallDict(library.set_compat, arguments, 1, nullptr) : nullptr);
  const int result = status ? static_cast<int>(py.PyLong_AsLongLong(status.get())) : -1;
  py.PyErr_Clear();
  return result;
}

}  // extern "C"
