// Body of the micro-kernel and the tables of its instances; included only by the sources that instantiate them.
#pragma once
#include <utility>

#include "gemm/micro_kernel.h"

namespace openbnns {
namespace OPENBNNS_ISA {

enum class Rows { Plain, Edge, Pair };

// How a kernel multiplies and adds.
struct FloatProducts {
  static OPENBNNS_INLINE Vec add(Vec sum, Vec x, Vec column) {
#if defined(__FMA__) && !defined(__AVX512F__)
    // In place: free to choose another register for the result, GCC runs out of 16 of them in the largest tiles, and a
    // sum that goes through memory in every entry is what all others wait for.
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(column));
    return sum;
#else
    return sum + x * column;
#endif
  }
};

// A sum of addresses that the compiler must not take apart: it would keep a multiple of the step for each row.
OPENBNNS_INLINE float* next_address(float* p) {
  asm("" : "+r"(p));
  return p;
}

// The ways of writing that a form of tile has: each additional one costs an unrolled copy of the end of every instance.
template <Write... kWrite>
struct Writes {
  static constexpr bool has(Write write) { return ((kWrite == write) || ...); }
  static OPENBNNS_INLINE bool is(Write write, const Tile& t) {
    return has(write) && (sizeof...(kWrite) == 1 || t.write == write);
  }
};

// kRowStride and kStepStride place A[row][k] inside A_i; every entry has exactly kSteps steps, so the loop over entries
// is the only loop (an inner loop of 16 steps cost 15 % at 8 rows).
template <int kRows, int kBlocks, int kRowStride, int kStepStride, int kSteps, Rows kKind, class Ways,
          class Products = FloatProducts>
struct MicroKernel {
  static constexpr int kParts = kBlock / kWidth;  // vectors of a block of 16
  static constexpr int kVectors = kBlocks * kParts;
  static constexpr int kHalf = kKind == Rows::Pair ? kRows / 2 : kRows;

  // Floats of B asked for ahead of their use: B streams from L2, or L1 is shared with another thread.
  static constexpr int kAhead = kWidth == kBlock ? 256 : 0;

