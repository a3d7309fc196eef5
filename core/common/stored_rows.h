// Rows of stored numbers to floats, and results to stored numbers.
#pragma once
#include <cstdint>

#include "common/element.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// to[i] = the value of from[i], correctly rounded where float32 has no such number.
void decode(const Element& element, const void* from, int64_t count, float* to);

// Rows of `count` numbers as floats, `stride` apart.
struct FloatRows {
  const float* data;
  int64_t stride;
};
// Of numbers `stride` apart: where they are, or decoded to room[rows][count].
FloatRows float_rows(const Element& element, const float* from, int64_t stride, int64_t rows, int64_t count,
                     float* room);

// to[i] = values[i] in the element type: to the nearest, ties to even; integers saturate, and store NaN as 0.
void encode(const Element& element, const float* values, int64_t count, void* to);
// The same of the values factor * sums[i] + terms[i], in double; sums are int32, or floats that are integers.
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, const double* terms, int64_t count, void* to);
// With a factor for each.
void encode_sums(const Element& element, const int32_t* sums, const double* factors, const double* terms, int64_t count,
                 void* to);
// With one term for all.
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, double term, int64_t count, void* to);

// The same for bytes in single precision, as long as that is certain to give the same numbers.
//
// A result is q = a s + c, rounded, with a = factor / scale, s the sum and c = (term - bias) / scale. In single
// precision s, a, a s, c and q are rounded to 24 bits each, c and q twice: q is wrong by at most 2^-24 (3 |a s| + 2 |c|
// + 2 |q|), which is less than 2^-21 (|c| + |q|). It is in doubt if q less that and q plus that are rounded to
// different integers. If s has no more than 24 bits and a s + c is rounded once, less than 2^-24 (3 |c| + 2 |q|)
// remain, of which 2^-24 |c| are for taking the doubt from c.
class SingleSums {
 public:
  SingleSums(const Element& element, double factor);

  // c of a term, which counts from then on.
  float take(double term);

  // Stores results up to some that have one in doubt; how many. terms: of these sums, as take() gave them.
  template <class Sum>
  int64_t encode(const Sum* sums, const float* terms, int64_t count, void* to) const;
  template <class Sum>
  int64_t encode(const Sum* sums, float term, int64_t count, void* to) const;
  static constexpr int64_t kDoubtful = 32;  // results that are in doubt together, or fewer at the end

  float factor() const { return factor_; }  // a
  float doubt(bool fused = false) const;    // what results may be wrong by; negative: too much

 private:
  bool is_coarse(double number) const;  // a multiple of 2^-14, in units of the scale

  const ElementType type_;
  const double scale_, bias_;
  const float factor_;
  float largest_term_ = 0;
  bool exact_;  // whether nothing is rounded in results that do not saturate
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
