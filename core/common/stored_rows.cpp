#include "common/stored_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

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

constexpr int kTogether = 32;  // become bytes at a time: by fours, that would take as long as the rest
typedef IntVec WordsTogether[kTogether / kWidth];

// Numbers within the range of Integer.
template <class Integer>
OPENBNNS_INLINE void store_integers(const WordsTogether& words, Integer* to) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Integer) == 1) {
    for (int i = 0; i < kTogether / kWidth; i++)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kWidth),
                       _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(words[i])));
    return;
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(Integer) == 1) {
    const auto word = [&](int i) { return reinterpret_cast<__m256i>(words[i]); };
    const __m256i low = _mm256_packs_epi32(word(0), word(1)), high = _mm256_packs_epi32(word(2), word(3));
    const __m256i mixed = std::is_signed_v<Integer> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    return;
  }
#endif
  int32_t all[kTogether];
  std::memcpy(all, words, sizeof words);
  for (int i = 0; i < kTogether; i++) to[i] = static_cast<Integer>(all[i]);
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
template <class Sum>
void encode_sums(const Element& element, const Sum* sums, double factor, double term, int64_t count, void* to) {
  encode_source(element, SumValues<Sum, OneTerm>{sums, factor, {term}}, count, to);
}
template void encode_sums(const Element&, const int32_t*, double, const double*, int64_t, void*);
template void encode_sums(const Element&, const float*, double, const double*, int64_t, void*);
template void encode_sums(const Element&, const int32_t*, double, double, int64_t, void*);
template void encode_sums(const Element&, const float*, double, double, int64_t, void*);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
