// Random fills. This file is compiled without fused multiply-adds: every operation is one that IEEE arithmetic defines
// to the last bit, in the order of engines/reference/random_numbers.py, so the numbers are the same on every machine.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/makers.h"
#include "kernels/scratch_uses.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/random.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kPart = 16384;  // numbers of one task
constexpr int64_t kSerial = 4096;

__attribute__((noinline)) void words_from(RandomStream stream, uint64_t first, uint32_t words[kRandomGroup]) {
  random_words(stream, first, words);
}

// body(words, first number, numbers) for groups of kRandomGroup words; `words_each` words make one number.
template <class Body>
void over_groups(RandomStream stream, int64_t count, int words_each, int threads, const Body& body) {
  const int64_t tasks = (count + kPart - 1) / kPart, group = kRandomGroup / words_each;
  dynamic_items(count < kSerial ? 1 : threads, tasks, [&](int64_t task) {
    uint32_t words[kRandomGroup];
    const int64_t end = std::min(count, (task + 1) * kPart);
    for (int64_t i = task * kPart; i < end; i += group) {
      words_from(stream, static_cast<uint64_t>(i * words_each), words);
      body(words, i, std::min(group, end - i));
    }
  });
}

// The same for fills of real numbers: make(words, z) gives all numbers of a group, of which some are stored.
template <class Make>
void fill_reals(const RandomFill& fill, int threads, const Make& make) {
  over_groups({fill.seed, fill.draw}, fill.count, 1, threads,
              [&](const uint32_t* words, int64_t first, int64_t numbers) {
                double z[kRandomGroup];
                make(words, first, numbers, z);
                if (fill.wide)
                  std::copy(z, z + numbers, static_cast<double*>(fill.out) + first);
                else
                  for (int64_t k = 0; k < numbers; k++)
                    static_cast<float*>(fill.out)[first + k] = static_cast<float>(z[k]);
              });
}

