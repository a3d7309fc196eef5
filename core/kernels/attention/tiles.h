// What the forward and the backward pass of attention heads share: memory of a worker, products over packed blocks.
//
// Scores are computed strip by strip (some target positions) and block by block (some source rows), never as a whole
// T x S matrix. A strip of scores is stored as [source / 16][position][16]: what the micro-kernel writes, what it reads
// as left operand over the source, and, read across, what it reads as left operand over the positions.
//
// In BFloat16, operands are rounded where they are packed, scores once they are finished, and a number of a block is a
// pair in 32 bits: [source / 32][position][16], and, over the positions, [source / 16][position / 2][16].
//
// Masks leave most rows of scores a first part that counts: of a tile of positions, what lies behind the longest of
// these parts is neither computed nor read.
#pragma once
#include <algorithm>

#include "gemm/pack.h"
#include "gemm/pack_pairs.h"
#include "kernels/attention/attention.h"
#include "simd/math.h"

namespace openbnns {
namespace OPENBNNS_ISA {

constexpr int kStripTiles = kWideRows > 8 ? 4 : 8;  // register tiles of a strip; its rows are what dk and dv sum over

// One head of one sample.
struct Heads::Pair {
  int64_t number, sample, head;
  const float *q, *k, *v, *dout;  // first row of the head
  float *o, *lse;
  const uint8_t* added;   // or floats
  int64_t row_bytes;      // of added
  uint64_t first_number;  // random number of its first score
  int64_t sources;        // source rows but for masked ones at the end
  bool limited;           // scores that count are the first ones of their row, as many as its limit says
  bool whole;             // every score has to be computed: a row is NaN, and what meets it becomes NaN
};

// Memory of one worker.
struct Heads::Tiles {
  float* keys_across;               // [S' / 16][K][16]: right operand of q k^T
  float* values_along;              // [V / 16][S'][16]: of p v; forward only
  float* values_across;             // [S' / 16][V][16]: of dout v^T; backward only, like what follows
  float* keys_along;                // [K / 16][S'][16]: of ds k
  float* dk;                        // [K / 16][S'][16]
  float* dv;                        // [V / 16][S'][16]
  int32_t* hidden;                  // [S'], all bits set where a score is -infinity
  float* q;                         // [K / 16][strip][16]
  float* dout;                      // [V / 16][strip][16]
  float* scores;                    // [block / 16][strip][16]: scores, then probabilities
  float* ds;                        // the same: gradients
  float* sums;                      // [max(K, V) / 16][strip][16]: o or dq in the making
  float *largest, *total, *factor;  // [strip]
  uint32_t* words;                  // random: see draw
  int32_t* limit;                   // [strip]: no score of a row counts from here on
  int32_t* reach;                   // [tiles of a strip]: the largest of them, at least 1
  // In BFloat16 only.
  float* pairs;          // of some rows, before they are packed
  float* paired_scores;  // [block / 32][strip][16]: an operand of products over the source
  float* q_over;         // [K / 16][strip / 2][16], pairs of positions; backward only, like what follows
  float* dout_over;      // [V / 16][strip / 2][16]
};

// Rows of matrices that are needed soon. The rows of a head lie far apart, which no processor foresees; they are asked
// for one by one, between other work, because only so many can be on their way at a time.
class Heads::Ahead {
 public:
  // Rows [first, first + count) of a matrix whose rows are `stride` apart.
  void add(const float* matrix, int64_t stride, int64_t first, int64_t count, int64_t columns) {
    rows_[matrices_++] = {matrix + first * stride, stride, count, columns};
  }
  // Row i of each of them. (Inline: GCC takes a function that only asks for memory for one that does nothing.)
  OPENBNNS_INLINE void ask(int64_t i) const {
    for (int m = 0; m < matrices_; m++) {
      const Rows& r = rows_[m];
      if (i >= r.count) continue;
      for (int64_t j = 0; j < r.columns; j += kBlock) __builtin_prefetch(r.first + i * r.stride + j, 0, 2);
    }
  }

 private:
  struct Rows {
    const float* first;
    int64_t stride, count, columns;
  };
  Rows rows_[8];
  int matrices_ = 0;
};

// How far the tiles of a strip reach into the block of source rows that begins at a column.
struct Heads::Extents {
  Extents(const EntrySums& sums, const Tiles& t, int tile, int64_t rows, int64_t column, int64_t block)
      : sums(sums), tile(tile), rows(rows) {
    for (count = 0; count * tile < rows; count++) {
      const int64_t left = t.reach[count] - column;
      depth[count] = std::min(block, left > 0 ? round_up(left, kDepth) : 0);
      most = std::max(most, columns(count));
    }
  }
  // Scores of tile n that are computed, in whole blocks of 16.
  int64_t columns(int64_t n) const { return round_up(depth[n], kBlock); }
  int64_t columns_of_row(int64_t i) const { return columns(i / tile); }
  // Of the sums of tile n.
  int64_t steps(int64_t n) const { return sums.steps(depth[n]); }

