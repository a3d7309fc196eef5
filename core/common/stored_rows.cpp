#include "common/stored_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>

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

#if defined(__AVX512F__)
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  return _mm512_min_pd(_mm512_max_pd(v, low), high);
}
OPENBNNS_INLINE DoubleVec rounded(DoubleVec v) { return _mm512_roundscale_pd(v, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__AVX2__)
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  return _mm256_min_pd(_mm256_max_pd(v, low), high);
}
OPENBNNS_INLINE DoubleVec rounded(DoubleVec v) { return _mm256_round_pd(v, _MM_FROUND_TO_NEAREST_INT); }
#else
OPENBNNS_INLINE DoubleVec limited(DoubleVec v, DoubleVec low, DoubleVec high) {
  v = (v < low) ? low : v;
  return (v > high) ? high : v;
}
OPENBNNS_INLINE DoubleVec rounded(DoubleVec v) {
  const DoubleVec whole = 0x1.8p52 - DoubleVec{};  // numbers of this size have no fraction
  return v + whole - whole;
}
#endif

template <class Value>
OPENBNNS_INLINE DoubleVec load_doubles(const Value* p) {
  typedef Value Values __attribute__((vector_size(kLanes * sizeof(Value))));
  Values v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, DoubleVec);
}

// kLanes values as integers: to nearest, ties to even, saturated to those of type Integer; NaN is 0.
template <class Integer>
OPENBNNS_INLINE void store_words(int32_t* to, DoubleVec v) {
  typedef int32_t Words __attribute__((vector_size(kLanes * 4)));
  const DoubleVec zero{}, low = static_cast<double>(std::numeric_limits<Integer>::min()) - zero,
                          high = static_cast<double>(std::numeric_limits<Integer>::max()) - zero;
  v = (v == v) ? v : zero;
  const Words words = __builtin_convertvector(rounded(limited(v, low, high)), Words);
  std::memcpy(to, &words, sizeof words);
}

template <class Integer, class Value>
void encode_integers(const Element& element, const Value* values, int64_t count, void* to) {
  constexpr int64_t kTogether = 32;  // become bytes at a time: by fours, that would take as long as the rest
  const DoubleVec zero{}, scale = element.scale - zero, bias = element.bias - zero;
  const auto encoded = [&](const Value* from, Integer* into) {
    int32_t words[kTogether];
    for (int64_t j = 0; j < kTogether; j += kLanes) {
      const DoubleVec v = load_doubles(from + j);
      store_words<Integer>(words + j, element.bias_before_scale ? v / scale - bias : (v - bias) / scale);
    }
    for (int64_t j = 0; j < kTogether; j++) into[j] = static_cast<Integer>(words[j]);
  };
  auto* p = static_cast<Integer*>(to);
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) encoded(values + i, p + i);
  if (i == count) return;
  Value rest[kTogether] = {};
  Integer last[kTogether];
  std::copy(values + i, values + count, rest);
  encoded(rest, last);
  std::copy_n(last, count - i, p + i);
}

template <class Value>
void encode_value(const Element& element, const Value* values, int64_t count, void* to) {
  switch (element.type) {
    case ElementType::kInt8:
      return encode_integers<int8_t>(element, values, count, to);
    case ElementType::kUInt8:
      return encode_integers<uint8_t>(element, values, count, to);
    case ElementType::kInt32:
      return encode_integers<int32_t>(element, values, count, to);
    default:
      return;
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
      return encode_value(element, values, count, to);
  }
}

void encode(const Element& element, const double* values, int64_t count, void* to) {
  if (element.is_integer()) return encode_value(element, values, count, to);
  constexpr int64_t kChunk = 64;
  float rounded[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    for (int64_t j = 0; j < n; j++) rounded[j] = static_cast<float>(values[i + j]);
    encode(element, rounded, n, moved(to, element, i));
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
