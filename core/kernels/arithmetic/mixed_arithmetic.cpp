// Masks, whole numbers and conversions, element by element: operands and results are float32 or int64 in any mixture.
//
// A block of each operand is widened to one type first: int64 or float32 if both operands are that, otherwise double,
// as in NumPy. The function then runs over plain arrays that fit into the first-level cache.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kItem = 1 << 15;  // elements that one worker takes at a time

// Elements `first` .. `first + n` of a row, at a step, as numbers of one type.
template <class Wide, class Stored>
OPENBNNS_INLINE void widen(Wide* to, const Stored* from, int64_t step, int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; i++) to[i] = static_cast<Wide>(from[i]);
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = static_cast<Wide>(from[i * step]);
  }
}

template <class Wide>
OPENBNNS_INLINE void widen(Wide* to, const void* from, bool whole, int64_t offset, int64_t step, int64_t n) {
  if (whole)
    widen(to, static_cast<const int64_t*>(from) + offset, step, n);
  else
    widen(to, static_cast<const float*>(from) + offset, step, n);
}

// Calls body(first, n, a, b) for stretches of the result within a row, at most kBlock long, with the offsets of both
// operands.
template <class Body>
OPENBNNS_INLINE void over_rows(const MixedArithmetic& m, int64_t first, int64_t last, Body&& body) {
  const int inner = m.rank - 1;
  while (first < last) {
    int64_t rest = first, a = 0, b = 0;
    const int64_t place = rest % m.size[inner];
    for (int axis = inner; axis >= 0; axis--) {
      a += rest % m.size[axis] * m.a_step[axis];
      b += rest % m.size[axis] * m.b_step[axis];
      rest /= m.size[axis];
    }
    const int64_t end = std::min(last, first + m.size[inner] - place);
    for (int64_t n; first < end; first += n, a += n * m.a_step[inner], b += n * m.b_step[inner]) {
      n = std::min(kBlock, end - first);
      body(first, n, a, b);
    }
  }
}

template <class Wide, class Function>
void compute(const MixedArithmetic& m, int64_t first, int64_t last, bool one, Function function) {
  alignas(64) Wide a[kBlock], b[kBlock];
  const int inner = m.rank - 1;
  over_rows(m, first, last, [&](int64_t start, int64_t n, int64_t a_offset, int64_t b_offset) {
    widen(a, m.a, m.whole_a, a_offset, m.a_step[inner], n);
    if (!one) widen(b, m.b, m.whole_b, b_offset, m.b_step[inner], n);
    const Wide* second = one ? a : b;
    if (m.whole_y) {
      int64_t* y = static_cast<int64_t*>(m.y) + start;
      for (int64_t i = 0; i < n; i++) y[i] = static_cast<int64_t>(function(a[i], second[i]));
    } else {
      float* y = static_cast<float*>(m.y) + start;
      for (int64_t i = 0; i < n; i++) y[i] = static_cast<float>(function(a[i], second[i]));
    }
  });
}

int64_t negated(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }  // wraps

// Quotient and remainder of C; the smallest number divided by -1 wraps.
int64_t quotient(int64_t a, int64_t b) { return b == -1 ? negated(a) : a / b; }
int64_t rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

