#pragma once
#include <cstdint>
#include <vector>

#include "common/element.h"
#include "common/fields.h"
#include "kernels/activation/shape.h"

namespace openbnns {

// A function of one to three values, with an elementwise activation.
struct ChainStep {
  int function = -1;     // BNNSArithmeticFunction; -1: the first operand as it is, which must not be repeated
  int operands[3] = {};  // numbers of values; functions of fewer repeat the first
  int result = 0;        // the number of a value
  ActivationSpec activation;
  Element element;  // of the result
  OPENBNNS_FIELDS(function, operands, result, activation, element)
};

// Elementwise functions one after the other, on results that are [size0][size1][size2].
struct Chain {
  // Elements from one index to the next along each axis, 0 where a value is repeated; results have all of them.
  struct Value {
    void* data;
    int64_t stride[3];
  };
  int64_t size[3];
  std::vector<Value> values;  // in memory; values with higher numbers live for a piece only
  std::vector<ChainStep> steps;
  static constexpr int kMostRooms = 63;
  int rooms;  // of such values
};

}  // namespace openbnns
