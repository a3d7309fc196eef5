// Products of recurrent layers: h U^T at every step, and dz U on the way back. A task is a block of 16 hidden units (or
// a few) and a tile of rows: it multiplies, and then computes the gates of its units while they are in the cache. The
// recurrent weights are packed once; the operand on the left is written in packed form by the gates of the step before.
// In BFloat16 the weights are rounded when they are packed, and that operand beside the floats, which gates still read.
#pragma once
#include <algorithm>

#include "gemm/entry_sums.h"
#include "gemm/pack.h"
#include "gemm/pack_pairs.h"
#include "runtime/partition.h"
#include "runtime/thread_pool.h"
#include "simd/lanes.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Rows [first, first + rows) of a batch.
struct RowTile {
  int64_t number, first, rows;
};

// Hidden units are padded to whole blocks of 16, with zeros; columns of packed rows are blocks of 16 units, the gates
// of a block side by side.
struct StepSizes {
  int64_t N, H;
  int64_t padded, wide;  // H in whole blocks, and as many of them as there are gates
  int gates;
  EntrySums step_sums;
  int64_t tiles;  // of rows
  int tile;       // rows of the largest; the others have as many or one less

  StepSizes(int64_t batch, int64_t hidden, int gates, bool bfloat16)
      : N(batch),
        H(hidden),
        padded(round_up(hidden, kBlock)),
        wide(gates * padded),
        gates(gates),
        step_sums(bfloat16 && batch > kFewRows && gates * hidden * hidden >= kRoundedWeights),
        tiles(tiles_of(batch, step_sums.most_rows())),
        tile(tiles > 0 ? static_cast<int>((batch + tiles - 1) / tiles) : 1) {}
  RowTile rows_of(int64_t number) const {
    const int64_t first = N * number / tiles;
    return {number, first, N * (number + 1) / tiles - first};
  }
  // Of weights of 16 units that are packed for sums over so many numbers.
  int64_t block_floats(int64_t depth) const { return step_sums.steps(depth) * kBlock; }

 private:
  // So few are multiplied as floats, as they are by linear layers; and with fewer weights than these, rounding takes
  // what pairs save (measured on Zen 5).
  static constexpr int64_t kFewRows = 8, kRoundedWeights = int64_t{1} << 15;
  // As few as possible, or one more if that is what two workers can share, and the tiles stay large enough.
  static int64_t tiles_of(int64_t batch, int most) {
    constexpr int64_t kBusySums = 10;  // of vectors that it takes to keep the arithmetic units busy
    const int64_t fewest = (batch + most - 1) / most, even = round_up(fewest, 2);
    const bool is_busy = batch / std::max<int64_t>(1, even) * (kWideColumns / kWidth) >= kBusySums;
    return fewest > 1 && is_busy ? even : fewest;
  }
};

// Where the entries of packed operands begin: [steps / 16][tile rows][16] on the left, [steps][16] on the right.
struct StepEntries {
  int count;
  int32_t *left, *right;

  // storage: floats(depth)
  StepEntries(const StepSizes& s, int64_t depth, float* storage)
      : count(of(s, depth)),
        left(reinterpret_cast<int32_t*>(storage)),
        right(reinterpret_cast<int32_t*>(storage) + count) {
    const int entry = s.step_sums.entry(), per_block = kBlock / entry;
    for (int i = 0; i < count; i++) {
      left[i] = i / per_block * s.tile * kBlock + i % per_block * entry;
      right[i] = i * entry * kBlock;
    }
  }
  // Of sums over so many numbers.
  static int of(const StepSizes& s, int64_t depth) {
    return static_cast<int>(s.step_sums.steps(depth) / s.step_sums.entry());
  }
  static int64_t floats(int64_t depth) { return round_up(2 * depth / kDepth, kBlock); }
};

