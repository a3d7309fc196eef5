// From a C call to a native call, or to a Python call.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "bindings/raw.h"

#define OPENBNNS_EXPORT __attribute__((visibility("default")))

namespace openbnns {
namespace clib {

// An argument or a result.
using Word = OpenBNNSWord;

inline Word word(const void* pointer) {
  Word w;
  w.pointer = pointer;
  return w;
}
inline Word word(double real) {
  Word w;
  w.real = real;
  return w;
}
inline Word word(float real) { return word(static_cast<double>(real)); }
template <typename Integer>
Word word(Integer number) {
  Word w;
  w.number = static_cast<uint64_t>(static_cast<int64_t>(number));
  return w;
}

// Codes, one letter per argument: h filter, g random generator, n store of neighbours, o options, c context and r
// builder of a graph, p pointer, u unsigned, i signed, b bool, f float. Returned: the same, or v nothing, d a
// descriptor or m a block of memory that the first argument points to.
struct Function {
  const char *name, *codes;
  char returned;
  int64_t failure;
  size_t count;  // of arguments
  int native;    // place of its number among those of a filter, kAlone for a function without one, or kInPython
};
constexpr int kAlone = -1, kInPython = -2;
constexpr size_t kMostFunctions = 160;
extern const Function functions[];
extern const size_t function_count;

Word call(size_t number, const Word* words);

// A handle or a block of memory with its size, as graphs pass them by value.
struct Pair {
  const void* data;
  size_t size;
};
inline Pair pair_of(const void* handle) { return {handle, handle ? sizeof(Pair) : 0}; }

// As large and as aligned as a BNNSNDArrayDescriptor, so that it is returned in the same way.
struct Descriptor {
  uint64_t words[22];
};

}  // namespace clib
}  // namespace openbnns
