#include "tables/numbers.h"

#include <limits>

namespace openbnns {
namespace {

constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr long double kLongPowers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                       1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                       1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
constexpr int kLongPower = 27;   // the largest power of ten that 64 bits of digits hold exactly
constexpr int kExactPower = 22;  // the largest power of ten that a double holds exactly
constexpr uint64_t kExactInteger = uint64_t{1} << 53;
constexpr int kMostDigits = 19;  // that 64 bits hold, whatever they are

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the letters at p are those of a word, in any case.
bool spells(const char* p, const char* end, const char* word) {
  for (; *word; p++, word++)
    if (p == end || (*p | 0x20) != *word) return false;
  return true;
}

// digits * 10^exponent where one of the two is too large to be exact in double.
double scaled(uint64_t digits, int64_t exponent) {
  if (digits == 0 || exponent < -400) return 0;
  if (exponent > 400) return std::numeric_limits<double>::infinity();
  long double value = digits;
  for (int64_t left = exponent; left > 0; left -= kLongPower)
    value *= kLongPowers[left < kLongPower ? left : kLongPower];
  for (int64_t left = -exponent; left > 0; left -= kLongPower)
    value /= kLongPowers[left < kLongPower ? left : kLongPower];
  return static_cast<double>(value);
}

const char* read_word(const char* p, const char* end, double* value) {
  if (spells(p, end, "infinity") || spells(p, end, "inf")) {
    *value = std::numeric_limits<double>::infinity();
    return p + (spells(p, end, "infinity") ? 8 : 3);
  }
  if (!spells(p, end, "nan")) return nullptr;
  *value = std::numeric_limits<double>::quiet_NaN();
  return p + 3;
}

}  // namespace

const char* read_number(const char* p, const char* end, char decimal, double* value) {
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) p++;
  if (p == end) return nullptr;
  if (!is_digit(*p) && *p != decimal) {
    p = read_word(p, end, value);
    if (p && negative) *value = -*value;
    return p;
  }
  uint64_t digits = 0;
  int count = 0;         // of digits that are in `digits`, without zeros in front
  int64_t exponent = 0;  // of ten
  const char* begin = p;
  for (; p != end && is_digit(*p); p++) {
    if (count < kMostDigits) {
      digits = digits * 10 + static_cast<uint64_t>(*p - '0');
      count += digits != 0;
    } else {
      exponent++;
    }
  }
  int64_t seen = p - begin;
  if (p != end && *p == decimal) {
    begin = ++p;
    for (; p != end && is_digit(*p); p++) {
      if (count < kMostDigits) {
        digits = digits * 10 + static_cast<uint64_t>(*p - '0');
        count += digits != 0;
        exponent--;
      }
    }
    seen += p - begin;
  }
  if (seen == 0) return nullptr;
  if (p != end && (*p == 'e' || *p == 'E')) {
    const char* q = p + 1;
    const bool down = q != end && *q == '-';
    if (q != end && (*q == '-' || *q == '+')) q++;
    if (q == end || !is_digit(*q)) return nullptr;
    int64_t power = 0;
    for (; q != end && is_digit(*q); q++)
      if (power < 100000) power = power * 10 + (*q - '0');
    exponent += down ? -power : power;
    p = q;
  }
  double found;
  if (digits <= kExactInteger && exponent >= -kExactPower && exponent <= kExactPower)
    found = exponent < 0 ? static_cast<double>(digits) / kPowers[-exponent]
                         : static_cast<double>(digits) * kPowers[exponent];
  else
    found = scaled(digits, exponent);
  *value = negative ? -found : found;
  return p;
}

}  // namespace openbnns
