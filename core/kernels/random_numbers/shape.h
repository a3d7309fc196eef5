// Fills of the random generator; see reference/random_numbers.py for what the numbers are.
#pragma once
#include <cstdint>

namespace openbnns {

// probabilities: [distributions][categories]; out: [distributions][draws].
struct RandomCategories {
  const double* probabilities = nullptr;
  int64_t distributions = 0, categories = 0, draws = 0;
  bool logarithms = false;
};

struct RandomFill {
  enum Kind { kUniformFloat, kNormalFloat, kUniformInteger, kCategory };
  Kind kind = kUniformFloat;
  uint64_t seed = 0, draw = 0;
  void* out = nullptr;  // [count] floats, doubles if `wide`, or int64 for integers
  bool wide = false;
  int64_t count = 0;
  double a = 0, b = 0;  // bounds, or mean and standard deviation
  int64_t low = 0;      // of integers
  uint64_t span = 0;    // number of integers, 0 for 2^64
  RandomCategories distribution = {};
};

}  // namespace openbnns
