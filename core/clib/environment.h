// Where Python is: the interpreter of this process, or the one of the environment that this library is installed in.
#pragma once
#include <cstddef>

namespace openbnns {
namespace clib {

constexpr size_t kPath = 4096;

struct Environment {
  char site[kPath];        // the folder of the package that contains this library; empty if none does
  char executable[kPath];  // the interpreter
  char libpython[kPath];
};

// The library that holds Python's functions in this process, as dlsym takes it; false if there is none.
bool find_in_process(void** library);

// Finds the folder of the package that contains this library.
void find_site(Environment& environment);

// Fills in the rest. False with a reason (one line) if there is no usable Python.
bool find_environment(Environment& environment, char* reason, size_t size);

}  // namespace clib
}  // namespace openbnns