  const EntrySums sums;
  const int tile;
  const int64_t rows;
  int count;
  int64_t depth[kStripTiles];  // scores of tile n that are summed over; those behind them are 0
  int64_t most = 0;
};

// Left operand, right operand and result of products over packed blocks.
struct Product {
  EntrySums sums;
  TileForm form;
  const float* a;
  const int32_t* a_entries;
  int64_t a_row;  // elements from one row of A to the next
  const float* b;
  const int32_t* b_entries;
  int64_t b_block;
  int64_t depth;  // steps, whole entries
  float* c;       // rows 16 apart
  int64_t c_block;
  Write write;
};

// The tiles of a product, one after the other; what they share, and the kernel for their size, is found once.
class ProductTiles {
 public:
  explicit ProductTiles(const Product& p)
      : p_(p),
        entry_(p.form == TileForm::Matrix ? p.sums.entry() : kDepth),
        unit_(p.form == TileForm::Matrix ? p.sums.kind() : SumKind::kFloats) {
    tile_.a_offset = p.a_entries;
    tile_.b_offset = p.b_entries;
    tile_.b_block = p.b_block;
    tile_.c_row = kBlock;
    tile_.c_block = p.c_block;
    tile_.write = p.write;
  }

  // Rows i to i + rows - 1 and blocks j to j + wide - 1 of C (+)= A B, over so many steps.
  OPENBNNS_INLINE void multiply(int64_t i, int64_t rows, int64_t j, int wide, int64_t over) {
    if (rows != rows_ || wide != wide_) {
      rows_ = rows;
      wide_ = wide;
      kernel_ = p_.sums.kernel(p_.form, wide, static_cast<int>(rows));
      tile_.rows = static_cast<int>(rows);
    }
    tile_.a = p_.a + i * p_.a_row;
    tile_.b = p_.b + j * p_.b_block;
    tile_.entries = static_cast<int>(over / entry_);
    tile_.c = p_.c + i * kBlock + j * p_.c_block;
    kernel_(tile_);
  }

 private:
  const Product p_;
  const int entry_;
  const MatrixUnitInUse unit_;
  Tile tile_{};
  TileKernel kernel_ = nullptr;
  int64_t rows_ = 0;
  int wide_ = 0;
};

// C[rows][blocks * 16] (+)= A B, in tiles of `tile` rows.
inline void multiply(const Product& p, int64_t rows, int tile, int64_t blocks) {
  ProductTiles tiles(p);
  for (int64_t j = 0; j < blocks;) {
    const int wide = tile_blocks((blocks - j) * kBlock);
    for (int64_t i = 0; i < rows; i += tile) tiles.multiply(i, std::min<int64_t>(tile, rows - i), j, wide, p.depth);
    j += wide;
  }
}

// The same for C of scores: tile n has e.columns(n) columns.
template <class Extents>
void multiply_to_extent(const Product& p, const Extents& e) {
  ProductTiles tiles(p);
  for (int64_t j = 0; j < e.most / kBlock;) {
    const int widest = tile_blocks(e.most - j * kBlock);
    for (int n = 0; n < e.count; n++) {
      const int64_t i = int64_t{n} * e.tile, blocks = e.columns(n) / kBlock - j;
      if (blocks <= 0) continue;
      const int wide = blocks < widest ? 1 : widest;
      tiles.multiply(i, std::min<int64_t>(e.tile, e.rows - i), j, wide, p.depth);
    }
    j += widest;
  }
}

// The same for A of scores: the sums of tile n run over e.steps(n).
template <class Extents>
void multiply_over_extent(const Product& p, const Extents& e, int64_t blocks) {
  ProductTiles tiles(p);
  for (int64_t j = 0; j < blocks;) {
    const int wide = tile_blocks((blocks - j) * kBlock);
    for (int n = 0; n < e.count; n++) {
      const int64_t i = int64_t{n} * e.tile;
      if (e.depth[n] > 0) tiles.multiply(i, std::min<int64_t>(e.tile, e.rows - i), j, wide, e.steps(n));
    }
    j += wide;
  }
}

// to[row][column] = factor * blocks[column / 16][row][column % 16], factor null for 1
inline void unblock(const float* blocks, int64_t block_stride, int64_t rows, int64_t columns, const float* factor,
                    float* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; i++) {
    Vec f = splat(factor ? factor[i] : 1.0f);
    for (int64_t j = 0; j < columns; j += kWidth) {
      const float* from = blocks + j / kBlock * block_stride + i * kBlock + j % kBlock;
      int64_t count = columns - j;
      if (count >= kWidth)
        store(to + i * to_stride + j, load(from) * f);
      else
        store_partial(to + i * to_stride + j, load(from) * f, count);
    }
  }
}

// Rows that take part in sums over rows as zeros.
inline void clear_rows(float* blocks, int64_t block_stride, int64_t count, int64_t first, int64_t end) {
  if (first >= end) return;
  for (int64_t b = 0; b < count; b++)
    std::fill(blocks + b * block_stride + first * kBlock, blocks + b * block_stride + end * kBlock, 0.f);
}

// ---- parts of a row ----

// e^x for x <= 0, and 0 where that would be less than 2^-126: results that are no normal numbers take a hundred times
// as long, and the weights of masked scores are such results.
OPENBNNS_INLINE Vec weight(Vec x) {
  return select(x < splat(-87.0f), Vec{}, math::exp2_between(x * math::kLog2E));  // anything for smaller x
}

// A row of a strip's scores, vector by vector: inside(column, place) where all lanes lie before `visible`, edge(column,
// place) where some do, and outside(column, place) behind them, up to `columns`, whole blocks of 16.
template <class Inside, class Edge, class Outside>
OPENBNNS_INLINE void over_row(int64_t visible, int64_t columns, int64_t strip_block, Inside inside, Edge edge,
                              Outside outside) {
  int64_t j = 0, place = 0;
  for (; j + kBlock <= visible; j += kBlock, place += strip_block)
    OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) inside(j + part, place + part);
  for (; j < columns; j += kBlock, place += strip_block)
    OPENBNNS_UNROLL for (int part = 0; part < kBlock; part += kWidth) {
      const int64_t column = j + part;
      if (column + kWidth <= visible)
        inside(column, place + part);
      else if (column < visible)
        edge(column, place + part);
      else
        outside(column, place + part);
    }
}

