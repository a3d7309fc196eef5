#pragma once
#include <cstdint>

namespace openbnns {

// samples: [count][features]; for the points first .. first + queries - 1 the nearest, sorted: [queries][neighbors] of
// indices (-1 where there are too few points), distances (then infinity), and room for as many squares.
struct NeighborSearch {
  const float* samples = nullptr;
  int64_t count = 0, features = 0, neighbors = 0, first = 0, queries = 0;
  int32_t* indices = nullptr;
  float* distances = nullptr;
  double* squares = nullptr;
};

}  // namespace openbnns
