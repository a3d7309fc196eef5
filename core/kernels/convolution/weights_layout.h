// Packing the weights of one group, and unpacking their gradient.
#pragma once
#include <cstdint>

#include "gemm/gemm.h"

namespace openbnns {
namespace OPENBNNS_ISA {

struct WeightsLayout {
  int64_t out_channels, in_channels, taps;  // w: [out_channels][in_channels][taps]
  Element element = {};                     // what w is stored as
  int64_t count() const { return out_channels * in_channels * taps; }
};

// packed: [in_channels / 16][taps][16 in][16 out] for output channels [block * 16, block * 16 + 16); zero-filled.
void pack_weights_by_output(const WeightsLayout& layout, const float* w, int64_t block, float* packed);

// The same for bytes, of which groups of neighbouring input channels are multiplied at once, as exact sums take them:
// packed: [groups / 16][taps][16 groups][16 out].
void pack_weight_groups(const WeightsLayout& layout, SumKind sums, const uint8_t* w, int64_t block, float* packed);

// packed: [out_channels / 16][taps][16 out][16 in] for input channels [block * 16, block * 16 + 16); zero-filled. Of
// floats.
void pack_weights_by_input(const WeightsLayout& layout, const float* w, int64_t block, float* packed);

// Either of the two with pairs of BFloat16: two neighbouring rows [16 out], or [16 in], become one, rounded, so that
// there are half as many blocks. packed: [blocks][taps][16][16] of `rows` rows.
void join_row_pairs(const float* packed, int64_t rows, int64_t taps, float* pairs);

// dw (+)= sum over g < parts of packed + g * part_stride, for output channels [block * 16, ...), input channels
// [in_block * 16, ...) and the form of pack_weights_by_output; the parts are added in order.
void unpack_weights(const WeightsLayout& layout, const float* packed, int parts, int64_t part_stride, int64_t block,
                    int64_t in_block, float* dw, bool accumulate);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
