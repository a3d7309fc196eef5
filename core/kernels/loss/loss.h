// Pieces of the loss kernels, below the plan in loss.cpp.
//
// Every function computes losses and their slopes in one pass over the data: the loss is summed in double precision,
// the gradient is stored as it comes. Absent tensors are null.
#pragma once
#include <cstdint>

#include "kernels/loss/shape.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace loss {

// Numbers of BNNSLossFunction.
enum Function {
  kSoftmaxCrossEntropy = 1,
  kSigmoidCrossEntropy,
  kMeanSquareError,
  kHuber,
  kYolo,
  kLog,
  kCosineDistance,
  kHinge,
  kMeanAbsoluteError,
  kCategoricalCrossEntropy
};

// Numbers of BNNSLossReductionFunction.
enum Reduction { kNone, kSum, kWeightedMean, kMean, kNonZeroWeightMean };

// ---- elementwise losses: one value per element ----

// Consecutive elements of a sample, or of a packed batch; every pointer is [count].
struct Piece {
  const float* x;
  const float* t;
  const float* w;         // one weight per element, or null
  const float* upstream;  // one factor of the slope per element, or null
  float* dx;              // null: no gradient
  float* out;             // the losses themselves; null: only their sum
  int64_t count;
  float value_scale;  // multiplies what goes to out
  float slope_scale;  // multiplies every slope
  bool adds;          // dx += instead of dx =
};

// Returns the sum of w * l, without value_scale.
using PieceLoop = double (*)(const LossShape& shape, const Piece& piece);

struct PieceLoops {
  // Without w, upstream, out and adds: the sum alone, the sum and dx, dx alone.
  PieceLoop value, value_set, set;
  PieceLoop any, any_gradient;  // every pointer may be given; the second returns nothing of use
};

const PieceLoops& piece_loops(int function);

// ---- per-sample losses: one value per row ----

// One sample; pointers are [width].
struct Row {
  const float* x;
  const float* t;
  const float* w;  // one weight per element, or null: then `weight` is that of every element
  float weight;
  float* dx;          // null: no gradient
  float slope_scale;  // multiplies every slope
  bool adds;          // dx += instead of dx =
  bool streams;       // dx is too large for caches (simd/stream.h)
};

// The weighted loss of a row: weight * (factor * log(argument) - rest). The logarithms of a vector of rows are taken at
// once.
struct RowLoss {
  float weight, factor, argument;
  double rest;
};

using RowLoop = RowLoss (*)(const LossShape& shape, const Row& row);

RowLoop row_loop(int function);

// ---- Yolo ----

// One cell: x, t, dx are [anchors][box_size], anchors is [anchors][2]. Returns the loss of the cell, unweighted.
double yolo_cell(const YoloShape& yolo, float huber_delta, const float* anchors, const float* x, const float* t,
                 float* dx, float slope_scale, bool adds);

}  // namespace loss
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
