// Errors of simd/math.h in units in the last place, against long double, over all exponents of the argument.
// Compiled once per instruction set; prints one line per function and fails when a bound is exceeded.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "simd/math.h"

#define OPENBNNS_STRING2(a) #a
#define OPENBNNS_STRING(a) OPENBNNS_STRING2(a)

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

using Wide = long double;

float from_word(uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Distance between `got` and the exact value in units of the float spacing around the exact value.
double ulp_error(float got, Wide exact) {
  constexpr Wide kLargest = std::numeric_limits<float>::max();
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  Wide magnitude = std::fabs(exact);
  int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), -126) : -126;
  if (exponent >= 128) return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : std::isinf(exact) ? 1e9 : 1;
  Wide spacing = std::ldexp(Wide(1), exponent - 23);
  Wide value = std::isinf(got) ? std::copysign(kLargest + std::ldexp(Wide(1), 104), Wide(got)) : Wide(got);
  return static_cast<double>(std::fabs(value - exact) / spacing);
}

struct Case {
  const char* name;
  Vec (*vector)(Vec);
  Wide (*exact)(Wide);
  double bound;
  bool odd;
};

Wide exact_sigmoid(Wide x) { return 1 / (1 + std::exp(-x)); }
Wide exact_softplus(Wide x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
Wide exact_rsqrt(Wide x) { return 1 / std::sqrt(x); }
Wide exact_round(Wide x) { return std::nearbyint(x); }

#define OPENBNNS_CASE(name, bound, odd) \
  {#name, [](Vec x) { return math::name(x); }, [](Wide x) { return Wide(std::name(x)); }, bound, odd}

const Case kCases[] = {
    OPENBNNS_CASE(exp, 2, false),
    {"exp (<= 0)", [](Vec x) { return math::exp_not_positive(-math::abs(x)); },
     [](Wide x) { return std::exp(-std::fabs(x)); }, 2, false},
    OPENBNNS_CASE(exp2, 2, false),
    {"exp2 (|x| <= 126)",
     [](Vec x) { return math::exp2_between(math::max(splat(-126.0f), math::min(splat(126.0f), x))); },
     [](Wide x) { return std::isnan(x) ? x : std::exp2(std::clamp<Wide>(x, -126, 126)); }, 2, false},
    OPENBNNS_CASE(expm1, 2, false),
    OPENBNNS_CASE(log, 2, false),
    OPENBNNS_CASE(log2, 2, false),
    OPENBNNS_CASE(log1p, 2, false),
    OPENBNNS_CASE(tanh, 2, true),
    {"sigmoid", [](Vec x) { return math::sigmoid(x); }, exact_sigmoid, 2.25, false},
    {"softplus", [](Vec x) { return math::softplus(x); }, exact_softplus, 2, false},
    OPENBNNS_CASE(erf, 2, true),
    OPENBNNS_CASE(sin, 2, true),
    OPENBNNS_CASE(cos, 2, false),
    OPENBNNS_CASE(tan, 2, true),
    OPENBNNS_CASE(asin, 2, true),
    OPENBNNS_CASE(acos, 2, false),
    OPENBNNS_CASE(atan, 2, true),
    OPENBNNS_CASE(sinh, 2, true),
    OPENBNNS_CASE(cosh, 2, false),
    OPENBNNS_CASE(asinh, 3, true),
    OPENBNNS_CASE(acosh, 3, false),
    OPENBNNS_CASE(atanh, 3, true),
    OPENBNNS_CASE(sqrt, 0.5, false),
    {"rsqrt", [](Vec x) { return math::rsqrt(x); }, exact_rsqrt, 2, false},
    OPENBNNS_CASE(floor, 0, false),
    OPENBNNS_CASE(ceil, 0, false),
    OPENBNNS_CASE(trunc, 0, true),
    {"round_even", [](Vec x) { return math::round_even(x); }, exact_round, 0, true},
};

// Every 2^k-th float of both signs, plus the neighbourhoods of the places where the functions change formula.
std::vector<float> arguments(uint32_t step) {
  std::vector<float> all;
  for (uint64_t word = 0; word < 0x7f800000u; word += step) {
    float value = from_word(static_cast<uint32_t>(word));
    all.push_back(value);
    all.push_back(-value);
  }
  const float places[] = {0.0f,        1e-38f,     1e-20f, 1e-15f, 0.25f,       0.3465736f, 0.5f,   0.693147f,
                          0.70710678f, 0.92f,      1.0f,   1.5f,   1.41421356f, 1.5707963f, 2.0f,   2.5f,
                          3.0f,        3.1415927f, 3.9f,   4.0f,   9.01f,       10.0f,      17.0f,  25.0f,
                          87.3f,       88.7f,      88.8f,  89.4f,  90.0f,       103.9f,     104.5f, 126.0f,
                          128.0f,      149.5f,     1e5f,   1e6f,   8388608,     1e9f};
  for (float place : places) {
    uint32_t word;
    std::memcpy(&word, &place, sizeof word);
    for (int64_t offset = -300; offset <= 300; offset++) {
      int64_t near = static_cast<int64_t>(word) + offset;
      if (near < 0 || near > 0x7f7fffff) continue;
      all.push_back(from_word(static_cast<uint32_t>(near)));
      all.push_back(-all.back());
    }
  }
  for (int n = 1; n < 4000; n++) all.push_back(static_cast<float>(n * 1.5707963267948966));
  for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, std::numeric_limits<float>::max()})
    all.push_back(special);
  while (all.size() % kWidth) all.push_back(1.0f);
  return all;
}

bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0; }

bool run(const Case& c, const std::vector<float>& x) {
  double worst = 0;
  float at = 0, got_at = 0;
  bool signs = true;
  for (size_t i = 0; i < x.size(); i += kWidth) {
    Vec v = load(&x[i]);
    Vec got = c.vector(v), mirrored = c.vector(-v);
    for (int lane = 0; lane < kWidth; lane++) {
      Wide exact = c.exact(x[i + lane]);
      double error = ulp_error(got[lane], exact);
      if (error > worst) worst = error, at = v[lane], got_at = got[lane];
      if (c.odd && !same(got[lane], -mirrored[lane])) signs = false;
      // the sign of zero results follows the mathematical library's
      if (exact == 0 && got[lane] == 0 && std::signbit(exact) != std::signbit(got[lane])) signs = false;
    }
  }
  bool good = worst <= c.bound && signs;
  std::printf("%-7s %-10s %8.3f ulp at %-14.8g (%.9g)%s%s\n", OPENBNNS_STRING(OPENBNNS_ISA), c.name, worst, at, got_at,
              signs ? "" : "  WRONG SIGN", good ? "" : "  FAILED");
  return good;
}

bool run_pow() {
  double worst = 0;
  float at_x = 0, at_y = 0;
  std::vector<float> bases, exponents;
  for (uint32_t word = 0; word < 0x7f800000u; word += 0x0007f3c1) bases.push_back(from_word(word));
  for (float v : {0.0f, 1.0f, 2.0f, 3.0f, 10.0f, INFINITY, NAN, 0.99999994f, 1.0000001f}) bases.push_back(v);
  size_t positive = bases.size();
  for (size_t i = 0; i < positive; i++) bases.push_back(-bases[i]);
  for (float v : {0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 0.3333333f, 7.0f, 1e-3f, 17.3f, 100.5f, 1e-30f, 16777216.0f, 1e30f,
                  88.2f, INFINITY, NAN, 1.4f, 2.718f, 31.0f}) {
    exponents.push_back(v);
    exponents.push_back(-v);
  }
  for (float y : exponents)
    for (float x : bases) {
      float got = math::pow(splat(x), splat(y))[kWidth - 1];
      double error = ulp_error(got, std::pow(Wide(x), Wide(y)));
      if (error > worst) worst = error, at_x = x, at_y = y;
    }
  std::printf("%-7s %-10s %8.3f ulp at %.8g ^ %.8g%s\n", OPENBNNS_STRING(OPENBNNS_ISA), "pow", worst, at_x, at_y,
              worst <= 2 ? "" : "  FAILED");
  return worst <= 2;
}

}  // namespace

int run_all(uint32_t step) {
  std::vector<float> x = arguments(step);
  int failures = 0;
  for (const Case& c : kCases) failures += !run(c, x);
  return failures + !run_pow();
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns

// An argument sets the distance between tested floats (in bit patterns; 1 = all of them).
int main(int argc, char** argv) {
  uint32_t step = argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 0)) : 4099;
  int failures = openbnns::OPENBNNS_ISA::run_all(step);
  std::printf(failures ? "%d functions failed\n" : "all functions within bounds\n", failures);
  return failures != 0;
}
