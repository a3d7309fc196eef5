// Rows of stored numbers to floats, and results to stored numbers.
#pragma once
#include <cstdint>

#include "common/element.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// to[i] = the value of from[i], correctly rounded where float32 has no such number.
void decode(const Element& element, const void* from, int64_t count, float* to);

// to[i] = values[i] in the element type: to the nearest, ties to even; integers saturate, and store NaN as 0.
void encode(const Element& element, const float* values, int64_t count, void* to);
// The same of the values factor * sums[i] + terms[i], in double; sums are int32, or floats that are integers.
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, const double* terms, int64_t count, void* to);
// With one term for all.
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, double term, int64_t count, void* to);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
