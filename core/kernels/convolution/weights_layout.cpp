#include "kernels/convolution/weights_layout.h"

#include "common/scratch_uses.h"
#include "common/stored_rows.h"
#include "gemm/pack.h"
#include "kernels/convolution/byte_groups.h"
#include "runtime/scratch.h"
#include "simd/stored_numbers.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

constexpr int64_t kSquare = kBlock * kBlock;

// One 16 x 16 square: to[j][i] = from[i][j], rows `from_stride` and 16 apart.
OPENBNNS_INLINE void transpose_square(const float* from, int64_t from_stride, float* to) {
  for (int row = 0; row < kBlock; row += kWidth)
    for (int column = 0; column < kBlock; column += kWidth) {
      Vec r[kWidth];
      OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) r[i] = load(from + (row + i) * from_stride + column);
      transpose(r);
      OPENBNNS_UNROLL for (int i = 0; i < kWidth; i++) store(to + (column + i) * kBlock + row, r[i]);
    }
}

// columns[c * taps + t][16 out] of 16 output channels x `channels` input channels starting at w.
void transpose_outputs(const WeightsLayout& layout, const float* w, int outputs, int64_t channels, float* columns) {
  transpose_rows(w, layout.in_channels * layout.taps, outputs, channels * layout.taps,
                 [=](int64_t j) { return columns + j * kBlock; });
}

}  // namespace

void pack_weights_by_output(const WeightsLayout& layout, const float* w, int64_t block, float* packed) {
  int64_t taps = layout.taps, row = layout.in_channels * taps;
  int outputs = static_cast<int>(std::min<int64_t>(kBlock, layout.out_channels - block * kBlock));
  if (layout.in_channels % kBlock != 0)
    std::fill_n(packed + layout.in_channels / kBlock * taps * kSquare, taps * kSquare, 0.f);
  float* room = layout.element.is_float32() ? nullptr : scratch(kStoredB, static_cast<size_t>(taps * kSquare));
  for (int64_t c = 0; c < layout.in_channels; c += kBlock) {
    int64_t channels = std::min<int64_t>(kBlock, layout.in_channels - c);
    float* to = packed + c / kBlock * taps * kSquare;
    const auto from = float_rows(layout.element, moved(w, layout.element, block * kBlock * row + c * taps), row,
                                 outputs, channels * taps, room);
    int64_t tap = 0, lane = 0;  // of column j; columns are visited in order within each part of the block
    transpose_rows(from.data, from.stride, outputs, channels * taps, [&](int64_t j) {
      if (j == 0) tap = lane = 0;
      float* place = to + tap * kSquare + lane * kBlock;
      if (++tap == taps) tap = 0, lane++;
      return place;
    });
  }
}

void pack_weight_groups(const WeightsLayout& layout, SumKind sums, const uint8_t* w, int64_t block, float* packed) {
  const int64_t taps = layout.taps, row = layout.in_channels * taps, each = numbers_per_step(sums);
  const int64_t outputs = std::min<int64_t>(kBlock, layout.out_channels - block * kBlock);
  const int64_t groups = groups_of(layout.in_channels, sums);
  std::fill_n(packed, blocks_of(groups) * taps * kSquare, 0.f);
  for (int64_t o = 0; o < outputs; o++)
    for (int64_t g = 0; g < groups; g++) {
      const uint8_t* from = w + (block * kBlock + o) * row + g * each * taps;
      auto* to = reinterpret_cast<ByteGroup*>(packed + g / kBlock * taps * kSquare + g % kBlock * kBlock + o);
      join_bytes(sums, layout.element.type, false, from, taps, std::min(each, layout.in_channels - g * each), taps, to,
                 kSquare);
    }
}

void pack_weights_by_input(const WeightsLayout& layout, const float* w, int64_t block, float* packed) {
  int64_t taps = layout.taps, row = layout.in_channels * taps, first = block * kBlock;
  int64_t channels = std::min<int64_t>(kBlock, layout.in_channels - first);
  constexpr int64_t kTapGroup = 64;
  float columns[kBlock * kBlock];  // [16 in][16 out] of one tap
  if (channels < kBlock || layout.out_channels % kBlock != 0)
    std::fill_n(packed, blocks_of(layout.out_channels) * taps * kSquare, 0.f);
  for (int64_t k = 0; k < layout.out_channels; k += kBlock) {
    int outputs = static_cast<int>(std::min<int64_t>(kBlock, layout.out_channels - k));
    const float* from = w + k * row + first * taps;
    float* to = packed + k / kBlock * taps * kSquare;
    if (outputs == kBlock && channels == kBlock && taps <= kTapGroup) {
      float group[kTapGroup * kSquare];
      transpose_outputs(layout, from, outputs, channels, group);
      for (int64_t t = 0; t < taps; t++) transpose_square(group + t * kBlock, taps * kBlock, to + t * kSquare);
    } else {
      for (int64_t t = 0; t < taps; t++) {
        for (int64_t c = 0; c < channels; c++)
          for (int o = 0; o < outputs; o++) columns[c * kBlock + o] = from[o * row + c * taps + t];
        for (int o = 0; o < outputs; o++)
          for (int64_t c = 0; c < channels; c++) to[t * kSquare + o * kBlock + c] = columns[c * kBlock + o];
      }
    }
  }
}

void join_row_pairs(const float* packed, int64_t rows, int64_t taps, float* pairs) {
  if (rows % (2 * kBlock) != 0) std::fill_n(pairs + rows / (2 * kBlock) * taps * kSquare, taps * kSquare, 0.f);
  for (int64_t row = 0; row < rows; row += 2)
    for (int64_t t = 0; t < taps; t++) {
      const float* from = packed + (row / kBlock * taps + t) * kSquare + row % kBlock * kBlock;
      float* to = pairs + (row / 2 / kBlock * taps + t) * kSquare + row / 2 % kBlock * kBlock;
      for (int part = 0; part < kBlock; part += kWidth)  // the row behind the last is zero
        store(to + part, from_bits(round_to_bfloat16_pairs({load(from + part), load(from + kBlock + part)})));
    }
}

void unpack_weights(const WeightsLayout& layout, const float* packed, int parts, int64_t part_stride, int64_t block,
                    int64_t in_block, float* dw, bool accumulate) {
  const int64_t taps = layout.taps, row = layout.in_channels * taps, c = in_block * kBlock;
  const int outputs = static_cast<int>(std::min<int64_t>(kBlock, layout.out_channels - block * kBlock));
  float* to = dw + block * kBlock * row + c * taps;
  const int64_t columns = std::min<int64_t>(kBlock, layout.in_channels - c) * taps;
  float sums[kBlock * kBlock];  // [16 columns][16 out]
  int64_t tap = 0, lane = 0;
  for (int64_t j = 0; j < columns; j += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, columns - j);
    for (int64_t i = 0; i < count; i++) {
      const float* from = packed + tap * kSquare + lane * kBlock;
      if (++tap == taps) tap = 0, lane++;
      for (int part = 0; part < kBlock; part += kWidth) {
        Vec sum = load(from + part);
        for (int g = 1; g < parts; g++) sum += load(from + g * part_stride + part);
        store(sums + i * kBlock + part, sum);
      }
    }
    if (accumulate)
      unpack_block<true>(sums, count, to + j, row, outputs);
    else
      unpack_block<false>(sums, count, to + j, row, outputs);
  }
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
