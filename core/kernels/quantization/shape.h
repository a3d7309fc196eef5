#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

enum class NumberType { kInt8, kUInt8, kInt16, kUInt16, kInt32, kUInt32, kInt64, kUInt64, kFloat32, kFloat64 };

// One sample is [outer][length][inner]; slots W and B hold scale and bias as floats, each null, or one value (length
// 1), one per index of `length` (both or none), or with `per_sample` (length 1) one per sample.
struct QuantizationShape {
  bool dequantizes = false;
  NumberType x_type = NumberType::kFloat32, y_type = NumberType::kInt8;  // Y is no Float64
  int64_t outer = 1, length = 1, inner = 1;
  bool per_sample = false;
  double low = 0, high = 0;  // bounds of an integer Y, which may be narrower than its type
  OPENBNNS_FIELDS(dequantizes, x_type, y_type, outer, length, inner, per_sample, low, high)
};

}  // namespace openbnns
