// Quantization: y = saturate(round(scale * x + bias)) to an integer type, and back: y = (x - bias) / scale.
//
// Everything is computed in double, where the product of two floats is exact: what comes out is the correctly rounded
// result, the same on every instruction set. A stretch of x is widened to double, scaled, and narrowed to the type of
// y, so that each type needs one loop on either side instead of one for every pair. Slots: X and Y are samples of the
// types that the shape names, W holds scale and B bias as floats; null stands for scale 1 and bias 0.
#include <limits>
#include <type_traits>

#include "common/pieces.h"
#include "kernels/kernels.h"
#include "simd/vec.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kStretch = 256;  // elements that stay in the first cache as doubles

struct Bounds {
  double low, high;
};

// The whole number nearest to v, ties to even, within the bounds; 0 for NaN.
template <class Integer>
OPENBNNS_INLINE Integer saturate(double v, Bounds bounds) {
  v = v == v ? v : 0.0;
  if (sizeof(Integer) < 8) {
    constexpr double kToInteger = 0x1.8p52;  // adding it rounds every |v| < 2^51 to a whole number
    v = v < bounds.low ? bounds.low : v;
    v = v > bounds.high ? bounds.high : v;
    using Wide = std::conditional_t<std::is_same_v<Integer, uint32_t>, int64_t, int32_t>;
    return static_cast<Integer>(static_cast<Wide>((v + kToInteger) - kToInteger));
  }
  v = __builtin_rint(v);  // the bounds of a 64-bit type as doubles: one beyond the largest value, exactly the smallest
  if (v >= bounds.high) return std::numeric_limits<Integer>::max();
  return v <= bounds.low ? std::numeric_limits<Integer>::min() : static_cast<Integer>(v);
}

using Widen = void (*)(const char* from, int64_t first, double* v, int64_t count);
using Narrow = void (*)(const double* v, char* to, int64_t first, int64_t count, Bounds bounds);

template <class Number>
void widen_run(const char* from, int64_t first, double* v, int64_t count) {
  const Number* x = reinterpret_cast<const Number*>(from) + first;
  for (int64_t i = 0; i < count; i++) v[i] = static_cast<double>(x[i]);
}

template <class Integer>
void narrow_run(const double* v, char* to, int64_t first, int64_t count, Bounds bounds) {
  Integer* y = reinterpret_cast<Integer*>(to) + first;
  for (int64_t i = 0; i < count; i++) y[i] = saturate<Integer>(v[i], bounds);
}

void narrow_to_float(const double* v, char* to, int64_t first, int64_t count, Bounds) {
  float* y = reinterpret_cast<float*>(to) + first;
  for (int64_t i = 0; i < count; i++) y[i] = static_cast<float>(v[i]);
}

struct Conversion {
  int64_t bytes;
  Widen widen;
  Narrow narrow;
};

Conversion conversion_of(NumberType type) {
  switch (type) {
    case NumberType::kInt8:
      return {1, widen_run<int8_t>, narrow_run<int8_t>};
    case NumberType::kUInt8:
      return {1, widen_run<uint8_t>, narrow_run<uint8_t>};
    case NumberType::kInt16:
      return {2, widen_run<int16_t>, narrow_run<int16_t>};
    case NumberType::kUInt16:
      return {2, widen_run<uint16_t>, narrow_run<uint16_t>};
    case NumberType::kInt32:
      return {4, widen_run<int32_t>, narrow_run<int32_t>};
    case NumberType::kUInt32:
      return {4, widen_run<uint32_t>, narrow_run<uint32_t>};
    case NumberType::kInt64:
      return {8, widen_run<int64_t>, narrow_run<int64_t>};
    case NumberType::kUInt64:
      return {8, widen_run<uint64_t>, narrow_run<uint64_t>};
    case NumberType::kFloat64:
      return {8, widen_run<double>, nullptr};
    default:
      return {4, widen_run<float>, narrow_to_float};
  }
}

// v[i] = scale[i * step] * v[i] + bias[i * step]
template <int kStep>
void scale_run(double* v, const float* scale, const float* bias, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    v[i] = static_cast<double>(scale[i * kStep]) * v[i] + static_cast<double>(bias[i * kStep]);
}

// v[i] = (v[i] - bias[i * step]) / scale[i * step]
template <int kStep>
void unscale_run(double* v, const float* scale, const float* bias, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    v[i] = (v[i] - static_cast<double>(bias[i * kStep])) / static_cast<double>(scale[i * kStep]);
}

class QuantizationPlan : public Plan {
 public:
  explicit QuantizationPlan(const QuantizationShape& shape)
      : s_(shape), from_(conversion_of(shape.x_type)), to_(conversion_of(shape.y_type)) {}

  // A row has one scale and bias, or, where they vary along the fastest axis, is as long as that axis.
  void forward(const Call& call) override {
    static const float one = 1.0f, zero = 0.0f;
    const bool along = s_.inner == 1 && s_.length > 1 && (call.address[W] || call.address[B]);
    const int64_t length = along ? s_.length : s_.inner, rows = along ? s_.outer : s_.outer * s_.length;
    auto* scaling = s_.dequantizes ? (along ? unscale_run<1> : unscale_run<0>) : (along ? scale_run<1> : scale_run<0>);
    for_each_piece(call, call.batch * rows, length, [&](int64_t row, int64_t first, int64_t count) {
      const int64_t n = row / rows, r = row % rows;
      const int64_t which = along ? first : s_.per_sample ? n : r % s_.length;
      const float* scale = call.address[W] ? call.address[W] + which : &one;
      const float* bias = call.address[B] ? call.address[B] + which : &zero;
      const char* x = reinterpret_cast<const char*>(call.address[X]) + n * call.stride[X] * from_.bytes;
      char* y = reinterpret_cast<char*>(call.address[Y]) + n * call.stride[Y] * to_.bytes;
      double v[kStretch];
      for (int64_t done = 0; done < count; done += kStretch) {
        const int64_t place = r * length + first + done, part = std::min(kStretch, count - done);
        from_.widen(x, place, v, part);
        scaling(v, scale + (along ? done : 0), bias + (along ? done : 0), part);
        to_.narrow(v, y, place, part, {s_.low, s_.high});
      }
    });
  }

  void backward(const Call&) override {}  // rounding has no gradient: filters never ask for one

 private:
  const QuantizationShape s_;
  const Conversion from_, to_;
};

}  // namespace

std::unique_ptr<Plan> make_quantization(const QuantizationShape& shape) {
  return std::make_unique<QuantizationPlan>(shape);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
