#include "common/stored_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/byte_blocks.h"
#include "simd/math.h"
#include "simd/stored_numbers.h"
#include "simd/wide.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

template <class Numbers>
void decode_as(const Numbers& numbers, const void* from, int64_t count, float* to) {
  const auto* p = static_cast<const typename Numbers::Number*>(from);
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(to + i, numbers.load(p + i));
  if (i < count) store_partial(to + i, numbers.load(p + i, count - i), count - i);
}

// put(address, vector) stores kWidth numbers.
template <class Put>
void encode_shorts(const float* values, int64_t count, void* to, Put put) {
  auto* p = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) put(p + i, load(values + i));
  if (i < count) {
    uint16_t rest[kWidth];
    put(rest, load_partial(values + i, count - i));
    std::copy_n(rest, count - i, p + i);
  }
}

constexpr int kLanes = kWidth / 2;
typedef int32_t Words __attribute__((vector_size(kLanes * 4)));

OPENBNNS_INLINE DoubleVec splat_double(double x) { return x - DoubleVec{}; }

// limited(): between low and high; nearest(): of numbers within the range of int32, ties to even. In instructions,
// because GCC does not find the best ones for vectors of different sizes.
#if defined(__AVX512F__)
OPENBNNS_INLINE DoubleVec load_doubles(const double* p) { return _mm512_loadu_pd(p); }
OPENBNNS_INLINE DoubleVec load_doubles(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
OPENBNNS_INLINE DoubleVec load_doubles(const int32_t* p) {
  return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  return _mm512_min_pd(_mm512_max_pd(v, low), high);
}
OPENBNNS_INLINE Words nearest(DoubleVec v) { return reinterpret_cast<Words>(_mm512_cvtpd_epi32(v)); }
OPENBNNS_INLINE IntVec joined(Words low, Words high) {
  const __m512i wide = _mm512_castsi256_si512(reinterpret_cast<__m256i>(low));
  return reinterpret_cast<IntVec>(_mm512_inserti64x4(wide, reinterpret_cast<__m256i>(high), 1));
}
#elif defined(__AVX2__)
OPENBNNS_INLINE DoubleVec load_doubles(const double* p) { return _mm256_loadu_pd(p); }
OPENBNNS_INLINE DoubleVec load_doubles(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
OPENBNNS_INLINE DoubleVec load_doubles(const int32_t* p) {
  return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  return _mm256_min_pd(_mm256_max_pd(v, low), high);
}
OPENBNNS_INLINE Words nearest(DoubleVec v) { return reinterpret_cast<Words>(_mm256_cvtpd_epi32(v)); }
OPENBNNS_INLINE IntVec joined(Words low, Words high) {
  return reinterpret_cast<IntVec>(_mm256_set_m128i(reinterpret_cast<__m128i>(high), reinterpret_cast<__m128i>(low)));
}
#else
template <class Number>
OPENBNNS_INLINE DoubleVec load_doubles(const Number* p) {
  typedef Number Numbers __attribute__((vector_size(kLanes * sizeof(Number))));
  Numbers v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, DoubleVec);
}
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  v = (v < low) ? low : v;
  return (v > high) ? high : v;
}
OPENBNNS_INLINE Words nearest(DoubleVec v) {
  const DoubleVec whole = splat_double(0x1.8p52);  // numbers of this size have no fraction
  return __builtin_convertvector(v + whole - whole, Words);
}
OPENBNNS_INLINE IntVec joined(Words low, Words high) {
  const Words both[2] = {low, high};
  IntVec all;
  std::memcpy(&all, both, sizeof all);
  return all;
}
#endif

