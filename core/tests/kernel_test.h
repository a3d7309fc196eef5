// What the tests of memory-bound kernels share: the kernels, guarded buffers, random numbers, comparison.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/plan.h"

namespace kernel_test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Those of the one instruction set that this program is for: a build need not have others.
#define OPENBNNS_JOIN2(a, b) a##b
#define OPENBNNS_JOIN(a, b) OPENBNNS_JOIN2(a, b)
inline const openbnns::Kernels& tested_kernels() { return openbnns::OPENBNNS_JOIN(kernels_, OPENBNNS_ISA)(); }

struct Report {
  int checks = 0, failures = 0;

  void expect(bool good, const char* what, const char* where, long number) {
    checks++;
    if (good) return;
    if (failures++ < 20) std::printf("FAILED %s (%s, case %ld)\n", what, where, number);
  }
  int finish(const char* name) const {
    std::printf("%s: %d checks, %d failures\n", name, checks, failures);
    return failures != 0;
  }
};

// `count` floats between two guard zones, NaN at first, so that elements that are never written can be detected.
class Buffer {
 public:
  explicit Buffer(int64_t count = 0) : count_(count), words_(static_cast<size_t>(count) + 2 * kGuard, kNaN) {
    for (int i = 0; i < kGuard; i++) words_[i] = words_[words_.size() - 1 - i] = kGuardValue;
  }
  float* data() { return words_.data() + kGuard; }
  const float* data() const { return words_.data() + kGuard; }
  int64_t count() const { return count_; }
  float& operator[](int64_t i) { return data()[i]; }
  float operator[](int64_t i) const { return data()[i]; }
  bool guards_hold() const {
    for (int i = 0; i < kGuard; i++)
      if (words_[i] != kGuardValue || words_[words_.size() - 1 - i] != kGuardValue) return false;
    return true;
  }
  bool same_bits(const Buffer& other) const {
    return words_.size() == other.words_.size() &&
           std::memcmp(words_.data(), other.words_.data(), words_.size() * sizeof(float)) == 0;
  }

 private:
  static constexpr int kGuard = 32;
  static constexpr float kGuardValue = 12345.75f;
  int64_t count_;
  std::vector<float> words_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  void fill(Buffer& b, float low, float high) {
    for (int64_t i = 0; i < b.count(); i++) b[i] = uniform(low, high);
  }

 private:
  std::mt19937_64 engine_;
};

// A few activations in double: forward, and dz from the output.
inline void activate(int function, const double* z, double* y, int64_t count, int64_t row) {
  for (int64_t i = 0; i < count; i++) {
    if (function == 0) y[i] = z[i];
    if (function == 1) y[i] = z[i] > 0 || z[i] != z[i] ? z[i] : 0;
    if (function == 3) y[i] = 1 / (1 + std::exp(-z[i]));
    if (function == 4) y[i] = std::tanh(z[i]);
  }
  if (function != 11) return;
  for (int64_t r = 0; r < count; r += row) {
    double largest = z[r], sum = 0;
    for (int64_t i = 0; i < row; i++) largest = std::fmax(largest, z[r + i]);
    for (int64_t i = 0; i < row; i++) sum += y[r + i] = std::exp(z[r + i] - largest);
    for (int64_t i = 0; i < row; i++) y[r + i] /= sum;
  }
}

inline void activate_backward(int function, const double* y, const double* dy, double* dz, int64_t count, int64_t row) {
  for (int64_t i = 0; i < count; i++) {
    if (function == 0) dz[i] = dy[i];
    if (function == 1) dz[i] = y[i] > 0 ? dy[i] : 0;
    if (function == 3) dz[i] = dy[i] * y[i] * (1 - y[i]);
    if (function == 4) dz[i] = dy[i] * (1 - y[i] * y[i]);
  }
  if (function != 11) return;
  for (int64_t r = 0; r < count; r += row) {
    double dot = 0;
    for (int64_t i = 0; i < row; i++) dot += dy[r + i] * y[r + i];
    for (int64_t i = 0; i < row; i++) dz[r + i] = y[r + i] * (dy[r + i] - dot);
  }
}

// `magnitude`: sum of the absolute values of the terms of `wanted`.
inline bool close(float got, double wanted, double magnitude) {
  if (wanted != wanted) return got != got;
  if (std::isinf(wanted)) return got == static_cast<float>(wanted);
  return std::fabs(got - wanted) <= 1e-5 * std::fabs(wanted) + 2e-6 * magnitude + 1e-6;
}

}  // namespace kernel_test
