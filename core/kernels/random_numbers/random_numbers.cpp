// Random fills. This file is compiled without fused multiply-adds but those that it names: every operation is one that
// IEEE arithmetic defines to the last bit, in the order of reference/random_numbers.py, so the numbers are the
// same on every machine. Words come from AES-128 in counter mode; RandomFill::draw counts those used before.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "common/scratch_uses.h"
#include "kernels/instruction_sets.h"
#include "kernels/kernels.h"
#include "runtime/dynamic_items.h"
#include "runtime/scratch.h"
#include "simd/vec.h"
#if defined(__x86_64__)
#include <wmmintrin.h>
#endif

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kPart = 16384;  // numbers of one task
constexpr int64_t kSerial = 4096;

constexpr int kGroup = 64;               // words made at a time
constexpr int kBlocks = kGroup / 4 + 1;  // that they lie in, wherever the first one is

// ---- AES-128 (FIPS 197); byte 4c + r of a block is row r, column c of its state ----

constexpr uint8_t doubled(uint8_t a) { return static_cast<uint8_t>(a << 1 ^ (a & 0x80 ? 0x1B : 0)); }
constexpr uint8_t turned(uint8_t a, int bits) { return static_cast<uint8_t>(a << bits | a >> (8 - bits)); }

// The S-box: the inverse in the field of 2^8 elements, then a map that is linear over its bits.
struct Substitutes {
  uint8_t of[256] = {};
  constexpr Substitutes() {
    uint8_t a = 1, inverse = 1;
    for (int i = 0; i < 255; i++) {  // a goes through all powers of 3, and inverse through those of 1/3
      a = static_cast<uint8_t>(a ^ doubled(a));
      for (int shift = 1; shift <= 4; shift *= 2) inverse = static_cast<uint8_t>(inverse ^ inverse << shift);
      if (inverse & 0x80) inverse ^= 0x09;
      of[a] = static_cast<uint8_t>(inverse ^ turned(inverse, 1) ^ turned(inverse, 2) ^ turned(inverse, 3) ^
                                   turned(inverse, 4) ^ 0x63);
    }
    of[0] = 0x63;
  }
};
constexpr Substitutes kSubstitutes;

// The stream of a seed: its round keys, and where it goes on.
struct Keystream {
  alignas(16) uint8_t key[11][16];
  uint64_t position;

  Keystream(uint64_t seed, uint64_t words_used) : position(words_used) {
    for (int i = 0; i < 16; i++) key[0][i] = static_cast<uint8_t>(seed >> 8 * (i % 8));
    uint8_t* byte = key[0];
    uint8_t constant = 1;
    for (int i = 16; i < 176; i += 4) {
      uint8_t column[4];
      for (int r = 0; r < 4; r++) column[r] = i % 16 ? byte[i - 4 + r] : kSubstitutes.of[byte[i - 4 + (r + 1) % 4]];
      if (i % 16 == 0) {
        column[0] ^= constant;
        constant = doubled(constant);
      }
      for (int r = 0; r < 4; r++) byte[i + r] = byte[i - 16 + r] ^ column[r];
    }
  }
};

void encrypt(const Keystream& stream, uint8_t* state) {
  for (int i = 0; i < 16; i++) state[i] ^= stream.key[0][i];
  for (int round = 1; round <= 10; round++) {
    uint8_t a[16];
    for (int i = 0; i < 16; i++) a[i] = kSubstitutes.of[state[5 * i % 16]];  // row r moves r columns to the left
    for (int i = 0; i < 16; i++) {
      const uint8_t* column = a + i / 4 * 4;
      const uint8_t every = column[0] ^ column[1] ^ column[2] ^ column[3];
      const uint8_t mixed = a[i] ^ every ^ doubled(a[i] ^ column[(i + 1) % 4]);
      state[i] = (round < 10 ? mixed : a[i]) ^ stream.key[round][i];
    }
  }
}

void blocks_by_tables(const Keystream& stream, uint64_t first, uint8_t (*out)[16]) {
  for (int b = 0; b < kBlocks; b++) {
    for (int i = 0; i < 16; i++)
      out[b][i] = i < 8 ? 0 : static_cast<uint8_t>((first + static_cast<uint64_t>(b)) >> 8 * (15 - i));
    encrypt(stream, out[b]);
  }
}