// What is to be stored: kLanes values from i on, or a single one.
struct Values {
  const float* value;
  OPENBNNS_INLINE DoubleVec at(int64_t i) const { return load_doubles(value + i); }
  OPENBNNS_INLINE double single(int64_t i) const { return value[i]; }
};
struct Terms {
  const double* term;
  OPENBNNS_INLINE DoubleVec at(int64_t i) const { return load_doubles(term + i); }
  OPENBNNS_INLINE double single(int64_t i) const { return term[i]; }
};
struct OneTerm {
  double term;
  OPENBNNS_INLINE DoubleVec at(int64_t) const { return splat_double(term); }
  OPENBNNS_INLINE double single(int64_t) const { return term; }
};
template <class Sum, class Added>
struct SumValues {
  const Sum* sum;
  double factor;
  Added added;
  OPENBNNS_INLINE DoubleVec at(int64_t i) const { return splat_double(factor) * load_doubles(sum + i) + added.at(i); }
  OPENBNNS_INLINE double single(int64_t i) const { return factor * static_cast<double>(sum[i]) + added.single(i); }
};

struct ScaledSums {
  const int32_t* sum;
  const double *factor, *term;
  OPENBNNS_INLINE DoubleVec at(int64_t i) const {
    return load_doubles(factor + i) * load_doubles(sum + i) + load_doubles(term + i);
  }
  OPENBNNS_INLINE double single(int64_t i) const { return factor[i] * static_cast<double>(sum[i]) + term[i]; }
};

constexpr int kTogether = 32;  // become bytes at a time: by fours, that would take as long as the rest
typedef IntVec WordsTogether[kTogether / kWidth];

// Saturated to the range of bytes.
#if defined(__AVX2__)
using BytesTogether = __m256i;
template <class Byte>
OPENBNNS_INLINE BytesTogether to_bytes(const WordsTogether& words) {
#if defined(__AVX512F__)
  const auto part = [&](int i) {
    const auto word = reinterpret_cast<__m512i>(words[i]);
    return std::is_signed_v<Byte> ? _mm512_cvtsepi32_epi8(word)
                                  : _mm512_cvtusepi32_epi8(_mm512_max_epi32(word, _mm512_setzero_si512()));
  };
  return _mm256_set_m128i(part(1), part(0));
#else
  const auto word = [&](int i) { return reinterpret_cast<__m256i>(words[i]); };
  const __m256i low = _mm256_packs_epi32(word(0), word(1)), high = _mm256_packs_epi32(word(2), word(3));
  const __m256i mixed = std::is_signed_v<Byte> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  return _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
#endif
}
OPENBNNS_INLINE bool differ(BytesTogether a, BytesTogether b) {
  const __m256i bits = _mm256_xor_si256(a, b);
  return !_mm256_testz_si256(bits, bits);
}
OPENBNNS_INLINE void store_bytes(BytesTogether bytes, void* to) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), bytes);
}
#else
struct BytesTogether {
  uint8_t byte[kTogether];
};
template <class Byte>
OPENBNNS_INLINE BytesTogether to_bytes(const WordsTogether& words) {
  int32_t all[kTogether];
  std::memcpy(all, words, sizeof words);
  BytesTogether bytes;
  for (int i = 0; i < kTogether; i++)
    bytes.byte[i] = static_cast<uint8_t>(
        std::clamp<int32_t>(all[i], std::numeric_limits<Byte>::min(), std::numeric_limits<Byte>::max()));
  return bytes;
}
OPENBNNS_INLINE bool differ(const BytesTogether& a, const BytesTogether& b) {
  return std::memcmp(&a, &b, sizeof a) != 0;
}
OPENBNNS_INLINE void store_bytes(const BytesTogether& bytes, void* to) { std::memcpy(to, &bytes, sizeof bytes); }
#endif

// Numbers within the range of Integer.
template <class Integer>
OPENBNNS_INLINE void store_integers(const WordsTogether& words, Integer* to) {
  if constexpr (sizeof(Integer) == 1)
    store_bytes(to_bytes<Integer>(words), to);
  else
    std::memcpy(to, words, sizeof words);
}

// As integers: to nearest, ties to even, saturated to those of type Integer; NaN is 0.
template <class Integer>
class IntegerEncoder {
 public:
  explicit IntegerEncoder(const Element& element)
      : scale_(splat_double(element.scale)), inverse_(splat_double(1 / static_cast<double>(element.scale))) {
    const double scale = element.scale, bias = element.bias;
    bias_ = splat_double(element.bias_before_scale ? bias * scale : bias);
    const double ends[] = {static_cast<double>(std::numeric_limits<Integer>::min()) * scale,
                           static_cast<double>(std::numeric_limits<Integer>::max()) * scale};
    low_ = splat_double(std::min(ends[0], ends[1]));
    high_ = splat_double(std::max(ends[0], ends[1]));
  }

