#include "bindings/element_conversions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace openbnns {
namespace {

struct Half {
  uint16_t bits;
};

template <class To, class From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

float widened(Half half) {
  const uint32_t sign = (half.bits & 0x8000u) << 16, rest = half.bits & 0x7fffu;
  if (rest >= 0x7c00) return same_bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400) return same_bits<float>(sign | ((rest << 13) + 0x38000000u));
  return same_bits<float>(sign | same_bits<uint32_t>(static_cast<float>(rest) * 0x1p-24f));
}

// To the nearest, ties to even.
Half rounded(float value) {
  const uint32_t bits = same_bits<uint32_t>(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  uint32_t half;
  if (rest > 0x7f800000u)
    half = std::max(0x7c00u + (rest >> 13 & 0x3ffu), 0x7c01u);
  else if (rest >= 0x477ff000u)
    half = 0x7c00u;
  else if (rest >= 0x38800000u)
    half = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
  else  // the sum has the steps of small halves
    half = same_bits<uint32_t>(same_bits<float>(rest) + 0.5f) - 0x3f000000u;
  return {static_cast<uint16_t>(sign | half)};
}

template <class From, class To>
void convert(const char* from, char* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    From read;
    std::memcpy(&read, from + i * sizeof read, sizeof read);
    To made;
    if constexpr (std::is_same_v<From, Half>)
      made = widened(read);
    else if constexpr (std::is_same_v<To, Half>)
      made = rounded(read);
    else if constexpr (std::is_same_v<To, bool>)
      made = read != From{};
    else
      made = static_cast<To>(read);
    std::memcpy(to + i * sizeof made, &made, sizeof made);
  }
}

#if defined(__x86_64__)
// Eight at a time, where the CPU has instructions for it.
__attribute__((target("avx,f16c"))) void widen(const char* from, char* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + 4 * i), _mm256_cvtph_ps(halves));
  }
  convert<Half, float>(from + 2 * i, to + 4 * i, count - i);
}

__attribute__((target("avx,f16c"))) void round(const char* from, char* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 floats = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 4 * i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
  }
  convert<float, Half>(from + 4 * i, to + 2 * i, count - i);
}

bool has_halves() { return __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c"); }
#else
constexpr auto widen = convert<Half, float>;
constexpr auto round = convert<float, Half>;

bool has_halves() { return false; }
#endif

template <class To>
bool floats_fit(const char* from, int64_t count) {
  constexpr float above = static_cast<float>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  constexpr float below = std::is_signed_v<To> ? -above - 1 : -1;  // -2^31 - 1 is -2^31 as a float
  constexpr bool closed = sizeof(To) > 2 && std::is_signed_v<To>;
  const auto* floats = reinterpret_cast<const float*>(from);
  int bad = 0;
  for (int64_t i = 0; i < count; i++)
    bad |= !(floats[i] < above) | (closed ? !(floats[i] >= below) : !(floats[i] > below));
  return bad == 0;
}

template <class T>
constexpr ElementConversions integer(char letter) {
  return {letter, sizeof(T), nullptr, convert<float, T>, floats_fit<T>, convert<T, int64_t>, convert<int64_t, T>};
}

}  // namespace

bool all_below(const float* floats, int64_t count, float limit) {
  int bad = 0;
  for (int64_t i = 0; i < count; i++) bad |= !(std::fabs(floats[i]) < limit);
  return bad == 0;
}

void round_to_half(const float* from, float* to, int64_t count) {
  static const ElementConversions& half = *conversions_of('e');
  char halves[2 * 256];
  for (int64_t i = 0, part; i < count; i += part) {
    part = std::min<int64_t>(count - i, 256);
    half.from_floats(reinterpret_cast<const char*>(from + i), halves, part);
    half.to_floats(halves, reinterpret_cast<char*>(to + i), part);
  }
}

const ElementConversions* conversions_of(char letter) {
  static const bool halves = has_halves();
  static const ElementConversions types[] = {
      {'f', 4, nullptr, nullptr, nullptr, nullptr, nullptr},
      {'e', 2, halves ? widen : convert<Half, float>, halves ? round : convert<float, Half>, nullptr, nullptr, nullptr},
      {'?', 1, nullptr, convert<float, bool>, nullptr, convert<uint8_t, int64_t>, convert<int64_t, bool>},
      integer<int8_t>('b'),
      integer<uint8_t>('B'),
      integer<int16_t>('h'),
      integer<uint16_t>('H'),
      integer<int32_t>('i'),
      integer<int64_t>('l'),
  };
  const auto* found = std::find_if(std::begin(types), std::end(types), [&](auto& t) { return t.letter == letter; });
  return found == std::end(types) ? nullptr : found;
}

}  // namespace openbnns
