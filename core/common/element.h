// What the numbers of a tensor are stored as.
#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// In the order of tensors/stored.py.
enum class ElementType : int32_t { kFloat32, kFloat16, kBFloat16, kInt8, kUInt8, kInt32 };

struct Element {
  ElementType type = ElementType::kFloat32;
  float scale = 1, bias = 0;       // of integers: value = scale * stored + bias
  bool bias_before_scale = false;  // values are stored as value / scale - bias instead of (value - bias) / scale
  OPENBNNS_FIELDS(type, scale, bias, bias_before_scale)

  bool is_float32() const { return type == ElementType::kFloat32; }
  bool is_byte() const { return type == ElementType::kInt8 || type == ElementType::kUInt8; }
  bool is_integer() const { return is_byte() || type == ElementType::kInt32; }
  int64_t bytes() const {
    return is_byte() ? 1 : type == ElementType::kFloat16 || type == ElementType::kBFloat16 ? 2 : 4;
  }
  // The same numbers without scale and bias.
  Element plain() const { return {type}; }
};

// `elements` after p.
template <class T>
T* moved(T* p, const Element& element, int64_t elements) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(elements * element.bytes()));
}

}  // namespace openbnns
