// Small helpers of the native tests: random data, comparison with a float64 oracle, a count of failures.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435769u + 12345) {}
  uint32_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float real() { return static_cast<float>(next()) / 2147483648.f - 0.5f; }
  int64_t integer(int64_t low, int64_t high) { return low + next() % (high - low + 1); }
  bool chance(int percent) { return static_cast<int>(next() % 100) < percent; }
  Floats reals(int64_t count) {
    Floats v(static_cast<size_t>(count));
    for (float& x : v) x = real();
    return v;
  }

 private:
  uint64_t state_;
};

inline Floats poison(int64_t count) {
  return Floats(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
}

struct Counts {
  int checks = 0, failures = 0;

  // ||got - expected|| <= bound * ||expected||, NaN anywhere fails. `magnitude`: norm of the terms, where they cancel.
  void close(const std::string& what, const Floats& got, const Doubles& expected, double magnitude = 0,
             double bound = 1e-5) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); i++) {
      double e = got[i] - expected[i];
      error += e * e;
      norm += expected[i] * expected[i];
    }
    checks++;
    if (!(std::sqrt(error) <= bound * (std::sqrt(norm) + magnitude) + 1e-30)) {
      failures++;
      std::printf("FAIL %s: error %g of norm %g\n", what.c_str(), std::sqrt(error), std::sqrt(norm));
    }
  }
  void same_bits(const std::string& what, const Floats& a, const Floats& b) {
    checks++;
    if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) {
      failures++;
      std::printf("FAIL %s: not bitwise equal\n", what.c_str());
    }
  }
  int report(const char* name) const {
    std::printf("%s: %d checks, %d failures\n", name, checks, failures);
    return failures != 0;
  }
};

}  // namespace testing