template <class Wide>
void run(const MixedArithmetic& m, int64_t first, int64_t last) {
  const auto binary = [&](auto function) { compute<Wide>(m, first, last, false, function); };
  const auto unary = [&](auto function) { compute<Wide>(m, first, last, true, function); };
  switch (m.function) {
    case MixedFunction::kEqual:
      return binary([](Wide a, Wide b) { return a == b; });
    case MixedFunction::kNotEqual:
      return binary([](Wide a, Wide b) { return a != b; });
    case MixedFunction::kLess:
      return binary([](Wide a, Wide b) { return a < b; });
    case MixedFunction::kLessEqual:
      return binary([](Wide a, Wide b) { return a <= b; });
    case MixedFunction::kGreater:
      return binary([](Wide a, Wide b) { return a > b; });
    case MixedFunction::kGreaterEqual:
      return binary([](Wide a, Wide b) { return a >= b; });
    case MixedFunction::kAnd:
      return binary([](Wide a, Wide b) { return (a != 0) & (b != 0); });
    case MixedFunction::kOr:
      return binary([](Wide a, Wide b) { return (a != 0) | (b != 0); });
    case MixedFunction::kXor:
      return binary([](Wide a, Wide b) { return (a != 0) ^ (b != 0); });
    case MixedFunction::kNot:
      return unary([](Wide a, Wide) { return a == 0; });
    case MixedFunction::kIsNan:
      return unary([](Wide a, Wide) { return a != a; });
    case MixedFunction::kConvert:
    case MixedFunction::kToInt32:
      return unary([](Wide a, Wide) { return a; });
    default:
      break;
  }
  if constexpr (std::is_same_v<Wide, int64_t>) {
    const auto wraps = [](auto function) {
      return [function](int64_t a, int64_t b) {
        return static_cast<int64_t>(function(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
      };
    };
    switch (m.function) {
      case MixedFunction::kAdd:
        return binary(wraps([](uint64_t a, uint64_t b) { return a + b; }));
      case MixedFunction::kSubtract:
        return binary(wraps([](uint64_t a, uint64_t b) { return a - b; }));
      case MixedFunction::kMultiply:
        return binary(wraps([](uint64_t a, uint64_t b) { return a * b; }));
      case MixedFunction::kMaximum:
        return binary([](int64_t a, int64_t b) { return std::max(a, b); });
      case MixedFunction::kMinimum:
        return binary([](int64_t a, int64_t b) { return std::min(a, b); });
      case MixedFunction::kDivide:
        return binary(quotient);
      case MixedFunction::kFloorDivide:
        return binary([](int64_t a, int64_t b) {
          const int64_t r = rest(a, b);
          return quotient(a, b) - (r != 0 && (r < 0) != (b < 0));
        });
      case MixedFunction::kRemainder:
        return binary([](int64_t a, int64_t b) {
          const int64_t r = rest(a, b);
          return r != 0 && (r < 0) != (b < 0) ? r + b : r;
        });
      case MixedFunction::kFmod:
        return binary(rest);
      default:
        break;
    }
  } else if constexpr (std::is_same_v<Wide, float>) {
    if (m.function == MixedFunction::kFmod) return binary([](float a, float b) { return std::fmod(a, b); });
    if (m.function == MixedFunction::kRemainder)
      return binary([](float a, float b) {
        const float r = std::fmod(a, b);
        return r == 0 ? std::copysign(0.0f, b) : (r < 0) != (b < 0) ? r + b : r;
      });
  }
}

bool divides_whole(const MixedArithmetic& m) {
  const MixedFunction f = m.function;
  return m.whole_b && (f == MixedFunction::kDivide || f == MixedFunction::kFloorDivide ||
                       f == MixedFunction::kRemainder || f == MixedFunction::kFmod);
}

bool narrows(const MixedArithmetic& m) {
  return m.function == MixedFunction::kToInt32 || (m.function == MixedFunction::kConvert && m.whole_y && !m.whole_a);
}

// Whether elements `first` .. `last` have results: no divisor is zero, no number is beyond those that it becomes.
bool has_results(const MixedArithmetic& m, int64_t first, int64_t last) {
  const int inner = m.rank - 1;
  const bool divides = divides_whole(m), whole = divides || m.whole_a;
  const float bound = m.function == MixedFunction::kToInt32 ? 0x1p31f : 0x1p63f;
  bool fine = true;
  over_rows(m, first, last, [&](int64_t, int64_t n, int64_t a_offset, int64_t b_offset) {
    const int64_t step = divides ? m.b_step[inner] : m.a_step[inner];
    if (whole) {
      const int64_t* x =
          divides ? static_cast<const int64_t*>(m.b) + b_offset : static_cast<const int64_t*>(m.a) + a_offset;
      for (int64_t i = 0; i < n; i++)
        fine &= divides ? x[i * step] != 0 : x[i * step] == static_cast<int32_t>(x[i * step]);
    } else {
      const float* x = static_cast<const float*>(m.a) + a_offset;
      for (int64_t i = 0; i < n; i++) fine &= std::fabs(x[i * step]) < bound;
    }
  });
  return fine;
}

}  // namespace

bool mixed_arithmetic(const MixedArithmetic& m, int threads) {
  int64_t count = 1;
  for (int axis = 0; axis < m.rank; axis++) count *= m.size[axis];
  const int64_t items = (count + kItem - 1) / kItem;
  const auto over_items = [&](auto body) {
    dynamic_items(items < 3 ? 1 : threads, items,
                  [&](int64_t item) { body(item * kItem, std::min(count, (item + 1) * kItem)); });
  };
  if (divides_whole(m) || narrows(m)) {
    std::atomic<bool> fine{true};
    over_items([&](int64_t first, int64_t last) {
      if (!has_results(m, first, last)) fine = false;
    });
    if (!fine) return false;
  }
  over_items([&](int64_t first, int64_t last) {
    if (m.whole_a && m.whole_b)
      run<int64_t>(m, first, last);
    else if (!m.whole_a && !m.whole_b)
      run<float>(m, first, last);
    else
      run<double>(m, first, last);
  });
  return true;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
