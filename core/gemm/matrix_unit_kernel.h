// Body of the kernels on a matrix unit; included only by the sources that instantiate it.
//
// Two tiles of A by two of B are multiplied into four of C, which stay in the unit for all steps. Instructions has, by
// the numbers of tiles: zero<c>(), load<t>(address, stride in bytes), store<c>(address, stride), add_bfloat16<c, a,
// b>() and add_bytes<c, a, b>().
#pragma once
#include <cstring>

#include "gemm/matrix_unit.h"
#include "gemm/product_kernel_body.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

// One or two tiles of A by as many of B.
template <class Instructions, bool kBytes, bool kTwoRows, int kBlocks>
struct UnitTiles {
  static constexpr int kVectors = kBlocks * kBlock / kWidth;
  static constexpr int64_t kRowBytes = kWideColumns * sizeof(float);
  static constexpr int kSums = 2 * kUnitRows * kWideColumns;
  static constexpr bool kTwoColumns = kBlocks == 2;

  template <int kC, int kA, int kB>
  static OPENBNNS_INLINE void add() {
    if constexpr (kBytes)
      Instructions::template add_bytes<kC, kA, kB>();
    else
      Instructions::template add_bfloat16<kC, kA, kB>();
  }

  static OPENBNNS_INLINE void clear() {
    Instructions::template zero<0>();
    if constexpr (kTwoColumns) Instructions::template zero<1>();
    if constexpr (kTwoRows) {
      Instructions::template zero<2>();
      if constexpr (kTwoColumns) Instructions::template zero<3>();
    }
  }

  // kUnitRows steps; the second tiles lie a_second and b_second behind the first.
  static OPENBNNS_INLINE void steps(const float* a, int64_t a_row, int64_t a_second, const float* b, int64_t b_step,
                                    int64_t b_second) {
    Instructions::template load<4>(a, a_row * 4);
    Instructions::template load<6>(b, b_step * 4);
    add<0, 4, 6>();
    if constexpr (kTwoColumns) {
      Instructions::template load<7>(b + b_second, b_step * 4);
      add<1, 4, 7>();
    }
    if constexpr (kTwoRows) {
      Instructions::template load<5>(a + a_second, a_row * 4);
      add<2, 5, 6>();
      if constexpr (kTwoColumns) add<3, 5, 7>();
    }
  }

  // sums: [2 * kUnitRows][kWideColumns]
  static OPENBNNS_INLINE void read(float* sums) {
    Instructions::template store<0>(sums, kRowBytes);
    if constexpr (kTwoColumns) Instructions::template store<1>(sums + kBlock, kRowBytes);
    if constexpr (kTwoRows) {
      Instructions::template store<2>(sums + kUnitRows * kWideColumns, kRowBytes);
      if constexpr (kTwoColumns) Instructions::template store<3>(sums + kUnitRows * kWideColumns + kBlock, kRowBytes);
    }
  }

  // Rows [first, first + rows) of C, which begin at c.
  static void finish(const Tile& t, const float* sums, int first, int rows, float* c) {
    for (int row = first; row < first + rows; row++, c += t.c_row, sums += kWideColumns)
      OPENBNNS_UNROLL for (int v = 0; v < kVectors; v++) {
        float* to = c + v * t.c_block;
        const Vec sum = load(sums + v * kWidth);
        if (kBytes)
          store(to, t.write == Write::Add ? from_bits(bits(load(to)) + bits(sum)) : sum);
        else if (t.write == Write::Add)
          store(to, load(to) + sum);
        else if (t.write == Write::ColumnBias)
          store(to, sum + load(t.bias + v * kWidth));
        else if (t.write == Write::RowBias)
          store(to, sum + splat(t.bias[row]));
        else
          store(to, sum);
      }
  }
};

template <class Instructions, bool kBytes, bool kTwoRows, int kBlocks>
struct MatrixUnitKernel : UnitTiles<Instructions, kBytes, kTwoRows, kBlocks> {
  using Tiles = UnitTiles<Instructions, kBytes, kTwoRows, kBlocks>;