// A matrix of N rows in tiles, each [depth / 16][s.tile][16]; behind it, in BFloat16, [depth / 32][s.tile][16] of
// pairs.
struct PackedRows {
  float* data;
  int64_t depth;
  int tile;
  int64_t steps;           // of the pairs
  float* pairs = nullptr;  // in BFloat16

  PackedRows() = default;
  // storage: floats(s, depth)
  PackedRows(const StepSizes& s, int64_t depth, float* storage)
      : data(storage), depth(depth), tile(s.tile), steps(round_up(s.step_sums.steps(depth), kBlock)) {
    if (!s.step_sums.pairs()) return;
    pairs = storage + s.tiles * s.tile * depth;
    std::fill_n(pairs, floats(s, depth) - s.tiles * s.tile * depth, 0.0f);
  }

  float* rows_of(const RowTile& rows) const { return data + rows.number * tile * depth; }
  // 16 values of row n
  float* block(const RowTile& rows, int64_t n, int64_t b) const {
    return rows_of(rows) + (b * tile + n - rows.first) * kBlock;
  }
  // These 16 values are complete.
  OPENBNNS_INLINE void finished(const RowTile& rows, int64_t n, int64_t b) const {
    if (!pairs) return;
    const float* from = block(rows, n, b);
    float* row = pairs + rows.number * tile * steps + (b / 2 * tile + n - rows.first) * kBlock;
    auto* to = reinterpret_cast<uint16_t*>(row) + b % 2 * kBlock;
    for (int v = 0; v < kBlock; v += kWidth) store_bfloat16(to + v, load(from + v));
  }
  // What products read.
  const float* operand(const RowTile& rows) const { return pairs ? pairs + rows.number * tile * steps : rows_of(rows); }
  static int64_t floats(const StepSizes& s, int64_t depth) {
    const int64_t steps = s.step_sums.pairs() ? round_up(s.step_sums.steps(depth), kBlock) : 0;
    return s.tiles * s.tile * (depth + steps) + s.step_sums.floats_behind();
  }
};

// body(step, first block, blocks, tile of rows) for steps 0, 1, ... and groups of up to `most` blocks; the tiles of a
// group follow each other, so that its part of the weights is in the cache for all but the first. A matrix unit, if it
// multiplies the steps, is in use: to configure it takes as long as a fifth of the product of a small step.
template <class Body>
void over_steps(const StepSizes& s, int64_t steps, int threads, int64_t most, Body&& body) {
  const int64_t blocks = s.padded / kBlock;
  const auto run = [&](int64_t step, int64_t first, int64_t group, int64_t tile) {
    body(step, first, static_cast<int>(std::min(group, blocks - first)), s.rows_of(tile));
  };
  const double flops = 2.0 * static_cast<double>(s.N) * static_cast<double>(s.wide) * static_cast<double>(s.padded);
  // Samples do not depend on each other: a worker that takes its own through all steps waits for nobody.
  const int alone = useful_threads(threads, flops * static_cast<double>(steps));
  if (spreads_evenly(s.tiles, alone)) {
    parallel_ranges(alone, s.tiles, [&](int64_t first, int64_t last) {
      const MatrixUnitInUse unit(s.step_sums.kind());
      const Watch watch = current_watch();
      for (int64_t step = 0; step < steps; step++)
        for (int64_t block = 0; block < blocks; block += most) {
          watch.check();
          for (int64_t tile = first; tile < last; tile++) run(step, block, most, tile);
        }
    });
    return;
  }
  // Too few samples for that: workers share the units of every step, and keep their part of the weights in their
  // caches. They are awake from the step before, and worth calling for less than a single product.
  constexpr double kStepFlops = 6e4;
  const int64_t useful = std::min<int64_t>(threads, static_cast<int64_t>(flops / kStepFlops));
  const int together = static_cast<int>(std::clamp<int64_t>(useful, 1, std::max<int64_t>(1, blocks * s.tiles)));
  const int64_t group = even_group(blocks, most, std::max<int64_t>(1, together / std::max<int64_t>(1, s.tiles)));
  for (int64_t step = 0; step < steps; step++)
    parallel_items(together, (blocks + group - 1) / group * s.tiles, [&](int64_t task) {
      const MatrixUnitInUse unit(s.step_sums.kind());
      run(step, task / s.tiles * group, group, task % s.tiles);
    });
}

