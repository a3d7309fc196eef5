// Decimal numbers from text, without a locale and without a library that is newer than the systems wheels run on.
#pragma once
#include <cstdint>

namespace openbnns {

// Reads a decimal number at `p`, which ends before `end`: sign, digits with one decimal sign, exponent; or inf,
// infinity, nan. Returns where it ends, or nullptr if there is none. The nearest double, but for numbers of more than
// 15 digits or with large exponents, which may be the one next to it.
const char* read_number(const char* p, const char* end, char decimal, double* value);

}  // namespace openbnns
