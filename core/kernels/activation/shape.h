// What an activation is and what it runs on.
#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// Numbers of the functions are those of BNNSActivationFunction.
struct ActivationSpec {
  int function = 0;
  float alpha = 0, beta = 0;
  uint64_t seed = 0;  // of the functions that draw random numbers (Gumbel, GumbelMax)
  OPENBNNS_FIELDS(function, alpha, beta, seed)
};

// One sample seen as [outer][length][inner]; axis-wise functions (softmax, ...) run along `length`, elementwise
// ones over everything. `channels` > 0 (PReLU per channel): the sample is [channels][outer * length * inner /
// channels].
struct ActivationShape {
  int64_t outer, length, inner, channels;
  OPENBNNS_FIELDS(outer, length, inner, channels)
};

}  // namespace openbnns
