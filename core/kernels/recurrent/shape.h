#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// One layer of recurrent cells in one direction, given the input part W x + b of its gates: G gates, H hidden units, T
// steps of N samples. Packed float32 tensors in C order.
enum RecurrentSlot {
  kRecurrentZ,   // [N][T][G * H]: W x + b; left holding the gates (GRU), and in backward their gradients, 0 after the
                 // end of a sample
  kRecurrentU,   // [G * H][H]
  kRecurrentB,   // [G * H] or null: added to U h
  kRecurrentH0,  // [N][H] or null for zeros
  kRecurrentLengths,  // int64_t [N], 1 to T, or null: all T
  kRecurrentY,        // [N][T][H]: hidden states after each step, 0 after the end of a sample
  kRecurrentHn,       // [N][H]: those after the last step
  kRecurrentQ,        // [N][T][H] (GRU): U h + b of the candidate; in backward its gradient
  kRecurrentDy,       // gradients; null where none is given or wanted
  kRecurrentDhn,
  kRecurrentDu,
  kRecurrentDb,
  kRecurrentDh0,
};

enum class RecurrentKind {
  Tanh,  // h' = tanh(z + U h + b)
  ReLU,  // h' = max(0, z + U h + b)
  GRU,   // r, u = sigmoid(z + U h + b), c = tanh(z + r * (U h + b)), h' = (1 - u) * c + u * h; gates r, u, c
};

struct RecurrentShape {
  RecurrentKind kind;
  int64_t steps, hidden;
  bool reverse;           // from the last step of each sample to the first
  bool bfloat16 = false;  // operands of products may be rounded to BFloat16
  OPENBNNS_FIELDS(kind, steps, hidden, reverse, bfloat16)
};

}  // namespace openbnns
