// The nearest stored points by Euclidean distance, by exhaustive comparison.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSmall = 1 << 16;  // differences that one thread takes on alone

// Sum of squares in double, in a fixed order of lanes: differences of close points keep their digits.
double squared_distance(const float* a, const float* b, int64_t features) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t f = 0;
  for (; f + kLanes <= features; f += kLanes) {
    for (int64_t lane = 0; lane < kLanes; lane++) {
      const double difference = static_cast<double>(a[f + lane]) - static_cast<double>(b[f + lane]);
      sums[lane] += difference * difference;
    }
  }
  double sum = 0;
  for (; f < features; f++) {
    const double difference = static_cast<double>(a[f]) - static_cast<double>(b[f]);
    sum += difference * difference;
  }
  for (double lane : sums) sum += lane;
  return sum;
}

// NaN is farther than everything.
bool nearer(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

}  // namespace

void nearest_neighbors(const NeighborSearch& s, int threads) {
  const bool small = s.queries * s.count * s.features < kSmall;
  dynamic_items(small ? 1 : threads, s.queries, [&](int64_t query) {
    const int64_t self = s.first + query;
    int32_t* indices = s.indices + query * s.neighbors;
    float* distances = s.distances + query * s.neighbors;
    double* squares = s.squares + query * s.neighbors;
    int64_t found = 0;
    if (s.neighbors > 0) {  // the point itself comes first, whatever else is as near
      indices[0] = static_cast<int32_t>(self);
      squares[0] = 0;
      found = 1;
    }
    const float* point = s.samples + self * s.features;
    for (int64_t other = 0; other < s.count; other++) {
      if (other == self) continue;
      const double square = squared_distance(point, s.samples + other * s.features, s.features);
      if (found == s.neighbors && (found <= 1 || !nearer(square, squares[found - 1]))) continue;
      int64_t place = found < s.neighbors ? found++ : found - 1;
      for (; place > 1 && nearer(square, squares[place - 1]); place--) {
        squares[place] = squares[place - 1];
        indices[place] = indices[place - 1];
      }
      squares[place] = square;
      indices[place] = static_cast<int32_t>(other);
    }
    for (int64_t k = 0; k < found; k++) distances[k] = static_cast<float>(std::sqrt(squares[k]));
    for (int64_t k = found; k < s.neighbors; k++) {
      indices[k] = -1;
      distances[k] = std::numeric_limits<float>::infinity();
    }
  });
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
