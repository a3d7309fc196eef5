#include "clib/interpreter.h"

#include <Python.h>  // only for the structs of the configuration: nothing of it is linked
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "clib/environment.h"
#include "clib/fork_gate.h"

namespace openbnns {
namespace clib {

Library library;

namespace {

enum State { kUnknown, kReady, kFailed };
std::atomic<int> state{kUnknown};
char error_text[2 * kPath];

// Two steps, because a thread that holds the lock of a host's interpreter must not wait for another that needs it:
// finding and starting, which needs no such lock, and importing, which Python itself keeps in order.
pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
bool found, own_interpreter;
const char* other_version = nullptr;  // of Python, if it is not the one that this library was built for
Environment environment;
pthread_key_t thread_key;

bool fail(const char* reason) {
  if (reason != error_text) snprintf(error_text, sizeof error_text, "%s", reason);
  error_text[strcspn(error_text, "\n")] = 0;
  int expected = kUnknown;
  if (state.compare_exchange_strong(expected, kFailed)) fprintf(stderr, "openbnns: %s\n", error_text);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Threads and forks

struct OfThread {
  void* python_state;  // made by us, so ended by us; or null
  PyObject* text;
};

// By now Python may have lost its own note of this thread's state (the system clears all keys of an ending thread, in
// any order), so PyGILState_Ensure would make another one: the state is kept here.
void end_thread(void* data) {
  OfThread* mine = static_cast<OfThread*>(data);
  const bool usable = py.Py_IsInitialized() && !(py.is_finalizing && py.is_finalizing());
  if (usable && mine->python_state) {
    py.PyEval_RestoreThread(mine->python_state);
    if (mine->text) py.Py_DecRef(mine->text);
    py.PyThreadState_Clear(mine->python_state);
    py.PyThreadState_DeleteCurrent();
  } else if (usable && mine->text) {
    const int held = py.PyGILState_Ensure();
    py.Py_DecRef(mine->text);
    py.PyGILState_Release(held);
  }
  free(mine);
}

OfThread* of_thread() {
  auto mine = static_cast<OfThread*>(pthread_getspecific(thread_key));
  if (!mine) {
    mine = static_cast<OfThread*>(calloc(1, sizeof *mine));
    if (mine) pthread_setspecific(thread_key, mine);
  }
  return mine;
}

int take_lock() {
  static thread_local bool known;
  if (!known) {
    known = true;
    OfThread* mine = of_thread();
    if (mine && !py.PyGILState_Check() && !py.PyGILState_GetThisThreadState()) {
      py.PyGILState_Ensure();  // counted once more than it is released, so the state stays
      mine->python_state = py.PyEval_SaveThread();
    }
  }
  return py.PyGILState_Ensure();
}

// A fork of the host waits until no other thread is inside the interpreter. One that Python itself makes, which holds
// the lock, brings its own care; so does one on the way of starting it, which is not asked to wait for itself.
thread_local bool starting, forking;
thread_local int fork_lock;

void before_fork() {
  if (starting) return;
  pthread_mutex_lock(&start_mutex);
  forking = own_interpreter && !py.PyGILState_Check();
  if (!forking) return;
  close_gate();
  fork_lock = take_lock();
  py.PyOS_BeforeFork();
}

void after_fork_parent() {
  if (starting) return;
  if (forking) {
    py.PyOS_AfterFork_Parent();
    py.PyGILState_Release(fork_lock);
    open_gate();
  }
  pthread_mutex_unlock(&start_mutex);
}

void after_fork_child() {
  if (starting) return;
  if (forking) {
    py.PyOS_AfterFork_Child();
    py.PyGILState_Release(fork_lock);
    open_gate_in_child();
  }
  pthread_mutex_unlock(&start_mutex);
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

// ---------------------------------------------------------------------------------------------------------------------
// Start

template <typename Function>
bool find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  return function != nullptr;
}

bool is_of_this_version(const char* version) {
  int major = 0, minor = 0;
  return sscanf(version, "%d.%d", &major, &minor) == 2 && major == PY_MAJOR_VERSION && minor == PY_MINOR_VERSION;
}

bool fail_by_version(const char* lacking) {
  char text[2 * kPath];
  snprintf(text, sizeof text,
           "the Python of this process is %.*s, but this library belongs to OpenBNNS for Python %d.%d, and that Python "
           "has %s. Use Python %d.%d, or the library of an OpenBNNS that is installed for the other.",
           static_cast<int>(strcspn(other_version, " ")), other_version, PY_MAJOR_VERSION, PY_MINOR_VERSION, lacking,
           PY_MAJOR_VERSION, PY_MINOR_VERSION);
  return fail(text);
}

// Python's module of signals takes SIGINT when it is first imported, whoever that does. So it is imported now, and what
// the host had is put back.
void leave_interrupts_alone() {
  struct sigaction before;
  const bool known = sigaction(SIGINT, nullptr, &before) == 0;
  Reference module(py.PyImport_ImportModule("_signal"));
  py.PyErr_Clear();
  if (known) sigaction(SIGINT, &before, nullptr);
}

// Starts Python alone: nothing of the host's environment variables, no handlers of signals, no change of its locale.
bool initialize(void* handle, const char* executable) {
  decltype(PyPreConfig_InitIsolatedConfig)* prepare_early;
  decltype(Py_PreInitialize)* initialize_early;
  decltype(PyConfig_InitIsolatedConfig)* prepare;
  decltype(PyConfig_SetBytesString)* set_text;
  decltype(PyConfig_Clear)* clear;
  decltype(Py_InitializeFromConfig)* initialize_all;
  decltype(PyStatus_Exception)* has_failed;
  if (other_version) return fail_by_version("no OpenBNNS of its own, because it has not been started");
  if (!find(handle, "PyPreConfig_InitIsolatedConfig", prepare_early) ||
      !find(handle, "Py_PreInitialize", initialize_early) || !find(handle, "PyConfig_InitIsolatedConfig", prepare) ||
      !find(handle, "PyConfig_SetBytesString", set_text) || !find(handle, "PyConfig_Clear", clear) ||
      !find(handle, "Py_InitializeFromConfig", initialize_all) || !find(handle, "PyStatus_Exception", has_failed))
    return fail("this Python cannot be started by a program.");
  PyPreConfig early;
  prepare_early(&early);
  early.utf8_mode = 1;  // names of files are bytes; the locale is the host's affair
  PyStatus status = initialize_early(&early);
  if (!has_failed(status)) {
    PyConfig config;
    prepare(&config);
    status = set_text(&config, &config.executable, executable);
    if (!has_failed(status)) status = set_text(&config, &config.program_name, executable);
    if (!has_failed(status)) status = initialize_all(&config);
    clear(&config);
  }
  if (has_failed(status)) {
    snprintf(error_text, sizeof error_text,
             "Python cannot start (%s): %s. Set OPENBNNS_PYTHON to an interpreter that works.", executable,
             status.err_msg ? status.err_msg : "no reason given");
    return fail(error_text);
  }
  leave_interrupts_alone();
  own_interpreter = true;
  py.PyEval_SaveThread();
  return true;
}

bool find_or_start() {
  find_site(environment);
  void* handle;
  const bool inside = find_in_process(&handle);
  if (!inside || !reinterpret_cast<int (*)()>(dlsym(handle, "Py_IsInitialized"))()) {
    if (!find_environment(environment, error_text, sizeof error_text)) return fail(error_text);
    // Global: extension modules find Python's functions in the process, not through a library of their own.
    if (!inside && !(handle = dlopen(environment.libpython, RTLD_NOW | RTLD_GLOBAL))) {
      snprintf(error_text, sizeof error_text, "Python's library cannot be loaded: %s", dlerror());
      return fail(error_text);
    }
  }
  const char* (*version)();
  const char* missing = find(handle, "Py_GetVersion", version) ? look_up(handle) : "Py_GetVersion";
  if (version && !is_of_this_version(version())) other_version = version();
  if (missing) {
    char lacking[64];
    snprintf(lacking, sizeof lacking, "no %s", missing);
    if (other_version) return fail_by_version(lacking);
    snprintf(error_text, sizeof error_text, "the Python of this process has %s, which this library needs.", lacking);
    return fail(error_text);
  }
  if (pthread_key_create(&thread_key, end_thread) != 0) return fail("there is no room for another thread key.");
  return py.Py_IsInitialized() || initialize(handle, environment.executable);
}

// The exception that is set, as text: that of its first cause, because the others (NumPy's, for one) are pages of
// advice.
void describe_exception(char* text, size_t size) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  py.PyErr_Fetch(&type, &value, &trace);
  py.PyErr_NormalizeException(&type, &value, &trace);
  Reference types(type), values(value), traces(trace);
  while (value) {
    Reference cause(py.PyObject_GetAttrString(value, "__cause__"));  // which the exception keeps alive
    if (!cause || cause.get() == py.none) break;
    value = cause.get();
  }
  Reference words(value ? py.PyObject_Str(value) : nullptr);
  Reference bytes(words ? py.PyUnicode_AsEncodedString(words.get(), "utf-8", "replace") : nullptr);
  const char* found = bytes ? py.PyBytes_AsString(bytes.get()) : "an unknown error";
  snprintf(text, size, "%s", found + strspn(found, "\n "));
  py.PyErr_Clear();
}

// The package that this library lies in, for an interpreter that does not know it.
void add_site() {
  PyObject* path = py.PySys_GetObject("path");
  Reference site(*environment.site ? py.PyUnicode_DecodeFSDefault(environment.site) : nullptr);
  if (path && site) py.PyList_Append(path, site.get());
  py.PyErr_Clear();
}

// Without its compiled part the package warns and goes on slowly; here the calls fail, and one line says so.
void silence_warning() {
  Reference module(py.PyImport_ImportModule("warnings"));
  Reference filter(module ? py.PyObject_GetAttrString(module.get(), "filterwarnings") : nullptr);
  Reference arguments(py.Py_BuildValue("(ss)", "ignore", "openbnns: the compiled core cannot be loaded"));
  Reference done(filter && arguments ? py.PyObject_CallObject(filter.get(), arguments.get()) : nullptr);
  py.PyErr_Clear();
}

bool import_library() {
  if (own_interpreter) silence_warning();
  Reference package(py.PyImport_ImportModule("openbnns"));
  if (!package && !other_version) {  // another version could load nothing of what lies there, for itself neither
    py.PyErr_Clear();
    add_site();
  }
  const bool hopeless = !package && other_version;
  Reference module(hopeless ? nullptr : py.PyImport_ImportModule("openbnns.clib.library"));
  char reason[kPath];
  if (!module) {
    describe_exception(reason, sizeof reason);
    if (other_version) {
      char lacking[kPath];
      snprintf(lacking, sizeof lacking, "none of its own (%.*s)", 2000, reason);
      return fail_by_version(lacking);
    }
    snprintf(error_text, sizeof error_text, "OpenBNNS cannot be imported by Python %.*s: %s",
             static_cast<int>(strcspn(py.Py_GetVersion(), " ")), py.Py_GetVersion(), reason);
    return fail(error_text);
  }
  Reference version(py.PyObject_GetAttrString(module.get(), "version"));
  Reference bytes(version ? py.PyUnicode_AsEncodedString(version.get(), "utf-8", "replace") : nullptr);
  const char* text = bytes ? py.PyBytes_AsString(bytes.get()) : "unknown";
  if (strcmp(text, OPENBNNS_VERSION) != 0) {
    snprintf(error_text, sizeof error_text,
             "this library is of OpenBNNS %s, but Python has OpenBNNS %s. Use the library of the same installation.",
             OPENBNNS_VERSION, text);
    return fail(error_text);
  }
  Reference start(py.PyObject_GetAttrString(module.get(), "start"));
  Reference own(py.PyBool_FromLong(own_interpreter));
  PyObject* arguments[] = {own.get()};
  Reference done(start ? py.PyObject_VectorcallDict(start.get(), arguments, 1, nullptr) : nullptr);
  Library made{};
  made.functions = py.PyObject_GetAttrString(module.get(), "functions");
  made.refuse = py.PyObject_GetAttrString(module.get(), "refuse");
  made.fail = py.PyObject_GetAttrString(module.get(), "fail");
  made.tombstone = py.PyObject_GetAttrString(module.get(), "tombstone");
  made.last_error = py.PyObject_GetAttrString(module.get(), "last_error");
  made.set_compat = py.PyObject_GetAttrString(module.get(), "set_compat");
  made.number = py.PyObject_GetAttrString(module.get(), "number");
  made.raw = static_cast<const OpenBNNSRawCalls*>(py.PyCapsule_Import(OPENBNNS_RAW_CALLS, 0));
  if (!done || !made.functions || !made.refuse || !made.fail || !made.tombstone || !made.last_error ||
      !made.set_compat || !made.number || !made.raw || made.raw->version != OPENBNNS_RAW_VERSION) {
    py.PyErr_Clear();
    return fail("this OpenBNNS lacks what the C library needs. Reinstall it.");
  }
  library = made;  // another thread may have done the same: the values are
  int expected = kUnknown;
  state.compare_exchange_strong(expected, kReady, std::memory_order_release);
  return true;
}

bool start() {
  pthread_mutex_lock(&start_mutex);
  starting = true;
  if (!found && state.load() == kUnknown) found = find_or_start();
  starting = false;
  const bool usable = found;
  pthread_mutex_unlock(&start_mutex);
  if (!usable) return false;
  Lock lock;
  if (!lock) return fail("the interpreter of this process has ended.");
  return state.load() == kReady || (state.load() == kUnknown && import_library());
}

}  // namespace

bool has_started() { return state.load(std::memory_order_acquire) == kReady; }

bool started() {
  const int now = state.load(std::memory_order_acquire);
  return now == kReady || (now == kUnknown && start());
}

const char* start_error() { return state.load() == kFailed ? error_text : nullptr; }

Lock::Lock() : held_(py.Py_IsInitialized() && !(py.is_finalizing && py.is_finalizing())) {
  if (!held_) return;
  if (own_interpreter) enter_gate();
  state_ = take_lock();
}

Lock::~Lock() {
  if (!held_) return;
  py.PyGILState_Release(state_);
  if (own_interpreter) leave_gate();
}

const char* keep_text(PyObject* bytes) {
  OfThread* mine = of_thread();
  if (!mine || !bytes) return nullptr;
  if (mine->text) py.Py_DecRef(mine->text);
  py.Py_IncRef(bytes);
  mine->text = bytes;
  return py.PyBytes_AsString(bytes);
}

}  // namespace clib
}  // namespace openbnns
