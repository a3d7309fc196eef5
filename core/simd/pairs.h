// Splits 2 * kWidth floats into those at even and odd positions, joins them again, and shifts lanes.
#pragma once
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {

#if defined(__AVX512F__)
#define OPENBNNS_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define OPENBNNS_ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define OPENBNNS_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define OPENBNNS_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define OPENBNNS_SHIFTED_IN 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#define OPENBNNS_SHIFTED_OUT 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
#elif defined(__AVX2__)
#define OPENBNNS_EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define OPENBNNS_ODDS 1, 3, 5, 7, 9, 11, 13, 15
#define OPENBNNS_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define OPENBNNS_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define OPENBNNS_SHIFTED_IN 7, 8, 9, 10, 11, 12, 13, 14
#define OPENBNNS_SHIFTED_OUT 1, 2, 3, 4, 5, 6, 7, 8
#else
#define OPENBNNS_EVENS 0, 2, 4, 6
#define OPENBNNS_ODDS 1, 3, 5, 7
#define OPENBNNS_LOW 0, 4, 1, 5
#define OPENBNNS_HIGH 2, 6, 3, 7
#define OPENBNNS_SHIFTED_IN 3, 4, 5, 6
#define OPENBNNS_SHIFTED_OUT 1, 2, 3, 4
#endif

OPENBNNS_INLINE Vec evens(Vec a, Vec b) { return shuffled<OPENBNNS_EVENS>(a, b); }
OPENBNNS_INLINE Vec odds(Vec a, Vec b) { return shuffled<OPENBNNS_ODDS>(a, b); }

// a0 b0 a1 b1 ...: the first and the second half of the lanes of both.
OPENBNNS_INLINE Vec interleave_low(Vec a, Vec b) { return shuffled<OPENBNNS_LOW>(a, b); }
OPENBNNS_INLINE Vec interleave_high(Vec a, Vec b) { return shuffled<OPENBNNS_HIGH>(a, b); }

// The last lane of `before`, then all lanes of v but the last.
OPENBNNS_INLINE Vec shifted_in(Vec before, Vec v) { return shuffled<OPENBNNS_SHIFTED_IN>(before, v); }
// All lanes of v but the first, then the first lane of `after`.
OPENBNNS_INLINE Vec shifted_out(Vec v, Vec after) { return shuffled<OPENBNNS_SHIFTED_OUT>(v, after); }

struct VecPair {
  Vec even, odd;
};

// The first `pairs` of 2 * kWidth neighbours; the lanes beyond them are zero / not stored.
OPENBNNS_INLINE VecPair load_pairs(const float* p, int64_t pairs) {
  Vec a, b;
  if (pairs >= kWidth) {
    a = load(p);
    b = load(p + kWidth);
  } else {
    int64_t cells = 2 * pairs, low = cells < kWidth ? cells : kWidth;
    a = load_partial(p, low);
    b = load_partial(p + low, cells - low);
  }
  return {evens(a, b), odds(a, b)};
}
OPENBNNS_INLINE void store_pairs(float* p, VecPair v, int64_t pairs) {
  Vec a = interleave_low(v.even, v.odd), b = interleave_high(v.even, v.odd);
  if (pairs >= kWidth) {
    store(p, a);
    store(p + kWidth, b);
  } else {
    int64_t cells = 2 * pairs, low = cells < kWidth ? cells : kWidth;
    store_partial(p, a, low);
    store_partial(p + low, b, cells - low);
  }
}

#undef OPENBNNS_EVENS
#undef OPENBNNS_ODDS
#undef OPENBNNS_LOW
#undef OPENBNNS_HIGH
#undef OPENBNNS_SHIFTED_IN
#undef OPENBNNS_SHIFTED_OUT

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