// How many lanes of a vector that begins at `unit` are units of the layer.
OPENBNNS_INLINE int64_t lanes_here(int64_t unit, int64_t H) {
  return std::max<int64_t>(0, std::min<int64_t>(kWidth, H - unit));
}

// The weights m[gate] [H][columns] for z += x M^T: [units / 16][gate][columns][16], blocks of units and a gate
// `block_floats` apart; units that pad the last of them are left as they are.
inline void pack_gates(const StepSizes& s, const float* const* m, int64_t columns, float* to, int64_t block_floats) {
  for (int64_t unit = 0; unit < s.H; unit += kBlock)
    for (int g = 0; g < s.gates; g++)
      pack_transposed(m[g] + unit * columns, columns, std::min<int64_t>(kBlock, s.H - unit), columns,
                      to + (unit / kBlock * s.gates + g) * block_floats, block_floats);
}

// Packed weights of so many blocks of units and gates, rounded to pairs if steps multiply those: [blocks][steps][16].
inline void pair_weights(const StepSizes& s, int64_t blocks, int64_t depth, float* packed) {
  if (!s.step_sums.pairs()) return;
  const int64_t block_floats = s.block_floats(depth), pairs = depth / 2 * kBlock;
  for (int64_t b = 0; b < blocks; b++) {
    float* to = packed + b * block_floats;
    pair_rows(packed + b * depth * kBlock, kBlock, depth, kBlock, to);
    std::fill(to + pairs, to + block_floats, 0.0f);
  }
}

// The recurrent weights u[gate] [H][H] for z += h U^T: [units / 16][gate][padded][16].
inline void pack_recurrent(const StepSizes& s, const float* const* u, float* to) {
  std::fill_n(to, s.wide * s.padded, 0.0f);
  pack_gates(s, u, s.H, to, s.padded * kBlock);
  pair_weights(s, s.wide / kBlock, s.padded, to);
}

// The same for dh = dz U: [units / 16][wide][16].
inline void pack_recurrent_back(const StepSizes& s, const float* const* u, float* to) {
  std::fill_n(to, s.wide * s.padded, 0.0f);
  for (int64_t unit = 0; unit < s.H; unit += kBlock)
    for (int g = 0; g < s.gates; g++)
      pack_columns(u[g] + unit * s.H, s.H, std::min<int64_t>(kBlock, s.H - unit), s.H,
                   to + (unit / kBlock * s.gates + g) * kBlock * kBlock, s.wide * kBlock);
  pair_weights(s, s.padded / kBlock, s.wide, to);
}

// Rows [N][H] in packed form, from a block on, and zeros everywhere else; all zeros for a null `from`.
inline void pack_states(const StepSizes& s, const float* from, const PackedRows& to, int64_t first_block = 0) {
  std::fill_n(to.data, PackedRows::floats(s, to.depth), 0.0f);
  if (!from) return;
  for (int64_t tile = 0; tile < s.tiles; tile++) {
    const RowTile rows = s.rows_of(tile);
    for (int64_t n = rows.first; n < rows.first + rows.rows; n++)
      for (int64_t j = 0; j < s.H; j += kBlock) {
        const int64_t block = first_block + j / kBlock;
        std::copy_n(from + n * s.H + j, std::min<int64_t>(kBlock, s.H - j), to.block(rows, n, block));
        to.finished(rows, n, block);
      }
  }
}

// Hands out consecutive pieces of a block of memory.
struct Cutter {
  float* next;
  float* take(int64_t floats) {
    float* piece = next;
    next += round_up(floats, kBlock);
    return piece;
  }
};

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