#if defined(__x86_64__)
__attribute__((target("aes,sse2"))) void blocks_by_instructions(const Keystream& stream, uint64_t first,
                                                                uint8_t (*out)[16]) {
  const __m128i* key = reinterpret_cast<const __m128i*>(stream.key);
  __m128i state[kBlocks];
  for (int b = 0; b < kBlocks; b++) {
    const uint64_t counter = __builtin_bswap64(first + static_cast<uint64_t>(b));
    state[b] = _mm_xor_si128(_mm_set_epi64x(static_cast<long long>(counter), 0), key[0]);
  }
  for (int round = 1; round < 10; round++)
    for (int b = 0; b < kBlocks; b++) state[b] = _mm_aesenc_si128(state[b], key[round]);
  for (int b = 0; b < kBlocks; b++)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out[b]), _mm_aesenclast_si128(state[b], key[10]));
}
#endif

// The words first .. first + kGroup - 1 behind the position of the stream.
__attribute__((noinline)) void words_from(const Keystream& stream, uint64_t first, uint32_t* words) {
  const uint64_t begin = stream.position + first;
  uint8_t blocks[kBlocks][16];
#if defined(__x86_64__)
  static std::atomic<int> aes{-1};  // asking takes as long as many numbers; no lock, which a fork could leave taken
  if (aes.load(std::memory_order_relaxed) < 0) aes.store(has_aes(), std::memory_order_relaxed);
  if (aes.load(std::memory_order_relaxed))
    blocks_by_instructions(stream, begin / 4, blocks);
  else
#endif
    blocks_by_tables(stream, begin / 4, blocks);
  const uint8_t* byte = blocks[0] + begin % 4 * 4;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  std::memcpy(words, byte, 4 * kGroup);
#else
  for (int i = 0; i < kGroup; i++, byte += 4)
    words[i] = byte[0] | byte[1] << 8 | byte[2] << 16 | static_cast<uint32_t>(byte[3]) << 24;
#endif
}

// body(words, first number, numbers) for groups of kGroup words; `words_each` words make one number.
template <class Body>
void over_groups(const RandomFill& fill, int words_each, int threads, const Body& body) {
  const Keystream stream(fill.seed, fill.draw);
  const int64_t count = fill.count, tasks = (count + kPart - 1) / kPart, group = kGroup / words_each;
  dynamic_items(count < kSerial ? 1 : threads, tasks, [&](int64_t task) {
    uint32_t words[kGroup];
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
  over_groups(fill, 1, threads, [&](const uint32_t* words, int64_t first, int64_t numbers) {
    double z[kGroup];
    make(words, first, numbers, z);
    if (fill.wide)
      std::copy(z, z + numbers, static_cast<double*>(fill.out) + first);
    else
      for (int64_t k = 0; k < numbers; k++) static_cast<float*>(fill.out)[first + k] = static_cast<float>(z[k]);
  });
}

// word / 2^32 as a float has it: 0 to 1
inline float unit(uint32_t word) { return static_cast<float>(word) * 0x1p-32f; }

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
typedef float HalfFloats __attribute__((vector_size(kWidth * 2)));
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

// word / 2^32 as a float has it, but at least 2^-33
inline Reals unit(HalfWords words) {
  const Reals u = __builtin_convertvector(__builtin_convertvector(words, HalfFloats), Reals) * 0x1p-32;
  const Reals least = Reals{} + 0x1p-33;
  return u < least ? least : u;
}

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
  const float least = static_cast<float>(low), span = static_cast<float>(high) - least;
  const bool finite = std::isfinite(span);
  fill_reals(fill, threads, [=](const uint32_t* words, int64_t, int64_t, double* z) {
    for (int k = 0; k < kGroup; k++) {
      const float u = unit(words[k]);
      const double number = finite ? std::fma(u, span, least) : low + (high - low) * u;
      z[k] = std::min(std::max(number, low), high);
    }
  });
}

void normal_floats(const RandomFill& fill, int threads) {
  const double mean = fill.a, deviation = fill.b;
  fill_reals(fill, threads, [=](const uint32_t* words, int64_t, int64_t, double* z) {
    for (int k = 0; k < kGroup; k += 2 * kReals) {
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
  over_groups(fill, 2, threads, [=](const uint32_t* words, int64_t first, int64_t numbers) {
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
      z[k] = static_cast<double>(
          std::upper_bound(begin, end, std::min<double>(unit(words[k]), 1.0 - 0x1p-33) * end[-1]) - begin);
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
