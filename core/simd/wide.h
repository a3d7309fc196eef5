// Double precision companions of Vec, for sums that must stay accurate over millions of elements.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

typedef float HalfVec __attribute__((vector_size(kWidth * 2)));
typedef double DoubleVec __attribute__((vector_size(kWidth * 4)));  // kWidth / 2 lanes
typedef double UnalignedDoubleVec __attribute__((vector_size(kWidth * 4), aligned(8), may_alias));

// The lanes of a Vec as doubles, in order: `low` holds the first half.
struct WideVec {
  DoubleVec low, high;
};

OPENBNNS_INLINE WideVec widen(Vec v) {
  HalfVec half[2];
  std::memcpy(half, &v, sizeof(v));
  return {__builtin_convertvector(half[0], DoubleVec), __builtin_convertvector(half[1], DoubleVec)};
}

// The lanes rounded to floats.
OPENBNNS_INLINE Vec narrow(WideVec v) {
  HalfVec half[2] = {__builtin_convertvector(v.low, HalfVec), __builtin_convertvector(v.high, HalfVec)};
  Vec result;
  std::memcpy(&result, half, sizeof(result));
  return result;
}

OPENBNNS_INLINE WideVec operator+(WideVec a, WideVec b) { return {a.low + b.low, a.high + b.high}; }

OPENBNNS_INLINE WideVec load_wide(const double* p) {
  return {*reinterpret_cast<const UnalignedDoubleVec*>(p),
          *reinterpret_cast<const UnalignedDoubleVec*>(p + kWidth / 2)};
}
OPENBNNS_INLINE void store_wide(double* p, WideVec v) {
  *reinterpret_cast<UnalignedDoubleVec*>(p) = v.low;
  *reinterpret_cast<UnalignedDoubleVec*>(p + kWidth / 2) = v.high;
}

// Sum of the lanes in a fixed order.
OPENBNNS_INLINE double sum_lanes(WideVec v) {
  DoubleVec pairs = v.low + v.high;
  double total = 0;
  OPENBNNS_UNROLL for (int i = 0; i < kWidth / 2; i++) total += pairs[i];
  return total;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