  // to: not where the source is
  template <class Source>
  void encode(const Source& source, int64_t count, Integer* to) const {
    int64_t i = 0;
    for (; i + kTogether <= count; i += kTogether) encode_together(source, i, to + i);
    if (i == count) return;
    if (count >= kTogether) return encode_together(source, count - kTogether, to + count - kTogether);
    for (; i < count; i++) to[i] = static_cast<Integer>(words(splat_double(source.single(i)))[0]);
  }

 private:
  template <class Source>
  OPENBNNS_INLINE void encode_together(const Source& source, int64_t i, Integer* to) const {
    WordsTogether together;
    OPENBNNS_UNROLL for (int j = 0; j < kTogether / kWidth; j++) {
      const Words made[2] = {words(source.at(i + j * kWidth)), words(source.at(i + j * kWidth + kLanes))};
      together[j] = joined(made[0], made[1]);
    }
    store_integers(together, to);
  }

  OPENBNNS_INLINE Words words(DoubleVec v) const {
    v = v - bias_;
    v = limited((v == v) ? v : DoubleVec{}, low_, high_);
#if defined(__FMA__) || defined(__aarch64__)
    // In less time than a division takes: a product, and what it lacks of the quotient, which is right to the last bit
    // because this is fused (-ffp-contract=fast).
    const DoubleVec product = v * inverse_, rest = v - product * scale_;
    return nearest(product + rest * inverse_);
#else
    return nearest(v / scale_);
#endif
  }

  const DoubleVec scale_, inverse_;
  DoubleVec bias_, low_, high_;
};

template <class Source>
void encode_as_integers(const Element& element, const Source& source, int64_t count, void* to) {
  switch (element.type) {
    case ElementType::kInt8:
      return IntegerEncoder<int8_t>(element).encode(source, count, static_cast<int8_t*>(to));
    case ElementType::kUInt8:
      return IntegerEncoder<uint8_t>(element).encode(source, count, static_cast<uint8_t*>(to));
    case ElementType::kInt32:
      return IntegerEncoder<int32_t>(element).encode(source, count, static_cast<int32_t*>(to));
    default:
      return;
  }
}

// Results in single precision, from sums: less and plus what they may be wrong by.
struct Bounds {
  Vec low, high;
};
struct SingleTerms {
  const float* term;
  OPENBNNS_INLINE Bounds bounds(Vec factor, Vec sums, float doubt, int64_t i) const {
    const Vec q = factor * sums + load(term + i);
    return {q - splat(doubt), q + splat(doubt)};
  }
};
struct OneSingleTerm {
  float term;
  OPENBNNS_INLINE Bounds bounds(Vec factor, Vec sums, float doubt, int64_t) const {
    return {factor * sums + splat(term - doubt), factor * sums + splat(term + doubt)};
  }
};

OPENBNNS_INLINE Vec load_sums(const float* p) { return load(p); }
OPENBNNS_INLINE Vec load_sums(const int32_t* p) {
  typedef int32_t Unaligned __attribute__((vector_size(kWidth * 4), aligned(4)));
  const IntVec sums = *reinterpret_cast<const Unaligned*>(p);
  return __builtin_convertvector(sums, Vec);
}

// Stores kTogether results if none is in doubt.
template <class Byte, class Sum, class Terms>
OPENBNNS_INLINE bool encode_certain(const Sum* sums, float factor, const Terms& terms, float doubt, int64_t i,
                                    Byte* to) {
  WordsTogether low, high;
  OPENBNNS_UNROLL for (int j = 0; j < kTogether / kWidth; j++) {
    const Bounds bounds = terms.bounds(splat(factor), load_sums(sums + i + j * kWidth), doubt, i + j * kWidth);
    low[j] = nearest_integers(bounds.low);
    high[j] = nearest_integers(bounds.high);
  }
  const BytesTogether bytes = to_bytes<Byte>(low);
  if (differ(bytes, to_bytes<Byte>(high))) return false;
  store_bytes(bytes, to + i);
  return true;
}