template <int... kLane>
OPENBNNS_INLINE IntVec numbered_lanes(std::integer_sequence<int, kLane...>) {
  return IntVec{kLane...};
}
// The numbers of the lanes, counted from `first`.
OPENBNNS_INLINE IntVec lanes_from(int64_t first) {
  return numbered_lanes(std::make_integer_sequence<int, kWidth>{}) + splat_int(static_cast<int32_t>(first));
}

// -infinity where the byte is not zero, else 0
OPENBNNS_INLINE Vec minus_infinity_where(const uint8_t* p, int64_t count) {
  typedef uint8_t Bytes __attribute__((vector_size(kWidth)));
  Bytes bytes{};
  if (count >= kWidth)
    std::memcpy(&bytes, p, kWidth);
  else
    std::memcpy(&bytes, p, static_cast<size_t>(count));
  IntVec set = __builtin_convertvector(bytes, IntVec) != 0;
  return select(set, splat(-math::kInfinity), Vec{});
}

// What is added to one row of scores; nothing beyond the source.
struct NothingAdded {
  OPENBNNS_INLINE Vec at(int64_t) const { return Vec{}; }
};
struct FloatsAdded {
  const float* row;
  int64_t source;
  OPENBNNS_INLINE Vec at(int64_t column) const {
    const int64_t count = source - column;
    if (count >= kWidth) return load(row + column);
    return count > 0 ? load_partial(row + column, count) : Vec{};
  }
};
struct BytesAdded {
  const uint8_t* row;
  int64_t source;
  OPENBNNS_INLINE Vec at(int64_t column) const {
    const int64_t count = source - column;
    return count > 0 ? minus_infinity_where(row + column, count) : Vec{};
  }
};

typedef int32_t UnalignedInts __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

// scale * (q k^T) + added of the raw scores from `column` on, or -infinity where hidden, and, if `causal`, behind
// column `row` up to the source's end.
template <class Added>
OPENBNNS_INLINE Vec masked_score(const float* raw, Vec scale, const Added& added, const int32_t* hidden, bool causal,
                                 int64_t row, int64_t source, int64_t column) {
  IntVec mask = *reinterpret_cast<const UnalignedInts*>(hidden + column);
  if (causal) {
    const IntVec lanes = lanes_from(column);
    mask |= (lanes > splat_int(static_cast<int32_t>(row))) & (lanes < splat_int(static_cast<int32_t>(source)));
  }
  return select(mask, splat(-math::kInfinity), load(raw) * scale + added.at(column));
}

// Whether random words stand for what stays.
OPENBNNS_INLINE IntVec are_kept(const uint32_t* words, int32_t threshold) {
  typedef uint32_t UnalignedWords __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));
  const math::UIntVec number = *reinterpret_cast<const UnalignedWords*>(words) >> 9;
  return reinterpret_cast<IntVec>(number) >= splat_int(threshold);
}

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