// The middle of one of 2^32 equal cells of (0, 1).
inline double unit(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

// c[0] + c[1] z + ... by Horner's rule
template <int kCount, class Real>
inline Real series(const double (&c)[kCount], Real z) {
  Real total = z * c[kCount - 1] + c[kCount - 2];
  for (int k = kCount - 3; k >= 0; k--) total = total * z + c[k];
  return total;
}

constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

constexpr double kLn2 = 0.6931471805599453, kTwoPi = 6.283185307179586, kRootHalf = 0.7071067811865476;
constexpr double kArtanh[] = {1.0,        1.0 / 3.0,  1.0 / 5.0,  1.0 / 7.0,  1.0 / 9.0,  1.0 / 11.0,
                              1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0};
constexpr double kSine[] = {1.0,
                            -1.0 / factorial(3),
                            1.0 / factorial(5),
                            -1.0 / factorial(7),
                            1.0 / factorial(9),
                            -1.0 / factorial(11),
                            1.0 / factorial(13),
                            -1.0 / factorial(15),
                            1.0 / factorial(17)};
constexpr double kCosine[] = {1.0,
                              -1.0 / factorial(2),
                              1.0 / factorial(4),
                              -1.0 / factorial(6),
                              1.0 / factorial(8),
                              -1.0 / factorial(10),
                              1.0 / factorial(12),
                              -1.0 / factorial(14),
                              1.0 / factorial(16),
                              -1.0 / factorial(18)};
constexpr double kExponential[] = {1.0,
                                   1.0,
                                   1.0 / factorial(2),
                                   1.0 / factorial(3),
                                   1.0 / factorial(4),
                                   1.0 / factorial(5),
                                   1.0 / factorial(6),
                                   1.0 / factorial(7),
                                   1.0 / factorial(8),
                                   1.0 / factorial(9),
                                   1.0 / factorial(10),
                                   1.0 / factorial(11),
                                   1.0 / factorial(12),
                                   1.0 / factorial(13),
                                   1.0 / factorial(14)};

inline double double_of(int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// exp x for x <= 0, 0 below -700
inline double exponential(double x) {
  if (!(x >= -700.0)) return 0.0;
  const double n = std::nearbyint(x / kLn2);
  const double value = series(kExponential, x - n * kLn2);
  return value * double_of((static_cast<int64_t>(n) + 1023) << 52);
}

// Lanes of doubles, and of their bits.
typedef double Reals __attribute__((vector_size(kWidth * 4)));
typedef int64_t RealBits __attribute__((vector_size(kWidth * 4)));
typedef uint32_t HalfWords __attribute__((vector_size(kWidth * 2)));
constexpr int kReals = kWidth / 2;

inline RealBits bits_of(Reals x) { return reinterpret_cast<RealBits>(x); }
inline Reals double_of(RealBits bits) { return reinterpret_cast<Reals>(bits); }

// log x of normal positive x = m 2^e, with m around 1
inline Reals logarithm(Reals x) {
  constexpr double kInteger = 0x1p52;  // what is added to this as bits is added as a number
  const RealBits bits = bits_of(x);
  Reals m = double_of((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000);
  Reals e = double_of((bits >> 52) | 0x4330000000000000) - (kInteger + 1022.0);
  const RealBits below = m < kRootHalf;
  m = below ? 2.0 * m : m;
  e = below ? e - 1.0 : e;
  const Reals s = (m - 1.0) / (m + 1.0);
  return e * kLn2 + 2.0 * s * series(kArtanh, s * s);
}

inline Reals square_root(Reals x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_pd(0xff, x);  // without a mask GCC 12 warns of its own header
#elif defined(__AVX2__)
  return _mm256_sqrt_pd(x);
#elif defined(__SSE2__)
  return _mm_sqrt_pd(x);
#else
  for (int k = 0; k < kReals; k++) x[k] = std::sqrt(x[k]);
  return x;
#endif
}

inline Reals unit(HalfWords words) { return (__builtin_convertvector(words, Reals) + 0.5) * 0x1p-32; }

// Two normal numbers from each two words.
inline void normal_pairs(HalfWords first, HalfWords second, Reals& z0, Reals& z1) {
  const Reals radius = square_root(-2.0 * logarithm(unit(first))), turns = unit(second);
  const HalfWords place = __builtin_convertvector(4.0 * turns + 0.5, HalfWords);  // the next quarter turn
  const Reals angle = kTwoPi * (turns - __builtin_convertvector(place, Reals) / 4.0), square = angle * angle;
  const Reals sine = angle * series(kSine, square), cosine = series(kCosine, square);
  const RealBits quarter = __builtin_convertvector(place, RealBits) & 3;
  const RealBits odd = (quarter & 1) != 0;
  const Reals c = odd ? sine : cosine, s = odd ? cosine : sine;
  z0 = radius * (((quarter == 1) | (quarter == 2)) ? -c : c);
  z1 = radius * (quarter >= 2 ? -s : s);
}

void uniform_floats(const RandomFill& fill, int threads) {
  const double low = fill.a, high = fill.b;
  fill_reals(fill, threads, [=](const uint32_t* words, int64_t, int64_t, double* z) {
    for (int k = 0; k < kRandomGroup; k++) {
      const double u = (static_cast<double>(words[k] >> 9) + 0.5) * 0x1p-23;
      z[k] = std::min(std::max(low + (high - low) * u, low), high);
    }
  });
}

void normal_floats(const RandomFill& fill, int threads) {
  const double mean = fill.a, deviation = fill.b;
  fill_reals(fill, threads, [=](const uint32_t* words, int64_t, int64_t, double* z) {
    for (int k = 0; k < kRandomGroup; k += 2 * kReals) {
      HalfWords first, second;
      for (int r = 0; r < kReals; r++) {
        first[r] = words[k + 2 * r];
        second[r] = words[k + 2 * r + 1];
      }
      Reals z0, z1;
      normal_pairs(first, second, z0, z1);
      for (int r = 0; r < kReals; r++) {
        z[k + 2 * r] = mean + deviation * z0[r];
        z[k + 2 * r + 1] = mean + deviation * z1[r];
      }
    }
  });
}

void uniform_integers(const RandomFill& fill, int threads) {
  const int64_t low = fill.low;
  const uint64_t span = fill.span;
  int64_t* out = static_cast<int64_t*>(fill.out);
  over_groups(
      {fill.seed, fill.draw}, fill.count, 2, threads, [=](const uint32_t* words, int64_t first, int64_t numbers) {
        for (int64_t k = 0; k < numbers; k++) {
          const uint64_t r = words[2 * k] | static_cast<uint64_t>(words[2 * k + 1]) << 32;
          const uint64_t offset = span == 0 ? r : static_cast<uint64_t>(static_cast<unsigned __int128>(r) * span >> 64);
          out[first + k] = static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
        }
      });
}

// limits[k] = p[0] + ... + p[k]; logarithms become exp(p - max p) first
void cumulate(const double* p, int64_t categories, bool logarithms, double* limits) {
  const double largest = logarithms ? *std::max_element(p, p + categories) : 0.0;
  double total = 0;
  for (int64_t k = 0; k < categories; k++) {
    const double value = logarithms ? exponential(p[k] - largest) : p[k];
    total = k == 0 ? value : total + value;
    limits[k] = total;
  }
}

void categories(const RandomFill& fill, int threads) {
  const RandomCategories& c = fill.distribution;
  const int64_t K = c.categories, rows = c.distributions;
  double* limits = reinterpret_cast<double*>(scratch(kPartialSums, static_cast<size_t>(2 * rows * K)));
  parallel_items(rows * K < kSerial ? 1 : threads, rows,
                 [&](int64_t row) { cumulate(c.probabilities + row * K, K, c.logarithms, limits + row * K); });
  fill_reals(fill, threads, [&](const uint32_t* words, int64_t first, int64_t numbers, double* z) {
    for (int64_t k = 0; k < numbers; k++) {
      const double *begin = limits + (first + k) / c.draws * K, *end = begin + K;
      z[k] = static_cast<double>(std::upper_bound(begin, end, unit(words[k]) * end[-1]) - begin);
    }
  });
}

}  // namespace

void random_fill(const RandomFill& fill, int threads) {
  switch (fill.kind) {
    case RandomFill::kUniformFloat:
      return uniform_floats(fill, threads);
    case RandomFill::kNormalFloat:
      return normal_floats(fill, threads);
    case RandomFill::kUniformInteger:
      return uniform_integers(fill, threads);
    default:
      return categories(fill, threads);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
