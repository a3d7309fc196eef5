// Products of recurrent layers: h U^T at every step, and dz U on the way back. A task is a block of 16 hidden units (or
// a few) and a tile of rows: it multiplies, and then computes the gates of its units while they are in the cache. The
// recurrent weights are packed once; the operand on the left is written in packed form by the gates of the step before.
#pragma once
#include <algorithm>

#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "runtime/thread_pool.h"
#include "simd/lanes.h"

namespace openbnns {
namespace OPENBNNS_ISA {

// Hidden units are padded to whole blocks of 16, with zeros; columns of packed rows are blocks of 16 units, the gates
// of a block side by side.
struct StepSizes {
  int64_t N, H;
  int64_t padded, wide;  // H in whole blocks, and as many of them as there are gates
  int gates;
  int tile;  // rows of a register tile

  int64_t tiles() const { return (N + tile - 1) / tile; }
};

// Where the depth entries of the packed operands begin: [depth / 16][tile rows][16] on the left, [depth][16] on the
// right.
struct StepEntries {
  int count;
  int32_t *left, *right;

  // storage: floats(depth)
  StepEntries(const StepSizes& s, int64_t depth, float* storage)
      : count(static_cast<int>(depth / kDepth)),
        left(reinterpret_cast<int32_t*>(storage)),
        right(reinterpret_cast<int32_t*>(storage) + count) {
    constexpr int kPerBlock = kBlock / kDepth;
    for (int i = 0; i < count; i++) {
      left[i] = i / kPerBlock * s.tile * kBlock + i % kPerBlock * kDepth;
      right[i] = i * kDepth * kBlock;
    }
  }
  static int64_t floats(int64_t depth) { return round_up(2 * depth / kDepth, kBlock); }
};

// A matrix of N rows in tiles of s.tile rows, each [depth / 16][tile][16].
struct PackedRows {
  float* data;
  int64_t depth;
  int tile;

  float* rows_at(int64_t row) const { return data + row / tile * tile * depth + row % tile * kBlock; }
  // 16 values of a row
  float* block(int64_t row, int64_t b) const { return rows_at(row) + b * tile * kBlock; }
  static int64_t floats(const StepSizes& s, int64_t depth) { return s.tiles() * s.tile * depth; }
};

inline int threads_for_step(const StepSizes& s, int threads) {
  return useful_threads(threads,
                        2.0 * static_cast<double>(s.N) * static_cast<double>(s.wide) * static_cast<double>(s.padded));
}

// body(block, first row, rows) over groups of `group` blocks and tiles of rows; the tiles of one group follow each
// other, so that a worker keeps its part of the weights in its cache from step to step.
template <class Body>
void over_step_tasks(const StepSizes& s, int threads, int64_t group, Body&& body) {
  const int64_t blocks = s.padded / kBlock, groups = (blocks + group - 1) / group, tiles = s.tiles();
  parallel_items(threads, groups * tiles, [&](int64_t task) {
    const int64_t row = task % tiles * s.tile;
    body(task / tiles * group, row, std::min<int64_t>(s.tile, s.N - row));
  });
}

// How many lanes of a vector that begins at `unit` are units of the layer.
OPENBNNS_INLINE int64_t lanes_here(int64_t unit, int64_t H) {
  return std::max<int64_t>(0, std::min<int64_t>(kWidth, H - unit));
}

// The recurrent weights u[gate] [H][H] for z += h U^T: [units / 16][gate][padded][16].
inline void pack_recurrent(const StepSizes& s, const float* const* u, float* to) {
  const int64_t block = s.padded * kBlock;
  std::fill_n(to, s.wide * s.padded, 0.0f);
  for (int64_t unit = 0; unit < s.H; unit += kBlock)
    for (int g = 0; g < s.gates; g++)
      pack_transposed(u[g] + unit * s.H, s.H, std::min<int64_t>(kBlock, s.H - unit), s.H,
                      to + (unit / kBlock * s.gates + g) * block, block);
}

// The same for dh = dz U: [units / 16][wide][16].
inline void pack_recurrent_back(const StepSizes& s, const float* const* u, float* to) {
  std::fill_n(to, s.wide * s.padded, 0.0f);
  for (int64_t unit = 0; unit < s.H; unit += kBlock)
    for (int g = 0; g < s.gates; g++)
      pack_columns(u[g] + unit * s.H, s.H, std::min<int64_t>(kBlock, s.H - unit), s.H,
                   to + (unit / kBlock * s.gates + g) * kBlock * kBlock, s.wide * kBlock);
}

// Rows [N][H] in packed form; zeros for a null `from`.
inline void pack_states(const StepSizes& s, const float* from, const PackedRows& to) {
  std::fill_n(to.data, PackedRows::floats(s, to.depth), 0.0f);
  if (!from) return;
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t j = 0; j < s.H; j += kBlock)
      std::copy_n(from + n * s.H + j, std::min<int64_t>(kBlock, s.H - j), to.block(n, j / kBlock));
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