  // Entries [begin, end), without the kFirst first and kLast last rows (of each half in a pair).
  template <int kFirst, int kLast>
  static OPENBNNS_INLINE void multiply(const Tile& t, int begin, int end, Vec (&sum)[kRows][kVectors]) {
    const int64_t b_block = t.b_block, a_pair = t.a_pair;
    for (int i = begin; i < end; i++) {
      const float* a = t.a + t.a_offset[i];
      const float* b = t.b + t.b_offset[i];
      const float* second = kKind == Rows::Pair ? a + a_pair : a;
      OPENBNNS_UNROLL for (int k = 0; k < kSteps; k++) {
        Vec column[kVectors];
        OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
          const float* from = b + k * kBlock + (v / kParts) * b_block + (v % kParts) * kWidth;
          column[v] = load(from);
          if (kAhead > 0) __builtin_prefetch(from + kAhead, 0, 3);
        }
        OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) {
          if (row % kHalf < kFirst || row % kHalf >= kHalf - kLast) continue;
          bool upper = row < kHalf;
          int64_t place = (upper ? row : row - kHalf) * kRowStride + k * kStepStride;
          // Loaded once for all vectors: a multiplication by a scalar in memory loads it again, and with many rows the
          // loads are the limit (a quarter of the speed on Ice Lake).
          const Vec x = splat((upper ? a : second)[place]);
          OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) sum[row][v] = Products::add(sum[row][v], x, column[v]);
        }
      }
    }
  }

  // put(address in C, row, vector) for every vector of the tile, row after row.
  template <class Put>
  static OPENBNNS_INLINE void each(const Tile& t, Put put) {
    const int64_t c_row = t.c_row, c_block = t.c_block;
    float* p = t.c;
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) {
      if (kKind == Rows::Pair && row == kHalf) p = t.c + t.c_pair;
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
          put(p + (v / kParts) * c_block + (v % kParts) * kWidth, row, v);
      p = next_address(p + c_row);
    }
  }

  // Asks for the memory of C. (Not by each(): GCC takes a lambda that only asks for memory for one that does nothing.)
  static OPENBNNS_INLINE void ask_for_tile(const Tile& t) {
    float* p = t.c;
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) {
      if (kKind == Rows::Pair && row == kHalf) p = t.c + t.c_pair;
      OPENBNNS_UNROLL for (int block = 0; block < kBlocks; block++) __builtin_prefetch(p + block * t.c_block, 1);
      p = next_address(p + t.c_row);
    }
  }

  static OPENBNNS_INLINE void finish(const Tile& t, const Vec (&sum)[kRows][kVectors]) {
    if (Ways::is(Write::Add, t)) {
      each(t, [&](float* p, int row, int v) { store(p, load(p) + sum[row][v]); });
    } else if (Ways::is(Write::ColumnBias, t)) {
      Vec bias[kVectors];
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) bias[v] = load(t.bias + v * kWidth);
      each(t, [&](float* p, int row, int v) { store(p, sum[row][v] + bias[v]); });
    } else if (Ways::is(Write::RowBias, t)) {
      each(t, [&](float* p, int row, int v) { store(p, sum[row][v] + splat(t.bias[row])); });
    } else if (Ways::has(Write::Set)) {
      each(t, [&](float* p, int row, int v) { store(p, sum[row][v]); });
    }
  }

  static void run(const Tile& t) {
    Vec sum[kRows][kVectors];
    OPENBNNS_UNROLL for (int row = 0; row < kRows; row++) OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++)
        sum[row][v] = Vec{};
    if (Ways::is(Write::Add, t)) ask_for_tile(t);
    // With many rows, leaving one out saves less than the code costs: the row is multiplied by zeros.
    if constexpr (kKind == Rows::Plain || kRows > kWideRows) {
      multiply<0, 0>(t, 0, t.entries, sum);
    } else {
      multiply<1, 0>(t, 0, t.skip_first, sum);
      multiply<0, 0>(t, t.skip_first, t.skip_last, sum);
      multiply<0, 1>(t, t.skip_last, t.entries, sum);
    }
    finish(t, sum);
  }
};

// Instances for every number of rows: kernel[wide][rows].
template <int kRowStride, int kStepStride, int kSteps, Rows kKind, class Ways, int kWideLimit = kWideRows,
          int kNarrowLimit = kNarrowRows, class Products = FloatProducts>
struct KernelTable {
  TileKernel kernel[2][kNarrowLimit + 1];

  template <int kRows, int kBlocks>
  static constexpr TileKernel instance() {
    constexpr int kLimit = kBlocks == 2 ? kWideLimit : kNarrowLimit;
    if constexpr (kRows > kLimit || (kKind == Rows::Pair && (kRows % 2 != 0 || kRows > kWideLimit)))
      return nullptr;
    else
      return MicroKernel<kRows, kBlocks, kRowStride, kStepStride, kSteps, kKind, Ways, Products>::run;
  }
  template <int... kRows>
  constexpr explicit KernelTable(std::integer_sequence<int, kRows...>)
      : kernel{{nullptr, instance<kRows + 1, 1>()...}, {nullptr, instance<kRows + 1, kWideBlocks>()...}} {}

  static TileKernel get(int blocks, int rows) {
    static constexpr KernelTable table{std::make_integer_sequence<int, kNarrowLimit>{}};
    return table.kernel[blocks == 2][rows];
  }
};

// One source file each, so that they compile in parallel.
TileKernel matrix_kernel(int blocks, int rows);
TileKernel edge_kernel(int blocks, int rows);
TileKernel pair_kernel(int blocks, int rows);
TileKernel product_kernel(int blocks, int rows);
TileKernel streamed_kernel(int blocks, int rows);

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