  static void run(const Tile& t) {
    Tiles::clear();
    const float *a = t.a, *b = t.b, *next = t.next;
    const int64_t second = kUnitRows * t.a_step;
    int left = t.entries;
    for (; left >= kUnitRows; left -= kUnitRows, a += kUnitRows, b += kUnitRows * t.b_step) {
      for (int i = 0; i < kUnitRows / 2; i++, next += t.next_step) __builtin_prefetch(next, 0, 2);
      // B stays in L1 for all tiles of A, which comes from L2.
      for (int row = 0; row < t.rows; row++) __builtin_prefetch(a + row * t.a_step + kUnitRows);
      Tiles::steps(a, t.a_step, second, b, t.b_step, kBlock);
    }
    if (left > 0) {  // behind B there is something else, which may be no number
      alignas(64) float rest[kUnitRows * kWideColumns] = {};
      for (int k = 0; k < left; k++) std::memcpy(rest + k * kWideColumns, b + k * t.b_step, kBlocks * kBlock * 4);
      Tiles::steps(a, t.a_step, second, rest, kWideColumns, kBlock);
    }
    alignas(64) float sums[Tiles::kSums];
    Tiles::read(sums);
    Tiles::finish(t, sums, 0, t.rows, t.c);
  }
};

template <class Instructions, bool kBytes, bool kTwoRows, int kBlocks, bool kPair>
struct MatrixUnitEntries : UnitTiles<Instructions, kBytes, kTwoRows, kBlocks> {
  using Tiles = UnitTiles<Instructions, kBytes, kTwoRows, kBlocks>;

  static void run(const Tile& t) {
    Tiles::clear();
    const int64_t second = kPair ? t.a_pair : kUnitRows * kBlock;
    for (int i = 0; i < t.entries; i++) {
      // A stays in L1 for all entries of its pixels, B comes from L2.
      const float* next = t.b + t.b_offset[i + 1 < t.entries ? i + 1 : i];
      for (int block = 0; block < kBlocks; block++)
        for (int k = 0; k < kUnitRows; k++) __builtin_prefetch(next + block * t.b_block + k * kBlock);
      Tiles::steps(t.a + t.a_offset[i], kBlock, second, t.b + t.b_offset[i], kBlock, t.b_block);
    }
    alignas(64) float sums[Tiles::kSums];
    Tiles::read(sums);
    if constexpr (kPair) {
      const int half = t.rows / 2;
      Tiles::finish(t, sums, 0, half, t.c);
      Tiles::finish(t, sums + kUnitRows * kWideColumns, half, half, t.c + t.c_pair);
    } else {
      Tiles::finish(t, sums, 0, t.rows, t.c);
    }
  }
};

template <class Instructions, bool kBytes>
TileKernel matrix_unit_kernel(int blocks, int rows) {
  static_assert(kWideBlocks == 2);
  if (rows > kUnitRows)
    return blocks == 2 ? MatrixUnitKernel<Instructions, kBytes, true, 2>::run
                       : MatrixUnitKernel<Instructions, kBytes, true, 1>::run;
  return blocks == 2 ? MatrixUnitKernel<Instructions, kBytes, false, 2>::run
                     : MatrixUnitKernel<Instructions, kBytes, false, 1>::run;
}

template <class Instructions, bool kBytes>
TileKernel matrix_unit_entries_kernel(int blocks, int rows, bool pair) {
  if (pair)
    return blocks == 2 ? MatrixUnitEntries<Instructions, kBytes, true, 2, true>::run
                       : MatrixUnitEntries<Instructions, kBytes, true, 1, true>::run;
  if (rows > kUnitRows)
    return blocks == 2 ? MatrixUnitEntries<Instructions, kBytes, true, 2, false>::run
                       : MatrixUnitEntries<Instructions, kBytes, true, 1, false>::run;
  return blocks == 2 ? MatrixUnitEntries<Instructions, kBytes, false, 2, false>::run
                     : MatrixUnitEntries<Instructions, kBytes, false, 1, false>::run;
}

template <class Instructions>
TileKernel matrix_unit_kernel(SumKind sums, int blocks, int rows) {
  return sums == SumKind::kByteQuads ? matrix_unit_kernel<Instructions, true>(blocks, rows)
                                     : matrix_unit_kernel<Instructions, false>(blocks, rows);
}

template <class Instructions>
TileKernel matrix_unit_entries_kernel(SumKind sums, int blocks, int rows, bool pair) {
  return sums == SumKind::kByteQuads ? matrix_unit_entries_kernel<Instructions, true>(blocks, rows, pair)
                                     : matrix_unit_entries_kernel<Instructions, false>(blocks, rows, pair);
}

}  // namespace
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
