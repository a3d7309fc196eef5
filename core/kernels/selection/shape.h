#pragma once
#include <cstdint>

namespace openbnns {

// A whole tensor [outer][length][inner] and a selection from it [outer][count][inner], joined by indices below length:
// [count], or with `per_element` [outer][count][inner]. Elements of `bytes` 1, 2, 4 or 8.
struct Selection {
  int bytes = 4;
  int64_t outer = 1, length = 1, inner = 1, count = 1;
  bool per_element = false;
  const int64_t* indices = nullptr;
  char* whole = nullptr;
  char* selected = nullptr;
};

// What scattering does with the old value; sums are of float or of 64-bit integers that wrap around.
enum class Scattering { kWrite, kAddFloats, kAddIntegers };

// x: [outer][length][inner], floats, or with `integers` int64; indices: [outer][k][inner]. in_top_k answers, for
// [outer][inner] tested indices, whether fewer than k values along the axis are larger than the one there.
struct TopKShape {
  bool integers = false;
  int64_t outer = 1, length = 1, inner = 1, k = 1;
};

}  // namespace openbnns
