// Sums of products over named axes: c[...] = alpha * sum a[...] * b[...], to which matrix products, tensor contractions
// and Gram matrices reduce, forward and backward.
#pragma once
#include <cstdint>

#include "common/element.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// One index of the sum, with the distance it moves in each tensor; 0 where a tensor does not have it.
struct ContractionAxis {
  int64_t size, a, b, c;

  bool summed() const { return c == 0; }
  bool repeated() const { return a == 0 && b == 0 && c != 0; }  // the same result, repeated
  bool batch() const { return a && b && c; }
  bool row() const { return a && !b && c; }
  bool column() const { return !a && b && c; }
};

constexpr int kMaxAxes = 24;

struct AxisList {
  ContractionAxis axis[kMaxAxes];
  int count = 0;

  void add(const ContractionAxis& x) { axis[count++] = x; }
  ContractionAxis take(int i) {  // out of the list
    ContractionAxis x = axis[i];
    for (count--; i < count; i++) axis[i] = axis[i + 1];
    return x;
  }
  ContractionAxis* begin() { return axis; }
  ContractionAxis* end() { return axis + count; }
  const ContractionAxis* begin() const { return axis; }
  const ContractionAxis* end() const { return axis + count; }
  int64_t product() const {
    int64_t n = 1;
    for (const ContractionAxis& x : *this) n *= x.size;
    return n;
  }
};

struct Contraction {
  AxisList axes;
  const float* a = nullptr;
  const float* b = nullptr;  // null: there is one operand
  float* c = nullptr;
  float alpha = 1;
  bool accumulate = false;  // add to c
  // What the tensors are stored as, for contract_stored; for all others, float32.
  Element a_element, b_element, c_element;
  bool bfloat16 = false;  // of float32: rounded in matrix products
};

// On up to `threads` threads, with the same result for any number of them.
void contract(const Contraction& contraction, int threads);

// The same for tensors of any type, if it is made of matrix products that can read and write them where they are;
// otherwise false, and nothing is done.
bool contract_stored(const Contraction& contraction, int threads);

// Its parts. They take no axes of size 1.

// Without repeated axes: vector loops over the output, for sums that are no matrix products.
void contract_by_loops(const Contraction& p, int threads);

// to[...] = (or +=) scale * from[...], the axes' strides in `from` being their `a` and those in `to` their `c`.
void move_elements(const AxisList& axes, const float* from, float* to, float scale, bool add, int threads);

// Drops axes of size 1 and joins neighbouring axes that can be traversed as one in every tensor.
void simplify(AxisList& axes);

// Offsets of the tensors at one point of a list of axes.
struct Offsets {
  int64_t a = 0, b = 0, c = 0;
};
inline Offsets offsets_at(const AxisList& axes, int64_t index) {
  Offsets o;
  for (int i = axes.count - 1; i >= 0; i--) {
    const ContractionAxis& x = axes.axis[i];
    int64_t at = index % x.size;
    index /= x.size;
    o.a += at * x.a;
    o.b += at * x.b;
    o.c += at * x.c;
  }
  return o;
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