// Results up to the first that are in doubt; how many.
template <class Byte, class Sum, class Terms>
int64_t encode_while_certain(const Sum* sums, float factor, const Terms& terms, float doubt, int64_t count, Byte* to) {
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether)
    if (!encode_certain(sums, factor, terms, doubt, i, to)) return i;
  if (i == count || count < kTogether) return i;
  return encode_certain(sums, factor, terms, doubt, count - kTogether, to) ? count : i;
}

template <class Sum, class Terms>
int64_t encode_while_certain(ElementType type, const Sum* sums, float factor, const Terms& terms, float doubt,
                             int64_t count, void* to) {
  if (doubt < 0) return 0;
  if (type == ElementType::kInt8)
    return encode_while_certain(sums, factor, terms, doubt, count, static_cast<int8_t*>(to));
  return encode_while_certain(sums, factor, terms, doubt, count, static_cast<uint8_t*>(to));
}

template <class Source>
void encode_source(const Element& element, const Source& source, int64_t count, void* to) {
  if (element.is_integer()) return encode_as_integers(element, source, count, to);
  constexpr int64_t kChunk = 64;
  float rounded[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    for (int64_t j = 0; j < n; j++) rounded[j] = static_cast<float>(source.single(i + j));
    encode(element, rounded, n, moved(to, element, i));
  }
}

}  // namespace

void decode(const Element& element, const void* from, int64_t count, float* to) {
  switch (element.type) {
    case ElementType::kFloat32:
      std::copy_n(static_cast<const float*>(from), count, to);
      return;
    case ElementType::kFloat16:
      return decode_as(Float16Numbers{}, from, count, to);
    case ElementType::kBFloat16:
      return decode_as(BFloat16Numbers{}, from, count, to);
    case ElementType::kInt8:
      return decode_as(ByteNumbers<int8_t>{element.scale, element.bias}, from, count, to);
    case ElementType::kUInt8:
      return decode_as(ByteNumbers<uint8_t>{element.scale, element.bias}, from, count, to);
    case ElementType::kInt32:
      for (int64_t i = 0; i < count; i++)
        to[i] = static_cast<float>(static_cast<double>(element.scale) * static_cast<const int32_t*>(from)[i] +
                                   static_cast<double>(element.bias));
      return;
  }
}

FloatRows float_rows(const Element& element, const float* from, int64_t stride, int64_t rows, int64_t count,
                     float* room) {
  if (element.is_float32()) return {from, stride};
  for (int64_t i = 0; i < rows; i++) decode(element, moved(from, element, i * stride), count, room + i * count);
  return {room, count};
}

void encode(const Element& element, const float* values, int64_t count, void* to) {
  switch (element.type) {
    case ElementType::kFloat32:
      std::copy_n(values, count, static_cast<float*>(to));
      return;
    case ElementType::kFloat16:
      return encode_shorts(values, count, to, [](uint16_t* p, Vec v) { store_float16(p, v); });
    case ElementType::kBFloat16:
      return encode_shorts(values, count, to, [](uint16_t* p, Vec v) { store_bfloat16(p, v); });
    default:
      return encode_as_integers(element, Values{values}, count, to);
  }
}

