// Pieces of the LSTM kernels, below the plan in lstm.cpp.
//
// A step multiplies its input and the hidden state before it at once; or, where that does not pay
// (Sizes::input_depth), a layer first multiplies its input at all steps with the input weights of all gates, into z
// [T][N][4 * padded], and the steps of each direction add the recurrent part.
#pragma once
#include <algorithm>
#include <memory>

#include "common/recurrent_steps.h"
#include "gemm/gemm.h"
#include "kernels/lstm/shape.h"
#include "runtime/plan.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace lstm {

enum Gate { kInput, kForget, kCandidate, kOutput, kGates };

struct Sizes : StepSizes {
  int64_t T, joined;  // joined: R * H, a row of outputs
  bool interleaved;   // columns of z: blocks of 16 units, the four gates of a block side by side; or gate by gate
  SumKind sums;       // of products over all steps
  const int64_t* batch_sizes;

  explicit Sizes(const LstmShape& shape)
      : StepSizes(shape.batch, shape.hidden, kGates, shape.bfloat16),
        T(shape.steps),
        joined(shape.directions * shape.hidden),
        interleaved(false),
        sums(sums_of_rounded(shape.bfloat16)),
        batch_sizes(shape.batch_sizes.empty() ? nullptr : shape.batch_sizes.data()) {}

  // Column of a gate's unit in z.
  int64_t column(int gate, int64_t unit) const {
    return interleaved ? (unit / kBlock * kGates + gate) * kBlock + unit % kBlock : gate * padded + unit;
  }
  int64_t active(int64_t t) const { return batch_sizes ? batch_sizes[t] : N; }
  // How many of the columns that a step multiplies are inputs, of `in`: all, padded, or none. A step reads all weights
  // of them, which pays with several tiles of samples, and if they stay in the second cache; and a step does not round.
  int64_t input_depth(int64_t in) const {
    constexpr int64_t kInputFloats = int64_t{1} << 17;  // of weights (512 KB)
    const bool pays = N >= 2 * kWideRows && wide * in <= kInputFloats;
    return interleaved && pays && sums == SumKind::kFloats ? round_up(in, kBlock) : 0;
  }
  int64_t depth(int64_t in) const { return input_depth(in) + padded; }
};

// One direction of one layer.
struct Cell {
  bool reverse;
  int64_t in;
  const float* w[kGates];              // [H][in]
  const float *u[kGates], *p[kGates];  // [H][H]; p: null without peepholes
  const float* bias;                   // [wide], in the order of the columns of z
  const float* x;                      // [T][N][in]
  const float *h0, *c0;                // [N][H], or null for zeros
  float* z;  // [T][N][wide]: W x + b, unless steps multiply it; afterwards, if that is kept, what backward needs
  float* c;  // [T][N][padded]: cell states after the step
  float* h;  // hidden states after the step: rows (t, n), `joined` apart
  int threads;
  bool keeps;           // for backward
  const float* packed;  // as pack_step leaves the weights, if it is known

  int64_t step(int64_t k, int64_t steps) const { return reverse ? steps - 1 - k : k; }
};

// The gradients that one direction of one layer reads and writes in backward.
struct CellGradients {
  const float* dy;         // rows (t, n), `joined` apart, or null
  const float *dhn, *dcn;  // [N][H], or null
  float* dz;               // [T][N][wide], 0 where a sample is absent
  float *dh0, *dc0;        // [N][H], or null
  bool dh0_adds, dc0_adds;
};

// to[row][0 .. padded) = from[row][0 .. H), 0 beyond; zeros everywhere for a null `from`.
inline void pad_rows(const Sizes& s, const float* from, float* to) {
  for (int64_t n = 0; n < s.N; n++) {
    if (from) std::copy_n(from + n * s.H, s.H, to + n * s.padded);
    std::fill_n(to + n * s.padded + (from ? s.H : 0), s.padded - (from ? s.H : 0), 0.0f);
  }
}
// The way back: to[row][j] (+)= from[row][j].
inline void unpad_rows(const Sizes& s, const float* from, float* to, bool adds) {
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t j = 0; j < s.H; j++)
      to[n * s.H + j] = adds ? to[n * s.H + j] + from[n * s.padded + j] : from[n * s.padded + j];
}

// Sigmoid and tanh, no peepholes: interleaved columns. z is left holding i, f, g, o.
int64_t plain_forward_floats(const Sizes& s, int64_t in);
int64_t plain_backward_floats(const Sizes& s);
// The weights of a step, W and U or only U: [units / 16][gate][depth][16].
void pack_step(const Sizes& s, const Cell& cell, float* to);
void plain_forward(const Sizes& s, const Cell& cell, float* work);
void plain_backward(const Sizes& s, const Cell& cell, const CellGradients& d, float* work);

// Any activations and peepholes: one gate after the other in z, which is left holding W x + U h + P c + b.
class General {
 public:
  General(const LstmShape& shape);
  static int64_t floats(const Sizes& s) { return 8 * s.N * s.padded; }
  void forward(const Sizes& s, const Cell& cell, float* work) const;
  void backward(const Sizes& s, const Cell& cell, const CellGradients& d, float* work) const;

 private:
  std::unique_ptr<Plan> value_[5], slope_[5];
};

}  // namespace lstm
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
