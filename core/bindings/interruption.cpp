// SIGINT is counted by a handler in front of Python's. Asking Python instead, from time to time, would need its lock,
// and whoever holds that may be waiting for the very call that asks.
#include "bindings/interruption.h"

#include <pthread.h>
#include <signal.h>

namespace openbnns {

using namespace nb::literals;

namespace {

struct sigaction python_action;  // behind ours
bool python_action_known = false;
unsigned long main_thread = 0;  // as Python numbers it; 0: signals are not watched
PyObject *get_handler = nullptr, *raising_handler = nullptr;

void count_interrupt(int number, siginfo_t* info, void* context) {
  // Python's own first: when the count changes, KeyboardInterrupt is on its way.
  if (python_action.sa_flags & SA_SIGINFO)
    python_action.sa_sigaction(number, info, context);
  else
    python_action.sa_handler(number);
  request_interruption();
}

bool is_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool same_handler(const struct sigaction& a, const struct sigaction& b) {
  if ((a.sa_flags & SA_SIGINFO) != (b.sa_flags & SA_SIGINFO)) return false;
  return a.sa_flags & SA_SIGINFO ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

// Every signal.signal(SIGINT, ...) puts Python's own function in the place of ours. So as long as ours is there,
// Python's handler is the one that was found when it was put there.
bool watch_interrupts() {
  struct sigaction now;
  if (sigaction(SIGINT, nullptr, &now) != 0) return false;
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == count_interrupt) return true;
  nb::object handler = nb::steal(PyObject_CallFunction(get_handler, "i", SIGINT));
  if (!handler.is_valid()) return PyErr_Clear(), false;
  if (handler.ptr() != raising_handler || !is_function(now)) return false;
  // Another library's function, which may have ours behind it: two that call each other would never end.
  if (python_action_known && !same_handler(now, python_action)) return false;
  python_action = now;
  python_action_known = true;
  now.sa_sigaction = count_interrupt;
  now.sa_flags |= SA_SIGINFO;
  return sigaction(SIGINT, &now, nullptr) == 0;
}

void after_fork_in_child() {
  if (main_thread) main_thread = PyThread_get_thread_ident();  // the only one there is
}

void set_main_thread(unsigned long identifier) {
  nb::module_ signals = nb::module_::import_("_signal");  // written in C: asking it runs no handlers
  get_handler = nb::object(signals.attr("getsignal")).release().ptr();
  raising_handler = nb::object(signals.attr("default_int_handler")).release().ptr();
  if (!main_thread) pthread_atfork(nullptr, nullptr, after_fork_in_child);
  main_thread = identifier;
}

}  // namespace

bool Unlocked::raises_on_interrupt() {
  return main_thread != 0 && PyThread_get_thread_ident() == main_thread && watch_interrupts();
}

void bind_interruption(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Interrupted&) {
      if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
  m.def("set_main_thread", &set_main_thread, "identifier"_a);
}

}  // namespace openbnns
