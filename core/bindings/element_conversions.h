// Elements of tensors in the types of programs, converted to and from those of kernels as NumPy converts them.
#pragma once
#include <cstdint>

namespace openbnns {

using ConvertElements = void (*)(const char* from, char* to, int64_t count);
using ElementsFit = bool (*)(const char* floats, int64_t count);  // which are aligned

// Conversions of the elements of a type, by NumPy's letter; null where there is none.
struct ElementConversions {
  char letter;
  int64_t bytes;
  ConvertElements to_floats, from_floats;
  ElementsFit floats_fit;                      // whether all floats have a counterpart; null: always
  ConvertElements to_integers, from_integers;  // of 64 bits
};

// True if all magnitudes are below a limit, and none is NaN.
bool all_below(const float* floats, int64_t count, float limit);

// Floats rounded to float16 and back; `to` may be `from`.
void round_to_half(const float* from, float* to, int64_t count);

// Null for types that are not known.
const ElementConversions* conversions_of(char letter);

}  // namespace openbnns
