// A list of tensors divided into chunks of consecutive elements, by the sizes alone, so that sums over chunks are the
// same for every number of threads.
#pragma once
#include <algorithm>
#include <cstdint>

#include "common/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int64_t kChunkElements = 16384;
constexpr int64_t kSerialElements = 8192;  // less work than this stays on the calling thread

class Chunks {
 public:
  // count_of(i) is the number of elements of tensor i.
  template <class CountOf>
  Chunks(int64_t tensors, CountOf count_of) : tensors_(tensors) {
    first_ = reinterpret_cast<int64_t*>(scratch(kChunkTable, static_cast<size_t>(2 * (tensors + 1))));
    int64_t chunks = 0;
    for (int64_t i = 0; i < tensors; i++) {
      first_[i] = chunks;
      chunks += (count_of(i) + kChunkElements - 1) / kChunkElements;
      elements_ += count_of(i);
    }
    first_[tensors] = chunks;
  }

  int64_t count() const { return first_[tensors_]; }

  // body(tensor, chunk, first element), chunk counting through all tensors.
  template <class Body>
  void run(int threads, Body&& body) const {
    const int64_t* first = first_;
    const int64_t tensors = tensors_;
    dynamic_items(elements_ < kSerialElements ? 1 : threads, count(), [&](int64_t chunk) {
      int64_t tensor = std::upper_bound(first, first + tensors + 1, chunk) - first - 1;
      body(tensor, chunk, (chunk - first[tensor]) * kChunkElements);
    });
  }

  // sums[i]: the sum of the squares of tensor i, in double; addresses(i) is where its elements are.
  template <class Addresses, class CountOf>
  void sum_squares(int threads, Addresses addresses, CountOf count_of, double* sums) const;

 private:
  int64_t tensors_, elements_ = 0;
  int64_t* first_;
};

// Squares are taken in double: those of floats neither overflow nor lose anything there.
inline double sum_of_squares(const float* x, int64_t count) {
  WideVec total{};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    WideVec v = widen(load(x + i));
    total = total + WideVec{v.low * v.low, v.high * v.high};
  }
  WideVec rest = widen(load_partial(x + i, count - i));
  return sum_lanes(total + WideVec{rest.low * rest.low, rest.high * rest.high});
}

template <class Addresses, class CountOf>
void Chunks::sum_squares(int threads, Addresses addresses, CountOf count_of, double* sums) const {
  double* partial = reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(2 * (count() + 1))));
  run(threads, [&](int64_t tensor, int64_t chunk, int64_t start) {
    partial[chunk] = sum_of_squares(addresses(tensor) + start, std::min(kChunkElements, count_of(tensor) - start));
  });
  for (int64_t i = 0; i < tensors_; i++) {
    sums[i] = 0;
    for (int64_t chunk = first_[i]; chunk < first_[i + 1]; chunk++) sums[i] += partial[chunk];
  }
}

// min(1, max_norm / norm); NaN for a norm that is NaN.
inline double clipping_factor(double norm, double max_norm) { return norm <= max_norm ? 1.0 : max_norm / norm; }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
