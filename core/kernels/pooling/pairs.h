// Pooling of one plane with 2 x 2 windows that neither overlap nor extend beyond the plane: directly from and to the
// caller's rows, without a bordered copy.
//
// x, dx: [height][width]; y, dz: [out_height][out_width] with 2 * out_height <= height and 2 * out_width <= width.
#pragma once
#include <cstdint>

#include "common/planes.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace pooling {

struct PairPlane {
  int64_t height, width, out_height, out_width;
};

// y = max + bias
void max_pairs(const PairPlane& plane, const float* x, float bias, float* y);
// also winner [out_height][pitch]: label [4] of the winning cell; whole vectors are written
void max_pairs_with_winners(const PairPlane& plane, const float* x, float bias, float* y, const int32_t* label,
                            int32_t* winner, int64_t pitch);
// dx = dz at the winner, 0 elsewhere
void max_pairs_backward(const PairPlane& plane, const float* x, const float* dz, float* dx);

// y = average + bias;  dx = dz / 4
void average_pairs(const PairPlane& plane, const float* x, float bias, float* y);
void average_pairs_backward(const PairPlane& plane, const float* dz, float* dx);

}  // namespace pooling
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
