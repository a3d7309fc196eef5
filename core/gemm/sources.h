// How packing reads the operands of a product: vectors of kWidth steps along a row, or of one step across kWidth
// columns.
//
// A step is one number, as a float, or a group of integers in the 32 bits of a lane, which the kernels of exact sums
// multiply and add up at once.
#pragma once
#include <type_traits>

#include "gemm/bfloat16_kernel.h"
#include "gemm/gemm.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {

template <class Numbers>
struct FloatSource : Numbers {
  using Number = typename Numbers::Number;
  static constexpr int kPerStep = 1;
  static constexpr bool kInPairs = std::is_same_v<Numbers, BFloat16Numbers>;

  // kWidth steps from p on, which belong to a row that has at least `count` more numbers (the others are zeros).
  OPENBNNS_INLINE Vec along(const Number* p) const { return this->load(p); }
  OPENBNNS_INLINE Vec along(const Number* p, int64_t count) const { return this->load(p, count); }
  // 2 * kWidth steps, where kInPairs every other one first.
  OPENBNNS_INLINE VecPair two_along(const Number* p) const {
    if constexpr (kInPairs)
      return load_bfloat16_pairs(p);
    else
      return {this->load(p), this->load(p + kWidth)};
  }
  // One step of `columns` neighbours, whose further numbers, kPerStep of them or fewer at the end, are `stride` apart.
  OPENBNNS_INLINE Vec across(const Number* p, int64_t /*stride*/, int64_t /*numbers*/, int64_t columns) const {
    return columns >= kWidth ? this->load(p) : this->load(p, columns);
  }
};

// Two integers of 16 bits, widened from bytes.
template <class Byte>
struct PairSource {
  using Number = Byte;
  static constexpr int kPerStep = 2;

  OPENBNNS_INLINE Vec along(const Byte* p) const { return from_bits(load_byte_pairs(p)); }
  OPENBNNS_INLINE Vec along(const Byte* p, int64_t count) const {
    return along(FirstNumbers<Byte, 2 * kWidth>(p, count).number);
  }
  OPENBNNS_INLINE Vec across(const Byte* p, int64_t stride, int64_t numbers, int64_t columns) const {
    IntVec v = row(p, columns) & 0xFFFF;
    if (numbers > 1) v |= row(p + stride, columns) << 16;
    return from_bits(v);
  }

 private:
  OPENBNNS_INLINE IntVec row(const Byte* p, int64_t columns) const {
    return columns >= kWidth ? load_bytes(p) : load_bytes(FirstNumbers<Byte, kWidth>(p, columns).number);
  }
};

// Two numbers of BFloat16.
struct BFloat16PairSource {
  using Number = uint16_t;
  static constexpr int kPerStep = 2;

  OPENBNNS_INLINE Vec along(const uint16_t* p) const { return from_bits(load_short_pairs(p)); }
  OPENBNNS_INLINE Vec along(const uint16_t* p, int64_t count) const {
    return along(FirstNumbers<uint16_t, 2 * kWidth>(p, count).number);
  }
  OPENBNNS_INLINE Vec across(const uint16_t* p, int64_t stride, int64_t numbers, int64_t columns) const {
    IntVec v = row(p, columns);
    if (numbers > 1) v |= row(p + stride, columns) << 16;
    return from_bits(v);
  }

 private:
  OPENBNNS_INLINE IntVec row(const uint16_t* p, int64_t columns) const {
    return load_shorts(columns >= kWidth ? p : FirstNumbers<uint16_t, kWidth>(p, columns).number);
  }
};

// The same, rounded from float32.
struct RoundedPairSource {
  using Number = float;
  static constexpr int kPerStep = 2;

  static OPENBNNS_INLINE Vec joined(Vec low, Vec high) {
    return from_bits(round_to_bfloat16_pairs({evens(low, high), odds(low, high)}));
  }

  OPENBNNS_INLINE Vec along(const float* p) const { return joined(load(p), load(p + kWidth)); }
  OPENBNNS_INLINE Vec along(const float* p, int64_t count) const {
    return count <= kWidth ? joined(load_partial(p, count), Vec{})
                           : joined(load(p), load_partial(p + kWidth, count - kWidth));
  }
  OPENBNNS_INLINE Vec across(const float* p, int64_t stride, int64_t numbers, int64_t columns) const {
    return from_bits(round_to_bfloat16_pairs({some(p, columns), numbers > 1 ? some(p + stride, columns) : Vec{}}));
  }

 private:
  OPENBNNS_INLINE Vec some(const float* p, int64_t columns) const {
    return columns >= kWidth ? load(p) : load_partial(p, columns);
  }
};

// Four bytes; `flip` is 0x80 where those of an operand have the other sign than the kernel takes: adding 128 to a
// signed one, or taking it away from an unsigned one, is flipping this bit. What is beyond a row becomes 0.
struct QuadSource {
  using Number = uint8_t;
  static constexpr int kPerStep = 4;
  uint8_t flip;

  OPENBNNS_INLINE Vec along(const uint8_t* p) const {
    IntVec v;
    std::memcpy(&v, p, sizeof v);
    return flipped(v);
  }
  OPENBNNS_INLINE Vec along(const uint8_t* p, int64_t count) const {
    return along(FirstNumbers<uint8_t, 4 * kWidth>(p, count, flip).number);
  }
  OPENBNNS_INLINE Vec across(const uint8_t* p, int64_t stride, int64_t numbers, int64_t columns) const {
    IntVec v{};
    for (int i = 0; i < 4; i++) {
      const IntVec row =
          i < numbers
              ? load_bytes(
                    FirstNumbers<uint8_t, kWidth>(p + i * stride, columns < kWidth ? columns : kWidth, flip).number)
              : splat_int(flip);
      v |= row << (8 * i);
    }
    return flipped(v);
  }

 private:
  OPENBNNS_INLINE Vec flipped(IntVec v) const {
    return from_bits(v ^ splat_int(static_cast<int32_t>(flip * 0x01010101u)));
  }
};

// body(source) with what reads such elements as floats.
template <class Body>
OPENBNNS_INLINE void with_float_source(const Element& element, const Body& body) {
  switch (element.type) {
    case ElementType::kFloat16:
      return body(FloatSource<Float16Numbers>{});
    case ElementType::kBFloat16:
      return body(FloatSource<BFloat16Numbers>{});
    case ElementType::kInt8:
      return body(FloatSource<ByteNumbers<int8_t>>{{element.scale, element.bias}});
    case ElementType::kUInt8:
      return body(FloatSource<ByteNumbers<uint8_t>>{{element.scale, element.bias}});
    default:
      return body(FloatSource<Float32Numbers>{});
  }
}
// As floats or as groups; `left`: of A, whose bytes the kernels of quads take as unsigned, those of B as signed.
template <class Body>
OPENBNNS_INLINE void with_source(SumKind sums, const Element& element, bool left, const Body& body) {
  const bool is_signed = element.type == ElementType::kInt8;
  if (sums == SumKind::kByteQuads) return body(QuadSource{static_cast<uint8_t>(is_signed == left ? 0x80 : 0)});
  if (kHasBFloat16Pairs && sums == SumKind::kBFloat16Pairs)
    return element.is_float32() ? body(RoundedPairSource{}) : body(BFloat16PairSource{});
  if (sums == SumKind::kBytePairs) return is_signed ? body(PairSource<int8_t>{}) : body(PairSource<uint8_t>{});
  with_float_source(element, body);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