template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, const double* terms, int64_t count, void* to) {
  encode_source(element, SumValues<Sum, Terms>{sums, factor, {terms}}, count, to);
}
void encode_sums(const Element& element, const int32_t* sums, const double* factors, const double* terms, int64_t count,
                 void* to) {
  encode_source(element, ScaledSums{sums, factors, terms}, count, to);
}
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, double term, int64_t count, void* to) {
  const auto in_double = [&](int64_t first, int64_t n) {
    encode_source(element, SumValues<Sum, OneTerm>{sums + first, factor, {term}}, n, moved(to, element, first));
  };
  if (!element.is_byte()) return in_double(0, count);
  SingleSums single(element, factor);
  const float c = single.take(term);
  for (int64_t i = 0; i < count;) {
    i += single.encode(sums + i, c, count - i, moved(to, element, i));
    const int64_t doubtful = std::min(SingleSums::kDoubtful, count - i);
    if (doubtful > 0) in_double(i, doubtful);
    i += doubtful;
  }
}
template void encode_sums(const Element&, const int32_t*, double, const double*, int64_t, void*);
template void encode_sums(const Element&, const float*, double, const double*, int64_t, void*);
template void encode_sums(const Element&, const int32_t*, double, double, int64_t, void*);
template void encode_sums(const Element&, const float*, double, double, int64_t, void*);

// If factor, terms and bias are multiples of 2^-14 in units of the scale, then results are, which have 24 bits unless
// they saturate. Sums of more than 24 bits do, unless terms are large.
SingleSums::SingleSums(const Element& element, double factor)
    : type_(element.type),
      scale_(element.scale),
      bias_(element.bias_before_scale ? static_cast<double>(element.bias) * scale_ : static_cast<double>(element.bias)),
      factor_(static_cast<float>(factor / scale_)),
      exact_(is_coarse(factor) && is_coarse(bias_)) {}

bool SingleSums::is_coarse(double number) const {
  const double steps = std::rint(number / scale_ * 0x1p14);
  return std::abs(steps) <= 0x1p24 && steps * 0x1p-14 * scale_ == number;
}

float SingleSums::take(double term) {
  constexpr float kSmallTerm = 512;
  const float c = static_cast<float>((term - bias_) / scale_), size = std::abs(c);
  if (size > largest_term_ || size != size) largest_term_ = size;
  exact_ = exact_ && size <= kSmallTerm && is_coarse(term);
  return c;
}

float SingleSums::doubt(bool fused) const {
  constexpr float kLargest = 260;                // and what is larger saturates
  if (!(std::abs(factor_) <= 0.25f)) return -1;  // results could exceed 32 bits
  if (exact_) return 0;
  const float error = (fused ? 0x1.9p-23f : 0x1p-21f) * (largest_term_ + kLargest);
  return error < 0.25f ? error : -1;
}

template <class Sum>
int64_t SingleSums::encode(const Sum* sums, const float* terms, int64_t count, void* to) const {
  return encode_while_certain(type_, sums, factor_, SingleTerms{terms}, doubt(), count, to);
}
template <class Sum>
int64_t SingleSums::encode(const Sum* sums, float term, int64_t count, void* to) const {
  return encode_while_certain(type_, sums, factor_, OneSingleTerm{term}, doubt(), count, to);
}
template int64_t SingleSums::encode(const int32_t*, const float*, int64_t, void*) const;
template int64_t SingleSums::encode(const float*, const float*, int64_t, void*) const;

ByteBlocks::ByteBlocks(const Element& element, double factor, int turns)
    : element_(element), single_(element, factor), factor_(factor), turns_(turns) {
  lanes_.is_signed = element.type == ElementType::kInt8;
  lanes_.factor = splat(single_.factor());
  const BlockOrder& order = kBlockOrders[turns / 2];
  std::memcpy(&lanes_.bytes, order.byte, sizeof order.byte);
  std::memcpy(&lanes_.words, order.word, sizeof order.word);
}

bool ByteBlocks::take(double term) {
  term_ = term;
  SingleSums single = single_;
  const float c = single.take(term), doubt = single.doubt(true);
  lanes_.low = splat(c - doubt);
  lanes_.high = splat(c + doubt);
  return kHasBlocks && doubt >= 0;
}

void ByteBlocks::store_exact(const int32_t* sums, uint8_t* to) const {
  uint8_t exact[4 * kWidth];
  encode_source(element_, SumValues<int32_t, OneTerm>{sums, factor_, {term_}}, 4 * kWidth, exact);
  for (int v = 0; v < 4; v++)
    for (int i = 0; i < kWidth; i++) to[(v / turns_ * kWidth + i) * turns_ + v % turns_] = exact[v * kWidth + i];
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
